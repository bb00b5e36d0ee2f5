//! Delete: a process that has ended is forgotten, and with the init its container.

use std::time::Duration;

use baton_fault::{Code, Fault, Result};
use containerd_shim::util::convert_to_timestamp;
use containerd_shim_protos::api::{DeleteRequest, DeleteResponse};
use containerd_shim_protos::events::task::TaskDelete;
use containerd_shim_protos::topics;

use crate::container::Container;
use crate::create::unmount;
use crate::process::Phase;
use crate::task::Shim;
use crate::{control, members, save};

/// Longest wait for the end of what was killed.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// Forgets a process, or with the init the whole container.
///
/// # Errors
/// `NOT_FOUND`, or `STATE` while it runs.
pub async fn delete(shim: &Shim, request: DeleteRequest) -> Result<DeleteResponse> {
    let container = shim.settled(&request.id).await?;
    let process = container.process(&request.exec_id)?;
    let phase = process.life().phase;
    if matches!(phase, Phase::Running | Phase::Paused | Phase::Starting) {
        return Err(Fault::new(Code::State, format!("delete {}", request.id), format!("it is {phase:?}"))
            .advise("kill it first"));
    }
    if request.exec_id.is_empty() {
        delete_container(shim, &container).await?;
    } else {
        container.remove_exec(&request.exec_id);
    }
    process.close().await;
    let exit = process.exit();
    let response = DeleteResponse {
        pid: process.life().pid,
        exit_status: exit.map_or(0, |exit| exit.status),
        exited_at: exit.map(|exit| convert_to_timestamp(Some(exit.at))).into(),
        ..Default::default()
    };
    if request.exec_id.is_empty() {
        let event = TaskDelete {
            container_id: request.id.clone(),
            pid: response.pid,
            exit_status: response.exit_status,
            exited_at: response.exited_at.clone(),
            ..Default::default()
        };
        shim.events.say(topics::TASK_DELETE_EVENT_TOPIC, event);
    }
    Ok(response)
}

async fn delete_container(shim: &Shim, container: &Container) -> Result<()> {
    let _work = container.work.lock().await;
    match container.engine.delete(true).await {
        // A checkpoint that was never started is unknown to the engine.
        Err(fault) if fault.code != Code::NotFound => return Err(fault),
        _ => container.engine.record_deletion(),
    }
    members::forget(&container.id);
    // One that was never started has been killed just now; its end is said before its deletion.
    if container.init.life().pid != 0 && tokio::time::timeout(END_PATIENCE, container.init.wait()).await.is_err() {
        log::error!("the end of {} was not seen", container.id);
    }
    save::forget(shim, container).await;
    control::remove(&shim.settings, &shim.namespace, &container.id);
    unmount(&container.bundle);
    shim.forget(&container.id);
    Ok(())
}
