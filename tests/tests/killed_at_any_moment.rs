//! The shim, the engine and containerd are killed two hundred times, at moments swept over what they are at, and leave
//! nothing behind.

use std::time::{Duration, Instant};

use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::Machine;
use baton_tests::until::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How often somebody is killed.
const KILLS: u32 = 200;
/// After that many the node is looked over.
const LOOK_EVERY: u32 = 20;
/// The latest moment of a kill after the deed began: longer than any deed takes on an idle machine.
const SPAN: Duration = Duration::from_millis(90);

/// Who is killed.
const VICTIMS: [&str; 3] = ["containerd-shim-baton-v2", "baton", "containerd"];
/// What is under way.
const DEEDS: [Deed; 4] = [Deed::Run, Deed::Exec, Deed::Checkpoint, Deed::End];

#[derive(Clone, Copy, Debug)]
enum Deed {
    Run,
    Exec,
    Checkpoint,
    End,
}

impl Deed {
    fn command(self) -> Vec<&'static str> {
        match self {
            Deed::Run => vec!["ctr", "task", "start", "-d", "job"],
            Deed::Exec => vec!["ctr", "task", "exec", "--exec-id", "one", "job", "/bin/true"],
            Deed::Checkpoint => vec!["ctr", "task", "checkpoint", "--image-path", "/tmp/killed", "job"],
            Deed::End => vec!["ctr", "task", "rm", "-f", "job"],
        }
    }
}

#[test]
fn two_hundred_kills_leave_nothing() {
    let node = Machine::start("killed-often", "none");
    let mut hit = 0;
    for round in 0..KILLS {
        let victim = VICTIMS[round as usize % VICTIMS.len()];
        let deed = DEEDS[round as usize / VICTIMS.len() % DEEDS.len()];
        // Its snapshot is made while nobody is killed: containerd loses the count of its own when it is.
        node.ok(&["ctr", "container", "create", "--runtime", RUNTIME, IMAGE, "job", "/bin/sleep", "100000"]);
        if !matches!(deed, Deed::Run) {
            node.ok(&Deed::Run.command());
        }
        node.ok(&["rm", "-rf", "/tmp/killed"]);
        node.ok(&["mkdir", "/tmp/killed"]);
        // 37 and the number of kills have no common divisor: the moments fill the span evenly, in no order.
        let moment = SPAN * (round * 37 % KILLS) / KILLS;
        let under_way = node.begin(&deed.command());
        let began = Instant::now();
        while began.elapsed() < moment {
            std::hint::spin_loop();
        }
        hit += u32::from(strike(&node, victim));
        // It fails or not, as the moment was.
        node.end(under_way);
        containerd_is_back(&node);
        clear(&node, &format!("round {round}: {victim} killed at {deed:?} after {moment:?}"));
        if (round + 1) % LOOK_EVERY == 0 {
            node.no_trace_is_left();
        }
    }
    // A deed that was over already, or a victim that did not run at that moment, is no kill.
    assert!(hit >= KILLS / 3, "only {hit} of {KILLS} hit somebody");
    let status = node.run_cpu_job("after");
    node.wait_for_step("after", status.step + 5);
}

/// Kills all of that name at once; whether there was any.
fn strike(node: &Machine, victim: &str) -> bool {
    let mut hit = false;
    for pid in node.host_pids_of(victim) {
        hit |= kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok();
    }
    hit
}

fn containerd_is_back(node: &Machine) {
    until("containerd answers", || node.attempt(&["ctr", "image", "ls", "-q"]).stdout.contains(IMAGE).then_some(()));
}

/// As a user clears up: until nothing is listed.
fn clear(node: &Machine, what: &str) {
    until(&format!("all is removed after {what}"), || {
        node.attempt(&["ctr", "task", "rm", "-f", "job"]);
        node.attempt(&["ctr", "container", "rm", "job"]);
        // `ctr` leaves its own when containerd is gone in between; nothing of this test's has one of Baton's.
        node.attempt(&["sh", "-c", "for lease in $(ctr leases ls -q); do ctr leases rm $lease; done"]);
        let listed = |words: &[&str]| {
            let done = node.attempt(words);
            !done.status.success() || !done.stdout.trim().is_empty()
        };
        (!listed(&["ctr", "task", "ls", "-q"]) && !listed(&["ctr", "container", "ls", "-q"])).then_some(())
    });
}
