//! State and Pids: what there is, told at once and without asking the engine.

use baton_checkpoint::cgroup::Cgroup;
use baton_fault::Result;
use containerd_shim::util::{convert_to_any, convert_to_timestamp};
use containerd_shim_protos::api;
use containerd_shim_protos::protobuf::MessageDyn;
use containerd_shim_protos::protobuf::well_known_types::any::Any;
use containerd_shim_protos::shim::oci::ProcessDetails;
use containerd_shim_protos::types::task::{ProcessInfo, Status};

use crate::container::Container;
use crate::process::{Phase, Process};

/// The state of a process.
pub fn state(container: &Container, process: &Process) -> api::StateResponse {
    let (phase, pid) = {
        let life = process.life();
        (life.phase, life.pid)
    };
    let exit = process.exit();
    api::StateResponse {
        id: container.id.clone(),
        exec_id: process.exec_id.clone(),
        bundle: container.bundle.display().to_string(),
        pid,
        status: status(phase, container).into(),
        stdin: process.stdio.stdin.clone(),
        stdout: process.stdio.stdout.clone(),
        stderr: process.stdio.stderr.clone(),
        terminal: process.stdio.terminal,
        exit_status: exit.map_or(0, |exit| exit.status),
        exited_at: exit.map(|exit| convert_to_timestamp(Some(exit.at))).into(),
        ..Default::default()
    }
}

/// A container that is frozen, or about to be, is so with all its processes.
fn status(phase: Phase, container: &Container) -> Status {
    match phase {
        Phase::Stopped => Status::STOPPED,
        _ if container.is_pausing() => Status::PAUSING,
        _ if container.init.life().phase == Phase::Paused => Status::PAUSED,
        Phase::Created | Phase::Starting => Status::CREATED,
        Phase::Running | Phase::Paused => Status::RUNNING,
    }
}

/// The processes of a container, those that were executed in it with their names; none before a checkpoint is restored.
///
/// # Errors
/// `NOT_FOUND` when it has ended.
pub fn pids(container: &Container) -> Result<api::PidsResponse> {
    let init = container.init.life().pid;
    if init == 0 {
        return Ok(api::PidsResponse::default());
    }
    let names = container.exec_pids();
    let cgroup = Cgroup::of(init)?;
    let processes = cgroup
        .pids()?
        .into_iter()
        .map(|pid| {
            let mut info = ProcessInfo { pid, ..Default::default() };
            if let Some(exec_id) = names.get(&pid) {
                info.info = exec_details(exec_id).into();
            }
            info
        })
        .collect();
    Ok(api::PidsResponse { processes, ..Default::default() })
}

/// Which exec a process is, as runc's shim tells it.
fn exec_details(exec_id: &str) -> Option<Any> {
    let details: Box<dyn MessageDyn> = Box::new(ProcessDetails { exec_id: exec_id.to_string(), ..Default::default() });
    convert_to_any(details).ok()
}
