//! Cards are cut, set and given orders by several hands, and what was said to be done outlives the process that plays
//! them.

mod machine;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

use baton_sim_wire::{CardUse, Change, Channel, RangeWanted, Reply, Request};
use machine::{DEADLINE, Killed, Machine, built};

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
        ("fault=cuInit:error-0", "no number from 1 on"),
        ("fault=cuMemAlloc:error-2", "the driver has no function cuMemAlloc,"),
        ("fault=lock:hang", "Lock, Checkpoint, Restore, Unlock, State are the deeds"),
        ("fail-checkpoint=0", "no number from 1 on"),
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
    std::fs::remove_file(&file).expect("removed");
    let description = machine.root().join("hardware.json");
    let text_of = std::fs::read_to_string(&description).expect("read");
    std::fs::write(&description, text_of.replace("\"minor\": 0", "\"minor\": 1")).expect("written");
    let done = machine.run(&["serve"]);
    let why = "hardware.json is damaged: card 0 is not like any NVIDIA H100 80GB HBM3";
    assert!(!done.status.success() && text(&done).contains(why), "{done:?}");
    let libs = built().to_str().expect("a plain path").to_owned();
    for cards in ["h100x99", "v100", "h100+90g"] {
        let done = machine.run(&["install", "--libs", &libs, "--cards", cards, "--seed", "test"]);
        assert!(!done.status.success() && text(&done).contains(cards), "{cards}: {done:?}");
    }
}

#[test]
fn a_change_that_cannot_be_written_down_has_not_happened() {
    let mut machine = Machine::with("h100");
    let uuid = card(&machine).card.uuid;
    let made = |machine: &Machine| {
        administer(&channel(&machine.socket()), &uuid, Change::CreateGpuInstance { profile: 0, start: Some(0) })
    };
    assert!(matches!(administer(&channel(&machine.socket()), &uuid, Change::Mig(true)), Reply::Done));
    let capabilities = machine.root().join("proc/driver/nvidia/capabilities");
    for in_the_way in [capabilities.join("gpu0"), machine.root().join("cards.new")] {
        // A folder where a file is to be, and the other way round.
        match in_the_way.extension() {
            Some(_) => std::fs::create_dir(&in_the_way).expect("made"),
            None => std::fs::write(&in_the_way, "").expect("made"),
        }
        let answer = made(&machine);
        assert!(
            matches!(&answer, Reply::Refused { code: 999, why } if why.contains("cannot write down")),
            "{in_the_way:?}: {answer:?}"
        );
        machine.kill();
        std::fs::remove_file(&in_the_way).or_else(|_| std::fs::remove_dir(&in_the_way)).expect("removed");
        let nodes = std::fs::read_dir(machine.root().join("dev/nvidia-caps")).expect("folder").count();
        assert_eq!(nodes, 2, "those of config and monitor");
        machine.start();
        assert!(card(&machine).instances.is_empty(), "{in_the_way:?}");
    }
    assert!(matches!(made(&machine), Reply::Instance { id: 7 }));
    assert!(capabilities.join("gpu0/mig/gi7/access").exists());
}

#[test]
fn arguments_that_nobody_knows_are_refused() {
    let machine = Machine::with("h100");
    let libs = built().to_str().expect("a plain path").to_owned();
    let install = ["install", "--libs", &libs, "--cards", "a30", "--seed", "test"];
    for (verb, more, why) in [
        (&install[..], &["--drvier", "570.1"][..], "install knows no \"--drvier\""),
        (&install, &["more"], "install knows no \"more\""),
        (&install, &["--cards", "h100"], "--cards is there twice"),
        // The hardware is being played.
        (&install, &[], "another process plays its hardware"),
        (&["books"], &["more"], "books knows no \"more\""),
        (&["order", "copy-rate=1"], &["--cards", "h100"], "order knows no \"--cards\""),
    ] {
        let done = machine.run(&[verb, more].concat());
        assert!(!done.status.success() && text(&done).contains(why), "{verb:?} {more:?}: {done:?}");
    }
    assert_eq!(card(&machine).card.model, "NVIDIA H100 80GB HBM3");
    assert!(machine.root().join("dev/nvidia0").exists());
}

#[test]
fn nobody_holds_a_card_who_has_not_said_who_he_is() {
    let machine = Machine::with("h100");
    let (device, stranger) = (card(&machine).card.uuid, channel(&machine.socket()));
    for request in [
        Request::Context { device: device.clone() },
        Request::Allocate { wanted: RangeWanted { device: device.clone(), bytes: 4096 } },
        Request::Claim { contexts: vec![device], ranges: Vec::new() },
    ] {
        let answer = stranger.ask(&request).expect("an answer").0;
        assert!(matches!(answer, Reply::Refused { code: 1, .. }), "{request:?}: {answer:?}");
    }
    assert_eq!(machine.books()[0].bytes, 0);
}

#[test]
fn a_root_that_is_half_laid_out_has_no_hardware() {
    let mut machine = Machine::with("h100");
    machine.kill();
    let empty = tempfile::tempdir().expect("folder");
    let libs = empty.path().to_str().expect("a plain path");
    let done = machine.run(&["install", "--libs", libs, "--cards", "a30x2", "--seed", "test"]);
    assert!(!done.status.success() && text(&done).contains("build it first"), "{done:?}");
    let done = machine.run(&["serve"]);
    assert!(!done.status.success() && text(&done).contains("install the driver root again"), "{done:?}");
}

/// Plays the hardware with that option of `ulimit`, and tells how many of a hundred programs it serves at once.
fn served_of_a_hundred(machine: &Machine, option: &str) -> usize {
    let serve = format!(r#"ulimit {option} && exec "$0" serve --root "$1""#);
    let mut hardware = Command::new("sh");
    hardware.args(["-c", &serve]).arg(built().join("baton-sim-card")).arg(machine.root());
    let mut hardware = Killed(hardware.stdout(Stdio::piped()).spawn().expect("serve"));
    let mut line = String::new();
    BufReader::new(hardware.0.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let (tell, hear) = mpsc::channel();
    let socket = machine.socket();
    std::thread::spawn(move || {
        let all: Vec<Channel> = (0..100).map(|_| channel(&socket)).collect();
        let served = all.iter().filter(|one| matches!(one.ask(&Request::Cards), Ok((Reply::Cards { .. }, _)))).count();
        tell.send(served).expect("heard");
    });
    hear.recv_timeout(DEADLINE).expect("all are served or turned away")
}

#[test]
fn as_many_programs_are_served_as_there_can_be_files_for_and_others_are_turned_away() {
    let mut machine = Machine::with("h100");
    machine.kill();
    assert_eq!(served_of_a_hundred(&machine, "-S -n 40"), 100);
    assert_eq!(served_of_a_hundred(&machine, "-n 60"), 20);
}
