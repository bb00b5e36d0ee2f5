//! `state.json`: what is known of a container. Whoever is killed while it is written leaves the file of before.

use std::fs;

use baton_fault::{Attempt, Code, Fault, Result};
use libcontainer::container::Container;

/// The file, as libcontainer reads it, and the one that takes its place.
const FILE: &str = "state.json";
const FRESH: &str = ".state.json.new";

/// Writes down the container's state, whole or not at all.
///
/// # Errors
/// `FILE`, `NO_SPACE`.
pub(crate) fn save(container: &Container) -> Result<()> {
    let what = || format!("write down the state of container {}", container.id());
    let text = serde_json::to_vec(&container.state).map_err(|err| Fault::new(Code::System, what(), err))?;
    let fresh = container.root.join(FRESH);
    fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, container.root.join(FILE))).attempt(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use libcontainer::container::{ContainerStatus, State};

    #[test]
    fn it_is_read_back_and_a_half_written_one_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let mut container = Container::new("c", ContainerStatus::Creating, None, path, path).expect("a container");
        container.set_status(ContainerStatus::Created);
        save(&container).expect("written");
        fs::write(path.join(FRESH), "{\"half").expect("written");
        let read = State::load(path).expect("read");
        assert_eq!((read.id.as_str(), read.status), ("c", ContainerStatus::Created));
        save(&container).expect("written again");
        assert!(!path.join(FRESH).exists());
        // Nothing is written where there is no room for it.
        container.root = path.join("missing");
        assert_eq!(save(&container).map_err(|fault| fault.code), Err(Code::File));
    }
}
