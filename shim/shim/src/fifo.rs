//! A FIFO that containerd's client reads. The client opens it in its own time, and what is written and closed before that
//! is lost, or keeps the client waiting for ever for a writer: so no process counts as started before its reader is
//! there.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use baton_fault::{Attempt, Result};

/// Longest wait for a reader. One that does not come has most likely died; its output waits in the FIFO.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until somebody reads the FIFO, at most [`PATIENCE`]. While what is returned is held, a reader does not find the
/// end.
///
/// # Errors
/// `FILE` when the FIFO cannot be opened.
pub async fn awaited(path: &str) -> Result<Option<File>> {
    let what = || format!("open {path}");
    match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Err(err) if err.raw_os_error() == Some(libc::ENXIO) => {}
        opened => return opened.map(Some).attempt(what),
    }
    let blocked = path.to_owned();
    // It returns when there is a reader, whoever that is.
    let mut opening = tokio::task::spawn_blocking(move || OpenOptions::new().write(true).open(blocked));
    if let Ok(opened) = tokio::time::timeout(PATIENCE, &mut opening).await {
        let opened = opened.unwrap_or_else(|err| Err(std::io::Error::new(ErrorKind::Interrupted, err)));
        return opened.map(Some).attempt(what);
    }
    log::warn!("nobody reads {path} after {} s: what is written waits there", PATIENCE.as_secs());
    // A reader of its own ends the wait of that thread.
    let own = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).attempt(what)?;
    let _ = opening.await;
    drop(own);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn fifo() -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        let text = path.to_str().expect("text").to_owned();
        (folder, text)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_reader_that_comes_late_is_waited_for_and_a_writer_is_there_until_it_is_let_go() {
        let (_folder, path) = fifo();
        let (tell, told) = std::sync::mpsc::channel();
        let late = path.clone();
        let reader = std::thread::spawn(move || {
            // It opens only when the wait has begun.
            told.recv().expect("a word");
            let mut file = File::open(late).expect("opened");
            let mut all = String::new();
            file.read_to_string(&mut all).map(|_| all)
        });
        let waiting = awaited(&path);
        tokio::pin!(waiting);
        assert!(futures_poll(&mut waiting).await, "nobody reads it yet");
        tell.send(()).expect("told");
        let held = waiting.await.expect("opened");
        let mut writer = OpenOptions::new().write(true).open(&path).expect("opened");
        std::io::Write::write_all(&mut writer, b"said").expect("written");
        drop(writer);
        assert!(!reader.is_finished(), "its end is held");
        drop(held);
        assert_eq!(reader.join().expect("a thread").expect("read"), "said");
    }

    /// Whether it is still to be waited for, after a look.
    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
        tokio::time::timeout(Duration::from_millis(20), future).await.is_err()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_reader_that_is_there_is_not_waited_for_and_a_missing_fifo_is_told() {
        let (_folder, path) = fifo();
        let _reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).expect("opened");
        assert!(awaited(&path).await.expect("opened").is_some());
        let missing = awaited("/nowhere/fifo").await.expect_err("there is none");
        assert!(missing.to_string().contains("/nowhere/fifo"), "{missing}");
    }
}
