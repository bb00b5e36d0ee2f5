//! What a test has ordered the hardware to do otherwise.

use std::io;

use baton_sim_wire::{CommandOrders, Deed};

use crate::faults::{self, Faults};

/// The orders that stand.
#[derive(Debug)]
pub struct Orders {
    copy_rate: u64,
    fail_checkpoint: Option<i32>,
    fail_restore: Option<i32>,
    lock_hang: bool,
    can_mig: bool,
    can_mps: bool,
    /// Faults of single calls.
    pub faults: Faults,
}

impl Orders {
    /// None.
    ///
    /// # Errors
    /// When there is no memory for the page of faults.
    pub fn none() -> io::Result<Orders> {
        Ok(Orders {
            copy_rate: 0,
            fail_checkpoint: None,
            fail_restore: None,
            lock_hang: false,
            can_mig: false,
            can_mps: false,
            faults: Faults::none()?,
        })
    }

    /// Takes an order.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        let off = value == "off";
        let malformed = |_| format!("{key}={value}: the value is no number and not \"off\"");
        let yes = match (off, value) {
            (true, _) | (_, "0") => Ok(false),
            (_, "1") => Ok(true),
            _ => Err(format!("{key}={value}: the value is not 1, 0 or \"off\"")),
        };
        let failure = || match faults::failure(value) {
            _ if off => Ok(None),
            Some(code) => Ok(Some(code)),
            None => Err(format!("{key}={value}: {}, nor \"off\"", faults::NO_FAILURE)),
        };
        match key {
            "copy-rate" => self.copy_rate = if off { 0 } else { value.parse().map_err(malformed)? },
            "fail-checkpoint" => self.fail_checkpoint = failure()?,
            "fail-restore" => self.fail_restore = failure()?,
            "lock-hang" => self.lock_hang = yes?,
            "mig-checkpoint" => self.can_mig = yes?,
            "mps-checkpoint" => self.can_mps = yes?,
            "fault" => self.faults.order(value)?,
            _ => {
                return Err(format!(
                    "unknown order {key:?}: copy-rate, fail-checkpoint, fail-restore, lock-hang, mig-checkpoint, \
                     mps-checkpoint, fault"
                ));
            }
        }
        Ok(())
    }

    /// The orders for one deed of that program; those that hold once are used up.
    pub fn use_up(&mut self, deed: &Deed, program: &str) -> CommandOrders {
        let mut mine = CommandOrders {
            copy_rate: self.copy_rate,
            can_mig: self.can_mig,
            can_mps: self.can_mps,
            fault: self.faults.of_call(name(deed), program),
            ..CommandOrders::default()
        };
        match deed {
            Deed::Lock { .. } => mine.lock_hang = std::mem::take(&mut self.lock_hang),
            Deed::Checkpoint => mine.fail = self.fail_checkpoint.take(),
            Deed::Restore { .. } => mine.fail = self.fail_restore.take(),
            Deed::State | Deed::Unlock => {}
        }
        mine
    }
}

/// What an order of a fault calls the deed.
fn name(deed: &Deed) -> &'static str {
    match deed {
        Deed::State => "State",
        Deed::Lock { .. } => "Lock",
        Deed::Checkpoint => "Checkpoint",
        Deed::Restore { .. } => "Restore",
        Deed::Unlock => "Unlock",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_sim_wire::FaultAction;

    #[test]
    fn failures_hold_once_and_the_rate_stays() {
        let mut orders = Orders::none().expect("memory");
        for (key, value) in [("copy-rate", "1000"), ("fail-restore", "2"), ("lock-hang", "1")] {
            orders.take(key, value).expect("known");
        }
        assert_eq!(orders.use_up(&Deed::Checkpoint, "job").fail, None);
        let restore = Deed::Restore { pairs: Vec::new() };
        assert_eq!(orders.use_up(&restore, "job").fail, Some(2));
        assert_eq!(orders.use_up(&restore, "job"), CommandOrders { copy_rate: 1000, ..CommandOrders::default() });
        orders.take("lock-hang", "off").expect("known");
        assert!(!orders.use_up(&Deed::Lock { timeout_ms: 0 }, "job").lock_hang);
    }

    #[test]
    fn a_deed_can_be_met_by_a_fault() {
        let mut orders = Orders::none().expect("memory");
        orders.take("fault", "Checkpoint@job:crash").expect("known");
        assert_eq!(orders.use_up(&Deed::Checkpoint, "other").fault, None);
        assert_eq!(orders.use_up(&Deed::Checkpoint, "job").fault, Some(FaultAction::Crash));
    }

    #[test]
    fn nonsense_is_refused() {
        let mut orders = Orders::none().expect("memory");
        for (key, value) in [
            ("copy-rate", "fast"),
            ("melt", "1"),
            ("lock-hang", "maybe"),
            ("mig-checkpoint", "2"),
            ("fault", "x"),
            ("fail-checkpoint", "0"),
            ("fail-restore", "-1"),
        ] {
            assert!(orders.take(key, value).is_err(), "{key}={value}");
        }
    }
}
