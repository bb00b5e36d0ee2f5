//! A process on a MIG device. Needs root, to make device nodes.

mod machine;

use std::ffi::{CStr, c_char};

use baton_sim_wire::{CardUse, Change, Channel, Reply, Request};
use machine::Machine;
use machine::api::Api;
use machine::player::{Player, cue, library};

fn ask(machine: &Machine, request: &Request) -> Reply {
    Channel::connect(&machine.socket()).expect("the hardware listens").ask(request).expect("an answer").0
}

fn cards(machine: &Machine) -> Vec<CardUse> {
    match ask(machine, &Request::Cards) {
        Reply::Cards { cards, .. } => cards,
        other => panic!("{other:?}"),
    }
}

/// Cuts a card into instances by NVML's profile index: 0 is 1g, 2 is 3g. Each gets one compute instance of that index.
fn cut(machine: &Machine, card: usize, profiles: &[(u32, u32)]) -> Vec<String> {
    let uuid = cards(machine)[card].card.uuid.clone();
    let change = |change| ask(machine, &Request::Administer { card: uuid.clone(), change });
    assert!(matches!(change(Change::Mig(true)), Reply::Done));
    change(Change::Reset);
    for (profile, compute) in profiles {
        let made = change(Change::CreateGpuInstance { profile: *profile, start: None });
        let Reply::Instance { id: gpu } = made else { panic!("{made:?}") };
        let made = change(Change::CreateComputeInstance { gpu, profile: *compute, start: None });
        assert!(matches!(made, Reply::Instance { .. }), "{made:?}");
    }
    let held = &cards(machine)[card];
    held.instances.iter().flat_map(|gpu| &gpu.compute).map(|compute| compute.uuid.clone()).collect()
}

/// Says what it sees: how many devices, name, own and card's UUID, MiB, multiprocessors.
#[test]
#[ignore = "played in a process of its own"]
fn seer() {
    let Some(api) = library() else { return };
    let (mut count, mut uuid, mut card, mut memory, mut processors) = (0, [0; 16], [0; 16], 0usize, 0);
    let mut name = [0 as c_char; 80];
    // SAFETY: places for what comes back.
    unsafe {
        let code = (api.init)(0);
        if code != 0 {
            cue(code);
        }
        assert_eq!((api.device_count)(&raw mut count), 0);
        assert_eq!((api.device_name)(name.as_mut_ptr(), 80, 0), 0);
        assert_eq!((api.device_uuid)(&raw mut uuid, 0), 0);
        assert_eq!((api.card_uuid)(&raw mut card, 0), 0);
        assert_eq!((api.device_memory)(&raw mut memory, 0), 0);
        assert_eq!((api.attribute)(&raw mut processors, 16, 0), 0);
        let hex = |bytes: [u8; 16]| u128::from_be_bytes(bytes);
        let name = CStr::from_ptr(name.as_ptr()).to_string_lossy();
        api.open();
        let pointer = api.memory(4096);
        assert_eq!(api.write(pointer, &[9; 4096]), 0);
        cue(format!("{count} {name}|{:032x} {:032x} {} {processors}", hex(uuid), hex(card), memory >> 20));
        assert_eq!(api.read(pointer, 4096), [9; 4096]);
        assert_eq!((api.device_uuid)(&raw mut uuid, 0), 0);
        cue(format!("{:032x}", hex(uuid)));
    }
}

fn digits(uuid: &str) -> String {
    uuid[4..].replace('-', "")
}

#[test]
fn a_process_sees_one_part_the_first_or_the_one_that_is_named() {
    let machine = Machine::with("a100-40");
    let parts = cut(&machine, 0, &[(2, 2), (0, 0)]);
    let card = cards(&machine)[0].clone();
    let seen = |mask: &[(&str, &str)]| Player::start_with(&machine, "seer", mask).hear();
    let whole = digits(&card.card.uuid);
    let of = |uuid: &String| card.instances.iter().find(|gpu| gpu.compute[0].uuid == *uuid).expect("there");
    let says = |uuid: &String| {
        let (name, processors) = if of(uuid).profile == 2 { ("3g.20gb", 42) } else { ("1g.5gb", 14) };
        let mebibytes = of(uuid).memory >> 20;
        format!("1 NVIDIA A100-SXM4-40GB MIG {name}|{} {whole} {mebibytes} {processors}", digits(uuid))
    };
    assert_eq!(seen(&[]), says(&parts[0]));
    for part in &parts {
        assert_eq!(seen(&[("CUDA_VISIBLE_DEVICES", part)]), says(part));
        let old = format!("MIG-{}/{}/0", card.card.uuid, of(part).id);
        assert_eq!(seen(&[("CUDA_VISIBLE_DEVICES", &old)]), says(part));
    }
    assert_eq!(seen(&[("CUDA_VISIBLE_DEVICES", "MIG-00000000")]), "100");
    // A part that cannot be opened is not there: its nodes are taken away.
    let nodes = machine.root().join("dev/nvidia-caps");
    let guard = 3 + 9 * of(&parts[0]).id + 1;
    std::fs::remove_file(nodes.join(format!("nvidia-cap{guard}"))).expect("a node");
    assert_eq!(seen(&[]), says(&parts[1]));
    assert_eq!(seen(&[("CUDA_VISIBLE_DEVICES", &parts[0])]), "100");
}

#[test]
fn memory_of_a_part_is_that_of_its_instance() {
    let machine = Machine::with("a100-40");
    cut(&machine, 0, &[(0, 0)]);
    let api = Api::load(&machine.library());
    api.open();
    let (mut free, mut total, mut pointer) = (0, 0, 0);
    // SAFETY: places for what comes back.
    unsafe {
        assert_eq!((api.memory_info)(&raw mut free, &raw mut total), 0);
        assert_eq!((free, total), ((4864 - 512) << 20, 4864 << 20));
        assert_eq!((api.allocate)(&raw mut pointer, 4400 << 20), 2);
    }
}

#[test]
fn no_driver_checkpoints_a_process_on_a_part_and_it_can_be_unlocked() {
    let machine = Machine::with("a100-40");
    cut(&machine, 0, &[(0, 0)]);
    let mut player = Player::start(&machine, "seer");
    let seen = player.hear();
    let (driver, pid) = (machine.driver(), player.pid());
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid)], [0, 2]);
    assert_eq!(driver.state(pid), (0, 1));
    assert_eq!(driver.unlock(pid), 0);
    assert!(seen.contains(&player.ask("go")));
}

#[test]
fn a_driver_that_could_moves_a_process_to_a_part_of_the_same_profile() {
    let machine = Machine::with("a100-40x2");
    machine.order("mig-checkpoint=1");
    let from = cut(&machine, 0, &[(0, 0)]);
    let to = cut(&machine, 1, &[(2, 2), (0, 0)]);
    let small = cards(&machine)[1].instances.iter().find(|gpu| gpu.profile == 0).expect("1g").compute[0].uuid.clone();
    let large = to.iter().find(|uuid| **uuid != small).expect("3g");
    let mut player = Player::start_with(&machine, "seer", &[("CUDA_VISIBLE_DEVICES", &from[0])]);
    player.hear();
    let (driver, pid) = (machine.driver(), player.pid());
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid)], [0, 0]);
    assert_eq!(driver.restore(pid, &[(&from[0], large)]), 1, "another profile");
    assert_eq!(driver.restore(pid, &[(&from[0], &small)]), 0);
    assert_eq!(driver.unlock(pid), 0);
    assert_eq!(player.ask("go"), digits(&small));
    assert_eq!(machine.books()[0].bytes, 0);
}
