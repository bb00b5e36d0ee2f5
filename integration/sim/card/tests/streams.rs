//! Work in streams: done in order while the program goes on. Needs root, to make device nodes.

mod machine;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use machine::api::Handle;
use machine::open;

#[test]
fn a_stream_works_while_the_program_goes_on() {
    let (_machine, api, _) = open("h100");
    let spin = api.kernel("baton_spin");
    let (one, two) = (api.stream(1), api.stream(1));
    let (begin, end) = (api.event(), api.event());
    let start = Instant::now();
    // SAFETY: handles of ours, and places for what comes back.
    unsafe {
        assert_eq!((api.event_query)(begin), 0, "never recorded");
        assert_eq!((api.event_record)(begin, one), 0);
        assert_eq!(api.run(spin, one, &[2000]), 0);
        assert_eq!((api.event_record)(end, one), 0);
        assert_eq!((api.stream_query)(one), 600, "a launch does not wait");
        assert_eq!((api.event_query)(end), 600);
        let mut milliseconds = 0.0;
        assert_eq!((api.event_elapsed)(&raw mut milliseconds, begin, end), 600);
        assert_eq!((api.stream_query)(two), 0, "another stream is idle");
        // The other stream comes after the event.
        assert_eq!((api.stream_wait)(two, end, 0), 0);
        assert_eq!((api.stream_synchronize)(two), 0);
        assert!(start.elapsed() >= Duration::from_secs(2));
        assert_eq!([(api.event_query)(end), (api.stream_query)(one)], [0, 0]);
        assert_eq!((api.event_elapsed)(&raw mut milliseconds, begin, end), 0);
        assert!(milliseconds >= 2000.0, "{milliseconds}");
        assert_eq!((api.stream_destroy)(two), 0);
        assert_eq!((api.stream_query)(two), 400);
    }
}

#[test]
fn the_default_stream_and_blocking_streams_take_turns() {
    let (_machine, api, _) = open("h100");
    let (spin, step) = (api.kernel("baton_spin"), api.kernel("baton_count_step"));
    let (blocking, state) = (api.stream(0), api.memory(16));
    // SAFETY: a device pointer with room.
    assert_eq!(unsafe { (api.set_8)(state, 0, 16) }, 0);
    let (stepped, start) = (api.event(), Instant::now());
    assert_eq!(api.run(spin, 0, &[150]), 0);
    assert_eq!(api.run(step, blocking, &[state]), 0);
    // SAFETY: handles of ours.
    unsafe {
        assert_eq!((api.event_record)(stepped, blocking), 0);
        assert_eq!((api.event_synchronize)(stepped), 0);
    }
    assert!(start.elapsed() >= Duration::from_millis(150), "the blocking stream comes after the default one");
    let start = Instant::now();
    assert_eq!(api.run(spin, blocking, &[150]), 0);
    assert_eq!(api.run(step, blocking, &[state]), 0);
    // A copy without a stream comes after both.
    let counted = api.read(state, 8);
    assert!(start.elapsed() >= Duration::from_millis(150));
    assert_eq!(counted, 2u64.to_le_bytes());
}

#[test]
fn functions_of_the_program_are_called_in_the_order_of_their_stream() {
    static CALLED: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn host(data: *mut c_void) {
        // SAFETY: the sender lives until the stream is synchronised.
        let tell = unsafe { &*data.cast::<mpsc::Sender<(u32, i32)>>() };
        tell.send((CALLED.fetch_add(1, Ordering::SeqCst), 0)).expect("heard");
    }
    unsafe extern "C" fn callback(_: Handle, status: i32, data: *mut c_void) {
        // SAFETY: as above.
        let tell = unsafe { &*data.cast::<mpsc::Sender<(u32, i32)>>() };
        tell.send((CALLED.fetch_add(1, Ordering::SeqCst), status)).expect("heard");
    }
    /// Holds the stream until it is told to go on.
    unsafe extern "C" fn hold(data: *mut c_void) {
        // SAFETY: the receiver lives until the stream is synchronised.
        unsafe { &*data.cast::<mpsc::Receiver<()>>() }.recv().expect("told");
    }
    let (_machine, api, _) = open("h100");
    let (go, mut going) = mpsc::channel::<()>();
    let (stream, step, add) = (api.stream(0), api.kernel("baton_count_step"), api.kernel("baton_add"));
    let (mut tell, hear) = mpsc::channel();
    let (data, state) = ((&raw mut tell).cast::<c_void>(), api.memory(16));
    // SAFETY: functions of the right kind, and a sender that lives until the end.
    unsafe {
        assert_eq!(api.run(step, stream, &[state]), 0);
        assert_eq!((api.host_function)(stream, host, data), 0);
        assert_eq!((api.stream_callback)(stream, callback, data, 0), 0);
        assert_eq!((api.stream_synchronize)(stream), 0);
        assert_eq!((hear.try_recv(), hear.try_recv()), (Ok((0, 0)), Ok((1, 0))));
        assert_eq!((api.host_function)(stream, hold, (&raw mut going).cast()), 0);
        assert_eq!(api.run(add, stream, &[8, 8, 8, 1]), 0);
        assert_eq!((api.host_function)(stream, host, data), 0);
        assert_eq!((api.stream_callback)(stream, callback, data, 0), 0);
        go.send(()).expect("it holds");
        assert_eq!((api.synchronize)(), 700);
        assert_eq!(hear.try_recv(), Ok((2, 700)), "only the callback is told of the error");
    }
}

#[test]
fn memory_of_a_pool_comes_and_goes_with_its_stream() {
    let (machine, api, _) = open("h100");
    let stream = api.stream(1);
    let mut pointer = 0;
    // SAFETY: a place for a pointer.
    unsafe {
        assert_eq!((api.allocate_async)(&raw mut pointer, 8192, stream), 0);
        assert_eq!((api.set_16_async)(pointer, 0x0201, 4096, stream), 0);
        assert_eq!((api.stream_synchronize)(stream), 0);
        assert_eq!(api.read(pointer, 4), [1, 2, 1, 2]);
        assert_eq!((api.free_async)(pointer, stream), 0);
        assert_eq!((api.stream_synchronize)(stream), 0);
        assert_eq!((api.free_async)(pointer, stream), 1);
    }
    assert_eq!(machine.books()[0].bytes, 512 << 20);
}

#[test]
fn a_program_built_for_its_threads_own_streams_has_stream_0_for_its_own() {
    type Id = unsafe extern "C" fn(Handle, *mut u64) -> i32;
    type Copy = unsafe extern "C" fn(u64, *const u8, usize) -> i32;
    type Set = unsafe extern "C" fn(u64, u8, usize, Handle) -> i32;
    /// Holds its stream until it is told to go on; says whether it was.
    unsafe extern "C" fn hold(data: *mut c_void) {
        // SAFETY: the channels live until the stream is synchronised.
        let (go, told) = unsafe { &*data.cast::<(mpsc::Receiver<()>, mpsc::Sender<bool>)>() };
        told.send(go.recv_timeout(machine::DEADLINE).is_ok()).expect("heard");
    }
    let (machine, api, _) = open("h100");
    let driver = machine.driver();
    // SAFETY: cuda.h gives each of these functions that type.
    let (plain, own, copy, set) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Id>(driver.function("cuStreamGetId")),
            std::mem::transmute::<*mut c_void, Id>(driver.function("cuStreamGetId_ptsz")),
            std::mem::transmute::<*mut c_void, Copy>(driver.function("cuMemcpyHtoD_v2_ptds")),
            std::mem::transmute::<*mut c_void, Set>(driver.function("cuMemsetD8Async_ptsz")),
        )
    };
    let id = |ask: Id, stream: Handle| {
        let mut id = 0;
        // SAFETY: a stream, and a place for the number.
        assert_eq!(unsafe { ask(stream, &raw mut id) }, 0);
        id
    };
    // CU_STREAM_LEGACY is 1, CU_STREAM_PER_THREAD is 2.
    assert_eq!((id(plain, 0), id(own, 0)), (id(plain, 1), id(plain, 2)));
    assert_eq!(id(own, 1), id(plain, 1), "who names the legacy stream gets it");

    let (busy, memory) = (api.stream(0), api.memory(4096));
    let ((go, going), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let mut data = (going, tell);
    // SAFETY: a function of the right kind, channels that live until it has been called, device memory of that size.
    unsafe {
        assert_eq!((api.host_function)(busy, hold, (&raw mut data).cast()), 0);
        assert_eq!(set(memory, 7, 4096, 0), 0);
        assert_eq!(copy(memory, [1u8, 2, 3].as_ptr(), 3), 0, "it waits for the set, and not for another stream");
        go.send(()).expect("it holds");
        assert_eq!((api.stream_synchronize)(busy), 0);
    }
    assert_eq!(told.try_recv(), Ok(true), "the copy was made while the other stream was busy");
    assert_eq!(api.read(memory, 5), [1, 2, 3, 7, 7]);
}
