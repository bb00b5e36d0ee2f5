//! How an operator's command reaches the shim of a container: a unix socket per container under Baton's run folder,
//! one request per connection, JSON lines both ways.
//!
//! ```text
//! → {"save":{"reference":"r.example/job:1","stop":false,"push":true}}
//! ← {"saved":{…}}            or   {"fault":"CODE: what: why; what to do"}
//! ```

use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::save::{Request, Saved};

/// Longest line either way, in bytes.
const LINE_MAX: u64 = 1 << 20;

/// Hex digits of a socket's name: 128 bits, so that no two containers meet.
const NAME_LENGTH: usize = 32;

/// What an operator asks of a container's shim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Save the container as an image.
    Save(Request),
}

/// What the shim answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is saved.
    Saved(Saved),
    /// It failed, in the words of the fault.
    Fault(String),
}

/// Where the socket of a container is. A folder for each namespace and a file for each container would not fit the
/// 107 bytes that a socket's address has, so the name is a digest of both.
pub fn socket(run: &Path, namespace: &str, id: &str) -> PathBuf {
    let digest = baton_image::Digest::of(format!("{namespace}/{id}").as_bytes());
    let name = digest.as_str().trim_start_matches("sha256:");
    run.join("control").join(&name[..NAME_LENGTH])
}

/// Asks the shim of a container.
///
/// # Errors
/// `NOT_FOUND` when no shim of Baton's has such a container, or what the shim answers.
pub async fn ask(run: &Path, namespace: &str, id: &str, ask: &Ask) -> Result<Saved> {
    let path = socket(run, namespace, id);
    let stream = UnixStream::connect(&path).await.map_err(|err| {
        Fault::new(
            Code::NotFound,
            format!("reach container {id} in namespace {namespace}"),
            format!("no running container of that name under Baton ({err})"),
        )
        .advise("`ctr -n NAMESPACE containers ls` lists containers with their runtimes")
    })?;
    let (read, mut write) = stream.into_split();
    send(&mut write, ask).await?;
    match receive(BufReader::new(read)).await? {
        Answer::Saved(saved) => Ok(saved),
        Answer::Fault(line) => {
            Err(Fault::parse(&line)
                .unwrap_or_else(|| Fault::new(Code::Unavailable, format!("ask the shim of {id}"), line)))
        }
    }
}

/// Sends one message as a line.
///
/// # Errors
/// `UNAVAILABLE` when the other side has gone.
pub async fn send(to: &mut (impl AsyncWriteExt + Unpin), message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message).map_err(|err| Fault::new(Code::System, "write a message", err))?;
    line.push(b'\n');
    to.write_all(&line).await.attempt(|| "send a message").map_err(|fault| fault.with_code(Code::Unavailable))
}

/// Receives one message.
///
/// # Errors
/// `UNAVAILABLE` when the other side has gone or sent no message of ours.
pub async fn receive<T: serde::de::DeserializeOwned>(from: impl AsyncBufReadExt + Unpin) -> Result<T> {
    let mut line = Vec::new();
    let unavailable = |why: &dyn std::fmt::Display| {
        Fault::new(Code::Unavailable, "receive a message", why)
            .advise("see containerd's log for what became of the shim")
    };
    from.take(LINE_MAX).read_until(b'\n', &mut line).await.map_err(|err| unavailable(&err))?;
    if line.is_empty() {
        return Err(unavailable(&"the other side ended the connection"));
    }
    serde_json::from_slice(&line).map_err(|err| unavailable(&err))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_address_fits_whatever_the_names_are() {
        let long = "x".repeat(76);
        let path = socket(Path::new("/run/baton"), &long, &long);
        assert!(path.as_os_str().len() < 108, "{}", path.display());
        assert_ne!(path, socket(Path::new("/run/baton"), &long, "y"));
    }
}
