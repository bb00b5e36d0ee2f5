//! The plan as a record in the bundle, `baton-devices.json`, so that a later verb, a save and a person can read
//! what the container was given: `{"format": 1, "plan": {…}}`.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use serde::{Deserialize, Serialize};

use crate::Plan;

/// Name of the record in a bundle.
pub const FILE: &str = "baton-devices.json";
/// The format written and read.
const FORMAT: u32 = 1;
/// Largest record, in bytes: sixteen cards and a hundred libraries take 60 KiB.
const RECORD_MAX: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
struct Record {
    format: u32,
    plan: Plan,
}

/// Writes the record into a bundle, whole or not at all.
///
/// # Errors
/// Of the file operation.
pub fn write(bundle: &Path, plan: &Plan) -> Result<()> {
    let file = bundle.join(FILE);
    let fresh = bundle.join(format!(".{FILE}.new"));
    let writing = || format!("write {}", file.display());
    let text = serde_json::to_vec(&Record { format: FORMAT, plan: plan.clone() })
        .map_err(|err| Fault::new(Code::System, writing(), err))?;
    match std::fs::remove_file(&fresh) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => return Err(Fault::io(writing(), &err)),
        _ => {}
    }
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut opened| opened.write_all(&text))
        .and_then(|()| std::fs::rename(&fresh, &file))
        .attempt(writing)
}

/// Reads the record of a bundle; `None` for a container that was given nothing.
///
/// # Errors
/// `BUNDLE` when the record is damaged, too long or of another format.
pub fn read(bundle: &Path) -> Result<Option<Plan>> {
    let file = bundle.join(FILE);
    let reading = || format!("read {}", file.display());
    let refuse = |why: String| {
        Fault::new(Code::Bundle, reading(), why).advise("create the container anew with this version of Baton")
    };
    let opened = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&file);
    let opened = match opened {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.attempt(reading)?,
    };
    let mut text = Vec::new();
    opened.take(RECORD_MAX + 1).read_to_end(&mut text).attempt(reading)?;
    if text.len() as u64 > RECORD_MAX {
        return Err(refuse(format!("more than {RECORD_MAX} bytes")));
    }
    let record: Record = serde_json::from_slice(&text).map_err(|err| refuse(err.to_string()))?;
    if record.format != FORMAT {
        return Err(refuse(format!("format {}, this Baton reads {FORMAT}", record.format)));
    }
    Ok(Some(record.plan))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;
    use crate::testing::{FakeDriver, inventory};

    #[test]
    fn what_was_written_is_read() {
        let fake = FakeDriver::new();
        let plan = Plan::resolve(&Request::All, &inventory(), &fake.driver(), Path::new("/bin/true")).expect("plan");
        let bundle = tempfile::tempdir().expect("bundle");
        assert_eq!(read(bundle.path()), Ok(None));
        write(bundle.path(), &plan).expect("written");
        write(bundle.path(), &plan).expect("written again");
        assert_eq!(read(bundle.path()), Ok(Some(plan)));
        assert_eq!(std::fs::read_dir(bundle.path()).expect("bundle").count(), 1);
    }

    #[test]
    fn a_record_that_is_none_is_refused() {
        let bundle = tempfile::tempdir().expect("bundle");
        let file = bundle.path().join(FILE);
        for text in ["", "{}", r#"{"format":2,"plan":{}}"#, &" ".repeat((RECORD_MAX + 1) as usize)] {
            std::fs::write(&file, text).expect("write");
            assert_eq!(read(bundle.path()).expect_err("refused").code, Code::Bundle);
        }
        std::fs::remove_file(&file).expect("remove");
        std::os::unix::fs::symlink("/etc/hostname", &file).expect("link");
        read(bundle.path()).expect_err("a link is not followed");
    }
}
