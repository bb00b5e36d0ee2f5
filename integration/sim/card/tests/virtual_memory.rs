//! Memory by handles, mapped where a program wants it: values and error codes. Needs root, to make device nodes.

mod machine;

use std::ffi::c_void;

use machine::by_handle::{Access, GRANULE, Location, Properties, pattern};
use machine::open;

const MIB: usize = 1 << 20;
/// What a CUDA context holds.
const CONTEXT: u64 = 512 << 20;

#[test]
fn a_device_says_that_it_has_memory_by_handles() {
    let (_machine, api, _) = open("h100");
    let properties = Properties::on(0);
    for (option, code) in [(0, 0), (1, 0), (2, 1)] {
        let mut granularity = GRANULE;
        // SAFETY: a whole description, and a place for a size.
        let got = unsafe { (api.granularity)(&raw mut granularity, &raw const properties, option) };
        assert_eq!((got, granularity), (code, GRANULE), "{option}");
    }
    let attribute = |number| {
        let mut value = -1;
        // SAFETY: a place for an int.
        assert_eq!(unsafe { (api.attribute)(&raw mut value, number, 0) }, 0);
        value
    };
    // Virtual memory management; sharing by descriptor, by two kinds of Windows, by fabric; memory of NUMA nodes.
    assert_eq!([102, 103, 104, 105, 128, 141].map(attribute), [1, 1, 0, 0, 0, 0]);
}

#[test]
fn work_goes_across_what_is_mapped_side_by_side() {
    let (machine, api, _) = open("h100x2");
    let (one, two) = (api.create(4 * MIB), api.create(2 * MIB));
    assert_eq!(machine.books()[0].bytes, CONTEXT + 6 * MIB as u64);
    let start = api.reserve(100 << 30);
    let border = start + 4 * MIB as u64;
    // The other way round than they lie on the card.
    // SAFETY: plain numbers.
    unsafe {
        assert_eq!((api.memory_map)(start, 4 * MIB, 0, one, 0), 0);
        assert_eq!((api.memory_map)(border, 2 * MIB, 0, two, 0), 0);
    }
    let sent = pattern(6 * MIB);
    assert_eq!(api.write(start, &sent), 1, "nobody has access");
    assert_eq!(api.allow(start, 6 * MIB, &[Access(Location::device(0), 3), Access(Location::device(1), 1)]), 0);
    assert_eq!([0, 1].map(|device| api.access(border + 5, device)), [(0, 3), (0, 1)]);
    assert_eq!(api.write(start, &sent), 0);
    assert!(api.read(start, 6 * MIB) == sent);
    assert_eq!(api.write(start + 1, &sent), 1, "the last byte is not mapped");
    // Four floats lie on both sides of the border.
    let floats = |numbers: [f32; 4]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let (other, stream) = (api.memory(16), api.stream(1));
    assert_eq!(api.write(border - 8, &floats([1.0, 2.0, 3.0, 4.0])), 0);
    assert_eq!(api.write(other, &floats([0.5; 4])), 0);
    assert_eq!(api.run(api.kernel("baton_add"), 0, &[border - 8, other, border - 8, 4]), 0);
    assert_eq!(api.read(border - 8, 16), floats([1.5, 2.5, 3.5, 4.5]));
    // SAFETY: device pointers with room.
    unsafe {
        assert_eq!((api.set_16_async)(border - 2, 0x0201, 2, stream), 0);
        assert_eq!((api.stream_synchronize)(stream), 0);
        assert_eq!(api.read(border - 2, 4), [1, 2, 1, 2]);
        assert_eq!((api.device_to_device)(other, border - 2, 4), 0);
    }
    assert_eq!(api.read(other, 4), [1, 2, 1, 2]);
    machine.books();
}

#[test]
fn memory_is_seen_wherever_it_is_mapped_and_lives_as_long_as_that() {
    let (machine, api, _) = open("h100");
    let (handle, start) = (api.create(GRANULE), api.reserve(16 * MIB));
    let (here, there) = (start + 2 * MIB as u64, start + 8 * MIB as u64);
    api.map(here, GRANULE, handle);
    api.map(there, GRANULE, handle);
    assert_eq!(api.write(here, &pattern(1000)), 0);
    assert_eq!(api.read(there, 1000), pattern(1000));
    // SAFETY: handles and pointers of ours, and places for what comes back.
    unsafe {
        let (mut base, mut length) = (0, 0);
        assert_eq!((api.address_range)(&raw mut base, &raw mut length, there + 77), 0);
        assert_eq!((base, length), (there, GRANULE));
        let mut found = Properties::on(7);
        assert_eq!((api.properties)(&raw mut found, handle), 0);
        assert_eq!(found, Properties::on(0));
        assert_eq!((api.memory_release)(handle), 0);
        assert_eq!((api.properties)(&raw mut found, handle), 1, "it has been released");
        assert_eq!([(api.memory_release)(handle), (api.memory_map)(start, GRANULE, 0, handle, 0)], [1, 1]);
        let mut again = 0;
        assert_eq!((api.retain_handle)(&raw mut again, (here + 5) as *mut c_void), 0);
        assert_eq!(again, handle);
        assert_eq!([(api.memory_release)(again), (api.memory_release)(again)], [0, 1]);
        assert_eq!((api.retain_handle)(&raw mut again, start as *mut c_void), 1, "nothing is mapped");
        assert_eq!((api.memory_unmap)(here, GRANULE), 0);
        assert_eq!(api.read(there, 1000), pattern(1000));
        assert_eq!(machine.books()[0].bytes, CONTEXT + GRANULE as u64);
        assert_eq!((api.address_free)(start, 16 * MIB), 1, "something is mapped");
        assert_eq!((api.memory_unmap)(there, GRANULE), 0);
        assert_eq!(machine.books()[0].bytes, CONTEXT);
        assert_eq!([(api.memory_unmap)(there, GRANULE), (api.address_free)(start, 16 * MIB)], [1, 0]);
        assert_eq!((api.address_free)(start, 16 * MIB), 1);
    }
}

#[test]
fn memory_by_a_handle_outlives_the_context() {
    let (machine, api, _) = open("h100");
    let (handle, start) = (api.create(GRANULE), api.reserve(GRANULE));
    api.map(start, GRANULE, handle);
    assert_eq!(api.write(start, &pattern(1000)), 0);
    // SAFETY: plain numbers.
    assert_eq!(unsafe { (api.release)(0) }, 0);
    assert_eq!(machine.books()[0].bytes, GRANULE as u64);
    api.open();
    assert_eq!(api.read(start, 1000), pattern(1000));
    // SAFETY: plain numbers.
    unsafe { assert_eq!([(api.memory_release)(handle), (api.memory_unmap)(start, GRANULE)], [0, 0]) };
    assert_eq!(machine.books()[0].bytes, CONTEXT);
}

#[test]
fn a_pointer_tells_of_its_reservation_its_mapping_and_its_memory() {
    let (_machine, api, _) = open("h100");
    let (handle, start) = (api.create(GRANULE), api.reserve(16 * MIB));
    let (here, there) = (start + 2 * MIB as u64, start + 8 * MIB as u64);
    api.map(here, GRANULE, handle);
    api.map(there, GRANULE, handle);
    // No context; device memory of device 0; the reserved range; the mapping; mapped; by descriptor; read and write; no
    // pool, and not for cuIpcGetMemHandle.
    for (number, value) in [
        (1, 0),
        (2, 2),
        (3, there + 5),
        (9, 0),
        (11, start),
        (12, 16 * MIB as u64),
        (19, there),
        (18, GRANULE as u64),
        (13, 1),
        (14, 1),
        (16, 3),
        (17, 0),
        (10, 0),
    ] {
        assert_eq!(api.told(number, there + 5), (0, value), "{number}");
    }
    assert_ne!(api.told(7, here), api.told(7, there), "two mappings");
    assert_eq!(api.told(20, here), api.told(20, there), "one memory");
    assert_eq!(api.told(2, start).0, 1, "nothing is mapped");
    // SAFETY: a pointer of ours.
    assert_eq!(unsafe { (api.free)(there) }, 1, "cuMemUnmap takes it away");
}

#[test]
fn a_kernel_that_meets_nothing_mapped_breaks_its_context() {
    let (_machine, api, _) = open("h100");
    let (handle, start) = (api.create(GRANULE), api.reserve(16 * MIB));
    api.map(start, GRANULE, handle);
    let step = api.kernel("baton_count_step");
    assert_eq!(api.run(step, 0, &[start + GRANULE as u64 - 16]), 0);
    // SAFETY: no arguments.
    assert_eq!(unsafe { (api.synchronize)() }, 0);
    assert_eq!(api.run(step, 0, &[start + GRANULE as u64 - 8]), 0);
    // SAFETY: no arguments.
    assert_eq!(unsafe { (api.synchronize)() }, 700, "the second word is not mapped");
}

#[test]
fn what_does_not_fit_is_refused() {
    let (machine, api, _) = open("a100-40");
    let mut handle = 0;
    let create = |handle: &mut usize, bytes, properties: Properties, flags| {
        // SAFETY: a whole description, and a place for a handle.
        unsafe { (api.memory_create)(handle, bytes, &raw const properties, flags) }
    };
    let plain = Properties::on(0);
    for (what, bytes, properties, flags, code) in [
        ("no size", 0, plain, 0, 1),
        ("half a granule", MIB, plain, 0, 1),
        ("flags", GRANULE, plain, 1, 1),
        ("no type", GRANULE, Properties { kind: 0, ..plain }, 0, 1),
        ("no such device", GRANULE, Properties::on(1), 0, 101),
        ("host", GRANULE, Properties { location: Location(2, 0), ..plain }, 0, 1),
        ("a NUMA node", GRANULE, Properties { location: Location(3, 0), ..plain }, 0, 801),
        ("fabric", GRANULE, Properties { handle_types: 8, ..plain }, 0, 801),
        ("no such handle type", GRANULE, Properties { handle_types: 16, ..plain }, 0, 1),
        ("something of Windows", GRANULE, Properties { windows: 1, ..plain }, 0, 1),
        ("a tile pool", GRANULE, Properties { usage: 1, ..plain }, 0, 801),
        ("more than there is", 41 << 30, plain, 0, 2),
        ("compression, which is a hint", GRANULE, Properties { compression: 1, ..plain }, 0, 0),
    ] {
        assert_eq!(create(&mut handle, bytes, properties, flags), code, "{what}");
    }
    let mut pointer = 0;
    // SAFETY: places for what comes back.
    unsafe {
        let mut found = plain;
        assert_eq!((api.properties)(&raw mut found, handle), 0);
        assert_eq!(found.compression, 0, "none is compressed");
        for (bytes, alignment, hint, flags) in
            [(0, 0, 0, 0), (100, 0, 0, 0), (4096, 3, 0, 0), (4096, 0, 5, 0), (4096, 0, 0, 1)]
        {
            let code = (api.address_reserve)(&raw mut pointer, bytes, alignment, hint, flags);
            assert_eq!(code, 1, "{bytes} {alignment} {hint} {flags}");
        }
        assert_eq!((api.address_reserve)(&raw mut pointer, 8 * MIB, 1 << 30, 0, 0), 0);
        assert_eq!(pointer % (1 << 30), 0);
        let at = |pieces: u64| pointer + pieces * GRANULE as u64;
        for (what, start, bytes, offset, handle, flags) in [
            ("half a granule", at(0), MIB, 0, handle, 0),
            ("between granules", at(0) + MIB as u64, GRANULE, 0, handle, 0),
            ("more than the memory has", at(0), 2 * GRANULE, 0, handle, 0),
            ("an offset", at(0), GRANULE, GRANULE, handle, 0),
            ("no handle", at(0), GRANULE, 0, handle + 1, 0),
            ("beyond the range", at(4), GRANULE, 0, handle, 0),
            ("not reserved", 0x3_0200_0000, GRANULE, 0, handle, 0),
            ("flags", at(0), GRANULE, 0, handle, 1),
        ] {
            assert_eq!((api.memory_map)(start, bytes, offset, handle, flags), 1, "{what}");
        }
        api.map(at(1), GRANULE, handle);
        assert_eq!((api.memory_map)(at(1), GRANULE, 0, handle, 0), 1, "mapped already");
        let first = Location::device(0);
        for (what, start, bytes, access, code) in [
            ("half of a mapping", at(1), MIB, Access(first, 3), 1),
            ("more than is mapped", at(1), 2 * GRANULE, Access(first, 3), 1),
            ("no such flags", at(1), GRANULE, Access(first, 2), 1),
            ("no such device", at(1), GRANULE, Access(Location::device(1), 3), 101),
            ("the host", at(1), GRANULE, Access(Location(2, 0), 3), 1),
            ("no access any more", at(1), GRANULE, Access(first, 0), 0),
        ] {
            assert_eq!(api.allow(start, bytes, &[access]), code, "{what}");
        }
        assert_eq!(api.allow(at(1), GRANULE, &[]), 1);
        assert_eq!(api.write(at(1), &[1]), 1);
        assert_eq!((api.access(at(0), 0).0, api.access(at(1), 1).0, api.access(at(1), 0)), (1, 101, (0, 0)));
        assert_eq!((api.memory_unmap)(at(1), MIB), 1);
        assert_eq!((api.memory_unmap)(at(1), GRANULE), 0);
        // The handle is none of cuMemFree's, nor a pointer.
        assert_eq!([(api.free)(handle as u64), api.write(handle as u64, &[1])], [1, 1]);
    }
    assert_eq!(machine.books()[0].bytes, CONTEXT + GRANULE as u64);
}
