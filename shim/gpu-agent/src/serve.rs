//! The agent's side: reads requests, asks the driver, answers.

use std::io::{BufRead, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_fault::{Attempt, Code, Fault, Result};
use baton_gpu_agent::protocol::{Answer, Call, Hello, LINE_MAX, MAP_MAX, Request};
use serde::Serialize;

use crate::cuda::{Cuda, NoCuda};

/// Most calls at a time: one for each process of a container and some that hang.
const CALLS_MAX: usize = 4096;
/// Stack of a call's thread, in bytes: the driver's own code runs on it.
const STACK: usize = 1 << 20;

/// Serves until standard input ends.
///
/// # Errors
/// When the driver is not there, or a line is no request.
pub fn serve(libcuda: &Path) -> Result<()> {
    let cuda = match Cuda::load(libcuda) {
        Ok(cuda) => Arc::new(cuda),
        Err(NoCuda::Missing(fault)) => {
            say(&Hello::Failed(fault.to_string()))?;
            return Err(fault);
        }
        Err(NoCuda::Refused(code, name)) => {
            let why = format!("{name} ({code})");
            say(&Hello::Refused { code, name })?;
            return Err(Fault::new(Code::DriverMissing, format!("start CUDA from {}", libcuda.display()), why));
        }
    };
    say(&Hello::Ready(cuda.version()))?;
    let running = Arc::new(AtomicUsize::new(0));
    let mut input = std::io::stdin().lock();
    while let Some(request) = next(&mut input)? {
        if running.load(Ordering::Relaxed) >= CALLS_MAX {
            return Err(Fault::new(Code::State, "serve GPU calls", format!("more than {CALLS_MAX} calls hang")));
        }
        running.fetch_add(1, Ordering::Relaxed);
        let (cuda, running) = (Arc::clone(&cuda), Arc::clone(&running));
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || {
            // Nobody listens any more when this fails; standard input ends too then.
            let _ = say(&answer(&cuda, &request));
            running.fetch_sub(1, Ordering::Relaxed);
        });
        thread.attempt(|| "start a thread for a GPU call")?;
    }
    Ok(())
}

/// The next request; `None` at the end of the input.
fn next(input: &mut impl BufRead) -> Result<Option<Request>> {
    let refuse = |why: String| Fault::new(Code::Usage, "read a request from standard input", why);
    let mut line = String::new();
    input.take(LINE_MAX as u64 + 1).read_line(&mut line).attempt(|| "read a request from standard input")?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.len() > LINE_MAX {
        return Err(refuse(format!("more than {LINE_MAX} bytes in a line")));
    }
    let request: Request = serde_json::from_str(&line).map_err(|err| refuse(err.to_string()))?;
    if request.map.len() > MAP_MAX {
        return Err(refuse(format!("a map of more than {MAP_MAX} cards")));
    }
    Ok(Some(request))
}

fn answer(cuda: &Cuda, request: &Request) -> Answer {
    // A number that is no process id is one that no process has.
    let pid = i32::try_from(request.pid).unwrap_or(i32::MAX);
    let (code, value) = match request.call {
        Call::Version => (0, i64::from(cuda.version())),
        Call::State => {
            let (code, state) = cuda.state(pid);
            (code, i64::from(state))
        }
        Call::RestoreThread => {
            let (code, thread) = cuda.restore_thread(pid);
            (code, i64::from(thread))
        }
        Call::Lock => (cuda.lock(pid, request.timeout_ms.max(1)), 0),
        Call::Checkpoint => (cuda.checkpoint(pid), 0),
        Call::Restore => (cuda.restore(pid, &request.map), 0),
        Call::Unlock => (cuda.unlock(pid), 0),
    };
    Answer { id: request.id, code, name: cuda.name_of(code), value }
}

/// Writes one line, whole, whoever else writes.
fn say(message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message).map_err(|err| Fault::new(Code::System, "write an answer", err))?;
    line.push(b'\n');
    let mut output = std::io::stdout().lock();
    output.write_all(&line).and_then(|()| output.flush()).attempt(|| "write an answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines_of_bounded_length() {
        let mut input = &b"{\"id\":1,\"call\":\"state\",\"pid\":2}\n"[..];
        assert_eq!(next(&mut input).expect("request").expect("one").pid, 2);
        assert_eq!(next(&mut input), Ok(None));
        assert_eq!(next(&mut &b"{}\n"[..]).expect_err("no call").code, Code::Usage);
        assert_eq!(next(&mut vec![b' '; LINE_MAX + 2].as_slice()).expect_err("too long").code, Code::Usage);
    }
}
