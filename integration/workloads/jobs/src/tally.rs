//! A count in the memory of one card.

use baton_cuda::{Context, DeviceMemory, Kernels, Stream};
use baton_workload::count::Count;

use crate::report::Part;

/// A count, and what counts it. How far it must be is known here too, apart from the card.
#[derive(Debug)]
pub struct Tally {
    kernels: Kernels,
    state: DeviceMemory,
    right: Count,
}

impl Tally {
    /// A count that begins at 0.
    pub fn begin(context: &Context) -> Result<Tally, String> {
        Ok(Tally { kernels: context.kernels()?, state: DeviceMemory::zeroed(context, 16)?, right: Count::default() })
    }

    /// Has the card make one step; it may still be at it.
    pub fn step(&mut self, stream: Option<&Stream>) -> Result<(), String> {
        self.kernels.count_step(&self.state, stream)?;
        self.right = self.right.next();
        Ok(())
    }

    /// Its card's context.
    pub fn context(&self) -> &Context {
        self.state.context()
    }

    /// What is found on the card, once all that it was given is done.
    pub fn part(&self) -> Result<Part, String> {
        self.context().synchronize()?;
        let mut bytes = [0u8; 16];
        self.state.read(0, &mut bytes)?;
        let found = Count::from_bytes(bytes);
        // A lost step shows in either number.
        let checksum = if found.step == self.right.step { found.checksum } else { !self.right.checksum };
        Ok(Part { step: self.right.step, checksum, right: self.right.checksum, gpu: self.context().card().uuid()? })
    }
}
