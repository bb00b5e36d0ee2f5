//! What is told of cards in full: `-q` as text and as XML, and the fields that there are to be queried.

mod machine;

use machine::Machine;

/// The values in an XML document, each with the names of the elements around it; what is opened must be closed.
fn values(xml: &str) -> Vec<(String, String)> {
    let (mut path, mut found): (Vec<&str>, Vec<(String, String)>) = (Vec::new(), Vec::new());
    for piece in xml.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(path.pop(), Some(name), "{xml}"),
            None if tag.starts_with(['?', '!']) => continue,
            None => path.extend(tag.split(' ').next()),
        }
        if !text.trim().is_empty() {
            found.push((path.join("/"), text.trim().to_owned()));
        }
    }
    assert!(path.is_empty(), "{path:?} stay open");
    found
}

/// The values of one element of the card, in order.
fn of<'v>(values: &'v [(String, String)], element: &str) -> Vec<&'v str> {
    let path = format!("nvidia_smi_log/gpu/{element}");
    values.iter().filter(|(found, _)| *found == path).map(|(_, value)| value.as_str()).collect()
}

/// Elements of NVIDIA's own A100, with the values of this one.
#[test]
fn a_card_is_told_of_in_xml() {
    let machine = Machine::with("a100-40+1g,vgpu-a100-10");
    let bus_id = machine.says("--query-gpu=pci.bus_id --format=csv,noheader -i 0");
    let xml = machine.says("-q -x -i 0");
    let head =
        "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n<nvidia_smi_log>\n";
    assert!(xml.starts_with(head), "{xml}");
    assert!(xml.contains(&format!("\n\t<gpu id=\"{}\">\n\t\t<product_name>", bus_id.trim())), "{xml}");
    let told = values(&xml);
    let whole = |element: &str| told.iter().find(|(path, _)| path == element).map(|(_, value)| value.as_str());
    assert_eq!(whole("nvidia_smi_log/driver_version"), Some("580.95.05"));
    assert_eq!(whole("nvidia_smi_log/cuda_version"), Some("13.0"));
    assert_eq!(whole("nvidia_smi_log/attached_gpus"), Some("2"), "one was asked for, two are there");
    for (element, value) in [
        ("product_name", "NVIDIA A100-SXM4-40GB"),
        ("product_brand", "NVIDIA"),
        ("product_architecture", "Ampere"),
        ("persistence_mode", "Enabled"),
        ("mig_mode/current_mig", "Disabled"),
        ("mig_devices", "None"),
        ("minor_number", "0"),
        ("gpu_virtualization_mode/virtualization_mode", "None"),
        ("pci/pci_device_id", "20B010DE"),
        ("pci/pci_sub_system_id", "134F10DE"),
        ("pci/pci_gpu_link_info/pcie_gen/max_link_gen", "4"),
        ("pci/pci_gpu_link_info/link_widths/current_link_width", "16x"),
        ("fan_speed", "N/A"),
        ("performance_state", "P0"),
        ("clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown", "Not Active"),
        ("fb_memory_usage/total", "40960 MiB"),
        ("fb_memory_usage/reserved", "551 MiB"),
        ("fb_memory_usage/used", "1024 MiB"),
        ("fb_memory_usage/free", "39385 MiB"),
        ("bar1_memory_usage/total", "65536 MiB"),
        ("compute_mode", "Default"),
        ("utilization/gpu_util", "100 %"),
        ("utilization/ofa_util", "0 %"),
        ("ecc_mode/current_ecc", "Enabled"),
        ("ecc_errors/aggregate/dram_uncorrectable", "0"),
        ("remapped_rows/remapped_row_pending", "No"),
        ("temperature/gpu_temp", "51 C"),
        ("gpu_power_readings/current_power_limit", "400.00 W"),
        ("gpu_power_readings/min_power_limit", "100.00 W"),
        ("clocks/mem_clock", "1215 MHz"),
        ("max_clocks/sm_clock", "1410 MHz"),
        ("processes/process_info/gpu_instance_id", "N/A"),
        ("processes/process_info/type", "C"),
        ("processes/process_info/used_memory", "1024 MiB"),
    ] {
        assert_eq!(of(&told, element), [value], "{element}");
    }
    let told = values(&machine.says("--xml-format --query --id=1"));
    for (element, value) in [
        ("product_brand", "NVIDIA Virtual Compute Server"),
        ("gpu_virtualization_mode/virtualization_mode", "VGPU"),
        ("mig_mode/current_mig", "N/A"),
        ("serial", "N/A"),
        ("temperature/gpu_temp", "N/A"),
    ] {
        assert_eq!(of(&told, element), [value], "{element}");
    }
    assert!(of(&told, "processes/process_info/pid").is_empty());
}

#[test]
fn text_and_xml_tell_the_same() {
    let machine = Machine::with("h100+1g");
    let text = machine.says("-q");
    let bare = |value: &str| value.trim_start_matches("0x").to_owned();
    let in_text: Vec<String> = text.lines().filter_map(|line| line.split_once(" : ")).map(|(_, v)| bare(v)).collect();
    let in_xml = values(&machine.says("-q -x"));
    let told = in_xml.iter().filter(|(path, _)| path != "nvidia_smi_log/gpu/mig_devices");
    let in_xml: Vec<String> = told.map(|(_, value)| bare(value)).collect();
    assert_eq!(in_text[1..], in_xml[1..], "after the time");

    let has = |name: &str, value: &str| text.lines().any(|line| line == format!("{name:<54} : {value}"));
    assert!(has("Attached GPUs", "1"), "{text}");
    assert!(has("        Device Id", "0x233010DE"), "{text}");
    assert!(has("            HW Thermal Slowdown", "Not Active"), "{text}");
    assert!(has("        Process ID", in_xml[in_xml.len() - 4].as_str()), "{text}");
    assert!(has("            Used GPU Memory", "1024 MiB"), "{text}");
}

#[test]
fn sections_are_told_alone() {
    let machine = Machine::with("h100");
    let told = machine.says("-q -d PIDS,compute");
    let lines: Vec<&str> = told.lines().skip_while(|line| !line.starts_with("GPU ")).skip(1).collect();
    let line = |name: &str, value: &str| format!("    {name:<50} : {value}");
    assert_eq!(lines, [line("Compute Mode", "Default"), line("Processes", "None"), String::new()]);
    assert_eq!(machine.ends("-q -x -d PIDS").1, 2, "nvidia-smi(1): \"Doesn't work with -x\"");
}

/// As `nvidia-smi -q -x` of an A100 with two of 3g.20gb; what MIG mode hides is hidden.
#[test]
fn mig_devices_are_told_of_one_by_one() {
    let machine = Machine::with("a100-40");
    machine.says("-i 0 -mig 1");
    machine.says("mig -cgi 9,9 -C");
    let told = values(&machine.says("-q -x"));
    for (element, value) in [
        ("index", ["0", "1"]),
        ("gpu_instance_id", ["1", "2"]),
        ("compute_instance_id", ["0", "0"]),
        ("device_attributes/shared/multiprocessor_count", ["42", "42"]),
        ("device_attributes/shared/copy_engine_count", ["3", "3"]),
        ("device_attributes/shared/decoder_count", ["2", "2"]),
        ("device_attributes/shared/jpg_count", ["0", "0"]),
        ("ecc_error_count/volatile_count/sram_uncorrectable", ["0", "0"]),
        ("fb_memory_usage/total", ["19968 MiB", "19968 MiB"]),
    ] {
        assert_eq!(of(&told, &format!("mig_devices/mig_device/{element}")), value, "{element}");
    }
    assert!(of(&told, "mig_devices").is_empty());
    assert_eq!(of(&told, "utilization/gpu_util"), ["N/A"]);
    let text = machine.says("-q");
    assert_eq!(text.matches("    MIG Device\n        Index  ").count(), 2, "{text}");
}

/// Exporters look in the help for names in quotes below an empty line, and query all of them.
#[test]
fn every_field_of_the_help_can_be_queried() {
    let machine = Machine::with("h100+1g,vgpu-a100-10");
    for (help, query, wanted, cards) in [
        ("--help-query-gpu", "--query-gpu", "\"name\" or \"gpu_name\"", 2),
        ("--help-query-compute-apps", "--query-compute-apps", "\"used_gpu_memory\" or \"used_memory\"", 1),
    ] {
        let text = machine.says(help);
        assert!(
            text.starts_with(&format!("List of valid properties to query for the switch \"{query}\":\n\n\"")),
            "{text}"
        );
        assert!(text.contains(&format!("\n\n{wanted}\n")), "{text}");
        let below_empty = text.split("\n\n").skip(1).filter_map(|entry| entry.lines().next());
        let names: Vec<&str> =
            below_empty.flat_map(|line| line.split(" or ")).map(|name| name.trim_matches('"')).collect();
        assert!(names.len() > 8, "{names:?}");
        let said = machine.says(&format!("{query}={} --format=csv", names.join(",")));
        let counts: Vec<usize> = said.lines().map(|line| line.split(", ").count()).collect();
        assert_eq!(counts, vec![names.len(); cards + 1], "a head and a line for each: {said}");
    }
}
