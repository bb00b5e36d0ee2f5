//! Checks that what is recorded is what living processes hold.

use std::fs;
use std::ops::Range;

use baton_sim_wire::Ledger;

use crate::account::Account;
use crate::administer;
use crate::hardware::Hardware;
use crate::memory::CardMemory;

/// The books, and whether they balance. Wants a moment in which nobody allocates or frees.
pub fn check(hardware: &Hardware, memories: &[CardMemory]) -> Ledger {
    let mut faults = Vec::new();
    for (account, memory) in hardware.accounts.iter().zip(memories) {
        holders_live(hardware, account, &mut faults);
        nothing_overlaps(account, &mut faults);
        instances_fit(account, &mut faults);
        no_data_outside(account, memory, &mut faults);
        everything_is_mapped(hardware, account, memory, &mut faults);
    }
    Ledger { balanced: faults.is_empty(), faults, cards: hardware.uses() }
}

fn holders_live(hardware: &Hardware, account: &Account, faults: &mut Vec<String>) {
    let ranges = account.ranges.values().flat_map(|held| held.owner.iter().chain(&held.importers));
    for id in ranges.chain(account.contexts.keys().map(|(id, _)| id)) {
        match hardware.clients.get(id) {
            None => faults.push(format!("{}: held by connection {id}, which is gone", account.card.uuid)),
            Some(client) if client.pid > 0 && !fs::exists(format!("/proc/{}", client.pid)).unwrap_or(true) => {
                faults.push(format!("{}: held by process {}, which is gone", account.card.uuid, client.pid));
            }
            Some(_) => {}
        }
    }
}

fn nothing_overlaps(account: &Account, faults: &mut Vec<String>) {
    let mut end = 0;
    for (offset, held) in &account.ranges {
        if *offset < end {
            faults.push(format!("{}: allocations overlap at {offset:#x}", account.card.uuid));
        }
        end = offset + held.bytes;
    }
}

/// The instances can be, nobody holds more of one than it has, and nobody holds what is no instance.
fn instances_fit(account: &Account, faults: &mut Vec<String>) {
    let uuid = &account.card.uuid;
    let possible = |model| administer::is_possible(model, uuid, account.settings.mig, &account.instances);
    if !account.model().is_some_and(possible) {
        faults.push(format!("{uuid}: it cannot be cut like this: {:?}", account.instances));
    }
    for gpu in account.instances_now().iter().filter(|gpu| gpu.used > gpu.memory) {
        faults.push(format!("{uuid}: {} bytes of GPU instance {} are held, it has {}", gpu.used, gpu.id, gpu.memory));
    }
    for (_, at) in account.users() {
        let there = at.is_none_or(|at| {
            let gpu = account.instances.iter().find(|gpu| gpu.id == at.gpu);
            gpu.is_some_and(|gpu| gpu.compute.iter().any(|compute| compute.id == at.compute))
        });
        if !there || (at.is_none() && account.settings.mig) {
            faults.push(format!("{uuid}: something is held on {at:?}, which is not there"));
        }
    }
}

fn no_data_outside(account: &Account, memory: &CardMemory, faults: &mut Vec<String>) {
    let mut at = 0;
    while let Some(data) = memory.next_data(at) {
        match account.ranges.range(..=data).next_back() {
            Some((offset, held)) if data < offset + held.bytes => at = offset + held.bytes,
            _ => {
                faults.push(format!("{}: data at {data:#x}, which nobody holds", account.card.uuid));
                return;
            }
        }
    }
}

fn everything_is_mapped(hardware: &Hardware, account: &Account, memory: &CardMemory, faults: &mut Vec<String>) {
    let Ok(inode) = memory.inode() else { return };
    for (id, client) in &hardware.clients {
        let mine: Vec<Range<u64>> = account
            .ranges
            .iter()
            .filter(|(_, held)| held.owner == Some(*id) || held.importers.contains(id))
            .map(|(at, held)| *at..at + held.bytes)
            .collect();
        // What this process holds for tenants nobody maps.
        if mine.is_empty() || client.pid == std::process::id() as i32 {
            continue;
        }
        let Ok(maps) = fs::read_to_string(format!("/proc/{}/maps", client.pid)) else { continue };
        let mapped: Vec<Range<u64>> = maps.lines().filter_map(|line| range_of_mapping(line, inode)).collect();
        let (uuid, pid) = (&account.card.uuid, client.pid);
        for offset in beyond(&mine, &mapped) {
            faults.push(format!("{uuid}: process {pid} holds {offset:#x} but has not mapped it"));
        }
        for offset in beyond(&mapped, &mine) {
            faults.push(format!("{uuid}: process {pid} has mapped {offset:#x} but does not hold it"));
        }
    }
}

/// The first byte of each range that `others` together do not cover. What lies side by side on the card may be mapped more than
/// once, and the kernel shows mappings that go on from one another as one.
fn beyond(ranges: &[Range<u64>], others: &[Range<u64>]) -> Vec<u64> {
    let uncovered = |range: &Range<u64>| {
        let mut at = range.start;
        while at < range.end {
            match others.iter().filter(|other| other.contains(&at)).map(|other| other.end).max() {
                Some(end) => at = end,
                None => return Some(at),
            }
        }
        None
    };
    ranges.iter().filter_map(uncovered).collect()
}

/// `7f0000-7f2000 rw-s 00001000 00:01 1234 /memfd:card…` → 0x1000..0x3000 when the inode is the one asked for.
fn range_of_mapping(line: &str, inode: u64) -> Option<Range<u64>> {
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let offset = hexadecimal(fields.nth(1)?)?;
    let number: u64 = fields.nth(1)?.parse().ok()?;
    let is_card = number == inode && fields.next()?.starts_with("/memfd:card-");
    let bytes = hexadecimal(end)?.checked_sub(hexadecimal(start)?)?;
    is_card.then_some(offset..offset.checked_add(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_line_gives_its_range() {
        let line = "7f0000000000-7f0000010000 rw-s 00020000 00:01 77 /memfd:card-GPU-1.mem (deleted)";
        assert_eq!(range_of_mapping(line, 77), Some(0x20000..0x30000));
        assert_eq!(range_of_mapping(line, 78), None);
        assert_eq!(range_of_mapping("7f0000000000-7f0000010000 rw-p 00000000 00:00 0", 0), None);
    }

    #[test]
    fn ranges_are_covered_by_many_or_not_to_their_end() {
        let mapped = [10..20, 30..50, 20..25, 0..5];
        assert_eq!(beyond(&[10..25, 35..50, 0..5], &mapped), Vec::<u64>::new());
        assert_eq!(beyond(&[10..26, 5..10, 0..6, 29..40], &mapped), [25, 5, 5, 29]);
    }
}
