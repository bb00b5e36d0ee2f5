//! One container on libcontainer, checkpointed and restored by CRIU.
