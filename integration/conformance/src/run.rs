//! One run of the suite, with one runtime handler.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use baton_fault::{Attempt, Code, Fault, Result};
use baton_nodes::Node;

use crate::images::{PLAIN, WEB, registry};
use crate::report::{self, Case};
use crate::skipped::{self, Skipped};

/// Longest run of the suite, in seconds; it takes some minutes.
const LONGEST: &str = "1500";

/// A run.
pub struct Run<'a> {
    /// The node on which containerd runs.
    pub node: &'a Node,
    /// The runtime handler.
    pub handler: &'a str,
    /// Which cases; all, if none is said.
    pub focus: Option<&'a str>,
    /// Where report and logs go.
    pub out: &'a Path,
}

impl Run<'_> {
    /// Runs the suite; its cases, and those that it was told to skip.
    ///
    /// # Errors
    /// When it did not come to its end.
    pub fn run(&self) -> Result<(Vec<Case>, Vec<Skipped>)> {
        let version = self.containerd_version()?;
        let skipped = skipped::list(&version)
            .map_err(|err| Fault::new(Code::Usage, "read skipped.toml", err).advise("correct it"))?;
        let images = format!("defaultTestContainerImage: {0}/{PLAIN}\nwebServerTestImage: {0}/{WEB}\n", registry());
        let file = self.node.root_path("/tmp/critest-images.yaml");
        fs::write(&file, images).attempt(|| format!("write {}", file.display()))?;
        fs::create_dir_all(self.out).attempt(|| format!("make {}", self.out.display()))?;
        println!("critest with containerd {version} and handler {} …", self.handler);
        let done = self.suite(&skipped::expression(&skipped))?;
        let report = self.keep("/tmp/critest.json", "json")?;
        self.keep("/var/log/containerd.log", "containerd.log")?;
        let cases = report::read(&report).map_err(|err| Fault::new(Code::System, "read the report of critest", err))?;
        if cases.is_empty() {
            return Err(Fault::new(Code::System, "run critest", format!("{done}, and no case in its report"))
                .advise(format!("see {}", self.path("log").display())));
        }
        Ok((cases, skipped))
    }

    fn suite(&self, skip: &str) -> Result<std::process::ExitStatus> {
        let log = self.path("log");
        let log_file = File::create(&log).attempt(|| format!("make {}", log.display()))?;
        let handler = format!("--runtime-handler={}", self.handler);
        let (skip, focus) = (format!("--ginkgo.skip={skip}"), format!("--ginkgo.focus={}", self.focus.unwrap_or("")));
        let command = [
            "timeout",
            "-k",
            "10",
            LONGEST,
            "critest",
            &handler,
            &skip,
            &focus,
            "--ginkgo.seed=1",
            "--ginkgo.no-color",
            "--test-images-file=/tmp/critest-images.yaml",
            "--ginkgo.json-report=/tmp/critest.json",
        ];
        let mut command = self.node.command(command);
        command.stdin(Stdio::null()).stderr(log_file.try_clone().attempt(|| "share the log")?).stdout(log_file);
        command.status().attempt(|| "run critest")
    }

    fn containerd_version(&self) -> Result<String> {
        let said = self.node.ok(&["containerd", "--version"])?;
        let word = said.split_whitespace().nth(2).unwrap_or_default();
        let word = word.trim_start_matches('v');
        Ok(word.split(['~', '+', '-']).next().unwrap_or(word).to_owned())
    }

    fn path(&self, kind: &str) -> std::path::PathBuf {
        self.out.join(format!("{}.{kind}", self.handler))
    }

    /// Copies a file of the node to where it outlives it.
    fn keep(&self, file: &str, kind: &str) -> Result<String> {
        let bytes = fs::read(self.node.root_path(file)).attempt(|| format!("read {file} of the node"))?;
        let path = self.path(kind);
        fs::write(&path, &bytes).attempt(|| format!("write {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
