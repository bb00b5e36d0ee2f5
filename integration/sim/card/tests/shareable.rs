//! Memory by handles that processes share by file descriptor, as NCCL does, and what a checkpoint makes of it. Needs root, to
//! make device nodes.

mod machine;

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use machine::api::{Api, Handle};
use machine::by_handle::{GRANULE, Properties, pattern};
use machine::player::{Player, cue, library};
use machine::{Machine, open};

/// What a CUDA context holds.
const CONTEXT: u64 = 512 << 20;
/// What one piece of memory holds.
const PIECE: u64 = GRANULE as u64;

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const DESCRIPTOR: u32 = 1;

fn export(api: &Api, handle: Handle) -> (i32, i32) {
    let mut descriptor = -1;
    // SAFETY: a place for an int.
    (unsafe { (api.export)((&raw mut descriptor).cast(), handle, DESCRIPTOR, 0) }, descriptor)
}

fn import(api: &Api, descriptor: i32) -> (i32, Handle) {
    let mut handle = 0;
    // SAFETY: a place for a handle.
    (unsafe { (api.import)(&raw mut handle, descriptor as usize as *mut c_void, DESCRIPTOR) }, handle)
}

/// A descriptor of another process, taken over as PyTorch does it.
fn taken_from(pid: i32, descriptor: i32) -> OwnedFd {
    // SAFETY: plain numbers; the kernel returns new descriptors or -1.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        assert!(process >= 0, "pidfd_open");
        let process = OwnedFd::from_raw_fd(process);
        let taken = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), descriptor, 0) as i32;
        assert!(taken >= 0, "pidfd_getfd");
        OwnedFd::from_raw_fd(taken)
    }
}

#[test]
fn what_is_exported_is_the_same_memory_in_its_own_process() {
    let (machine, api, _) = open("h100");
    let (handle, start) = (api.create(GRANULE), api.reserve(GRANULE));
    let (code, descriptor) = export(&api, handle);
    assert_eq!(code, 0);
    assert_eq!(import(&api, descriptor), (0, handle));
    // SAFETY: a handle of ours.
    unsafe {
        assert_eq!((api.memory_release)(handle), 0);
        api.map(start, GRANULE, handle);
        assert_eq!([(api.memory_release)(handle), (api.memory_release)(handle)], [0, 1]);
        assert_eq!((api.memory_unmap)(start, GRANULE), 0);
    }
    assert_eq!(import(&api, descriptor), (1, 0), "the memory is gone");
    assert_eq!(machine.books()[0].bytes, CONTEXT);
}

#[test]
fn what_is_not_to_be_shared_is_not() {
    let (_machine, api, _) = open("h100");
    let (mut closed, mut descriptor) = (0, -1);
    let properties = Properties { handle_types: 0, ..Properties::on(0) };
    let handle = api.create(GRANULE);
    let place = (&raw mut descriptor).cast();
    // SAFETY: a whole description, and places for what comes back.
    unsafe {
        assert_eq!((api.memory_create)(&raw mut closed, GRANULE, &raw const properties, 0), 0);
        for (what, handle, kind, flags) in [
            ("not asked for", closed, DESCRIPTOR, 0),
            ("no handle", handle + 1, DESCRIPTOR, 0),
            ("of Windows", handle, 2, 0),
            ("flags", handle, DESCRIPTOR, 1),
        ] {
            assert_eq!((api.export)(place, handle, kind, flags), 1, "{what}");
        }
        assert_eq!((api.import)(&raw mut closed, std::ptr::null_mut(), 8), 801, "no fabric");
    }
    let other = std::fs::File::open("/dev/zero").expect("it is there");
    assert_eq!([import(&api, other.as_raw_fd()).0, import(&api, 12345).0], [1, 1]);
}

/// Exports a piece of memory and tells which descriptor it is.
#[test]
#[ignore = "played in a process of its own"]
fn exporter() {
    let Some(api) = library() else { return };
    api.open();
    let (handle, start) = (api.create(GRANULE), api.reserve(GRANULE));
    api.map(start, GRANULE, handle);
    assert_eq!(api.write(start, &pattern(GRANULE)), 0);
    let (code, descriptor) = export(&api, handle);
    assert_eq!(code, 0);
    cue(descriptor);
    cue(format!("{:?}", api.read(start, 4)));
    cue(format!("{:?}", api.read(start, 4)));
}

/// Takes it over, says what it finds and writes to it.
#[test]
#[ignore = "played in a process of its own"]
fn importer() {
    let Some(api) = library() else { return };
    api.open();
    let from = cue("ready");
    let (pid, descriptor) = from.split_once(' ').expect("pid and descriptor");
    let taken = taken_from(pid.parse().expect("a pid"), descriptor.parse().expect("a number"));
    let (code, handle) = import(&api, taken.as_raw_fd());
    assert_eq!(code, 0);
    drop(taken);
    let start = api.reserve(GRANULE);
    api.map(start, GRANULE, handle);
    assert!(api.read(start, GRANULE) == pattern(GRANULE));
    assert_eq!(api.write(start, &[9, 8]), 0);
    cue("imported");
    cue(format!("{:?}", api.read(start, 4)));
    // SAFETY: a handle of ours.
    assert_eq!(unsafe { [(api.memory_unmap)(start, GRANULE), (api.memory_release)(handle)] }, [0, 0]);
    cue("gone");
}

/// Both, once the memory is shared.
fn share(machine: &Machine) -> (Player, Player) {
    let (mut exporter, mut importer) = (Player::start(machine, "exporter"), Player::start(machine, "importer"));
    let descriptor = exporter.hear();
    assert_eq!(importer.hear(), "ready");
    assert_eq!(importer.ask(&format!("{} {descriptor}", exporter.pid())), "imported");
    (exporter, importer)
}

#[test]
fn a_descriptor_carries_memory_into_another_process_where_it_outlives_its_owner() {
    let machine = Machine::with("h100");
    let (mut exporter, mut importer) = share(&machine);
    assert_eq!(exporter.ask("go"), "[9, 8, 2, 3]");
    assert_eq!(machine.books()[0].bytes, 2 * CONTEXT + PIECE);
    drop(exporter);
    machine.wait_until_each_holds(CONTEXT + PIECE);
    assert_eq!(importer.ask("go"), "[9, 8, 2, 3]");
    assert_eq!(importer.ask("go"), "gone");
    machine.wait_until_each_holds(CONTEXT);
}

#[test]
fn who_has_exported_memory_comes_back_and_who_has_imported_some_does_not() {
    let machine = Machine::with_driver("h100", "595.45.04");
    let (mut exporter, mut importer) = share(&machine);
    let driver = machine.driver();
    assert_eq!(exporter.round(&driver), [0; 4]);
    assert_eq!(exporter.ask("go"), "[9, 8, 2, 3]");
    // What the importer has is another memory now.
    assert_eq!(machine.books()[0].bytes, 2 * (CONTEXT + PIECE));
    assert_eq!(importer.ask("go"), "[9, 8, 2, 3]");
    let pid = importer.pid();
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid)], [0, 0]);
    assert_eq!(driver.state(pid), (0, 2));
    machine.wait_until_each_holds(CONTEXT + PIECE);
    assert_eq!(driver.restore(pid, &[]), 1);
    assert_eq!(driver.state(pid), (0, 3), "no way back");
    assert_eq!([driver.restore(pid, &[]), driver.unlock(pid)], [304, 401]);
    machine.wait_until_each_holds(CONTEXT + PIECE);
    assert_eq!(exporter.ask("go"), "[9, 8, 2, 3]", "it goes on");
}
