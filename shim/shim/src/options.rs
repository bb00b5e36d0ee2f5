//! Runtime options of a task: nil, runc's `Options`, the generic `runtimeoptions.v1.Options`, or an empty Any.
//! What is asked for is done or refused by name; nothing is left out silently.

mod generic;
mod table;

use std::path::PathBuf;

use baton_fault::{Code, Fault, Result};
use containerd_shim_protos::protobuf::Message;
use containerd_shim_protos::protobuf::well_known_types::any::Any;
use containerd_shim_protos::shim::oci;

/// Number of the field for a path to CRIU, which containerd 2.0 removed from runc's options.
const CRIU_PATH: u32 = 8;

/// What a task's options ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The engine to run instead of `baton`.
    pub binary_name: Option<PathBuf>,
    /// The engine's root folder; each of containerd's namespaces has a folder below it.
    pub root: Option<PathBuf>,
    /// Whether cgroups are made by systemd.
    pub systemd_cgroup: bool,
    /// Whether the root is changed without `pivot_root`.
    pub no_pivot_root: bool,
    /// Whether the container gets no session keyring of its own.
    pub no_new_keyring: bool,
    /// The cgroup that the shim joins when it starts.
    pub shim_cgroup: Option<String>,
    /// The user that owns the process's ends of its pipes.
    pub io_uid: u32,
    /// The group that owns the process's ends of its pipes.
    pub io_gid: u32,
    /// Restore from here, where the request names no other checkpoint.
    pub criu_image_path: Option<PathBuf>,
    /// CRIU's folder for its log and statistics.
    pub criu_work_path: Option<PathBuf>,
}

impl Options {
    /// Reads the options of a request.
    ///
    /// # Errors
    /// `SETTINGS` for a type, a table or a name that is not known, or bytes that are not of their type.
    pub fn from_any(any: Option<&Any>) -> Result<Options> {
        let Some(any) = any.filter(|any| !any.type_url.is_empty() && !any.value.is_empty()) else {
            return Ok(Options::default());
        };
        match any.type_url.rsplit('/').next() {
            Some(RUNC) => Options::from_runc(&any.value),
            Some(GENERIC) => generic::read(&any.value),
            _ => Err(refused(format!("type {} is not known", any.type_url))),
        }
    }

    fn from_runc(bytes: &[u8]) -> Result<Options> {
        let options = oci::Options::parse_from_bytes(bytes).map_err(refused)?;
        if options.special_fields.unknown_fields().get(CRIU_PATH).is_some() {
            return Err(no_criu_path());
        }
        let path = |text: String| (!text.is_empty()).then(|| PathBuf::from(text));
        Ok(Options {
            binary_name: path(options.binary_name),
            root: path(options.root),
            systemd_cgroup: options.systemd_cgroup,
            no_pivot_root: options.no_pivot_root,
            no_new_keyring: options.no_new_keyring,
            shim_cgroup: Some(options.shim_cgroup).filter(|cgroup| !cgroup.is_empty()),
            io_uid: options.io_uid,
            io_gid: options.io_gid,
            criu_image_path: path(options.criu_image_path),
            criu_work_path: path(options.criu_work_path),
        })
    }
}

/// The cgroup for the shim, in the form in which the shim library looks for it, where options in another form name one.
/// What is wrong with them Create will say, where a client hears it.
pub fn shim_cgroup(extensions: &[Any]) -> Option<Any> {
    let generic = extensions.iter().find(|any| any.type_url.rsplit('/').next() == Some(GENERIC))?;
    let shim_cgroup = Options::from_any(Some(generic)).ok()?.shim_cgroup?;
    let runc = oci::Options { shim_cgroup, ..oci::Options::default() };
    Some(Any { type_url: RUNC.to_string(), value: runc.write_to_bytes().ok()?, ..Any::default() })
}

/// Name of the generic options among the messages of containerd.
const GENERIC: &str = "runtimeoptions.v1.Options";
/// Name of runc's options among the messages of containerd.
const RUNC: &str = "containerd.runc.v1.Options";

fn refused(why: impl std::fmt::Display) -> Fault {
    Fault::new(Code::Settings, "read the runtime options", why)
        .advise("correct the options of the runtime in containerd's config, or of the client")
}

fn no_criu_path() -> Fault {
    refused("CriuPath is not supported: containerd 2.0 removed it").advise("put criu on containerd's PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(type_url: &str, value: Vec<u8>) -> Any {
        Any { type_url: type_url.into(), value, ..Any::default() }
    }

    #[test]
    fn no_options_and_an_empty_any_are_the_defaults() {
        assert_eq!(Options::from_any(None).expect("none"), Options::default());
        assert_eq!(Options::from_any(Some(&Any::new())).expect("empty"), Options::default());
        assert_eq!(Options::from_any(Some(&any(RUNC, Vec::new()))).expect("typed"), Options::default());
    }

    #[test]
    fn every_field_of_runcs_options_is_read() {
        let runc = oci::Options {
            no_pivot_root: true,
            no_new_keyring: true,
            shim_cgroup: "/shims".into(),
            io_uid: 7,
            io_gid: 8,
            binary_name: "/usr/bin/crun".into(),
            root: "/run/crun".into(),
            systemd_cgroup: true,
            criu_image_path: "/images".into(),
            criu_work_path: "/work".into(),
            task_api_address: "ttrpc+unix:///x".into(),
            task_api_version: 3,
            ..oci::Options::default()
        };
        let bytes = runc.write_to_bytes().expect("bytes");
        let read = Options::from_any(Some(&any("types.containerd.io/containerd.runc.v1.Options", bytes)));
        let wanted = Options {
            binary_name: Some("/usr/bin/crun".into()),
            root: Some("/run/crun".into()),
            systemd_cgroup: true,
            no_pivot_root: true,
            no_new_keyring: true,
            shim_cgroup: Some("/shims".into()),
            io_uid: 7,
            io_gid: 8,
            criu_image_path: Some("/images".into()),
            criu_work_path: Some("/work".into()),
        };
        assert_eq!(read.expect("runc options"), wanted);
    }

    #[test]
    fn generic_options_name_the_shims_cgroup_too() {
        // Field 3 with so many bytes.
        let body = [&[0x1a, 23][..], b"ShimCgroup = '/shims/x'"].concat();
        let found = shim_cgroup(&[any("x.Y", vec![1]), any(GENERIC, body)]).expect("a cgroup");
        assert_eq!(oci::Options::parse_from_bytes(&found.value).expect("options").shim_cgroup, "/shims/x");
        assert_eq!(shim_cgroup(&[any(GENERIC, b"\x1a\x08Frob = 1".to_vec())]), None);
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let fault = Options::from_any(Some(&any("x.Y", vec![1]))).expect_err("a type");
        assert!(fault.code == Code::Settings && fault.to_string().contains("x.Y"), "{fault}");
        // Field 8 as a string: "/criu".
        let bytes = [&[0x42, 5][..], b"/criu"].concat();
        let fault = Options::from_any(Some(&any(RUNC, bytes))).expect_err("a path to CRIU");
        assert!(fault.to_string().contains("CriuPath"), "{fault}");
        let fault = Options::from_any(Some(&any(RUNC, vec![0xff]))).expect_err("no message");
        assert_eq!(fault.code, Code::Settings);
    }
}
