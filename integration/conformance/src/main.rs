//! `baton-critest`: runs the CRI conformance suite on one node, with each runtime handler in turn, and says what failed.
//! It succeeds when no case failed that is not in `skipped.toml`.

mod images;
mod report;
mod run;
mod skipped;

use std::path::PathBuf;
use std::process::ExitCode;

use baton_fault::{Attempt, Code, Fault, Result};
use baton_nodes::{Node, NodeOptions};

use report::{Case, End};
use run::Run;

const USAGE: &str = "\
baton-critest [--containerd VERSION|DIR] [--handler NAME]... [--focus TEXT] [--out DIR]

  --containerd …   another containerd than the node's own; see integration/node help
  --handler NAME   a runtime handler: baton, runc or baton-name; baton and runc by default
  --focus REGEX    only cases whose names match
  --out DIR        where reports and logs go; target/critest by default";

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    containerd: Option<PathBuf>,
    handlers: Vec<String>,
    focus: Option<String>,
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match parse(&words).and_then(|asked| test(&asked)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[String]) -> Result<Asked> {
    let wrong = |why: String| Fault::new(Code::Usage, "read the command line", why).advise("see baton-critest --help");
    let mut asked = Asked::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| wrong(format!("{word} needs a value")));
        match word.as_str() {
            "--containerd" => asked.containerd = Some(value()?.into()),
            "--handler" => asked.handlers.push(value()?.clone()),
            "--focus" => asked.focus = Some(value()?.clone()),
            "--out" => asked.out = Some(value()?.into()),
            _ => return Err(wrong(format!("{word:?} is none of its options"))),
        }
    }
    if asked.handlers.is_empty() {
        asked.handlers = vec!["baton".to_owned(), "runc".to_owned()];
    }
    Ok(asked)
}

/// Whether all went well.
fn test(asked: &Asked) -> Result<bool> {
    let own = std::env::current_exe().attempt(|| "find the own program")?;
    let bin = own.parent().map(PathBuf::from).unwrap_or_default();
    let out = asked.out.clone().unwrap_or_else(|| bin.with_file_name("critest"));
    let mut options = NodeOptions::new(format!("critest-{}", std::process::id()));
    options.containerd.clone_from(&asked.containerd);
    let node = Node::start(options)?;
    images::provide(&node, &bin)?;
    let mut good = true;
    for handler in &asked.handlers {
        let run = Run { node: &node, handler, focus: asked.focus.as_deref(), out: &out };
        let (cases, skipped) = run.run()?;
        good &= tell(handler, &cases, &skipped);
    }
    println!("Reports and logs: {}", out.display());
    Ok(good)
}

/// Says how a run went, and whether well.
fn tell(handler: &str, cases: &[Case], skipped: &[skipped::Skipped]) -> bool {
    let all = |end: End| cases.iter().filter(move |case| case.end == end);
    let count = |end| all(end).count();
    let listed = |case: &&Case| skipped.iter().any(|one| case.name.contains(&one.case));
    let by_list = all(End::Skipped).filter(listed).count();
    let seconds: f64 = cases.iter().map(|case| case.seconds).sum();
    println!(
        "{handler}: {} passed, {} failed, {by_list} skipped by the list, {} by the suite itself ({seconds:.0} s)",
        count(End::Passed),
        count(End::Failed),
        count(End::Skipped) - by_list,
    );
    for case in all(End::Failed) {
        println!("  FAILED {}\n    {}", case.name, case.message.trim().replace('\n', "\n    "));
    }
    for one in skipped.iter().filter(|one| !cases.iter().any(|case| case.name.contains(&one.case))) {
        println!("  in the list, but no case of that name: {}", one.case);
    }
    count(End::Failed) == 0
}
