//! The order of a save and of a restore (`save`, `restore`), and what they are made of: the journal and its undo,
//! the lease on a card, the gate, the processes of a container, and the GPU part of each.

pub mod cgroup;
pub mod control;
pub mod engine;
pub mod gate;
pub mod gpu;
pub mod host;
pub mod journal;
pub mod lease;
pub mod processes;
pub mod publish;
pub mod restore;
pub mod room;
pub mod save;
