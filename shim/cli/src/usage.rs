//! `--help` and `--version`.

/// What `--help` prints.
pub const HELP: &str = "\
baton: run, save and restore GPU containers

USAGE: baton [GLOBAL OPTIONS] VERB [OPTIONS] [ARGUMENTS]

For the person at a node:
  save CONTAINER REF [--push] [--stop]   save a container into an image
  devices                                the GPUs of this node and who has them
  inspect REF                            what a checkpoint image holds

OCI runtime, with runc's options:
  create ID --bundle DIR                 make a container; its program waits
  start ID                               let the program begin
  run ID --bundle DIR                    create, start, wait, delete
  exec ID COMMAND...                     one more program in it
  state ID | list | ps ID                look
  kill ID [SIGNAL] [--all]               signal it (SIGTERM)
  pause ID | resume ID                   freeze it, let it go on
  checkpoint ID --image-path DIR         save its processes into a folder
  restore ID --image-path DIR            rebuild them under a new id
  delete ID [--force]                    forget it

GLOBAL OPTIONS
  --root DIR            state folder (/run/baton/engine)
  --log FILE            also write errors there
  --log-format text|json
  --systemd-cgroup      let systemd make the cgroups
  --debug, --rootless   taken for runc's sake
  --version, --help

Errors are one line, `baton: CODE: what: why; what to do`; exit status 2 for a wrong command line, else 1.
";

/// What `--version` prints: the version, and the specification's, in runc's form.
pub fn version() -> String {
    format!("baton version {}\nspec: 1.2.1\n", env!("CARGO_PKG_VERSION"))
}
