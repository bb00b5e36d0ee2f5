//! What the workloads count and keep, known without a card.

pub mod count;
pub mod pattern;
pub mod size;
