//! Images of modules: which built-in kernels a program's text names.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;

use crate::codes::{Code, Outcome};
use crate::kernel::{KERNELS, Kernel};
use crate::ptx::Ptx;

/// What ELF files (cubins) and fat binaries begin with.
const ELF: [u8; 4] = *b"\x7fELF";
const FAT_BINARY: [u8; 4] = 0xba55_ed50u32.to_le_bytes();

/// Stands for a text with all kernels, for programs without one.
const ALL: &str = "baton";

/// The kernels in an image; checked against a card when there is one to check against.
pub fn kernels_in(image: &[u8], cuda: i32, capability: Option<(i32, i32)>) -> Outcome<Vec<&'static Kernel>> {
    let text = std::str::from_utf8(image).map_err(|_| Code::INVALID_PTX)?;
    if text == ALL {
        return Ok(KERNELS.iter().collect());
    }
    let ptx = Ptx::read(text)?;
    if let Some(capability) = capability {
        ptx.compiles(cuda, capability)?;
    }
    let named = |kernel: &&Kernel| ptx.entries.iter().any(|entry| entry.as_bytes() == kernel.name.to_bytes());
    Ok(KERNELS.iter().filter(named).collect())
}

/// The text at a pointer that a program gave as an image.
///
/// # Safety
///
/// `image` must be null, or point to a cubin, a fat binary, or NUL-terminated text.
pub unsafe fn text_at<'t>(image: *const c_void) -> Outcome<&'t [u8]> {
    if image.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let is = |magic: [u8; 4]| {
        let same = |(at, byte): (usize, u8)| {
            // SAFETY: a byte that differs ends the look, so none behind a NUL is read.
            byte == unsafe { image.cast::<u8>().add(at).read() }
        };
        magic.into_iter().enumerate().all(same)
    };
    if is(ELF) || is(FAT_BINARY) {
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    // SAFETY: neither of the binaries, so NUL-terminated text.
    Ok(unsafe { CStr::from_ptr(image.cast()) }.to_bytes())
}

/// The bytes of a file that a program names.
///
/// # Safety
///
/// `path` must be null or NUL-terminated.
pub unsafe fn file_at(path: *const c_char) -> Outcome<Vec<u8>> {
    if path.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, so NUL-terminated.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    let mut image = std::fs::read(path).map_err(|_| Code::FILE_NOT_FOUND)?;
    if image.starts_with(&ELF) || image.starts_with(&FAT_BINARY) {
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    image.truncate(image.iter().position(|byte| *byte == 0).unwrap_or(image.len()));
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_the_kernels_that_it_names_and_that_are_built_in() {
        let text = "// all of it\n.version 7.8\n.target sm_80\n.address_size 64\n\
            .visible .entry baton_add(.param .u64 a) { ret; }\n.entry other() { ret; }\n";
        let names = |image: &str| {
            kernels_in(image.as_bytes(), 13000, Some((8, 0)))
                .map(|kernels| kernels.iter().map(|kernel| kernel.name).collect::<Vec<_>>())
        };
        assert_eq!(names(text), Ok(vec![c"baton_add"]));
        assert_eq!(names("baton").map(|kernels| kernels.len()), Ok(4));
        assert_eq!(names("rubbish"), Err(Code::INVALID_PTX));
        // SAFETY: both begin as the binaries do.
        let binaries = unsafe { [text_at(c"\x7fELF".as_ptr().cast()), text_at(FAT_BINARY.as_ptr().cast())] };
        assert_eq!(binaries, [Err(Code::NO_BINARY_FOR_GPU); 2]);
    }
}
