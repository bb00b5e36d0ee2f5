//! Sizes as a person reads them.

use std::fmt;

/// A number of bytes, printed in binary units.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut unit = 0;
        let mut scaled = u128::from(self.0) * 10;
        while scaled >= 10_240 && unit + 1 < UNITS.len() {
            scaled = (scaled + 512) / 1024;
            unit += 1;
        }
        match unit {
            0 => write!(f, "{} B", self.0),
            _ => write!(f, "{}.{} {}", scaled / 10, scaled % 10, UNITS[unit]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn reads_in_binary_units() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes(1024).to_string(), "1.0 KiB");
        assert_eq!(Bytes(81_559 << 20).to_string(), "79.6 GiB");
        assert_eq!(Bytes(u64::MAX).to_string(), "16384.0 PiB");
    }
}
