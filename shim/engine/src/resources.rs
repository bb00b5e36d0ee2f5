//! What `update` is told: the limits of a container, in the form that runc reads. What is left out stays as it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// What is `null` is left out too.
fn or_none<'a, D: Deserializer<'a>, T: Deserialize<'a> + Default>(from: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

/// New limits for a running container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Resources {
    /// Memory.
    #[serde(deserialize_with = "or_none")]
    pub memory: Memory,
    /// Processor time.
    #[serde(deserialize_with = "or_none")]
    pub cpu: Cpu,
    /// Block devices.
    #[serde(rename = "blockIO", deserialize_with = "or_none")]
    pub block_io: BlockIo,
    /// Number of processes.
    #[serde(deserialize_with = "or_none")]
    pub pids: Pids,
    /// Files of cgroup version 2, by name.
    #[serde(deserialize_with = "or_none")]
    pub unified: BTreeMap<String, String>,
}

/// Memory, in bytes; -1 is without limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Memory {
    /// Hard limit.
    pub limit: Option<i64>,
    /// Soft limit.
    pub reservation: Option<i64>,
    /// Hard limit of memory and swap together.
    pub swap: Option<i64>,
    /// A limit below what is used is refused.
    #[serde(deserialize_with = "or_none")]
    pub check_before_update: bool,
}

/// Processor time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Cpu {
    /// Weight against other containers, 2 to 262144.
    pub shares: Option<u64>,
    /// Microseconds in each period; -1 is without limit.
    pub quota: Option<i64>,
    /// Microseconds that may be saved up beyond the quota.
    pub burst: Option<u64>,
    /// Length of a period in microseconds.
    pub period: Option<u64>,
    /// Realtime microseconds in each realtime period.
    pub realtime_runtime: Option<i64>,
    /// Length of a realtime period in microseconds.
    pub realtime_period: Option<u64>,
    /// Processors, as `0-3,7`.
    #[serde(deserialize_with = "or_none")]
    pub cpus: String,
    /// Memory nodes.
    #[serde(deserialize_with = "or_none")]
    pub mems: String,
    /// 1: only when nobody else wants to run.
    pub idle: Option<i64>,
}

/// Block devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BlockIo {
    /// Weight, 10 to 1000.
    pub weight: Option<u16>,
    /// Bytes read in a second.
    #[serde(deserialize_with = "or_none")]
    pub throttle_read_bps_device: Vec<Throttle>,
    /// Bytes written in a second.
    #[serde(deserialize_with = "or_none")]
    pub throttle_write_bps_device: Vec<Throttle>,
    /// Reads in a second.
    #[serde(rename = "throttleReadIOPSDevice", deserialize_with = "or_none")]
    pub throttle_read_iops_device: Vec<Throttle>,
    /// Writes in a second.
    #[serde(rename = "throttleWriteIOPSDevice", deserialize_with = "or_none")]
    pub throttle_write_iops_device: Vec<Throttle>,
}

/// The limit of one block device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Throttle {
    /// Number of the device.
    pub major: i64,
    /// Second part of it.
    pub minor: i64,
    /// Bytes or operations in a second.
    pub rate: u64,
}

/// Number of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Pids {
    /// At most so many; below 0 is without limit, 0 says nothing.
    pub limit: Option<i64>,
}
