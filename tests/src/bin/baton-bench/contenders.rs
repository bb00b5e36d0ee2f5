//! Who is measured: Baton, and others on the same node in the same run.

use std::fs;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Result};
use baton_nodes::Node;

/// One of those that are compared.
pub struct Contender {
    /// Its name in the table.
    pub name: &'static str,
    /// What `ctr run` is told, as words of a shell.
    pub options: &'static str,
    /// The shim's file, by whose name its processes are found.
    pub shim: &'static str,
}

/// Baton comes first: the others are its peers.
pub const BATON: Contender =
    Contender { name: "baton", options: "--runtime io.containerd.baton.v2", shim: "containerd-shim-baton-v2" };

const RUNC: &str = "containerd-shim-runc-v2";

const PEERS: &[(Contender, &str)] = &[
    (Contender { name: "runc", options: "--runtime io.containerd.runc.v2", shim: RUNC }, "/usr/sbin/runc"),
    (
        Contender { name: "crun", options: "--runtime io.containerd.runc.v2 --runc-binary /usr/bin/crun", shim: RUNC },
        "/usr/bin/crun",
    ),
    (
        Contender {
            name: "youki",
            options: "--runtime io.containerd.runc.v2 --runc-binary /usr/local/bin/youki",
            shim: RUNC,
        },
        "/usr/local/bin/youki",
    ),
];

/// Baton and each peer whose program the node has. youki is in no package: it is taken from this machine's PATH.
pub fn on(node: &Node) -> Result<Vec<Contender>> {
    let youki = node.root_path("/usr/local/bin/youki");
    match on_path("youki") {
        Some(program) => {
            fs::copy(&program, &youki).attempt(|| format!("copy {} into the node", program.display()))?;
        }
        None => println!("youki is not on PATH: it is left out"),
    }
    let mut all = vec![BATON];
    for (Contender { name, options, shim }, program) in PEERS {
        if node.run(&["test", "-x", program])?.status.success() {
            all.push(Contender { name, options, shim });
        }
    }
    Ok(all)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| Path::is_file(file))
}
