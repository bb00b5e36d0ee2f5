//! Injection: the plan of a container's devices, into its config.json and onto record. The shim calls it at Create;
//! the engine's `create` calls [`unless_done`], for a container that no shim has prepared.

use std::path::Path;

use baton_config::Driver;
use baton_fault::Result;

use crate::{CheckedPlan, Config, Inventory, Plan, Request, record};

/// What `request` needs on this node, found and checked; nothing is touched. `hook` is the absolute path of
/// `baton-hook`.
///
/// # Errors
/// Of the inventory, the plan or its check.
pub fn plan(request: &Request, driver: &Driver, hook: &Path) -> Result<CheckedPlan> {
    let inventory = Inventory::read(driver)?;
    Plan::resolve(request, &inventory, driver, hook)?.check()
}

/// Edits the config, in memory and in the bundle, and writes the record.
///
/// # Errors
/// `BUNDLE` when the plan and the config contradict each other, or of the file operations.
pub fn apply(plan: &CheckedPlan, config: &mut Config, bundle: &Path) -> Result<()> {
    plan.apply(&mut config.value)?;
    config.write(bundle)?;
    record::write(bundle, plan.plan())
}

/// Injects what the config of `bundle` asks for, unless it has been done.
///
/// # Errors
/// As [`plan`] and [`apply`].
pub fn unless_done(bundle: &Path, driver: &Driver, hook: &Path) -> Result<()> {
    if record::read(bundle)?.is_some() {
        return Ok(());
    }
    let mut config = Config::read(bundle)?;
    match Request::from_config(&config.value)? {
        Some(requested) => apply(&plan(&requested.request, driver, hook)?, &mut config, bundle),
        None => Ok(()),
    }
}
