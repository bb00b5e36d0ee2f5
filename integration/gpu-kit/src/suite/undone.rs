//! What cannot be done, and costs a job nothing.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_cuda::Driver;

use super::container::{Container, WORKLOAD, ok};
use crate::asked::Asked;
use crate::check::{Notes, Stop, Verdict, demand};
use crate::mig::MigCard;

/// A command that must fail with one line that names this code; the line.
fn refused(words: &[&str], code: &str) -> Result<String, String> {
    match ok(words) {
        Ok(said) => Err(format!("{} was done: {}", words.join(" "), said.trim())),
        Err(why) if why.contains(code) => Ok(why),
        Err(why) => Err(format!("{why}\nwhich is not {code}")),
    }
}

/// Memory that no driver saves.
pub fn save_refused(notes: &mut Notes) -> Verdict {
    let container = Container::start("managed", "0", &["managed", "4M"])?;
    let before = container.goes_on()?;
    notes.note(refused(&["baton", "save", container.id(), "localhost/kit/managed:1"], "CR_")?);
    let after = container.goes_on()?;
    demand(after.gpu() == before.gpu(), || format!("it was on {} and is on {}", before.gpu(), after.gpu()))
}

/// Whoever asked for the save is killed while it is made, at moments swept over the time that a save takes.
pub fn save_killed(notes: &mut Notes) -> Verdict {
    const ROUNDS: u32 = 6;
    let container = Container::start("killed", "0", &["hold", "256M"])?;
    container.goes_on()?;
    let begun = Instant::now();
    container.save(notes, &[])?;
    let (whole, mut hit) = (begun.elapsed(), 0);
    for round in 1..=ROUNDS {
        let mut save = Command::new("baton")
            .args(["save", container.id(), "localhost/kit/killed:2"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|err| format!("start baton: {err}"))?;
        std::thread::sleep(whole * round / (ROUNDS + 1));
        hit += u32::from(matches!(save.try_wait(), Ok(None)));
        let _ = save.kill();
        let _ = save.wait();
        container.goes_on()?;
    }
    let _ = ok(&["ctr", "image", "rm", "localhost/kit/killed:2"]);
    notes.note(format!("{hit} of {ROUNDS} kills hit a save; one takes {} ms", whole.as_millis()));
    // What goes on by itself of one that was killed holds the card for at most as long as a save takes.
    let end = Instant::now() + whole * 2 + Duration::from_secs(5);
    loop {
        match container.save(notes, &[]) {
            Ok(_) => break,
            Err(why) if why.contains("LEASE_BUSY") && Instant::now() < end => {}
            Err(why) => return Err(Stop::Failed(why)),
        }
    }
    container.goes_on()?;
    Ok(())
}

/// Cards that others have filled meanwhile.
pub fn restore_no_room(notes: &mut Notes) -> Verdict {
    let count = Driver::open()?.cards()?.len();
    let container = Container::start("roomless", "0", &["hold", "512M"])?;
    let before = container.goes_on()?;
    let image = container.save(notes, &["--stop"])?;
    let fill = |card: usize| -> Result<Container, String> {
        // It takes the room at once, and makes no second step.
        let words = ["hungry", "--leave", "256M", "--interval-ms", "3600000"];
        let filling = Container::start(&format!("filling{card}"), &card.to_string(), &words)?;
        filling.wait(1)?;
        Ok(filling)
    };
    let filling = (0..count).map(fill).collect::<Result<Vec<_>, _>>()?;
    let full = match Container::restore(WORKLOAD, &image, notes) {
        Ok(_) => return Err(Stop::Failed("it was restored though no card has room".to_owned())),
        Err(why) => why,
    };
    demand(full.contains("RESTORE_MEMORY"), || full.clone())?;
    notes.note(full.lines().next().unwrap_or_default());
    drop(filling);
    let back = Container::restore(WORKLOAD, &image, notes)?;
    let after = back.goes_on()?;
    demand(after.step > before.step, || format!("{} steps before, {} after", before.step, after.step))
}

/// A request for a MIG device, which this Baton does not give.
pub fn mig_refused(notes: &mut Notes) -> Verdict {
    let (_card, uuid) = MigCard::with_device()?;
    match Container::start("mig", &uuid, &["hold", "8M"]) {
        Ok(_) => Err(Stop::Failed(format!("a container was started on {uuid}"))),
        Err(why) => {
            notes.note(why.lines().next().unwrap_or_default());
            demand(why.contains("MIG"), || why.clone())
        }
    }
}
