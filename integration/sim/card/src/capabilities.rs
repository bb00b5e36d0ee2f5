//! The files and nodes that guard MIG instances: there while the instance is.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use baton_sim_model::{CAPABILITY_MAJOR, Capability};
use baton_sim_wire::InstanceId;

use crate::account::Account;
use crate::install::node;

/// Makes `proc/driver/nvidia/capabilities` and `dev/nvidia-caps` of a driver root show these cards' instances and no
/// others. Only what differs is touched, so that a mount of a node stays what it is.
///
/// # Errors
/// Those of the file system.
pub fn show(root: &Path, accounts: &[Account]) -> io::Result<()> {
    let wanted = wanted(accounts);
    let nodes = root.join("dev/nvidia-caps");
    fs::create_dir_all(&nodes)?;
    let name = |capability: &Capability| format!("nvidia-cap{}", capability.minor());
    let names: BTreeSet<String> = wanted.iter().map(name).collect();
    for entry in fs::read_dir(&nodes)?.flatten() {
        if entry.file_name().to_str().is_none_or(|name| !names.contains(name)) {
            fs::remove_file(entry.path())?;
        }
    }
    let files = root.join("proc/driver/nvidia/capabilities");
    fs::create_dir_all(&files)?;
    for folder in gone(&files, &wanted, accounts)? {
        fs::remove_dir_all(folder)?;
    }
    for capability in wanted {
        let path = nodes.join(name(&capability));
        if !path.exists() {
            let mode = if capability == Capability::Config { 0o400 } else { 0o444 };
            node(&path, CAPABILITY_MAJOR, capability.minor(), mode)?;
        }
        let file = files.join(capability.file());
        // A process that was killed while it wrote has left less.
        if let Some(folder) = file.parent()
            && !fs::read_to_string(&file).is_ok_and(|text| text == capability.text())
        {
            fs::create_dir_all(folder)?;
            fs::write(&file, capability.text())?;
        }
    }
    Ok(())
}

fn wanted(accounts: &[Account]) -> Vec<Capability> {
    let mut all = vec![Capability::Config, Capability::Monitor];
    for account in accounts {
        for gpu in &account.instances {
            all.push(Capability::GpuInstance(account.card.minor, gpu.id));
            let id = |compute| InstanceId { gpu: gpu.id, compute };
            let compute = gpu.compute.iter();
            all.extend(compute.map(|one| Capability::ComputeInstance(account.card.minor, id(one.id))));
        }
    }
    all
}

/// The folders of instances that are no more.
fn gone(files: &Path, wanted: &[Capability], accounts: &[Account]) -> io::Result<Vec<PathBuf>> {
    let kept: BTreeSet<PathBuf> =
        wanted.iter().filter_map(|capability| files.join(capability.file()).parent().map(Path::to_owned)).collect();
    let folders = |of: &Path| -> io::Result<Vec<PathBuf>> {
        if !of.exists() {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(of)?.flatten().filter(|entry| entry.path().is_dir());
        Ok(entries.map(|entry| entry.path()).collect())
    };
    let mut gone = Vec::new();
    for account in accounts {
        for gpu in folders(&files.join(format!("gpu{}/mig", account.card.minor)))? {
            if kept.contains(&gpu) {
                gone.extend(folders(&gpu)?.into_iter().filter(|compute| !kept.contains(compute)));
            } else {
                gone.push(gpu);
            }
        }
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::administer::apply;
    use crate::spec;
    use baton_sim_wire::Change;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn nodes_and_files_come_and_go_with_their_instance() {
        let root = tempfile::tempdir().expect("folder");
        let cards = spec::Hardware::from_spec("h100x2", "a", "580.95.05").expect("valid").cards;
        let mut accounts: Vec<Account> = cards.into_iter().map(Account::of).collect();
        let node = |minor: u32| root.path().join(format!("dev/nvidia-caps/nvidia-cap{minor}"));
        let text = |file: &str| fs::read_to_string(root.path().join("proc/driver/nvidia/capabilities").join(file));
        show(root.path(), &accounts).expect("shown");
        assert_eq!(
            text("mig/config").expect("there"),
            "DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n"
        );
        for change in [
            Change::Mig(true),
            Change::CreateGpuInstance { profile: 2, start: Some(4) },
            Change::CreateComputeInstance { gpu: 2, profile: 0, start: None },
            Change::CreateComputeInstance { gpu: 2, profile: 0, start: None },
        ] {
            apply(&mut accounts[1], change).expect("possible");
        }
        show(root.path(), &accounts).expect("shown");
        let number = fs::metadata(node(157)).expect("there").rdev();
        assert_eq!(number, libc::makedev(CAPABILITY_MAJOR, 157));
        assert!(text("gpu1/mig/gi2/access").expect("there").starts_with("DeviceFileMinor: 156\n"));
        fs::write(root.path().join("proc/driver/nvidia/capabilities/gpu1/mig/gi2/access"), "Dev").expect("written");
        show(root.path(), &accounts).expect("shown");
        assert!(text("gpu1/mig/gi2/access").expect("there").starts_with("DeviceFileMinor: 156\n"), "written anew");
        let change = Change::DestroyComputeInstance { instance: InstanceId { gpu: 2, compute: 0 } };
        apply(&mut accounts[1], change).expect("idle");
        show(root.path(), &accounts).expect("shown");
        assert!(!node(157).exists() && node(158).exists() && node(156).exists());
        assert!(text("gpu1/mig/gi2/ci0/access").is_err() && text("gpu1/mig/gi2/ci1/access").is_ok());
        apply(&mut accounts[1], Change::Reset).expect("idle");
        show(root.path(), &accounts).expect("shown");
        assert!(!node(156).exists() && text("gpu1/mig/gi2/access").is_err());
        assert!(node(1).exists() && node(2).exists());
    }
}
