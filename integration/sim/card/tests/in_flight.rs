//! A lock waits for what was submitted, and what was in streams, on the host and in pools is as it was after a restore.
//! Needs root, to make device nodes.

mod machine;

use std::ffi::c_void;
use std::time::{Duration, Instant};

use machine::Machine;
use machine::player::{Player, cue, library};

const STEPS: u64 = 200;

/// What the counter's checksum is after 100 and 200 steps, computed apart from these programs (Python).
const AFTER_100: u64 = 0x5abe_7b21_1e14_87d4;

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

/// Two streams chained by events, pinned and registered host memory, and always something in flight.
#[test]
#[ignore = "played in a process of its own"]
fn busy() {
    let Some(api) = library() else { return };
    api.open();
    let (step, spin) = (api.kernel("baton_count_step"), api.kernel("baton_spin"));
    let (one, two) = (api.stream(1), api.stream(1));
    let (stepped, copied) = (api.event(), api.event());
    let state = api.memory(16);
    let mut pinned = std::ptr::null_mut();
    let mut registered = vec![0u64; 512];
    // SAFETY: handles of ours; memory of ours that lives until the end.
    unsafe {
        assert_eq!((api.set_8)(state, 0, 16), 0);
        assert_eq!((api.host_allocate)(&raw mut pinned, 16, 0), 0);
        assert_eq!((api.host_register)(registered.as_mut_ptr().cast(), 4096, 0), 0);
        cue("ready");
        for round in 1..=STEPS {
            assert_eq!((api.stream_wait)(one, copied, 0), 0);
            assert_eq!(api.run(step, one, &[state]), 0);
            assert_eq!(api.run(spin, one, &[1]), 0);
            assert_eq!((api.event_record)(stepped, one), 0);
            assert_eq!((api.stream_wait)(two, stepped, 0), 0);
            assert_eq!((api.to_host_async)(pinned, state, 16, two), 0);
            assert_eq!((api.copy)(registered.as_mut_ptr() as u64, state, 8), 0);
            assert_eq!((api.event_record)(copied, two), 0);
            if round == 100 {
                assert_eq!((api.synchronize)(), 0);
                let checksum = pinned.cast::<u64>().add(1).read();
                cue(format!("{:016x}", checksum));
            }
        }
        assert_eq!((api.synchronize)(), 0);
        let numbers = [pinned.cast::<u64>().read(), registered[0]];
        assert_eq!((api.host_unregister)(registered.as_mut_ptr().cast::<c_void>()), 0, "it is still registered");
        assert_eq!((api.host_free)(pinned), 0);
        cue(format!("{} {}", numbers[0], numbers[1] <= STEPS));
    }
}

#[test]
fn streams_in_flight_and_host_memory_survive() {
    let machine = Machine::with("h100");
    let mut player = Player::start(&machine, "busy");
    assert_eq!(player.hear(), "ready");
    let driver = machine.driver();
    player.say("go");
    for round in 0..5 {
        assert_eq!(player.round(&driver), [0; 4], "round {round}");
    }
    assert_eq!(player.hear(), format!("{AFTER_100:016x}"));
    player.say("go");
    for round in 0..5 {
        assert_eq!(player.round(&driver), [0; 4], "round {round}");
    }
    assert_eq!(player.hear(), format!("{STEPS} true"));
}

/// A kernel that runs for as long as it is told.
#[test]
#[ignore = "played in a process of its own"]
fn spinning() {
    let Some(api) = library() else { return };
    api.open();
    let (spin, stream) = (api.kernel("baton_spin"), api.stream(1));
    let milliseconds = cue("ready").parse().expect("a number");
    assert_eq!(api.run(spin, stream, &[milliseconds]), 0);
    cue("launched");
    // SAFETY: a handle of ours.
    assert_eq!(unsafe { (api.stream_synchronize)(stream) }, 0);
    cue("done");
}

#[test]
fn a_lock_waits_for_a_kernel_and_gives_up_in_time() {
    let machine = Machine::with("h100");
    let mut player = Player::start(&machine, "spinning");
    let driver = machine.driver();
    player.hear();
    assert_eq!(player.ask("4000"), "launched");
    let start = Instant::now();
    assert_eq!(driver.lock(player.pid(), 100), 600);
    assert_eq!(driver.state(player.pid()), (0, 0));
    assert_eq!(driver.lock(player.pid(), 20_000), 0);
    assert!(start.elapsed() >= Duration::from_secs(3), "the kernel has ended first");
    assert_eq!(driver.unlock(player.pid()), 0);
    assert_eq!(player.ask("go"), "done");
}

/// Its threads end while it is locked; later calls wait.
#[test]
#[ignore = "played in a process of its own"]
fn late() {
    let Some(api) = library() else { return };
    api.open();
    let pointer = api.memory(8);
    assert_eq!(api.write(pointer, &7u64.to_le_bytes()), 0);
    cue("ready");
    // The process is checkpointed by now.
    println!("\ncue asking");
    cue(word(&api.read(pointer, 8)));
}

#[test]
fn a_call_of_a_checkpointed_process_waits_until_it_is_unlocked() {
    let machine = Machine::with("h100");
    let mut player = Player::start(&machine, "late");
    let (driver, pid) = (machine.driver(), player.pid());
    player.hear();
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid)], [0, 0]);
    assert_eq!(player.ask("go"), "asking");
    assert_eq!(driver.restore(pid, &[]), 0);
    assert_eq!(driver.state(pid), (0, 1), "it does not go on by itself");
    assert_eq!(driver.unlock(pid), 0);
    assert_eq!(player.hear(), "7");
}
