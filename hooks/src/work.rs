//! The work of one hook, as arguments on its command line:
//!
//! ```text
//! baton-hook create-container [--link /usr/lib/libcuda.so.1=libcuda.so.570.1]... [--ldconfig /sbin/ldconfig]
//!            [--library-dir /usr/lib]... [--mask-params]
//! ```

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use baton_fault::{Code, Fault, Result};

/// Most links and library directories of one hook: a driver brings some sixty libraries.
const ENTRIES_MAX: usize = 1024;
/// Longest path in an argument, in bytes (`PATH_MAX` of Linux).
const PATH_MAX: usize = 4096;
/// The only kind of hook there is.
const VERB: &str = "create-container";

/// A symbolic link to be made inside the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Absolute path of the link in the container.
    pub path: PathBuf,
    /// The file name that it names, in the same directory.
    pub target: String,
}

/// What one run of the hook is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Links to make.
    pub links: Vec<Link>,
    /// The host's `ldconfig`, for the image's library cache.
    pub ldconfig: Option<PathBuf>,
    /// Directories in the container that hold driver libraries.
    pub library_dirs: Vec<PathBuf>,
    /// Whether to mask the driver's `ModifyDeviceFiles` parameter.
    pub mask_params: bool,
}

impl Work {
    /// The arguments that name this work, without the program's name.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec![VERB.to_owned()];
        for link in &self.links {
            args.extend(["--link".to_owned(), format!("{}={}", link.path.display(), link.target)]);
        }
        if let Some(ldconfig) = &self.ldconfig {
            args.extend(["--ldconfig".to_owned(), ldconfig.display().to_string()]);
        }
        for dir in &self.library_dirs {
            args.extend(["--library-dir".to_owned(), dir.display().to_string()]);
        }
        if self.mask_params {
            args.push("--mask-params".to_owned());
        }
        args
    }

    /// Reads the work back from arguments, without the program's name.
    ///
    /// # Errors
    /// `USAGE`, naming the argument.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Work> {
        let mut args =
            args.into_iter().map(|arg| arg.into_string().map_err(|arg| usage(&arg.to_string_lossy(), "is not text")));
        match args.next().transpose()? {
            Some(verb) if verb == VERB => {}
            Some(verb) => return Err(usage(&verb, "is not a kind of hook known here")),
            None => return Err(usage("", "no kind of hook is named")),
        }
        let mut work = Work::default();
        while let Some(option) = args.next().transpose()? {
            if option == "--mask-params" {
                work.mask_params = true;
                continue;
            }
            if !matches!(option.as_str(), "--link" | "--ldconfig" | "--library-dir") {
                return Err(usage(&option, "is not an option known here"));
            }
            let value = args.next().transpose()?.ok_or_else(|| usage(&option, "its value is missing"))?;
            work.take(&option, &value)?;
        }
        Ok(work)
    }

    fn take(&mut self, option: &str, value: &str) -> Result<()> {
        if self.links.len() + self.library_dirs.len() >= ENTRIES_MAX {
            return Err(usage(option, &format!("more than {ENTRIES_MAX} entries")));
        }
        match option {
            "--link" => self.links.push(Link::parse(value)?),
            "--ldconfig" => self.ldconfig = Some(absolute(value)?),
            _ => self.library_dirs.push(absolute(value)?),
        }
        Ok(())
    }
}

impl Link {
    fn parse(text: &str) -> Result<Link> {
        let (path, target) = text.split_once('=').ok_or_else(|| usage(text, "is not LINK=TARGET"))?;
        let path = absolute(path)?;
        if path.file_name().is_none() || target.is_empty() || target.contains('/') || target == "." || target == ".." {
            return Err(usage(text, "a link names a file of its own directory"));
        }
        Ok(Link { path, target: target.to_owned() })
    }
}

fn absolute(text: &str) -> Result<PathBuf> {
    let path = Path::new(text);
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if text.len() > PATH_MAX || !path.is_absolute() || !plain {
        return Err(usage(text, "is not an absolute path without `..`"));
    }
    Ok(path.to_owned())
}

fn usage(argument: &str, why: &str) -> Fault {
    Fault::new(Code::Usage, format!("baton-hook argument {argument:?}"), why)
        .advise("this program is started by the container runtime; its arguments come from config.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Work> {
        Work::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn arguments_carry_the_work() {
        let work = Work {
            links: vec![Link { path: "/usr/lib64/libcuda.so.1".into(), target: "libcuda.so.570.1".into() }],
            ldconfig: Some("/sbin/ldconfig".into()),
            library_dirs: vec!["/usr/lib64".into()],
            mask_params: true,
        };
        let args = work.to_args();
        assert_eq!(
            args,
            [
                "create-container",
                "--link",
                "/usr/lib64/libcuda.so.1=libcuda.so.570.1",
                "--ldconfig",
                "/sbin/ldconfig",
                "--library-dir",
                "/usr/lib64",
                "--mask-params"
            ]
        );
        assert_eq!(Work::parse(args.into_iter().map(OsString::from)), Ok(work));
    }

    #[test]
    fn bad_arguments_are_named() {
        for args in [
            &[][..],
            &["prestart"],
            &["create-container", "--shell", "x"],
            &["create-container", "--link"],
            &["create-container", "--link", "/usr/lib/a"],
            &["create-container", "--link", "usr/lib/a=b"],
            &["create-container", "--link", "/usr/../a=b"],
            &["create-container", "--link", "/usr/lib/a=../b"],
            &["create-container", "--link", "/usr/lib/a=.."],
            &["create-container", "--ldconfig", "ldconfig"],
        ] {
            assert_eq!(parse(args).expect_err("refused").code, Code::Usage, "{args:?}");
        }
    }
}
