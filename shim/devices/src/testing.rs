//! A driver root as an installer leaves it, with device nodes, made in a temporary directory by root.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use baton_config::Driver;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::root::DriverRoot;
use crate::{Card, ComputeCapability, GpuUuid, Inventory};

/// The version of the fake driver.
pub const VERSION: &str = "570.124.06";
/// The dynamic major that its `/proc/devices` names.
pub const UVM_MAJOR: u32 = 511;

/// A driver root in a temporary directory.
pub struct FakeDriver {
    tree: tempfile::TempDir,
}

impl FakeDriver {
    /// Two cards, all nodes; NVML, CUDA, a library without another name, older ones that must stay out.
    pub fn new() -> FakeDriver {
        let fake = FakeDriver { tree: tempfile::tempdir().expect("tree") };
        let libs = fake.path().join("usr/lib64");
        std::fs::create_dir_all(&libs).expect("libs");
        symlink("usr/lib64", fake.path().join("lib64")).expect("merged");
        for (file, soname) in [
            ("libcuda.so.570.124.06", "libcuda.so.1"),
            ("libnvidia-ml.so.570.124.06", "libnvidia-ml.so.1"),
            ("libnvidia-glcore.so.570.124.06", "libnvidia-glcore.so.570.124.06"),
            ("libcuda.so.535.54.03", "libcuda.so.1"),
        ] {
            std::fs::write(libs.join(file), library(soname)).expect("library");
        }
        symlink("libcuda.so.570.124.06", libs.join("libcuda.so.1")).expect("link");
        symlink("/etc/hostname", libs.join("libescape.so.570.124.06")).expect("link");
        let firmware = fake.path().join("lib/firmware/nvidia").join(VERSION);
        std::fs::create_dir_all(&firmware).expect("firmware");
        UnixListener::bind(firmware.join("gsp_ga10x.bin")).expect("something that is no file");
        std::fs::write(firmware.join("README"), "").expect("file");
        std::fs::create_dir(fake.path().join("proc")).expect("proc");
        let devices = format!("Character devices:\n195 nvidia\n{UVM_MAJOR} nvidia-uvm\n\nBlock devices:\n  8 sd\n");
        std::fs::write(fake.path().join("proc/devices"), devices).expect("devices");
        std::fs::create_dir(fake.path().join("dev")).expect("dev");
        for (name, major, minor) in [
            ("nvidia0", 195, 0),
            ("nvidia3", 195, 3),
            ("nvidiactl", 195, 255),
            ("nvidia-uvm", UVM_MAJOR, 0),
            ("nvidia-uvm-tools", UVM_MAJOR, 1),
        ] {
            fake.node(name, major, minor);
        }
        fake
    }

    /// Makes (or replaces) a character device with mode 0666.
    pub fn node(&self, name: &str, major: u32, minor: u32) {
        let path = self.path().join("dev").join(name);
        let _ = std::fs::remove_file(&path);
        mknod(&path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o600), makedev(major.into(), minor.into()))
            .expect("tests run as root");
        nix::sys::stat::fchmodat(
            None,
            &path,
            Mode::from_bits_truncate(0o666),
            nix::sys::stat::FchmodatFlags::FollowSymlink,
        )
        .expect("mode");
    }

    pub fn path(&self) -> &Path {
        self.tree.path()
    }

    pub fn driver(&self) -> Driver {
        Driver { root: self.path().into() }
    }

    pub fn root(&self) -> DriverRoot {
        DriverRoot::open(&self.driver()).expect("root")
    }

    pub fn lib_dir(&self) -> PathBuf {
        PathBuf::from("/usr/lib64")
    }
}

/// What NVML would say about the fake driver: the second card's minor is not its index.
pub fn inventory() -> Inventory {
    Inventory { driver_version: VERSION.into(), cuda_version: 12080, cards: vec![card(0, 0), card(1, 3)] }
}

/// An H100 whose UUID ends in its index.
pub fn card(index: u32, minor: u32) -> Card {
    let mut uuid = [0x11; 16];
    uuid[15] = index as u8;
    Card {
        index,
        uuid: GpuUuid::from_bytes(uuid),
        model: "NVIDIA H100 80GB HBM3".into(),
        compute_capability: ComputeCapability { major: 9, minor: 0 },
        memory_total: 80 << 30,
        pci_bus_id: format!("00000000:{:02X}:00.0", 0x18 + index),
        minor,
        mig_enabled: false,
    }
}

/// The smallest library that has a SONAME: a header, two program headers, a dynamic section, the name.
pub fn library(soname: &str) -> Vec<u8> {
    let (dynamic, strings) = (64 + 2 * 56, 64 + 2 * 56 + 3 * 16);
    let total = (strings + 1 + soname.len() + 1) as u64;
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
    bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
    bytes[56..58].copy_from_slice(&2u16.to_le_bytes());
    // The library is mapped one page up, to tell addresses from offsets.
    for (kind, offset, size) in [(1u32, 0u64, total), (2, dynamic as u64, 48)] {
        bytes.extend(kind.to_le_bytes());
        bytes.extend([0; 4]);
        for word in [offset, 0x1000 + offset, 0, size, size, 0] {
            bytes.extend(word.to_le_bytes());
        }
    }
    for (tag, value) in [(5u64, 0x1000 + strings as u64), (14, 1), (0, 0)] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.push(0);
    bytes.extend(soname.as_bytes());
    bytes.push(0);
    bytes
}
