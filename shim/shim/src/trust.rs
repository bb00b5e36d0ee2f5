//! Which engine may restore a checkpoint image. An image comes from wherever its tenant likes; that a restored process may
//! do no more than the live spec says is checked by Baton's engine alone, while it holds the process.

use baton_config::Settings;
use baton_fault::{Code, Fault, Result};
use baton_image::Checkpoint;

use crate::engine::Engine;

/// Refuses an engine that would believe the image.
///
/// # Errors
/// `RESTORE_STATE`.
pub fn engine_may_restore(engine: &Engine, checkpoint: &Checkpoint, settings: &Settings) -> Result<()> {
    if engine.is_batons() || settings.restore.any_engine {
        return Ok(());
    }
    Err(Fault::new(
        Code::RestoreState,
        format!("restore {}", checkpoint.reference),
        format!(
            "{} would give the saved processes the credentials, the filter of system calls and the device nodes of the \
             image, whatever this container may have",
            engine.program().display()
        ),
    )
    .advise("leave BinaryName out, or allow restore.any-engine in config.toml where every image is trusted"))
}
