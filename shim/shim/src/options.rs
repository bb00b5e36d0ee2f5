//! Runtime options of a task: nil, runc's `Options`, the generic `runtimeoptions.v1.Options`, or an empty Any.

use std::path::PathBuf;

use baton_fault::{Code, Fault, Result};
use containerd_shim_protos::protobuf::Message;
use containerd_shim_protos::protobuf::well_known_types::any::Any;
use containerd_shim_protos::shim::oci;

/// What the shim uses of the options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The engine to run instead of `baton`.
    pub binary_name: Option<PathBuf>,
    /// The engine's root folder.
    pub root: Option<PathBuf>,
    /// Whether cgroups are made by systemd.
    pub systemd_cgroup: bool,
}

impl Options {
    /// Reads the options of a Create request.
    ///
    /// # Errors
    /// `BUNDLE` for a type that is not known, or bytes that are not of their type.
    pub fn from_any(any: Option<&Any>) -> Result<Options> {
        let Some(any) = any.filter(|any| !any.type_url.is_empty() && !any.value.is_empty()) else {
            return Ok(Options::default());
        };
        match any.type_url.rsplit('/').next() {
            Some("containerd.runc.v1.Options") => {
                let options = oci::Options::parse_from_bytes(&any.value).map_err(|err| {
                    Fault::new(Code::Bundle, "read the runtime options", err)
                        .advise("correct the options table of the runtime in containerd's config")
                })?;
                let path = |text: String| (!text.is_empty()).then(|| PathBuf::from(text));
                Ok(Options {
                    binary_name: path(options.binary_name),
                    root: path(options.root),
                    systemd_cgroup: options.systemd_cgroup,
                })
            }
            // Generic options carry a settings path or body; Baton's settings are in its own file.
            Some("runtimeoptions.v1.Options") => Ok(Options::default()),
            _ => {
                Err(Fault::new(Code::Bundle, "read the runtime options", format!("type {} is not known", any.type_url))
                    .advise("give runc's options, or none"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_options_and_an_empty_any_are_the_defaults() {
        assert_eq!(Options::from_any(None).expect("none"), Options::default());
        assert_eq!(Options::from_any(Some(&Any::new())).expect("empty"), Options::default());
    }

    #[test]
    fn runc_options_are_read_and_others_refused() {
        let mut runc = oci::Options::new();
        runc.binary_name = "/usr/bin/crun".into();
        runc.systemd_cgroup = true;
        let any = Any {
            type_url: "types.containerd.io/containerd.runc.v1.Options".into(),
            value: runc.write_to_bytes().expect("bytes"),
            ..Any::default()
        };
        let options = Options::from_any(Some(&any)).expect("runc options");
        assert_eq!(options.binary_name.as_deref(), Some("/usr/bin/crun".as_ref()));
        assert!(options.systemd_cgroup);
        let other = Any { type_url: "x.Y".into(), value: vec![1], ..Any::default() };
        assert_eq!(Options::from_any(Some(&other)).expect_err("unknown").code, Code::Bundle);
    }
}
