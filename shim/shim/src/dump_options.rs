//! The options of a checkpoint, runc's `CheckpointOptions`: each is honoured or refused by name.

use std::path::PathBuf;

use baton_checkpoint::engine::Dump;
use baton_fault::{Code, Fault, Result};
use containerd_shim_protos::protobuf::Message;
use containerd_shim_protos::protobuf::well_known_types::any::Any;
use containerd_shim_protos::shim::oci::CheckpointOptions;

/// Number of the field for the images of an earlier checkpoint, which newer clients know.
const PARENT_PATH: u32 = 10;
/// The one namespace that CRIU restores empty.
const EMPTY: &str = "network";
/// How CRIU can save cgroups.
const CGROUP_MODES: [&str; 4] = ["soft", "full", "strict", "ignore"];

/// What a checkpoint's options ask for.
#[derive(Debug, PartialEq, Eq)]
pub struct DumpOptions {
    /// How the dump is made; its folders are not named here.
    pub dump: Dump,
    /// Folder for the images, where the request names none.
    pub images: Option<PathBuf>,
    /// Folder for CRIU's log and statistics.
    pub work: Option<PathBuf>,
}

impl DumpOptions {
    /// Reads the options of a Checkpoint request; nothing, and an empty message, ask for nothing in particular.
    ///
    /// # Errors
    /// `USAGE`, naming what cannot be honoured.
    pub fn read(any: Option<&Any>) -> Result<DumpOptions> {
        let bytes = any.map_or(&[][..], |any| &any.value);
        let options = CheckpointOptions::parse_from_bytes(bytes).map_err(refused)?;
        if options.special_fields.unknown_fields().get(PARENT_PATH).is_some() {
            return Err(refused("parent_path is not supported: each checkpoint is whole"));
        }
        if let Some(other) = options.empty_namespaces.iter().find(|name| *name != EMPTY) {
            return Err(refused(format!("empty_namespaces: {other:?} cannot be restored empty")));
        }
        let cgroups_mode = Some(options.cgroups_mode).filter(|mode| !mode.is_empty());
        if let Some(mode) = cgroups_mode.as_deref().filter(|mode| !CGROUP_MODES.contains(mode)) {
            return Err(refused(format!("cgroups_mode: {mode:?} is none of {}", CGROUP_MODES.join(", "))));
        }
        let path = |text: String| (!text.is_empty()).then(|| PathBuf::from(text));
        Ok(DumpOptions {
            dump: Dump {
                leave_running: !options.exit,
                open_tcp: options.open_tcp,
                external_unix_sockets: options.external_unix_sockets,
                terminal: options.terminal,
                empty_namespaces: options.empty_namespaces,
                cgroups_mode,
                ..Dump::default()
            },
            images: path(options.image_path),
            work: path(options.work_path),
        })
    }
}

fn refused(why: impl std::fmt::Display) -> Fault {
    Fault::new(Code::Usage, "read the checkpoint options", why).advise("leave it out")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(options: &CheckpointOptions) -> Any {
        let value = options.write_to_bytes().expect("bytes");
        Any { type_url: "containerd.runc.v1.CheckpointOptions".into(), value, ..Any::default() }
    }

    #[test]
    fn every_option_is_read() {
        let options = CheckpointOptions {
            exit: true,
            open_tcp: true,
            external_unix_sockets: true,
            terminal: true,
            file_locks: true,
            empty_namespaces: vec!["network".into()],
            cgroups_mode: "soft".into(),
            image_path: "/images".into(),
            work_path: "/work".into(),
            ..CheckpointOptions::default()
        };
        let wanted = DumpOptions {
            dump: Dump {
                leave_running: false,
                open_tcp: true,
                external_unix_sockets: true,
                terminal: true,
                empty_namespaces: vec!["network".into()],
                cgroups_mode: Some("soft".into()),
                ..Dump::default()
            },
            images: Some("/images".into()),
            work: Some("/work".into()),
        };
        assert_eq!(DumpOptions::read(Some(&any(&options))).expect("options"), wanted);
    }

    #[test]
    fn without_options_the_container_runs_on() {
        let wanted = DumpOptions { dump: Dump { leave_running: true, ..Dump::default() }, images: None, work: None };
        assert_eq!(DumpOptions::read(None).expect("none"), wanted);
        assert_eq!(DumpOptions::read(Some(&Any::new())).expect("empty"), wanted);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        let mut parent = any(&CheckpointOptions::default());
        parent.value.extend(b"\x52\x02/p");
        let mode = any(&CheckpointOptions { cgroups_mode: "some".into(), ..CheckpointOptions::default() });
        let empty = any(&CheckpointOptions { empty_namespaces: vec!["pid".into()], ..CheckpointOptions::default() });
        for (options, name) in [(parent, "parent_path"), (mode, "cgroups_mode"), (empty, "empty_namespaces")] {
            let fault = DumpOptions::read(Some(&options)).expect_err(name);
            assert!(fault.code == Code::Usage && fault.to_string().contains(name), "{fault}");
        }
    }
}
