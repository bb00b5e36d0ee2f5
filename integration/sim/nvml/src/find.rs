//! Which devices there are, and how a caller gets their handles.

use crate::codes::{Code, Outcome};
use crate::handle::{Handle, Target};
use crate::layout::layout;
use crate::library::{Library, call};
use crate::mig_device;
use crate::pointer::{Place, Text, Versioned};

/// `NVML_DEVICE_UUID_ASCII_LEN`.
const UUID_ASCII: usize = 41;
/// `NVML_UUID_TYPE_ASCII`.
const ASCII: u32 = 1;
/// `NVML_UUID_TYPE_BINARY`.
const BINARY: u32 = 2;

/// `nvmlUUID_v1_t`; the union's longest member is the text.
#[repr(C)]
#[derive(Clone, Copy)]
struct Uuid {
    version: u32,
    kind: u32,
    value: [u8; UUID_ASCII],
}

layout!(Uuid, 52: version 0, kind 4, value 8);

impl Library {
    fn card_handle(&self, wanted: impl Fn(usize) -> bool) -> Outcome<Handle> {
        let place = (0..self.cards.len()).find(|place| wanted(*place)).ok_or(Code::NOT_FOUND)?;
        Ok(Handle::of(Target::Card(place)))
    }

    fn by_uuid(&self, uuid: &str) -> Outcome<Handle> {
        let card = self.card_handle(|place| self.cards[place].uuid.eq_ignore_ascii_case(uuid));
        card.or_else(|_| mig_device::by_name(self, uuid))
    }

    fn by_bytes(&self, bytes: [u8; 16]) -> Outcome<Handle> {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let same = |uuid: &str| uuid.bytes().skip(4).filter(|byte| *byte != b'-').eq(digits.bytes());
        let card = self.card_handle(|place| same(&self.cards[place].uuid));
        card.or_else(|_| mig_device::by_text(self, same))
    }

    /// `%x:%x:%x.%x`, `%x:%x:%x` or `%x:%x.%x`, the function always being 0.
    fn by_bus_id(&self, bus_id: &str) -> Outcome<Handle> {
        let wanted = address(bus_id).ok_or(Code::INVALID_ARGUMENT)?;
        self.card_handle(|place| self.cards[place].pci == wanted)
    }
}

/// Domain, bus and device.
fn address(text: &str) -> Option<(u32, u32, u32)> {
    let (rest, function) = text.split_once('.').map_or((text, None), |(rest, function)| (rest, Some(function)));
    let numbers: Option<Vec<u32>> = rest.split(':').map(|part| u32::from_str_radix(part, 16).ok()).collect();
    let address = match *numbers? {
        [domain, bus, device] => (domain, bus, device),
        [bus, device] if function.is_some() => (0, bus, device),
        _ => return None,
    };
    function.is_none_or(|function| function == "0").then_some(address)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(count: Place<u32>) -> i32 {
    call("nvmlDeviceGetCount_v2", |library| count.give(library.cards.len() as u32))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount(count: Place<u32>) -> i32 {
    nvmlDeviceGetCount_v2(count)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, device: Place<Handle>) -> i32 {
    call("nvmlDeviceGetHandleByIndex_v2", |library| {
        library.at(index as usize)?;
        device.give(Handle::of(Target::Card(index as usize)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex(index: u32, device: Place<Handle>) -> i32 {
    nvmlDeviceGetHandleByIndex_v2(index, device)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByUUID(uuid: Text, device: Place<Handle>) -> i32 {
    call("nvmlDeviceGetHandleByUUID", |library| {
        device.exists()?;
        device.give(library.by_uuid(&uuid.read()?)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByUUIDV(uuid: Versioned, device: Place<Handle>) -> i32 {
    call("nvmlDeviceGetHandleByUUIDV", |library| {
        device.exists()?;
        let Uuid { kind, value, .. } = uuid.must_be::<Uuid>(1)?.take()?;
        let found = match kind {
            ASCII => {
                let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
                library.by_uuid(&String::from_utf8_lossy(text))
            }
            BINARY => library.by_bytes(value.first_chunk().copied().unwrap_or_default()),
            _ => Err(Code::INVALID_ARGUMENT),
        };
        device.give(found?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(bus_id: Text, device: Place<Handle>) -> i32 {
    call("nvmlDeviceGetHandleByPciBusId_v2", |library| {
        device.exists()?;
        device.give(library.by_bus_id(&bus_id.read()?)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId(bus_id: Text, device: Place<Handle>) -> i32 {
    nvmlDeviceGetHandleByPciBusId_v2(bus_id, device)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleBySerial(serial: Text, device: Place<Handle>) -> i32 {
    call("nvmlDeviceGetHandleBySerial", |library| {
        let wanted = serial.read()?;
        let found = library.card_handle(|place| crate::identity::serial(&library.cards[place]) == wanted)?;
        device.give(found)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetIndex(device: Handle, index: Place<u32>) -> i32 {
    call("nvmlDeviceGetIndex", |library| match device.target()? {
        Target::Card(place) => library.at(place).and_then(|_| index.give(place as u32)),
        Target::Mig(..) => index.give(mig_device::index(library, device)?),
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGetExcludedDeviceCount(count: Place<u32>) -> i32 {
    call("nvmlGetExcludedDeviceCount", |_| count.give(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::struct_version;

    #[test]
    fn a_versioned_uuid_has_the_size_that_the_bindings_give() {
        // nvmlUUID_v1 of pynvml.py
        assert_eq!(struct_version::<Uuid>(1), 0x0100_0034);
    }

    #[test]
    fn addresses_are_read_in_the_three_forms_of_the_header() {
        for text in ["00000000:1B:00.0", "0000:1b:00.0", "0:1b:0", "1b:00.0"] {
            assert_eq!(address(text), Some((0, 0x1b, 0)), "{text}");
        }
        for text in ["", "1b:00", "x:1b:0.0", "0000:1b:00.1", "0:0:0:0"] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
