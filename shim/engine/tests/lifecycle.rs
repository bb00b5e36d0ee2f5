//! A container of a static busybox, run for real: create, start, exec, pause, kill, delete. Needs root, cgroups and
//! busybox-static; without them there is nothing to test.
//!
//! libcontainer forks, so every verb runs in a process of its own: this test program, called again with the verb.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use baton_engine::{Create, Engine, Exec, Signal};
use baton_fault::Result;

const BUSYBOX: &str = "/bin/busybox";
const VERB: &str = "BATON_ENGINE_TEST_VERB";

/// Longest wait for anything.
const DEADLINE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    if let Some(verb) = std::env::var_os(VERB) {
        let args: Vec<String> = std::env::args().skip(1).collect();
        return match act(&verb.to_string_lossy(), &args) {
            Ok(code) => ExitCode::from(u8::try_from(code.unwrap_or(0)).unwrap_or(u8::MAX)),
            Err(fault) => {
                eprintln!("{fault}");
                ExitCode::FAILURE
            }
        };
    }
    let root = nix::unistd::geteuid().is_root();
    if !root || !Path::new(BUSYBOX).exists() || !Path::new("/sys/fs/cgroup").exists() {
        println!("skipped: needs root, {BUSYBOX} and /sys/fs/cgroup");
        return ExitCode::SUCCESS;
    }
    a_container_lives_and_leaves_nothing();
    a_program_that_does_not_exist_leaves_nothing();
    println!("ok");
    ExitCode::SUCCESS
}

fn act(verb: &str, args: &[String]) -> Result<Option<i32>> {
    let engine = Engine::new(&args[0]);
    let id = &args[1];
    match verb {
        "create" => {
            let create = Create { bundle: PathBuf::from(&args[2]), ..Create::default() };
            engine.create(id, &create).map(|()| None)
        }
        "start" => engine.start(id).map(|()| None),
        "exec" => engine.exec(id, &Exec { args: args[2..].to_vec(), ..Exec::default() }),
        "kill" => engine.kill(id, Signal::parse(&args[2])?, false).map(|()| None),
        "pause" => engine.pause(id).map(|()| None),
        "resume" => engine.resume(id).map(|()| None),
        "delete" => engine.delete(id, false).map(|()| None),
        _ => unreachable!("no verb {verb}"),
    }
}

/// A bundle in a folder of its own, and the engine's state beside it.
struct Stage {
    dir: tempfile::TempDir,
    id: String,
}

impl Stage {
    fn new(name: &str, program: &[&str]) -> Stage {
        let dir = tempfile::tempdir().expect("temporary folder");
        let id = format!("{name}-{}", std::process::id());
        let rootfs = dir.path().join("bundle/rootfs");
        for folder in ["bin", "dev", "proc", "sys"] {
            fs::create_dir_all(rootfs.join(folder)).expect("make");
        }
        fs::copy(BUSYBOX, rootfs.join("bin/busybox")).expect("copy busybox");
        for name in ["sh", "sleep", "echo", "cat"] {
            symlink("busybox", rootfs.join("bin").join(name)).expect("link");
        }
        let config = serde_json::json!({
            "ociVersion": "1.2.0",
            "process": {
                "user": {"uid": 0, "gid": 0}, "args": program, "cwd": "/", "env": ["PATH=/bin"],
                "capabilities": {"bounding": ["CAP_KILL"], "effective": ["CAP_KILL"], "permitted": ["CAP_KILL"]},
            },
            "root": {"path": "rootfs"},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
            ],
            "linux": {
                "cgroupsPath": format!("/baton-test/{id}"),
                "resources": {"devices": [{"allow": false, "access": "rwm"}]},
                "namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "network"}],
                "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
                    {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"},
                ]},
            },
        });
        fs::write(dir.path().join("bundle/config.json"), config.to_string()).expect("write config.json");
        Stage { dir, id }
    }

    fn command(&self, verb: &str, args: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("own path"));
        command.env(VERB, verb).arg(self.dir.path().join("state")).arg(&self.id).args(args).stdin(Stdio::null());
        command
    }

    fn run(&self, verb: &str, args: &[&str]) -> (i32, String) {
        let output = self.command(verb, args).output().expect("run verb");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }

    fn succeed(&self, verb: &str, args: &[&str]) -> String {
        let (code, text) = self.run(verb, args);
        assert_eq!(code, 0, "{verb}: {text}");
        text
    }

    fn bundle(&self) -> String {
        self.dir.path().join("bundle").to_string_lossy().into_owned()
    }

    fn status(&self) -> &'static str {
        Engine::new(self.dir.path().join("state")).state(&self.id).map_or("gone", |state| state.status)
    }

    fn wait_for(&self, status: &str) {
        let end = Instant::now() + DEADLINE;
        while self.status() != status {
            assert!(Instant::now() < end, "still {}, not {status}", self.status());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn assert_nothing_left(&self) {
        assert_eq!(fs::read_dir(self.dir.path().join("state")).map_or(0, Iterator::count), 0, "state is left");
        let left = fs::read_dir("/sys/fs/cgroup").expect("cgroups").flatten();
        for controller in left {
            assert!(!controller.path().join("baton-test").join(&self.id).exists(), "left in {controller:?}");
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = Engine::new(self.dir.path().join("state")).delete(&self.id, true);
        for controller in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let _ = fs::remove_dir(controller.path().join("baton-test"));
        }
    }
}

fn a_container_lives_and_leaves_nothing() {
    let stage = Stage::new("life", &["sh", "-c", "echo begun; while true; do sleep 0.05; done"]);
    let mut create = stage.command("create", &[&stage.bundle()]);
    let mut created = create.stdout(Stdio::piped()).spawn().expect("create");
    let mut output = created.stdout.take().expect("pipe");
    assert!(created.wait().expect("wait").success());
    assert_eq!(stage.status(), "created");
    assert_eq!(stage.run("pause", &[]).0, 1, "a created container cannot be paused");
    stage.succeed("start", &[]);
    let mut begun = [0; 6];
    output.read_exact(&mut begun).expect("read from the container");
    assert_eq!(&begun, b"begun\n");
    assert_eq!(stage.status(), "running");

    assert_eq!(stage.run("exec", &["sh", "-c", "exit 7"]).0, 7);
    let status = stage.succeed("exec", &["cat", "/proc/self/status"]);
    assert!(status.contains("CapEff:\t0000000000000020"), "CAP_KILL alone: {status}");
    assert!(status.contains("CapBnd:\t0000000000000020"), "CAP_KILL alone: {status}");
    assert!(status.contains("Seccomp:\t2"), "an exec has the container's filter: {status}");
    assert!(stage.run("exec", &["nope"]).1.contains("executable file not found in $PATH"));

    stage.succeed("pause", &[]);
    assert_eq!(stage.status(), "paused");
    assert_eq!(stage.run("exec", &["sh"]).0, 1, "nothing is started in a paused container");
    stage.succeed("resume", &[]);
    assert_eq!(stage.status(), "running");

    assert!(stage.run("delete", &[]).1.contains("STATE: delete container"));
    stage.succeed("kill", &["KILL"]);
    stage.wait_for("stopped");
    let (code, text) = stage.run("kill", &["TERM"]);
    assert!(code == 1 && text.contains("process already finished"), "{text}");
    stage.succeed("delete", &[]);
    assert_eq!(stage.status(), "gone");
    stage.assert_nothing_left();
}

fn a_program_that_does_not_exist_leaves_nothing() {
    let stage = Stage::new("nope", &["/bin/nope"]);
    let (code, text) = stage.run("create", &[&stage.bundle()]);
    assert_eq!(code, 1);
    assert!(text.contains("/bin/nope") && text.contains("no such file or directory"), "{text}");
    stage.assert_nothing_left();
}
