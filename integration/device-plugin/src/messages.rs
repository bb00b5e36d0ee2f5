//! The kubelet's messages (`k8s.io/kubelet`, `pkg/apis/deviceplugin/v1beta1/api.proto`), as far as they are used here.

use std::collections::BTreeMap;

use prost::Message;

/// Nothing.
#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// What a plugin can do beside the least; none of it here.
#[derive(Clone, PartialEq, Message)]
pub struct Options {}

/// A plugin makes itself known.
#[derive(Clone, PartialEq, Message)]
pub struct RegisterRequest {
    /// `v1beta1`.
    #[prost(string, tag = "1")]
    pub version: String,
    /// The name of its socket in the kubelet's folder.
    #[prost(string, tag = "2")]
    pub endpoint: String,
    /// `nvidia.com/gpu`.
    #[prost(string, tag = "3")]
    pub resource_name: String,
}

/// A device that there is.
#[derive(Clone, PartialEq, Message)]
pub struct Device {
    /// Its name among those of the resource.
    #[prost(string, tag = "1")]
    pub id: String,
    /// `Healthy`.
    #[prost(string, tag = "2")]
    pub health: String,
}

/// All devices of a resource.
#[derive(Clone, PartialEq, Message)]
pub struct Devices {
    /// They.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
}

/// The kubelet has chosen devices for containers.
#[derive(Clone, PartialEq, Message)]
pub struct AllocateRequest {
    /// One for each container.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<ContainerRequest>,
}

/// The devices of one container.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerRequest {
    /// Their names.
    #[prost(string, repeated, tag = "1")]
    pub ids: Vec<String>,
}

/// How the containers come by them.
#[derive(Clone, PartialEq, Message)]
pub struct AllocateResponse {
    /// One for each container.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<ContainerResponse>,
}

/// How one container comes by its devices.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerResponse {
    /// Environment.
    #[prost(btree_map = "string, string", tag = "1")]
    pub envs: BTreeMap<String, String>,
    /// Files of the node.
    #[prost(message, repeated, tag = "2")]
    pub mounts: Vec<Mount>,
    /// Annotations of the container, for the CRI.
    #[prost(btree_map = "string, string", tag = "4")]
    pub annotations: BTreeMap<String, String>,
    /// CDI devices, for the CRI.
    #[prost(message, repeated, tag = "5")]
    pub cdi_devices: Vec<CdiDevice>,
}

/// A file of the node in a container.
#[derive(Clone, PartialEq, Message)]
pub struct Mount {
    /// Where the container sees it.
    #[prost(string, tag = "1")]
    pub container_path: String,
    /// Where the node has it.
    #[prost(string, tag = "2")]
    pub host_path: String,
    /// That the container cannot write it.
    #[prost(bool, tag = "3")]
    pub read_only: bool,
}

/// A device by its CDI name.
#[derive(Clone, PartialEq, Message)]
pub struct CdiDevice {
    /// `vendor/class=name`.
    #[prost(string, tag = "1")]
    pub name: String,
}
