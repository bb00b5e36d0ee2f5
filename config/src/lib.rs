//! Node settings (`/etc/baton/config.toml`) and the names that users rely on.

pub mod names;
mod settings;

pub use settings::{Driver, Paths, Save, Settings};
