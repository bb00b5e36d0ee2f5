//! `pagemap-*.img` against `pages-N.img`: whether all memory is there. CRIU would read the end of a file that is cut
//! again and again, for ever.
//!
//! ```text
//! u32 magic of an image, u32 magic of a pagemap, u32 length, protobuf pagemap_head { pages_id },
//!     then: u32 length, protobuf pagemap_entry { vaddr, old nr_pages, in_parent, flags, nr_pages }
//! ```
//! All numbers little-endian (CRIU: `criu/include/magic.h`, `images/pagemap.proto`, `criu/include/pagemap.h`). The files
//! are hostile input.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use protobuf::CodedInputStream;

use crate::images::skip;

/// IMG_COMMON_MAGIC and PAGEMAP_MAGIC.
const MAGIC: [u32; 2] = [0x5456_4319, 0x5608_4025];
/// Longest entry, in bytes: five small numbers.
const ENTRY_MAX: usize = 256;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Flags of an entry: its pages are in an earlier image, or in this one.
const IN_PARENT: u32 = 1;
const PRESENT: u32 = 4;

/// Demands that the files of memory in the image folder `images` hold what their maps name.
///
/// # Errors
/// `IMAGE_CORRUPT` naming the file that is cut, or the map that does not parse.
pub fn memory_is_whole(images: &Path) -> Result<()> {
    let what = || format!("look at the memory saved in {}", images.display());
    let corrupt = |why: String| Fault::new(Code::ImageCorrupt, what(), why).advise("use another image");
    let mut needed: BTreeMap<u32, u64> = BTreeMap::new();
    for entry in std::fs::read_dir(images).attempt(what)? {
        let name = entry.attempt(what)?.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with("pagemap-") && name.ends_with(".img")) else {
            continue;
        };
        let path = images.join(name);
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path)
            .attempt(|| format!("read {}", path.display()))?;
        let map = map(&mut BufReader::new(file)).map_err(|why| corrupt(format!("{name}: {why}")))?;
        let sum = needed.entry(map.pages_id).or_default();
        *sum = sum.checked_add(map.bytes).ok_or_else(|| corrupt(format!("{name} names more than there can be")))?;
    }
    for (id, needed) in needed.iter().filter(|(_, needed)| **needed > 0) {
        let name = format!("pages-{id}.img");
        match std::fs::symlink_metadata(images.join(&name)) {
            Ok(meta) if meta.is_file() && meta.len() >= *needed => {}
            Ok(meta) => return Err(corrupt(format!("{name} has {} of {needed} bytes", meta.len()))),
            Err(err) => return Err(corrupt(format!("{name}: {err}"))),
        }
    }
    Ok(())
}

/// The file that a map belongs to, and how many bytes of it the map names.
#[derive(Debug, PartialEq, Eq)]
struct Map {
    pages_id: u32,
    bytes: u64,
}

fn map(file: &mut impl Read) -> std::result::Result<Map, String> {
    let mut word = [0; 4];
    for magic in MAGIC {
        file.read_exact(&mut word).map_err(|_| "cut in a magic number")?;
        if u32::from_le_bytes(word) != magic {
            return Err("wrong magic number".into());
        }
    }
    let head = next(file)?.ok_or("no head")?;
    let pages_id = field(&head, 0x08)?.ok_or("no name of its pages")?;
    let pages_id = u32::try_from(pages_id).map_err(|_| "an impossible name of its pages")?;
    let mut bytes: u64 = 0;
    while let Some(entry) = next(file)? {
        let number = |tag| field(&entry, tag);
        let pages = number(0x28)?.filter(|pages| *pages != 0).or(number(0x10)?).unwrap_or(0);
        let in_parent = number(0x18)? == Some(1);
        let present = match number(0x20)? {
            Some(flags) => flags & u64::from(PRESENT) != 0 && flags & u64::from(IN_PARENT) == 0,
            None => !in_parent,
        };
        if present {
            let more = pages.checked_mul(PAGE).ok_or("more pages than there can be")?;
            bytes = bytes.checked_add(more).ok_or("more pages than there can be")?;
        }
    }
    Ok(Map { pages_id, bytes })
}

/// The next message; `None` at the end of the file.
fn next(file: &mut impl Read) -> std::result::Result<Option<Vec<u8>>, String> {
    let mut word = [0; 4];
    let mut got = 0;
    while got < word.len() {
        match file.read(&mut word[got..]).map_err(|err| err.to_string())? {
            0 if got == 0 => return Ok(None),
            0 => return Err("cut in a length".into()),
            length => got += length,
        }
    }
    let length = u32::from_le_bytes(word) as usize;
    if length > ENTRY_MAX {
        return Err(format!("an entry of {length} bytes"));
    }
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).map_err(|_| "cut in an entry")?;
    Ok(Some(bytes))
}

/// The last number under a tag.
fn field(message: &[u8], wanted: u32) -> std::result::Result<Option<u64>, String> {
    let mut input = CodedInputStream::from_bytes(message);
    let mut found = None;
    while let Some(tag) = input.read_raw_tag_or_eof().map_err(|err| err.to_string())? {
        match tag == wanted {
            true => found = Some(input.read_raw_varint64().map_err(|err| err.to_string())?),
            false => skip(&mut input, tag).map_err(|err| err.to_string())?,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As CRIU 4.2 writes it: pages 1; one page, six pages present and two that are in the parent.
    const FILE: &[u8] = b"\x19CVT%@\x08V\x02\0\0\0\x08\x01\
        \x0e\0\0\0\x08\x80\xc0\xda\xfa\xb1\xab\x15\x10\0 \x04(\x01\
        \x0e\0\0\0\x08\x80\xe0\xed\xfa\xb1\xab\x15\x10\0 \x06(\x06\
        \x0e\0\0\0\x08\x80\x80\xb0\x8b\xb2\xab\x15\x10\0 \x01(\x02";

    fn read(bytes: &[u8]) -> std::result::Result<Map, String> {
        map(&mut &*bytes)
    }

    #[test]
    fn the_pages_in_the_file_are_counted() {
        assert_eq!(read(FILE), Ok(Map { pages_id: 1, bytes: 7 * PAGE }));
        // The form before flags: nr_pages in its old place, in_parent.
        let old = b"\x19CVT%@\x08V\x02\0\0\0\x08\x09\x04\0\0\0\x08\0\x10\x03\x06\0\0\0\x08\0\x10\x05\x18\x01";
        assert_eq!(read(old), Ok(Map { pages_id: 9, bytes: 3 * PAGE }));
    }

    #[test]
    fn a_map_that_is_cut_or_forged_is_refused() {
        let ends = [14, 32, 50, FILE.len()];
        for length in (0..FILE.len()).filter(|length| !ends.contains(length)) {
            assert!(read(&FILE[..length]).is_err(), "cut at {length}");
        }
        let long = [&FILE[..14], b"\xff\xff\0\0"].concat();
        let many = [&FILE[..14], b"\x0e\0\0\0\x20\x04\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0"].concat();
        for bytes in [long, many] {
            assert!(read(&bytes).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn a_file_of_memory_that_is_cut_is_named() {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::write(dir.path().join("pagemap-1.img"), FILE).expect("write");
        let pages = dir.path().join("pages-1.img");
        let fault = memory_is_whole(dir.path()).expect_err("missing");
        assert!(fault.code == Code::ImageCorrupt && fault.to_string().contains("pages-1.img"), "{fault}");
        std::fs::write(&pages, vec![0; 7 * 4096 - 1]).expect("write");
        assert!(memory_is_whole(dir.path()).expect_err("cut").to_string().contains("28671 of 28672 bytes"));
        std::fs::write(&pages, vec![0; 7 * 4096]).expect("write");
        memory_is_whole(dir.path()).expect("whole");
    }
}
