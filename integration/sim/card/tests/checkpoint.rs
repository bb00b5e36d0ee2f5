//! What a job on a simulated card goes through when it is checkpointed. Needs root, to make device nodes.

mod machine;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use machine::{Driver, Machine};

const MIB: u64 = 1 << 20;
/// What a CUDA context holds.
const CONTEXT: u64 = 512 * MIB;
/// The counter's own allocation is one page.
const PAGE: u64 = 4096;

#[test]
fn a_checkpointed_job_leaves_its_card_and_goes_on_on_another() {
    let machine = Machine::with("h100x2");
    let counter = machine.counter(&["--memory", "24M"]);
    let (driver, pid) = (machine.driver(), counter.pid());
    let cards = machine.books();
    let (first, second) = (cards[0].uuid.as_str(), cards[1].uuid.as_str());
    assert_eq!((cards[0].bytes, cards[1].bytes), (CONTEXT + 24 * MIB + PAGE, 0));
    assert_eq!(counter.ask(&["status"]).gpu, first);
    assert!(!counter.traces().is_empty());

    assert_eq!(driver.checkpoint(pid), 401, "only a locked process may be checkpointed");
    assert_eq!(driver.lock(pid, 5000), 0);
    assert_eq!(driver.state(pid), (0, 1));
    assert_eq!(driver.checkpoint(pid), 0);
    assert_eq!(driver.state(pid), (0, 2));
    assert_eq!(counter.traces(), Vec::<String>::new(), "nothing of the hardware may be left for CRIU to see");
    assert!(machine.books().iter().all(|card| card.bytes == 0));

    assert_eq!(driver.unlock(pid), 401, "a checkpointed process cannot be unlocked");
    assert_eq!(driver.restore(pid, &[(first, second)]), 1, "the map must list every visible card");
    assert_eq!(driver.state(pid), (0, 2));
    assert_eq!(driver.restore(pid, &[(first, second), (second, first)]), 0);
    assert_eq!(driver.state(pid), (0, 1));
    assert_eq!(driver.unlock(pid), 0);

    let status = counter.ask(&["status"]);
    assert!(status.right, "{status:?}");
    assert_eq!(status.gpu, second);
    assert!(counter.ask(&["wait", &(status.step + 200).to_string()]).right);
    let cards = machine.books();
    assert_eq!((cards[0].bytes, cards[1].bytes), (0, CONTEXT + 24 * MIB + PAGE));
}

#[test]
fn without_a_map_a_job_returns_to_its_own_card() {
    let machine = Machine::with("h100");
    let counter = machine.counter(&[]);
    let (driver, pid) = (machine.driver(), counter.pid());
    for _ in 0..3 {
        assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid)], [0, 0]);
        assert_eq!([driver.restore(pid, &[]), driver.unlock(pid)], [0, 0]);
    }
    assert!(counter.ask(&["status"]).right);
}

#[test]
fn a_restore_without_room_ruins_the_process_for_good() {
    let machine = Machine::with("h100");
    let mut counter = machine.counter(&["--memory", "3M"]);
    let (driver, pid) = (machine.driver(), counter.pid());
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid)], [0, 0]);
    // Nobody writes to it, so it costs no memory here. Of 81559 MiB, 551 are the driver's and 512 this context's; the
    // 96 MiB left are less than the job wants.
    let taken = driver.take(80400 << 20);
    assert_eq!(driver.restore(pid, &[]), 2);
    driver.free(taken);
    assert_eq!(driver.restore(pid, &[]), 304, "also when there is room again");
    assert_eq!(driver.unlock(pid), 401);
    assert_eq!(driver.state(pid), (0, 2), "nobody is told");
    counter.child.0.kill().expect("kill");
    counter.child.0.wait().expect("gone");
    // The neighbour's context is left.
    machine.wait_until_each_holds(CONTEXT);
}

#[test]
fn a_restore_whose_hardware_ends_ruins_the_process_too() {
    let mut machine = Machine::with("h100");
    let counter = machine.counter(&["--memory", "3M"]);
    let (driver, pid) = (machine.driver(), counter.pid());
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid)], [0, 0]);
    machine.order("copy-rate=3145728");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // It has its place again, and copies for a second.
            machine.wait_until_each_holds(CONTEXT + 3 * MIB + PAGE);
            machine.kill();
        });
        assert_eq!(driver.restore(pid, &[]), 304);
    });
    machine.start();
    assert_eq!(driver.state(pid), (0, 3));
    assert_eq!(driver.unlock(pid), 401);
    machine.wait_until_empty();
}

#[test]
fn a_lock_that_times_out_leaves_the_job_running() {
    let machine = Machine::with("h100");
    let counter = machine.counter(&[]);
    let (driver, pid) = (machine.driver(), counter.pid());
    machine.order("lock-hang=1");
    assert_eq!(driver.lock(pid, 100), 600);
    assert_eq!(driver.state(pid), (0, 0));
    let status = counter.ask(&["status"]);
    assert!(counter.ask(&["wait", &(status.step + 100).to_string()]).right);
    assert_eq!([driver.lock(pid, 5000), driver.unlock(pid)], [0, 0], "the order held once");
}

#[test]
fn a_checkpoint_that_fails_leaves_the_job_locked_and_on_its_card() {
    let machine = Machine::with("h100");
    let counter = machine.counter(&[]);
    let (driver, pid) = (machine.driver(), counter.pid());
    machine.order("fail-checkpoint=2");
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid)], [0, 2]);
    assert_eq!(driver.state(pid), (0, 1));
    assert_eq!(machine.books()[0].bytes, CONTEXT + PAGE);
    assert_eq!(driver.unlock(pid), 0);
    assert!(counter.ask(&["status"]).right);
}

#[test]
fn copies_are_as_slow_as_ordered() {
    let machine = Machine::with("h100");
    let counter = machine.counter(&["--memory", "3M"]);
    let (driver, pid) = (machine.driver(), counter.pid());
    machine.order("copy-rate=6291456");
    assert_eq!(driver.lock(pid, 5000), 0);
    for copy in [Driver::checkpoint, |driver: &Driver, pid| driver.restore(pid, &[])] {
        let start = Instant::now();
        assert_eq!(copy(&driver, pid), 0);
        assert!(start.elapsed() >= Duration::from_millis(500), "3 MiB at 6 MiB/s: {:?}", start.elapsed());
    }
    machine.order("copy-rate=off");
    assert_eq!(driver.unlock(pid), 0);
    assert!(counter.ask(&["status"]).right);
}

#[test]
fn a_killed_job_leaves_nothing_on_the_card() {
    let machine = Machine::with("h100");
    let mut counter = machine.counter(&["--memory", "8M"]);
    assert_eq!(machine.books()[0].bytes, CONTEXT + 8 * MIB + PAGE);
    counter.child.0.kill().expect("kill");
    counter.child.0.wait().expect("gone");
    machine.wait_until_empty();
}

#[test]
fn a_process_without_cuda_is_told_apart() {
    let machine = Machine::with("h100");
    let counter = machine.counter(&[]);
    let driver = machine.driver();
    let own = std::process::id() as i32;
    let parent = std::os::unix::process::parent_id() as i32;
    for pid in [1, parent, i32::MAX] {
        assert_eq!(driver.thread(pid), (1, 0), "{pid}");
        assert_eq!(driver.state(pid).0, 1, "{pid}");
        assert_eq!(driver.lock(pid, 10), 1, "{pid}");
    }
    assert_ne!(counter.pid(), own);
    assert_eq!(driver.thread(counter.pid()).0, 0);
}

#[test]
fn a_process_is_also_known_by_the_id_of_the_drivers_thread() {
    let machine = Machine::with("h100");
    let counter = machine.counter(&[]);
    let (driver, pid) = (machine.driver(), counter.pid());
    let (found, thread) = driver.thread(pid);
    assert_eq!(found, 0);
    assert_ne!(thread, pid);
    assert_eq!(driver.thread(thread), (0, thread));
    assert_eq!(driver.state(thread), (0, 0));
    assert_eq!([driver.lock(thread, 5000), driver.checkpoint(thread)], [0, 0]);
    assert_eq!([driver.state(thread), driver.state(pid)], [(0, 2); 2]);
    assert_eq!([driver.restore(thread, &[]), driver.unlock(thread)], [0, 0]);
    assert!(counter.ask(&["status"]).right);
}

#[test]
fn a_job_that_sees_no_card_is_told_so_and_one_without_a_gpu_counts() {
    let machine = Machine::with("none");
    let counter = machine.counter(&["--cpu"]);
    let status = counter.ask(&["status"]);
    assert!(status.right);
    assert_eq!(status.gpu, "null");
    let driver = machine.driver();
    // SAFETY: the signature of cuInit.
    let init: unsafe extern "C" fn(u32) -> i32 = unsafe { std::mem::transmute(driver.function("cuInit")) };
    // SAFETY: plain numbers.
    assert_eq!(unsafe { init(0) }, 100);
}

#[test]
fn nonsense_on_the_socket_harms_nobody() {
    let machine = Machine::with("h100");
    let counter = machine.counter(&[]);
    let frames: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 4096],
        b"\x05\0\0\0{\"a\":",
        b"\0\0\0\0",
        b"\x10\0\0\0\"Cards\"",
        b"\x1b\0\0\0{\"Take\":{\"ticket\":12345678}}",
        b"\x35\0\0\0{\"Allocate\":{\"wanted\":{\"card\":\"GPU-x\",\"bytes\":4096}}}",
    ];
    for frame in frames {
        let mut stream = UnixStream::connect(machine.socket()).expect("connect");
        stream.write_all(frame).expect("write");
    }
    assert!(counter.ask(&["status"]).right);
    assert_eq!(machine.books()[0].bytes, CONTEXT + PAGE);
}
