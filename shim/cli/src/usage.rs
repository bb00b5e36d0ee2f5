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
  events ID [--stats]                    what it uses, and when it runs out of memory
  update ID                              other limits for it
  kill ID [SIGNAL] [--all]               signal it (SIGTERM)
  pause ID | resume ID                   freeze it, let it go on
  checkpoint ID --image-path DIR         save its processes into a folder
  restore ID --image-path DIR            rebuild them under a new id
  delete ID [--force]                    forget it
  spec | features                        a config.json to begin with; what this runtime can do

GLOBAL OPTIONS
  --root DIR            state folder (/run/baton/engine)
  --log FILE            also write errors there
  --log-format text|json
  --systemd-cgroup      let systemd make the cgroups
  --debug, --criu, --rootless auto|false
                        taken for runc's sake
  --version, --help

Errors are one line, `baton: CODE: what: why; what to do`. The exit status of `run`, `exec` and `restore` is that of
the program. On an error it is 255 for `exec`, 2 for a wrong command line of an operator's verb, else 1.
";

/// What `--version` prints: the version, and the specification's, in runc's form.
pub fn version() -> String {
    format!("baton version {}\nspec: 1.2.1\n", env!("CARGO_PKG_VERSION"))
}
