//! How a running workload is asked: one line over a unix socket in the container's own file system, and one line back.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

/// Where a workload listens and is asked.
#[derive(Debug)]
pub struct Asking {
    /// What the workload is called in messages.
    pub who: &'static str,
    /// Tried in this order, by who listens and by who asks, where none is named.
    pub places: [&'static str; 3],
    /// The longest line either side reads, in bytes.
    pub longest_line: u64,
}

impl Asking {
    fn places<'p>(&'p self, named: Option<&'p str>) -> impl Iterator<Item = &'p str> {
        named.into_iter().chain(self.places.into_iter().filter(move |_| named.is_none()))
    }

    /// Listens at the place that is named, or the first that can be had.
    ///
    /// # Errors
    /// Why the last of them could not be had.
    pub fn listen(&self, named: Option<&str>) -> Result<UnixListener, String> {
        let mut why = String::new();
        for path in self.places(named) {
            let _ = std::fs::remove_file(path);
            match UnixListener::bind(path) {
                Ok(listener) => return Ok(listener),
                Err(error) => why = format!("cannot listen at {path}: {error}"),
            }
        }
        Err(why)
    }

    /// Connects to who listens there.
    ///
    /// # Errors
    /// Why nobody answers at the last of the places.
    pub fn connect(&self, named: Option<&str>) -> Result<UnixStream, String> {
        let mut why = String::new();
        for path in self.places(named) {
            match UnixStream::connect(path) {
                Ok(stream) => return Ok(stream),
                Err(error) => why = format!("no {} answers at {path}: {error}", self.who),
            }
        }
        Err(why)
    }

    /// Reads one line.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn read_line(&self, stream: &UnixStream) -> Result<String, String> {
        let mut line = String::new();
        BufReader::new(stream.take(self.longest_line)).read_line(&mut line).map_err(|e| e.to_string())?;
        Ok(line.trim_end().to_owned())
    }
}

/// Has each question answered by a thread of its own.
pub fn serve<S: Send + Sync + 'static>(listener: UnixListener, shared: Arc<S>, answer: fn(&S, &UnixStream)) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || answer(&shared, &stream));
        }
    });
}

/// What is asked: everything, or once so many steps are made.
pub fn question(at_least: Option<u64>) -> String {
    at_least.map_or_else(|| "status".to_owned(), |step| format!("wait {step}"))
}
