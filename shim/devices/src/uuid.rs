//! The UUID of a whole card, as NVML prints it: `GPU-8-4-4-4-12` in hexadecimal.

use std::fmt;
use std::str::FromStr;

use baton_fault::{Code, Fault};
use serde::{Deserialize, Serialize};

/// Lengths of the groups of hexadecimal digits.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
/// What a card's UUID starts with.
const PREFIX: &str = "GPU-";

/// The UUID of a whole card. The same card keeps it for life; no two cards share one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct GpuUuid([u8; 16]);

impl GpuUuid {
    /// From the 16 bytes of a `CUuuid`.
    pub const fn from_bytes(bytes: [u8; 16]) -> GpuUuid {
        GpuUuid(bytes)
    }

    /// The 16 bytes of a `CUuuid`.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for GpuUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU")?;
        let mut bytes = self.0.iter();
        for group in GROUPS {
            f.write_str("-")?;
            for byte in bytes.by_ref().take(group / 2) {
                write!(f, "{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for GpuUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for GpuUuid {
    type Err = Fault;

    fn from_str(text: &str) -> Result<GpuUuid, Fault> {
        parse(text).map(GpuUuid).ok_or_else(|| {
            Fault::new(Code::RequestSyntax, format!("read GPU UUID {text:?}"), "it is not of the form GPU-8-4-4-4-12")
                .advise("copy the UUID from `baton devices`")
        })
    }
}

fn parse(text: &str) -> Option<[u8; 16]> {
    let mut groups = text.strip_prefix(PREFIX)?.split('-');
    let mut digits = Vec::with_capacity(32);
    for length in GROUPS {
        let group = groups.next()?;
        if group.len() != length {
            return None;
        }
        for digit in group.chars() {
            digits.push(u8::try_from(digit.to_digit(16)?).ok()?);
        }
    }
    if groups.next().is_some() {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(bytes)
}

impl From<GpuUuid> for String {
    fn from(uuid: GpuUuid) -> String {
        uuid.to_string()
    }
}

impl TryFrom<String> for GpuUuid {
    type Error = Fault;

    fn try_from(text: String) -> Result<GpuUuid, Fault> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_name_the_same_card() {
        let text = "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
        let bytes = [0x0a, 0x1b, 0x2c, 0x3d, 0x4e, 0x5f, 0x60, 0x71, 0x82, 0x93, 0xa4, 0xb5, 0xc6, 0xd7, 0xe8, 0xf9];
        let uuid: GpuUuid = text.parse().expect("uuid");
        assert_eq!(uuid.to_bytes(), bytes);
        assert_eq!(GpuUuid::from_bytes(bytes).to_string(), text);
        assert_eq!("GPU-0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9".parse(), Ok(uuid));
        assert_eq!(serde_json::to_string(&uuid).expect("json"), format!("{text:?}"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "GPU-",
            "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f",
            "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f90",
            "GPU-0a1b2c3d4e5f-6071-8293-a4b5c6d7e8f9",
            "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9-",
            "GPU-0a1b2c3g-4e5f-6071-8293-a4b5c6d7e8f9",
            "MIG-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            " GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
        ] {
            assert_eq!(text.parse::<GpuUuid>().expect_err(text).code, Code::RequestSyntax);
        }
    }
}
