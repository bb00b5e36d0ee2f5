//! What the count must be: step `s` turns checksum `c` into `mix(c, s)`; both start at 0.
//!
//! `mix(c, s)` is splitmix64's finalizer of `(c ^ s) + 0x9e3779b97f4a7c15`. The checksum after N steps depends on every
//! step before it, so a lost or repeated step cannot hide.

/// Step and checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Steps so far.
    pub step: u64,
    /// Checksum after them.
    pub checksum: u64,
}

impl Count {
    /// One step further.
    pub fn next(self) -> Count {
        let step = self.step.wrapping_add(1);
        Count { step, checksum: mix(self.checksum, step) }
    }
}

/// The next checksum, as the kernels compute it.
pub fn mix(checksum: u64, step: u64) -> u64 {
    let mut mixed = (checksum ^ step).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Count {
    /// Reads what a kernel left in device memory: step, then checksum.
    pub fn from_bytes(bytes: [u8; 16]) -> Count {
        let both = u128::from_le_bytes(bytes);
        Count { step: both as u64, checksum: (both >> 64) as u64 }
    }
}

/// The checksum after that many steps, from nothing else than their number.
pub fn expected(steps: u64) -> u64 {
    let mut count = Count::default();
    while count.step < steps {
        count = count.next();
    }
    count.checksum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed apart from this program (Python).
    #[test]
    fn the_checksum_after_n_steps_is_known() {
        assert_eq!(mix(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(expected(0), 0);
        assert_eq!(expected(1), ONE);
        assert_eq!(expected(2), TWO);
        assert_eq!(expected(1000), THOUSAND);
    }

    #[test]
    fn a_count_is_read_step_first() {
        let mut bytes = [0u8; 16];
        (bytes[0], bytes[8]) = (3, 4);
        assert_eq!(Count::from_bytes(bytes), Count { step: 3, checksum: 4 });
    }

    const ONE: u64 = 0x910a_2dec_8902_5cc1;
    const TWO: u64 = 0xbcd9_dbb4_9673_066b;
    const THOUSAND: u64 = 0x1a62_5b02_d236_5c16;
}
