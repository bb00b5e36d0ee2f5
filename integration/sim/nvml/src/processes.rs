//! Who uses a card.

use crate::codes::{Code, Outcome};
use crate::library::{Handle, call};

/// `nvmlProcessInfo_v1_t`.
#[repr(C)]
struct Process {
    pid: u32,
    bytes: u64,
}

/// `nvmlProcessInfo_v2_t`, and `nvmlProcessInfo_t` of version 3.
#[repr(C)]
struct ProcessOfInstance {
    pid: u32,
    bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// No MIG instance.
const NO_INSTANCE: u32 = u32::MAX;

/// Writes the list if there is room; the number of processes either way.
///
/// # Safety
///
/// `count` must be null or valid, `list` valid for as many entries as it says.
unsafe fn give_list<T>(device: Handle, count: *mut u32, list: *mut T, entry: impl Fn(u32, u64) -> T) -> i32 {
    call(|library| {
        if count.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        let processes = library.usage(device)?.processes;
        // SAFETY: not null, and valid as the C caller promises.
        let room = unsafe { count.replace(processes.len() as u32) } as usize;
        if processes.len() > room {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        if list.is_null() && !processes.is_empty() {
            return Err(Code::INVALID_ARGUMENT);
        }
        for (index, process) in processes.iter().enumerate() {
            // SAFETY: index < room entries.
            unsafe { list.add(index).write(entry(process.pid as u32, process.bytes)) };
        }
        Ok(())
    })
}

fn of_instance(pid: u32, bytes: u64) -> ProcessOfInstance {
    ProcessOfInstance { pid, bytes, gpu_instance: NO_INSTANCE, compute_instance: NO_INSTANCE }
}

fn none(device: Handle, count: *mut u32) -> i32 {
    call(|library| {
        let known: Outcome<_> = library.card(device);
        // SAFETY: the C caller gives a place for an unsigned int.
        known.and_then(|_| unsafe { crate::codes::give(count, 0) })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses(device: Handle, count: *mut u32, list: *mut Process) -> i32 {
    // SAFETY: the C caller gives a list of `count` entries.
    unsafe { give_list(device, count, list, |pid, bytes| Process { pid, bytes }) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    device: Handle,
    count: *mut u32,
    list: *mut ProcessOfInstance,
) -> i32 {
    // SAFETY: the C caller gives a list of `count` entries.
    unsafe { give_list(device, count, list, of_instance) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Handle,
    count: *mut u32,
    list: *mut ProcessOfInstance,
) -> i32 {
    // SAFETY: the C caller gives a list of `count` entries.
    unsafe { give_list(device, count, list, of_instance) }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: Handle, count: *mut u32, _list: usize) -> i32 {
    none(device, count)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(device: Handle, count: *mut u32, _list: usize) -> i32 {
    none(device, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Process>(), 16);
        assert_eq!(size_of::<ProcessOfInstance>(), 24);
    }
}
