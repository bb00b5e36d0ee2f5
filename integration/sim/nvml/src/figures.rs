//! Numbers that a card of its kind could have; nothing here is measured. A vGPU's guest does not learn of them.

use baton_sim_model::Model;
use baton_sim_wire::CardUse;

use crate::codes::{Code, Outcome};
use crate::handle::Handle;
use crate::library::call;
use crate::pointer::Place;

/// From NVIDIA's data sheets: the limit in watts, the highest clocks in MHz.
pub struct Figures {
    word: &'static str,
    /// Limit of its power, in watts.
    pub watts: u32,
    /// Highest clock of the multiprocessors, in MHz.
    pub graphics: u32,
    /// Clock of the memory, in MHz.
    pub memory: u32,
}

const FIGURES: [Figures; 6] = [
    Figures { word: "a30", watts: 165, graphics: 1440, memory: 1215 },
    Figures { word: "a100-40", watts: 400, graphics: 1410, memory: 1215 },
    Figures { word: "a100-80", watts: 400, graphics: 1410, memory: 1593 },
    Figures { word: "h100", watts: 700, graphics: 1980, memory: 2619 },
    Figures { word: "h200", watts: 700, graphics: 1980, memory: 3201 },
    Figures { word: "b200", watts: 1000, graphics: 1965, memory: 3996 },
];

/// Those of a model; a vGPU has none.
pub fn figures(model: &Model) -> Outcome<&'static Figures> {
    FIGURES.iter().find(|figures| figures.word == model.word).ok_or(Code::NOT_SUPPORTED)
}

/// Whether somebody has a context or memory on it.
pub fn works(held: &CardUse) -> bool {
    !held.processes.is_empty()
}

/// Answers with a number that follows from the kind of card and whether it works.
pub fn number<T>(name: &str, device: Handle, to: Place<T>, of: impl FnOnce(&Figures, bool) -> Outcome<T>) -> i32 {
    call(name, |library| {
        to.exists()?;
        let now = library.now(device)?;
        to.give(of(figures(now.model()?)?, works(&now.held))?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_sim_model::MODELS;

    #[test]
    fn every_card_that_is_no_guest_has_figures() {
        assert!(MODELS.iter().all(|model| figures(model).is_ok() != model.guest));
    }
}
