//! The driver's thread works while every other thread of its process is stopped, at any point, as CRIU's CUDA plugin
//! stops them. Needs root, to make device nodes and to trace.

mod machine;

use std::ffi::c_void;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use machine::api::{Api, Handle};
use machine::{Driver, Killed, Machine};

/// How often the process is stopped, each time somewhere else.
const ROUNDS: usize = 60;

/// Named in the environment of the process that hammers.
const LIBRARY: &str = "BATON_TEST_LIBCUDA";

/// Played by a process of its own: threads that do nothing but take memory and call the driver.
#[test]
#[ignore = "played in a process of its own"]
fn hammer() {
    let Ok(library) = std::env::var(LIBRARY) else { return };
    let api = Api::load(&library);
    let context = api.open();
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6usize {
            let (api, done) = (&api, &done);
            scope.spawn(move || {
                // SAFETY: the context is the driver's.
                assert_eq!(unsafe { (api.set_current)(context) }, 0);
                let (step, stream, state) = (api.kernel("baton_count_step"), api.stream(1), api.memory(16));
                for round in 0.. {
                    match thread % 3 {
                        0 => drop(black_box(vec![1u8; 1 + round * 7919 % 300_000])),
                        1 => use_memory(api, round),
                        _ => use_stream(api, step, stream, state),
                    }
                    if done.fetch_add(1, Ordering::Relaxed) == 1000 {
                        println!("hammering");
                    }
                }
            });
        }
    });
}

fn use_memory(api: &Api, round: usize) {
    let sent = vec![round as u8; 1 + round * 31 % 9000];
    let mut back = vec![0u8; sent.len()];
    let mut pointer = 0;
    // SAFETY: the buffers have the lengths given, and the pointer is the driver's.
    unsafe {
        assert_eq!((api.allocate)(&raw mut pointer, sent.len()), 0);
        assert_eq!((api.to_device)(pointer, sent.as_ptr().cast(), sent.len()), 0);
        assert_eq!((api.to_host)(back.as_mut_ptr().cast::<c_void>(), pointer, back.len()), 0);
        assert_eq!((api.free)(pointer), 0);
    }
    assert_eq!(sent, back);
}

fn use_stream(api: &Api, step: Handle, stream: Handle, state: u64) {
    for _ in 0..5 {
        assert_eq!(api.run(step, stream, &[state]), 0);
    }
    // SAFETY: a handle of ours.
    assert_eq!(unsafe { (api.stream_synchronize)(stream) }, 0);
}

fn start(library: &str) -> Child {
    let mut run = Command::new(std::env::current_exe().expect("own path"));
    run.args(["--exact", "hammer", "--ignored", "--nocapture", "--test-threads", "1"]).env(LIBRARY, library);
    // One heap of the C library for all threads: whoever is stopped inside it is in the way of the others.
    run.env("MALLOC_ARENA_MAX", "1");
    run.stdout(Stdio::piped()).spawn().expect("a process")
}

/// The threads of a process but one, stopped for as long as this lives.
struct Stopped(Vec<i32>);

impl Stopped {
    fn all_but(pid: i32, except: i32) -> Stopped {
        let mut stopped = Stopped(Vec::new());
        loop {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
            let tids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
            let new: Vec<i32> = tids.filter(|tid| *tid != except && !stopped.0.contains(tid)).collect();
            if new.is_empty() {
                return stopped;
            }
            for tid in new {
                stopped.stop(tid);
            }
        }
    }

    fn stop(&mut self, tid: i32) {
        let none = std::ptr::null_mut::<c_void>();
        let mut status = 0;
        // SAFETY: plain numbers, and a place for the status.
        unsafe {
            if libc::ptrace(libc::PTRACE_SEIZE, tid, none, none) != 0 {
                return;
            }
            self.0.push(tid);
            assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, tid, none, none), 0);
            assert_eq!(libc::waitpid(tid, &raw mut status, libc::__WALL), tid);
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for tid in &self.0 {
            // SAFETY: plain numbers.
            unsafe {
                libc::ptrace(libc::PTRACE_DETACH, *tid, std::ptr::null_mut::<c_void>(), std::ptr::null_mut::<c_void>())
            };
        }
    }
}

#[test]
fn a_process_is_checkpointed_and_restored_with_its_other_threads_stopped_anywhere() {
    let machine = Machine::with("h100");
    let mut hammer = Killed(start(&machine.library()));
    let mut out = BufReader::new(hammer.0.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("hammering") {
        line.clear();
        assert_ne!(out.read_line(&mut line).expect("a line"), 0, "the process has ended");
    }
    std::thread::spawn(move || out.read_to_end(&mut Vec::new()));
    let (driver, pid) = (machine.driver(), hammer.0.id() as i32);
    let (found, thread) = driver.thread(pid);
    assert_eq!(found, 0);
    for round in 0..ROUNDS {
        assert_eq!(driver.lock(pid, 10_000), 0, "round {round}");
        let stopped = Stopped::all_but(pid, thread);
        assert!(stopped.0.len() >= 7, "the main thread and six more");
        let away = in_time(&driver, move |driver| [driver.state(pid).0, driver.checkpoint(pid)]);
        assert_eq!(away, [0, 0], "round {round}");
        assert_eq!(machine.books()[0].bytes, 0, "round {round}");
        let back = in_time(&driver, move |driver| [driver.restore(pid, &[]), driver.unlock(pid)]);
        assert_eq!(back, [0, 0], "round {round}");
        drop(stopped);
    }
    assert_eq!(driver.state(pid), (0, 0));
    assert!(hammer.0.try_wait().expect("a child").is_none(), "it goes on hammering");
}

/// What the calls give; a hang ends the test.
fn in_time(driver: &Driver, calls: impl FnOnce(&Driver) -> [i32; 2] + Send + 'static) -> [i32; 2] {
    let (tell, hear) = std::sync::mpsc::channel();
    let driver = *driver;
    std::thread::spawn(move || tell.send(calls(&driver)));
    hear.recv_timeout(Duration::from_secs(30)).expect("the driver's thread hangs")
}
