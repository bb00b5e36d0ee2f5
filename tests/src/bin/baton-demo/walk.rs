//! The seven points, in their order.

use std::fs;
use std::time::{Duration, Instant};

use baton_fault::{Code, Fault, Result};
use baton_nodes::NodeOptions;
use serde_json::Value;

use crate::host::{Host, parse};
use crate::job::{ask, listens};
use crate::show::Show;

/// The nodes that the walk starts.
pub const NODES: [&str; 3] = ["demo-a", "demo-b", "demo-c"];
const COUNTER: &str = "localhost/baton/counter:1";
const IMAGE: &str = "registry.test:5000/demo/job:1";
const RUN: &str = "ctr run -d --runtime io.containerd.baton.v2";
/// Of node A: enough for a save, and quick to fill.
const DISK: u64 = 2 << 30;
/// The job takes this long for one step, and not less.
const STEP: Duration = Duration::from_millis(10);
/// How long the driver takes for what it moves while the disk is filled: 64 MiB at this rate are two seconds.
const SLOW: u64 = 32 << 20;
const JOURNAL: &str = "/run/containerd/io.containerd.runtime.v2.task/default/train/baton-journal.jsonl";
const SIM_CARD: &str = "/run/baton-node/bin/baton-sim-card order --root /run/nvidia/driver";
/// How long the journal is watched for.
const JOURNAL_DEADLINE: Duration = Duration::from_secs(20);

/// Shows all, and checks what it shows.
pub fn walk() -> Result<()> {
    let mut show = Show::new();
    println!("Baton: a GPU job is saved on one node and goes on on another.");
    println!("The cards and their driver are simulated; containerd, CRIU and the registry are real.");
    let (a, b, c) = nodes(&mut show)?;
    start(&mut show, &a)?;
    let saved_at = save(&mut show, &a)?;
    go_on(&mut show, &b, saved_at)?;
    refuse(&mut show, &b, &c, saved_at)?;
    fail(&mut show, &a)?;
    look(&mut show, &a)?;
    for host in [a, b, c] {
        host.node.stop()?;
    }
    show.summary();
    Ok(())
}

fn nodes(show: &mut Show) -> Result<(Host, Host, Host)> {
    show.heading("1. Three nodes and a registry");
    show.say("Each node is an unpatched containerd with Baton, in namespaces of its own; nothing is shared");
    show.say("but the registry registry.test:5000.");
    let a = Host::start(show, 'A', NodeOptions::new(NODES[0]).cards("h100x2").disk(DISK))?;
    let b = Host::start(show, 'B', NodeOptions::new(NODES[1]).cards("h100"))?;
    let c = Host::start(show, 'C', NodeOptions::new(NODES[2]).cards("a100-40"))?;
    let mut uuids = Vec::new();
    for host in [&a, &b, &c] {
        for card in host.cards()? {
            show.output(&format!(
                "{}: {} {}, PCI {}",
                host.letter,
                text(&card["model"]),
                text(&card["uuid"]),
                text(&card["pci_bus_id"])
            ));
            uuids.push(text(&card["uuid"]).to_owned());
        }
    }
    uuids.sort();
    uuids.dedup();
    show.holds("there are four cards, each with a UUID of its own", uuids.len() == 4, uuids.len())?;
    let version = a.look("containerd --version")?;
    let number = version.split(' ').nth(2).unwrap_or_default().trim_start_matches('v').to_owned();
    let mut parts = number.split('.').map_while(|part| part.parse::<u32>().ok());
    let new = (parts.next(), parts.next()) >= (Some(2), Some(1));
    show.holds(&format!("containerd is {number}"), new, "2.1 or newer is needed")?;
    Ok((a, b, c))
}

fn start(show: &mut Show, a: &Host) -> Result<()> {
    show.heading("2. On A a job starts to count in the memory of one of the two cards");
    a.run(show, &format!("{RUN} --env NVIDIA_VISIBLE_DEVICES=0 {COUNTER} job"))?;
    listens(show, a, "job")?;
    let status = ask(show, a, "job", "wait 20")?;
    let cards = a.cards()?;
    show.holds("it counts on card 0, and its checksum is right", status.gpu == text(&cards[0]["uuid"]), &status.gpu)?;
    let seen = a.run(show, "ctr task exec --exec-id ls job /bin/ls /dev")?;
    let seen: Vec<&str> =
        seen.lines().filter(|name| name.trim_start_matches("nvidia").parse::<u32>().is_ok()).collect();
    show.output(&seen.join(" "));
    show.holds("it sees that card alone", seen == ["nvidia0"], seen.join(" "))?;
    let opened = a.run(show, "ctr task exec --exec-id open1 job /counter open 195 1")?;
    show.output(opened.trim());
    show.holds(
        "it cannot open the node of the other card, even one made by itself",
        opened.contains("\"EPERM\""),
        &opened,
    )
}

/// The step that the job had reached when it was saved for the last time, or one just before.
fn save(show: &mut Show, a: &Host) -> Result<u64> {
    show.heading("3. The job is saved while it goes on, then saved and stopped");
    let saved = a.run(show, &format!("baton save job {IMAGE} --push"))?;
    show.output(&saved);
    let before = ask(show, a, "job", "status")?;
    let after = ask(show, a, "job", "wait 300")?;
    show.holds("it went on counting, and its checksum is right", after.step > before.step, after.step)?;
    let saved = a.run(show, &format!("baton save job {IMAGE} --push --stop"))?;
    show.output(&important(&saved));
    let tasks = a.look("ctr task ls")?;
    show.holds(
        "it has stopped",
        tasks.lines().any(|line| line.starts_with("job ") && line.contains("STOPPED")),
        &tasks,
    )?;
    let users = a.cards()?[0]["users"].as_array().map_or(0, Vec::len);
    show.holds("nobody is left on its card", users == 0, users)?;
    Ok(after.step)
}

fn go_on(show: &mut Show, b: &Host, saved_at: u64) -> Result<()> {
    show.heading("4. B runs the image, and the job goes on");
    b.run(show, &format!("ctr image pull {IMAGE}"))?;
    restored(show, b, saved_at)
}

/// Runs the image on B and sees that it goes on from the step at which it was saved.
fn restored(show: &mut Show, b: &Host, saved_at: u64) -> Result<()> {
    let began = Instant::now();
    b.run(show, &format!("{RUN} {IMAGE} job"))?;
    let status = ask(show, b, "job", "status")?;
    let since = u64::try_from(began.elapsed().as_millis() / STEP.as_millis()).unwrap_or(u64::MAX);
    let goes_on = status.step >= saved_at && status.step - since.min(status.step) > 0;
    let claim = format!("it goes on from the step at which it was saved (after {saved_at}), and its checksum is right");
    show.holds(&claim, goes_on, format!("step {}, of which {since} can be new", status.step))?;
    let later = ask(show, b, "job", &format!("wait {}", status.step + 50))?;
    let card = text(&b.cards()?[0]["uuid"]).to_owned();
    show.holds("it counts on, on B's card", later.gpu == card, later.gpu)
}

fn refuse(show: &mut Show, b: &Host, c: &Host, saved_at: u64) -> Result<()> {
    show.heading("5. C has another kind of card and refuses");
    c.run(show, &format!("ctr image pull {IMAGE}"))?;
    let image = c.look(&format!("ctr image ls name=={IMAGE}"))?;
    let digest = image.split_whitespace().find(|word| word.starts_with("sha256:")).unwrap_or_default();
    let manifest = parse(&c.look(&format!("ctr content get {digest}"))?)?;
    let pages = memory(&manifest);
    show.say("The saved memory is taken out of C's store first: to refuse must not need it.");
    c.run(show, &format!("ctr content rm {}", pages.join(" ")))?;
    let why = c.refused(show, &format!("{RUN} {IMAGE} job"))?;
    show.output(&why);
    let whole = ["RESTORE_MODEL", "H100", "A100", "restore it on"].iter().all(|word| why.contains(word));
    show.holds("the refusal has a code, both values and what to do", !pages.is_empty() && whole, &why)?;
    let tasks = c.look("ctr task ls -q")?;
    show.holds("nothing runs on C", tasks.is_empty(), &tasks)?;
    show.say("The image is as good as before:");
    b.look("ctr task kill -s KILL job")?;
    gone(b, "job")?;
    restored(show, b, saved_at)
}

/// The digests of the blobs with the processes' memory.
fn memory(manifest: &Value) -> Vec<String> {
    let layers = manifest["layers"].as_array().cloned().unwrap_or_default();
    let pages = layers.iter().filter(|layer| text(&layer["mediaType"]).contains("checkpoint.pages"));
    pages.map(|layer| text(&layer["digest"]).to_owned()).collect()
}

/// Waits for the end of a container's program and removes the container.
fn gone(host: &Host, id: &str) -> Result<()> {
    let end = Instant::now() + JOURNAL_DEADLINE;
    while !host.look("ctr task ls")?.lines().any(|line| line.starts_with(id) && line.contains("STOPPED")) {
        if Instant::now() > end {
            return Err(Fault::new(Code::Deadline, format!("wait for the end of {id}"), "it still runs"));
        }
    }
    // ctr passes the program's exit status on, which after a kill is not 0.
    host.node.run(&["ctr", "task", "rm", id])?;
    host.look(&format!("ctr container rm {id}")).map(drop)
}

fn fail(show: &mut Show, a: &Host) -> Result<()> {
    show.heading("6. A save on A fails half way, and the job goes on");
    gone(a, "job")?;
    a.run(show, &format!("{RUN} --env NVIDIA_VISIBLE_DEVICES=0 {COUNTER} train /counter --memory 64M"))?;
    listens(show, a, "train")?;
    let before = ask(show, a, "train", "wait 20")?;
    let (card, store) = (a.cards()?[0].clone(), a.stored()?);
    show.say("The driver is made slow, so that the disk can be filled once the GPU memory leaves the card.");
    a.look(&format!("{SIM_CARD} copy-rate={SLOW}"))?;
    let why = save_on_a_full_disk(show, a)?;
    show.output(&why);
    let said = why.contains("NO_SPACE") && why.contains("No space left on device") && why.contains("goes on");
    show.holds("the error says what failed, and that the job goes on", said, &why)?;
    let after = ask(show, a, "train", "status")?;
    let later = ask(show, a, "train", &format!("wait {}", after.step + 20))?;
    show.holds(
        "the job goes on, and its checksum is right",
        before.step < after.step && later.gpu == before.gpu,
        after.step,
    )?;
    let now = a.cards()?[0].clone();
    show.holds("it holds its card as before", now == card, &now)?;
    let left = a.stored()?;
    show.holds("nothing half-made is left in containerd's store", left == store, left.join(" "))?;
    a.look("rm /var/lib/filling")?;
    a.look(&format!("{SIM_CARD} copy-rate=off"))?;
    show.say("With room on the disk it works:");
    let saved = a.run(show, "baton save train registry.test:5000/demo/train:1")?;
    show.output(&important(&saved));
    Ok(())
}

/// Begins a save, fills the disk once the journal says that the GPU memory is about to leave the card, and returns
/// what the save says.
fn save_on_a_full_disk(show: &Show, a: &Host) -> Result<String> {
    std::thread::scope(|scope| {
        let filling = scope.spawn(|| fill(a));
        let why = a.refused(show, "baton save train registry.test:5000/demo/train:1");
        filling.join().map_err(|_| Fault::new(Code::System, "fill the disk", "its thread panicked"))??;
        why
    })
}

fn fill(a: &Host) -> Result<()> {
    let (journal, end) = (a.node.root_path(JOURNAL), Instant::now() + JOURNAL_DEADLINE);
    while !fs::read_to_string(&journal).is_ok_and(|text| text.contains("restore-gpu")) {
        if Instant::now() > end {
            return Err(Fault::new(Code::Deadline, format!("watch {JOURNAL}"), "no step takes memory off the card"));
        }
        // The file appears and grows; nothing is lost by looking again a little later.
        std::thread::sleep(Duration::from_millis(2));
    }
    // What is reserved ends short of the last blocks; dd takes them.
    let all = "fallocate -l $(df -B1 --output=avail /var/lib | tail -1) /var/lib/filling; \
               dd if=/dev/zero bs=4k of=/var/lib/filling oflag=append conv=notrunc; true";
    a.node.run(&["sh", "-c", all]).map(drop)
}

fn look(show: &mut Show, a: &Host) -> Result<()> {
    show.heading("7. What a person wants to know");
    let devices = a.run(show, "baton devices")?;
    show.output(&devices);
    show.holds("the card is shown with the job that has it", devices.contains("/default/train"), "train is not named")?;
    let image = a.run(show, &format!("baton inspect {IMAGE}"))?;
    show.output(&image);
    show.holds(
        "the image says where it comes from and what it needs",
        image.contains("H100") && image.contains("demo-a"),
        "it does not",
    )
}

/// The first lines of what `baton save` prints: the steps were shown once.
fn important(saved: &str) -> String {
    let lines: Vec<&str> = saved.lines().filter(|line| !line.starts_with("    ")).collect();
    lines.join("\n")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
