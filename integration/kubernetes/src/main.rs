//! `baton-cluster`: Kubernetes on test nodes, by hand.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use baton_fault::{Attempt, Code, Fault, Result};
use baton_kubernetes::{Cluster, ClusterOptions};

const USAGE: &str = "\
integration/cluster up [--name NAME] [--nodes N] [--containerd VERSION|DIR] [--cards N=SPEC]...
integration/cluster kubectl [--name NAME] ARGUMENTS...
integration/cluster down [--name NAME]

  --name NAME    `k8s` where none is given; its nodes are NAME-1 (with the control plane), NAME-2 and so on,
                 which integration/node exec enters
  --nodes N      2 where none is given
  --cards N=SPEC simulated cards of node N, such as 2=h100x2

RuntimeClasses: baton, baton-name (the same by the runtime's name), runc. Image: localhost/baton/counter:1.";

/// The cluster that is meant when none is named.
const NAME: &str = "k8s";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(code) => ExitCode::from(code),
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<u8> {
    match words {
        ["up", words @ ..] => up(&parse(words)?).map(|()| 0),
        ["down"] => Cluster::running(NAME)?.down().map(|()| 0),
        ["down", "--name", name] => Cluster::running(name)?.down().map(|()| 0),
        ["kubectl", "--name", name, words @ ..] => kubectl(name, words),
        ["kubectl", words @ ..] => kubectl(NAME, words),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(0)
        }
        _ => Err(usage(format!("{:?} is none of its verbs with their arguments", words.join(" ")))),
    }
}

fn usage(why: String) -> Fault {
    Fault::new(Code::Usage, "read the command line", why).advise("see integration/cluster help")
}

fn up(options: &ClusterOptions) -> Result<()> {
    let began = Instant::now();
    let cluster = Cluster::up(options)?;
    let names: Vec<_> = cluster.nodes().iter().map(baton_nodes::Node::name).collect();
    println!("{} ready after {:.1} s", names.join(" "), began.elapsed().as_secs_f32());
    cluster.leave();
    Ok(())
}

fn kubectl(name: &str, words: &[&str]) -> Result<u8> {
    let cluster = Cluster::running(name)?;
    let status = cluster.kubectl(words).status().attempt(|| "run kubectl");
    cluster.leave();
    Ok(status?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

fn parse(words: &[&str]) -> Result<ClusterOptions> {
    let mut options = ClusterOptions::new(NAME);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().copied().ok_or_else(|| usage(format!("{word} needs a value")))?;
        match *word {
            "--name" => value.clone_into(&mut options.name),
            "--nodes" => options.nodes = value.parse().map_err(|_| usage(format!("{value:?} is not a number")))?,
            "--containerd" => options.containerd = Some(PathBuf::from(value)),
            "--cards" => {
                let (node, cards) = value.split_once('=').ok_or_else(|| usage(format!("{value:?} names no node")))?;
                let node = node.parse().map_err(|_| usage(format!("{node:?} is not the number of a node")))?;
                options = options.cards(node, cards);
            }
            _ => return Err(usage(format!("{word:?} is none of its options"))),
        }
    }
    Ok(options)
}
