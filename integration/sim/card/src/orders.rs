//! What a test has ordered the hardware to do wrong.

use baton_sim_wire::{CommandOrders, Deed, Orders};

/// Takes an order; `Err` says why not.
pub fn take(orders: &mut Orders, key: &str, value: &str) -> Result<(), String> {
    let off = value == "off";
    let malformed = |_| format!("{key}={value}: the value is no number and not \"off\"");
    match key {
        "copy-rate" => orders.copy_rate = if off { 0 } else { value.parse().map_err(malformed)? },
        "fail-checkpoint" => orders.fail_checkpoint = if off { None } else { Some(value.parse().map_err(malformed)?) },
        "fail-restore" => orders.fail_restore = if off { None } else { Some(value.parse().map_err(malformed)?) },
        "lock-hang" => orders.lock_hang = !off && value != "0",
        _ => return Err(format!("unknown order {key:?}: copy-rate, fail-checkpoint, fail-restore, lock-hang")),
    }
    Ok(())
}

/// The orders for one deed; those that hold once are used up.
pub fn use_up(orders: &mut Orders, deed: &Deed) -> CommandOrders {
    let mut mine = CommandOrders { copy_rate: orders.copy_rate, ..CommandOrders::default() };
    match deed {
        Deed::Lock { .. } => mine.lock_hang = std::mem::take(&mut orders.lock_hang),
        Deed::Checkpoint => mine.fail = orders.fail_checkpoint.take(),
        Deed::Restore { .. } => mine.fail = orders.fail_restore.take(),
        Deed::State | Deed::Unlock => {}
    }
    mine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_hold_once_and_the_rate_stays() {
        let mut orders = Orders::default();
        for (key, value) in [("copy-rate", "1000"), ("fail-restore", "2"), ("lock-hang", "1")] {
            take(&mut orders, key, value).expect("known");
        }
        assert_eq!(use_up(&mut orders, &Deed::Checkpoint).fail, None);
        let restore = Deed::Restore { pairs: Vec::new() };
        assert_eq!(use_up(&mut orders, &restore).fail, Some(2));
        assert_eq!(use_up(&mut orders, &restore), CommandOrders { copy_rate: 1000, fail: None, lock_hang: false });
        take(&mut orders, "lock-hang", "off").expect("known");
        assert!(!use_up(&mut orders, &Deed::Lock { timeout_ms: 0 }).lock_hang);
    }

    #[test]
    fn nonsense_is_refused() {
        let mut orders = Orders::default();
        assert!(take(&mut orders, "copy-rate", "fast").is_err());
        assert!(take(&mut orders, "melt", "1").is_err());
    }
}
