//! Starting a node.

use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};

use crate::cell::{Cell, Role};
use crate::house::{self, Lock};
use crate::{archive, boot, cgroup, cri, hub, image, programs, rootfs, stop};

/// How a node is to be.
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    /// Its name, and host name.
    pub name: String,
    /// Simulated cards, such as `h100x2`; none or `none`: no card.
    pub cards: Option<String>,
    /// Another containerd (and what belongs to it), used in place of the root's own: a version that
    /// `integration/programs` built (`2.4`), or a folder.
    pub containerd: Option<PathBuf>,
    /// Size in bytes of a file system at /var/lib that can be filled; none: the machine's disk.
    pub disk: Option<u64>,
    /// Where Baton's programs are; none: beside `baton-node`.
    pub bin: Option<PathBuf>,
    /// Let the node see cgroup v2 alone, without controllers where the machine has them in v1.
    pub cgroup2: bool,
    /// Further programs to install, by names that `integration/programs` knows.
    pub programs: Vec<String>,
}

impl NodeOptions {
    /// A node of that name without cards.
    pub fn new(name: impl Into<String>) -> NodeOptions {
        NodeOptions { name: name.into(), ..NodeOptions::default() }
    }

    /// With these simulated cards.
    #[must_use]
    pub fn cards(mut self, cards: impl Into<String>) -> NodeOptions {
        self.cards = Some(cards.into());
        self
    }

    /// With that containerd, by its version or its folder.
    #[must_use]
    pub fn containerd(mut self, which: impl Into<PathBuf>) -> NodeOptions {
        self.containerd = Some(which.into());
        self
    }

    /// With a file system of that many bytes at /var/lib.
    #[must_use]
    pub fn disk(mut self, bytes: u64) -> NodeOptions {
        self.disk = Some(bytes);
        self
    }
}

/// Starts a node and waits until its containerd answers.
///
/// # Errors
/// `EXISTS` when one of that name runs; what is left of one that ended is removed first.
pub fn start(options: &NodeOptions) -> Result<()> {
    house::check_name(&options.name)?;
    let root = house::node_root()?;
    let bin = bin_dir(options)?;
    let held = Lock::take()?;
    if Cell::first(&options.name).is_some() {
        return Err(Fault::new(Code::Exists, format!("start node {}", options.name), "it runs already")
            .advise(format!("integration/node stop {}", options.name)));
    }
    stop::remove(&options.name)?;
    let image = image::archive(&bin)?;
    let cell = Cell {
        name: options.name.clone(),
        role: Role::Node,
        number: hub::join(&held)?,
        root,
        cards: options.cards.clone().filter(|cards| cards != "none"),
        containerd: options.containerd.as_deref().map(programs::containerd).transpose()?,
        clients: programs::clients(&options.programs)?,
        network_plugins: programs::network_plugins(),
        disk: options.disk,
        cgroup2: options.cgroup2,
        image,
        cgroups: cgroup::places(&options.name)?,
        bin,
    };
    cell.store()?;
    drop(held);
    let started = rootfs::prepare(&cell, &files(&cell)?)
        .and_then(|()| cgroup::make(&cell.cgroups))
        .and_then(|()| boot::launch(&cell));
    started.inspect_err(|_| {
        let _ = stop::stop(&cell.name);
    })
}

fn absolute(dir: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(dir).attempt(|| format!("find {}", dir.display()))
}

/// Where the programs are that are installed in the node.
fn bin_dir(options: &NodeOptions) -> Result<PathBuf> {
    if let Some(dir) = &options.bin {
        return absolute(dir);
    }
    let own = std::env::current_exe().attempt(|| "find the own program")?;
    Ok(own.parent().map_or_else(|| PathBuf::from("/"), PathBuf::from))
}

/// The files in which nodes differ from the shared root.
fn files(cell: &Cell) -> Result<Vec<(&'static str, String)>> {
    let hub = format!("10.213.0.1 {}\n", hub::REGISTRY);
    let mut files = cri::files(cell);
    files.extend([
        ("/etc/hostname", format!("{}\n", cell.name)),
        ("/etc/hosts", format!("127.0.0.1 localhost\n{} {}\n{hub}", cell.address(), cell.name)),
        ("/etc/machine-id", format!("{}\n", &archive::digest(cell.name.as_bytes())[..32])),
        ("/etc/ssl/certs/ca-certificates.crt", hub::trusted()?),
        ("/etc/baton/config.toml", format!("[driver]\nroot = \"{}\"\n", rootfs::DRIVER)),
    ]);
    Ok(files)
}
