//! `nvidia-smi topo`: how cards lie to each other and to the processors.

use std::collections::BTreeSet;

use crate::arguments::Words;
use crate::device::Device;
use crate::nvml::{Nvml, ask};
use crate::outcome::{Code, Failure, Outcome};

/// What `-h` prints.
pub const USAGE: &str = "\
    topo -- Display topological information about the system.

    Usage: nvidia-smi topo [options]

    [-m   | --matrix]:    Display how each pair of GPUs is connected, and the CPUs near each GPU
    [-p2p | --p2pstatus]: Display whether each pair of GPUs can do so directly:
                          r (read), w (write), n (over NVLink), a (atomics), p (properties)
    [-h   | --help]:      Display help information
";

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// `-m`
    Matrix,
    /// `-p2p`, as NVML numbers what is asked for (`nvmlGpuP2PCapsIndex_t`).
    Peers(u32),
}

/// The words behind `topo`; nothing where help is wanted.
pub fn parse(words: &mut Words<'_>) -> Outcome<Option<Command>> {
    let mut command = None;
    let mut selected = false;
    while let Some(word) = words.next() {
        command = match word {
            "-h" | "--help" => return Ok(None),
            "-m" | "--matrix" => Some(Command::Matrix),
            "-p2p" | "--p2pstatus" => {
                let value = words.value(word)?;
                let index = ["r", "w", "n", "a", "p"].iter().position(|known| *known == value);
                let wrong = || Failure::usage(format!("{value} is not a valid argument for option {word}"));
                Some(Command::Peers(index.ok_or_else(wrong)? as u32))
            }
            "-i" | "--id" => {
                words.value(word)?;
                selected = true;
                continue;
            }
            other => {
                return Err(Failure::usage(format!(
                    "Invalid option {other}. \"nvidia-smi topo -h\" for more information."
                )));
            }
        };
    }
    if selected {
        let text = "The -i command line argument must be used in conjunction with -n or -p.";
        return Err(Failure::usage(text));
    }
    Ok(command)
}

/// Carries it out, for all cards.
pub fn run(nvml: &Nvml, devices: &[Device<'_>], command: &Command) -> Outcome {
    let told = |code| Failure::of(code, nvml.text_of(code));
    let text = match command {
        Command::Matrix => matrix(devices).map_err(told)?,
        Command::Peers(index) => peers(devices, *index).map_err(told)?,
    };
    print!("{text}");
    Ok(())
}

/// What stands for each pair, with its head underlined, as nvidia-smi does for files too.
fn table(
    devices: &[Device<'_>],
    (margin, itself): (&str, &str),
    columns: &str,
    pair: impl Fn(Device<'_>, Device<'_>) -> Result<&'static str, Code>,
    rest: impl Fn(Device<'_>) -> Result<String, Code>,
) -> Result<String, Code> {
    let indices: Vec<u32> = devices.iter().map(Device::index).collect::<Result<_, _>>()?;
    let heads: String = indices.iter().map(|index| format!("GPU{index}\t")).collect();
    let mut text = format!("{margin}\t\u{1b}[4m{heads}{columns}\u{1b}[0m\n");
    for (one, index) in devices.iter().zip(&indices) {
        text += &format!("{margin}GPU{index}\t");
        for (other, column) in devices.iter().zip(&indices) {
            text += &format!("{}\t", if index == column { itself } else { pair(*one, *other)? });
        }
        text += &format!("{}\n", rest(*one)?);
    }
    Ok(text + "\nLegend:\n\n")
}

fn matrix(devices: &[Device<'_>]) -> Result<String, Code> {
    let level = |one: Device<'_>, other: Device<'_>| {
        let found = ask!(one.nvml, nvmlDeviceGetTopologyCommonAncestor(one.handle, other.handle) -> u32)?;
        Ok(level_name(found))
    };
    // The memory of these cards is no node of the machine's, which that of a Grace Hopper is.
    let near = |device: Device<'_>| Ok(format!("{}\t{}\t\tN/A", processors(device)?, nodes(device)?));
    let columns = "CPU Affinity\tNUMA Affinity\tGPU NUMA ID";
    let legend = "  X    = Self\n  \
                  SYS  = By PCIe and the link between NUMA nodes\n  \
                  NODE = By PCIe and the link between the PCIe host bridges of one NUMA node\n  \
                  PHB  = By PCIe and one PCIe host bridge, mostly the CPU\n  \
                  PXB  = By several PCIe bridges, and no PCIe host bridge\n  \
                  PIX  = By one PCIe bridge at most\n  \
                  NV#  = By # NVLinks\n";
    Ok(table(devices, ("", " X "), columns, level, near)? + legend)
}

/// `nvmlGpuTopologyLevel_t`.
fn level_name(level: u32) -> &'static str {
    match level {
        0 | 10 => "PIX",
        20 => "PXB",
        30 => "PHB",
        40 => "NODE",
        _ => "SYS",
    }
}

fn peers(devices: &[Device<'_>], index: u32) -> Result<String, Code> {
    let status = |one: Device<'_>, other: Device<'_>| {
        ask!(one.nvml, nvmlDeviceGetP2PStatus(one.handle, other.handle, index) -> u32).map(status_name)
    };
    let legend = "  X    = Self\n  OK   = Can\n  CNS  = Chipset cannot\n  GNS  = GPU cannot\n  TNS  = Topology does not allow it\n  \
                  DR   = Disabled by a registry key\n  NS   = Not supported\n  U    = Unknown\n";
    Ok(table(devices, (" ", "X"), "", status, |_| Ok(String::new()))? + legend)
}

/// `nvmlGpuP2PStatus_t`.
fn status_name(status: u32) -> &'static str {
    ["OK", "CNS", "GNS", "TNS", "DR", "NS"].get(status as usize).copied().unwrap_or("U")
}

/// Words of the sets that are asked for: 1024 processors or nodes.
const WORDS: usize = 16;

fn processors(device: Device<'_>) -> Result<String, Code> {
    let mut set = [0u64; WORDS];
    // SAFETY: the set has as many words as is said.
    let code = unsafe { device.nvml.0.nvmlDeviceGetCpuAffinity(device.handle, WORDS as u32, set.as_mut_ptr()) };
    if code == 0 { Ok(ranges(&set)) } else { Err(code) }
}

fn nodes(device: Device<'_>) -> Result<String, Code> {
    let mut set = [0u64; WORDS];
    // SAFETY: the set has as many words as is said; the scope is `NVML_AFFINITY_SCOPE_NODE`.
    let code = unsafe { device.nvml.0.nvmlDeviceGetMemoryAffinity(device.handle, WORDS as u32, set.as_mut_ptr(), 0) };
    if code == 0 { Ok(ranges(&set)) } else { Err(code) }
}

/// `0-3,8` of a set of bits.
fn ranges(set: &[u64]) -> String {
    let bits = set.len() * 64;
    let within: BTreeSet<usize> = (0..bits).filter(|bit| set[bit / 64] >> (bit % 64) & 1 == 1).collect();
    let starts = within.iter().filter(|bit| **bit == 0 || !within.contains(&(**bit - 1)));
    let range = |start: &usize| match (*start..).take_while(|bit| within.contains(bit)).last() {
        Some(last) if last > *start => format!("{start}-{last}"),
        _ => start.to_string(),
    };
    let ranges: Vec<String> = starts.map(range).collect();
    if ranges.is_empty() { "N/A".to_owned() } else { ranges.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_ranges() {
        assert_eq!(ranges(&[0b1_0000_1111]), "0-3,8");
        assert_eq!(ranges(&[1 << 63, 0b11]), "63-65");
        assert_eq!(ranges(&[0, 0]), "N/A");
    }

    #[test]
    fn levels_and_states_have_the_numbers_of_nvml() {
        assert_eq!([0, 10, 20, 30, 40, 50].map(level_name), ["PIX", "PIX", "PXB", "PHB", "NODE", "SYS"]);
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(status_name), ["OK", "CNS", "GNS", "TNS", "DR", "NS", "U"]);
    }
}
