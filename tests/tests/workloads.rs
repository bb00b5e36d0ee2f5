//! Whatever way a program uses its cards, it is saved while it runs, ends, and goes on elsewhere with the right result
//! (point 4).

use std::collections::BTreeSet;
use std::process::Stdio;

use baton_fault::Code;
use baton_tests::count::checksum_after;
use baton_tests::job::IMAGE;
use baton_tests::machine::Machine;
use baton_tests::python::PYTHON;
use baton_tests::until::until;
use serde::Deserialize;

/// What a workload says of itself.
#[derive(Clone, Debug, Deserialize)]
struct Report {
    step: u64,
    memory: u64,
    damaged: u64,
    refused: u64,
    parts: Vec<Part>,
}

/// One of its counts.
#[derive(Clone, Debug, Deserialize)]
struct Part {
    step: u64,
    checksum: String,
    gpu: String,
}

impl Report {
    /// Every count is the one known beforehand, and no memory is damaged.
    fn counted_right(self) -> Report {
        assert_eq!(self.damaged, 0, "{self:?}");
        for part in &self.parts {
            assert_eq!(part.checksum, format!("{:016x}", checksum_after(part.step)), "{self:?}");
        }
        self
    }

    fn gpus(&self) -> BTreeSet<&str> {
        self.parts.iter().map(|part| part.gpu.as_str()).collect()
    }
}

/// The workload's answer; it fails where it finds its own result wrong.
fn ask(node: &Machine, id: &str, question: &[&str]) -> Report {
    ask_by(&["/workload"], node, id, question)
}

/// The same, by another program.
fn ask_by(program: &[&str], node: &Machine, id: &str, question: &[&str]) -> Report {
    until(&format!("{id} is heard"), || {
        let line: Vec<&str> = program.iter().chain(question).copied().collect();
        let done = node.in_container(id, &line);
        // Until it listens there is nobody to ask.
        if !done.status.success() && done.stderr.contains("no workload answers") {
            assert_eq!(node.task_state(id), "RUNNING", "{done:?}");
            return None;
        }
        assert!(done.status.success(), "{done:?}");
        (!done.stdout.is_empty()).then(|| serde_json::from_str(&done.stdout).expect("a report"))
    })
}

fn run(node: &Machine, id: &str, command: &[&str]) {
    let command: Vec<&str> = ["/workload"].into_iter().chain(command.iter().copied()).collect();
    node.run_detached(&["--env", "NVIDIA_VISIBLE_DEVICES=all"], IMAGE, id, &command);
}

/// Runs a workload on one node, saves it in the middle, restores it on another node with other cards of the same model,
/// and lets it go on there. The reports before and after.
fn moved(name: &str, cards: &str, command: &[&str]) -> (Report, Report) {
    let a = Machine::start(&format!("{name}-a"), cards);
    let b = Machine::start_unlike(&a, &format!("{name}-b"), cards);
    let reference = &a.reference("1");
    run(&a, "job", command);
    ask(&a, "job", &["wait", "40"]);
    let before = ask(&a, "job", &["status"]);
    a.ok(&["baton", "save", "job", reference, "--push", "--stop"]);
    assert!(a.cards().iter().all(|card| card.used == 0), "the cards of {} are not free", a.name());
    b.ok(&["ctr", "image", "pull", reference]);
    b.run_detached(&[], reference, "job", &[]);
    let there = ask(&b, "job", &["status"]);
    assert!(there.step >= before.step, "it began at {} though it had got to {}", there.step, before.step);
    ask(&b, "job", &["wait", &(there.step + 40).to_string()]);
    let after = ask(&b, "job", &["status"]);
    let own: Vec<String> = b.cards().into_iter().map(|card| card.uuid).collect();
    assert_eq!(after.gpus(), own.iter().map(String::as_str).collect());
    (before, after)
}

#[test]
fn a_training_that_is_moved_in_the_middle_ends_with_the_result_known_beforehand() {
    let a = Machine::start("train-a", "h100");
    let b = Machine::start_unlike(&a, "train-b", "h100");
    let reference = &a.reference("1");
    run(&a, "job", &["train", "--steps", "500", "--interval-ms", "5"]);
    ask(&a, "job", &["wait", "100"]);
    a.ok(&["baton", "save", "job", reference, "--push", "--stop"]);
    b.ok(&["ctr", "image", "pull", reference]);
    let line = b.run_line(&["--rm", reference, "job"]);
    let done = b.end(b.command(["timeout", "60"].into_iter().chain(line)).stdout(Stdio::piped()).spawn().expect("ctr"));
    assert!(done.status.success(), "{done:?}");
    let last: Report = serde_json::from_str(done.stdout.trim()).expect("its verdict");
    // Computed apart from it, in Python: 1024 weights, 500 steps.
    assert_eq!((last.step, last.parts[0].checksum.as_str()), (500, "8d5ae4a142ff87c5"));
    assert_eq!(last.parts[0].gpu, b.card().uuid);
}

#[test]
fn several_processes_each_with_a_context_are_moved_together() {
    let (before, after) = moved("family", "h100", &["family", "--children", "3"]);
    assert_eq!((before.counted_right().parts.len(), after.counted_right().parts.len()), (4, 4));
}

#[test]
fn a_process_with_two_cards_gets_two_others() {
    let (before, after) = moved("two-cards", "h100x2", &["cards"]);
    let (before, after) = (before.counted_right(), after.counted_right());
    assert_eq!((before.parts.len(), after.gpus().len()), (2, 2));
    assert!(before.gpus().is_disjoint(&after.gpus()));
}

#[test]
fn streams_in_flight_and_pinned_memory_are_moved() {
    let (before, after) = moved("streams", "h100", &["streams", "--interval-ms", "1"]);
    assert!(before.counted_right().memory > 0);
    after.counted_right();
}

#[test]
fn memory_that_is_zero_compressible_and_random_arrives_as_it_was() {
    let (before, after) = moved("hold", "h100", &["hold", "100M"]);
    assert_eq!((before.counted_right().memory, after.counted_right().memory), (100 << 20, 100 << 20));
}

#[test]
fn a_program_at_the_limit_of_its_card_is_moved_and_goes_on_allocating() {
    let a = Machine::start("hungry-a", "h100");
    let b = Machine::start_unlike(&a, "hungry-b", "h100");
    let reference = &a.reference("1");
    // Another takes most of the card and keeps still, so that there is not more to be saved than a machine holds.
    run(&a, "full", &["hungry", "--leave", "800M", "--interval-ms", "3600000"]);
    ask(&a, "full", &["wait", "1"]);
    run(&a, "job", &["hungry", "--interval-ms", "1"]);
    let before = until("it meets the limit", || Some(ask(&a, "job", &["status"])).filter(|report| report.refused > 0));
    a.ok(&["baton", "save", "job", reference, "--push", "--stop"]);
    b.ok(&["ctr", "image", "pull", reference]);
    b.run_detached(&[], reference, "job", &[]);
    let there = ask(&b, "job", &["wait", &(before.step + 40).to_string()]);
    let after = ask(&b, "job", &["wait", &(there.step + 40).to_string()]).counted_right();
    assert!(after.refused >= before.counted_right().refused);
    // What fills a card is more than this machine has memory for: it is not touched.
    let line = a.refused(&["baton", "save", "full", &a.reference("2")], Code::NoSpace);
    assert!(line.contains("host memory"), "{line}");
    assert!(ask(&a, "full", &["status"]).counted_right().memory > 70 << 30);
}

#[test]
fn a_python_program_on_nvidias_own_bindings_is_moved() {
    let a = Machine::start("python-a", "h100");
    let b = Machine::start_unlike(&a, "python-b", "h100");
    let reference = &a.reference("1");
    a.import_python();
    // The program becomes a file of the container, which is saved with it.
    let script = format!("SCRIPT={}", include_str!("../../integration/workloads/python/count.py"));
    let kernels = format!("KERNELS={}", include_str!("../../integration/workloads/kernels/baton.ptx"));
    let begin = "printf %s \"$SCRIPT\" >/count.py; printf %s \"$KERNELS\" >/baton.ptx; exec python3 /count.py";
    let env = ["--env", "NVIDIA_VISIBLE_DEVICES=0", "--env", &script, "--env", &kernels];
    a.run_detached(&env, PYTHON, "job", &["sh", "-c", begin]);
    let program = &["python3", "/count.py"];
    let before = ask_by(program, &a, "job", &["wait", "40"]).counted_right();
    a.ok(&["baton", "save", "job", reference, "--push", "--stop"]);
    b.ok(&["ctr", "image", "pull", reference]);
    b.run_detached(&[], reference, "job", &[]);
    let there = ask_by(program, &b, "job", &["status"]).counted_right();
    assert!(there.step >= before.step, "it began at {} though it had got to {}", there.step, before.step);
    let after = ask_by(program, &b, "job", &["wait", &(there.step + 40).to_string()]).counted_right();
    assert_eq!(after.gpus(), BTreeSet::from([b.card().uuid.as_str()]));
}
