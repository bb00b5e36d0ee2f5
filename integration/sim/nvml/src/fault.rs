//! What a test has ordered to go wrong, for any call by its name.

use std::time::Duration;

use baton_sim_wire::{Channel, FaultAction, Reply, Request};

use crate::codes::{Code, Outcome};

/// Asks the hardware whether this call is to go wrong, and does what it says. Hardware that does not answer orders nothing.
pub fn obey(channel: &Channel, call: &str) -> Outcome {
    match channel.ask(&Request::Fault { call: call.to_owned() }) {
        Ok((Reply::Fault { action: Some(action) }, _)) => carry_out(action),
        _ => Ok(()),
    }
}

fn carry_out(action: FaultAction) -> Outcome {
    match action {
        FaultAction::Error(code) => Err(Code(code)),
        FaultAction::Delay(milliseconds) => {
            std::thread::sleep(Duration::from_millis(milliseconds));
            Ok(())
        }
        FaultAction::Hang => loop {
            std::thread::park();
        },
        FaultAction::Crash => std::process::abort(),
    }
}
