//! Sizes such as `64M`.

/// Bytes, with an optional suffix K, M or G (powers of 1024).
pub fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is no size"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is too much"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_1024() {
        assert_eq!(bytes("7"), Ok(7));
        assert_eq!(bytes("2K"), Ok(2048));
        assert_eq!(bytes("3G"), Ok(3 << 30));
        for wrong in ["", "M", "-1", "1T", "99999999999G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
