//! Exec: one more process of a container is described; Start runs it.

use baton_fault::{Code, Fault, Result};
use containerd_shim::asynchronous::io::Stdio;
use containerd_shim_protos::api::ExecProcessRequest;
use containerd_shim_protos::events::task::TaskExecAdded;
use containerd_shim_protos::topics;

use crate::process::{Phase, Process};
use crate::start::process_file;
use crate::task::Shim;

/// Adds a process to a container.
///
/// # Errors
/// `EXISTS` when there is one of that name, `STATE` when the container is paused or has ended, `USAGE` for a name that
/// is none.
pub fn add(shim: &Shim, request: &ExecProcessRequest) -> Result<()> {
    let container = shim.container(&request.id)?;
    if request.exec_id.is_empty() || !request.exec_id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    {
        return Err(Fault::new(Code::Usage, format!("exec in {}", request.id), "the exec id is no name")
            .advise("use letters, digits, `.`, `_` and `-`"));
    }
    container.must_be(&[Phase::Created, Phase::Starting, Phase::Running], "execute a process in")?;
    let spec = request.spec.as_ref().map(|any| any.value.clone()).unwrap_or_default();
    let stdio = Stdio::new(&request.stdin, &request.stdout, &request.stderr, request.terminal);
    container.add_exec(Process::new(&request.exec_id, stdio))?;
    let file = process_file(&container, &request.exec_id);
    if let Err(err) = std::fs::write(&file, spec) {
        container.remove_exec(&request.exec_id);
        return Err(Fault::io(format!("write {}", file.display()), &err));
    }
    let event =
        TaskExecAdded { container_id: request.id.clone(), exec_id: request.exec_id.clone(), ..Default::default() };
    shim.events.say(topics::TASK_EXEC_ADDED_EVENT_TOPIC, event);
    Ok(())
}
