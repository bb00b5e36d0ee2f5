use std::os::unix::fs::symlink;

use super::*;

/// One entry as a hostile writer would make it.
fn entry(archive: &mut Builder<Vec<u8>>, name: &[u8], kind: EntryType, data: &[u8]) {
    let mut header = Header::new_ustar();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_size(data.len() as u64);
    header.set_mode(0o777);
    header.set_entry_type(kind);
    if kind.is_symlink() {
        header.set_link_name("/etc").expect("a link name");
    }
    header.set_cksum();
    archive.append(&header, data).expect("appended");
}

fn unpack_one(name: &[u8], kind: EntryType) -> (Result<()>, tempfile::TempDir) {
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, name, kind, b"x");
    let data = archive.into_inner().expect("an archive");
    let dir = tempfile::tempdir().expect("a directory");
    (unpack(data.as_slice(), 1, dir.path()), dir)
}

fn staged(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, data) in files {
        std::fs::write(dir.path().join(name), data).expect("written");
    }
    dir
}

#[test]
fn what_is_packed_is_unpacked() {
    let dir = staged(&[("core-1.img", b"core"), ("tmpfs-dev-42.tar.gz.img", &[7; 70_000]), ("empty.img", b"")]);
    let files = list(dir.path()).expect("listed").state;
    let data = pack(Vec::new(), dir.path(), &files).expect("packed");
    let into = tempfile::tempdir().expect("a directory");
    unpack(data.as_slice(), 70_004, into.path()).expect("unpacked");
    for (name, _) in &files {
        let read = |dir: &Path| std::fs::read(dir.join(name)).expect("read");
        assert_eq!(read(dir.path()), read(into.path()), "{name}");
    }
}

#[test]
fn pages_are_told_from_state() {
    let dir = staged(&[("pages-10.img", b""), ("pages-2.img", b""), ("pagemap-1.img", b"m")]);
    let staging = list(dir.path()).expect("listed");
    assert_eq!(staging.pages, ["pages-2.img", "pages-10.img"]);
    assert_eq!(staging.state, [("pagemap-1.img".to_owned(), 1)]);
}

#[test]
fn a_staging_directory_with_anything_but_plain_files_is_refused() {
    let dir = staged(&[("core-1.img", b"core")]);
    symlink("/etc/passwd", dir.path().join("parent")).expect("a link");
    assert_eq!(list(dir.path()).err().expect("refused").code, Code::State);
    let dir = staged(&[("core-1.img", b"core"), ("pages-x.img", b"")]);
    assert_eq!(list(dir.path()).err().expect("refused").code, Code::Criu);
    let dir = staged(&[]);
    assert_eq!(list(dir.path()).err().expect("refused").code, Code::State);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in [&b"../x"[..], b"/etc/x", b"a/b", b"..", b".", b"a..b", b"a b", b"a\nb", b"\xff", b"pages-1.img"] {
        let (result, dir) = unpack_one(name, EntryType::Regular);
        assert_eq!(result.expect_err("refused").code, Code::ImageCorrupt, "{name:?}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0);
    }
    let (result, _dir) = unpack_one(b"fine.img", EntryType::Regular);
    result.expect("a plain name");
}

#[test]
fn only_regular_files_are_unpacked() {
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Directory,
        EntryType::Char,
        EntryType::Fifo,
        EntryType::GNULongName,
        EntryType::XHeader,
        EntryType::XGlobalHeader,
        EntryType::GNUSparse,
    ] {
        let (result, dir) = unpack_one(b"core-1.img", kind);
        assert_eq!(result.expect_err("refused").code, Code::ImageCorrupt, "{kind:?}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0);
    }
}

#[test]
fn a_file_that_comes_twice_is_refused() {
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, b"a.img", EntryType::Regular, b"1");
    entry(&mut archive, b"a.img", EntryType::Regular, b"2");
    let data = archive.into_inner().expect("an archive");
    let dir = tempfile::tempdir().expect("a directory");
    let fault = unpack(data.as_slice(), 2, dir.path()).expect_err("refused");
    assert!(fault.to_string().contains("comes twice"), "{fault}");
}

#[test]
fn more_or_less_than_the_manifest_says_is_refused() {
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, b"a.img", EntryType::Regular, &[0; 1000]);
    let data = archive.into_inner().expect("an archive");
    for bytes in [999, 1001, 0] {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(unpack(data.as_slice(), bytes, dir.path()).expect_err("refused").code, Code::ImageCorrupt);
    }
}

#[test]
fn a_cut_archive_is_refused() {
    let mut archive = Builder::new(Vec::new());
    entry(&mut archive, b"a.img", EntryType::Regular, &[5; 1000]);
    let data = archive.into_inner().expect("an archive");
    // After the last byte of the last file nothing is missing.
    for end in (0..512 + 1000).step_by(37) {
        let dir = tempfile::tempdir().expect("a directory");
        let fault = unpack(&data[..end], 1000, dir.path()).expect_err("refused");
        assert_eq!(fault.code, Code::ImageCorrupt, "cut at {end}");
    }
}
