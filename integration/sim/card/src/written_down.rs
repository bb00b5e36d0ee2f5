//! An administrator's change: written down before it is told; what cannot be written down has not happened.

use baton_sim_wire::Change;

use crate::account::Account;
use crate::hardware::Refusal;
use crate::serve::Machine;
use crate::{administer, capabilities};

/// `NVML_ERROR_NOT_FOUND`.
const NOT_FOUND: i32 = 6;
/// `NVML_ERROR_UNKNOWN`.
const UNKNOWN: i32 = 999;

/// Changes a card; the number of an instance that was made comes back.
///
/// # Errors
/// With an `nvmlReturn_t`. What the file system refuses is also said on the standard error: NVML passes on a code only.
pub fn change(machine: &Machine, card: &str, change: Change) -> Result<Option<u32>, Refusal> {
    let mut state = machine.state();
    let index = state.hardware.index(card).map_err(|refusal| Refusal { code: NOT_FOUND, ..refusal })?;
    let accounts = &mut state.hardware.accounts;
    let before = (accounts[index].settings, accounts[index].instances.clone());
    let made = administer::apply(&mut accounts[index], change);
    if (accounts[index].settings, &accounts[index].instances) == (before.0, &before.1) {
        return made;
    }
    let show = |accounts: &[Account]| capabilities::show(&machine.root, accounts);
    // The file last: what is in it is what the next process that plays the hardware begins with.
    let Err(error) = show(accounts).and_then(|()| machine.file.save(accounts)) else { return made };
    (accounts[index].settings, accounts[index].instances) = before;
    let why = format!("cannot write down a change of {card}: {error}");
    eprintln!("baton-sim-card: {why}");
    if let Err(error) = show(accounts) {
        eprintln!("baton-sim-card: cannot show {card} as it was: {error}");
    }
    Err(Refusal::new(UNKNOWN, why))
}
