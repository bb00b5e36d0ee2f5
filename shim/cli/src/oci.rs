//! The OCI runtime's verbs: from runc's arguments to one call of the engine.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use baton_config::Settings;
use baton_engine::{Checkpoint, Create, Exec, Restore, Signal, TcpMode};
use baton_fault::{Attempt, Code, Fault, Result};
use lexopt::Arg::{Long, Short, Value};
use lexopt::Parser;
use serde::Serialize;

use crate::arguments::{id, number, path, string, text, usage};
use crate::globals::Globals;

/// Runs the verb; `None` when it is not one of an OCI runtime.
pub fn run(globals: &Globals, verb: &str, args: &[OsString]) -> Option<Result<ExitCode>> {
    let mut parser = Parser::from_args(args);
    let parser = &mut parser;
    Some(match verb {
        "create" => create(globals, parser),
        "run" => run_container(globals, parser),
        "start" => only_id(parser).and_then(|id| globals.engine().start(&id)).map(done),
        "state" => only_id(parser).and_then(|id| print(&globals.engine().state(&id)?)),
        "pause" => only_id(parser).and_then(|id| globals.engine().pause(&id)).map(done),
        "resume" => only_id(parser).and_then(|id| globals.engine().resume(&id)).map(done),
        "kill" => kill(globals, parser),
        "delete" => delete(globals, parser),
        "exec" => exec(globals, parser),
        "ps" => ps(globals, parser),
        "list" => list(globals, parser),
        "checkpoint" => checkpoint(globals, parser),
        "restore" => restore(globals, parser),
        _ => return None,
    })
}

fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

fn exit(code: Option<i32>) -> ExitCode {
    ExitCode::from(u8::try_from(code.unwrap_or(0)).unwrap_or(u8::MAX))
}

fn print<T: Serialize>(value: &T) -> Result<ExitCode> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|err| Fault::new(Code::System, "write JSON to the standard output", err))?;
    println!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn only_id(parser: &mut Parser) -> Result<String> {
    let mut values = Vec::new();
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Value(value) => values.push(value),
            other => return Err(usage(other.unexpected())),
        }
    }
    id(values)
}

fn create(globals: &Globals, parser: &mut Parser) -> Result<ExitCode> {
    let (id, create, _) = create_arguments(parser, false)?;
    inject(&create.bundle)?;
    globals.engine().create(&id, &create).map(done)
}

fn run_container(globals: &Globals, parser: &mut Parser) -> Result<ExitCode> {
    let (id, create, detach) = create_arguments(parser, true)?;
    inject(&create.bundle)?;
    globals.engine().run(&id, &create, detach).map(exit)
}

/// Gives the container the devices that it asks for, unless a shim has done so.
fn inject(bundle: &Path) -> Result<()> {
    let hook = std::env::current_exe().attempt(|| "find the folder of this program")?.with_file_name("baton-hook");
    baton_devices::inject::unless_done(bundle, &Settings::load()?.driver, &hook)
}

fn create_arguments(parser: &mut Parser, may_detach: bool) -> Result<(String, Create, bool)> {
    let mut create = Create { bundle: ".".into(), ..Create::default() };
    let mut detach = false;
    let mut values = Vec::new();
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Long("bundle") | Short('b') => create.bundle = path(parser)?,
            Long("console-socket") => create.console_socket = Some(path(parser)?),
            Long("pid-file") => create.pid_file = Some(path(parser)?),
            Long("no-pivot") => create.no_pivot = true,
            Long("no-new-keyring") => {}
            Long("preserve-fds") => create.preserve_fds = number(parser)?,
            Long("detach") | Short('d') if may_detach => detach = true,
            Value(value) => values.push(value),
            other => return Err(usage(other.unexpected())),
        }
    }
    Ok((id(values)?, create, detach))
}

fn kill(globals: &Globals, parser: &mut Parser) -> Result<ExitCode> {
    let mut all = false;
    let mut values = Vec::new();
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Long("all") | Short('a') => all = true,
            Value(value) => values.push(value),
            other => return Err(usage(other.unexpected())),
        }
    }
    let signal = if values.len() > 1 { Some(string(values.remove(1))?) } else { None };
    let signal = signal.map_or(Ok(Signal::TERM), |text| Signal::parse(&text))?;
    globals.engine().kill(&id(values)?, signal, all).map(done)
}

fn delete(globals: &Globals, parser: &mut Parser) -> Result<ExitCode> {
    let mut force = false;
    let mut values = Vec::new();
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Long("force") | Short('f') => force = true,
            Value(value) => values.push(value),
            other => return Err(usage(other.unexpected())),
        }
    }
    globals.engine().delete(&id(values)?, force).map(done)
}

fn exec(globals: &Globals, parser: &mut Parser) -> Result<ExitCode> {
    let mut exec = Exec::default();
    let mut container = None;
    loop {
        // What follows the id and is no option of ours is the command, options of its own included.
        if container.is_some() {
            let rest = parser.try_raw_args();
            if let Some(mut rest) = rest
                && rest.as_slice().first().is_some_and(|arg| !arg.to_string_lossy().starts_with("--"))
            {
                exec.args = rest.by_ref().map(string).collect::<Result<_>>()?;
                break;
            }
        }
        match parser.next().map_err(usage)? {
            None => break,
            Some(Value(value)) if container.is_none() => container = Some(string(value)?),
            // After `--`.
            Some(Value(value)) => exec.args.push(string(value)?),
            Some(Long("process") | Short('p')) => exec.process = Some(path(parser)?),
            Some(Long("pid-file")) => exec.pid_file = Some(path(parser)?),
            Some(Long("console-socket")) => exec.console_socket = Some(path(parser)?),
            Some(Long("cwd")) => exec.cwd = Some(path(parser)?),
            Some(Long("env") | Short('e')) => {
                let entry = text(parser)?;
                let (name, value) = entry.split_once('=').unwrap_or((&entry, ""));
                exec.env.insert(name.to_owned(), value.to_owned());
            }
            Some(Long("user") | Short('u')) => exec.user = Some(user(&text(parser)?)?),
            Some(Long("additional-gids") | Short('g')) => exec.additional_gids.push(number(parser)?),
            Some(Long("cap") | Short('c')) => exec.capabilities.push(text(parser)?),
            Some(Long("preserve-fds")) => exec.preserve_fds = number(parser)?,
            Some(Long("detach") | Short('d')) => exec.detach = true,
            Some(Long("no-new-privs")) => exec.no_new_privs = true,
            Some(Long("ignore-paused")) => exec.ignore_paused = true,
            Some(Long("tty") | Short('t')) => exec.tty = true,
            Some(Long("apparmor" | "process-label" | "cgroup")) => drop(text(parser)?),
            Some(other) => return Err(usage(other.unexpected())),
        }
    }
    let container = id(container.map(OsString::from).into_iter().collect())?;
    globals.engine().exec(&container, &exec).map(exit)
}

/// `UID` or `UID:GID`.
fn user(text: &str) -> Result<(u32, Option<u32>)> {
    let wrong = || Fault::new(Code::Usage, format_args!("user {text:?}"), "not UID or UID:GID in numbers");
    let (uid, gid) = text.split_once(':').map_or((text, None), |(uid, gid)| (uid, Some(gid)));
    let gid = gid.map(str::parse).transpose().map_err(|_| wrong())?;
    Ok((uid.parse().map_err(|_| wrong())?, gid))
}

fn ps(globals: &Globals, parser: &mut Parser) -> Result<ExitCode> {
    let mut json = false;
    let mut values = Vec::new();
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Long("format") | Short('f') => json = text(parser)? == "json",
            Value(value) => values.push(value),
            other => return Err(usage(other.unexpected())),
        }
    }
    let pids = globals.engine().ps(&id(values)?)?;
    if json {
        println!("{}", serde_json::json!(pids));
    } else {
        pids.iter().for_each(|pid| println!("{pid}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn list(globals: &Globals, parser: &mut Parser) -> Result<ExitCode> {
    let (mut json, mut quiet) = (false, false);
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Long("format") | Short('f') => json = text(parser)? == "json",
            Long("quiet") | Short('q') => quiet = true,
            other => return Err(usage(other.unexpected())),
        }
    }
    let containers = globals.engine().list()?;
    if json {
        return print(&containers);
    }
    if !quiet {
        println!("{:<32} {:<8} {:<8} BUNDLE", "ID", "PID", "STATUS");
    }
    for container in containers {
        match quiet {
            true => println!("{}", container.id),
            false => {
                println!(
                    "{:<32} {:<8} {:<8} {}",
                    container.id,
                    container.pid,
                    container.status,
                    container.bundle.display()
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn checkpoint(globals: &Globals, parser: &mut Parser) -> Result<ExitCode> {
    let mut checkpoint = Checkpoint { image_path: "checkpoint".into(), ..Checkpoint::default() };
    let mut values = Vec::new();
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Long("image-path") => checkpoint.image_path = path(parser)?,
            Long("work-path") => checkpoint.work_path = Some(path(parser)?),
            Long("leave-running") => checkpoint.leave_running = true,
            Long("tcp-established") => checkpoint.tcp = TcpMode::Established,
            Long("tcp-close") => checkpoint.tcp = TcpMode::Close,
            Long("tcp-skip-in-flight") => checkpoint.tcp_skip_in_flight = true,
            Long("ext-unix-sk") => checkpoint.ext_unix_sk = true,
            Long("shell-job") => checkpoint.shell_job = true,
            Long("file-locks") => checkpoint.file_locks = true,
            // The live spec decides over cgroups and namespaces, not the image.
            Long("manage-cgroups-mode" | "empty-ns") => drop(text(parser)?),
            Long("link-remap") => {}
            Value(value) => values.push(value),
            other => return Err(usage(other.unexpected())),
        }
    }
    globals.engine().checkpoint(&id(values)?, &checkpoint).map(done)
}

fn restore(globals: &Globals, parser: &mut Parser) -> Result<ExitCode> {
    let mut restore = Restore { bundle: ".".into(), image_path: "checkpoint".into(), ..Restore::default() };
    let mut values = Vec::new();
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Long("bundle") | Short('b') => restore.bundle = path(parser)?,
            Long("image-path") => restore.image_path = path(parser)?,
            Long("work-path") => restore.work_path = Some(path(parser)?),
            Long("pid-file") => restore.pid_file = Some(path(parser)?),
            Long("console-socket") => restore.console_socket = Some(path(parser)?),
            Long("detach") | Short('d') => restore.detach = true,
            Long("tcp-established") => restore.tcp = TcpMode::Established,
            Long("tcp-close") => restore.tcp = TcpMode::Close,
            Long("ext-unix-sk") => restore.ext_unix_sk = true,
            Long("shell-job") => restore.shell_job = true,
            Long("file-locks") => restore.file_locks = true,
            Long("manage-cgroups-mode" | "empty-ns") => drop(text(parser)?),
            Long("no-subreaper" | "no-pivot") => {}
            Value(value) => values.push(value),
            other => return Err(usage(other.unexpected())),
        }
    }
    globals.engine().restore(&id(values)?, &restore).map(exit)
}
