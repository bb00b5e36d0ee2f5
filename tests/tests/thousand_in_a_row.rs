//! A shim that has seen a thousand containers is no larger than one that has seen a hundred.

use std::fs;

use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::Machine;
use baton_tests::until::until_equal;

/// Containers until the shim has all that it ever needs, and containers after that.
const WARM_UP: u32 = 100;
const MORE: u32 = 900;
/// By this annotation containers come into one shim.
const SANDBOX: &str = "io.kubernetes.cri.sandbox-id";
/// What the allocator may keep more of, in KiB: less than a hundred bytes for each container.
const ALLOWANCE: u64 = 90;

#[test]
fn a_thousand_containers_in_one_shim_leave_it_as_it_was() {
    let node = Machine::start("thousand", "none");
    let run = format!(
        "ctr run -d --runtime {RUNTIME} --label {SANDBOX}=pod --annotation {SANDBOX}=pod {IMAGE} pod /bin/sleep 100000"
    );
    node.ok(&["sh", "-c", &run]);
    let shim = node.shim_of("pod");
    let containers = |from: u32, to: u32| {
        let script = format!(
            "set -e; for n in $(seq {from} {to}); do ctr run --rm --runtime {RUNTIME} --label {SANDBOX}=pod \
             --annotation {SANDBOX}=pod {IMAGE} c$n /bin/true; done"
        );
        // In pieces, since a command is bounded in time.
        node.ok(&["sh", "-c", &script]);
    };
    let (mut from, pieces) = (1, 50);
    while from <= WARM_UP {
        containers(from, from + pieces - 1);
        from += pieces;
    }
    let before = Size::of(&node, shim);
    while from <= WARM_UP + MORE {
        containers(from, from + pieces - 1);
        from += pieces;
    }
    assert_eq!(node.shim_of("pod"), shim);
    // The first look may have met a connection that was just being closed, so there may be fewer now.
    let mut after = Size::of(&node, shim);
    until_equal("the last one is forgotten", &[true, true], || {
        after = Size::of(&node, shim);
        [after.files <= before.files, after.threads <= before.threads]
    });
    assert!(after.own <= before.own + ALLOWANCE, "it grew from {before:?} to {after:?}");
}

/// What a process has.
#[derive(Debug)]
struct Size {
    /// Memory of its own, in KiB.
    own: u64,
    files: usize,
    threads: usize,
}

impl Size {
    fn of(node: &Machine, pid: u32) -> Size {
        let folder = node.root_path(&format!("/proc/{pid}"));
        let status = fs::read_to_string(folder.join("status")).expect("its status");
        let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
        let count = |name: &str| fs::read_dir(folder.join(name)).expect(name).count();
        Size {
            own: own.trim().trim_end_matches(" kB").parse().expect("a number"),
            files: count("fd"),
            threads: count("task"),
        }
    }
}
