//! What operators type, on a machine of its own. Needs root, to make device nodes.

mod machine;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use machine::Machine;

#[test]
fn cards_are_listed_and_asked_for_fields() {
    let machine = Machine::with("a100-40,vgpu-a100-10");
    let uuid = machine.says("--query-gpu=uuid --format=csv,noheader");
    let uuids: Vec<&str> = uuid.lines().collect();
    let list = machine.says("-L");
    let wanted = [("NVIDIA A100-SXM4-40GB", 0), ("GRID A100D-10C", 1)];
    let wanted = wanted.map(|(name, index)| format!("GPU {index}: {name} (UUID: {})\n", uuids[index]));
    assert_eq!(list, wanted.concat());

    let fields = "index,name,memory.total,memory.free,mig.mode.current,compute_cap,fan.speed,power.limit";
    let said = machine.says(&format!("--query-gpu={fields} --format=csv"));
    let head = "index, name, memory.total [MiB], memory.free [MiB], mig.mode.current, compute_cap, fan.speed [%], power.limit [W]";
    let first = "0, NVIDIA A100-SXM4-40GB, 40960 MiB, 40409 MiB, Disabled, 8.0, [N/A], 400.00 W";
    let second = "1, GRID A100D-10C, 10240 MiB, 9689 MiB, [N/A], 8.0, [N/A], [N/A]";
    assert_eq!(said, format!("{head}\n{first}\n{second}\n"));
    let plain = machine.says(&format!("-i {} --query-gpu={fields} --format=csv,noheader,nounits", uuids[0]));
    assert_eq!(plain, "0, NVIDIA A100-SXM4-40GB, 40960, 40409, Disabled, 8.0, [N/A], 400.00\n");
    let bus_id = machine.says("-i 1 --query-gpu=pci.bus_id --format=csv,noheader");
    assert_eq!(machine.says(&format!("-i {} -L", bus_id.trim())), wanted[1]);
    let apps = "--query-compute-apps=pid,process_name,used_memory,gpu_uuid --format=csv";
    assert_eq!(machine.says(apps), "pid, process_name, used_memory [MiB], gpu_uuid\n");
}

#[test]
fn it_ends_with_the_codes_of_the_manual() {
    let mut machine = Machine::with("a100-40,vgpu-a100-10");
    assert_eq!(machine.ends("-i 7 -L"), ("No devices were found\n".to_owned(), 6));
    assert_eq!(machine.ends("--frobnicate").1, 2);
    let odd = Command::new(machine.program()).arg(OsStr::from_bytes(b"-\xff")).output().expect("run");
    assert_eq!(odd.status.code(), Some(2), "no UTF-8: {odd:?}");
    let wrong = "Field \"frob\" is not a valid field to query.\n\n".to_owned();
    assert_eq!(machine.ends("--query-gpu=index,frob --format=csv"), (wrong, 2));
    assert_eq!(machine.ends("-i 1 -mig 1").1, 3, "a guest has no MIG");
    assert_eq!(machine.ends("mig -lgi"), ("No MIG-enabled devices found.\n".to_owned(), 6));
    machine.stop();
    let (said, code) = machine.ends("");
    assert!(
        said.starts_with("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        "{said}"
    );
    assert_eq!(code, 9);
}

/// The examples of the MIG user guide, on an A100 with 40 GB.
#[test]
fn a_card_is_cut_as_the_user_guide_shows_it() {
    let machine = Machine::with("a100-40");
    let bus_id = machine.says("--query-gpu=pci.bus_id --format=csv,noheader");
    let bus_id = bus_id.trim();
    assert_eq!(machine.says("-i 0 -mig 1"), format!("Enabled MIG Mode for GPU {bus_id}\nAll done.\n"));
    let query = "-i 0 --query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader";
    assert_eq!(machine.says(query), "Enabled, Enabled\n");
    let places = "GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1\n\
                  GPU  0 Profile ID 20 Placements: {0,1,2,3,4,5,6}:1\n\
                  GPU  0 Profile ID 15 Placements: {0,2,4,6}:2\n\
                  GPU  0 Profile ID 14 Placements: {0,2,4}:2\n\
                  GPU  0 Profile ID  9 Placements: {0,4}:4\n\
                  GPU  0 Profile ID  5 Placement : {0}:4\n\
                  GPU  0 Profile ID  0 Placement : {0}:8\n";
    assert_eq!(machine.says("mig -lgipp"), places);
    let made = "Successfully created GPU instance ID 13 on GPU  0 using profile MIG 1g.5gb (ID 19)\n\
                Successfully created GPU instance ID 11 on GPU  0 using profile MIG 1g.5gb (ID 19)\n\
                Successfully created GPU instance ID  3 on GPU  0 using profile MIG 2g.10gb (ID 14)\n\
                Unable to create a GPU instance on GPU  0 using profile 9: Insufficient Resources\n\
                Failed to create GPU instances: Insufficient Resources\n";
    assert_eq!(machine.ends("mig -cgi 19,19,14,9"), (made.to_owned(), 255));
    assert!(
        machine
            .says("mig -lgip")
            .contains("MIG 1g.5gb          19     3/7        4.75      No      14     0     0   |")
    );
    let gone = "Successfully destroyed GPU instance ID  3 from GPU  0\n\
                Successfully destroyed GPU instance ID 11 from GPU  0\n\
                Successfully destroyed GPU instance ID 13 from GPU  0\n";
    assert_eq!(machine.says("mig -dgi"), gone);

    let made = "Successfully created GPU instance ID  2 on GPU  0 using profile MIG 3g.20gb (ID  9)\n\
                Successfully created compute instance ID  0 on GPU  0 GPU instance ID  2 using profile MIG 3g.20gb (ID  2)\n";
    assert_eq!(machine.says("mig -i 0 -cgi 3g.20gb -C"), made);
    let made = "Successfully created GPU instance ID  1 on GPU  0 using profile MIG 3g.20gb (ID  9)\n";
    assert_eq!(machine.says("mig -cgi 9:0"), made);
    let made = "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  1 using profile MIG 1c.3g.20gb (ID  0)\n\
                Successfully created compute instance ID  1 on GPU  0 GPU instance ID  1 using profile MIG 2c.3g.20gb (ID  1)\n";
    assert_eq!(machine.says("mig -cci 0,2c.3g.20gb -gi 1"), made);
    let list = machine.says("-L");
    let without_uuids: Vec<&str> =
        list.lines().skip(1).map(|line| line.split(" (UUID: MIG-").next().expect("a name")).collect();
    let wanted = ["  MIG 1c.3g.20gb  Device  0:", "  MIG 2c.3g.20gb  Device  1:", "  MIG 3g.20gb     Device  2:"];
    assert_eq!(without_uuids, wanted);
    assert!(machine.says("mig -lgi").contains("|   0  MIG 3g.20gb           9        1           0:4     |"));
    assert!(
        machine.says("mig -lci").contains("|   0      1       MIG 2c.3g.20gb       1         1          1:2     |")
    );
    let refused = "Unable to destroy GPU instance ID  1 from GPU  0: In use by another client\n\
                   Failed to destroy GPU instances: In use by another client\n";
    assert_eq!(machine.ends("mig -dgi -gi 1"), (refused.to_owned(), 255));
    let gone = "Successfully destroyed compute instance ID  1 from GPU  0 GPU instance ID  1\n";
    assert_eq!(machine.says("mig -dci -gi 1 -ci 1"), gone);

    // MIG mode cannot be left while there are instances; a reset clears them.
    let warned = format!("Warning: MIG mode is in pending disable state for GPU {bus_id}:In use by another client\n");
    assert!(machine.says("-mig 0").starts_with(&warned));
    assert_eq!(machine.says(query), "Enabled, Disabled\n");
    assert_eq!(machine.says("--gpu-reset -i 0"), format!("GPU {bus_id} was successfully reset.\nAll done.\n"));
    assert_eq!(machine.says(query), "Disabled, Disabled\n");
    let set = format!("Set compute mode to EXCLUSIVE_PROCESS for GPU {bus_id}.\nAll done.\n");
    assert_eq!(machine.says("-i 0 -c 3"), set);
    assert_eq!(machine.says("-i 0 -pm 0"), format!("Disabled persistence mode for GPU {bus_id}.\nAll done.\n"));
    let query = "--query-gpu=compute_mode,persistence_mode --format=csv,noheader";
    assert_eq!(machine.says(query), "Exclusive_Process, Disabled\n");
}

#[test]
fn every_line_of_a_table_is_as_wide_as_its_edge() {
    let machine = Machine::with("h100,b200,vgpu-a100-10");
    machine.says("-i 0,1 -mig 1");
    machine.says("mig -i 0,1 -cgi 0 -C");
    for (line, width) in [("", 91), ("mig -lgip", 81), ("mig -lgi", 59), ("mig -lci", 70), ("mig -lcip", 88)] {
        let said = machine.says(line);
        let rows = said.lines().filter(|row| row.starts_with(['|', '+']));
        for row in rows {
            assert_eq!(row.chars().count(), width, "{line}: {row}");
        }
    }
    assert!(machine.says("").contains("MIG devices"));
}

#[test]
fn a_call_crashes_or_hangs_when_that_is_ordered() {
    let machine = Machine::with("h100");
    machine.order("fault=nvmlDeviceGetName@nvidia-smi:crash");
    let crashed = Command::new(machine.program()).arg("-L").stderr(Stdio::null()).status().expect("run");
    assert_eq!(crashed.signal(), Some(6));
    machine.order("fault=nvmlDeviceGetName@nvidia-smi:hang");
    let mut hanging = Command::new(machine.program()).arg("-L").stdout(Stdio::piped()).spawn().expect("run");
    // It sleeps where it hangs; the order is used up, so others are answered.
    let state = || std::fs::read_to_string(format!("/proc/{}/wchan", hanging.id())).unwrap_or_default();
    let end = Instant::now() + Duration::from_secs(20);
    while !state().contains("futex") {
        assert!(Instant::now() < end, "it does not hang: {:?}", state());
    }
    assert!(machine.says("-L").starts_with("GPU 0: NVIDIA H100"));
    assert!(hanging.try_wait().expect("ask").is_none(), "it came back");
    hanging.kill().and_then(|()| hanging.wait()).expect("it ends");
}

#[test]
fn whoever_stops_reading_ends_it_quietly() {
    let machine = Machine::with("h100");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let child = Command::new(machine.program()).arg("-q").stdout(writer).stderr(Stdio::piped()).spawn();
    let done = child.and_then(std::process::Child::wait_with_output).expect("it ends");
    assert_eq!((done.status.signal(), done.stderr), (Some(libc::SIGPIPE), Vec::new()));
}
