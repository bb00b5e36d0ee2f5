//! The job: it counts in GPU memory, and its checksum after N steps is known beforehand.

use std::time::{Duration, Instant};

use baton_fault::{Code, Fault, Result};

use crate::host::{Host, parse};
use crate::show::Show;

/// How long a job may take to listen.
const LISTEN_DEADLINE: Duration = Duration::from_secs(20);

/// What the job answers when asked.
#[derive(Debug)]
pub struct Status {
    /// Steps done.
    pub step: u64,
    /// Its running checksum.
    pub checksum: String,
    /// What the checksum must be after so many steps.
    pub expected: String,
    /// The card it counts on.
    pub gpu: String,
}

/// Asks the container `id` and shows the answer. The question is `status`, or `wait STEP`, which is answered when the
/// step is done.
pub fn ask(show: &mut Show, host: &Host, id: &str, question: &str) -> Result<Status> {
    let exec = format!("ask{}", show.next_number());
    let text = host.run(show, &format!("ctr task exec --exec-id {exec} {id} /counter {question}"))?;
    let status = read(&text)?;
    show.output(&format!("step {}, checksum {}, on {}", status.step, status.checksum, status.gpu));
    if status.checksum != status.expected {
        show.holds("the checksum is right", false, format!("it should be {}", status.expected))?;
    }
    Ok(status)
}

/// Waits until the job that was just started listens to questions.
pub fn listens(show: &mut Show, host: &Host, id: &str) -> Result<()> {
    let end = Instant::now() + LISTEN_DEADLINE;
    loop {
        let exec = format!("ask{}", show.next_number());
        let done = host.node.run(&["ctr", "task", "exec", "--exec-id", &exec, id, "/counter", "wait", "1"])?;
        if done.status.success() {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(Fault::new(Code::Deadline, "ask the job for the first time", done.stderr.trim()));
        }
    }
}

fn read(text: &str) -> Result<Status> {
    let value = parse(text)?;
    let word = |key: &str| value[key].as_str().map(str::to_owned);
    let status = || {
        Some(Status {
            step: value["step"].as_u64()?,
            checksum: word("checksum")?,
            expected: word("expected")?,
            gpu: word("gpu")?,
        })
    };
    status().ok_or_else(|| Fault::new(Code::State, "read the job's answer", text.trim()))
}
