//! What of the spec a failure is about. libcontainer tells what the kernel answered, and seldom to what: here the spec,
//! and how far it was followed, say the rest.

use std::path::Path;

use baton_rooted::Rooted;
use libcontainer::process::init::error::InitProcessError;
use libcontainer::rootfs::RootfsError;
use oci_spec::runtime::{Hook, Mount, Spec};

use crate::container::chain;
use crate::mount_table;

/// A failure of the first process, told where it failed: its mounts, and files of /proc, are looked at.
pub(crate) fn told(err: &InitProcessError, spec: &Spec) -> String {
    match err {
        InitProcessError::RootFS(RootfsError::UnknownRootfsPropagation(word)) => {
            format!("rootfsPropagation {word:?} is none of shared, slave, private, unbindable")
        }
        InitProcessError::RootFS(cause @ RootfsError::Mount(_)) => {
            first_unmade(spec).map_or_else(|| chain(err), |(mount, root)| mount_failure(mount, &root, &chain(cause)))
        }
        InitProcessError::Sysctl(cause) => format!("set sysctl {}: {cause}", unset(spec)),
        InitProcessError::SetHostname(cause) => {
            format!("set the hostname {}: {}", spec.hostname().as_deref().unwrap_or_default(), chain(cause))
        }
        InitProcessError::SetDomainname(cause) => {
            format!("set the domain name {}: {}", spec.domainname().as_deref().unwrap_or_default(), chain(cause))
        }
        InitProcessError::AppArmor(cause) => {
            let profile = spec.process().as_ref().and_then(|process| process.apparmor_profile().as_deref());
            format!("apply the AppArmor profile {}: {}", profile.unwrap_or_default(), chain(cause))
        }
        InitProcessError::Namespaces(cause) => format!("{}: {}", joined(spec), chain(cause)),
        InitProcessError::Hooks(cause) => {
            let hooks = spec.hooks().as_ref().and_then(|hooks| hooks.create_container().as_deref());
            format!("run a createContainer hook ({}): {}", paths(hooks.unwrap_or_default()), chain(cause))
        }
        other => chain(other),
    }
}

/// The first bind mount whose source is not there, for failures that are told by somebody who cannot look further.
pub(crate) fn missing_source(spec: &Spec) -> Option<String> {
    spec.mounts().iter().flatten().find_map(|mount| missing(mount).map(|why| format!("{}: {why}", attempt(mount))))
}

/// The first mount that the spec asks for and that is not there. Mounts are made in the spec's order.
fn first_unmade(spec: &Spec) -> Option<(&Mount, Rooted)> {
    let root = Rooted::open(spec.root().as_ref()?.path()).ok()?;
    let table = mount_table::ours().ok()?;
    let made = |mount: &Mount| {
        let point = root.real_path(mount.destination());
        point.is_ok_and(|point| table.iter().any(|mounted| mounted.point == point))
    };
    let mount = spec.mounts().iter().flatten().find(|mount| !made(mount))?;
    Some((mount, root))
}

/// What was tried: `mount /data (bind) on /srv`.
fn attempt(mount: &Mount) -> String {
    let source = mount.source().as_deref().unwrap_or(Path::new("nothing"));
    let kind = mount.typ().as_deref().filter(|kind| Path::new(kind) != source);
    let kind = kind.map_or(String::new(), |kind| format!(" ({kind})"));
    format!("mount {}{kind} on {}", source.display(), mount.destination().display())
}

fn mount_failure(mount: &Mount, root: &Rooted, cause: &str) -> String {
    let tried = attempt(mount);
    if let Some(why) = missing(mount).or_else(|| unlike(mount, root)) {
        return format!("{tried}: {why}");
    }
    let options = mount.options().as_deref().unwrap_or_default().join(",");
    let options = if options.is_empty() { options } else { format!(", with {options}") };
    format!("{tried}{options}: {cause}")
}

fn is_bind(mount: &Mount) -> bool {
    let mut options = mount.options().iter().flatten();
    mount.typ().as_deref() == Some("bind") || options.any(|option| option == "bind" || option == "rbind")
}

fn missing(mount: &Mount) -> Option<String> {
    let source = mount.source().as_deref().filter(|source| is_bind(mount) && source.is_absolute())?;
    let err = source.metadata().err()?;
    Some(format!("{}: {err}", source.display()))
}

/// Why a folder and a file cannot be mounted on each other.
fn unlike(mount: &Mount, root: &Rooted) -> Option<String> {
    let destination = mount.destination().display();
    let is_folder = root.real_path(mount.destination()).ok()?.is_dir();
    match (is_bind(mount), mount.source().as_deref().is_some_and(Path::is_dir), is_folder) {
        (true, true, false) => Some(format!("{destination} is a file in the root filesystem, and the source a folder")),
        (true, false, true) => {
            Some(format!("{destination} is a folder in the root filesystem, and the source is none"))
        }
        (false, _, false) => Some(format!("{destination} is a file in the root filesystem, and has to be a folder")),
        _ => None,
    }
}

/// The sysctls that do not have their value: one of them was refused.
fn unset(spec: &Spec) -> String {
    let wanted = spec.linux().as_ref().and_then(|linux| linux.sysctl().as_ref());
    let mut unset: Vec<String> = wanted
        .into_iter()
        .flatten()
        .filter(|(name, value)| {
            let now = std::fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/")));
            now.is_ok_and(|now| now.trim() != value.as_str())
        })
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    unset.sort();
    unset.join(" or ")
}

/// The namespaces that were to be joined, only the first without a file where there is one.
fn joined(spec: &Spec) -> String {
    let namespaces = spec.linux().as_ref().and_then(|linux| linux.namespaces().as_deref()).unwrap_or_default();
    let paths = || namespaces.iter().filter_map(|one| Some((one.typ(), one.path().as_deref()?)));
    let absent: Vec<_> = paths().filter(|(_, path)| !path.exists()).take(1).collect();
    let named = if absent.is_empty() { paths().collect() } else { absent };
    if named.is_empty() {
        return "make the namespaces".to_owned();
    }
    let named: Vec<String> = named.iter().map(|(kind, path)| format!("{kind} namespace {}", path.display())).collect();
    format!("join the {}", named.join(" or the "))
}

/// The programs of hooks.
pub(crate) fn paths(hooks: &[Hook]) -> String {
    let paths: Vec<String> = hooks.iter().map(|hook| hook.path().display().to_string()).collect();
    paths.join(", ")
}
