//! How the parts of a cluster find and trust each other.

use baton_fault::{Code, Fault, Result};
use rcgen::KeyPair;

/// Folder of a node with the cluster's files.
pub const FOLDER: &str = "/etc/kubernetes";
/// The key with which tokens of pods are signed.
pub const SIGNING_KEY: &str = "/etc/kubernetes/signing-key.pem";
/// The key with which tokens of pods are checked.
pub const CHECKING_KEY: &str = "/etc/kubernetes/checking-key.pem";
/// Who may speak to the API server: the one token, of an administrator.
pub const TOKENS: &str = "/etc/kubernetes/tokens.csv";
/// How every part, and `kubectl`, finds the API server.
pub const KUBECONFIG: &str = "/etc/kubernetes/admin.conf";
/// The API server's port.
pub const PORT: u16 = 6443;

/// Nothing outside the nodes reaches the server that it opens.
const TOKEN: &str = "baton-test-cluster";

/// The files of every node, by path, for an API server at that address.
///
/// # Errors
/// `SYSTEM` when no key can be made.
pub fn files(server: &str) -> Result<Vec<(&'static str, String)>> {
    let key = KeyPair::generate().map_err(|err| Fault::new(Code::System, "make a key for tokens of pods", err))?;
    Ok(vec![
        (SIGNING_KEY, key.serialize_pem()),
        (CHECKING_KEY, key.public_key_pem()),
        (TOKENS, format!("{TOKEN},admin,admin,\"system:masters\"\n")),
        (KUBECONFIG, kubeconfig(server)),
    ])
}

/// The server makes its own certificate, which nobody else has signed.
fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: test
clusters:
- name: test
  cluster: {{server: 'https://{server}:{PORT}', insecure-skip-tls-verify: true}}
users:
- name: admin
  user: {{token: {TOKEN}}}
contexts:
- name: test
  context: {{cluster: test, user: admin}}
"
    )
}
