//! `cuCheckpointProcess…`: the caller's side, for any process the caller may signal.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use baton_sim_wire::{Channel, Deed, MOST_CARDS, Reply, Request, UuidPair};

use crate::codes::{Code, Outcome, code_of, give};
use crate::version::DriverVersion;
use crate::{fault, init, thread};

/// Every args struct of the checkpoint API is 64 bytes.
type Args = [u8; 64];

/// How long an answer may still be under way after the target has ended, in milliseconds.
const LAST_WORD_MS: i32 = 1000;

/// The driver's thread in that process, as the caller numbers it.
fn thread_of(pid: i32) -> Outcome<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| Code::INVALID_VALUE)?;
    tasks
        .flatten()
        .find(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim_end() == thread::NAME))
        .and_then(|task| task.file_name().to_str().and_then(|name| name.parse().ok()))
        .ok_or(Code::INVALID_VALUE)
}

/// The process that `id` is a thread of, as the caller numbers it. CRIU's CUDA plugin asks for the state of a process by the
/// id of the driver's thread in it (`cuda_plugin_pause_devices`, CRIU 4.1 and newer).
fn process_of(id: i32) -> Outcome<i32> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).map_err(|_| Code::INVALID_VALUE)?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    process.and_then(|number| number.trim().parse().ok()).ok_or(Code::INVALID_VALUE)
}

/// Has the target's driver thread do something and waits for the outcome; the state afterwards comes along. `name` is
/// that of the C function, for faults that are ordered for the caller.
fn command(name: &str, pid: i32, deed: Deed) -> Outcome<u32> {
    let root = init::root()?;
    if !DriverVersion::of(root.version()).has_checkpoint() {
        return Err(Code::NOT_SUPPORTED);
    }
    let pid = process_of(pid)?;
    let tid = thread_of(pid)?;
    let channel = Channel::connect(&root.socket()).map_err(|_| Code::NOT_INITIALIZED)?;
    let ask = |request: &Request| channel.ask::<_, Reply>(request).map_err(|_| Code::OPERATING_SYSTEM);
    if let (Reply::Fault { action }, _) = ask(&Request::Fault { call: name.to_owned() })? {
        fault::suffer(action)?;
    }
    let target = open_process(pid).map_err(|_| Code::INVALID_VALUE)?;
    let (Reply::Ticket { ticket }, _) = ask(&Request::Command { deed })? else { return Err(Code::OPERATING_SYSTEM) };
    wake(pid, tid, ticket).map_err(|_| Code::OPERATING_SYSTEM)?;
    wait_for_answer(&channel, &target)?;
    match channel.receive().map_err(|_| Code::OPERATING_SYSTEM)? {
        Reply::Outcome { code: 0, state } => Ok(state),
        Reply::Outcome { code, .. } => Err(Code(code)),
        _ => Err(Code::OPERATING_SYSTEM),
    }
}

fn open_process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the kernel returns a new descriptor or -1.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(raw as i32) })
}

/// `siginfo_t` as `sigqueue` fills it (x86-64).
#[repr(C)]
struct QueuedSignal {
    number: i32,
    errno: i32,
    code: i32,
    padding: i32,
    pid: i32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

fn wake(pid: i32, tid: i32, ticket: u64) -> io::Result<()> {
    let number = thread::signal();
    let signal = QueuedSignal {
        number,
        errno: 0,
        code: libc::SI_QUEUE,
        padding: 0,
        pid: std::process::id() as i32,
        uid: 0,
        value: ticket,
        rest: [0; 12],
    };
    // SAFETY: the block is as large as siginfo_t (128 bytes) and lives through the call.
    let answer = unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, number, &raw const signal) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns when there is something to read, or an error when the target has ended without a word.
fn wait_for_answer(channel: &Channel, target: &OwnedFd) -> Outcome {
    let entry = |descriptor: i32| libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    let mut both = [entry(channel.as_fd().as_raw_fd()), entry(target.as_raw_fd())];
    let mut patience = -1;
    loop {
        let watched = if patience < 0 { 2 } else { 1 };
        // SAFETY: the array has at least `watched` entries.
        let ready = unsafe { libc::poll(both.as_mut_ptr(), watched, patience) };
        if ready < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
            continue;
        }
        if both[0].revents != 0 {
            return Ok(());
        }
        if ready <= 0 {
            return Err(Code::OPERATING_SYSTEM);
        }
        patience = LAST_WORD_MS;
    }
}

/// The args of a call; a null pointer stands for zeroes.
///
/// # Safety
///
/// `args` must be null or valid for 64 bytes.
unsafe fn read(args: *const Args) -> Args {
    // SAFETY: not null, and the C caller promises a whole block.
    if args.is_null() { [0; 64] } else { unsafe { args.read() } }
}

/// Reserved bytes must be zero.
fn reserved(bytes: &[u8]) -> Outcome {
    if bytes.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

fn word(args: &Args, at: usize) -> u32 {
    u32::from_ne_bytes([args[at], args[at + 1], args[at + 2], args[at + 3]])
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessGetRestoreThreadId(pid: i32, tid: *mut i32) -> i32 {
    // SAFETY: the C caller gives a place for an int.
    code_of(thread_of(pid).and_then(|found| unsafe { give(tid, found) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessGetState(pid: i32, state: *mut u32) -> i32 {
    // SAFETY: the C caller gives a place for a CUprocessState.
    code_of(command("cuCheckpointProcessGetState", pid, Deed::State).and_then(|found| unsafe { give(state, found) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessLock(pid: i32, args: *const Args) -> i32 {
    // SAFETY: the C caller gives null or a whole block.
    let args = unsafe { read(args) };
    let lock = || command("cuCheckpointProcessLock", pid, Deed::Lock { timeout_ms: word(&args, 0) });
    code_of(reserved(&args[4..]).and_then(|()| lock()).map(|_| ()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessCheckpoint(pid: i32, args: *const Args) -> i32 {
    // SAFETY: the C caller gives null or a whole block.
    let args = unsafe { read(args) };
    code_of(reserved(&args).and_then(|()| command("cuCheckpointProcessCheckpoint", pid, Deed::Checkpoint)).map(|_| ()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessRestore(pid: i32, args: *const Args) -> i32 {
    // SAFETY: the C caller gives null or a whole block.
    let args = unsafe { read(args) };
    // SAFETY: the C caller gives as many pairs as the block says.
    code_of(
        unsafe { pairs_of(&args, takes_pairs()) }
            .and_then(|pairs| command("cuCheckpointProcessRestore", pid, Deed::Restore { pairs }))
            .map(|_| ()),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessUnlock(pid: i32, args: *const Args) -> i32 {
    // SAFETY: the C caller gives null or a whole block.
    let args = unsafe { read(args) };
    code_of(reserved(&args).and_then(|()| command("cuCheckpointProcessUnlock", pid, Deed::Unlock)).map(|_| ()))
}

/// Whether this driver takes a map of cards.
fn takes_pairs() -> bool {
    init::root().is_ok_and(|root| DriverVersion::of(root.version()).has_gpu_pairs())
}

/// `CUcheckpointRestoreArgs` of CUDA 13: pointer to pairs @0, their number @8, the rest reserved. Before, all is reserved.
///
/// # Safety
///
/// The pointer in the block must be valid for the number of pairs in it.
unsafe fn pairs_of(args: &Args, takes_pairs: bool) -> Outcome<Vec<UuidPair>> {
    reserved(if takes_pairs { &args[12..] } else { args })?;
    let count = word(args, 8) as usize;
    let mut address = [0u8; 8];
    address.copy_from_slice(&args[..8]);
    let first = u64::from_ne_bytes(address) as *const [[u8; 16]; 2];
    if first.is_null() != (count == 0) || count > MOST_CARDS {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null where count > 0; the caller promises that many pairs.
    let pair = |index| unsafe { first.add(index).read_unaligned() };
    Ok((0..count).map(pair).map(|[old, new]| UuidPair { old, new }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_are_read_as_the_header_lays_them_out() {
        let pairs = [[[1u8; 16], [2u8; 16]], [[3u8; 16], [4u8; 16]]];
        let mut args = [0u8; 64];
        args[..8].copy_from_slice(&(pairs.as_ptr() as u64).to_ne_bytes());
        args[8] = 2;
        // SAFETY: the block names the two pairs above.
        let read = unsafe { pairs_of(&args, true) }.expect("valid");
        assert_eq!(read[1], UuidPair { old: [3; 16], new: [4; 16] });
        // SAFETY: refused before the pointer is used.
        assert_eq!(unsafe { pairs_of(&args, false) }, Err(Code::INVALID_VALUE), "a driver before 580");
        // SAFETY: nothing is named.
        assert_eq!(unsafe { pairs_of(&[0; 64], false) }, Ok(Vec::new()));
        args[63] = 1;
        // SAFETY: refused before the pointer is used.
        assert_eq!(unsafe { pairs_of(&args, true) }, Err(Code::INVALID_VALUE));
        let mut giant = [0u8; 64];
        giant[..8].copy_from_slice(&(pairs.as_ptr() as u64).to_ne_bytes());
        giant[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        // SAFETY: refused before the pointer is used.
        assert_eq!(unsafe { pairs_of(&giant, true) }, Err(Code::INVALID_VALUE));
        assert_eq!(size_of::<QueuedSignal>(), 128);
    }

    #[test]
    fn a_process_without_the_driver_has_no_thread() {
        assert_eq!(thread_of(std::process::id() as i32), Err(Code::INVALID_VALUE));
        assert_eq!(thread_of(i32::MAX), Err(Code::INVALID_VALUE));
    }
}
