//! A program that never stops allocating: takes pieces, writes to them, frees them in any order, and goes on when the card
//! has no more room.

use baton_cuda::{CudaError, DeviceMemory, Driver, code};
use baton_workload::count::mix;

use crate::report::Report;
use crate::tally::Tally;
use crate::work::Work;

/// The smallest piece in bytes; the others are up to 256 times larger, and none is round.
const SMALLEST: usize = 64 << 10;
/// By how much less the ballast is tried to be where it does not fit.
const LESS: u64 = 64 << 20;

/// What it holds.
pub struct Hungry {
    tally: Tally,
    /// Memory that is taken first and never touched.
    ballast: Option<DeviceMemory>,
    pieces: Vec<Piece>,
    turn: u64,
    refused: u64,
    damaged: u64,
}

/// Memory with its mark at both ends.
struct Piece {
    memory: DeviceMemory,
    mark: u64,
}

impl Piece {
    fn take(hungry: &Hungry, bytes: usize, mark: u64) -> Result<Piece, CudaError> {
        let memory = DeviceMemory::take(hungry.tally.context(), bytes)?;
        memory.fill(0, bytes, mark as u8)?;
        memory.write(0, &mark.to_le_bytes())?;
        memory.write(bytes - 8, &mark.to_le_bytes())?;
        Ok(Piece { memory, mark })
    }

    fn is_whole(&self) -> Result<bool, CudaError> {
        Ok([0, self.memory.bytes() - 8].into_iter().map(|at| self.memory.word(at)).collect::<Result<Vec<_>, _>>()?
            == [self.mark; 2])
    }
}

impl Hungry {
    /// Begins on the first card; leaves itself so many bytes of room and takes the rest at once, untouched.
    pub fn begin(leave: Option<u64>) -> Result<Hungry, String> {
        let context = Driver::open()?.card().context()?;
        let tally = Tally::begin(&context)?;
        let mut ballast = None;
        if let Some(leave) = leave {
            let mut wanted = context.room()?.0.saturating_sub(leave);
            while ballast.is_none() && wanted > 0 {
                match DeviceMemory::take(&context, wanted as usize) {
                    Err(why) if why.code() == Some(code::OUT_OF_MEMORY) => wanted = wanted.saturating_sub(LESS),
                    taken => ballast = Some(taken?),
                }
            }
        }
        Ok(Hungry { tally, ballast, pieces: Vec::new(), turn: 0, refused: 0, damaged: 0 })
    }

    /// Any number, the same in every run.
    fn any(&mut self) -> u64 {
        self.turn += 1;
        mix(0x0062_6174_6f6e, self.turn)
    }

    fn eat(&mut self) -> Result<(), String> {
        let (size, mark) = (self.any(), self.any());
        let bytes = (SMALLEST << (size % 9)) + (size >> 8) as usize % 4096 / 8 * 8;
        match Piece::take(self, bytes, mark) {
            Err(why) if why.code() == Some(code::OUT_OF_MEMORY) => {
                self.refused += 1;
                (0..self.pieces.len() / 2).try_for_each(|_| self.free_any())
            }
            taken => {
                self.pieces.push(taken?);
                Ok(())
            }
        }
    }

    fn free_any(&mut self) -> Result<(), String> {
        let which = self.any() as usize % self.pieces.len();
        let piece = self.pieces.swap_remove(which);
        self.damaged += u64::from(!piece.is_whole()?);
        Ok(())
    }
}

impl Work for Hungry {
    fn step(&mut self) -> Result<(), String> {
        if self.any() % 5 < 3 || self.pieces.is_empty() {
            self.eat()?
        } else {
            self.free_any()?
        }
        self.tally.step(None)?;
        Ok(self.tally.context().synchronize()?)
    }

    fn report(&mut self) -> Result<Report, String> {
        let part = self.tally.part()?;
        let pieces = self.pieces.iter().map(|piece| &piece.memory).chain(&self.ballast);
        let memory = pieces.map(|memory| memory.bytes() as u64).sum();
        let (step, refused, damaged) = (part.step, self.refused, self.damaged);
        Ok(Report { workload: "hungry".to_owned(), step, memory, damaged, refused, parts: vec![part] })
    }

    fn verify(&mut self) -> Result<(), String> {
        for piece in &self.pieces {
            self.damaged += u64::from(!piece.is_whole()?);
        }
        Ok(())
    }
}
