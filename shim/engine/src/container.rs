//! A container of the state folder, found by its id.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use libcontainer::container::{Container, ContainerStatus};
use libcontainer::error::LibcontainerError;

use crate::Engine;
use crate::process;

/// Start time of the first process, in the state folder.
const START_FILE: &str = "init.start";

/// Longest id: it names a folder and a cgroup.
const ID_MAX: usize = 255;

impl Engine {
    /// The state folder of `id`.
    ///
    /// # Errors
    /// `USAGE` for an id that could leave the folder or is not one of runc's alphabet.
    pub(crate) fn folder(&self, id: &str) -> Result<PathBuf> {
        let valid = |c: char| c.is_ascii_alphanumeric() || "_+-.".contains(c);
        if id.is_empty() || id == "." || id == ".." || id.len() > ID_MAX || !id.chars().all(valid) {
            return Err(Fault::new(Code::Usage, format_args!("container id {id:?}"), "not a valid id")
                .advise("use letters, digits and _ + - ."));
        }
        Ok(self.root.join(id))
    }

    /// Loads the container `id`; its status is that of this moment.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is none.
    pub(crate) fn load(&self, id: &str) -> Result<Container> {
        let folder = self.folder(id)?;
        if !folder.join("state.json").exists() {
            return Err(not_found(id));
        }
        let loaded = Container::load(folder.clone());
        // It may have been deleted meanwhile.
        let gone = loaded.is_err() && !folder.exists();
        let mut container = loaded.map_err(|err| match gone {
            true => not_found(id),
            false => engine(format_args!("load container {id}"), &err),
        })?;
        if let Some(pid) = container.pid()
            && is_recycled(&container, pid.as_raw())
        {
            container.set_status(ContainerStatus::Stopped);
            container.state.pid = None;
        }
        Ok(container)
    }
}

/// The fault of an id that no container has.
pub(crate) fn not_found(id: &str) -> Fault {
    Fault::new(Code::NotFound, format_args!("container {id}"), "does not exist").advise("see `baton list`")
}

/// A failure of libcontainer, with all that lies under it.
pub(crate) fn engine(what: impl std::fmt::Display, err: &LibcontainerError) -> Fault {
    let code = match err {
        LibcontainerError::Exist => Code::Exists,
        LibcontainerError::NoDirectory => Code::NotFound,
        LibcontainerError::IncorrectStatus(_) => Code::State,
        LibcontainerError::MissingSpec(_) | LibcontainerError::InvalidSpec(_) | LibcontainerError::Spec(_) => {
            Code::Bundle
        }
        _ => Code::Engine,
    };
    let advice = match code {
        Code::Exists => "use another id, or delete the container of that id",
        Code::NotFound => "see `baton list`",
        Code::State => "see its state with `baton state`",
        _ => "correct config.json or the command",
    };
    Fault::new(code, what, chain(err)).advise(advice)
}

/// An error and its sources, each said once.
pub(crate) fn chain(err: &dyn Error) -> String {
    let mut text = err.to_string();
    let mut source = err.source();
    while let Some(err) = source {
        let part = err.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = err.source();
    }
    text
}

/// Writes down the start time of the container's first process.
pub(crate) fn record_start(folder: &Path, pid: i32) -> Result<()> {
    let start = process::start_time(pid)?;
    let file = folder.join(START_FILE);
    fs::write(&file, start.to_string()).attempt(|| format!("write {}", file.display()))
}

fn is_recycled(container: &Container, pid: i32) -> bool {
    let Ok(text) = fs::read_to_string(container.root.join(START_FILE)) else { return false };
    match (text.trim().parse::<u64>(), process::start_time(pid)) {
        (Ok(then), Ok(now)) => then != now,
        _ => false,
    }
}

/// Writes a pid file in one step, so that nobody reads half a number.
pub(crate) fn write_pid_file(path: &Path, pid: i32) -> Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| Fault::new(Code::Usage, format_args!("pid file {}", path.display()), "names no file"))?;
    let temporary = path.with_file_name(format!(".{}", name.to_string_lossy()));
    fs::write(&temporary, pid.to_string())
        .and_then(|()| fs::rename(&temporary, path))
        .attempt(|| format!("write pid file {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_leave_the_state_folder() {
        let engine = Engine::new("/run/x");
        for id in ["", ".", "..", "a/b", "../a", "a b", "a\n", &"x".repeat(256)] {
            assert_eq!(engine.folder(id).expect_err(id).code, Code::Usage);
        }
        assert_eq!(engine.folder("job-1_a.b+c").expect("valid"), Path::new("/run/x/job-1_a.b+c"));
    }

    #[test]
    fn an_unknown_container_is_named() {
        let engine = Engine::new("/nonexistent");
        let fault = engine.load("job").expect_err("none");
        assert_eq!(fault.code, Code::NotFound);
        assert!(fault.to_string().contains("container job: does not exist"), "{fault}");
    }

    #[test]
    fn a_pid_file_holds_the_number_alone() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let file = dir.path().join("init.pid");
        write_pid_file(&file, 4242).expect("write");
        assert_eq!(fs::read_to_string(file).expect("read"), "4242");
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
    }
}
