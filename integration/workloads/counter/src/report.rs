//! `status` and `wait`: a question over a unix socket in the container's own filesystem.
//!
//! ```text
//! question: "status" or "wait STEP", newline
//! answer:   "count STEP CHECKSUM GPU|- BYTES DAMAGED" or "error TEXT", newline
//! ```

use std::io::Write;
use std::os::unix::net::UnixStream;

use baton_workload::asking::{self, Asking};
use baton_workload::count::expected;

use crate::run::Counter;

/// Where.
pub const SOCKET: Asking =
    Asking { who: "counter", places: ["/run/counter.sock", "/tmp/counter.sock", "/counter.sock"], longest_line: 4096 };

/// Answers one question.
pub fn answer(counter: &Counter, mut stream: &UnixStream) {
    let line = SOCKET
        .read_line(stream)
        .and_then(|question| report(counter, &question))
        .unwrap_or_else(|e| format!("error {e}"));
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
    let mut stream = SOCKET.connect(socket)?;
    writeln!(stream, "{}", asking::question(at_least)).map_err(|e| format!("the counter has gone: {e}"))?;
    let line = SOCKET.read_line(&stream)?;
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
