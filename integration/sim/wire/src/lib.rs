//! What the parts of the simulated NVIDIA driver say to each other.
