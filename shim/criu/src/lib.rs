//! CRIU, met through criu swrk.
