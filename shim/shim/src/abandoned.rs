//! A shim that nobody knows any more. When containerd dies after it has started a shim and before it has written down
//! where that listens, its successor throws the bundle away and never speaks to the shim, which would wait for ever.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use baton_fault::{Attempt, Result};
use containerd_shim_protos::api::ShutdownRequest;
use containerd_shim_protos::shim_async::TaskClient;
use containerd_shim_protos::ttrpc::r#async::Client;
use containerd_shim_protos::ttrpc::context;

/// Where the shim listens, in the bundle, as runc's shim writes it there.
const ADDRESS: &str = "address";
/// Longest address that is read, in bytes: a socket's path has at most 108.
const ADDRESS_MAX: u64 = 256;
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes down where the shim of the bundle that is the working folder listens.
///
/// # Errors
/// `FILE`, `NO_SPACE`.
pub fn remember(address: &str) -> Result<()> {
    std::fs::write(ADDRESS, address).attempt(|| format!("write down that the shim listens at {address}"))
}

/// Ends the shim of a bundle if it still listens and has no container.
pub async fn end(bundle: &Path, id: &str) {
    let mut address = String::new();
    let read = File::open(bundle.join(ADDRESS)).and_then(|file| file.take(ADDRESS_MAX).read_to_string(&mut address));
    if read.is_err() {
        return;
    }
    let ended = tokio::time::timeout(PATIENCE, async {
        // Nobody listens: the ordinary case.
        let Ok(client) = Client::connect(address.trim()).await else { return Ok(()) };
        let request = ShutdownRequest { id: id.to_owned(), ..Default::default() };
        TaskClient::new(client).shutdown(context::Context::default(), &request).await.map(drop)
    });
    match ended.await {
        Ok(Ok(())) => {}
        Ok(Err(err)) => eprintln!("end the shim at {address}: {err}"),
        Err(_) => eprintln!("end the shim at {address}: no answer after {} s", PATIENCE.as_secs()),
    }
}
