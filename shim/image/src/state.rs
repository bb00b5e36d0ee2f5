//! Everything of a checkpoint but its pages, as one tar+zstd archive: CRIU's small images, descriptors.json, logs.
//!
//! The archive is flat: regular files with names of `A-Z a-z 0-9 . _ -` and no `..`. Unpacking refuses anything else,
//! creates every file new in a directory that nobody else has, and never writes more than the manifest announces.

use std::fs::{DirEntry, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use tar::{Archive, Builder, EntryType, Header};

use crate::Lease;
use crate::blob::damaged;
use crate::oci::Descriptor;
use crate::pages;
use crate::store::Store;
use crate::stream;

/// Most files in an archive; CRIU writes about five for each process and a few for each namespace.
const FILES_MAX: usize = 1 << 20;
/// Longest name: what the plain tar header holds.
const NAME_MAX: usize = 100;

const WHAT: &str = "unpack the checkpoint's state";

/// The files of a staging directory.
pub(crate) struct Staging {
    /// Names of the pages files, in order of their number.
    pub(crate) pages: Vec<String>,
    /// The other files with their sizes, in order of their names.
    pub(crate) state: Vec<(String, u64)>,
}

/// Lists a staging directory.
pub(crate) fn list(staging: &Path) -> Result<Staging> {
    let what = || format!("read the checkpoint in {}", staging.display());
    let mut found = Staging { pages: Vec::new(), state: Vec::new() };
    for entry in std::fs::read_dir(staging).attempt(what)? {
        let (name, size) = look_at(&entry.attempt(what)?)?;
        pages::check_name(&name)?;
        if pages::is_pages_file(&name) {
            found.pages.push(name);
        } else {
            found.state.push((name, size));
        }
    }
    if found.state.is_empty() {
        return Err(Fault::new(Code::State, what(), "it holds no checkpoint"));
    }
    found.state.sort();
    found.pages.sort_by_key(|name| (name.len(), name.clone()));
    Ok(found)
}

fn look_at(entry: &DirEntry) -> Result<(String, u64)> {
    let path = entry.path();
    let refuse = |why: &str| Err(Fault::new(Code::State, format!("store {}", path.display()), why));
    let name = match entry.file_name().into_string() {
        Ok(name) if is_plain(&name) => name,
        _ => return refuse("a checkpoint has plain file names only"),
    };
    let meta = entry.metadata().attempt(|| format!("look at {}", path.display()))?;
    if !meta.is_file() {
        return refuse("a checkpoint has regular files only");
    }
    Ok((name, meta.len()))
}

/// Whether a name is one that an archive may hold.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MAX
        && !name.contains("..")
        && name != "."
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Stores the state files as one blob under the lease; gives the blob and the sum of the files' sizes.
pub(crate) async fn store(
    to: &Store,
    lease: &Lease,
    staging: &Path,
    files: Vec<(String, u64)>,
    level: i32,
) -> Result<(Descriptor, u64)> {
    let bytes = files.iter().map(|(_, size)| size).sum();
    let staging = staging.to_owned();
    let media = baton_config::names::MEDIA_STATE;
    let pack = move |sink: &mut dyn Write| {
        let encoder = stream::encoder(sink, level)?;
        pack(encoder, &staging, &files)?.finish()?;
        Ok(())
    };
    let blob = stream::store(to, lease, "store the checkpoint's state", media, Default::default(), pack).await?;
    Ok((blob, bytes))
}

/// Writes the archive. Headers hold nothing but name and size, so that equal files give equal archives.
fn pack<W: Write>(sink: W, staging: &Path, files: &[(String, u64)]) -> std::io::Result<W> {
    let mut builder = Builder::new(sink);
    for (name, size) in files {
        let mut header = Header::new_ustar();
        header.set_path(name)?;
        header.set_size(*size);
        header.set_mode(0o600);
        header.set_entry_type(EntryType::Regular);
        header.set_cksum();
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(staging.join(name))?;
        let mut exact = Exact { file, left: *size };
        builder.append(&header, &mut exact)?;
    }
    builder.into_inner()
}

/// Reads exactly as many bytes as the header says; a shorter file is an error, for the archive would be wrong.
struct Exact {
    file: File,
    left: u64,
}

impl Read for Exact {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        let got = self.file.read(&mut buffer[..wanted])?;
        if got == 0 {
            return Err(std::io::Error::other("a file was cut while it was read"));
        }
        self.left -= got as u64;
        Ok(got)
    }
}

/// Unpacks the state into `into`, a fresh directory; `bytes` is what the manifest says.
pub(crate) async fn bring_back(from: &Store, blob: &Descriptor, bytes: u64, into: &Path) -> Result<()> {
    let into: PathBuf = into.to_owned();
    stream::fetch(from, blob, WHAT, move |source| {
        let decoder = stream::decoder(source).map_err(|err| stream::unpack_fault(WHAT, &err))?;
        unpack(decoder, bytes, &into)
    })
    .await
}

/// Unpacks an archive whose files are `bytes` in all into a folder that is empty.
///
/// # Errors
/// `IMAGE_CORRUPT` when it holds anything but plain files of plain names, or other than `bytes`.
pub fn unpack(source: impl Read, bytes: u64, into: &Path) -> Result<()> {
    let unreadable = |err: std::io::Error| stream::unpack_fault(WHAT, &err);
    let mut archive = Archive::new(source);
    let mut left = bytes;
    let mut count = 0;
    // Raw: GNU and PAX extensions, which could rename the entry after them, come as entries of their own kind.
    for entry in archive.entries().map_err(unreadable)?.raw(true) {
        let mut entry = entry.map_err(unreadable)?;
        count += 1;
        if count > FILES_MAX {
            return Err(damaged(WHAT, &format!("it holds more than {FILES_MAX} files")));
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if entry.header().entry_type() != EntryType::Regular {
            return Err(damaged(WHAT, &format!("\"{name}\" in it is not a regular file")));
        }
        if !is_plain(&name) || pages::is_pages_file(&name) {
            return Err(damaged(WHAT, &format!("the file name \"{name}\" in it is not allowed")));
        }
        let size = entry.header().entry_size().map_err(unreadable)?;
        left = left
            .checked_sub(size)
            .ok_or_else(|| damaged(WHAT, &format!("it unpacks to more than the {bytes} bytes of the manifest")))?;
        unpack_file(&mut entry, size, &into.join(&name))?;
    }
    if left > 0 {
        return Err(damaged(WHAT, &format!("it is {left} bytes shorter than the {bytes} of the manifest")));
    }
    Ok(())
}

fn unpack_file(source: &mut impl Read, size: u64, path: &Path) -> Result<()> {
    let what = || format!("create {}", path.display());
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path).map_err(
            |err| match err.kind() {
                std::io::ErrorKind::AlreadyExists => damaged(WHAT, &format!("{} comes twice", path.display())),
                _ => Fault::io(what(), &err),
            },
        )?;
    let mut buffer = vec![0; 64 << 10];
    let mut left = size;
    while left > 0 {
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let got = source.read(&mut buffer[..wanted]).map_err(|err| stream::unpack_fault(WHAT, &err))?;
        if got == 0 {
            return Err(damaged(WHAT, &format!("{} in it is cut", path.display())));
        }
        file.write_all(&buffer[..got]).attempt(what)?;
        left -= got as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
