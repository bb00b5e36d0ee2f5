//! The one image file of CRIU that Baton looks into before a restore: `mountpoints-N.img`, the mounts of the
//! saved container.
//!
//! ```text
//! u32 magic of an image, u32 magic of mountpoints, then for each mount: u32 length, protobuf mnt_entry
//! ```
//! All numbers little-endian (CRIU: `criu/include/magic.h`, `images/mnt.proto`). The file is hostile input.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use protobuf::CodedInputStream;

/// IMG_COMMON_MAGIC and MOUNTPOINTS_MAGIC.
const MAGIC: [u32; 2] = [0x5456_4319, 0x5556_3928];
/// Largest file read, in bytes: far above what 4096 mounts take.
const FILE_MAX: u64 = 4 << 20;
/// Most mounts read: a container with more is not one that Baton saved.
const MOUNTS_MAX: usize = 4096;

/// Most files in an image folder: some ten for each process, one for each of its larger pieces of memory.
const ENTRIES_MAX: usize = 1 << 20;
/// Name of CRIU's link to the images of an earlier dump.
const PARENT: &str = "parent";

/// A kind of filesystem, as CRIU numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filesystem(u32);

/// One mount of the saved container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpedMount {
    /// Absolute path in the container.
    pub mountpoint: String,
    /// Filesystem.
    pub filesystem: Filesystem,
    /// The mounted folder or file within its filesystem.
    pub root: String,
    /// The source, as the kernel shows it.
    pub source: String,
    /// The key under which whoever restores must bring this mount.
    pub external: Option<String>,
}

impl Filesystem {
    /// The name by which an OCI spec asks for it; `None` for one that no spec of ours asks for.
    pub fn name(self) -> Option<&'static str> {
        // images/mnt.proto, enum fstype.
        Some(match self.0 {
            1 => "proc",
            2 => "sysfs",
            5 => "tmpfs",
            6 => "devpts",
            12 => "cgroup",
            14 => "mqueue",
            23 => "cgroup2",
            _ => return None,
        })
    }

    /// Whether it is of a kind that CRIU only restores as the root or as an external mount.
    pub fn is_unsupported(self) -> bool {
        self.0 == 0
    }
}

/// Demands that there is nothing but files in the image folder `images`: CRIU would follow links out of it. With
/// `parent` there must be one link of CRIU's own, `parent`, to that path.
///
/// # Errors
/// `IMAGE_CORRUPT` naming what is no file.
pub fn only_files(images: &Path, parent: Option<&Path>) -> Result<()> {
    let what = || format!("look at the images in {}", images.display());
    let corrupt = |name: &str, why: &str| {
        Fault::new(Code::ImageCorrupt, what(), format_args!("{name} {why}")).advise("use another image")
    };
    let mut seen = 0;
    for entry in std::fs::read_dir(images).attempt(what)? {
        let entry = entry.attempt(what)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        seen += 1;
        if seen > ENTRIES_MAX {
            return Err(corrupt("it", &format!("holds more than {ENTRIES_MAX} files")));
        }
        let kind = entry.file_type().attempt(what)?;
        if kind.is_file() {
            continue;
        }
        let expected = parent.is_some_and(|parent| std::fs::read_link(entry.path()).is_ok_and(|to| to == parent));
        match (name.as_ref(), kind.is_symlink()) {
            (PARENT, true) if expected => {}
            (PARENT, true) => {
                return Err(corrupt(PARENT, "leads to earlier images").advise("name them with --parent-path"));
            }
            (_, true) => return Err(corrupt(&name, "is a link")),
            (_, false) => return Err(corrupt(&name, "is no file")),
        }
    }
    Ok(())
}

/// Reads the mounts of the saved container in the image folder `images`.
///
/// # Errors
/// `IMAGE_CORRUPT` when there is not exactly one such file or it does not parse.
pub fn mounts(images: &Path) -> Result<Vec<DumpedMount>> {
    let corrupt = |why: String| {
        Fault::new(Code::ImageCorrupt, format_args!("read the mounts saved in {}", images.display()), why)
            .advise("use another image")
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(images).attempt(|| format!("list {}", images.display()))? {
        let entry = entry.attempt(|| format!("list {}", images.display()))?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("mountpoints-") && name.ends_with(".img")) {
            files.push(entry.path());
        }
    }
    let [file] = files.as_slice() else {
        return Err(corrupt(format!("{} files mountpoints-*.img instead of one", files.len())));
    };
    let mut bytes = Vec::new();
    File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(file)
        .and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes))
        .attempt(|| format!("read {}", file.display()))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(corrupt(format!("more than {FILE_MAX} bytes")));
    }
    parse(&bytes).map_err(corrupt)
}

fn parse(bytes: &[u8]) -> std::result::Result<Vec<DumpedMount>, String> {
    let mut rest = bytes;
    for magic in MAGIC {
        if take_u32(&mut rest) != Some(magic) {
            return Err("wrong magic number".into());
        }
    }
    let mut mounts = Vec::new();
    while !rest.is_empty() {
        if mounts.len() == MOUNTS_MAX {
            return Err(format!("more than {MOUNTS_MAX} mounts"));
        }
        let length = take_u32(&mut rest).ok_or("cut in a length")? as usize;
        let (entry, after) = rest.split_at_checked(length).ok_or("cut in a mount")?;
        let mount = parse_entry(entry).map_err(|err| err.to_string())?;
        if !mount.mountpoint.starts_with('/') {
            return Err(format!("the mount point {:?} is no absolute path", mount.mountpoint));
        }
        mounts.push(mount);
        rest = after;
    }
    Ok(mounts)
}

pub(crate) fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (head, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    Some(u32::from_le_bytes(*head))
}

fn parse_entry(bytes: &[u8]) -> protobuf::Result<DumpedMount> {
    let mut input = CodedInputStream::from_bytes(bytes);
    let mut mount = DumpedMount {
        mountpoint: String::new(),
        filesystem: Filesystem(0),
        root: String::new(),
        source: String::new(),
        external: None,
    };
    // Field numbers of mnt_entry; a tag is number << 3 | wire type (0 varint, 2 length-delimited).
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        match tag {
            0x08 => mount.filesystem = Filesystem(input.read_uint32()?),
            0x32 => mount.root = input.read_string()?,
            0x3a => mount.mountpoint = input.read_string()?,
            0x42 => mount.source = input.read_string()?,
            0x92 => mount.external = Some(input.read_string()?),
            _ => skip(&mut input, tag)?,
        }
    }
    // CRIU writes mount points relative to its own root: "./proc".
    if let Some(path) = mount.mountpoint.strip_prefix('.') {
        mount.mountpoint = if path.is_empty() { "/".into() } else { path.into() };
    }
    Ok(mount)
}

pub(crate) fn skip(input: &mut CodedInputStream<'_>, tag: u32) -> protobuf::Result<()> {
    match tag & 7 {
        0 => input.read_raw_varint64().map(drop),
        1 => input.skip_raw_bytes(8),
        2 => input.read_raw_varint32().and_then(|length| input.skip_raw_bytes(length)),
        5 => input.skip_raw_bytes(4),
        _ => Err(std::io::Error::from(std::io::ErrorKind::InvalidData).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// fstype 1, mnt_id 7, root "/", mountpoint "./proc", source "proc", ext_key "k".
    const ENTRY: &[u8] = b"\x08\x01\x10\x07\x32\x01/\x3a\x06./proc\x42\x04proc\x92\x01\x01k";

    fn file(entries: &[&[u8]]) -> Vec<u8> {
        let mut bytes: Vec<u8> = MAGIC.iter().flat_map(|n| n.to_le_bytes()).collect();
        for entry in entries {
            bytes.extend(u32::try_from(entry.len()).expect("short").to_le_bytes());
            bytes.extend(*entry);
        }
        bytes
    }

    #[test]
    fn reads_a_mount() {
        let mounts = parse(&file(&[ENTRY])).expect("parse");
        assert_eq!(
            mounts,
            [DumpedMount {
                mountpoint: "/proc".into(),
                filesystem: Filesystem(1),
                root: "/".into(),
                source: "proc".into(),
                external: Some("k".into()),
            }]
        );
        assert_eq!(mounts[0].filesystem.name(), Some("proc"));
    }

    #[test]
    fn every_cut_is_refused_or_gives_whole_mounts() {
        let whole = file(&[ENTRY, ENTRY]);
        for length in 0..whole.len() {
            if let Ok(mounts) = parse(&whole[..length]) {
                assert!(length == 8 || length == 8 + 4 + ENTRY.len(), "cut at {length} gave {mounts:?}");
            }
        }
    }

    #[test]
    fn a_mount_point_that_is_no_absolute_path_is_refused() {
        for entry in [&b""[..], b"\x3a\x04proc", b"\x3a\x07../proc"] {
            let why = parse(&file(&[entry])).expect_err("refused");
            assert!(why.contains("absolute"), "{why}");
        }
    }

    #[test]
    fn hostile_lengths_are_refused() {
        assert!(parse(&file(&[b"\x3a\xff\xff\xff\xff\x0f"])).is_err());
        assert!(parse(&file(&[b"\x07"])).is_err());
        let mut cut = file(&[]);
        cut.extend(u32::MAX.to_le_bytes());
        assert!(parse(&cut).is_err());
        assert!(parse(b"").is_err());
        assert!(parse(&file(&vec![&b""[..]; MOUNTS_MAX + 1])).is_err());
    }

    #[test]
    fn a_folder_without_the_file_is_no_image() {
        let dir = tempfile::tempdir().expect("temporary folder");
        assert_eq!(mounts(dir.path()).expect_err("empty").code, Code::ImageCorrupt);
    }
}
