//! `nvmlSystem…`.

use std::fs;

use crate::codes::Code;
use crate::layout::layout;
use crate::library::call;
use crate::pointer::{Place, TextPlace, Versioned, padded};

/// `nvmlSystemDriverBranchInfo_v1_t`.
#[repr(C)]
struct BranchInfo {
    version: u32,
    branch: [u8; 80],
}

layout!(BranchInfo, 84: version 0, branch 4);

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(text: TextPlace, room: u32) -> i32 {
    call("nvmlSystemGetDriverVersion", |library| text.give(room, &library.driver))
}

/// The major version of CUDA, then the driver's.
#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(text: TextPlace, room: u32) -> i32 {
    call("nvmlSystemGetNVMLVersion", |library| text.give(room, &format!("{}.{}", library.cuda / 1000, library.driver)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion(version: Place<i32>) -> i32 {
    call("nvmlSystemGetCudaDriverVersion", |library| version.give(library.cuda))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: Place<i32>) -> i32 {
    call("nvmlSystemGetCudaDriverVersion_v2", |library| version.give(library.cuda))
}

/// `r580_00` for 580.95.05, as far as the branch follows from the version.
#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverBranch(info: Versioned, room: u32) -> i32 {
    call("nvmlSystemGetDriverBranch", |library| {
        let place = info.must_be::<BranchInfo>(1)?;
        let branch = format!("r{}_00", library.driver.split('.').next().unwrap_or_default());
        if branch.len() >= room as usize {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        place.give(BranchInfo { version: info.version()?, branch: padded(&branch) })
    })
}

/// The program and its arguments, cut to the room there is.
#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetProcessName(pid: u32, text: TextPlace, room: u32) -> i32 {
    call("nvmlSystemGetProcessName", |_| {
        if room == 0 {
            return Err(Code::INVALID_ARGUMENT);
        }
        let line = fs::read(format!("/proc/{pid}/cmdline")).map_err(|_| Code::NOT_FOUND)?;
        let name = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut name = String::from_utf8_lossy(name).into_owned();
        if name.is_empty() {
            let kernel_name = fs::read_to_string(format!("/proc/{pid}/comm")).map_err(|_| Code::NOT_FOUND)?;
            kernel_name.trim_end().clone_into(&mut name);
        }
        while name.len() >= room as usize {
            name.pop();
        }
        text.give(room, &name)
    })
}

/// There is no such card here.
#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetHicVersion(count: Place<u32>, _entries: usize) -> i32 {
    call("nvmlSystemGetHicVersion", |_| count.give(0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlUnitGetCount(count: Place<u32>) -> i32 {
    call("nvmlUnitGetCount", |_| count.give(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::struct_version;

    #[test]
    fn a_versioned_struct_has_the_version_that_the_bindings_give() {
        // nvmlSystemDriverBranchInfo_v1 of pynvml.py
        assert_eq!(struct_version::<BranchInfo>(1), 0x0100_0054);
    }
}
