//! `nvidia-smi compute-policy`.

mod machine;

use machine::Machine;

#[test]
fn a_timeslice_is_set_and_stays() {
    let mut machine = Machine::with("h100x2");
    let ask = |field: &str| machine.says(&format!("--query-gpu={field} --format=csv,noheader"));
    let (bus_ids, uuids) = (ask("pci.bus_id"), ask("uuid"));
    let bus_ids: Vec<&str> = bus_ids.lines().collect();
    let uuid = uuids.lines().nth(1).expect("a second card");
    let listed = |first: &str, second: &str| {
        format!("GPU {}: Timeslice: {first}\nGPU {}: Timeslice: {second}\n", bus_ids[0], bus_ids[1])
    };
    assert_eq!(machine.says("compute-policy -l"), listed("DEFAULT", "DEFAULT"));
    // As the Kubernetes DRA driver does it.
    machine.says(&format!("-i {uuid} -c DEFAULT"));
    let set = format!("Set timeslice to LONG for GPU {}.\nAll done.\n", bus_ids[1]);
    assert_eq!(machine.says(&format!("compute-policy -i {uuid} --set-timeslice 3")), set);
    assert_eq!(machine.says("compute-policy --list"), listed("DEFAULT", "LONG"));
    machine.says("compute-policy --id=0 --set-timeslice=short");
    machine.stop();
    machine.start();
    assert_eq!(machine.says("compute-policy --list"), listed("SHORT", "LONG"));
    machine.says("compute-policy --set-timeslice=0");
    assert_eq!(machine.says("compute-policy -l -i 1"), format!("GPU {}: Timeslice: DEFAULT\n", bus_ids[1]));
}

#[test]
fn a_compute_mode_is_set_beside_it() {
    let machine = Machine::with("h100");
    machine.says("compute-policy --set-timeslice=2");
    machine.says("-i 0 -c EXCLUSIVE_PROCESS");
    assert_eq!(machine.says("--query-gpu=compute_mode --format=csv,noheader"), "Exclusive_Process\n");
    assert!(machine.says("compute-policy -l").ends_with(": Timeslice: MEDIUM\n"));
}

#[test]
fn it_is_of_whole_cards_alone() {
    let machine = Machine::with("h100,vgpu-a100-10");
    machine.says("-i 0 -mig 1");
    for card in ["0", "1"] {
        assert_eq!(machine.ends(&format!("compute-policy -i {card} --set-timeslice=1")).1, 3, "{card}");
        assert_eq!(machine.ends(&format!("compute-policy -i {card} -l")).1, 3, "{card}");
    }
    assert_eq!(machine.ends("compute-policy -i 0 --set-timeslice=4").1, 2);
    assert!(machine.says("compute-policy").contains("--set-timeslice"), "help");
}
