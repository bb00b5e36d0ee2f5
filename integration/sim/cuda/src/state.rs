//! `CUprocessState` and which deed is allowed in which state.

use crate::codes::{Code, Outcome};
use baton_sim_wire::Deed;

/// What the process is to the checkpoint API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ProcessState {
    Running = 0,
    Locked = 1,
    Checkpointed = 2,
    /// Ruined by a failed checkpoint or restore; only a kill is left.
    Failed = 3,
    /// Ruined by a restore that found too little room, which callers are not told: to them it stays checkpointed
    /// (NVIDIA/cuda-checkpoint#44). The number is ours.
    Stranded = 100,
}

impl ProcessState {
    /// From the number; anything unknown is `Failed`.
    pub fn from_number(number: u32) -> ProcessState {
        match number {
            0 => ProcessState::Running,
            1 => ProcessState::Locked,
            2 => ProcessState::Checkpointed,
            100 => ProcessState::Stranded,
            _ => ProcessState::Failed,
        }
    }

    /// The `CUprocessState` that callers are told.
    pub fn told(self) -> u32 {
        match self {
            ProcessState::Stranded => ProcessState::Checkpointed as u32,
            state => state as u32,
        }
    }

    /// Whether a process in this state may be asked to do `deed`. A ruined one answers a restore with 304 and
    /// everything else with 401, as NVIDIA/cuda-checkpoint#44 reports.
    pub fn allows(self, deed: &Deed) -> Outcome {
        match (self, deed) {
            (_, Deed::State)
            | (ProcessState::Running, Deed::Lock { .. })
            | (ProcessState::Locked, Deed::Checkpoint | Deed::Unlock)
            | (ProcessState::Checkpointed, Deed::Restore { .. }) => Ok(()),
            (ProcessState::Failed | ProcessState::Stranded, Deed::Restore { .. }) => Err(Code::OPERATING_SYSTEM),
            _ => Err(Code::ILLEGAL_STATE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ProcessState::{Checkpointed, Failed, Locked, Running, Stranded};
    use super::*;

    #[test]
    fn each_deed_has_one_state_to_start_from() {
        let deeds = [
            (Deed::Lock { timeout_ms: 1 }, Running),
            (Deed::Checkpoint, Locked),
            (Deed::Restore { pairs: Vec::new() }, Checkpointed),
            (Deed::Unlock, Locked),
        ];
        for (deed, right) in &deeds {
            for state in [Running, Locked, Checkpointed] {
                let expected = if state == *right { Ok(()) } else { Err(Code(401)) };
                assert_eq!(state.allows(deed), expected, "{deed:?} in {state:?}");
            }
        }
    }

    #[test]
    fn a_ruined_process_answers_304_to_restore_and_401_to_the_rest() {
        for ruined in [Failed, Stranded] {
            assert_eq!(ruined.allows(&Deed::Restore { pairs: Vec::new() }), Err(Code(304)));
            assert_eq!(ruined.allows(&Deed::Unlock), Err(Code(401)));
            assert_eq!(ruined.allows(&Deed::Lock { timeout_ms: 0 }), Err(Code(401)));
            assert_eq!(ruined.allows(&Deed::State), Ok(()));
        }
        assert_eq!([Failed.told(), Stranded.told()], [3, 2]);
        assert_eq!(ProcessState::from_number(Stranded as u32), Stranded);
    }
}
