//! `baton-gpu-agent --libcuda PATH`: loads the CUDA driver library and asks it what the shim wants to know,
//! until standard input ends.

mod cuda;
mod serve;

use std::ffi::OsString;
use std::path::PathBuf;

use baton_fault::{Code, Fault, Result};

fn main() {
    let status = match arguments(std::env::args_os().skip(1)).and_then(|path| serve::serve(&path)) {
        Ok(()) => 0,
        Err(fault) => {
            eprintln!("{fault}");
            1
        }
    };
    // Ends the threads too whose calls hang.
    std::process::exit(status);
}

fn arguments(mut args: impl Iterator<Item = OsString>) -> Result<PathBuf> {
    let usage = |why: &str| {
        Fault::new(Code::Usage, "start baton-gpu-agent", why)
            .advise("it is started by the shim as `baton-gpu-agent --libcuda PATH`")
    };
    match (args.next(), args.next(), args.next()) {
        (Some(option), Some(path), None) if option == "--libcuda" => {
            let path = PathBuf::from(path);
            // A bare name would be looked up in the search path.
            if path.is_absolute() { Ok(path) } else { Err(usage("PATH is not absolute")) }
        }
        (None, ..) => Err(usage("--libcuda PATH is missing")),
        _ => Err(usage("unknown or missing argument")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_absolute_library_is_taken() {
        let parse = |args: &[&str]| arguments(args.iter().map(OsString::from));
        assert_eq!(parse(&["--libcuda", "/usr/lib/libcuda.so.1"]), Ok(PathBuf::from("/usr/lib/libcuda.so.1")));
        for args in [&[][..], &["--libcuda"], &["--libcuda", "libcuda.so.1"], &["--help"], &["--libcuda", "/a", "b"]] {
            assert_eq!(parse(args).expect_err("usage").code, Code::Usage);
        }
    }
}
