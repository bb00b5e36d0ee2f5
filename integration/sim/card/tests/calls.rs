//! What programs find when they call the driver: values and error codes. Needs root, to make device nodes.

mod machine;

use std::ffi::{CStr, c_void};
use std::time::Instant;

use machine::open;

#[test]
fn memory_is_copied_set_and_described() {
    let (machine, api, context) = open("h100");
    let pointer = api.memory(10_000);
    let sent: Vec<u8> = (0..10_000u32).map(|byte| byte as u8).collect();
    assert_eq!(api.write(pointer, &sent), 0);
    assert_eq!(api.read(pointer + 5000, 5000), sent[5000..]);
    let other = api.memory(10_000);
    // SAFETY: device pointers with room, and a place for what comes back.
    unsafe {
        assert_eq!((api.device_to_device)(other, pointer, 10_000), 0);
        assert_eq!((api.set_32)(other + 4, 0x0403_0201, 2), 0);
        assert_eq!(api.read(other, 16), [0, 1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 4, 12, 13, 14, 15]);
        assert_eq!((api.set_32)(other + 2, 0, 1), 1, "not a multiple of 4");
        assert_eq!((api.set_8)(other, 0, 20_000), 1, "beyond its pages");
        let (mut base, mut length) = (0, 0);
        assert_eq!((api.address_range)(&raw mut base, &raw mut length, pointer + 77), 0);
        assert_eq!((base, length), (pointer, 10_000));
        let (mut memory, mut owner) = (0u32, 0usize);
        assert_eq!((api.pointer_attribute)((&raw mut memory).cast(), 2, pointer), 0);
        assert_eq!((api.pointer_attribute)((&raw mut owner).cast(), 1, pointer), 0);
        assert_eq!((memory, owner), (2, context));
        assert_eq!((api.pointer_attribute)((&raw mut memory).cast(), 2, 0x1234), 1, "no pointer of CUDA's");
        let (mut free, mut total) = (0, 0);
        assert_eq!((api.memory_info)(&raw mut free, &raw mut total), 0);
        assert_eq!(total, (81559 - 551) << 20);
        assert_eq!(free, total - (512 << 20) - 2 * 12288);
        let (mut rows, mut pitch) = (0, 0);
        assert_eq!((api.allocate_pitch)(&raw mut rows, &raw mut pitch, 1000, 3, 4), 0);
        assert_eq!(pitch, 1024);
        assert_eq!((api.allocate_pitch)(&raw mut rows, &raw mut pitch, 1000, 3, 5), 1);
        assert_eq!([(api.free)(pointer), (api.free)(other), (api.free)(rows), (api.free)(0)], [0; 4]);
        assert_eq!((api.free)(pointer), 1, "freed twice");
        assert_eq!((api.allocate)(&raw mut base, 0), 1);
        assert_eq!((api.allocate)(&raw mut base, 200 << 30), 2, "more than there is");
    }
    assert_eq!(machine.books()[0].bytes, 512 << 20);
}

#[test]
fn host_memory_is_reached_where_it_was_pinned_and_only_once() {
    let (_machine, api, _) = open("h100");
    let mut own = vec![7u8; 8192];
    let device = api.memory(8192);
    // SAFETY: memory of ours that lives throughout, and places for what comes back.
    unsafe {
        let address = own.as_mut_ptr().cast::<c_void>();
        assert_eq!((api.host_unregister)(address), 713);
        assert_eq!((api.host_register)(address, 8192, 0), 0);
        assert_eq!((api.host_register)(address.add(100), 10, 0), 712);
        assert_eq!((api.host_register)(address, 8192, 16), 1);
        // A device reaches it like its own memory.
        assert_eq!((api.copy)(device, address as u64, 8192), 0);
        assert_eq!((api.set_8)(address as u64, 9, 4096), 0);
        assert_eq!((api.host_unregister)(address), 0);
        assert_eq!((api.set_8)(address as u64, 9, 4096), 1, "pinned no more");
        let mut pinned = std::ptr::null_mut();
        assert_eq!((api.host_allocate)(&raw mut pinned, 4096, 8), 1, "no such flag");
        assert_eq!((api.host_allocate)(&raw mut pinned, 4096, 3), 0);
        assert_eq!((api.host_free)(address), 1);
        assert_eq!((api.host_free)(pinned), 0);
        assert_eq!((api.host_free)(pinned), 1);
    }
    assert_eq!(own[..4096], [9; 4096]);
    assert_eq!(own[4096..], [7; 4096]);
    assert_eq!(api.read(device, 8192), [7; 8192]);
}

/// `baton_add` of floats that are known.
#[test]
fn a_kernel_of_a_text_runs_and_other_texts_are_refused() {
    let (_machine, api, _) = open("a100-40");
    let floats = |numbers: [f32; 4]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let (a, b, out) = (api.memory(16), api.memory(16), api.memory(16));
    assert_eq!(api.write(a, &floats([1.0, 2.0, 3.0, 4.0])), 0);
    assert_eq!(api.write(b, &floats([0.5, 0.25, -3.0, 1e9])), 0);
    let add = api.kernel("baton_add");
    assert_eq!(api.run(add, 0, &[a, b, out, 4]), 0);
    assert_eq!(api.read(out, 16), floats([1.5, 2.25, 0.0, 1_000_000_004.0]));
    let refused = |text: &CStr, name: &CStr| {
        let (mut module, mut function) = (0, 0);
        // SAFETY: NUL-terminated texts, and places for handles.
        unsafe {
            match (api.load_module)(&raw mut module, text.as_ptr()) {
                0 => (api.function)(&raw mut function, module, name.as_ptr()),
                code => code,
            }
        }
    };
    let text = machine::api::kernels();
    assert_eq!(refused(&text, c"baton_spin"), 0);
    assert_eq!(refused(&text, c"other_kernel"), 500);
    assert_eq!(refused(c"no program at all", c"baton_spin"), 218);
    assert_eq!(refused(c"\x7fELF\x02", c"baton_spin"), 209);
    assert_eq!(refused(c".version 9.9\n.target sm_80\n.address_size 64\n", c"x"), 222);
    assert_eq!(refused(c".version 7.8\n.target sm_90\n.address_size 64\n", c"x"), 218, "an A100 is 8.0");
}

#[test]
fn an_illegal_address_breaks_the_context_for_good_and_no_other() {
    let (_machine, api, broken) = open("h100x2");
    let add = api.kernel("baton_add");
    assert_eq!(api.run(add, 0, &[0x1000, 0x1000, 0x1000, 4]), 0, "the launch itself is fine");
    let mut pointer = 0;
    // SAFETY: places for what comes back.
    unsafe {
        assert_eq!((api.synchronize)(), 700);
        assert_eq!((api.allocate)(&raw mut pointer, 4096), 700);
        assert_eq!((api.synchronize)(), 700);
        let mut other = 0;
        assert_eq!((api.retain)(&raw mut other, 1), 0);
        assert_eq!((api.set_current)(other), 0);
        assert_eq!((api.allocate)(&raw mut pointer, 4096), 0);
        assert_ne!(other, broken);
        // Given up and taken again, the card works.
        assert_eq!((api.release)(0), 0);
        let fresh = api.open();
        assert_ne!(fresh, broken);
        assert_eq!((api.allocate)(&raw mut pointer, 4096), 0);
    }
}
#[test]
fn contexts_keep_what_is_theirs_and_take_it_along() {
    let (machine, api, primary) = open("h100");
    let mut context = 0;
    // SAFETY: places for what comes back.
    unsafe {
        assert_eq!((api.create_context)(&raw mut context, 0, 0), 0);
        let mut current = 0;
        assert_eq!((api.get_current)(&raw mut current), 0);
        assert_eq!(current, context, "a new context is current");
        api.memory(4096);
        assert_eq!((api.set_limit)(0, 4096), 0);
        let mut limit = 0;
        assert_eq!((api.get_limit)(&raw mut limit, 0), 0);
        assert_eq!(limit, 4096);
        assert_eq!((api.get_limit)(&raw mut limit, 99), 215);
        assert_eq!(machine.books()[0].bytes, 2 * (512 << 20) + 4096);
        assert_eq!((api.destroy_context)(context), 0);
        assert_eq!((api.set_current)(context), 709);
        assert_eq!((api.set_current)(12345), 201);
        assert_eq!((api.destroy_context)(primary), 201, "a primary context is released");
        let (mut flags, mut active) = (0, 0);
        assert_eq!((api.primary_state)(0, &raw mut flags, &raw mut active), 0);
        assert_eq!((flags, active), (0, 1));
        assert_eq!((api.release)(0), 0);
        assert_eq!((api.primary_state)(0, &raw mut flags, &raw mut active), 0);
        assert_eq!(active, 0);
    }
    machine.wait_until_empty();
}

#[test]
fn functions_are_found_by_name_and_version() {
    let (_machine, api, _) = open("h100");
    let find = |name: &CStr, version| {
        let (mut function, mut status) = (std::ptr::null_mut(), -1);
        // SAFETY: places for what comes back.
        let code = unsafe { (api.proc_address)(name.as_ptr(), &raw mut function, version, 0, &raw mut status) };
        (code, function, status)
    };
    let (code, function, status) = find(c"cuMemAlloc", 12000);
    assert_eq!((code, status), (0, 0));
    assert_eq!(function as usize, api.allocate as usize);
    assert_eq!(find(c"cuMemAlloc", 3000), (0, std::ptr::null_mut(), 2));
    assert_eq!(find(c"cuTeaPot", 12000), (0, std::ptr::null_mut(), 1));
    assert_eq!(find(c"cuMemAlloc", 13010).0, 1, "newer than the driver");
    let mut name = std::ptr::null();
    // SAFETY: a place for a pointer; the name lives for ever.
    unsafe {
        assert_eq!((api.error_name)(801, &raw mut name), 0);
        assert_eq!(CStr::from_ptr(name), c"CUDA_ERROR_NOT_SUPPORTED");
    }
}

/// A measurement, for who changes how copies are made; tests with some GiB are practical from 2 GB/s on.
#[test]
#[ignore = "it measures: run it by name, with --ignored --nocapture"]
fn copies_at_the_speed_of_memory() {
    let (_machine, api, _) = open("h100");
    const BYTES: usize = 256 << 20;
    let (pointer, other, bytes) = (api.memory(BYTES), api.memory(BYTES), vec![3u8; BYTES]);
    // The first time pages are found.
    assert_eq!(api.write(pointer, &bytes), 0);
    // SAFETY: device pointers with room.
    assert_eq!(unsafe { (api.device_to_device)(other, pointer, BYTES) }, 0);
    let measure = |what: &str, copy: &dyn Fn() -> i32| {
        let best = (0..3).map(|_| {
            let start = Instant::now();
            assert_eq!(copy(), 0);
            start.elapsed()
        });
        println!("{what}: {:.1} GB/s", BYTES as f64 / best.min().expect("three").as_secs_f64() / 1e9);
    };
    measure("to the card", &|| api.write(pointer, &bytes));
    // SAFETY: device pointers with room.
    measure("on the card", &|| unsafe { (api.device_to_device)(other, pointer, BYTES) });
}
