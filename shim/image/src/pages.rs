//! Process memory on its way into the content store and out of it.
//!
//! This is the one place where pages are moved: CRIU's `pages-*.img` files become zstd blobs, and blobs become
//! files again. A thread compresses or decompresses and hashes; the connection is fed through a short queue, so that
//! memory in use does not grow with the pages.
//!
//! Coming back, nothing is trusted: a blob's digest and size must be those of the image, and it must unpack to
//! exactly the length that the manifest gives, which the writer never exceeds.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};

use crate::Lease;
use crate::manifest::Segment;
use crate::oci::Descriptor;
use crate::store::Store;
use crate::stream;

/// Bytes that are looked at together when a file is written with holes.
const BLOCK: usize = 256 << 10;
/// Granularity of holes: a page, as CRIU writes them.
const PAGE: usize = 4096;
static ZEROS: [u8; PAGE] = [0; PAGE];

/// Whether a file of a checkpoint holds memory pages: `pages-<number>.img`.
pub fn is_pages_file(name: &str) -> bool {
    let number = name.strip_prefix("pages-").and_then(|rest| rest.strip_suffix(".img"));
    number.is_some_and(|n| (1..=20).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Stores one pages file as one blob under the lease.
pub(crate) async fn store(
    to: &Store,
    lease: &Lease,
    staging: &Path,
    name: &str,
    level: i32,
) -> Result<(Segment, Descriptor)> {
    let what = format!("store the pages in {name}");
    let path = staging.join(name);
    let file = open_existing(&path)?;
    let length = file.metadata().attempt(|| format!("look at {}", path.display()))?.len();
    let compress = move |sink: &mut dyn Write| {
        let mut source = file.take(length);
        let mut encoder = stream::encoder(sink, level)?;
        encoder.set_pledged_src_size(Some(length))?;
        let copied = std::io::copy(&mut source, &mut encoder)?;
        encoder.finish()?;
        if copied < length {
            return Err(std::io::Error::other("the file was cut while it was read"));
        }
        Ok(())
    };
    let descriptor =
        stream::store(to, lease, &what, baton_config::names::MEDIA_PAGES, Default::default(), compress).await?;
    let segment = Segment {
        file: name.to_owned(),
        offset: 0,
        length,
        digest: descriptor.digest.clone(),
        stored: descriptor.size,
    };
    Ok((segment, descriptor))
}

/// Brings one segment back into its file in `into`, creating the file with its first segment.
pub(crate) async fn bring_back(from: &Store, segment: &Segment, blob: &Descriptor, into: &Path) -> Result<()> {
    let what = format!("unpack the pages of {}", segment.file);
    let path = into.join(&segment.file);
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    if segment.offset == 0 {
        options.create_new(true);
    }
    let file = options.open(&path).attempt(|| format!("create {}", path.display()))?;
    let (offset, length, subject) = (segment.offset, segment.length, what.clone());
    stream::fetch(from, blob, &what, move |source| {
        let mut decoder = stream::decoder(source).attempt(|| &subject)?;
        write_sparse(&mut decoder, &file, offset, length, &subject)
    })
    .await
}

fn open_existing(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .attempt(|| format!("read {}", path.display()))
}

/// Writes exactly `length` bytes of `source` to `file` at `offset`; pages of zeros become holes.
fn write_sparse(source: &mut dyn Read, file: &File, offset: u64, length: u64, what: &str) -> Result<()> {
    let end = offset.checked_add(length).ok_or_else(|| crate::blob::damaged(what, "the segment is too long"))?;
    let mut block = vec![0; BLOCK];
    let mut at = offset;
    loop {
        let filled = fill(source, &mut block).map_err(|err| stream::unpack_fault(what, &err))?;
        if filled == 0 {
            break;
        }
        if at + filled as u64 > end {
            return Err(crate::blob::damaged(
                what,
                &format!("it unpacks to more than the {length} bytes of the manifest"),
            ));
        }
        write_block(file, &block[..filled], at).attempt(|| what.to_owned())?;
        at += filled as u64;
    }
    if at < end {
        let why = format!("it unpacks to {} bytes and not to the {length} of the manifest", at - offset);
        return Err(crate::blob::damaged(what, &why));
    }
    let size = file.metadata().attempt(|| what.to_owned())?.len();
    if size < end {
        file.set_len(end).attempt(|| what.to_owned())?;
    }
    Ok(())
}

/// Writes the runs of pages that are not all zeros.
fn write_block(file: &File, block: &[u8], at: u64) -> std::io::Result<()> {
    let mut run: Option<usize> = None;
    for (index, page) in block.chunks(PAGE).enumerate() {
        let start = index * PAGE;
        let zero = page == &ZEROS[..page.len()];
        match (zero, run) {
            (true, Some(from)) => {
                file.write_all_at(&block[from..start], at + from as u64)?;
                run = None;
            }
            (false, None) => run = Some(start),
            _ => {}
        }
    }
    match run {
        Some(from) => file.write_all_at(&block[from..], at + from as u64),
        None => Ok(()),
    }
}

/// Reads until the buffer is full or the source ends.
fn fill(source: &mut dyn Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(err) if err.kind() == std::io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
    Ok(filled)
}

/// Fails when a file that CRIU named as pages is none that Baton would bring back.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.starts_with("pages-") && !is_pages_file(name) {
        return Err(Fault::new(Code::Criu, format!("store {name}"), "it is no pages-<number>.img")
            .advise("this CRIU writes pages in a way that Baton does not know"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn unpack(packed: &[u8], length: u64) -> (Result<()>, File) {
        let file = tempfile::tempfile().expect("a file");
        let mut decoder = stream::decoder(packed).expect("a decoder");
        (write_sparse(&mut decoder, &file, 0, length, "test"), file)
    }

    fn pack(data: &[u8]) -> Vec<u8> {
        let mut encoder = stream::encoder(Vec::new(), 1).expect("an encoder");
        encoder.write_all(data).expect("compressed");
        encoder.finish().expect("compressed")
    }

    #[test]
    fn pages_files_are_told_by_name() {
        assert!(is_pages_file("pages-1.img") && is_pages_file("pages-123.img"));
        for name in
            ["pages-.img", "pages-a.img", "pagemap-1.img", "pages-1.img.x", "pages-shmem-1.img", "../pages-1.img"]
        {
            assert!(!is_pages_file(name), "{name}");
        }
    }

    #[test]
    fn zeros_become_holes_and_the_bytes_are_the_same() {
        let mut data = vec![0_u8; 5 << 20];
        data[0] = 1;
        data[(3 << 20) + 5] = 2;
        data.extend_from_slice(&[7; 100]);
        let (result, file) = unpack(&pack(&data), data.len() as u64);
        result.expect("unpacked");
        let mut back = vec![9; data.len()];
        file.read_exact_at(&mut back, 0).expect("read");
        assert!(back == data, "the bytes differ");
        let meta = file.metadata().expect("metadata");
        assert_eq!(meta.len(), data.len() as u64);
        assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
    }

    #[test]
    fn a_file_that_ends_in_zeros_has_its_length() {
        let (result, file) = unpack(&pack(&vec![0; 100_000]), 100_000);
        result.expect("unpacked");
        assert_eq!(file.metadata().expect("metadata").len(), 100_000);
    }

    #[test]
    fn a_bomb_is_refused_without_writing_past_the_length() {
        let (result, file) = unpack(&pack(&vec![1; 64 << 20]), 4096);
        assert_eq!(result.expect_err("too long").code, Code::ImageCorrupt);
        assert!(file.metadata().expect("metadata").len() <= 4096);
    }

    #[test]
    fn every_cut_is_refused() {
        let packed = pack(&[3; 10_000]);
        for end in 0..packed.len() {
            let (result, _) = unpack(&packed[..end], 10_000);
            assert_eq!(result.expect_err("cut").code, Code::ImageCorrupt, "cut at {end}");
        }
    }

    #[test]
    fn a_window_that_would_take_much_memory_is_refused() {
        // A frame header that asks for a window of 2 GiB: magic, descriptor, window descriptor, then an empty block.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00];
        let (result, _) = unpack(&frame, 0);
        assert_eq!(result.expect_err("refused").code, Code::ImageCorrupt);
    }
}
