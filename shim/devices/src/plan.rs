//! What goes into a container, decided as a whole before anything is touched.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use baton_config::{Driver, names::ENV_VISIBLE_DEVICES};
use baton_fault::{Attempt, Code, Fault, Result};
use baton_hook::Work;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fstat};
use serde::{Deserialize, Serialize};

use crate::libraries::{self, CUDA};
use crate::nodes;
use crate::root::DriverRoot;
use crate::{Card, DeviceNode, Inventory, Request};

/// Where hosts have the program that makes library caches. Ubuntu's plain one is a script around the first.
const LDCONFIG: [&str; 2] = ["/sbin/ldconfig.real", "/sbin/ldconfig"];

/// One rule of the device cgroup: this one character device may be read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRule {
    /// Device major.
    pub major: u32,
    /// Device minor.
    pub minor: u32,
}

/// A file of the driver, bound read-only into the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Real path on the host.
    pub source: PathBuf,
    /// Absolute path in the container.
    pub destination: PathBuf,
}

/// A `createContainer` hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Absolute path of the program on the host.
    pub path: PathBuf,
    /// Its arguments, with the program's name first.
    pub args: Vec<String>,
}

/// What goes into a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The driver's version, which is part of the libraries' names.
    pub driver_version: String,
    /// The cards, in the order asked for.
    pub cards: Vec<Card>,
    /// Device nodes: the cards' and the control nodes.
    pub nodes: Vec<DeviceNode>,
    /// One rule for each node.
    pub rules: Vec<DeviceRule>,
    /// Libraries and firmware.
    pub mounts: Vec<Mount>,
    /// Environment, as `NAME=value`.
    pub env: Vec<String>,
    /// What must happen inside before the container starts.
    pub hooks: Vec<Hook>,
}

/// A plan that passed its checks, and may be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedPlan(Plan);

impl Plan {
    /// Finds what `request` needs. `hook` is the absolute path of `baton-hook` on this host.
    ///
    /// # Errors
    /// `DEVICE_UNKNOWN` for a card that is not here, `NODE_TYPE` for a device node, `DRIVER_MISSING` for a library.
    pub fn resolve(request: &Request, inventory: &Inventory, driver: &Driver, hook: &Path) -> Result<Plan> {
        Plan::for_cards(&choose(request, inventory)?, &inventory.driver_version, driver, hook)
    }

    /// The plan for cards that are chosen already, as [`crate::pick`] does for a restore.
    ///
    /// # Errors
    /// As [`Plan::resolve`].
    pub fn for_cards(cards: &[Card], driver_version: &str, driver: &Driver, hook: &Path) -> Result<Plan> {
        let root = DriverRoot::open(driver)?;
        let nodes = nodes::find(&root, cards.iter().map(|card| card.minor))?;
        let found = libraries::find(&root, driver_version)?;
        let work = Work {
            links: found.links,
            ldconfig: LDCONFIG.iter().map(PathBuf::from).find(|path| path.is_file()),
            library_dirs: found.dirs,
            mask_params: true,
        };
        let args = std::iter::once("baton-hook".to_owned()).chain(work.to_args()).collect();
        Ok(Plan {
            driver_version: driver_version.to_owned(),
            cards: cards.to_vec(),
            rules: nodes.iter().map(|node| DeviceRule { major: node.major, minor: node.minor }).collect(),
            nodes,
            mounts: found.mounts,
            // A value that no later injector acts on, and that stays true on another node (`devices.md` §0).
            env: vec![format!("{ENV_VISIBLE_DEVICES}=void")],
            hooks: vec![Hook { path: hook.to_owned(), args }],
        })
    }

    /// Looks at everything the plan names.
    ///
    /// # Errors
    /// `NODE_TYPE` for a device node, `DRIVER_MISSING` for a library or the hook; nothing was touched.
    pub fn check(self) -> Result<CheckedPlan> {
        for node in &self.nodes {
            node.check()?;
        }
        for mount in &self.mounts {
            present(&mount.source)?;
        }
        for hook in &self.hooks {
            if !hook.path.is_absolute() || !hook.path.is_file() {
                let what = format!("use the hook {}", hook.path.display());
                return Err(Fault::new(Code::DriverMissing, what, "no such program at an absolute path")
                    .advise("install baton-hook beside the other programs of Baton"));
            }
        }
        let cuda = format!("{CUDA}.{}", self.driver_version);
        if !self.mounts.iter().any(|mount| mount.destination.ends_with(&cuda)) {
            return Err(Fault::new(Code::DriverMissing, "check the plan", format!("it has no {cuda}")));
        }
        Ok(CheckedPlan(self))
    }
}

impl CheckedPlan {
    /// What was checked.
    pub fn plan(&self) -> &Plan {
        &self.0
    }
}

/// The cards that are asked for, none twice.
fn choose(request: &Request, inventory: &Inventory) -> Result<Vec<Card>> {
    let mut cards: Vec<Card> = Vec::new();
    match request {
        Request::None => {}
        Request::All => cards.extend(inventory.cards.iter().cloned()),
        Request::Cards(names) => {
            for name in names {
                let card = inventory.card(*name)?;
                if !cards.iter().any(|other| other.uuid == card.uuid) {
                    cards.push(card.clone());
                }
            }
        }
    }
    if *request == Request::All && cards.is_empty() {
        return Err(Fault::new(Code::DeviceUnknown, "find all GPUs", "this node has none")
            .advise("`baton devices` lists what the driver knows"));
    }
    if let Some(card) = cards.iter().find(|card| card.mig_enabled) {
        return Err(Fault::new(
            Code::DeviceUnknown,
            format!("use GPU {} ({})", card.index, card.uuid),
            "it is cut into MIG instances, which are not yet supported",
        )
        .advise("ask for other cards, or turn MIG mode off"));
    }
    Ok(cards)
}

/// Whether something that is no link lies at the real path `source`.
fn present(source: &Path) -> Result<()> {
    let looking = || format!("use {} of the driver", source.display());
    let fd = nix::fcntl::open(source, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(std::io::Error::from)
        .map_err(|err| Fault::new(Code::DriverMissing, looking(), err).advise("reinstall the driver"))?;
    // SAFETY: open(2) returned this descriptor to us alone.
    let fd = unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) };
    let stat = fstat(fd.as_raw_fd()).map_err(std::io::Error::from).attempt(looking)?;
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFLNK | libc::S_IFDIR => {
            Err(Fault::new(Code::DriverMissing, looking(), "it became a link or a directory")
                .advise("reinstall the driver"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeDriver, UVM_MAJOR, VERSION, inventory};
    use crate::{CardRef, GpuUuid};

    fn resolve(fake: &FakeDriver, request: &Request) -> Result<Plan> {
        Plan::resolve(request, &inventory(), &fake.driver(), Path::new("/bin/true"))
    }

    #[test]
    fn a_card_brings_its_node_its_rules_and_the_driver() {
        let fake = FakeDriver::new();
        let uuid = inventory().cards[1].uuid;
        let request = Request::Cards(vec![CardRef::Index(1), CardRef::Uuid(uuid)]);
        let plan = resolve(&fake, &request).expect("plan").check().expect("checked").plan().clone();
        assert_eq!(plan.cards.iter().map(|card| card.uuid).collect::<Vec<_>>(), [uuid]);
        let rules: Vec<_> = plan.rules.iter().map(|rule| (rule.major, rule.minor)).collect();
        assert_eq!(rules, [(195, 3), (195, 255), (UVM_MAJOR, 0), (UVM_MAJOR, 1)]);
        assert_eq!(plan.mounts.len(), 4);
        assert_eq!(plan.driver_version, VERSION);
        assert_eq!(plan.hooks[0].args[..2], ["baton-hook", "create-container"]);
        let args = plan.hooks[0].args.iter().skip(1).map(std::ffi::OsString::from);
        assert_eq!(Work::parse(args).expect("the hook understands it").links.len(), 3);
    }

    #[test]
    fn none_brings_the_driver_and_no_card() {
        let fake = FakeDriver::new();
        let plan = resolve(&fake, &Request::None).expect("plan");
        assert!(plan.cards.is_empty());
        assert!(!plan.nodes.iter().any(|node| node.path.ends_with("nvidia0") || node.path.ends_with("nvidia3")));
        assert!(!plan.mounts.is_empty());
        assert_eq!(resolve(&fake, &Request::All).expect("plan").cards.len(), 2);
    }

    #[test]
    fn a_card_that_is_not_here_is_refused() {
        let fake = FakeDriver::new();
        for name in [CardRef::Index(2), CardRef::Uuid(GpuUuid::from_bytes([9; 16]))] {
            let request = Request::Cards(vec![CardRef::Index(0), name]);
            assert_eq!(resolve(&fake, &request).expect_err("unknown").code, Code::DeviceUnknown);
        }
        let mut inventory = inventory();
        inventory.cards[0].mig_enabled = true;
        let fault = Plan::resolve(&Request::All, &inventory, &fake.driver(), Path::new("/bin/true")).expect_err("MIG");
        assert!(fault.to_string().contains("MIG"), "{fault}");
    }

    #[test]
    fn the_check_sees_what_changed_since() {
        let fake = FakeDriver::new();
        let plan = resolve(&fake, &Request::All).expect("plan");
        plan.clone().check().expect("as planned");
        let mut without_hook = plan.clone();
        without_hook.hooks[0].path = "baton-hook".into();
        assert_eq!(without_hook.check().expect_err("hook").code, Code::DriverMissing);
        std::fs::remove_file(fake.path().join("usr/lib64/libnvidia-glcore.so.570.124.06")).expect("remove");
        assert_eq!(plan.clone().check().expect_err("library").code, Code::DriverMissing);
        fake.node("nvidiactl", 195, 254);
        assert_eq!(plan.check().expect_err("node").code, Code::NodeType);
    }
}
