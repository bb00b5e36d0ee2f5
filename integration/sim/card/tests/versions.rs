//! What each driver version can checkpoint, and what no driver can. Needs root, to make device nodes.

mod machine;

use machine::Machine;
use machine::api::{Api, IpcHandle};
use machine::player::{Player, cue, library};

/// Holds a little memory.
#[test]
#[ignore = "played in a process of its own"]
fn holder() {
    let Some(api) = library() else { return };
    api.open();
    api.memory(4096);
    cue("ready");
}

#[test]
fn a_map_of_cards_comes_with_580() {
    for (driver, outcome) in [("575.57.08", 1), ("580.65.06", 0)] {
        let machine = Machine::with_driver("h100x2", driver);
        let mut player = Player::start(&machine, "holder");
        player.hear();
        let (calls, pid, cards) = (machine.driver(), player.pid(), machine.books());
        let map = [(cards[0].uuid.as_str(), cards[1].uuid.as_str()), (cards[1].uuid.as_str(), cards[0].uuid.as_str())];
        assert_eq!([calls.lock(pid, 5000), calls.checkpoint(pid)], [0, 0]);
        assert_eq!(calls.restore(pid, &map), outcome, "{driver}");
        if outcome != 0 {
            assert_eq!(calls.restore(pid, &[]), 0, "{driver}: nothing is lost");
        }
        assert_eq!(calls.unlock(pid), 0, "{driver}");
    }
}

#[test]
fn a_process_with_some_of_the_cards_can_be_checkpointed_since_575_57_08() {
    for (driver, outcome) in [("570.86.10", 800), ("575.51.03", 800), ("575.57.08", 0)] {
        let machine = Machine::with_driver("h100x2", driver);
        std::fs::remove_file(machine.root().join("dev/nvidia1")).expect("a node");
        mask_params(&machine);
        let mut player = Player::start(&machine, "holder");
        player.hear();
        let (calls, pid) = (machine.driver(), player.pid());
        assert_eq!(calls.lock(pid, 5000), 0);
        assert_eq!(calls.checkpoint(pid), outcome, "{driver}");
        assert_eq!(calls.state(pid), (0, if outcome == 0 { 2 } else { 1 }), "{driver}");
    }
}

/// As container toolkits mask them, so that the library does not make the nodes that are missing.
fn mask_params(machine: &Machine) {
    let path = machine.root().join("proc/driver/nvidia/params");
    let params =
        std::fs::read_to_string(&path).expect("params").replace("ModifyDeviceFiles: 1", "ModifyDeviceFiles: 0");
    std::fs::write(path, params).expect("written");
}

#[test]
fn missing_nodes_are_made_unless_the_params_are_masked() {
    for (masked, count) in [(false, 2), (true, 1)] {
        let machine = Machine::with("h100x2");
        let node = machine.root().join("dev/nvidia1");
        std::fs::remove_file(&node).expect("a node");
        if masked {
            mask_params(&machine);
        }
        let (api, mut found) = (Api::load(&machine.library()), 0);
        api.open();
        // SAFETY: a place for an int.
        assert_eq!(unsafe { (api.device_count)(&raw mut found) }, 0);
        assert_eq!((found, node.exists()), (count, !masked));
    }
}

/// Has managed memory, until it is told to give it back.
#[test]
#[ignore = "played in a process of its own"]
fn managed() {
    let Some(api) = library() else { return };
    api.open();
    let mut pointer = 0;
    // SAFETY: a place for a pointer; the memory is the process's own as well as the card's.
    unsafe {
        assert_eq!((api.allocate_managed)(&raw mut pointer, 4096, 1), 0);
        assert_eq!((api.set_8)(pointer, 5, 4096), 0);
        assert_eq!(*(pointer as *const u8).add(4095), 5);
        cue("ready");
        assert_eq!((api.free)(pointer), 0);
    }
    cue("freed");
}

#[test]
fn a_process_with_managed_memory_cannot_be_checkpointed() {
    let machine = Machine::with_driver("h100", "610.10");
    let mut player = Player::start(&machine, "managed");
    player.hear();
    let (calls, pid) = (machine.driver(), player.pid());
    assert_eq!([calls.lock(pid, 5000), calls.checkpoint(pid)], [0, 801]);
    assert_eq!(calls.state(pid), (0, 1));
    assert_eq!(calls.unlock(pid), 0);
    assert_eq!(player.ask("go"), "freed");
    assert_eq!(player.round(&calls), [0; 4]);
}

fn text(handle: IpcHandle) -> String {
    handle.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn handle(text: &str) -> IpcHandle {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hex");
    IpcHandle(std::array::from_fn(byte))
}

/// Shares memory, and says later what is in it.
#[test]
#[ignore = "played in a process of its own"]
fn owner() {
    let Some(api) = library() else { return };
    api.open();
    let (pointer, mut shared) = (api.memory(4096), IpcHandle([0; 64]));
    // SAFETY: a place for the handle.
    unsafe {
        assert_eq!((api.ipc_export)(&raw mut shared, pointer + 100), 0);
        let mut own = 0;
        assert_eq!((api.ipc_open)(&raw mut own, shared, 1), 201, "not in its own process");
    }
    cue(text(shared));
    cue(api.read(pointer, 1)[0]);
}

/// Opens what another shares, and writes into it.
#[test]
#[ignore = "played in a process of its own"]
fn guest() {
    let Some(api) = library() else { return };
    api.open();
    let shared = handle(&cue("ready"));
    let (mut pointer, mut again) = (0, 0);
    // SAFETY: places for what comes back.
    unsafe {
        assert_eq!((api.ipc_open)(&raw mut pointer, IpcHandle([1; 64]), 1), 1);
        assert_eq!((api.ipc_open)(&raw mut pointer, shared, 0), 1);
        assert_eq!((api.ipc_open)(&raw mut pointer, shared, 1), 0);
        assert_eq!((api.ipc_open)(&raw mut again, shared, 1), 0);
        assert_eq!(pointer, again, "opened twice, it is there once");
        assert_eq!((api.free)(pointer), 1, "it is another's");
        assert_eq!((api.set_8)(pointer, 1, 4096), 0);
        cue("opened");
        assert_eq!((api.set_8)(pointer, 2, 4096), 0);
        cue("written");
        assert_eq!([(api.ipc_close)(pointer), (api.ipc_close)(pointer), (api.ipc_close)(pointer)], [0, 0, 1]);
        cue("closed");
    }
}

fn share(machine: &Machine, environment: &[(&str, &str)]) -> (Player, Player) {
    let mut owner = Player::start_with(machine, "owner", environment);
    let mut guest = Player::start_with(machine, "guest", environment);
    guest.hear();
    assert_eq!(guest.ask(&owner.hear()), "opened");
    (owner, guest)
}

#[test]
fn shared_memory_is_one_and_keeps_processes_from_being_checkpointed() {
    let machine = Machine::with_driver("h100", "595.45.04");
    let (mut owner, mut guest) = share(&machine, &[]);
    assert_eq!(machine.books()[0].bytes, 2 * (512 << 20) + 4096, "shared memory counts once");
    let driver = machine.driver();
    for player in [&owner, &guest] {
        assert_eq!([driver.lock(player.pid(), 5000), driver.checkpoint(player.pid())], [0, 801]);
        assert_eq!(driver.unlock(player.pid()), 0);
    }
    assert_eq!(guest.ask("go"), "written");
    assert_eq!(owner.ask("go"), "2");
    assert_eq!(guest.ask("go"), "closed");
    assert_eq!(guest.round(&driver), [0; 4], "it shares nothing any more");
}

/// A file of a launch job.
fn job_file() -> (std::fs::File, String) {
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: the name is NUL-terminated; the descriptor is new and nobody else's.
    let file = unsafe { std::fs::File::from_raw_fd(libc::memfd_create(c"job".as_ptr(), 0)) };
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    (file, path)
}

#[test]
fn processes_of_a_job_keep_what_they_share_since_610() {
    for guest_first in [false, true] {
        let machine = Machine::with_driver("h100", "610.10");
        let (_file, path) = job_file();
        let (mut owner, mut guest) = share(&machine, &[("CUDA_CHECKPOINT_JOB_FILE", &path)]);
        let driver = machine.driver();
        for _ in 0..2 {
            let order = if guest_first { [guest.pid(), owner.pid()] } else { [owner.pid(), guest.pid()] };
            assert_eq!(order.map(|pid| driver.lock(pid, 5000)), [0, 0]);
            assert_eq!(order.map(|pid| driver.checkpoint(pid)), [0, 0]);
            assert_eq!(machine.books()[0].bytes, 0);
            assert_eq!(order.map(|pid| driver.restore(pid, &[])), [0, 0]);
            assert_eq!(order.map(|pid| driver.unlock(pid)), [0, 0]);
        }
        assert_eq!(machine.books()[0].bytes, 2 * (512 << 20) + 4096);
        assert_eq!(guest.ask("go"), "written");
        assert_eq!(owner.ask("go"), "2", "they still share it");
    }
}

#[test]
fn a_guest_stays_locked_until_its_owner_is_restored() {
    let machine = Machine::with_driver("h100", "610.10");
    let (_file, path) = job_file();
    let (owner, mut guest) = share(&machine, &[("CUDA_CHECKPOINT_JOB_FILE", &path)]);
    let driver = machine.driver();
    let both = [owner.pid(), guest.pid()];
    assert_eq!(both.map(|pid| driver.lock(pid, 5000)), [0, 0]);
    assert_eq!(both.map(|pid| driver.checkpoint(pid)), [0, 0]);
    assert_eq!(driver.restore(guest.pid(), &[]), 0);
    assert_eq!(driver.unlock(guest.pid()), 801);
    assert_eq!(driver.state(guest.pid()), (0, 1));
    assert_eq!(driver.restore(owner.pid(), &[]), 0);
    assert_eq!(both.map(|pid| driver.unlock(pid)), [0, 0]);
    assert_eq!(guest.ask("go"), "written");
}

#[test]
fn an_older_driver_knows_no_jobs() {
    let machine = Machine::with_driver("h100", "595.45.04");
    let (_file, path) = job_file();
    let (owner, _guest) = share(&machine, &[("CUDA_CHECKPOINT_JOB_FILE", &path)]);
    let driver = machine.driver();
    assert_eq!([driver.lock(owner.pid(), 5000), driver.checkpoint(owner.pid())], [0, 801]);
}
