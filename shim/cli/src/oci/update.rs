//! `update`.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use baton_engine::{BlockIo, Cpu, Memory, Pids, Resources};
use baton_fault::{Attempt, Code, Fault, Result};

use super::done;
use crate::globals::Globals;
use crate::options::{Known, Options, Words, refused, value};

/// Most of a file of resources that is read, in bytes.
const RESOURCES_MAX: u64 = 1 << 20;

const UPDATE: &[Known] = &[
    value("resources", Some('r')),
    value("blkio-weight", None),
    value("cpu-period", None),
    value("cpu-quota", None),
    value("cpu-burst", None),
    value("cpu-share", None),
    value("cpu-rt-period", None),
    value("cpu-rt-runtime", None),
    value("cpu-idle", None),
    value("cpuset-cpus", None),
    value("cpuset-mems", None),
    // The kernel has these no more; runc takes and ignores them.
    value("kernel-memory", None),
    value("kernel-memory-tcp", None),
    value("memory", None),
    value("memory-reservation", None),
    value("memory-swap", None),
    value("pids-limit", None),
    refused("l3-cache-schema", "Baton does not change Intel RDT"),
    refused("mem-bw-schema", "Baton does not change Intel RDT"),
];

pub fn update(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    let options = Options::read("update", args, UPDATE, Words::Mixed)?;
    let resources = match options.path("resources") {
        Some(file) => read(&file)?,
        None => asked_for(&options)?,
    };
    globals.engine().update(&options.id()?, &resources).map(done)
}

fn read(file: &Path) -> Result<Resources> {
    let what = || format!("read the resources in {}", file.display());
    let mut text = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().take(RESOURCES_MAX).read_to_end(&mut text).attempt(what)?;
    } else {
        File::open(file).and_then(|file| file.take(RESOURCES_MAX).read_to_end(&mut text)).attempt(what)?;
    }
    serde_json::from_slice(&text)
        .map_err(|err| Fault::new(Code::Usage, what(), err).advise("write them as the runtime specification does"))
}

fn asked_for(options: &Options) -> Result<Resources> {
    let text = |name| Ok::<_, Fault>(options.text(name)?.unwrap_or_default().to_owned());
    let bytes = |name| options.text(name)?.map(|text| bytes(name, text)).transpose();
    let idle = options.number("cpu-idle")?;
    Ok(Resources {
        memory: Memory {
            limit: bytes("memory")?,
            reservation: bytes("memory-reservation")?,
            swap: bytes("memory-swap")?,
            check_before_update: false,
        },
        cpu: Cpu {
            shares: options.number("cpu-share")?,
            quota: options.number("cpu-quota")?,
            burst: options.number("cpu-burst")?,
            period: options.number("cpu-period")?,
            realtime_runtime: options.number("cpu-rt-runtime")?,
            realtime_period: options.number("cpu-rt-period")?,
            cpus: text("cpuset-cpus")?,
            mems: text("cpuset-mems")?,
            idle,
        },
        block_io: BlockIo { weight: options.number("blkio-weight")?, ..BlockIo::default() },
        pids: Pids { limit: options.number("pids-limit")? },
        ..Resources::default()
    })
}

/// `512M`, `1.5g`, `100`, `10kb`, `-1`: bytes, with the powers of 1024.
fn bytes(name: &str, text: &str) -> Result<i64> {
    let wrong = || Fault::new(Code::Usage, format_args!("--{name} {text}"), "not a size").advise("write it as 512M");
    if text == "-1" {
        return Ok(-1);
    }
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let shift = match lower[digits.len()..].trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        "p" | "pb" | "pib" => 50,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number * (1u64 << shift) as f64;
    // Sizes of memory are far below where this loses digits.
    if bytes >= 0.0 && bytes < i64::MAX as f64 { Ok(bytes as i64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_runc_reads_them() {
        for (text, wanted) in [("512M", 512 << 20), ("1.5g", 3 << 29), ("100", 100), ("10kb", 10 << 10), ("-1", -1)] {
            assert_eq!(bytes("memory", text).expect(text), wanted, "{text}");
        }
        for wrong in ["", "M", "5x", "-2", "1e99", "nan"] {
            assert_eq!(bytes("memory", wrong).map_err(|fault| fault.code), Err(Code::Usage), "{wrong}");
        }
    }
}
