//! What fills the additional memory: a third zero, a third compressible, a third pseudo-random.

/// Written and verified at once.
pub const PIECE: usize = 1 << 20;

/// The pieces of a memory of that many bytes.
pub fn pieces(bytes: u64) -> u64 {
    bytes.div_ceil(PIECE as u64)
}

/// Offset and length of a piece.
pub fn extent(index: u64, bytes: u64) -> (u64, usize) {
    let offset = index * PIECE as u64;
    (offset, (bytes - offset).min(PIECE as u64) as usize)
}

/// Writes what belongs into a piece.
pub fn fill(index: u64, bytes: u64, piece: &mut [u8]) {
    match index * 3 / pieces(bytes) {
        0 => piece.fill(0),
        1 => rows(index, piece),
        _ => noise(index, piece),
    }
}

/// Bytes of a row of text.
const ROW: usize = 64;

/// Adds one to a number in decimal digits: formatting each row would take longer than moving it.
fn count_up(digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
}

fn rows(index: u64, piece: &mut [u8]) {
    let mut text = format!("piece {index:08} row 00000000 the quick brown fox jumps over dogs\n").into_bytes();
    for row in piece.chunks_mut(ROW) {
        row.copy_from_slice(&text[..row.len()]);
        count_up(&mut text[19..27]);
    }
}

/// xorshift64, seeded by the piece.
fn noise(index: u64, piece: &mut [u8]) {
    let mut state = 88_172_645_463_325_252 ^ (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for word in piece.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thirds_are_zero_rows_and_noise() {
        let bytes = 3 * PIECE as u64;
        let mut piece = vec![1u8; PIECE];
        fill(0, bytes, &mut piece);
        assert!(piece.iter().all(|byte| *byte == 0));
        fill(1, bytes, &mut piece);
        assert!(piece.starts_with(b"piece 00000001 row 00000000 the quick"));
        let row = 11 * ROW;
        assert!(piece[row..].starts_with(b"piece 00000001 row 00000011 the quick"));
        assert!(piece[(PIECE - ROW)..].starts_with(b"piece 00000001 row 00016383 the quick"));
        fill(2, bytes, &mut piece);
        let (ones, mut again) = (piece.iter().map(|byte| byte.count_ones()).sum::<u32>(), vec![0u8; PIECE]);
        assert!((4 * PIECE as u32).abs_diff(ones) < 10_000);
        fill(2, bytes, &mut again);
        assert!(piece == again);
    }

    #[test]
    fn the_last_piece_may_be_short() {
        let bytes = PIECE as u64 + 10;
        assert_eq!(pieces(bytes), 2);
        assert_eq!(extent(1, bytes), (PIECE as u64, 10));
        fill(1, bytes, &mut [0u8; 10]);
    }
}
