//! The shim's end of the operator's socket of each container.

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Weak};

use baton_checkpoint::control::{Answer, Ask, receive, send, socket};
use baton_config::Settings;
use baton_fault::{Attempt, Result};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::container::Container;
use crate::save;
use crate::task::Shim;

/// Listens for operators of `container`, until it is gone. A container without such a socket runs all the same, so
/// a failure is only worth a line in the log.
pub fn serve(shim: &Arc<Shim>, container: &Arc<Container>) {
    let listener = match listen(shim, &container.id) {
        Ok(listener) => listener,
        Err(fault) => {
            log::error!("{fault}");
            return;
        }
    };
    let (shim, container) = (Arc::downgrade(shim), Arc::downgrade(container));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if container.strong_count() == 0 {
                return;
            }
            tokio::spawn(answer(stream, shim.clone(), container.clone()));
        }
    });
}

fn listen(shim: &Shim, id: &str) -> Result<UnixListener> {
    let path = socket(&shim.settings.paths.run, &shim.namespace, id);
    let folder = path.parent().unwrap_or(&path);
    std::fs::create_dir_all(folder).attempt(|| format!("make {}", folder.display()))?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
        .attempt(|| format!("close {} to others", folder.display()))?;
    // A socket that a shim before us left at this name is nobody's: containerd lets one shim have a container.
    remove_file(&path);
    UnixListener::bind(&path).attempt(|| format!("listen at {}", path.display()))
}

/// Removes the socket of a container that is gone. Whoever waits at it is woken by one last connection.
pub fn remove(settings: &Settings, namespace: &str, id: &str) {
    let path = socket(&settings.paths.run, namespace, id);
    // The listener's task ends at the next connection; nobody can be listening when this fails.
    drop(std::os::unix::net::UnixStream::connect(&path));
    remove_file(&path);
}

fn remove_file(path: &std::path::Path) {
    if let Err(err) = std::fs::remove_file(path)
        && err.kind() != std::io::ErrorKind::NotFound
    {
        log::warn!("remove {}: {err}", path.display());
    }
}

async fn answer(stream: UnixStream, shim: Weak<Shim>, container: Weak<Container>) {
    let (Some(shim), Some(container)) = (shim.upgrade(), container.upgrade()) else { return };
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    // Somebody who says nothing has only come to wake us (`remove`).
    if read.fill_buf().await.is_ok_and(<[u8]>::is_empty) {
        return;
    }
    let outcome = match receive(read).await {
        // The save goes on to its end whether or not the operator waits for it.
        Ok(Ask::Save(request)) => save::save_image(&shim, &container, &request).await,
        Err(fault) => Err(fault),
    };
    let answer = match outcome {
        Ok(saved) => Answer::Saved(saved),
        Err(fault) => {
            log::error!("{fault}");
            Answer::Fault(fault.to_string())
        }
    };
    if let Err(fault) = send(&mut write, &answer).await {
        log::info!("the operator did not wait: {fault}");
    }
}
