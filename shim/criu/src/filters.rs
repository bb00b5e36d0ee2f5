//! `seccomp.img`, the system call filters of the saved processes, with the filter of the live spec in the place of the
//! one that the saved container had.
//!
//! ```text
//! u32 magic of an image, u32 magic of seccomp, u32 length, protobuf seccomp_entry:
//!     repeated seccomp_filter { bytes of struct sock_filter, optional prev, flags }
//! ```
//! All numbers little-endian (CRIU: `criu/include/magic.h`, `images/seccomp.proto`, `criu/seccomp.c`). A thread names
//! the filter that it installed first, which is the container's own; `prev` leads from each filter to the one that was
//! installed next, always at a lower index. The file is hostile input, and so is the index that a thread names: so
//! every chain holds the live filter after the change, wherever it begins.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use protobuf::{CodedInputStream, CodedOutputStream};

use crate::images::{skip, take_u32};

/// Name of the file in an image folder.
pub const FILTERS: &str = "seccomp.img";

/// IMG_COMMON_MAGIC and SECCOMP_MAGIC.
const MAGIC: [u32; 2] = [0x5456_4319, 0x6441_3049];
/// Largest file read or made, in bytes: above what a filter of usual size takes for as many processes as are read.
const FILE_MAX: usize = 64 << 20;
/// Most filters read. CRIU writes one for each process, and one more for each that a process has added.
const FILTERS_MAX: usize = 8192;
/// Size of a struct sock_filter, and most of them in one program: BPF_MAXINSNS of linux/bpf_common.h.
const INSTRUCTION: usize = 8;
const INSTRUCTIONS_MAX: usize = 4096;
/// Flags of seccomp(2) that CRIU saves: all threads at once, and logging.
const TSYNC: u32 = 1;
const SAVED_FLAGS: u32 = TSYNC | 2;

/// A filter as it is to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterProgram {
    /// Its `struct sock_filter`s, as the kernel has them.
    pub instructions: Vec<u8>,
    /// Its SECCOMP_FILTER_FLAGs.
    pub flags: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter<'a> {
    program: &'a [u8],
    prev: Option<u32>,
    flags: u32,
}

/// What `seccomp.img` in the image folder `images` must be for every filtered thread to get the filter `live`. Filters
/// that a process has added stay: they only restrict further. `None` when no saved process has a filter.
///
/// # Errors
/// `IMAGE_CORRUPT` when the file does not parse.
pub fn filters_under(images: &Path, live: &FilterProgram) -> Result<Option<Vec<u8>>> {
    let path = images.join(FILTERS);
    let corrupt = |why: String| {
        Fault::new(Code::ImageCorrupt, format_args!("read the filters saved in {}", path.display()), why)
            .advise("use another image")
    };
    let mut bytes = Vec::new();
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path);
    match file {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(err) if err.raw_os_error() == Some(libc::ELOOP) => return Err(corrupt("it is a link".into())),
        file => file.and_then(|file| file.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes)),
    }
    .attempt(|| format!("read {}", path.display()))?;
    if bytes.len() > FILE_MAX {
        return Err(corrupt(format!("more than {FILE_MAX} bytes")));
    }
    let filters = parse(&bytes).map_err(corrupt)?;
    if filters.is_empty() {
        return Ok(None);
    }
    write(&put_under(filters, live)).map(Some).map_err(corrupt)
}

/// Replaces the filter that begins a chain, and adds the live one where a chain that has more than that ends.
fn put_under<'a>(mut filters: Vec<Filter<'a>>, live: &'a FilterProgram) -> Vec<Filter<'a>> {
    let followers: BTreeSet<u32> = filters.iter().filter_map(|filter| filter.prev).collect();
    let end = u32::try_from(filters.len()).unwrap_or(u32::MAX);
    let mut end_flags = None;
    for (index, filter) in (0..).zip(&mut filters) {
        if !followers.contains(&index) {
            filter.program = &live.instructions;
            filter.flags = filter.flags & TSYNC | live.flags;
        } else if filter.prev.is_none() && filter.program != live.instructions {
            filter.prev = Some(end);
            end_flags = Some(end_flags.unwrap_or(live.flags) | filter.flags & TSYNC);
        }
    }
    filters.extend(end_flags.map(|flags| Filter { program: &live.instructions, prev: None, flags }));
    filters
}

fn parse(bytes: &[u8]) -> std::result::Result<Vec<Filter<'_>>, String> {
    let mut rest = bytes;
    for magic in MAGIC {
        if take_u32(&mut rest) != Some(magic) {
            return Err("wrong magic number".into());
        }
    }
    if rest.is_empty() {
        return Ok(Vec::new());
    }
    let length = take_u32(&mut rest).ok_or("cut in a length")? as usize;
    let entry = rest.get(..length).ok_or("cut in the filters")?;
    let mut input = CodedInputStream::from_bytes(entry);
    let mut filters = Vec::new();
    while let Some(tag) = input.read_raw_tag_or_eof().map_err(|err| err.to_string())? {
        if tag != 0x0a {
            skip(&mut input, tag).map_err(|err| err.to_string())?;
            continue;
        }
        if filters.len() == FILTERS_MAX {
            return Err(format!("more than {FILTERS_MAX} filters"));
        }
        let filter = message(&mut input, entry)?;
        filters.push(parse_filter(filter, filters.len()).map_err(|why| format!("filter {}: {why}", filters.len()))?);
    }
    Ok(filters)
}

fn parse_filter(bytes: &[u8], index: usize) -> std::result::Result<Filter<'_>, String> {
    let mut input = CodedInputStream::from_bytes(bytes);
    let mut filter = Filter { program: &[], prev: None, flags: 0 };
    while let Some(tag) = input.read_raw_tag_or_eof().map_err(|err| err.to_string())? {
        match tag {
            0x0a => filter.program = message(&mut input, bytes)?,
            0x10 => filter.prev = Some(input.read_uint32().map_err(|err| err.to_string())?),
            0x18 => filter.flags = input.read_uint32().map_err(|err| err.to_string())? & SAVED_FLAGS,
            _ => skip(&mut input, tag).map_err(|err| err.to_string())?,
        }
    }
    let (instructions, part) = (filter.program.len() / INSTRUCTION, filter.program.len() % INSTRUCTION);
    if part != 0 || instructions == 0 || instructions > INSTRUCTIONS_MAX {
        return Err(format!("{} bytes are no program", filter.program.len()));
    }
    if filter.prev.is_some_and(|prev| prev as usize >= index) {
        return Err("it does not lead to one before it".into());
    }
    Ok(filter)
}

/// The bytes of a length-delimited field of `whole`, where `input` stands.
fn message<'a>(input: &mut CodedInputStream<'_>, whole: &'a [u8]) -> std::result::Result<&'a [u8], String> {
    let length = input.read_raw_varint32().map_err(|err| err.to_string())?;
    let begin = usize::try_from(input.pos()).map_err(|err| err.to_string())?;
    let bytes = whole.get(begin..).and_then(|rest| rest.get(..length as usize)).ok_or("cut in a field")?;
    input.skip_raw_bytes(length).map_err(|err| err.to_string())?;
    Ok(bytes)
}

fn write(filters: &[Filter<'_>]) -> std::result::Result<Vec<u8>, String> {
    let size: usize = filters.iter().map(|filter| filter.program.len() + 32).sum();
    if size > FILE_MAX {
        return Err(format!("the live filter for {} processes takes more than {FILE_MAX} bytes", filters.len()));
    }
    let mut entry = Vec::with_capacity(size);
    for filter in filters {
        let one = encoded(|output| {
            output.write_bytes(1, filter.program)?;
            filter.prev.map_or(Ok(()), |prev| output.write_uint32(2, prev))?;
            output.write_uint32(3, filter.flags)
        })?;
        entry.extend(encoded(|output| output.write_bytes(1, &one))?);
    }
    let length = u32::try_from(entry.len()).map_err(|err| err.to_string())?;
    let head = [MAGIC[0], MAGIC[1], length];
    Ok(head.iter().flat_map(|number| number.to_le_bytes()).chain(entry).collect())
}

fn encoded(
    fill: impl FnOnce(&mut CodedOutputStream<'_>) -> protobuf::Result<()>,
) -> std::result::Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut output = CodedOutputStream::vec(&mut bytes);
    fill(&mut output).and_then(|()| output.flush()).map_err(|err| err.to_string())?;
    drop(output);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `return SECCOMP_RET_ALLOW`, `return SECCOMP_RET_ERRNO | EPERM`, `return SECCOMP_RET_LOG`.
    const ALLOW: &[u8; 8] = b"\x06\0\0\0\0\0\xff\x7f";
    const DENY: &[u8; 8] = b"\x06\0\0\0\x01\0\x05\0";
    const LOG: &[u8; 8] = b"\x06\0\0\0\0\0\xfc\x7f";
    /// Magic numbers as CRIU 4.2 writes them.
    const HEAD: &[u8; 8] = b"\x19\x43\x56\x54\x49\x30\x41\x64";

    fn live() -> FilterProgram {
        FilterProgram { instructions: DENY.to_vec(), flags: 4 }
    }

    fn file(filters: &[&[u8]]) -> Vec<u8> {
        let mut entry = Vec::new();
        for filter in filters {
            entry.extend([0x0a, u8::try_from(filter.len()).expect("short")]);
            entry.extend(*filter);
        }
        let length = u32::try_from(entry.len()).expect("short").to_le_bytes();
        [&HEAD[..], &length, &entry].concat()
    }

    fn filter(program: &[u8; 8], rest: &[u8]) -> Vec<u8> {
        [b"\x0a\x08", &program[..], rest].concat()
    }

    fn changed(bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::write(dir.path().join(FILTERS), bytes).expect("write");
        filters_under(dir.path(), &live())
    }

    #[test]
    fn the_containers_own_filter_becomes_the_live_one() {
        let saved = file(&[&filter(ALLOW, b"\x18\x01"), &filter(LOG, b"\x18\x00")]);
        let wanted = file(&[&filter(DENY, b"\x18\x05"), &filter(DENY, b"\x18\x04")]);
        assert_eq!(changed(&saved).expect("parse"), Some(wanted));
    }

    #[test]
    fn a_filter_that_a_process_added_stays_and_no_chain_is_without_the_live_one() {
        // CRIU's order: the last installed first, the container's own last, which is the one that a thread names.
        let saved = file(&[&filter(LOG, b"\x18\x03"), &filter(ALLOW, b"\x10\x00\x18\x01")]);
        let wanted =
            file(&[&filter(LOG, b"\x10\x02\x18\x03"), &filter(DENY, b"\x10\x00\x18\x05"), &filter(DENY, b"\x18\x05")]);
        assert_eq!(changed(&saved).expect("parse"), Some(wanted.clone()));
        // Saved and restored once more it does not grow.
        let again =
            file(&[&filter(DENY, b"\x18\x01"), &filter(LOG, b"\x10\x00\x18\x01"), &filter(ALLOW, b"\x10\x01\x18\x01")]);
        let wanted =
            file(&[&filter(DENY, b"\x18\x01"), &filter(LOG, b"\x10\x00\x18\x01"), &filter(DENY, b"\x10\x01\x18\x05")]);
        assert_eq!(changed(&again).expect("parse"), Some(wanted));
    }

    #[test]
    fn flags_that_criu_does_not_save_are_dropped() {
        let saved = file(&[&filter(LOG, b"\x18\x1c"), &filter(ALLOW, b"\x10\x00\x18\x3f")]);
        let wanted =
            file(&[&filter(LOG, b"\x10\x02\x18\x00"), &filter(DENY, b"\x10\x00\x18\x05"), &filter(DENY, b"\x18\x04")]);
        assert_eq!(changed(&saved).expect("parse"), Some(wanted));
    }

    #[test]
    fn an_image_without_filters_says_so() {
        assert_eq!(changed(&file(&[])).expect("parse"), None);
        assert_eq!(changed(HEAD).expect("parse"), None);
        let dir = tempfile::tempdir().expect("temporary folder");
        assert_eq!(filters_under(dir.path(), &live()).expect("no file"), None);
    }

    #[test]
    fn hostile_files_are_refused() {
        let good = file(&[&filter(ALLOW, b"\x18\x01")]);
        for length in (0..good.len()).filter(|length| *length != HEAD.len()) {
            assert!(changed(&good[..length]).is_err(), "cut at {length}");
        }
        let itself = file(&[&filter(ALLOW, b"\x10\x00")]);
        let later = file(&[&filter(ALLOW, b"\x10\x01"), &filter(ALLOW, b"")]);
        let far = file(&[&filter(ALLOW, b""), &filter(ALLOW, b"\x10\xff\xff\xff\xff\x0f")]);
        let part = file(&[b"\x0a\x07\x06\0\0\0\0\0\xff"]);
        let empty = file(&[b"\x0a\x00"]);
        let none = file(&[b"\x18\x01"]);
        let long = file(&[b"\x0a\xff\xff\xff\xff\x0f"]);
        for bytes in [itself, later, far, part, empty, none, long] {
            assert_eq!(changed(&bytes).expect_err("refused").code, Code::ImageCorrupt, "{bytes:x?}");
        }
        let allow = filter(ALLOW, b"");
        assert!(changed(&file(&vec![&allow[..]; FILTERS_MAX + 1])).is_err());
    }

    #[test]
    fn a_program_too_long_for_the_kernel_is_refused() {
        let longest = FilterProgram { instructions: ALLOW.repeat(INSTRUCTIONS_MAX), flags: 0 };
        let longer = FilterProgram { instructions: ALLOW.repeat(INSTRUCTIONS_MAX + 1), flags: 0 };
        let one = file(&[&filter(ALLOW, b"")]);
        for (live, fits) in [(longest, true), (longer, false)] {
            let bytes = write(&put_under(parse(&one).expect("parse"), &live)).expect("write");
            assert_eq!(parse(&bytes).is_ok(), fits);
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::os::unix::fs::symlink("/dev/zero", dir.path().join(FILTERS)).expect("link");
        assert_eq!(filters_under(dir.path(), &live()).expect_err("a link").code, Code::ImageCorrupt);
    }
}
