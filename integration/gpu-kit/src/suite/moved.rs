//! Containers that are saved, stopped and restored.

use std::collections::BTreeSet;

use baton_cuda::Driver;

use super::container::{COUNT_PY, Container, Job, WORKLOAD, ok};
use crate::asked::{Asked, Status};
use crate::check::{Notes, Stop, Verdict, demand};
use crate::kit::IN_BED;

/// Saves a workload in the middle, with its end, and restores it; what it said before and after.
fn moved(notes: &mut Notes, id: &str, cards: &str, arguments: &[&str]) -> Result<(Status, Status), String> {
    moved_job(notes, WORKLOAD, id, cards, arguments)
}

fn moved_job(
    notes: &mut Notes,
    job: Job,
    id: &str,
    cards: &str,
    arguments: &[&str],
) -> Result<(Status, Status), String> {
    let container = Container::start_job(job, id, cards, arguments)?;
    let before = container.goes_on()?;
    let image = container.save(notes, &["--stop"])?;
    ok(&["ctr", "task", "delete", id]).or_else(|why| if why.contains("137") { Ok(String::new()) } else { Err(why) })?;
    let back = Container::restore(job, &image, notes)?;
    let there = back.status()?;
    if there.step < before.step {
        return Err(format!("it began at {} though it had got to {}", there.step, before.step));
    }
    let after = back.goes_on()?;
    notes.note(format!("{} steps before, {} after", before.step, after.step));
    Ok((before, after))
}

/// The simplest job.
pub fn counter(notes: &mut Notes) -> Verdict {
    moved(notes, "counter", "0", &["hold", "1M"])?;
    Ok(())
}

/// A training, to its end.
pub fn train(notes: &mut Notes) -> Verdict {
    /// 1024 weights, 500 steps: computed apart, in Python.
    const RIGHT: &str = "8d5ae4a142ff87c5";
    const STEPS: u64 = 500;
    let container = Container::start("train", "0", &["train", "--interval-ms", "5"])?;
    container.wait(100)?;
    let image = container.save(notes, &["--stop"])?;
    let back = Container::restore(WORKLOAD, &image, notes)?;
    // The pace leaves room between two steps, so a question may come a step late; it is asked again from the start.
    let status = back.wait(STEPS)?;
    demand(status.step != STEPS || status.parts[0].checksum == RIGHT, || format!("{status:?}, not {RIGHT}"))?;
    notes.note(format!("{} after {} steps", status.parts[0].checksum, status.step));
    back.goes_on()?;
    Ok(())
}

/// A parent and two children.
pub fn family(notes: &mut Notes) -> Verdict {
    let (_, after) = moved(notes, "family", "0", &["family", "--children", "2"])?;
    demand(after.parts.len() == 3, || format!("{} processes count", after.parts.len()))
}

/// All cards.
pub fn cards(notes: &mut Notes) -> Verdict {
    let count = Driver::open()?.cards()?.len();
    if count < 2 {
        return Err(Stop::CannotRun("there is one card".to_owned()));
    }
    let (_, after) = moved(notes, "cards", "all", &["cards"])?;
    let gpus: BTreeSet<&str> = after.parts.iter().map(|part| part.gpu.as_str()).collect();
    demand(gpus.len() == count, || format!("it counts on {} of {count} cards", gpus.len()))
}

/// Work that never ends.
pub fn streams(notes: &mut Notes) -> Verdict {
    moved(notes, "streams", "0", &["streams", "--interval-ms", "1"])?;
    Ok(())
}

/// A gibibyte.
pub fn hold(notes: &mut Notes) -> Verdict {
    let (before, after) = moved(notes, "hold", "0", &["hold", "1G"])?;
    demand(before.memory == 1 << 30 && after.memory == 1 << 30, || format!("it holds {} bytes", after.memory))
}

/// A counter in Python, on NVIDIA's own bindings.
pub fn python(notes: &mut Notes) -> Verdict {
    ok(&["ctr", "image", "import", &format!("{IN_BED}/python.tar")])?;
    moved_job(notes, COUNT_PY, "python", "0", &[])?;
    Ok(())
}
