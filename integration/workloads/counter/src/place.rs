//! Where the count is kept: in GPU memory, or in ordinary memory for a container without a GPU.

use std::sync::{Mutex, PoisonError};

use crate::count::Count;
use crate::cuda::Cuda;
use crate::pattern;

/// The place of the count.
pub enum Place {
    /// On a card.
    Gpu {
        /// The driver.
        cuda: Cuda,
        /// Device pointer of step and checksum.
        state: u64,
        /// Device pointer and bytes of the additional memory.
        memory: Option<(u64, u64)>,
    },
    /// In this process.
    Cpu(Mutex<Count>),
}

impl Place {
    /// Takes GPU memory and fills the additional part.
    pub fn on_gpu(bytes: u64) -> Result<Place, String> {
        let cuda = Cuda::open()?;
        let state = cuda.allocate(16)?;
        let memory = if bytes == 0 { None } else { Some((cuda.allocate(bytes)?, bytes)) };
        if let Some((pointer, bytes)) = memory {
            let mut piece = vec![0u8; pattern::PIECE];
            for index in pattern::pieces(bytes) / 3..pattern::pieces(bytes) {
                let (offset, length) = pattern::extent(index, bytes);
                pattern::fill(index, bytes, &mut piece[..length]);
                cuda.write(pointer + offset, &piece[..length])?;
            }
        }
        Ok(Place::Gpu { cuda, state, memory })
    }

    /// Counts in ordinary memory.
    pub fn on_cpu() -> Place {
        Place::Cpu(Mutex::new(Count::default()))
    }

    /// To be called once in each thread that works on the place.
    pub fn use_here(&self) -> Result<(), String> {
        match self {
            Place::Gpu { cuda, .. } => cuda.use_here(),
            Place::Cpu(_) => Ok(()),
        }
    }

    /// One step.
    pub fn step(&self) -> Result<(), String> {
        match self {
            Place::Gpu { cuda, state, .. } => cuda.step(*state),
            Place::Cpu(count) => {
                let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
                *count = count.next();
                Ok(())
            }
        }
    }

    /// The count as it stands there.
    pub fn count(&self) -> Result<Count, String> {
        match self {
            Place::Gpu { cuda, state, .. } => {
                let (mut step, mut both) = ([0u8; 8], [0u8; 16]);
                cuda.read(*state, &mut both)?;
                step.copy_from_slice(&both[..8]);
                let mut checksum = [0u8; 8];
                checksum.copy_from_slice(&both[8..]);
                Ok(Count { step: u64::from_le_bytes(step), checksum: u64::from_le_bytes(checksum) })
            }
            Place::Cpu(count) => Ok(*count.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// UUID of the card, if there is one.
    pub fn gpu(&self) -> Result<Option<String>, String> {
        match self {
            Place::Gpu { cuda, .. } => cuda.uuid().map(Some),
            Place::Cpu(_) => Ok(None),
        }
    }

    /// Bytes of the additional memory.
    pub fn bytes(&self) -> u64 {
        match self {
            Place::Gpu { memory: Some((_, bytes)), .. } => *bytes,
            _ => 0,
        }
    }

    /// Whether a piece of the additional memory holds what it should.
    pub fn piece_is_right(&self, index: u64) -> Result<bool, String> {
        let Place::Gpu { cuda, memory: Some((pointer, bytes)), .. } = self else { return Ok(true) };
        let (offset, length) = pattern::extent(index, *bytes);
        let (mut found, mut right) = (vec![0u8; length], vec![0u8; length]);
        cuda.read(pointer + offset, &mut found)?;
        pattern::fill(index, *bytes, &mut right);
        Ok(found == right)
    }
}
