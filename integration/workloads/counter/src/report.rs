//! `status` and `wait`: a question over a unix socket in the container's own filesystem.
//!
//! ```text
//! question: "status" or "wait STEP", newline
//! answer:   "count STEP CHECKSUM GPU|- BYTES DAMAGED" or "error TEXT", newline
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use baton_workload::count::expected;

use crate::run::Counter;

/// Tried in this order, by who listens and by who asks.
pub const SOCKETS: [&str; 3] = ["/run/counter.sock", "/tmp/counter.sock", "/counter.sock"];

/// The longest line either side reads.
const LONGEST_LINE: u64 = 4096;

/// Listens at `socket` or the first place of [`SOCKETS`] that can be had.
pub fn listen(socket: Option<&str>) -> Result<UnixListener, String> {
    let mut why = String::new();
    for path in socket.as_slice().iter().copied().chain(SOCKETS.into_iter().filter(|_| socket.is_none())) {
        let _ = std::fs::remove_file(path);
        match UnixListener::bind(path) {
            Ok(listener) => return Ok(listener),
            Err(error) => why = format!("cannot listen at {path}: {error}"),
        }
    }
    Err(why)
}

fn read_line(stream: &UnixStream) -> Result<String, String> {
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST_LINE)).read_line(&mut line).map_err(|e| e.to_string())?;
    Ok(line.trim_end().to_owned())
}

/// Answers one question.
pub fn answer(counter: &Counter, mut stream: &UnixStream) {
    let line =
        read_line(stream).and_then(|question| report(counter, &question)).unwrap_or_else(|e| format!("error {e}"));
    let _ = writeln!(stream, "{line}");
}

fn report(counter: &Counter, question: &str) -> Result<String, String> {
    let damaged = match question.split_once(' ') {
        None if question == "status" => counter.damage()?,
        Some(("wait", step)) => {
            counter.wait_for(step.parse().map_err(|_| format!("{step:?} is no step"))?);
            0
        }
        _ => return Err(format!("unknown question {question:?}")),
    };
    let (count, gpu) = (counter.place.count()?, counter.place.gpu()?);
    let gpu = gpu.unwrap_or_else(|| "-".to_owned());
    Ok(format!("count {} {:016x} {gpu} {} {damaged}", count.step, count.checksum, counter.place.bytes()))
}

/// Asks the counter and prints its answer beside what it should be.
pub fn ask(socket: Option<&str>, at_least: Option<u64>) -> Result<(), String> {
    let mut stream = connect(socket)?;
    let question = at_least.map_or_else(|| "status".to_owned(), |step| format!("wait {step}"));
    writeln!(stream, "{question}").map_err(|e| format!("the counter has gone: {e}"))?;
    let line = read_line(&stream)?;
    let words: Vec<&str> = line.split(' ').collect();
    let ["count", step, checksum, gpu, bytes, damaged] = words.as_slice() else {
        let why = line.strip_prefix("error ").unwrap_or("it closed the connection");
        return Err(format!("the counter does not answer: {why}"));
    };
    let right = format!("{:016x}", expected(step.parse().map_err(|_| format!("{step:?} is no step"))?));
    let gpu = if *gpu == "-" { "null".to_owned() } else { format!("\"{gpu}\"") };
    println!(
        "{{\"step\":{step},\"checksum\":\"{checksum}\",\"expected\":\"{right}\",\"gpu\":{gpu},\"memory\":{bytes},\
         \"damaged\":{damaged}}}"
    );
    if right != *checksum {
        return Err(format!("after step {step} the checksum is {checksum}, not {right}"));
    }
    if *damaged != "0" {
        return Err(format!("{damaged} pieces of the additional memory are damaged"));
    }
    Ok(())
}

fn connect(socket: Option<&str>) -> Result<UnixStream, String> {
    let mut why = String::new();
    for path in socket.as_slice().iter().copied().chain(SOCKETS.into_iter().filter(|_| socket.is_none())) {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) => why = format!("no counter answers at {path}: {error}"),
        }
    }
    Err(why)
}
