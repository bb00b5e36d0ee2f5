//! Cards are cut, set and given orders by several hands, and what was said to be done outlives the process that plays
//! them.

mod machine;

use std::path::Path;
use std::process::Output;

use baton_sim_wire::{CardUse, Change, Channel, Reply, Request};
use machine::{Machine, built};

/// `NVML_ERROR_INSUFFICIENT_RESOURCES`.
const INSUFFICIENT_RESOURCES: i32 = 23;

/// The first card.
fn card(machine: &Machine) -> CardUse {
    match channel(&machine.socket()).ask(&Request::Cards).expect("an answer").0 {
        Reply::Cards { mut cards, .. } => cards.swap_remove(0),
        other => panic!("{other:?}"),
    }
}

fn channel(socket: &Path) -> Channel {
    Channel::connect(socket).expect("the hardware listens")
}

fn administer(channel: &Channel, card: &str, change: Change) -> Reply {
    channel.ask(&Request::Administer { card: card.to_owned(), change }).expect("an answer").0
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn two_hands_at_once_make_what_there_is_room_for_and_it_outlives_a_kill() {
    let mut machine = Machine::with("a100-40,h100");
    let uuid = card(&machine).card.uuid;
    let socket = machine.socket();
    assert!(matches!(administer(&channel(&socket), &uuid, Change::Mig(true)), Reply::Done));
    let hand = || {
        let (socket, card) = (socket.clone(), uuid.clone());
        std::thread::spawn(move || {
            let channel = channel(&socket);
            let answers =
                (0..7).map(|_| administer(&channel, &card, Change::CreateGpuInstance { profile: 0, start: None }));
            answers.collect::<Vec<_>>()
        })
    };
    let hands = [hand(), hand()];
    let answers: Vec<Reply> = hands.into_iter().flat_map(|hand| hand.join().expect("it ended")).collect();
    let mut made: Vec<u32> = answers
        .iter()
        .filter_map(|answer| match answer {
            Reply::Instance { id } => Some(*id),
            Reply::Refused { code: INSUFFICIENT_RESOURCES, .. } => None,
            other => panic!("{other:?}"),
        })
        .collect();
    made.sort_unstable();
    assert_eq!(made, [7, 8, 9, 10, 11, 12, 13], "seven slices, each made once");
    machine.kill();
    machine.start();
    let again = card(&machine);
    assert_eq!(again.instances.iter().map(|gpu| gpu.id).collect::<Vec<_>>(), made);
    assert!(again.settings.mig);
    assert!(machine.root().join("dev/nvidia-caps/nvidia-cap66").exists(), "the node of GPU instance 7");
    let books = machine.run(&["books"]);
    assert!(books.status.success(), "{books:?}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let mut machine = Machine::with("h100");
    let second = machine.run(&["serve"]);
    assert!(!second.status.success());
    assert!(text(&second).contains("another process plays the hardware"), "{second:?}");
    for (order, why) in [
        ("fault=cuInit", "CALL[@PROGRAM]:ACTION[*COUNT]"),
        ("fault=cuInit:explode", "no such action"),
        ("copy-rate=fast", "no number"),
        ("melt=1", "unknown order"),
        ("melt", "not KEY=VALUE"),
    ] {
        let done = machine.run(&["order", order]);
        assert!(!done.status.success() && text(&done).contains(why), "{order}: {done:?}");
    }
    machine.kill();
    let file = machine.root().join("cards.json");
    let card = r#"{"mig":true,"pending_mig":true,"compute_mode":"Default","persistence":true}"#;
    for (entries, why) in [
        ("[".to_owned(), "is damaged"),
        (format!(r#"[{{"card":"GPU-0","settings":{card},"instances":[]}}]"#), "which is not here"),
    ] {
        std::fs::write(&file, entries).expect("written");
        let done = machine.run(&["serve"]);
        assert!(!done.status.success() && text(&done).contains(why), "{done:?}");
    }
    let libs = built().to_str().expect("a plain path").to_owned();
    for cards in ["h100x99", "v100", "h100+90g"] {
        let done = machine.run(&["install", "--libs", &libs, "--cards", cards, "--seed", "test"]);
        assert!(!done.status.success() && text(&done).contains(cards), "{cards}: {done:?}");
    }
}
