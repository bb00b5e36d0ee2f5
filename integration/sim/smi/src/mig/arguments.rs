//! The command line behind `mig`.

use crate::arguments::Words;
use crate::outcome::{Failure, Outcome};

/// What `mig -h` prints.
pub const USAGE: &str = "\
    mig -- Multi Instance GPU management.

    Usage: nvidia-smi mig [options]

    -i     | --id: Enumeration index, PCI bus ID or UUID.
    -gi    | --gpu-instance-id: GPU instance ID, or a list of them.
    -ci    | --compute-instance-id: Compute instance ID, or a list of them.
    -lgip  | --list-gpu-instance-profiles
    -lgipp | --list-gpu-instance-possible-placements
    -C     | --default-compute-instance: Create the default compute instance with each GPU instance.
    -cgi   | --create-gpu-instance: Profile IDs or names, each with an optional :placement start.
    -dgi   | --destroy-gpu-instance
    -lgi   | --list-gpu-instances
    -lcip  | --list-compute-instance-profiles
    -cci   | --create-compute-instance: Profile IDs or names; the default one without.
    -dci   | --destroy-compute-instance
    -lci   | --list-compute-instances
";

/// A profile that is asked for, by number or name, and where it is to lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// `9`, `3g.20gb` or `MIG 3g.20gb`.
    pub profile: String,
    /// First slice.
    pub start: Option<u32>,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// `-h`
    Help,
    /// `-lgip`
    GpuProfiles,
    /// `-lgipp`
    GpuPlacements,
    /// `-lcip`
    ComputeProfiles {
        /// Of these GPU instances.
        gpu: Option<Vec<u32>>,
    },
    /// `-lgi`
    GpuInstances,
    /// `-cgi`
    CreateGpuInstances {
        /// In this order.
        wanted: Vec<Wanted>,
        /// `-C`
        with_compute: bool,
    },
    /// `-dgi`
    DestroyGpuInstances {
        /// These GPU instances.
        gpu: Option<Vec<u32>>,
    },
    /// `-lci`
    ComputeInstances {
        /// Of these GPU instances.
        gpu: Option<Vec<u32>>,
    },
    /// `-cci`
    CreateComputeInstances {
        /// In this order; the one that fills its GPU instance, where none is named.
        wanted: Vec<Wanted>,
        /// In each of these GPU instances.
        gpu: Option<Vec<u32>>,
    },
    /// `-dci`
    DestroyComputeInstances {
        /// Of these GPU instances.
        gpu: Option<Vec<u32>>,
        /// These compute instances.
        compute: Option<Vec<u32>>,
    },
}

/// The command, and which cards it is for.
pub fn parse(words: &mut Words<'_>) -> Outcome<(Command, Option<String>)> {
    let (mut verb, mut list, mut with_compute) = (None, None, false);
    let (mut cards, mut gpu, mut compute) = (None, None, None);
    while let Some(word) = words.next() {
        match word {
            "-i" | "--id" => cards = Some(words.value(word)?.to_owned()),
            "-gi" | "--gpu-instance-id" => gpu = Some(numbers(words.value(word)?)?),
            "-ci" | "--compute-instance-id" => compute = Some(numbers(words.value(word)?)?),
            "-C" | "--default-compute-instance" => with_compute = true,
            "-cgi" | "--create-gpu-instance" => {
                (verb, list) = (Some("-cgi"), Some(words.value(word)?));
            }
            "-cci" | "--create-compute-instance" => (verb, list) = (Some("-cci"), words.optional()),
            "-h" | "--help" => verb = Some("-h"),
            "-lgip" | "--list-gpu-instance-profiles" => verb = Some("-lgip"),
            "-lgipp" | "--list-gpu-instance-possible-placements" => verb = Some("-lgipp"),
            "-dgi" | "--destroy-gpu-instance" => verb = Some("-dgi"),
            "-lgi" | "--list-gpu-instances" => verb = Some("-lgi"),
            "-lcip" | "--list-compute-instance-profiles" => verb = Some("-lcip"),
            "-dci" | "--destroy-compute-instance" => verb = Some("-dci"),
            "-lci" | "--list-compute-instances" => verb = Some("-lci"),
            other => return Err(Failure::usage(format!("Option \"{other}\" is not recognized.\n"))),
        }
    }
    let wanted = list.map(wanted).transpose()?.unwrap_or_default();
    let command = match verb {
        Some("-lgip") => Command::GpuProfiles,
        Some("-lgipp") => Command::GpuPlacements,
        Some("-lcip") => Command::ComputeProfiles { gpu },
        Some("-lgi") => Command::GpuInstances,
        Some("-cgi") => Command::CreateGpuInstances { wanted, with_compute },
        Some("-dgi") => Command::DestroyGpuInstances { gpu },
        Some("-lci") => Command::ComputeInstances { gpu },
        Some("-cci") => Command::CreateComputeInstances { wanted, gpu },
        Some("-dci") => Command::DestroyComputeInstances { gpu, compute },
        _ => Command::Help,
    };
    Ok((command, cards))
}

fn numbers(list: &str) -> Outcome<Vec<u32>> {
    let wrong = || Failure::usage(format!("Invalid instance ID list: {list}"));
    list.split(',').map(|number| number.trim().parse().map_err(|_| wrong())).collect()
}

/// `19,3g.20gb:4`; `-cci` marks the default profile with a star, as `-lcip` prints it.
fn wanted(list: &str) -> Outcome<Vec<Wanted>> {
    list.split(',')
        .map(|word| {
            let (profile, start) = word.split_once(':').map_or((word, None), |(profile, start)| (profile, Some(start)));
            let wrong = || Failure::usage(format!("Invalid placement in \"{word}\""));
            let start = start.map(|start| start.parse().map_err(|_| wrong())).transpose()?;
            Ok(Wanted { profile: profile.trim().trim_end_matches('*').to_owned(), start })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Outcome<(Command, Option<String>)> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        crate::arguments::parse(&arguments).map(|(command, cards)| match command {
            crate::arguments::Command::Mig(command) => (command, cards),
            other => panic!("{other:?}"),
        })
    }

    fn want(profile: &str, start: Option<u32>) -> Wanted {
        Wanted { profile: profile.to_owned(), start }
    }

    #[test]
    fn lines_of_the_user_guide_are_understood() {
        let wanted = vec![want("9", None), want("3g.20gb", Some(4))];
        let command = Command::CreateGpuInstances { wanted, with_compute: true };
        assert_eq!(parsed("mig -cgi 9,3g.20gb:4 -C -i 0"), Ok((command, Some("0".to_owned()))));
        let wanted = vec![want("0", None), want("0", None)];
        let command = Command::CreateComputeInstances { wanted, gpu: Some(vec![1]) };
        assert_eq!(parsed("mig -cci 0,0 -gi 1"), Ok((command, None)));
        let command = Command::CreateComputeInstances { wanted: Vec::new(), gpu: Some(vec![1]) };
        assert_eq!(parsed("mig -cci -gi 1"), Ok((command, None)));
        let command = Command::DestroyComputeInstances { gpu: Some(vec![1]), compute: Some(vec![0, 1, 2]) };
        assert_eq!(parsed("mig -dci -ci 0,1,2 -gi 1"), Ok((command, None)));
        assert_eq!(parsed("mig -dgi"), Ok((Command::DestroyGpuInstances { gpu: None }, None)));
        assert_eq!(parsed("mig -lgip"), Ok((Command::GpuProfiles, None)));
    }

    #[test]
    fn others_end_with_two() {
        for line in ["mig -cgi", "mig -frob", "mig -dgi -gi x", "mig -cgi 9:x"] {
            assert_eq!(parsed(line).map_err(|failure| failure.exit), Err(2), "{line}");
        }
    }
}
