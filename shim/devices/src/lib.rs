//! From a request for GPUs to a checked plan and its edits to config.json.
