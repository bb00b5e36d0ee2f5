//! The hub: the bridge that joins the nodes and the registry that they share. It starts before the first node
//! and stops after the last.

use std::fs;
use std::process::Command;

use baton_fault::{Attempt, Code, Fault, Result};

use crate::cell::{Cell, Role};
use crate::house::{self, HUB, Lock};
use crate::{authority, boot, cgroup, rootfs, stop};

/// The registry's name, as users type it.
pub const REGISTRY: &str = "registry.test";
/// The registry's port.
pub const PORT: u16 = 5000;
/// The hub's number: its address is the first of the network.
const NUMBER: u16 = 1;
/// Numbers end here, and nodes must be stopped before there are new ones.
const NUMBER_MAX: u16 = 0xfffe;

const REGISTRY_CONFIG: &str = "\
version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: /var/lib/registry}, delete: {enabled: true}}
http:
  addr: 0.0.0.0:5000
  tls: {certificate: /etc/registry/certificate.pem, key: /etc/registry/key.pem}
";

/// Starts the hub if it does not run, and gives out the next number.
pub fn join(_held: &Lock) -> Result<u16> {
    if Cell::first(HUB).is_none() {
        stop::remove(HUB)?;
        start().inspect_err(|_| {
            let _ = stop::remove(HUB);
        })?;
    }
    let path = Cell::run_dir(HUB).join("last-number");
    let last: u16 = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(NUMBER);
    if last >= NUMBER_MAX {
        return Err(Fault::new(Code::NoSpace, "give the node an address", "all were used")
            .advise("integration/node stop --all"));
    }
    fs::write(&path, (last + 1).to_string()).attempt(|| format!("write {}", path.display()))?;
    Ok(last + 1)
}

/// The certificate of the authority that signed the registry's.
pub fn trusted() -> Result<String> {
    let path = Cell::run_dir(HUB).join("authority.pem");
    fs::read_to_string(&path).attempt(|| format!("read {}", path.display()))
}

fn start() -> Result<()> {
    let cell = Cell {
        name: HUB.to_owned(),
        role: Role::Hub,
        number: NUMBER,
        root: house::node_root()?,
        bin: "/".into(),
        cards: None,
        containerd: None,
        clients: Vec::new(),
        network_plugins: None,
        disk: None,
        cgroup2: false,
        image: None,
        cgroups: cgroup::places(HUB)?,
    };
    cell.store()?;
    let papers = authority::papers(REGISTRY)?;
    let path = Cell::run_dir(HUB).join("authority.pem");
    fs::write(&path, &papers.authority).attempt(|| format!("write {}", path.display()))?;
    rootfs::prepare(
        &cell,
        &[
            ("/etc/registry/config.yml", REGISTRY_CONFIG.to_owned()),
            ("/etc/registry/certificate.pem", papers.certificate),
            ("/etc/registry/key.pem", papers.key),
            ("/etc/hosts", "127.0.0.1 localhost\n".to_owned()),
        ],
    )?;
    cgroup::make(&cell.cgroups)?;
    boot::launch(&cell)
}

/// The registry's command line.
pub fn registry() -> Command {
    let mut command = Command::new("docker-registry");
    command.args(["serve", "/etc/registry/config.yml"]);
    command
}
