//! Pushing an image to a registry, by containerd's transfer service: its hosts configuration and trust are used.

use std::path::Path;

use baton_fault::{Code, Fault, Result};
use containerd_client::services::v1::TransferRequest;
use containerd_client::services::v1::transfer_client::TransferClient;
use containerd_client::to_any;
use containerd_client::types::transfer::{ImageStore, OciRegistry, RegistryResolver};

use crate::digest::Digest;
use crate::status;
use crate::store::Store;

/// Where containerd's hosts configuration lies by convention. The transfer service must be told; it has no default.
pub const DEFAULT_HOSTS_DIR: &str = "/etc/containerd/certs.d";

/// What was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The reference, in the store and in the registry.
    pub reference: String,
    /// What it points to.
    pub digest: Digest,
}

impl Store {
    /// Pushes an image of the store to the registry in its name. `hosts_dir` is containerd's directory of registry
    /// hosts and certificates as this node has it; one that does not exist is left out.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such image, `REGISTRY` with what the registry (or the way to it) said.
    pub async fn push(&self, reference: &str, hosts_dir: &Path) -> Result<Pushed> {
        let target = self.image_target(reference).await?;
        let host_dir = if hosts_dir.is_dir() { hosts_dir.display().to_string() } else { String::new() };
        let source = ImageStore { name: reference.to_owned(), ..Default::default() };
        let destination = OciRegistry {
            reference: reference.to_owned(),
            resolver: Some(RegistryResolver { host_dir, ..Default::default() }),
        };
        let request =
            TransferRequest { source: Some(to_any(&source)), destination: Some(to_any(&destination)), options: None };
        let answer = TransferClient::new(self.channel()).transfer(self.request(request)).await;
        answer.map_err(|status| push_fault(reference, &status))?;
        Ok(Pushed { reference: reference.to_owned(), digest: target.digest })
    }
}

fn push_fault(reference: &str, status: &tonic::Status) -> Fault {
    let what = format!("push {reference}");
    if std::error::Error::source(status).is_some() {
        // The connection to containerd broke; the registry has said nothing.
        return status::fault(what, status);
    }
    Fault::new(Code::Registry, what, status.message())
        .advise("check the registry's name, that it answers, and containerd's hosts directory for it; the image is in containerd's store")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_push_has_the_registrys_words() {
        let fault = push_fault("r/x:1", &tonic::Status::unknown("unexpected status: 403 Forbidden"));
        assert_eq!(fault.code, Code::Registry);
        assert!(fault.to_string().contains("403 Forbidden"), "{fault}");
    }
}
