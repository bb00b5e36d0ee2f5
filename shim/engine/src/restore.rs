//! stub
use std::path::PathBuf;
use baton_criu::TcpMode;
use baton_fault::{Code, Fault, Result};
use crate::Engine;
/// What `restore` is told.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Restore { pub bundle: PathBuf, pub image_path: PathBuf, pub work_path: Option<PathBuf>, pub pid_file: Option<PathBuf>, pub console_socket: Option<PathBuf>, pub detach: bool, pub tcp: TcpMode, pub ext_unix_sk: bool, pub shell_job: bool, pub file_locks: bool }
impl Engine {
    /// stub
    pub fn restore(&self, id: &str, _restore: &Restore) -> Result<Option<i32>> {
        Err(Fault::new(Code::Engine, format_args!("restore {id}"), "not yet"))
    }
}
