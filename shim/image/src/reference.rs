//! Image references, as containerd stores them: written in full, with a tag.

use baton_fault::{Code, Fault, Result};

/// Longest reference, as the distribution specification has it for names, plus a tag.
const REFERENCE_MAX: usize = 255 + 1 + 128;

/// Checks a reference under which a checkpoint is to be stored: `HOST[:PORT]/NAME:TAG`.
///
/// # Errors
/// `USAGE`, naming what is wrong with it.
pub fn check_reference(reference: &str) -> Result<()> {
    let refuse = |why: &str| {
        Err(Fault::new(Code::Usage, format!("use the image reference \"{reference}\""), why)
            .advise("write it in full: REGISTRY[:PORT]/NAME:TAG"))
    };
    if reference.len() > REFERENCE_MAX {
        return refuse("it is too long");
    }
    if reference.contains('@') {
        return refuse("a checkpoint is stored under a tag, not under a digest");
    }
    let Some((host, rest)) = reference.split_once('/') else {
        return refuse("it names no registry");
    };
    let Some((name, tag)) = rest.rsplit_once(':') else {
        return refuse("it has no tag");
    };
    let (hostname, port) = host.split_once(':').unwrap_or((host, "80"));
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if hostname.is_empty() || !hostname.chars().all(plain) || port.parse::<u16>().is_err() {
        return refuse("the registry is not HOST or HOST:PORT");
    }
    let component = |part: &str| {
        let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
        edge(part.as_bytes().first()) && edge(part.as_bytes().last()) && part.bytes().all(inside)
    };
    if !name.split('/').all(component) {
        return refuse("the name has an empty part or a character other than a-z 0-9 . _ -");
    }
    let tag_ok =
        (1..=128).contains(&tag.len()) && !tag.starts_with(['.', '-']) && tag.chars().all(|c| plain(c) || c == '_');
    if !tag_ok {
        return refuse("the tag is empty, too long or has a character other than A-Z a-z 0-9 . _ -");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_references_pass() {
        for reference in ["registry.test:5000/demo/job:1", "localhost/baton/counter:1", "docker.io/library/x:v1.0_a"] {
            check_reference(reference).expect(reference);
        }
    }

    #[test]
    fn short_odd_and_hostile_references_are_refused() {
        for reference in [
            "",
            "job",
            "job:1",
            "r/job",
            "r/Job:1",
            "r//x:1",
            "r/x:",
            "r:port/x:1",
            "r/x:1@sha256:00",
            "/x:1",
            "r/../x:1",
            "r/x:a\nb",
        ] {
            assert_eq!(check_reference(reference).expect_err(reference).code, Code::Usage);
        }
    }
}
