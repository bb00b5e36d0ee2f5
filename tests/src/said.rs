//! What a program says when it refuses: one line, `CODE: what: why; what to do`.

use baton_fault::{Code, Fault};
use baton_nodes::Output;

/// The line of a refusal with this code, or what is wrong with what was printed.
///
/// # Errors
/// A sentence: it succeeded, printed more or less than one line, the line has another code, no reason or no advice.
pub fn refusal(done: &Output, code: Code) -> Result<String, String> {
    if done.status.success() {
        return Err(format!("it succeeded where {code} was due"));
    }
    let lines: Vec<&str> = done.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let [line] = lines.as_slice() else { return Err(format!("{} lines where one was due", lines.len())) };
    let fault = fault_in(line).ok_or("its line has no code")?;
    if fault.code != code {
        return Err(format!("{} where {code} was due", fault.code));
    }
    let text = fault.to_string();
    let rest = text.split_once(": ").map_or("", |(_, rest)| rest);
    if !rest.contains(": ") {
        return Err("its line says what, but not why".to_owned());
    }
    if !rest.contains("; ") {
        return Err("its line does not say what to do".to_owned());
    }
    Ok((*line).to_owned())
}

/// The fault in a line; `ctr` and Baton's own programs put their names and what they were about before it.
fn fault_in(line: &str) -> Option<Fault> {
    let mut rest = line;
    loop {
        if let Some(fault) = Fault::parse(rest) {
            return Some(fault);
        }
        rest = rest.split_once(": ")?.1;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn said(status: i32, stderr: &str) -> Output {
        Output { status: ExitStatus::from_raw(status), stdout: String::new(), stderr: stderr.to_owned() }
    }

    #[test]
    fn only_one_whole_line_with_the_code_is_a_refusal() {
        let line = "ctr: failed to create: NO_GPU: save job: it has none; use another";
        assert_eq!(refusal(&said(256, line), Code::NoGpu).as_deref(), Ok(line));
        for (status, line) in [
            (0, line),
            (256, "NO_GPU: save job: it has none; use another\nand more"),
            (256, "STATE: save job: it has none; use another"),
            (256, "NO_GPU: save job; use another"),
            (256, "NO_GPU: save job: it has none"),
            (256, "save job failed"),
            (256, ""),
        ] {
            assert!(refusal(&said(status, line), Code::NoGpu).is_err(), "{line}");
        }
    }
}
