//! The command line. Options begin with one dash or two, and have their value behind `=` or in the next word.

use crate::outcome::{Failure, Outcome};
use crate::query::Form;
use crate::{compute_policy, fields, full, mig, topology};

/// What `-h` prints.
const USAGE: &str = "\
NVIDIA System Management Interface

nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...

    -h,   --help                Print usage information and exit.
    -L,   --list-gpus           Display a list of GPUs connected to the system.
          --version             Print version information and exit.
    -q,   --query               Display GPU info.
    -i,   --id=                 Target a specific GPU: index, UUID or PCI bus id, or a list of them.
    -x,   --xml-format          Produce XML output. Use with -q.
    -d,   --display=            Display only selected information, of a list: MEMORY, UTILIZATION, ECC, TEMPERATURE,
                                POWER, CLOCK, COMPUTE, PIDS, PERFORMANCE, ACCOUNTING, ROW_REMAPPER.
                                Doesn't work with -x. Use with -q.
          --query-gpu=          Information about GPU. Call --help-query-gpu for more info.
          --query-compute-apps= List of currently active compute processes. Call --help-query-compute-apps for more info.
          --format=             Comma separated list of format options: csv, noheader, nounits.
    -pm,  --persistence-mode=   Set persistence mode: 0/DISABLED, 1/ENABLED
    -c,   --compute-mode=       Set compute mode: 0/DEFAULT, 2/PROHIBITED, 3/EXCLUSIVE_PROCESS
    -mig, --multi-instance-gpu= Set multi-instance GPU mode: 0/DISABLED, 1/ENABLED
    -r    --gpu-reset           Trigger reset of the GPU.
    compute-policy              Control and query compute policies. \"nvidia-smi compute-policy -h\" for more information.
    topo                        Displays device/system topology. \"nvidia-smi topo -h\" for more information.
    mig                         Multi Instance GPU (MIG) management. \"nvidia-smi mig -h\" for more information.
";

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// `-h`, `--help-query-gpu` and their like: a text, which needs no card.
    Help(String),
    /// `--version`
    Version,
    /// `-L`
    List,
    /// Nothing asked for.
    Table,
    /// `-q`
    Full(full::Form),
    /// `--query-gpu`
    QueryGpu {
        /// Names of fields.
        fields: Vec<String>,
        /// How they are printed.
        form: Form,
    },
    /// `--query-compute-apps`
    QueryApps {
        /// Names of fields.
        fields: Vec<String>,
        /// How they are printed.
        form: Form,
    },
    /// `-mig`
    MigMode(bool),
    /// `-pm`
    Persistence(bool),
    /// `-c`, as NVML numbers it.
    ComputeMode(u32),
    /// `-r`
    Reset,
    /// `compute-policy …`
    Policy(compute_policy::Command),
    /// `topo …`
    Topology(topology::Command),
    /// `mig …`
    Mig(mig::Command),
}

/// The words, with `=` taken apart.
pub struct Words<'a>(std::collections::VecDeque<&'a str>);

impl<'a> Words<'a> {
    fn of(arguments: &'a [String]) -> Words<'a> {
        let parts = arguments.iter().flat_map(|word| match word.split_once('=') {
            Some((option, value)) if option.starts_with('-') => vec![option, value],
            _ => vec![word.as_str()],
        });
        Words(parts.collect())
    }

    /// The next word.
    pub fn next(&mut self) -> Option<&'a str> {
        self.0.pop_front()
    }

    /// The value of an option that must have one.
    pub fn value(&mut self, option: &str) -> Outcome<&'a str> {
        let missing = || Failure::usage(format!("Missing argument for option {option}"));
        self.next().ok_or_else(missing)
    }

    /// The value of an option that may have one.
    pub fn optional(&mut self) -> Option<&'a str> {
        let plain = self.0.front().is_some_and(|word| !word.starts_with('-'));
        if plain { self.next() } else { None }
    }
}

/// The command, and which devices it is for.
pub fn parse(arguments: &[String]) -> Outcome<(Command, Option<String>)> {
    let mut words = Words::of(arguments);
    match arguments.first().map(String::as_str) {
        Some("mig") => {
            words.next();
            let (command, selection) = mig::parse(&mut words)?;
            return Ok((Command::Mig(command), selection));
        }
        Some("compute-policy") => {
            words.next();
            let (command, selection) = compute_policy::parse(&mut words)?;
            let help = || Command::Help(compute_policy::USAGE.to_owned());
            return Ok((command.map_or_else(help, Command::Policy), selection));
        }
        Some("topo") => {
            words.next();
            let command = topology::parse(&mut words)?;
            return Ok((command.map_or_else(|| Command::Help(topology::USAGE.to_owned()), Command::Topology), None));
        }
        _ => {}
    }
    let (mut command, mut selection, mut form) = (Command::Table, None, None);
    let (mut xml, mut sections) = (false, None);
    while let Some(word) = words.next() {
        command = match word {
            "-h" | "--help" => Command::Help(USAGE.to_owned()),
            "--version" => Command::Version,
            "-L" | "--list-gpus" => Command::List,
            "-q" | "--query" => Command::Full(full::Form::Text(Vec::new())),
            "--help-query-gpu" => Command::Help(fields::help(&fields::CARD, "--query-gpu")),
            "--help-query-compute-apps" => Command::Help(fields::help(&fields::PROCESS, "--query-compute-apps")),
            "-r" | "--gpu-reset" => Command::Reset,
            "--query-gpu" => Command::QueryGpu { fields: names(words.value(word)?), form: Form::default() },
            "--query-compute-apps" => Command::QueryApps { fields: names(words.value(word)?), form: Form::default() },
            "-mig" | "--multi-instance-gpu" => Command::MigMode(switch(word, words.value(word)?)?),
            "-pm" | "--persistence-mode" => Command::Persistence(switch(word, words.value(word)?)?),
            "-c" | "--compute-mode" => Command::ComputeMode(compute_mode(words.value(word)?)?),
            "-i" | "--id" => {
                selection = Some(words.value(word)?.to_owned());
                continue;
            }
            "-x" | "--xml-format" => {
                xml = true;
                continue;
            }
            "-d" | "--display" => {
                sections = Some(full::parse_sections(words.value(word)?)?);
                continue;
            }
            "--format" => {
                form = Some(Form::parse(words.value(word)?)?);
                continue;
            }
            other => return Err(invalid(other)),
        };
    }
    match (&mut command, xml, sections) {
        (_, false, None) => {}
        (Command::Full(to), true, None) => *to = full::Form::Xml,
        (Command::Full(to), false, Some(sections)) => *to = full::Form::Text(sections),
        (_, true, _) => return Err(invalid("-x")),
        (_, false, Some(_)) => return Err(invalid("-d")),
    }
    if let Command::QueryGpu { form: to, .. } | Command::QueryApps { form: to, .. } = &mut command {
        *to = form
            .ok_or_else(|| Failure::usage("\"--format=\" switch is missing. It is required when running queries."))?;
    }
    Ok((command, selection))
}

fn invalid(word: &str) -> Failure {
    Failure::usage(format!("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n{word}"))
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(|name| name.trim().to_owned()).collect()
}

fn switch(option: &str, value: &str) -> Outcome<bool> {
    match value.to_ascii_uppercase().as_str() {
        "0" | "DISABLED" => Ok(false),
        "1" | "ENABLED" => Ok(true),
        _ => Err(Failure::usage(format!("{value} is not a valid argument for option {option}"))),
    }
}

fn compute_mode(value: &str) -> Outcome<u32> {
    match value.to_ascii_uppercase().as_str() {
        "0" | "DEFAULT" => Ok(0),
        "2" | "PROHIBITED" => Ok(2),
        "3" | "EXCLUSIVE_PROCESS" => Ok(3),
        _ => Err(Failure::usage(format!("{value} is not a valid compute mode"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Outcome<(Command, Option<String>)> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn lines_that_operators_type_are_understood() {
        assert_eq!(parsed(""), Ok((Command::Table, None)));
        assert_eq!(parsed("-L"), Ok((Command::List, None)));
        assert_eq!(parsed("-i 0,1 -mig 1"), Ok((Command::MigMode(true), Some("0,1".to_owned()))));
        assert_eq!(parsed("-x -q -i 0"), Ok((Command::Full(full::Form::Xml), Some("0".to_owned()))));
        let compute: full::Section = &["compute_mode"];
        assert_eq!(parsed("-q -d compute"), Ok((Command::Full(full::Form::Text(vec![compute])), None)));
        assert_eq!(parsed("topo -p2p w"), Ok((Command::Topology(topology::Command::Peers(1)), None)));
        assert_eq!(parsed("-c EXCLUSIVE_PROCESS"), Ok((Command::ComputeMode(3), None)));
        assert_eq!(parsed("--gpu-reset --id=0"), Ok((Command::Reset, Some("0".to_owned()))));
        let form = Form { header: false, units: false };
        let fields = vec!["index".to_owned(), "memory.used".to_owned()];
        let line = "--query-gpu=index,memory.used --format=csv,noheader,nounits";
        assert_eq!(parsed(line), Ok((Command::QueryGpu { fields, form }, None)));
    }

    #[test]
    fn others_end_with_two() {
        for line in [
            "-x",
            "-L -x",
            "-d MEMORY",
            "-q -x -d MEMORY",
            "-q -d FROB",
            "-i",
            "-mig 2",
            "-c 1",
            "--query-gpu=index",
            "--query-gpu=index --format=xml",
            "topo -m -i 0",
            "compute-policy --set-timeslice=4",
            "compute-policy --set-timeslice=tiny",
            "compute-policy --set-timeslice",
            "compute-policy -L",
            "topo -p2p x",
            "frob",
        ] {
            assert_eq!(parsed(line).map_err(|failure| failure.exit), Err(2), "{line}");
        }
    }
}
