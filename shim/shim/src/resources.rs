//! Stats and Update: what a container uses and what it may use, from and to its cgroup.

use baton_fault::{Code, Fault, Result};
use containerd_shim::cgroup;
use containerd_shim::util::convert_to_any;
use containerd_shim_protos::protobuf::well_known_types::any::Any;

/// What the container of process `pid` uses.
///
/// # Errors
/// `STATE` when it has no process any more.
pub fn stats(pid: u32) -> Result<Any> {
    let refused = |err: &dyn std::fmt::Display| {
        Fault::new(Code::State, format!("read the cgroup of process {pid}"), err).advise("the container may have ended")
    };
    let cgroup = cgroup::get_cgroup(pid).map_err(|err| refused(&err))?;
    let any = if cgroup.v2() {
        convert_to_any(Box::new(cgroup::collect_metrics_v2(&cgroup).map_err(|err| refused(&err))?))
    } else {
        convert_to_any(Box::new(cgroup::collect_metrics(&cgroup).map_err(|err| refused(&err))?))
    };
    any.map_err(|err| refused(&err))
}

/// Sets new limits, given as the JSON of OCI's Linux resources.
///
/// # Errors
/// `USAGE` when they do not parse, `SYSTEM` when the kernel refuses.
pub fn update(pid: u32, resources: &[u8]) -> Result<()> {
    let resources = serde_json::from_slice(resources).map_err(|err| {
        Fault::new(Code::Usage, "read the new resources", err).advise("give OCI's LinuxResources as JSON")
    })?;
    let refused =
        |err: &dyn std::fmt::Display| Fault::new(Code::System, format!("update the cgroup of process {pid}"), err);
    let cgroup = cgroup::get_cgroup(pid).map_err(|err| refused(&err))?;
    cgroup::update_resources(&cgroup, &resources).map_err(|err| refused(&err))
}
