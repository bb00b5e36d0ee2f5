//! `checkpoint` and `restore`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use baton_engine::{Checkpoint, PageServer, Restore, TcpMode};
use baton_fault::{Code, Fault, Result};

use super::{done, exit};
use crate::globals::Globals;
use crate::options::{Known, Options, Words, refused, switch, value};

const LAZY: &str = "memory that comes when it is touched is not for Baton; leave it out";

const CHECKPOINT: &[Known] = &[
    value("image-path", None),
    value("work-path", None),
    value("parent-path", None),
    switch("leave-running", None),
    switch("tcp-established", None),
    switch("tcp-close", None),
    switch("tcp-skip-in-flight", None),
    switch("link-remap", None),
    switch("ext-unix-sk", None),
    switch("shell-job", None),
    refused("lazy-pages", LAZY),
    refused("status-fd", LAZY),
    value("page-server", None),
    switch("file-locks", None),
    switch("pre-dump", None),
    value("manage-cgroups-mode", None),
    value("empty-ns", None),
    switch("auto-dedup", None),
];

const RESTORE: &[Known] = &[
    value("console-socket", None),
    value("image-path", None),
    value("work-path", None),
    // Not one of runc's: without it, images that name others are refused.
    value("parent-path", None),
    value("bundle", Some('b')),
    value("pid-file", None),
    switch("detach", Some('d')),
    switch("tcp-established", None),
    switch("tcp-close", None),
    switch("ext-unix-sk", None),
    switch("shell-job", None),
    // Locks that were saved are always taken again.
    switch("file-locks", None),
    value("manage-cgroups-mode", None),
    value("empty-ns", None),
    // CRIU pivots by itself, and orphans are for whoever is a subreaper above us.
    switch("no-subreaper", None),
    switch("no-pivot", None),
    switch("auto-dedup", None),
    refused("lazy-pages", LAZY),
    value("lsm-profile", None),
    value("lsm-mount-context", None),
];

pub fn checkpoint(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    let options = Options::read("checkpoint", args, CHECKPOINT, Words::Mixed)?;
    ruled_by_the_spec(&options)?;
    let checkpoint = Checkpoint {
        image_path: image_path(&options),
        work_path: options.path("work-path"),
        parent_path: options.path("parent-path"),
        leave_running: options.is_on("leave-running"),
        tcp: tcp(&options),
        tcp_skip_in_flight: options.is_on("tcp-skip-in-flight"),
        ext_unix_sk: options.is_on("ext-unix-sk"),
        shell_job: options.is_on("shell-job"),
        file_locks: options.is_on("file-locks"),
        page_server: options.text("page-server")?.map(page_server).transpose()?,
        pre_dump: options.is_on("pre-dump"),
        auto_dedup: options.is_on("auto-dedup"),
    };
    globals.engine().checkpoint(&options.id()?, &checkpoint).map(done)
}

pub fn restore(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    let options = Options::read("restore", args, RESTORE, Words::Mixed)?;
    ruled_by_the_spec(&options)?;
    let restore = Restore {
        bundle: options.path("bundle").unwrap_or_else(|| ".".into()),
        image_path: image_path(&options),
        work_path: options.path("work-path"),
        pid_file: options.path("pid-file"),
        console_socket: options.path("console-socket"),
        detach: options.is_on("detach"),
        tcp: tcp(&options),
        ext_unix_sk: options.is_on("ext-unix-sk"),
        shell_job: options.is_on("shell-job"),
        parent_path: options.path("parent-path"),
        auto_dedup: options.is_on("auto-dedup"),
        lsm_profile: options.text("lsm-profile")?.map(str::to_owned),
        lsm_mount_context: options.text("lsm-mount-context")?.map(str::to_owned),
    };
    globals.engine().restore(&options.id()?, &restore).map(exit)
}

fn image_path(options: &Options) -> PathBuf {
    options.path("image-path").unwrap_or_else(|| "checkpoint".into())
}

fn tcp(options: &Options) -> TcpMode {
    match (options.is_on("tcp-established"), options.is_on("tcp-close")) {
        (_, true) => TcpMode::Close,
        (true, false) => TcpMode::Established,
        (false, false) => TcpMode::Refuse,
    }
}

/// The live spec decides over cgroups and namespaces, not the image: only what agrees with that is taken.
fn ruled_by_the_spec(options: &Options) -> Result<()> {
    match options.text("manage-cgroups-mode")? {
        None | Some("soft" | "ignore") => {}
        Some(mode @ ("full" | "strict")) => {
            let what = format_args!("--manage-cgroups-mode {mode}").to_string();
            let why = "the cgroup and its limits are those of the live spec, not of the image";
            return Err(Fault::new(Code::Usage, what, why).advise("use soft"));
        }
        Some(mode) => {
            return Err(Fault::new(Code::Usage, format_args!("--manage-cgroups-mode {mode}"), "invalid mode")
                .advise("use soft"));
        }
    }
    match options.all("empty-ns")?.iter().find(|kind| *kind != "network") {
        None => Ok(()),
        Some(kind) => {
            Err(Fault::new(Code::Usage, format_args!("--empty-ns {kind}"), "this namespace is not supported")
                .advise("only network is"))
        }
    }
}

/// `ADDRESS:PORT`, or `[ADDRESS]:PORT`.
fn page_server(text: &str) -> Result<PageServer> {
    let split = text.rsplit_once(':').and_then(|(address, port)| Some((address, port.parse::<u16>().ok()?)));
    let (address, port) = split.filter(|(address, port)| !address.is_empty() && *port != 0).ok_or_else(|| {
        Fault::new(Code::Usage, format_args!("--page-server {text}"), "not ADDRESS:PORT")
            .advise("write it as 10.0.0.1:9999")
    })?;
    Ok(PageServer { address: address.trim_start_matches('[').trim_end_matches(']').to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_server_is_an_address_and_a_port() {
        assert_eq!(page_server("10.0.0.1:99"), Ok(PageServer { address: "10.0.0.1".into(), port: 99 }));
        assert_eq!(page_server("[::1]:99"), Ok(PageServer { address: "::1".into(), port: 99 }));
        for wrong in ["", "10.0.0.1", ":99", "a:0", "a:b"] {
            assert!(page_server(wrong).is_err(), "{wrong}");
        }
    }
}
