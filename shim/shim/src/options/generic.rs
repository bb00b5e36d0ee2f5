//! The generic options, `runtimeoptions.v1.Options`, which containerd sends for every runtime whose name is not
//! runc's. The message, as protobuf:
//!
//! ```text
//! string type_url    = 1;  which options the table holds
//! string config_path = 2;  a file with the table
//! bytes  config_body = 3;  the table itself
//! ```

use std::io::Read;
use std::path::Path;

use baton_fault::{Attempt, Result};
use containerd_shim_protos::protobuf::CodedInputStream;
use containerd_shim_protos::protobuf::rt::WireType;

use super::{Options, RUNC, refused, table};

/// Largest table that is read, in bytes.
const TABLE_MAX: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Generic {
    type_url: String,
    config_path: String,
    config_body: Vec<u8>,
}

/// Reads generic options; a file that they name takes the place of a table in them.
///
/// # Errors
/// `SETTINGS`, or of reading the file.
pub fn read(bytes: &[u8]) -> Result<Options> {
    let generic = parse(bytes).map_err(refused)?;
    let kind = generic.type_url.rsplit('/').next().unwrap_or_default();
    if !kind.is_empty() && kind != RUNC {
        return Err(refused(format!("type {} is not known", generic.type_url)));
    }
    let text = match generic.config_path.as_str() {
        "" => generic.config_body,
        path => read_file(Path::new(path))?,
    };
    table::read(&text)
}

fn parse(bytes: &[u8]) -> containerd_shim_protos::protobuf::Result<Generic> {
    let mut input = CodedInputStream::from_bytes(bytes);
    let mut generic = Generic::default();
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        // A tag is the number of a field and how it is written; all three are length-delimited.
        match (tag >> 3, tag & 7) {
            (1, 2) => generic.type_url = input.read_string()?,
            (2, 2) => generic.config_path = input.read_string()?,
            (3, 2) => generic.config_body = input.read_bytes()?,
            (_, wire) => input.skip_field(WireType::new(wire).unwrap_or(WireType::EndGroup))?,
        }
    }
    Ok(generic)
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    let what = || format!("read the runtime options in {}", path.display());
    let mut text = Vec::new();
    let file = std::fs::File::open(path).attempt(what).map_err(|fault| fault.with_code(super::Code::Settings))?;
    file.take(TABLE_MAX + 1).read_to_end(&mut text).attempt(what)?;
    if text.len() as u64 > TABLE_MAX {
        return Err(refused(format!("{} has more than {TABLE_MAX} bytes", path.display())));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
        let field = |(number, value): &(u8, &[u8])| {
            let length = u8::try_from(value.len()).expect("a short value");
            [&[number << 3 | 2, length], *value].concat()
        };
        fields.iter().flat_map(field).collect()
    }

    #[test]
    fn a_table_in_the_message_is_read() {
        let body = b"TypeUrl = 'containerd.runc.v1.Options'\nBinaryName = '/usr/bin/runc'\nIoUid = 3\n";
        let options = read(&message(&[(1, b"containerd.runc.v1.Options"), (3, body)])).expect("options");
        assert_eq!(options.binary_name.as_deref(), Some(Path::new("/usr/bin/runc")));
        assert_eq!(options.io_uid, 3);
        assert_eq!(read(&[]).expect("an empty message"), Options::default());
    }

    #[test]
    fn a_file_that_is_named_takes_its_place() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("options");
        let bytes = message(&[(2, file.to_str().expect("a path").as_bytes()), (3, b"Frob = 1")]);
        for text in ["Root = '/r'", "{\"Root\": \"/r\"}", "root = '/r'"] {
            std::fs::write(&file, text).expect("write");
            assert_eq!(read(&bytes).expect(text).root.as_deref(), Some(Path::new("/r")), "{text}");
        }
        std::fs::remove_file(&file).expect("remove");
        let fault = read(&bytes).expect_err("no file");
        assert!(fault.code == super::super::Code::Settings && fault.to_string().contains("options"), "{fault}");
    }

    #[test]
    fn another_kind_of_options_and_nonsense_are_refused() {
        let fault = read(&message(&[(1, b"runsc.v1.Options")])).expect_err("another kind");
        assert!(fault.to_string().contains("runsc.v1.Options"), "{fault}");
        for bytes in [&[0x0a, 200][..], &[0x0f], &[0xff; 12]] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }
}
