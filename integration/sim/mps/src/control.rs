//! Who is a client of which server, and who may become one.

use std::collections::BTreeMap;

use baton_sim_wire::{MPS_CONNECTION_FAILED, MPS_MAX_CLIENTS_REACHED, MPS_SERVER_NOT_READY};

use crate::limits::Limits;

/// The most clients of one server: 60 from CUDA 13.1 on, 48 before (`devices.md` §2.1).
pub const MOST_CLIENTS: usize = 48;

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It takes clients.
    Active,
    /// A client has done what kills others; no new ones until those are gone.
    Fault,
}

/// A program that is a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its pid, as the daemon sees it.
    pub pid: i32,
    /// The cards that it sees.
    pub cards: Vec<String>,
    /// Whether it has been told to end, or has done what it cannot live on from.
    pub lost: bool,
}

/// A server.
#[derive(Debug)]
pub struct Server {
    /// Its user.
    pub uid: u32,
    /// What it is doing.
    pub condition: Condition,
    /// What its clients may use.
    pub limits: Limits,
    /// Its clients by the number of their connection.
    pub clients: BTreeMap<u64, Client>,
}

/// What is said to a program that wants to be a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is one now, of the server with that pid.
    Welcome(i32),
    /// A server for that user has to be started first.
    StartServer,
    /// It is another user's turn.
    Wait,
    /// It is none, for that `CUresult`.
    Refused(i32),
}

/// All of it.
#[derive(Debug, Default)]
pub struct Control {
    /// One server for everybody.
    pub multiuser: bool,
    /// No more clients are taken.
    pub quitting: bool,
    /// What the next servers begin with.
    pub defaults: Limits,
    /// By pid.
    pub servers: BTreeMap<i32, Server>,
}

impl Control {
    /// Enters a server that was started.
    pub fn server_started(&mut self, pid: i32, uid: u32) {
        let (condition, limits) = (Condition::Active, self.defaults.clone());
        self.servers.insert(pid, Server { uid, condition, limits, clients: BTreeMap::new() });
    }

    /// Whether that program of that user may be a client now; if so, it is.
    pub fn admit(&mut self, connection: u64, uid: u32, client: Client) -> Admission {
        if self.quitting {
            return Admission::Refused(MPS_CONNECTION_FAILED);
        }
        let fits = |server: &Server| self.multiuser || server.uid == uid;
        let Some(pid) = self.servers.iter().find(|(_, server)| fits(server)).map(|(pid, _)| *pid) else {
            let busy = self.servers.values().any(|server| !server.clients.is_empty());
            return if busy { Admission::Wait } else { Admission::StartServer };
        };
        let others_turn = self.servers.iter().any(|(other, server)| *other != pid && !server.clients.is_empty());
        let Some(server) = self.servers.get_mut(&pid) else { return Admission::Wait };
        if others_turn {
            return Admission::Wait;
        }
        if server.condition == Condition::Fault {
            return Admission::Refused(MPS_SERVER_NOT_READY);
        }
        if server.clients.len() >= MOST_CLIENTS {
            return Admission::Refused(MPS_MAX_CLIENTS_REACHED);
        }
        server.clients.insert(connection, client);
        Admission::Welcome(pid)
    }

    /// A client's connection has ended.
    pub fn left(&mut self, connection: u64) {
        for server in self.servers.values_mut() {
            server.clients.remove(&connection);
            if server.clients.values().all(|client| !client.lost) {
                server.condition = Condition::Active;
            }
        }
    }

    /// A client has done what kills all that share a card with it; their connections come back.
    pub fn faulted(&mut self, connection: u64) -> Vec<u64> {
        let Some(server) = self.servers.values_mut().find(|server| server.clients.contains_key(&connection)) else {
            return Vec::new();
        };
        let cards = server.clients.get(&connection).map(|client| client.cards.clone()).unwrap_or_default();
        server.condition = Condition::Fault;
        let shares = |client: &Client| client.cards.iter().any(|card| cards.contains(card));
        let affected = server.clients.iter_mut().filter(|(other, client)| **other == connection || shares(client));
        affected
            .map(|(other, client)| {
                client.lost = true;
                *other
            })
            .collect()
    }

    /// Ends a client of a server by pid; its connection comes back.
    pub fn terminate(&mut self, server: i32, pid: i32) -> Option<u64> {
        let clients = &mut self.servers.get_mut(&server)?.clients;
        let (connection, client) = clients.iter_mut().find(|(_, client)| client.pid == pid)?;
        client.lost = true;
        Some(*connection)
    }

    /// How many clients there are.
    pub fn clients(&self) -> usize {
        self.servers.values().map(|server| server.clients.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(pid: i32, cards: &[&str]) -> Client {
        Client { pid, cards: cards.iter().map(|card| (*card).to_owned()).collect(), lost: false }
    }

    #[test]
    fn users_take_turns() {
        let mut control = Control::default();
        assert_eq!(control.admit(1, 1000, client(10, &["a"])), Admission::StartServer);
        control.server_started(500, 1000);
        assert_eq!(control.admit(1, 1000, client(10, &["a"])), Admission::Welcome(500));
        assert_eq!(control.admit(2, 1000, client(11, &["a"])), Admission::Welcome(500));
        assert_eq!(control.admit(3, 1001, client(12, &["a"])), Admission::Wait);
        control.left(1);
        assert_eq!(control.admit(3, 1001, client(12, &["a"])), Admission::Wait);
        control.left(2);
        assert_eq!(control.admit(3, 1001, client(12, &["a"])), Admission::StartServer);
        control.server_started(501, 1001);
        assert_eq!(control.admit(3, 1001, client(12, &["a"])), Admission::Welcome(501));
        assert_eq!(control.admit(4, 1000, client(13, &["a"])), Admission::Wait, "now it is the other's turn");
    }

    #[test]
    fn a_server_for_many_users_takes_them_all() {
        let mut control = Control { multiuser: true, ..Control::default() };
        control.server_started(500, 0);
        assert_eq!(control.admit(1, 1000, client(10, &[])), Admission::Welcome(500));
        assert_eq!(control.admit(2, 1001, client(11, &[])), Admission::Welcome(500));
    }

    #[test]
    fn there_is_a_most_and_an_end() {
        let mut control = Control::default();
        control.server_started(500, 0);
        for connection in 0..48 {
            assert_eq!(control.admit(connection, 0, client(10, &[])), Admission::Welcome(500));
        }
        assert_eq!(control.admit(48, 0, client(10, &[])), Admission::Refused(808));
        control.quitting = true;
        control.left(0);
        assert_eq!(control.admit(48, 0, client(10, &[])), Admission::Refused(805));
        assert_eq!(control.clients(), 47);
    }

    #[test]
    fn a_fault_loses_those_who_share_a_card_and_refuses_others_until_they_are_gone() {
        let mut control = Control::default();
        control.server_started(500, 0);
        for (connection, cards) in [(1, ["a"].as_slice()), (2, &["a", "b"]), (3, &["c"])] {
            assert_eq!(control.admit(connection, 0, client(10, cards)), Admission::Welcome(500));
        }
        assert_eq!(control.faulted(1), [1, 2]);
        assert_eq!(control.admit(4, 0, client(10, &["c"])), Admission::Refused(807));
        control.left(1);
        assert_eq!(control.admit(4, 0, client(10, &["c"])), Admission::Refused(807));
        control.left(2);
        assert_eq!(control.admit(4, 0, client(10, &["c"])), Admission::Welcome(500));
    }

    #[test]
    fn a_client_is_ended_by_its_pid() {
        let mut control = Control::default();
        control.server_started(500, 0);
        control.admit(1, 0, client(10, &[]));
        assert_eq!(control.terminate(500, 11), None);
        assert_eq!(control.terminate(501, 10), None);
        assert_eq!(control.terminate(500, 10), Some(1));
    }
}
