//! NVIDIA's container toolkit on a node: `nvidia-ctk`, `nvidia-cdi-hook`, `nvidia-container-runtime`.

use baton_nodes::NodeOptions;

use crate::machine::{DRIVER_ROOT, Machine};
use crate::python;

/// What `integration/programs` calls it.
const TOOLKIT: &str = "nvidia-container-toolkit";
/// The runtime, as `ctr run` is told of it.
pub const NVIDIA_RUNTIME: [&str; 4] =
    ["--runtime", "io.containerd.runc.v2", "--runc-binary", "/usr/local/bin/nvidia-container-runtime"];
/// Where CDI's specifications lie.
const SPEC: &str = "/etc/cdi/nvidia.json";

/// A node that has the toolkit.
///
/// # Panics
/// When it cannot be built, or the node does not start.
pub fn start(name: &str, cards: &str) -> Machine {
    python::program(TOOLKIT);
    let options = NodeOptions { programs: vec![TOOLKIT.to_owned()], ..NodeOptions::new(name).cards(cards) };
    Machine::with(options)
}

impl Machine {
    /// Puts the driver where it lies on a machine whose driver was installed by its distribution: below `/`.
    ///
    /// # Panics
    /// When it cannot be put there.
    pub fn driver_at_the_top(&self) {
        let libraries = "usr/lib/x86_64-linux-gnu";
        let script = format!(
            "cp -a {DRIVER_ROOT}/usr/bin/. /usr/bin/ && cp -a {DRIVER_ROOT}/{libraries}/. /{libraries}/ \
             && cp -a {DRIVER_ROOT}/dev/. /dev/ && mkdir -p /lib/firmware/nvidia \
             && mount --bind {DRIVER_ROOT}/lib/firmware/nvidia /lib/firmware/nvidia \
             && mount --bind {DRIVER_ROOT}/proc/driver /proc/driver && ldconfig"
        );
        self.ok(&["sh", "-c", &script]);
    }

    /// Tells `nvidia-container-runtime` how to find out what a container is to get: `cdi` or `jit-cdi`.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn configure_nvidia_runtime(&self, mode: &str) {
        // That hook reads /proc/driver/nvidia/params in the container's own /proc, where a kernel with the driver has it.
        let config = format!(
            "[nvidia-container-runtime]\nmode = \"{mode}\"\nruntimes = [\"runc\"]\n\
             [nvidia-container-runtime.modes.jit-cdi]\nnvcdi-disable-hooks = [\"disable-device-node-modification\"]\n"
        );
        self.write("/etc/nvidia-container-runtime/config.toml", config);
    }

    /// Has `nvidia-ctk` write a specification of the driver's devices; the specification, and the names that it lists.
    ///
    /// # Panics
    /// When it does not.
    pub fn generate_cdi(&self, options: &[&str]) -> (serde_json::Value, Vec<String>) {
        let hook = "--disable-hook=disable-device-node-modification";
        self.ok(&[&["nvidia-ctk", "--quiet", "cdi", "generate", "--output", SPEC, hook], options].concat());
        let spec = self.ok(&["cat", SPEC]);
        let names = self.ok(&["nvidia-ctk", "cdi", "list"]).lines().map(str::to_owned).collect();
        (serde_json::from_str(&spec).expect("a specification"), names)
    }
}

/// The paths of a CDI device's nodes, sorted.
pub fn nodes(spec: &serde_json::Value, device: &str) -> Vec<String> {
    let devices = spec["devices"].as_array().into_iter().flatten();
    let found = devices.filter(|known| known["name"] == device);
    let nodes = found.flat_map(|known| known["containerEdits"]["deviceNodes"].as_array().into_iter().flatten());
    let mut paths: Vec<String> = nodes.filter_map(|node| node["path"].as_str().map(str::to_owned)).collect();
    paths.sort();
    paths
}
