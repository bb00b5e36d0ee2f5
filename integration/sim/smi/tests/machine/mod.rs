//! A simulated machine for one test. Needs root, to make device nodes.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Cards and the process that plays them; gone when this is dropped.
pub struct Machine {
    folder: tempfile::TempDir,
    hardware: Option<Child>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Where the test itself was built, with what it runs.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let folder = test.parent().and_then(Path::parent).expect("target/PROFILE/deps").to_owned();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--manifest-path"]).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    cargo.args(["-p", "baton-sim-card", "-p", "baton-sim-cuda", "-p", "baton-sim-nvml", "-p", "baton-sim-smi"]);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.env("CARGO_TARGET_DIR", folder.parent().expect("target")).status().expect("cargo").success());
    folder
}

impl Machine {
    /// With these cards.
    pub fn with(cards: &str) -> Machine {
        let (folder, built) = (tempfile::tempdir().expect("folder"), built());
        let mut install = Command::new(built.join("baton-sim-card"));
        install.args(["install", "--seed", "test", "--cards", cards, "--root"]).arg(folder.path());
        assert!(install.arg("--libs").arg(&built).status().expect("install").success());
        let mut machine = Machine { folder, hardware: None };
        machine.start();
        machine
    }

    /// Has the hardware played, until it is stopped.
    pub fn start(&mut self) {
        let mut serve = Command::new(built().join("baton-sim-card"));
        serve.args(["serve", "--root"]).arg(self.folder.path()).stdout(Stdio::piped());
        let hardware = self.hardware.insert(serve.spawn().expect("serve"));
        BufReader::new(hardware.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    }

    /// Kills the process that plays the hardware.
    pub fn stop(&mut self) {
        if let Some(mut hardware) = self.hardware.take() {
            hardware.kill().and_then(|()| hardware.wait()).expect("the hardware ends");
        }
    }

    /// Orders something to go wrong.
    pub fn order(&self, order: &str) {
        let mut card = Command::new(built().join("baton-sim-card"));
        assert!(card.args(["order", "--root"]).arg(self.folder.path()).arg(order).status().expect("order").success());
    }

    /// The nvidia-smi of this machine.
    pub fn program(&self) -> PathBuf {
        self.folder.path().join("usr/bin/nvidia-smi")
    }

    /// What it prints, and how it ends.
    pub fn ends(&self, line: &str) -> (String, i32) {
        let program = self.program();
        let done = Command::new(program).args(line.split(' ').filter(|word| !word.is_empty())).output().expect("run");
        (String::from_utf8(done.stdout).expect("text"), done.status.code().expect("an end"))
    }

    /// What it prints; it must succeed.
    pub fn says(&self, line: &str) -> String {
        let (said, code) = self.ends(line);
        assert_eq!(code, 0, "{line}: {said}");
        said
    }
}
