//! Cards are cut, set and given orders by several hands, and what was said to be done outlives the process that plays
//! them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use baton_sim_wire::{CardUse, Change, Channel, Reply, Request};

const PROGRAM: &str = env!("CARGO_BIN_EXE_baton-sim-card");
const DRIVER: &str = "580.95.05";
/// `NVML_ERROR_INSUFFICIENT_RESOURCES`.
const INSUFFICIENT_RESOURCES: i32 = 23;

/// A driver root whose libraries are of no use.
struct Machine {
    folder: tempfile::TempDir,
    hardware: Option<Child>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Machine {
    fn with(cards: &str) -> Machine {
        let folder = tempfile::tempdir().expect("folder");
        for library in ["libbaton_sim_cuda.so", "libbaton_sim_nvml.so"] {
            std::fs::write(folder.path().join(library), "").expect("written");
        }
        let mut machine = Machine { folder, hardware: None };
        let libs = machine.folder.path().to_str().expect("a plain path").to_owned();
        let done = machine.run(&["install", "--libs", &libs, "--cards", cards, "--seed", "test"]);
        assert!(done.status.success(), "{done:?}");
        machine.start();
        machine
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(PROGRAM).args(arguments).arg("--root").arg(self.root()).output().expect("it runs")
    }

    fn start(&mut self) {
        let serve = Command::new(PROGRAM).args(["serve", "--root"]).arg(self.root()).stdout(Stdio::piped()).spawn();
        let mut serve = serve.expect("it runs");
        let mut line = String::new();
        BufReader::new(serve.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready"), "{line:?}");
        self.hardware = Some(serve);
    }

    fn kill(&mut self) {
        if let Some(mut hardware) = self.hardware.take() {
            hardware.kill().expect("it ran");
            hardware.wait().expect("it ended");
        }
    }

    fn channel(&self) -> Channel {
        channel(&self.root())
    }

    fn card(&self) -> CardUse {
        match self.channel().ask(&Request::Cards).expect("an answer").0 {
            Reply::Cards { mut cards, .. } => cards.swap_remove(0),
            other => panic!("{other:?}"),
        }
    }
}

fn channel(root: &Path) -> Channel {
    let socket = root.join("lib/firmware/nvidia").join(DRIVER).join("gsp_ga10x.bin");
    Channel::connect(&socket).expect("the hardware listens")
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
    let card = machine.card().card.uuid;
    assert!(matches!(administer(&machine.channel(), &card, Change::Mig(true)), Reply::Done));
    let root = machine.root();
    let hand = || {
        let (root, card) = (root.clone(), card.clone());
        std::thread::spawn(move || {
            let channel = channel(&root);
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
    let again = machine.card();
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
    let libs = machine.folder.path().to_str().expect("a plain path").to_owned();
    for cards in ["h100x99", "v100", "h100+90g"] {
        let done = machine.run(&["install", "--libs", &libs, "--cards", cards, "--seed", "test"]);
        assert!(!done.status.success() && text(&done).contains(cards), "{cards}: {done:?}");
    }
}
