//! A lease: what keeps containerd from collecting the blobs of an image in the making, and what takes them away
//! when it does not come to be.

use std::collections::HashMap;
use std::time::Duration;

use baton_fault::{Code, Fault, Result};
use containerd_client::services::v1::leases_client::LeasesClient;
use containerd_client::services::v1::{AddResourceRequest, CreateRequest, DeleteRequest, Resource};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tonic::metadata::{Ascii, MetadataValue};

use crate::digest::Digest;
use crate::status;
use crate::store::Store;

/// After this long containerd drops the lease by itself, should nobody have come back to delete it.
const EXPIRY: Duration = Duration::from_secs(24 * 60 * 60);

/// A lease of containerd's. Deleted by [`Lease::release`] or [`Lease::discard`]; when dropped, in the background.
pub struct Lease {
    store: Store,
    id: String,
    header: MetadataValue<Ascii>,
    gone: bool,
}

impl Store {
    /// Creates a lease that expires in 24 hours. Write its id into the journal at once: a later process deletes it
    /// with [`Store::delete_lease`].
    ///
    /// # Errors
    /// What containerd answers.
    pub async fn lease(&self) -> Result<Lease> {
        let what = "create a lease in containerd";
        let expiry = (OffsetDateTime::now_utc() + EXPIRY)
            .format(&Rfc3339)
            .map_err(|err| Fault::new(Code::System, what, err).advise("set the clock"))?;
        let labels = HashMap::from([
            ("containerd.io/gc.expire".to_owned(), expiry),
            ("io.baton.lease".to_owned(), "save".to_owned()),
        ]);
        let id = format!("baton-{}", crate::blob::unique());
        let header = MetadataValue::try_from(&id).map_err(|err| Fault::new(Code::System, what, err))?;
        let request = self.request(CreateRequest { id: id.clone(), labels });
        LeasesClient::new(self.channel()).create(request).await.map_err(|status| status::fault(what, &status))?;
        Ok(Lease { store: self.clone(), id, header, gone: false })
    }

    /// Works under a lease that another process holds, and leaves its end to that process.
    ///
    /// # Errors
    /// `USAGE` for an id that no lease can have.
    pub fn borrow_lease(&self, id: &str) -> Result<Lease> {
        let header = MetadataValue::try_from(id)
            .map_err(|err| Fault::new(Code::Usage, format!("use containerd's lease {id}"), err))?;
        Ok(Lease { store: self.clone(), id: id.to_owned(), header, gone: true })
    }

    /// Deletes a lease that another process left, and waits until containerd has collected what only it held.
    /// A lease that is gone already is no error.
    ///
    /// # Errors
    /// What containerd answers.
    pub async fn delete_lease(&self, id: &str) -> Result<()> {
        self.end_lease(id, true).await
    }

    async fn end_lease(&self, id: &str, sync: bool) -> Result<()> {
        let request = self.request(DeleteRequest { id: id.to_owned(), sync });
        match LeasesClient::new(self.channel()).delete(request).await {
            Err(status) if status.code() != tonic::Code::NotFound => {
                Err(status::fault(format!("delete containerd's lease {id}"), &status))
            }
            _ => Ok(()),
        }
    }
}

impl Lease {
    /// The lease's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Ends the lease after a success. What an image refers to stays.
    ///
    /// # Errors
    /// What containerd answers; the lease then expires by itself.
    pub async fn release(mut self) -> Result<()> {
        self.gone = true;
        self.store.end_lease(&self.id, false).await
    }

    /// Ends the lease after a failure, and waits until containerd has collected what was written under it.
    ///
    /// # Errors
    /// What containerd answers; the lease then expires by itself.
    pub async fn discard(mut self) -> Result<()> {
        self.gone = true;
        self.store.end_lease(&self.id, true).await
    }

    /// Puts a blob that exists already under the lease.
    pub(crate) async fn hold(&self, digest: &Digest) -> Result<()> {
        let resource = Resource { id: digest.to_string(), r#type: "content".into() };
        let request = self.store.request(AddResourceRequest { id: self.id.clone(), resource: Some(resource) });
        let answer = LeasesClient::new(self.store.channel()).add_resource(request).await;
        answer.map_err(|status| status::fault(format!("hold {digest} under a lease"), &status))?;
        Ok(())
    }

    pub(crate) fn header(&self) -> MetadataValue<Ascii> {
        self.header.clone()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        // Without a runtime there is nobody to ask; the journal or the expiry ends the lease then.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (store, id) = (self.store.clone(), self.id.clone());
            runtime.spawn(async move { store.end_lease(&id, true).await });
        }
    }
}
