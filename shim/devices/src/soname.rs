//! The SONAME of a shared library: the name under which programs ask for it.
//!
//! ```text
//! ELF header ─ program headers ─ PT_DYNAMIC: (tag, value)… ─ DT_SONAME: offset into DT_STRTAB
//!                              └ PT_LOAD: where the address of DT_STRTAB lies in the file
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Most program headers that are read; linkers write about ten.
const HEADERS_MAX: u64 = 64;
/// Most entries of the dynamic section that are read; linkers write about thirty.
const DYNAMIC_MAX: u64 = 512;
/// Longest name, in bytes (`NAME_MAX` of Linux).
const NAME_MAX: usize = 255;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_SONAME: u64 = 14;

/// A piece of the file that is mapped at an address.
#[derive(Clone, Copy)]
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

/// The SONAME of a 64-bit little-endian library; `None` for one without it, and for any other file.
pub fn read(file: &File) -> Option<String> {
    let segments = segments(file)?;
    let dynamic = segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
    let (mut name, mut strings) = (None, None);
    for index in 0..(dynamic.size / 16).min(DYNAMIC_MAX) {
        let entry: [u8; 16] = at(file, dynamic.offset.checked_add(index * 16)?)?;
        let value = u64_at(&entry, 8);
        match u64_at(&entry, 0) {
            DT_NULL => break,
            DT_SONAME => name = Some(value),
            DT_STRTAB => strings = Some(value),
            _ => {}
        }
    }
    let address = strings?.checked_add(name?)?;
    let home = segments.iter().find(|segment| {
        segment.kind == PT_LOAD && address >= segment.address && address - segment.address < segment.size
    })?;
    text(file, home.offset.checked_add(address - home.address)?)
}

fn segments(file: &File) -> Option<Vec<Segment>> {
    let header: [u8; 64] = at(file, 0)?;
    // Magic, 64-bit, little-endian.
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let start = u64_at(&header, 32);
    let size = u64::from(u16_at(&header, 54));
    let count = u64::from(u16_at(&header, 56));
    if size != 56 || count > HEADERS_MAX {
        return None;
    }
    (0..count)
        .map(|index| {
            let entry: [u8; 56] = at(file, start.checked_add(index * size)?)?;
            Some(Segment {
                kind: u32_at(&entry, 0),
                offset: u64_at(&entry, 8),
                address: u64_at(&entry, 16),
                size: u64_at(&entry, 32),
            })
        })
        .collect()
}

fn text(file: &File, offset: u64) -> Option<String> {
    let mut bytes = [0; NAME_MAX + 1];
    let count = file.read_at(&mut bytes, offset).ok()?;
    let end = bytes[..count].iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(&bytes[..end]).ok()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    (!name.is_empty() && !name.starts_with('.') && name.chars().all(plain)).then(|| name.to_owned())
}

fn at<const N: usize>(file: &File, offset: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::library;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("file");
        std::io::Write::write_all(&mut file, bytes).expect("write");
        file
    }

    #[test]
    fn the_name_is_found() {
        assert_eq!(read(&file(&library("libcuda.so.1"))), Some("libcuda.so.1".to_owned()));
    }

    #[test]
    fn a_library_of_this_machine_has_its_name() {
        let libc = File::open("/proc/self/maps").map(std::io::read_to_string).expect("maps").expect("text");
        let path = libc.split_whitespace().find(|word| word.ends_with("/libc.so.6")).expect("libc is mapped");
        assert_eq!(read(&File::open(path).expect("libc")), Some("libc.so.6".to_owned()));
    }

    #[test]
    fn damaged_files_have_none() {
        let whole = library("libcuda.so.1");
        for cut in 0..whole.len() {
            let name = read(&file(&whole[..cut]));
            assert!(name.is_none() || cut > whole.len() - 8, "{cut} bytes gave {name:?}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            let _ = read(&file(&damaged));
        }
        assert_eq!(read(&file(&library("../../etc/x"))), None);
        assert_eq!(read(&file(b"#!/bin/sh\n")), None);
    }
}
