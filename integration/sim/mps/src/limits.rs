//! What clients may use: a share of the multiprocessors, and memory of each card.

use std::collections::BTreeMap;

/// The limits of a server, or those that the next servers begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Percent of the multiprocessors.
    pub threads: u32,
    /// Bytes of each card that has a limit, by UUID.
    pub memory: BTreeMap<String, u64>,
}

impl Default for Limits {
    /// Everything.
    fn default() -> Limits {
        Limits { threads: 100, memory: BTreeMap::new() }
    }
}

/// A percentage from 1 to 100; fractions are rounded down, as the server does.
pub fn percentage(text: &str) -> Option<u32> {
    let whole = text.split_once('.').map_or(text, |(whole, part)| match part.bytes().all(|b| b.is_ascii_digit()) {
        true => whole,
        false => "",
    });
    whole.parse().ok().filter(|percent| (1..=100).contains(percent))
}

/// A size such as `2G` or `600M`, in bytes.
pub fn size(text: &str) -> Option<u64> {
    let unit = match text.bytes().last()? {
        b'M' | b'm' => 20,
        b'G' | b'g' => 30,
        _ => return None,
    };
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    number.checked_mul(1 << unit).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_and_sizes_are_read_strictly() {
        assert_eq!((percentage("25"), percentage("33.9"), percentage("100")), (Some(25), Some(33), Some(100)));
        for wrong in ["0", "101", "-1", "", "x", "5.x", "\u{201c}50\u{201d}"] {
            assert_eq!(percentage(wrong), None, "{wrong}");
        }
        assert_eq!((size("2G"), size("600M")), (Some(2 << 30), Some(600 << 20)));
        for wrong in ["2", "G", "0M", "-1G", "2GB", "99999999999999999999G", "18446744073709551615G", ""] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }
}
