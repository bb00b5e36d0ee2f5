//! Where a stream goes, as containerd's clients write it: a FIFO or a file by its path, `file://PATH`, or
//! `binary://PROGRAM?NAME=VALUE`, a logging program with arguments.

use std::path::PathBuf;

use baton_fault::{Code, Fault, Result};

/// Where a stream goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere.
    None,
    /// Into a FIFO, or a file that exists.
    Path(PathBuf),
    /// To the end of a file, which is made where there is none.
    File(PathBuf),
    /// Into a logging program.
    Binary {
        /// The program.
        program: PathBuf,
        /// Its arguments: each name, followed by its first value.
        args: Vec<String>,
    },
}

impl Destination {
    /// Reads what a client has written.
    ///
    /// # Errors
    /// `USAGE` for a scheme that is none of these, or a path that is not absolute.
    pub fn parse(text: &str) -> Result<Destination> {
        let refused = |why: &str| {
            Fault::new(Code::Usage, format!("attach a stream to {text}"), why)
                .advise("name a FIFO, file:///PATH or binary:///PROGRAM?NAME=VALUE")
        };
        if text.is_empty() {
            return Ok(Destination::None);
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(Destination::Path(PathBuf::from(text))) };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        // What stands before the path is a host, which means nothing here.
        let path = path.find('/').map_or("", |start| &path[start..]);
        let path = PathBuf::from(decoded(path, false).ok_or_else(|| refused("it is not text"))?);
        if !path.is_absolute() {
            return Err(refused("it names no absolute path"));
        }
        match scheme {
            "fifo" => Ok(Destination::Path(path)),
            "file" => Ok(Destination::File(path)),
            "binary" => {
                let args = arguments(query).ok_or_else(|| refused("its arguments are not text"))?;
                Ok(Destination::Binary { program: path, args })
            }
            scheme => Err(refused(&format!("the scheme {scheme} is not known"))),
        }
    }
}

fn arguments(query: &str) -> Option<Vec<String>> {
    let mut seen = Vec::new();
    let mut args = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let name = decoded(name, true)?;
        if !seen.contains(&name) {
            args.extend([name.clone(), decoded(value, true)?]);
            seen.push(name);
        }
    }
    Some(args)
}

/// Text with `%41` for a byte and, in a query, `+` for a blank.
fn decoded(text: &str, query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'%' => {
                let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &tail[2..];
            }
            b'+' if query => bytes.push(b' '),
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_files_and_programs_are_told_apart() {
        let parse = |text: &str| Destination::parse(text).expect(text);
        assert_eq!(parse(""), Destination::None);
        assert_eq!(parse("/run/fifo/a-stdout"), Destination::Path("/run/fifo/a-stdout".into()));
        assert_eq!(parse("fifo:///run/x"), Destination::Path("/run/x".into()));
        assert_eq!(parse("file:///var/log/a%20b.log"), Destination::File("/var/log/a b.log".into()));
        assert_eq!(
            parse("binary:///usr/bin/log?mode=a+b&path=%2Ftmp%2Fx&mode=c&last"),
            Destination::Binary {
                program: "/usr/bin/log".into(),
                args: ["mode", "a b", "path", "/tmp/x", "last", ""].map(str::to_string).to_vec(),
            }
        );
    }

    #[test]
    fn what_is_no_destination_is_refused() {
        for text in ["npipe:////x", "file://", "file://relative", "binary:///x?%zz=1", "file:///%00", "file:///%ff"] {
            assert_eq!(Destination::parse(text).expect_err(text).code, Code::Usage, "{text}");
        }
    }
}
