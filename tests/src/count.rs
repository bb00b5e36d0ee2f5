//! What the counting job must have computed, found without it: step `s` turns checksum `c` into splitmix64's
//! output for the state `c ^ s`; both begin at 0.

/// The checksum after that many steps.
pub fn checksum_after(steps: u64) -> u64 {
    (1..=steps).fold(0, |checksum, step| splitmix64(checksum ^ step))
}

fn splitmix64(state: u64) -> u64 {
    let gamma = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let once = (gamma ^ (gamma >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ (twice >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed apart from this program, in Python.
    #[test]
    fn checksums_are_those_known_beforehand() {
        for (steps, checksum) in [
            (0, 0),
            (1, 0x910a_2dec_8902_5cc1),
            (2, 0xbcd9_dbb4_9673_066b),
            (100, 0x5abe_7b21_1e14_87d4),
            (500, 0xba98_ae4b_414d_05ae),
            (1000, 0x1a62_5b02_d236_5c16),
            (5000, 0xd7e3_a812_0ebf_9f41),
        ] {
            assert_eq!(checksum_after(steps), checksum, "after {steps} steps");
        }
    }
}
