//! What a process's output goes into besides FIFOs: log files, and a logging program.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinHandle;

use crate::logger::Logger;

/// How long a deleted process's output may take to be written down.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

/// The log files and the logging program of a process.
#[derive(Debug, Default)]
pub struct Logs(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    copies: Vec<JoinHandle<()>>,
    logger: Option<Logger>,
}

impl Logs {
    fn parts(&self) -> MutexGuard<'_, Parts> {
        // A panic while it was held leaves a list with or without one entry, both valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a logging program until the process is deleted.
    pub fn keep(&self, logger: Logger) {
        self.parts().logger = Some(logger);
    }

    /// Starts to write down what is read.
    pub fn copy(
        &self,
        mut from: impl AsyncRead + Send + Unpin + 'static,
        mut to: impl AsyncWrite + Send + Unpin + 'static,
    ) {
        let copy = tokio::spawn(async move {
            let copied = tokio::io::copy(&mut from, &mut to).await;
            if let Err(err) = copied {
                log::error!("output of a container is lost: {err}");
            }
            if let Err(err) = to.flush().await {
                log::error!("output of a container is lost: {err}");
            }
        });
        self.parts().copies.push(copy);
    }

    /// Waits until all is written down, and the logging program has ended.
    pub async fn close(&self) {
        let Parts { copies, logger } = std::mem::take(&mut *self.parts());
        for mut copy in copies {
            if tokio::time::timeout(DRAIN_PATIENCE, &mut copy).await.is_err() {
                copy.abort();
            }
        }
        if let Some(logger) = logger {
            logger.close().await;
        }
    }

    /// Lets go of all at once.
    pub fn abort(&self) {
        let Parts { copies, logger } = std::mem::take(&mut *self.parts());
        copies.iter().for_each(JoinHandle::abort);
        if let Some(logger) = logger {
            logger.abort();
        }
    }
}
