//! What an administrator changes on a card: modes and MIG instances. Refusals carry an `nvmlReturn_t` (nvml.h).

use baton_sim_model::{GpuProfile, MigTable, Model, choose, gpu_instance_id, mig_uuid, possible};
use baton_sim_wire::{Change, ComputeInstance, GpuInstance, InstanceId, Placement};

use crate::account::Account;
use crate::hardware::Refusal;

/// `NVML_ERROR_INVALID_ARGUMENT`.
const INVALID_ARGUMENT: i32 = 2;
/// `NVML_ERROR_NOT_SUPPORTED`.
const NOT_SUPPORTED: i32 = 3;
/// `NVML_ERROR_NOT_FOUND`.
const NOT_FOUND: i32 = 6;
/// `NVML_ERROR_IN_USE`.
const IN_USE: i32 = 19;
/// `NVML_ERROR_INSUFFICIENT_RESOURCES`.
const INSUFFICIENT_RESOURCES: i32 = 23;

/// The most compute instances of one GPU instance, by the tables of capabilities.
const MOST_COMPUTE_INSTANCES: u32 = 8;

/// Changes the card; the number of an instance that was made comes back.
pub fn apply(account: &mut Account, change: Change) -> Result<Option<u32>, Refusal> {
    match change {
        Change::Mig(on) => set_mig(account, on).map(|()| None),
        Change::ComputeMode(mode) => {
            account.settings.compute_mode = mode;
            Ok(None)
        }
        Change::Persistence(on) => {
            account.settings.persistence = on;
            Ok(None)
        }
        Change::Timeslice(timeslice) => {
            account.settings.timeslice = timeslice;
            Ok(None)
        }
        Change::Reset => reset(account).map(|()| None),
        Change::CreateGpuInstance { profile, start } => create_gpu_instance(account, profile, start).map(Some),
        Change::DestroyGpuInstance { gpu } => destroy_gpu_instance(account, gpu).map(|()| None),
        Change::CreateComputeInstance { gpu, profile, start } => {
            create_compute_instance(account, gpu, profile, start).map(Some)
        }
        Change::DestroyComputeInstance { instance } => destroy_compute_instance(account, instance).map(|()| None),
    }
}

fn table(account: &Account) -> Result<&'static MigTable, Refusal> {
    let table = account.model().and_then(|model| model.mig);
    table.ok_or_else(|| Refusal::new(NOT_SUPPORTED, format!("{} has no MIG", account.card.model)))
}

/// The table of a card that is in MIG mode.
fn table_in_use(account: &Account) -> Result<&'static MigTable, Refusal> {
    let table = table(account)?;
    if !account.settings.mig {
        return Err(Refusal::new(NOT_SUPPORTED, format!("{} is not in MIG mode", account.card.uuid)));
    }
    Ok(table)
}

/// A card before Hopper changes its mode at the next reset, which the driver makes itself when nobody uses the card. With
/// users, or instances, the change stays pending.
fn set_mig(account: &mut Account, on: bool) -> Result<(), Refusal> {
    table(account)?;
    account.settings.pending_mig = on;
    if account.settings.mig == on {
        return Ok(());
    }
    if !account.users().is_empty() || !account.instances.is_empty() {
        return Err(Refusal::new(IN_USE, format!("{} is in use; the change is pending", account.card.uuid)));
    }
    account.settings.mig = on;
    Ok(())
}

fn reset(account: &mut Account) -> Result<(), Refusal> {
    if !account.users().is_empty() {
        return Err(Refusal::new(IN_USE, format!("{} is in use", account.card.uuid)));
    }
    account.instances.clear();
    account.settings.mig = account.settings.pending_mig;
    Ok(())
}

fn create_gpu_instance(account: &mut Account, profile: u32, start: Option<u32>) -> Result<u32, Refusal> {
    let table = table_in_use(account)?;
    let unknown = || Refusal::new(NOT_SUPPORTED, format!("no profile {profile} on this card"));
    let profile = table.by_index(profile).ok_or_else(unknown)?;
    let there: Vec<_> = account.instances.iter().map(|gpu| (gpu.profile, gpu.placement)).collect();
    let placement = match start {
        Some(start) if !profile.starts.contains(&start) => {
            return Err(Refusal::new(INVALID_ARGUMENT, format!("{} cannot start at {start}", profile.name)));
        }
        Some(start) => possible(table, &there, profile).into_iter().find(|placement| placement.start == start),
        None => choose(table, &there, profile),
    };
    let full = || Refusal::new(INSUFFICIENT_RESOURCES, format!("there is no room for {}", profile.name));
    let placement = placement.ok_or_else(full)?;
    let id = gpu_instance_id(table.memory_slices, placement);
    let memory = profile.mebibytes << 20;
    let made = GpuInstance { id, profile: profile.index, placement, memory, used: 0, compute: Vec::new() };
    account.instances.push(made);
    account.instances.sort_by_key(|gpu| gpu.id);
    Ok(id)
}

fn find(account: &mut Account, gpu: u32) -> Result<&mut GpuInstance, Refusal> {
    let uuid = account.card.uuid.clone();
    let found = account.instances.iter_mut().find(|instance| instance.id == gpu);
    found.ok_or_else(|| Refusal::new(NOT_FOUND, format!("{uuid} has no GPU instance {gpu}")))
}

fn destroy_gpu_instance(account: &mut Account, gpu: u32) -> Result<(), Refusal> {
    if !find(account, gpu)?.compute.is_empty() {
        return Err(Refusal::new(IN_USE, format!("GPU instance {gpu} has compute instances")));
    }
    account.instances.retain(|instance| instance.id != gpu);
    Ok(())
}

fn create_compute_instance(account: &mut Account, gpu: u32, profile: u32, start: Option<u32>) -> Result<u32, Refusal> {
    let table = table_in_use(account)?;
    let card = account.card.uuid.clone();
    let instance = find(account, gpu)?;
    let of = table.by_index(instance.profile).ok_or_else(|| Refusal::new(NOT_SUPPORTED, "an unknown profile"))?;
    let wanted = table.compute_profiles(of).into_iter().find(|known| known.index == profile);
    let size =
        wanted.ok_or_else(|| Refusal::new(NOT_SUPPORTED, format!("no profile {profile} in {}", of.name)))?.slices;
    let placement = compute_placement(of, &instance.compute, size, start)?;
    let free = (0..MOST_COMPUTE_INSTANCES).find(|id| instance.compute.iter().all(|compute| compute.id != *id));
    let id = free.ok_or_else(|| Refusal::new(INSUFFICIENT_RESOURCES, "it has as many as there can be"))?;
    let uuid = mig_uuid(&card, InstanceId { gpu, compute: id });
    instance.compute.push(ComputeInstance { id, profile, placement, uuid });
    instance.compute.sort_by_key(|compute| compute.id);
    Ok(id)
}

/// The first gap of that size, or the one asked for.
fn compute_placement(
    of: &GpuProfile,
    there: &[ComputeInstance],
    size: u32,
    start: Option<u32>,
) -> Result<Placement, Refusal> {
    let last = of.compute_slices - size;
    if start.is_some_and(|start| start > last) {
        return Err(Refusal::new(INVALID_ARGUMENT, format!("{size} slices do not fit there in {}", of.name)));
    }
    let mut starts = start.map_or(0..=last, |start| start..=start);
    let free = |start: &u32| {
        let new = Placement { start: *start, size };
        there.iter().all(|compute| !compute.placement.overlaps(new))
    };
    let full = || Refusal::new(INSUFFICIENT_RESOURCES, format!("there is no room for {size} slices"));
    starts.find(free).map(|start| Placement { start, size }).ok_or_else(full)
}

fn destroy_compute_instance(account: &mut Account, instance: InstanceId) -> Result<(), Refusal> {
    if account.users().iter().any(|(_, at)| *at == Some(instance)) {
        let InstanceId { gpu, compute } = instance;
        return Err(Refusal::new(IN_USE, format!("compute instance {compute} of GPU instance {gpu} is in use")));
    }
    let gpu = find(account, instance.gpu)?;
    let before = gpu.compute.len();
    gpu.compute.retain(|compute| compute.id != instance.compute);
    if gpu.compute.len() == before {
        return Err(Refusal::new(NOT_FOUND, format!("there is no compute instance {}", instance.compute)));
    }
    Ok(())
}

/// Whether what a file says of instances could have come about: profiles that the model has, at places that they may have,
/// none over another, named as they are named.
pub fn is_possible(model: &Model, card: &str, mig: bool, instances: &[GpuInstance]) -> bool {
    let Some(table) = model.mig else { return !mig && instances.is_empty() };
    let mut there = Vec::new();
    (mig || instances.is_empty())
        && instances.iter().all(|gpu| {
            let Some(profile) = table.by_index(gpu.profile) else { return false };
            let fits = possible(table, &there, profile).contains(&gpu.placement);
            there.push((gpu.profile, gpu.placement));
            let named = gpu.id == gpu_instance_id(table.memory_slices, gpu.placement);
            fits && named && gpu.memory == profile.mebibytes << 20 && compute_is_possible(card, profile, gpu)
        })
}

fn compute_is_possible(card: &str, of: &GpuProfile, gpu: &GpuInstance) -> bool {
    let clash = |a: &ComputeInstance, b: &ComputeInstance| a.id == b.id || a.placement.overlaps(b.placement);
    gpu.compute.iter().enumerate().all(|(place, one)| {
        let within = one.placement.start.saturating_add(one.placement.size) <= of.compute_slices;
        let named = one.uuid == mig_uuid(card, InstanceId { gpu: gpu.id, compute: one.id });
        within
            && named
            && one.id < MOST_COMPUTE_INSTANCES
            && !gpu.compute[..place].iter().any(|other| clash(other, one))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;
    use crate::spec;
    use baton_sim_wire::RangeWanted;

    fn machine(cards: &str) -> Hardware {
        Hardware::with(spec::Hardware::from_spec(cards, "a", "580.95.05").expect("valid").cards)
    }

    fn code(result: Result<Option<u32>, Refusal>) -> i32 {
        result.expect_err("refused").code
    }

    #[test]
    fn a_card_is_cut_used_and_made_whole_again() {
        let mut machine = machine("h100");
        let whole = machine.accounts[0].card.uuid.clone();
        let change = |machine: &mut Hardware, change| apply(&mut machine.accounts[0], change);
        let (quarter, half) = (1, 2);
        assert_eq!(code(change(&mut machine, Change::CreateGpuInstance { profile: half, start: None })), NOT_SUPPORTED);
        change(&mut machine, Change::Mig(true)).expect("idle");
        assert!(machine.claim(1, std::slice::from_ref(&whole), &[]).is_err(), "a cut card is not used as a whole");
        let made = change(&mut machine, Change::CreateGpuInstance { profile: half, start: None });
        assert_eq!(made, Ok(Some(2)));
        let new = Change::CreateComputeInstance { gpu: 2, profile: 0, start: None };
        assert_eq!((change(&mut machine, new), change(&mut machine, new)), (Ok(Some(0)), Ok(Some(1))));
        let device = machine.accounts[0].instances[0].compute[1].uuid.clone();
        machine.claim(1, std::slice::from_ref(&device), &[]).expect("room");
        let InstanceId { gpu, compute } = machine.accounts[0].instance(&device).expect("there");
        assert_eq!((gpu, compute), (2, 1));
        let destroy = Change::DestroyComputeInstance { instance: InstanceId { gpu, compute } };
        assert_eq!(code(change(&mut machine, destroy)), IN_USE);
        assert_eq!(code(change(&mut machine, Change::DestroyGpuInstance { gpu: 2 })), IN_USE);
        assert_eq!(code(change(&mut machine, Change::Mig(false))), IN_USE);
        assert_eq!(code(change(&mut machine, Change::Reset)), IN_USE);
        let taken = Change::CreateGpuInstance { profile: quarter, start: Some(4) };
        assert_eq!(code(change(&mut machine, taken)), INSUFFICIENT_RESOURCES);
        let astray = Change::CreateGpuInstance { profile: quarter, start: Some(1) };
        assert_eq!(code(change(&mut machine, astray)), INVALID_ARGUMENT);
        machine.release(1);
        change(&mut machine, Change::Reset).expect("idle");
        assert!(!machine.accounts[0].settings.mig, "pending was off");
        machine.claim(1, &[whole], &[]).expect("whole again");
    }

    #[test]
    fn the_instances_of_one_gpu_instance_share_its_memory() {
        let mut machine = machine("a100-40");
        for change in [
            Change::Mig(true),
            Change::CreateGpuInstance { profile: 2, start: Some(0) },
            Change::CreateComputeInstance { gpu: 1, profile: 0, start: None },
            Change::CreateComputeInstance { gpu: 1, profile: 0, start: Some(2) },
        ] {
            apply(&mut machine.accounts[0], change).expect("possible");
        }
        let devices: Vec<String> =
            machine.accounts[0].instances[0].compute.iter().map(|compute| compute.uuid.clone()).collect();
        let want = |device: &String, mebibytes: u64| RangeWanted { device: device.clone(), bytes: mebibytes << 20 };
        machine.claim(1, &[], &[want(&devices[0], 12000)]).expect("room");
        assert!(machine.claim(2, &[], &[want(&devices[1], 12000)]).is_err());
        machine.claim(2, &[], &[want(&devices[1], 7968)]).expect("19968 MiB in all");
        assert_eq!(machine.accounts[0].instances_now()[0].used, 19968 << 20);
    }

    #[test]
    fn a_card_without_mig_refuses_it() {
        let mut machine = machine("vgpu-a100-10");
        assert_eq!(code(apply(&mut machine.accounts[0], Change::Mig(true))), NOT_SUPPORTED);
    }

    #[test]
    fn instances_that_cannot_be_are_told_from_those_that_can() {
        let mut machine = machine("a30");
        for change in [Change::Mig(true), Change::CreateGpuInstance { profile: 1, start: Some(2) }] {
            apply(&mut machine.accounts[0], change).expect("possible");
        }
        apply(&mut machine.accounts[0], Change::CreateComputeInstance { gpu: 2, profile: 1, start: None })
            .expect("all");
        let account = &machine.accounts[0];
        let (model, card) = (account.model().expect("known"), account.card.uuid.as_str());
        let check = |mig, instances: &[GpuInstance]| is_possible(model, card, mig, instances);
        let good = account.instances[0].clone();
        assert!(check(true, std::slice::from_ref(&good)));
        assert!(!check(false, std::slice::from_ref(&good)));
        assert!(!check(true, &[good.clone(), good.clone()]));
        assert!(!check(true, &[GpuInstance { id: 1, ..good.clone() }]));
        assert!(!check(true, &[GpuInstance { memory: 1, ..good.clone() }]));
        let mut stranger = good;
        stranger.compute[0].uuid = "MIG-1".to_owned();
        assert!(!check(true, &[stranger]));
    }
}
