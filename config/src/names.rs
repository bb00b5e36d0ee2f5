//! Names that do not change: what users type, and what other programs match.

/// containerd's name of the runtime.
pub const RUNTIME: &str = "io.containerd.baton.v2";

/// How every annotation of Baton's begins.
pub const ANNOTATION_PREFIX: &str = "io.baton.";
/// What to inject: `all`, `none`, indices, UUIDs. From a trusted source only.
pub const ANNOTATION_DEVICES: &str = "io.baton.devices";
/// Restore from this reference or directory, or `never`.
pub const ANNOTATION_RESTORE: &str = "io.baton.restore";
/// The environment variable by which container images and device plugins ask for GPUs.
pub const ENV_VISIBLE_DEVICES: &str = "NVIDIA_VISIBLE_DEVICES";

/// Label in the image config that makes an image a checkpoint.
pub const LABEL_CHECKPOINT: &str = "io.baton.checkpoint";
/// Its value for the format described in `baton-image`.
pub const LABEL_CHECKPOINT_V1: &str = "v1";

/// Media type of the small checkpoint manifest.
pub const MEDIA_MANIFEST: &str = "application/vnd.baton.checkpoint.manifest.v1+json";
/// Media type of CRIU's small images and logs.
pub const MEDIA_STATE: &str = "application/vnd.baton.checkpoint.state.v1.tar+zstd";
/// Media type of process memory in segments.
pub const MEDIA_PAGES: &str = "application/vnd.baton.checkpoint.pages.v1+zstd";

/// Settings file of a node.
pub const SETTINGS_FILE: &str = "/etc/baton/config.toml";
/// Run state: leases, control sockets, engine state. On a tmpfs; gone after a boot, as the containers are.
pub const RUN_DIR: &str = "/run/baton";
