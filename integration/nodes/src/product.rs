//! Baton's own programs, as they are installed: where a build has put them.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What is installed on a node.
pub const PROGRAMS: [&str; 4] = ["baton", "baton-gpu-agent", "baton-hook", "containerd-shim-baton-v2"];
/// The folder of the profile with which they are built to be installed, beside that of the profile `release`.
const PROFILE: &str = "product";

/// The program of that name, for those who were built into the folder `built`: the one of the profile `product`, or that
/// beside them where it was built later, as after a change that one tries out. It may be missing.
pub fn program(built: &Path, name: &str) -> PathBuf {
    let beside = built.join(name);
    let product = built.with_file_name(PROFILE).join(name);
    if time(&product) < time(&beside) { beside } else { product }
}

/// When it was built; nothing is older than what is not there.
fn time(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|meta| meta.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_that_was_built_last_is_the_one_that_is_tried() {
        let target = tempfile::tempdir().expect("a folder");
        let (release, product) = (target.path().join("release"), target.path().join("product"));
        let put = |folder: &Path, seconds| {
            std::fs::create_dir_all(folder).expect("a folder");
            let file = std::fs::File::create(folder.join("baton")).expect("a file");
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).expect("its time");
        };
        put(&release, 5);
        assert_eq!(program(&release, "baton"), release.join("baton"));
        put(&product, 6);
        assert_eq!(program(&release, "baton"), product.join("baton"));
        put(&release, 7);
        assert_eq!(program(&release, "baton"), release.join("baton"));
        std::fs::remove_file(release.join("baton")).expect("removed");
        assert_eq!(program(&release, "baton"), product.join("baton"));
    }
}
