//! The verb by which the shim has image work done in a process of its own: an order on standard input, a report on
//! standard output.

use std::ffi::OsString;
use std::io::Read;
use std::process::ExitCode;

use baton_checkpoint::publish::{Order, VERB};
use baton_fault::{Attempt, Code, Fault, Result};

/// Largest order that is read, in bytes: a manifest with its bounds, and what goes with it.
const ORDER_MAX: u64 = 16 << 20;

/// Carries out the order on standard input.
pub fn run(args: &[OsString]) -> Result<ExitCode> {
    if !args.is_empty() {
        return Err(Fault::new(Code::Usage, VERB, "it takes no arguments").advise("this verb is for the shim's use"));
    }
    let mut text = Vec::new();
    std::io::stdin().lock().take(ORDER_MAX).read_to_end(&mut text).attempt(|| "read an order for image work")?;
    let report = super::wait(Order::parse(&text)?.carry_out())?;
    say!("{}", serde_json::to_string(&report).map_err(|err| Fault::new(Code::System, "print a report", err))?);
    Ok(ExitCode::SUCCESS)
}
