//! `-v` and `-info`: what the runtime is, and what its engine can do. containerd asks before it lets a client use what
//! an engine might ignore silently, such as mounts with mapped ids.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use baton_fault::{Code, Fault, Result};
use containerd_shim_protos::protobuf::well_known_types::any::Any;
use containerd_shim_protos::types::introspection::{RuntimeInfo, RuntimeVersion};

use crate::RUNTIME;
use crate::engine::beside_the_shim;
use crate::options::Options;

/// Name of the features among the messages of containerd; the value is the JSON that the engine prints.
const FEATURES: &str = "types.containerd.io/opencontainers/runtime-spec/1/features/Features";
/// Longest wait for the engine to say what it can do.
const PATIENCE: Duration = Duration::from_secs(10);
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints the version, in the form of runc's shim.
pub fn print_version() {
    println!("containerd-shim-baton-v2:\n  Version:  {VERSION}\n  Revision: \n");
}

/// What the runtime is, with the features of the engine that the options ask for. An engine that does not say what it
/// can do is no error.
///
/// # Errors
/// Of the options, or `FILE` when there is no such engine.
pub fn runtime_info(options: Option<&Any>) -> Result<RuntimeInfo> {
    let read = Options::from_any(options)?;
    let engine = match &read.binary_name {
        Some(name) => find(name)?,
        None => beside_the_shim("baton")?,
    };
    let features = features(&engine).map(|value| Any { type_url: FEATURES.to_string(), value, ..Any::default() });
    Ok(RuntimeInfo {
        name: RUNTIME.to_string(),
        version: Some(RuntimeVersion { version: VERSION.to_string(), ..RuntimeVersion::default() }).into(),
        options: options.cloned().into(),
        features: features.into(),
        ..RuntimeInfo::default()
    })
}

/// Where a program lies: as it is named, or on the PATH.
fn find(name: &Path) -> Result<PathBuf> {
    let named = name.components().count() > 1;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).map(|folder| folder.join(name)).filter(|_| !named);
    let mut places = std::iter::once(name.to_path_buf()).filter(|_| named).chain(places);
    places.find(|place| place.is_file()).ok_or_else(|| {
        Fault::new(Code::File, format!("find the engine {}", name.display()), "there is none")
            .advise("see whether it is installed, and where PATH or BinaryName says")
    })
}

/// The JSON that the engine prints; none when it knows no such verb.
fn features(engine: &Path) -> Option<Vec<u8>> {
    let mut command = Command::new(engine);
    command.arg("features").stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    let child = command.spawn().ok()?;
    let pid = child.id();
    let (say, ended) = mpsc::channel::<std::io::Result<Output>>();
    std::thread::spawn(move || say.send(child.wait_with_output()));
    let Ok(outcome) = ended.recv_timeout(PATIENCE) else {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).ok()?);
        // It may have ended just now.
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        return None;
    };
    let done = outcome.ok().filter(|done| done.status.success())?;
    let said: serde_json::Value = serde_json::from_slice(&done.stdout).ok()?;
    said.is_object().then_some(done.stdout)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn options(binary: &Path) -> Any {
        let mut text = Vec::from(&b"\x1a"[..]);
        let body = format!("BinaryName = '{}'", binary.display());
        text.push(u8::try_from(body.len()).expect("a short path"));
        text.extend(body.as_bytes());
        Any { type_url: "runtimeoptions.v1.Options".into(), value: text, ..Any::default() }
    }

    #[test]
    fn the_features_are_those_of_the_engine_that_the_options_name() {
        let folder = tempfile::tempdir().expect("folder");
        let engine = folder.path().join("engine");
        let asked = options(&engine);
        assert_eq!(runtime_info(Some(&asked)).expect_err("no engine").code, Code::File);
        for (script, wanted) in [
            ("[ \"$*\" = features ] && echo '{\"hooks\": [\"prestart\"]}'", Some("{\"hooks\": [\"prestart\"]}\n")),
            ("exit 1", None),
            ("echo nonsense", None),
        ] {
            std::fs::write(&engine, format!("#!/bin/sh\n{script}\n")).expect("write");
            std::fs::set_permissions(&engine, std::fs::Permissions::from_mode(0o755)).expect("mode");
            let info = runtime_info(Some(&asked)).expect("info");
            assert_eq!(info.name, RUNTIME);
            assert_eq!(info.version.version, VERSION);
            assert_eq!(info.options.as_ref(), Some(&asked));
            let said = info.features.as_ref().map(|any| String::from_utf8_lossy(&any.value).into_owned());
            assert_eq!(said.as_deref(), wanted, "{script}");
            assert!(info.features.as_ref().is_none_or(|any| any.type_url == FEATURES));
        }
    }

    #[test]
    fn a_bare_name_is_looked_for_on_the_path() {
        assert!(find(Path::new("sh")).expect("a shell").is_absolute());
        assert_eq!(find(Path::new("no-such-engine")).expect_err("none").code, Code::File);
    }
}
