//! `exec`.

use std::ffi::OsString;
use std::process::ExitCode;

use baton_engine::Exec;
use baton_fault::{Code, Fault, Result};

use super::exit;
use crate::globals::Globals;
use crate::options::{Known, Options, Words, refused, switch, value};

const EXEC: &[Known] = &[
    value("console-socket", None),
    value("cwd", None),
    value("env", Some('e')),
    switch("tty", Some('t')),
    value("user", Some('u')),
    value("additional-gids", Some('g')),
    value("process", Some('p')),
    switch("detach", Some('d')),
    value("pid-file", None),
    value("process-label", None),
    value("apparmor", None),
    switch("no-new-privs", None),
    value("cap", Some('c')),
    value("preserve-fds", None),
    value("cgroup", None),
    switch("ignore-paused", None),
    refused("pidfd-socket", "Baton sends no pidfd; use --pid-file"),
];

pub fn exec(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    let mut options = Options::read("exec", args, EXEC, Words::Command)?;
    let command = if options.words.is_empty() { Vec::new() } else { options.words.split_off(1) };
    let exec = Exec {
        process: options.path("process"),
        args: command.into_iter().map(crate::arguments::string).collect::<Result<_>>()?,
        cwd: options.path("cwd"),
        env: options.all("env")?.iter().map(|entry| variable(entry)).collect(),
        user: options.text("user")?.map(user).transpose()?,
        additional_gids: groups(&options.all("additional-gids")?)?,
        capabilities: options.all("cap")?,
        no_new_privs: options.is_on("no-new-privs"),
        pid_file: options.path("pid-file"),
        console_socket: options.path("console-socket"),
        tty: options.is_on("tty"),
        detach: options.is_on("detach"),
        preserve_fds: options.number("preserve-fds")?.unwrap_or(0),
        ignore_paused: options.is_on("ignore-paused"),
        apparmor: options.text("apparmor")?.map(str::to_owned),
        selinux: options.text("process-label")?.map(str::to_owned),
        cgroups: options.all("cgroup")?,
    };
    globals.engine().exec(&options.id()?, &exec).map(exit)
}

fn variable(entry: &str) -> (String, String) {
    let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
    (name.to_owned(), value.to_owned())
}

/// `UID` or `UID:GID`.
fn user(text: &str) -> Result<(u32, Option<u32>)> {
    let wrong = || {
        Fault::new(Code::Usage, format_args!("user {text:?}"), "not UID or UID:GID in numbers")
            .advise("look the numbers up in the container's /etc/passwd")
    };
    let (uid, gid) = text.split_once(':').map_or((text, None), |(uid, gid)| (uid, Some(gid)));
    let gid = gid.map(str::parse).transpose().map_err(|_| wrong())?;
    Ok((uid.parse().map_err(|_| wrong())?, gid))
}

fn groups(values: &[String]) -> Result<Vec<u32>> {
    let wrong = |text: &str| {
        Fault::new(Code::Usage, format_args!("additional group {text:?}"), "not a number")
            .advise("pass a group's number")
    };
    let words = values.iter().flat_map(|value| value.split(','));
    words.map(|word| word.trim().parse().map_err(|_| wrong(word))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_numbers() {
        assert_eq!(user("7"), Ok((7, None)));
        assert_eq!(user("7:8"), Ok((7, Some(8))));
        for wrong in ["root", "7:", ":8", "-1", "7:8:9"] {
            assert_eq!(user(wrong).map_err(|fault| fault.code), Err(Code::Usage), "{wrong}");
        }
        assert_eq!(groups(&["1,2".into(), "3".into()]), Ok(vec![1, 2, 3]));
        assert!(groups(&["wheel".into()]).is_err());
    }
}
