//! Memory by handles across a checkpoint, as PyTorch's expandable segments have it. Needs root, to make device nodes.

mod machine;

use std::ffi::c_void;

use machine::Machine;
use machine::by_handle::pattern;
use machine::counter::traces_of;
use machine::player::{Player, cue, library};

const MIB: usize = 1 << 20;
/// What a CUDA context holds.
const CONTEXT: u64 = 512 << 20;

/// Far more is reserved than there is, and pieces are mapped one behind the other. One is mapped
/// twice and its handle given back, one is not mapped yet.
#[test]
#[ignore = "played in a process of its own"]
fn grower() {
    let Some(api) = library() else { return };
    api.open();
    let start = api.reserve(100 << 30);
    let place = |mebibytes: u64| start + (mebibytes << 20);
    let (large, small, spare) = (api.create(4 * MIB), api.create(2 * MIB), api.create(6 * MIB));
    api.map(place(0), 4 * MIB, large);
    api.map(place(4), 2 * MIB, small);
    api.map(place(1024), 2 * MIB, small);
    // SAFETY: a handle of ours.
    assert_eq!(unsafe { (api.memory_release)(small) }, 0);
    assert_eq!(api.write(start, &pattern(6 * MIB)), 0);
    cue(format!("{start:#x}"));
    assert!(api.read(start, 6 * MIB) == pattern(6 * MIB), "as it was");
    assert_eq!(api.write(place(1024), &[9, 9]), 0);
    assert_eq!(api.read(place(4) - 1, 4)[1..3], [9, 9], "still the same memory");
    api.map(place(6), 6 * MIB, spare);
    assert_eq!(api.read(place(6), 2), [0, 0]);
    assert_eq!(api.run(api.kernel("baton_count_step"), 0, &[place(12) - 16]), 0);
    assert_eq!(api.read(place(12) - 16, 8), 1u64.to_le_bytes());
    cue("grown");
    // SAFETY: handles of ours, and a place for one.
    unsafe {
        let mut again = 0;
        assert_eq!((api.retain_handle)(&raw mut again, place(1024) as *mut c_void), 0);
        assert_eq!(again, small, "the same handle");
        assert_eq!(api.read(place(12) - 16, 8), 1u64.to_le_bytes());
        assert_eq!((api.memory_unmap)(start, 12 * MIB), 0);
        assert_eq!((api.memory_unmap)(place(1024), 2 * MIB), 0);
        assert_eq!([large, spare, small].map(|handle| (api.memory_release)(handle)), [0; 3]);
        assert_eq!((api.address_free)(start, 100 << 30), 0);
    }
    cue("gone");
}

#[test]
fn memory_by_handles_is_checkpointed_with_its_addresses_and_handles() {
    let machine = Machine::with("h100x2");
    let mut player = Player::start(&machine, "grower");
    assert_eq!(player.hear(), "0x100000000000");
    let (driver, pid, cards) = (machine.driver(), player.pid(), machine.books());
    let (first, second) = (cards[0].uuid.as_str(), cards[1].uuid.as_str());
    let held = |machine: &Machine| machine.books().iter().map(|card| card.bytes).collect::<Vec<_>>();
    let all = CONTEXT + 12 * MIB as u64;
    assert_eq!(held(&machine), [all, 0]);
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid)], [0, 0]);
    assert_eq!(held(&machine), [0, 0]);
    assert_eq!(traces_of(pid), Vec::<String>::new());
    assert_eq!(driver.restore(pid, &[(first, second), (second, first)]), 0);
    assert_eq!(driver.unlock(pid), 0);
    assert_eq!(player.ask("go"), "grown");
    assert_eq!(held(&machine), [0, all]);
    assert_eq!(player.round(&driver), [0; 4]);
    assert_eq!(player.ask("go"), "gone");
    assert_eq!(held(&machine), [0, CONTEXT]);
}
