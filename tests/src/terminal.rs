//! A client on a terminal, with somebody who types and reads.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use nix::pty::{Winsize, openpty};

use crate::machine::Machine;
use crate::until::DEADLINE;

/// How much of what was to be read is told when a test fails, in bytes.
const TOLD: usize = 1000;

/// A program of a node that has this terminal for all its streams.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Machine {
    /// Runs a command on a terminal of that many rows and columns.
    ///
    /// # Panics
    /// When there is no terminal to be had.
    pub fn on_terminal(&self, command: &[&str], rows: u16, columns: u16) -> Terminal {
        Terminal::run(self.command([&["timeout", "--foreground", "-k", "5", "60"], command].concat()), rows, columns)
    }
}

impl Terminal {
    /// Runs a command on a terminal of that many rows and columns.
    ///
    /// # Panics
    /// When there is no terminal to be had.
    pub fn run(mut command: Command, rows: u16, columns: u16) -> Terminal {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None).expect("a terminal");
        let end = || Stdio::from(pair.slave.try_clone().expect("the terminal once more"));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("run on a terminal");
        let keyboard = File::from(pair.master);
        let mut screen = keyboard.try_clone().expect("the terminal once more");
        let (send, receive) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The last holder of the other end goes: EIO.
            while let Ok(length @ 1..) = screen.read(&mut bytes) {
                if send.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { child, keyboard, screen: receive, seen: String::new() }
    }

    /// Types it.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn type_in(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("type");
    }

    /// Waits until it is to be read; all that was to be read so far.
    ///
    /// # Panics
    /// With what was to be read, when it is not there at the deadline.
    pub fn shows(&mut self, wanted: &str) -> &str {
        let end = Instant::now() + DEADLINE;
        while !self.seen.contains(wanted) {
            let left = end.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(err) => panic!("{wanted:?} is not to be read ({err}), but {:?}", self.last_seen()),
            }
        }
        &self.seen
    }

    /// The end of what was to be read.
    fn last_seen(&self) -> &str {
        let from = (self.seen.len().saturating_sub(TOLD)..=self.seen.len()).find(|at| self.seen.is_char_boundary(*at));
        &self.seen[from.unwrap_or(0)..]
    }

    /// Waits for the end of the program; its exit status.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn end(mut self) -> Option<i32> {
        self.child.wait().expect("its end").code()
    }
}
