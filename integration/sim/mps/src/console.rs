//! The console: each line of the standard input is a command for the daemon.

use std::io::{self, BufRead, Write};

use baton_sim_wire::{Channel, MPS_SOCKET, MpsReply, MpsRequest};

use crate::Places;

/// Talks until the input ends or the daemon has been told to quit.
///
/// # Errors
/// When no daemon answers, or a command was not carried out.
pub fn talk(places: &Places) -> Result<(), String> {
    let socket = places.pipes.join(MPS_SOCKET);
    let absent = |error: io::Error| {
        format!("Cannot find MPS control daemon process: nothing answers at {}: {error}", socket.display())
    };
    let mut refused = None;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| format!("cannot read a command: {error}"))?;
        let channel = Channel::connect(&socket).map_err(absent)?;
        let quits = line.split_ascii_whitespace().next() == Some("quit");
        match channel.ask(&MpsRequest::Command { line }).map_err(absent)?.0 {
            MpsReply::Text { text, done } => {
                let mut out = io::stdout();
                let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
                printed.map_err(|error| format!("cannot print the answer: {error}"))?;
                if !done {
                    refused = Some(text.trim_end().to_owned());
                }
            }
            other => return Err(format!("the daemon answered {other:?}")),
        }
        if quits && refused.is_none() {
            break;
        }
    }
    refused.map_or(Ok(()), Err)
}
