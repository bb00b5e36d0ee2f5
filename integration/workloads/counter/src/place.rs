//! Where the count is kept: in GPU memory, or in ordinary memory for a container without a GPU.

use std::sync::{Mutex, PoisonError};

use baton_cuda::{DeviceMemory, Driver, Kernels};
use baton_workload::count::Count;
use baton_workload::pattern;

/// The place of the count.
pub enum Place {
    /// On a card.
    Gpu {
        /// What counts there.
        kernels: Box<Kernels>,
        /// Step and checksum.
        state: DeviceMemory,
        /// The additional memory.
        memory: Option<DeviceMemory>,
    },
    /// In this process.
    Cpu(Mutex<Count>),
}

impl Place {
    /// Takes GPU memory and fills the additional part.
    pub fn on_gpu(bytes: u64) -> Result<Place, String> {
        let context = Driver::open()?.card().context()?;
        let kernels = Box::new(context.kernels()?);
        let state = DeviceMemory::zeroed(&context, 16)?;
        let memory = if bytes == 0 { None } else { Some(DeviceMemory::zeroed(&context, bytes as usize)?) };
        if let Some(memory) = &memory {
            let mut piece = vec![0u8; pattern::PIECE];
            for index in pattern::pieces(bytes) / 3..pattern::pieces(bytes) {
                let (offset, length) = pattern::extent(index, bytes);
                pattern::fill(index, bytes, &mut piece[..length]);
                memory.write(offset as usize, &piece[..length])?;
            }
        }
        Ok(Place::Gpu { kernels, state, memory })
    }

    /// Counts in ordinary memory.
    pub fn on_cpu() -> Place {
        Place::Cpu(Mutex::new(Count::default()))
    }

    /// One step.
    pub fn step(&self) -> Result<(), String> {
        match self {
            Place::Gpu { kernels, state, .. } => {
                kernels.count_step(state, None)?;
                Ok(state.context().synchronize()?)
            }
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
            Place::Gpu { state, .. } => {
                let mut bytes = [0u8; 16];
                state.read(0, &mut bytes)?;
                Ok(Count::from_bytes(bytes))
            }
            Place::Cpu(count) => Ok(*count.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// UUID of the card, if there is one.
    pub fn gpu(&self) -> Result<Option<String>, String> {
        match self {
            Place::Gpu { state, .. } => Ok(Some(state.context().card().uuid()?)),
            Place::Cpu(_) => Ok(None),
        }
    }

    /// Bytes of the additional memory.
    pub fn bytes(&self) -> u64 {
        match self {
            Place::Gpu { memory: Some(memory), .. } => memory.bytes() as u64,
            _ => 0,
        }
    }

    /// Whether a piece of the additional memory holds what it should.
    pub fn piece_is_right(&self, index: u64) -> Result<bool, String> {
        let Place::Gpu { memory: Some(memory), .. } = self else { return Ok(true) };
        let (offset, length) = pattern::extent(index, self.bytes());
        let (mut found, mut right) = (vec![0u8; length], vec![0u8; length]);
        memory.read(offset as usize, &mut found)?;
        pattern::fill(index, self.bytes(), &mut right);
        Ok(found == right)
    }
}
