//! The four ways in which a device plugin can tell what a container was given; what reaches the runtime of each is in
//! NVIDIA's plugin called a device list strategy.

use std::collections::BTreeMap;
use std::str::FromStr;

use baton_fault::{Code, Fault, Result};

use crate::messages::{CdiDevice, ContainerResponse, Mount};
use crate::spec::KIND;

/// What an injector is told by.
const VARIABLE: &str = "NVIDIA_VISIBLE_DEVICES";
/// Says that the list is in the names of mounts, and where those lie.
const FOLDER: &str = "/var/run/nvidia-container-devices";

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// A list in the environment.
    Environment,
    /// Mounts whose names are the devices'.
    Mounts,
    /// CDI names in annotations of the container.
    Annotations,
    /// CDI names in a field of the CRI.
    Field,
}

impl FromStr for Strategy {
    type Err = Fault;

    fn from_str(word: &str) -> Result<Strategy> {
        match word {
            "envvar" => Ok(Strategy::Environment),
            "volume-mounts" => Ok(Strategy::Mounts),
            "cdi-annotations" => Ok(Strategy::Annotations),
            "cdi-cri" => Ok(Strategy::Field),
            _ => Err(Fault::new(Code::Usage, format!("use the strategy {word:?}"), "there is none of that name")
                .advise("envvar, volume-mounts, cdi-annotations or cdi-cri")),
        }
    }
}

impl Strategy {
    /// Whether the container runtime needs a CDI spec.
    pub fn needs_spec(self) -> bool {
        matches!(self, Strategy::Annotations | Strategy::Field)
    }

    /// What a container with those devices is given.
    pub fn response(self, ids: &[String]) -> ContainerResponse {
        let mut given = ContainerResponse::default();
        let names = || ids.iter().map(|id| format!("{KIND}={id}"));
        match self {
            Strategy::Environment => drop(given.envs.insert(VARIABLE.to_owned(), ids.join(","))),
            Strategy::Mounts => {
                given.envs.insert(VARIABLE.to_owned(), FOLDER.to_owned());
                given.mounts = ids.iter().map(|id| mount(id)).collect();
            }
            Strategy::Annotations => {
                let key = format!("cdi.k8s.io/nvidia-device-plugin_{}", ids.first().map_or("none", String::as_str));
                given.annotations = BTreeMap::from([(key, names().collect::<Vec<_>>().join(","))]);
            }
            Strategy::Field => given.cdi_devices = names().map(|name| CdiDevice { name }).collect(),
        }
        given
    }
}

fn mount(id: &str) -> Mount {
    Mount { container_path: format!("{FOLDER}/{id}"), host_path: "/dev/null".to_owned(), read_only: true }
}
