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
    /// Takes the option when it is one of containerd's.
    pub fn take(&mut self, arg: &lexopt::Arg<'_>, parser: &mut lexopt::Parser) -> Result<bool> {
        match arg {
            lexopt::Arg::Short('n') | lexopt::Arg::Long("namespace") => self.namespace = Some(arguments::text(parser)?),
            lexopt::Arg::Short('a') | lexopt::Arg::Long("address") => self.socket = Some(arguments::path(parser)?),
            _ => return Ok(false),
        }
        Ok(true)
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

/// An option that does not borrow from the parser, so that its value can be asked for.
pub fn owned(arg: lexopt::Arg<'_>) -> lexopt::Arg<'static> {
    match arg {
        lexopt::Arg::Short(letter) => lexopt::Arg::Short(letter),
        lexopt::Arg::Long(name) => lexopt::Arg::Long(Box::leak(name.to_string().into_boxed_str())),
        lexopt::Arg::Value(value) => lexopt::Arg::Value(value),
    }
}
