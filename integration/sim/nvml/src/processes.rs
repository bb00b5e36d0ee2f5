//! Who uses a card or a MIG device.

use baton_sim_wire::ProcessUse;

use crate::codes::{Code, Outcome};
use crate::handle::{Handle, Target};
use crate::layout::layout;
use crate::library::{Library, call};
use crate::mig_device;
use crate::permission;
use crate::pointer::{List, Place, Versioned};

/// `nvmlProcessInfo_v1_t`.
#[repr(C)]
struct Process {
    pid: u32,
    bytes: u64,
}

layout!(Process, 16: pid 0, bytes 8);

/// `nvmlProcessInfo_v2_t`, and `nvmlProcessInfo_t` of version 3.
#[repr(C)]
struct ProcessOfInstance {
    pid: u32,
    bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

layout!(ProcessOfInstance, 24: pid 0, bytes 8, gpu_instance 16, compute_instance 20);

/// `nvmlProcessDetail_v1_t`.
#[repr(C)]
struct ProcessDetail {
    first: ProcessOfInstance,
    protected_bytes: u64,
}

layout!(ProcessDetail, 32: first 0, protected_bytes 24);

/// `nvmlProcessDetailList_v1_t`.
#[repr(C)]
struct DetailList {
    version: u32,
    mode: u32,
    count: u32,
    list: List<ProcessDetail>,
}

layout!(DetailList, 24: version 0, mode 4, count 8, list 16);

impl Clone for DetailList {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for DetailList {}

/// No MIG instance.
const NO_INSTANCE: u32 = u32::MAX;

/// The kinds of contexts, as `nvmlProcessDetailList_v1_t::mode` numbers them. Nobody here has a graphics context; a client
/// of an MPS server has a compute context like the others, and is listed twice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Compute = 0,
    Graphics = 1,
    Mps = 2,
}

impl Kind {
    fn counts(self, process: &ProcessUse) -> bool {
        match self {
            Kind::Compute => true,
            Kind::Graphics => false,
            Kind::Mps => process.mps_server.is_some(),
        }
    }
}

impl From<&ProcessUse> for Process {
    fn from(process: &ProcessUse) -> Process {
        Process { pid: process.pid as u32, bytes: process.bytes }
    }
}

impl From<&ProcessUse> for ProcessOfInstance {
    fn from(process: &ProcessUse) -> ProcessOfInstance {
        let (gpu_instance, compute_instance) =
            process.instance.map_or((NO_INSTANCE, NO_INSTANCE), |instance| (instance.gpu, instance.compute));
        ProcessOfInstance { pid: process.pid as u32, bytes: process.bytes, gpu_instance, compute_instance }
    }
}

/// Those of a MIG device, or of a card. Of a card in MIG mode: only for those who may see all of its instances.
fn processes(library: &Library, device: Handle, kind: Kind) -> Outcome<Vec<ProcessUse>> {
    let all = match device.target()? {
        Target::Card(_) => {
            let held = library.now(device)?.held;
            if held.settings.mig && !permission::sees_everything(library.root.path()) {
                return Err(Code::NO_PERMISSION);
            }
            held.processes
        }
        Target::Mig(..) => {
            let found = mig_device::find(library, device)?;
            let here = |process: &ProcessUse| process.instance == Some(found.instance);
            found.now.held.processes.into_iter().filter(here).collect()
        }
    };
    Ok(all.into_iter().filter(|process| kind.counts(process)).collect())
}

fn give<T: for<'p> From<&'p ProcessUse>>(
    name: &str,
    kind: Kind,
    device: Handle,
    count: Place<u32>,
    list: List<T>,
) -> i32 {
    call(name, |library| {
        count.exists()?;
        list.fill(count, processes(library, device, kind)?.iter().map(T::from).collect())
    })
}

/// The three versions of one question; the second and the third have the same layout.
macro_rules! lists {
    ($($kind:ident: $first:ident $second:ident $third:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $first(device: Handle, count: Place<u32>, list: List<Process>) -> i32 {
            give(stringify!($first), Kind::$kind, device, count, list)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $second(device: Handle, count: Place<u32>, list: List<ProcessOfInstance>) -> i32 {
            give(stringify!($second), Kind::$kind, device, count, list)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $third(device: Handle, count: Place<u32>, list: List<ProcessOfInstance>) -> i32 {
            give(stringify!($third), Kind::$kind, device, count, list)
        }
    )*};
}

lists! {
    Compute: nvmlDeviceGetComputeRunningProcesses
        nvmlDeviceGetComputeRunningProcesses_v2 nvmlDeviceGetComputeRunningProcesses_v3
    Graphics: nvmlDeviceGetGraphicsRunningProcesses
        nvmlDeviceGetGraphicsRunningProcesses_v2 nvmlDeviceGetGraphicsRunningProcesses_v3
    Mps: nvmlDeviceGetMPSComputeRunningProcesses
        nvmlDeviceGetMPSComputeRunningProcesses_v2 nvmlDeviceGetMPSComputeRunningProcesses_v3
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetRunningProcessDetailList(device: Handle, list: Versioned) -> i32 {
    call("nvmlDeviceGetRunningProcessDetailList", |library| {
        let place = list.must_be::<DetailList>(1)?;
        let asked = place.take()?;
        let kinds = [Kind::Compute, Kind::Graphics, Kind::Mps];
        let kind = kinds.into_iter().find(|kind| *kind as u32 == asked.mode).ok_or(Code::INVALID_ARGUMENT)?;
        let found = processes(library, device, kind)?;
        place.give(DetailList { count: found.len() as u32, ..asked })?;
        if found.len() > asked.count as usize {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        let mut left = found.iter();
        if found.is_empty() {
            return Ok(());
        }
        asked.list.for_each(found.len() as u32, |entry| {
            if let Some(process) = left.next() {
                *entry = ProcessDetail { first: process.into(), protected_bytes: 0 };
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::struct_version;

    #[test]
    fn a_versioned_struct_has_the_version_that_the_bindings_give() {
        // nvmlProcessDetailList_v1 of pynvml.py
        assert_eq!(struct_version::<DetailList>(1), 0x0100_0018);
    }
}
