//! What the workloads count and keep, known without a card, and how they are asked.

pub mod asking;
pub mod count;
pub mod pattern;
pub mod signals;
pub mod size;
