//! `baton devices`: the GPUs of this node, and who uses them.

use std::ffi::OsString;
use std::process::ExitCode;

use baton_cgroup::{Cgroups, Membership};
use baton_config::Settings;
use baton_devices::{Card, CardUsage, GpuUuid, Inventory};
use baton_fault::{Code, Fault, Result};
use lexopt::Arg;
use serde::Serialize;

use super::sizes::Bytes;
use crate::arguments;

/// A card and who uses it.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    card: Card,
    used: u64,
    free: u64,
    users: Vec<User>,
}

/// A process that has memory on a card.
#[derive(Serialize)]
struct User {
    pid: u32,
    bytes: Option<u64>,
    cgroup: String,
}

/// Prints the cards of this node.
pub fn run(args: &[OsString]) -> Result<ExitCode> {
    let mut json = false;
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(arguments::usage)? {
        match arg {
            Arg::Long("json") => json = true,
            other => return Err(arguments::usage(other.unexpected())),
        }
    }
    let settings = Settings::load()?;
    let inventory = Inventory::read(&settings.driver)?;
    let uuids: Vec<GpuUuid> = inventory.cards.iter().map(|card| card.uuid).collect();
    let usage = baton_devices::usage(&settings.driver, &uuids)?;
    let rows: Vec<Row> = inventory.cards.iter().zip(&usage).map(|(card, usage)| row(card, usage)).collect();
    if json {
        let all = serde_json::json!({
            "driver": inventory.driver_version,
            "cuda": inventory.cuda_version,
            "cards": rows,
        });
        say!("{}", serde_json::to_string_pretty(&all).map_err(|err| Fault::new(Code::System, "print", err))?);
        return Ok(ExitCode::SUCCESS);
    }
    let cuda = (inventory.cuda_version / 1000, inventory.cuda_version % 1000 / 10);
    say!("NVIDIA driver {}, CUDA {}.{}, {} GPU(s)", inventory.driver_version, cuda.0, cuda.1, rows.len());
    for row in &rows {
        print_row(row);
    }
    Ok(ExitCode::SUCCESS)
}

fn row(card: &Card, usage: &CardUsage) -> Row {
    let users =
        usage.processes.iter().map(|(pid, bytes)| User { pid: *pid, bytes: *bytes, cgroup: cgroup(*pid) }).collect();
    Row { card: card.clone(), used: usage.used, free: usage.free, users }
}

fn print_row(row: &Row) {
    let card = &row.card;
    say!(
        "{:>3}  {}  {}  compute {}.{}",
        card.index,
        card.uuid,
        card.model,
        card.compute_capability.major,
        card.compute_capability.minor
    );
    say!(
        "     /dev/nvidia{}  PCI {}  {} of {} used, {} free{}",
        card.minor,
        card.pci_bus_id,
        Bytes(row.used),
        Bytes(card.memory_total),
        Bytes(row.free),
        if card.mig_enabled { "  MIG enabled" } else { "" }
    );
    if row.users.is_empty() {
        say!("     nobody uses it");
    }
    for user in &row.users {
        let bytes = user.bytes.map_or_else(|| "unknown".to_string(), |bytes| Bytes(bytes).to_string());
        say!("     process {}  {}  in {}", user.pid, bytes, user.cgroup);
    }
}

/// The cgroup of a process, whose last part containerd names after the container.
fn cgroup(pid: u32) -> String {
    let cgroups = Cgroups::of(pid).ok();
    let group = cgroups.as_ref().and_then(|cgroups| cgroups.with("devices").filter(not_the_root).or(cgroups.unified()));
    group.filter(not_the_root).map_or_else(|| "no container".to_string(), |group| group.path().to_string())
}

fn not_the_root(group: &Membership) -> bool {
    group.path() != "/"
}
