//! A sha256 digest in the form that OCI and containerd write: `sha256:<64 lower-case hex digits>`.

use std::fmt;

use baton_fault::{Code, Fault, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Name and content hash of a blob.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// Parses `sha256:<hex>`; no other algorithm is accepted.
    ///
    /// # Errors
    /// `IMAGE_CORRUPT`, with the text.
    pub fn parse(text: &str) -> Result<Digest> {
        let hex = text.strip_prefix("sha256:").unwrap_or_default();
        let well_formed = hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if well_formed {
            Ok(Digest(text.to_owned()))
        } else {
            Err(Fault::new(Code::ImageCorrupt, "read a digest", format!("\"{text}\" is not sha256:<64 hex digits>")))
        }
    }

    /// The digest of `data`.
    pub fn of(data: &[u8]) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(data);
        hasher.finish()
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = Fault;
    fn try_from(text: String) -> Result<Digest> {
        Digest::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

/// A digest in the making.
#[derive(Clone, Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    pub(crate) fn finish(self) -> Digest {
        use fmt::Write as _;
        let mut text = String::with_capacity(71);
        text.push_str("sha256:");
        for byte in self.0.finalize() {
            // Writing into a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Digest(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_nothing_is_the_known_one() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        assert_eq!(Digest::parse(empty).expect("well formed"), Digest::of(b""));
    }

    #[test]
    fn other_algorithms_and_lengths_are_refused() {
        for text in [
            "",
            "sha256:",
            "sha512:00",
            "sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
            "sha256:../../etc",
        ] {
            assert_eq!(Digest::parse(text).expect_err(text).code, Code::ImageCorrupt);
        }
    }
}
