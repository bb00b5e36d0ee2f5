//! One process with all the cards that it may use; each step is made on every one of them, at the same time.

use baton_cuda::{Card, Driver};

use crate::report::Report;
use crate::tally::Tally;
use crate::work::Work;

/// A count on each card.
pub struct Cards(Vec<Tally>);

impl Cards {
    /// Begins on all cards.
    pub fn begin() -> Result<Cards, String> {
        let begin = |card: Card| Tally::begin(&card.context()?);
        Ok(Cards(Driver::open()?.cards()?.into_iter().map(begin).collect::<Result<_, String>>()?))
    }
}

impl Work for Cards {
    fn step(&mut self) -> Result<(), String> {
        self.0.iter_mut().try_for_each(|tally| tally.step(None))?;
        Ok(self.0.iter().try_for_each(|tally| tally.context().synchronize())?)
    }

    fn report(&mut self) -> Result<Report, String> {
        let parts = self.0.iter().map(Tally::part).collect::<Result<Vec<_>, _>>()?;
        let step = parts.iter().map(|part| part.step).min().unwrap_or(0);
        Ok(Report { workload: "cards".to_owned(), step, parts, ..Report::default() })
    }
}
