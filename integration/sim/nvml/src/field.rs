//! Numbers asked for by the number of their field.

use crate::codes::Code;
use crate::handle::Handle;
use crate::layout::layout;
use crate::library::{Library, call};
use crate::pointer::List;
use crate::{figures, power};

/// `NVML_VALUE_TYPE_UNSIGNED_INT`.
const UNSIGNED: u32 = 1;

/// `nvmlFieldValue_t`; the value is a union of eight bytes.
#[repr(C)]
struct Field {
    id: u32,
    scope: u32,
    timestamp: i64,
    latency: i64,
    kind: u32,
    outcome: i32,
    value: u64,
}

layout!(Field, 40: id 0, scope 4, timestamp 8, latency 16, kind 24, outcome 28, value 32);

/// The fields of nvml.h that are known here.
fn value(library: &Library, device: Handle, id: u32) -> Result<u32, Code> {
    let now = library.now(device)?;
    let model = now.model()?;
    match id {
        // ECC: now, pending; errors and retired pages and rows, in all.
        1 | 2 => Ok(1),
        3..=6 | 29..=31 | 142..=145 => Ok(0),
        // Temperature of the memory.
        82 => figures::figures(model).map(|_| 35),
        // MIG mode changes without a reset; power on average and now.
        184 => Ok(u32::from(model.mig.is_some() && !model.needs_reset())),
        185 | 186 => power::power_now(library, device),
        // What the card can be cut into is told whatever mode it is in.
        199 => Ok(u32::from(model.mig.is_some())),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetFieldValues(device: Handle, count: i32, fields: List<Field>) -> i32 {
    call("nvmlDeviceGetFieldValues", |library| {
        library.card(device)?;
        let count = u32::try_from(count).ok().filter(|count| *count > 0).ok_or(Code::INVALID_ARGUMENT)?;
        fields.for_each(count, |field| {
            (field.timestamp, field.latency, field.kind) = (0, 0, UNSIGNED);
            (field.outcome, field.value) = match value(library, device, field.id) {
                Ok(value) => (0, u64::from(value)),
                Err(code) => (code.0, 0),
            };
        })
    })
}
