//! What `nvidia-smi` prints when it is asked for nothing, in the form of driver 580.

use nvml_wrapper_sys::bindings::nvmlProcessInfo_t;

use crate::device::Device;
use crate::fields;
use crate::nvml::Nvml;
use crate::outcome::{Code, Failure, Outcome};
use crate::sensors::Errors;
use crate::timestamp;

const EDGE: &str = "+-----------------------------------------------------------------------------------------+";
const COLUMNS: &str = "+-----------------------------------------+------------------------+----------------------+";

/// The cards, their MIG devices where a card is cut, and who uses them.
pub fn print(nvml: &Nvml, devices: &[Device<'_>]) -> Outcome {
    let told = |code| Failure::of(code, format!("Unable to determine the device handle: {}", nvml.text_of(code)));
    println!("{}", timestamp::now());
    println!("{EDGE}");
    let driver = nvml.driver();
    println!("| NVIDIA-SMI {driver:<22} Driver Version: {driver:<14} CUDA Version: {:<8} |", nvml.cuda());
    println!("{COLUMNS}");
    println!("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |");
    println!("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |");
    println!("|                                         |                        |               MIG M. |");
    println!("|=========================================+========================+======================|");
    for device in devices {
        card(*device).map_err(told)?.iter().for_each(|line| println!("{line}"));
        println!("{COLUMNS}");
    }
    println!();
    mig_devices(devices).map_err(told)?;
    processes(nvml, devices);
    Ok(())
}

fn or_absent<T: ToString>(value: Result<T, Code>, unit: &str) -> String {
    value.map_or_else(|_| "N/A".to_owned(), |value| format!("{}{unit}", value.to_string()))
}

fn usage(device: Device<'_>) -> String {
    let memory = device.memory().ok();
    let number = |number: Option<u64>| number.map_or_else(|| "N/A".to_owned(), |number| format!("{number}MiB"));
    format!("{:>8} / {:>9}", number(memory.map(|memory| memory.used)), number(memory.map(|memory| memory.total)))
}

fn card(device: Device<'_>) -> Result<[String; 3], Code> {
    let mut name = device.name()?;
    name.truncate(25);
    let on = if device.persistence()? { "On" } else { "Off" };
    // In MIG mode errors are counted per MIG device.
    let mig = device.mig_mode();
    let errors = match mig {
        Ok((true, _)) => "On".to_owned(),
        _ => or_absent(device.errors(Errors::Uncorrected), ""),
    };
    let first =
        format!("| {:>3}  {name:<25}     {on:>3}  |   {} Off | {errors:>20} |", device.index()?, device.bus_id()?);
    let temperature = or_absent(device.temperature(), "C");
    let watts = |milliwatts: u32| format!("{}W", milliwatts / 1000);
    let power = or_absent(device.power_draw().map(watts), "");
    let limit = or_absent(device.power_limit().map(watts), "");
    let load = or_absent(device.load(), "%");
    let mode = match device.compute_mode()? {
        3 => "E. Process",
        mode => fields::compute_mode(mode),
    };
    let second = format!(
        "| N/A {temperature:>5}    P0         {power:>7} / {limit:>5} |{} | {load:>8} {mode:>11} |",
        format_args!(" {:>22}", usage(device))
    );
    let mig = mig.map_or("N/A".to_owned(), |(current, pending)| match (current, pending) {
        (true, false) => "Enabled*".to_owned(),
        (false, true) => "Disabled*".to_owned(),
        (on, _) => fields::enabled(on).to_owned(),
    });
    Ok([first, second, format!("|                                         |                        | {mig:>20} |")])
}

fn mig_devices(devices: &[Device<'_>]) -> Result<(), Code> {
    if !devices.iter().any(|device| device.mig_mode().is_ok_and(|(current, _)| current)) {
        return Ok(());
    }
    const COLUMNS: &str = "+------------------+----------------------------------+-----------+-----------------------+";
    println!("{EDGE}");
    println!("| MIG devices:{:76}|", "");
    println!("{COLUMNS}");
    println!("| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|        Shared         |");
    println!("|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |");
    println!("|                  |                                  |        ECC|                       |");
    println!("|==================+==================================+===========+=======================|");
    let mut none = true;
    for device in devices {
        for mig in device.mig_devices() {
            none = false;
            let ((gpu, compute), has) = (mig.instance()?, mig.attributes()?);
            let bar1 = mig.bar1()?;
            println!(
                "| {:>2}  {gpu:>3}  {compute:>2}  {:>2}  | {:>32} | {:>3}   {:>3} | {:>2}  {}    {}    {}    {}  |",
                device.index()?,
                mig.index()?,
                usage(mig),
                has.multiprocessorCount,
                0,
                has.sharedCopyEngineCount,
                has.sharedEncoderCount,
                has.sharedDecoderCount,
                has.sharedOfaCount,
                has.sharedJpegCount
            );
            let bar1 =
                format!("{:>8} / {:>9}", format!("{}MiB", bar1.bar1Used >> 20), format!("{}MiB", bar1.bar1Total >> 20));
            println!("| {:16} | {bar1:>32} | {:9} | {:21} |", "", "", "");
            println!("{COLUMNS}");
        }
    }
    if none {
        println!("|  No MIG devices found{:67}|", "");
        println!("{EDGE}");
    }
    println!();
    Ok(())
}

fn processes(nvml: &Nvml, devices: &[Device<'_>]) {
    println!("{EDGE}");
    println!("| Processes:                                                                              |");
    println!("|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |");
    println!("|        ID   ID                                                               Usage      |");
    println!("|=========================================================================================|");
    let mut none = true;
    for device in devices {
        // Of a card in MIG mode, a container learns from the MIG devices that it has.
        let of = |device: &Device<'_>| device.processes().unwrap_or_default();
        let all = match device.processes() {
            Ok(all) => all,
            Err(_) => device.mig_devices().iter().flat_map(of).collect(),
        };
        for process in all {
            none = false;
            println!("{}", process_line(device.index().unwrap_or(0), &process, &nvml.process(process.pid)));
        }
    }
    if none {
        println!("|  No running processes found                                                             |");
    }
    println!("{EDGE}");
}

fn process_line(card: u32, process: &nvmlProcessInfo_t, name: &str) -> String {
    let instance = |id: u32| if id == u32::MAX { "N/A".to_owned() } else { id.to_string() };
    let (gpu, compute) = (instance(process.gpuInstanceId), instance(process.computeInstanceId));
    let skipped = name.char_indices().rev().nth(35).map_or(0, |(at, _)| at);
    let name = if skipped > 0 { format!("...{}", &name[skipped + 3..]) } else { name.to_owned() };
    let used = format!("{}MiB", process.usedGpuMemory >> 20);
    format!("| {card:>4}  {gpu:>3}  {compute:>3}  {:>15}      C   {name:<36} {used:>9} |", process.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_stands_in_columns_as_wide_as_the_table() {
        let process =
            nvmlProcessInfo_t { pid: 4242, usedGpuMemory: 512 << 20, gpuInstanceId: 2, computeInstanceId: u32::MAX };
        let line = process_line(0, &process, "/counter");
        assert_eq!(line.len(), EDGE.len());
        assert!(line.starts_with("|    0    2  N/A             4242      C   /counter "), "{line}");
        assert!(line.ends_with("   512MiB |"), "{line}");
        let long = process_line(0, &process, &"/long".repeat(20));
        assert_eq!(long.len(), EDGE.len());
        assert!(long.contains(" ...") && long.contains("/long "), "{long}");
    }
}
