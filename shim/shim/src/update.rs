//! Update: new limits for a container, set by its engine.

use baton_fault::{Code, Fault, Result};

use crate::container::Container;

/// Sets new limits, given as the JSON of OCI's Linux resources.
///
/// # Errors
/// `USAGE` when they are no JSON object, or what the engine says.
pub async fn update(container: &Container, resources: &[u8]) -> Result<()> {
    let what = || format!("update {}", container.id);
    let refused =
        |why: &dyn std::fmt::Display| Fault::new(Code::Usage, what(), why).advise("give OCI's LinuxResources as JSON");
    let value: serde_json::Value = serde_json::from_slice(resources).map_err(|err| refused(&err))?;
    if !value.is_object() {
        return Err(refused(&"the new resources are no JSON object"));
    }
    let _work = container.work.lock().await;
    container.engine.update(resources).await
}
