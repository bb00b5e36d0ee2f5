//! Which containerd, and which namespace of it: from options, or from the variables that `ctr` and `nerdctl` know.

use std::path::PathBuf;

use baton_checkpoint::publish::Containerd;
use baton_config::Settings;
use baton_fault::Result;

use crate::arguments;

/// What the command line says of containerd.
#[derive(Debug, Default)]
pub struct Address {
    namespace: Option<String>,
    socket: Option<PathBuf>,
}

impl Address {
    /// `-n`, `--namespace`.
    pub fn take_namespace(&mut self, parser: &mut lexopt::Parser) -> Result<()> {
        self.namespace = Some(arguments::text(parser)?);
        Ok(())
    }

    /// `-a`, `--address`.
    pub fn take_socket(&mut self, parser: &mut lexopt::Parser) -> Result<()> {
        self.socket = Some(arguments::path(parser)?);
        Ok(())
    }

    /// The containerd that is meant.
    pub fn resolve(self, settings: &Settings) -> Containerd {
        let namespace = self
            .namespace
            .or_else(|| std::env::var("CONTAINERD_NAMESPACE").ok())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "default".to_string());
        let socket = self
            .socket
            .or_else(|| std::env::var_os("CONTAINERD_ADDRESS").map(PathBuf::from))
            .unwrap_or_else(|| settings.paths.containerd.clone());
        Containerd { socket, namespace }
    }
}
