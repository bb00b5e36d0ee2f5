//! `nvidia-smi topo`.

mod machine;

use machine::Machine;

#[test]
fn cards_lie_to_each_other_as_nvml_says() {
    let machine = Machine::with("a100-40,h100");
    let near = match std::thread::available_parallelism().expect("processors").get() {
        1 => "0".to_owned(),
        processors => format!("0-{}", processors - 1),
    };
    let told = machine.says("topo -m");
    let matrix = format!(
        "\t\u{1b}[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m\n\
         GPU0\t X \tNODE\t{near}\t0\t\tN/A\n\
         GPU1\tNODE\t X \t{near}\t0\t\tN/A\n\n\
         Legend:\n\n  X    = Self\n"
    );
    assert!(told.starts_with(&matrix), "{told}");
    assert!(
        ["SYS ", "NODE", "PHB ", "PXB ", "PIX ", "NV# "].iter().all(|word| told.contains(&format!("\n  {word} = ")))
    );
    let peers = " \t\u{1b}[4mGPU0\tGPU1\t\u{1b}[0m\n GPU0\tX\tNS\t\n GPU1\tNS\tX\t\n\nLegend:\n\n  X    = Self\n";
    for capability in ["r", "w", "n", "a", "p"] {
        let told = machine.says(&format!("topo -p2p {capability}"));
        assert!(told.starts_with(peers), "{told}");
    }
}

#[test]
fn the_matrix_is_of_all_cards() {
    let machine = Machine::with("h100");
    let refused = "The -i command line argument must be used in conjunction with -n or -p.\n";
    assert_eq!(machine.ends("topo -m -i 0"), (refused.to_owned(), 2));
    assert_eq!(machine.ends("topo -p2p x").1, 2);
    assert!(machine.says("topo -h").contains("--matrix"));
}
