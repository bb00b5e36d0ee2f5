//! Multicast groups, as NCCL's NVLS makes them: no process that has one can be checkpointed. Needs root, to make device nodes.

mod machine;

use std::thread::JoinHandle;
use std::time::Instant;

use machine::api::{Api, Handle};
use machine::by_handle::{GRANULE, GroupProperties};
use machine::player::{Player, cue, library};
use machine::{DEADLINE, Driver, Machine, open};

/// What a CUDA context holds.
const CONTEXT: u64 = 512 << 20;

/// Of two devices that share descriptors.
const PAIR: GroupProperties = GroupProperties { devices: 2, bytes: GRANULE, handle_types: 1, flags: 0 };

fn create(api: &Api, properties: GroupProperties) -> (i32, Handle) {
    let mut group = 0;
    // SAFETY: a whole description, and a place for a handle.
    (unsafe { (api.group_create)(&raw mut group, &raw const properties) }, group)
}

fn says_that_it_can(api: &Api) -> bool {
    let mut value = -1;
    // SAFETY: a place for an int.
    assert_eq!(unsafe { (api.attribute)(&raw mut value, 132, 0) }, 0);
    value == 1
}

#[test]
fn as_many_devices_join_a_group_as_it_is_made_for() {
    let (machine, api, _) = open("h100x3");
    assert!(says_that_it_can(&api));
    let (code, group) = create(&api, PAIR);
    assert_eq!(code, 0);
    let mut granularity = 0;
    // SAFETY: a whole description, a place for a size, and handles of ours.
    unsafe {
        assert_eq!((api.group_granularity)(&raw mut granularity, &PAIR, 0), 0);
        assert_eq!(granularity, GRANULE);
        let joined = [0, 0, 3, 1, 2].map(|device| (api.group_join)(group, device));
        assert_eq!(joined, [0, 1, 101, 0, 1], "twice, no such device, one too many");
        let start = api.reserve(GRANULE);
        assert_eq!((api.memory_map)(start, GRANULE, 0, group, 0), 1, "it has no memory");
        assert_eq!([(api.memory_release)(group), (api.memory_release)(group)], [0, 1]);
        assert_eq!((api.group_join)(group, 0), 1);
    }
    for (what, properties, code) in [
        ("no device", GroupProperties { devices: 0, ..PAIR }, 1),
        ("half a granule", GroupProperties { bytes: GRANULE / 2, ..PAIR }, 1),
        ("flags", GroupProperties { flags: 1, ..PAIR }, 1),
        ("fabric", GroupProperties { handle_types: 8, ..PAIR }, 801),
    ] {
        assert_eq!(create(&api, properties).0, code, "{what}");
    }
    assert_eq!(machine.books()[0].bytes, CONTEXT);
}

#[test]
fn cards_before_hopper_have_no_groups() {
    let (_machine, api, _) = open("a100-40x2");
    assert!(!says_that_it_can(&api));
    assert_eq!(create(&api, PAIR).0, 801);
}

/// Has a group that nobody has joined, and gives it up when it is told to.
#[test]
#[ignore = "played in a process of its own"]
fn caster() {
    let Some(api) = library() else { return };
    api.open();
    let (code, group) = create(&api, PAIR);
    assert_eq!(code, 0);
    cue("ready");
    // SAFETY: a handle of ours.
    assert_eq!(unsafe { (api.memory_release)(group) }, 0);
    cue("gone");
}

/// `pause` in the table of system calls (x86-64), as `/proc` shows it for a thread that is in it.
const PAUSE: &str = "34 ";

/// Has a locked process checkpointed; the outcome, or the call that goes on when the driver's thread in that process sleeps
/// for ever.
fn checkpoint(driver: &Driver, pid: i32) -> Result<i32, JoinHandle<i32>> {
    let (code, thread) = driver.thread(pid);
    assert_eq!(code, 0);
    let driver = *driver;
    let asking = std::thread::spawn(move || driver.checkpoint(pid));
    let (call, start) = (format!("/proc/{pid}/task/{thread}/syscall"), Instant::now());
    while !asking.is_finished() {
        if std::fs::read_to_string(&call).expect("a thread").starts_with(PAUSE) {
            return Err(asking);
        }
        assert!(start.elapsed() < DEADLINE);
        std::thread::yield_now();
    }
    Ok(asking.join().expect("no panic"))
}

#[test]
fn a_checkpoint_with_a_group_never_ends() {
    let machine = Machine::with("h100x2");
    let mut player = Player::start(&machine, "caster");
    player.hear();
    let (driver, pid) = (machine.driver(), player.pid());
    assert_eq!(driver.lock(pid, 5000), 0);
    let asking = checkpoint(&driver, pid).expect_err("it goes on");
    assert_eq!(machine.books()[0].bytes, CONTEXT, "the process has not left the card");
    drop(player);
    assert_eq!(asking.join().expect("no panic"), 304, "only its death ends the call");
    machine.wait_until_empty();
}

#[test]
fn a_process_that_has_given_its_groups_up_is_moved_as_any_other() {
    let machine = Machine::with("h100x2");
    let mut player = Player::start(&machine, "caster");
    player.hear();
    assert_eq!(player.ask("go"), "gone");
    let (driver, pid) = (machine.driver(), player.pid());
    assert_eq!(driver.lock(pid, 5000), 0);
    assert_eq!(checkpoint(&driver, pid).ok(), Some(0));
    assert_eq!([driver.restore(pid, &[]), driver.unlock(pid)], [0, 0]);
}
