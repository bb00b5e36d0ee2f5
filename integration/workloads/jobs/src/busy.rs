//! A card that is always at work, for as long at a time as is asked for; and memory that the driver moves about.

use baton_cuda::{DeviceMemory, Driver, Kernels};

use crate::report::Report;
use crate::tally::Tally;
use crate::work::Work;

/// A count, whose every step keeps the card busy.
pub struct Busy {
    kernels: Kernels,
    tally: Tally,
    milliseconds: u64,
    managed: Option<DeviceMemory>,
}

impl Busy {
    /// Busy for so long in each step; with so many bytes of managed memory, where they are not 0.
    pub fn begin(milliseconds: u64, managed: usize) -> Result<Busy, String> {
        let context = Driver::open()?.card().context()?;
        let managed = if managed > 0 { Some(DeviceMemory::managed(&context, managed)?) } else { None };
        if let Some(memory) = &managed {
            memory.fill(0, memory.bytes(), 0)?;
        }
        Ok(Busy { kernels: context.kernels()?, tally: Tally::begin(&context)?, milliseconds, managed })
    }
}

impl Work for Busy {
    fn step(&mut self) -> Result<(), String> {
        if self.milliseconds > 0 {
            self.kernels.spin(self.milliseconds, None)?;
        }
        self.tally.step(None)?;
        Ok(self.tally.context().synchronize()?)
    }

    fn report(&mut self) -> Result<Report, String> {
        let part = self.tally.part()?;
        let memory = self.managed.as_ref().map_or(0, |memory| memory.bytes() as u64);
        Ok(Report { workload: "busy".to_owned(), step: part.step, memory, parts: vec![part], ..Report::default() })
    }
}
