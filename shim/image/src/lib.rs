//! The checkpoint image, read from and written to containerd.
