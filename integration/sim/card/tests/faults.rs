//! Faults that a test orders for calls of programs. Needs root, to make device nodes.

mod machine;

use std::time::{Duration, Instant};

use machine::Machine;
use machine::api::Api;
use machine::player::{Player, cue, library};

/// Allocates as often as it is told, and says what came of it.
#[test]
#[ignore = "played in a process of its own"]
fn taker() {
    let Some(api) = library() else { return };
    // SAFETY: a place for a pointer.
    let mut said = cue(unsafe { (api.init)(0) });
    api.open();
    loop {
        let (mut pointer, start) = (0, Instant::now());
        // SAFETY: a place for a pointer.
        let code = unsafe { (api.allocate)(&raw mut pointer, 4096) };
        said = cue(format!("{said} {code} {}", start.elapsed() >= Duration::from_millis(200)));
    }
}

#[test]
fn a_call_fails_or_is_late_as_often_as_ordered() {
    let machine = Machine::with("h100");
    machine.order("fault=cuInit:error-100");
    let mut player = Player::start(&machine, "taker");
    assert_eq!(player.hear(), "100");
    // The fault is used up: cuInit succeeds now.
    assert_eq!(player.ask("a"), "a 0 false");
    machine.order("fault=cuMemAlloc_v2:error-2*2");
    assert_eq!(player.ask("b"), "b 2 false");
    assert_eq!(player.ask("c"), "c 2 false");
    assert_eq!(player.ask("d"), "d 0 false");
    machine.order("fault=cuMemAlloc_v2@nobody:error-2");
    assert_eq!(player.ask("e"), "e 0 false", "another program's");
    machine.order("fault=cuMemAlloc_v2:delay-200");
    assert_eq!(player.ask("f"), "f 0 true");
    // It is still met after a checkpoint.
    assert_eq!(player.round(&machine.driver()), [0; 4]);
    machine.order("fault=cuMemAlloc_v2:error-999");
    assert_eq!(player.ask("g"), "g 999 false");
}

#[test]
fn a_call_that_hangs_keeps_a_lock_out() {
    let machine = Machine::with("h100");
    let mut player = Player::start(&machine, "taker");
    player.hear();
    player.ask("a");
    machine.order("fault=cuMemAlloc_v2:hang");
    player.say("b");
    let (driver, start) = (machine.driver(), Instant::now());
    // Once the call hangs, locking fails; before, the gate may be free for a moment.
    while driver.lock(player.pid(), 100) == 0 {
        assert_eq!(driver.unlock(player.pid()), 0);
        assert!(start.elapsed() < machine::DEADLINE);
    }
    assert_eq!(driver.state(player.pid()), (0, 0));
}

#[test]
fn a_program_dies_in_a_call_and_its_card_is_free() {
    let machine = Machine::with("h100");
    let mut player = Player::start(&machine, "taker");
    player.hear();
    player.ask("a");
    machine.order("fault=cuMemAlloc_v2:crash");
    player.say("b");
    assert_eq!(player.end(), libc::SIGABRT);
    machine.wait_until_empty();
}

#[test]
fn a_program_dies_in_the_middle_of_a_checkpoint_and_the_caller_is_told() {
    let machine = Machine::with("h100");
    let mut player = Player::start(&machine, "taker");
    player.hear();
    player.ask("a");
    machine.order("fault=Checkpoint:crash");
    let (driver, pid) = (machine.driver(), player.pid());
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid)], [0, 304]);
    assert_eq!(player.end(), libc::SIGABRT);
    machine.wait_until_empty();
}

#[test]
fn a_deed_fails_as_ordered_and_so_does_a_call_of_who_orders_it() {
    let machine = Machine::with("h100");
    let mut player = Player::start(&machine, "taker");
    player.hear();
    player.ask("a");
    let (driver, pid) = (machine.driver(), player.pid());
    machine.order("fault=Lock:error-600");
    assert_eq!(driver.lock(pid, 5000), 600);
    machine.order("fault=cuCheckpointProcessLock:error-3");
    assert_eq!(driver.lock(pid, 5000), 3);
    assert_eq!(driver.state(pid), (0, 0));
    machine.order("fault=Restore:error-1");
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid), driver.restore(pid, &[])], [0, 0, 1]);
    assert_eq!([driver.restore(pid, &[]), driver.unlock(pid)], [0, 0]);
    assert_eq!(player.ask("b"), "b 0 false");
}

#[test]
fn faults_are_met_by_the_library_that_is_loaded_here_too() {
    let machine = Machine::with("h100");
    machine.order("fault=cuDeviceGetCount:error-46");
    let (api, mut count) = (Api::load(&machine.library()), 0);
    api.open();
    // SAFETY: a place for an int.
    unsafe {
        assert_eq!((api.device_count)(&raw mut count), 46);
        assert_eq!((api.device_count)(&raw mut count), 0);
    }
    assert_eq!(count, 1);
}
