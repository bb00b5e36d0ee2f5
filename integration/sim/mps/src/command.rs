//! The commands of an administrator, and what they print.

use crate::control::{Condition, Control, Server};
use crate::limits::{percentage, size};

/// What is left to do once a command has been understood.
#[derive(Debug, PartialEq, Eq)]
pub enum Deed {
    /// Print this.
    Print(String),
    /// Start a server for that user.
    StartServer(u32),
    /// End that server.
    EndServer(i32),
    /// Cut the connection with that number.
    Cut(u64),
    /// Take no more clients, and end when the last has gone, or after that many seconds.
    Quit(Option<u64>),
}

/// Carries out what changes only the records.
///
/// # Errors
/// What is wrong with the line, as it is printed.
pub fn run(control: &mut Control, line: &str) -> Result<Deed, String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let print = |text: String| Ok(Deed::Print(text));
    match words.as_slice() {
        ["get_server_list"] => print(lines(control.servers.keys())),
        ["get_server_status", pid] => print(condition(server(control, pid)?.1)),
        ["get_client_list", pid] => print(lines(server(control, pid)?.1.clients.values().map(|client| client.pid))),
        ["get_device_client_list"] => print(by_card(control)),
        ["ps"] => print(table(control)),
        ["start_server", "-uid", uid] => Ok(Deed::StartServer(number(uid)?)),
        ["shutdown_server", pid] | ["shutdown_server", pid, "-f"] => Ok(Deed::EndServer(server(control, pid)?.0)),
        ["terminate_client", pid, client] => {
            let (pid, client) = (server(control, pid)?.0, number(client)?);
            let found = control.terminate(pid, client);
            found.map(Deed::Cut).ok_or_else(|| format!("Client {client} not found on server {pid}"))
        }
        ["quit"] => Ok(Deed::Quit(None)),
        ["quit", "-t", seconds] => Ok(Deed::Quit(Some(number(seconds)?))),
        ["get_default_active_thread_percentage"] => print(share(control.defaults.threads)),
        ["set_default_active_thread_percentage", percent] => {
            control.defaults.threads = valid(percent, percentage)?;
            print(share(control.defaults.threads))
        }
        ["get_active_thread_percentage", pid] => print(share(server(control, pid)?.1.limits.threads)),
        ["set_active_thread_percentage", pid, percent] => {
            let percent = valid(percent, percentage)?;
            server(control, pid)?.1.limits.threads = percent;
            print(share(percent))
        }
        ["get_default_device_pinned_mem_limit", device] => print(limit(control.defaults.memory.get(*device))),
        ["set_default_device_pinned_mem_limit", device, bytes] => {
            let bytes = valid(bytes, size)?;
            control.defaults.memory.insert((*device).to_owned(), bytes);
            print(limit(Some(&bytes)))
        }
        ["get_device_pinned_mem_limit", pid, device] => {
            print(limit(server(control, pid)?.1.limits.memory.get(*device)))
        }
        ["set_device_pinned_mem_limit", pid, device, bytes] => {
            let bytes = valid(bytes, size)?;
            server(control, pid)?.1.limits.memory.insert((*device).to_owned(), bytes);
            print(limit(Some(&bytes)))
        }
        [] => print(String::new()),
        [name, ..] => Err(format!("Unknown command or wrong arguments: {name}")),
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("Invalid number: {text}"))
}

fn valid<V>(text: &str, read: impl Fn(&str) -> Option<V>) -> Result<V, String> {
    read(text).ok_or_else(|| format!("Invalid value: {text}"))
}

fn server<'c>(control: &'c mut Control, pid: &str) -> Result<(i32, &'c mut Server), String> {
    let pid: i32 = number(pid)?;
    let found = control.servers.get_mut(&pid).ok_or_else(|| format!("Server {pid} not found"))?;
    Ok((pid, found))
}

fn lines(values: impl Iterator<Item = impl std::fmt::Display>) -> String {
    values.map(|value| format!("{value}\n")).collect()
}

fn condition(server: &mut Server) -> String {
    match server.condition {
        Condition::Active => "ACTIVE\n".to_owned(),
        Condition::Fault => "FAULT\n".to_owned(),
    }
}

fn share(percent: u32) -> String {
    format!("{percent}.0\n")
}

fn limit(bytes: Option<&u64>) -> String {
    bytes.map_or_else(|| "0M\n".to_owned(), |bytes| format!("{}M\n", bytes >> 20))
}

fn by_card(control: &Control) -> String {
    let clients = || control.servers.values().flat_map(|server| server.clients.values());
    let mut cards: Vec<&String> = clients().flat_map(|client| &client.cards).collect();
    cards.sort();
    cards.dedup();
    let pids = |card: &String| -> Vec<String> {
        clients().filter(|client| client.cards.contains(card)).map(|client| client.pid.to_string()).collect()
    };
    lines(cards.into_iter().map(|card| format!("{card}: {}", pids(card).join(" "))))
}

fn table(control: &Control) -> String {
    let rows = control.servers.iter().flat_map(|(pid, server)| {
        server
            .clients
            .values()
            .map(move |client| format!("{:<8} {:<8} {:<6} {}", client.pid, pid, server.uid, client.cards.join(",")))
    });
    format!("{:<8} {:<8} {:<6} DEVICE\n{}", "PID", "SERVER", "UID", lines(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Client;

    fn control() -> Control {
        let mut control = Control::default();
        control.server_started(500, 1000);
        control.admit(7, 1000, Client { pid: 10, cards: vec!["GPU-1".to_owned()], lost: false });
        control
    }

    fn said(control: &mut Control, line: &str) -> String {
        match run(control, line) {
            Ok(Deed::Print(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_is_asked_is_told() {
        let mut control = control();
        for (line, wanted) in [
            ("get_server_list", "500\n"),
            ("get_server_status 500", "ACTIVE\n"),
            ("get_client_list 500", "10\n"),
            ("get_device_client_list", "GPU-1: 10\n"),
            ("get_default_active_thread_percentage", "100.0\n"),
            ("set_default_active_thread_percentage 25", "25.0\n"),
            ("get_active_thread_percentage 500", "100.0\n"),
            ("set_active_thread_percentage 500 50", "50.0\n"),
            ("set_default_device_pinned_mem_limit 0 2G", "2048M\n"),
            ("get_default_device_pinned_mem_limit 0", "2048M\n"),
            ("get_device_pinned_mem_limit 500 0", "0M\n"),
            ("", ""),
        ] {
            assert_eq!(said(&mut control, line), wanted, "{line}");
        }
        control.server_started(501, 1001);
        assert_eq!(said(&mut control, "get_active_thread_percentage 501"), "25.0\n", "later servers begin with it");
        control.faulted(7);
        assert_eq!(said(&mut control, "get_server_status 500"), "FAULT\n");
    }

    #[test]
    fn what_cannot_be_done_is_named() {
        let mut control = control();
        for (line, why) in [
            ("get_server_status 7", "Server 7 not found"),
            ("get_server_status x", "Invalid number: x"),
            ("terminate_client 500 11", "Client 11 not found on server 500"),
            ("set_default_active_thread_percentage 0", "Invalid value: 0"),
            ("set_default_device_pinned_mem_limit 0 2", "Invalid value: 2"),
            ("explode", "Unknown command or wrong arguments: explode"),
            ("quit now", "Unknown command or wrong arguments: quit"),
        ] {
            assert_eq!(run(&mut control, line), Err(why.to_owned()));
        }
    }

    #[test]
    fn what_needs_more_than_records_is_left_to_the_daemon() {
        let mut control = control();
        assert_eq!(run(&mut control, "start_server -uid 5"), Ok(Deed::StartServer(5)));
        assert_eq!(run(&mut control, "shutdown_server 500 -f"), Ok(Deed::EndServer(500)));
        assert_eq!(run(&mut control, "terminate_client 500 10"), Ok(Deed::Cut(7)));
        assert_eq!(run(&mut control, "quit -t 3"), Ok(Deed::Quit(Some(3))));
    }
}
