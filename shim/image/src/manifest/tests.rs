use super::*;

/// A manifest as a save of one process on one card gives it.
pub(crate) fn sample() -> Manifest {
    Manifest {
        format: FORMAT,
        created: "2026-11-30T14:00:00Z".into(),
        source: Source {
            container: "job".into(),
            image: "localhost/baton/counter:1".into(),
            image_digest: Digest::of(b"image").to_string(),
            node: Some("a".into()),
        },
        host: Host {
            arch: "x86_64".into(),
            kernel: "6.18.0".into(),
            cpu_model: "A CPU".into(),
            cpu_flags: vec!["avx2".into()],
            cgroup: CgroupVersion::V1,
        },
        criu: Criu { version: "4.2".into() },
        driver: Some(Driver { version: "580.95.05".into(), cuda_version: 13000 }),
        gpus: vec![Gpu {
            uuid: "GPU-00000000-0000-0000-0000-000000000001".into(),
            model: "NVIDIA H100 80GB HBM3".into(),
            compute_capability: [9, 0],
            pci_bus_id: "00000000:17:00.0".into(),
            kind: GpuKind::Whole,
            memory_total: 80 << 30,
            memory_used: 1 << 30,
        }],
        processes: vec![Process { pid: 1, command: "counter".into(), gpu: Some(ProcessGpu { bytes: 1 << 30 }) }],
        mounts: vec!["/proc".into()],
        segments: vec![Segment {
            file: "pages-1.img".into(),
            offset: 0,
            length: 8192,
            digest: Digest::of(b"pages"),
            stored: 100,
        }],
        state: Some(State { digest: Digest::of(b"state"), bytes: 4096 }),
    }
}

fn refused(change: impl FnOnce(&mut Manifest)) -> Fault {
    let mut manifest = sample();
    change(&mut manifest);
    let data = serde_json::to_vec(&manifest).expect("json");
    let fault = Manifest::parse(&data).expect_err("must be refused");
    assert_eq!(fault.code, Code::ImageCorrupt);
    fault
}

#[test]
fn gpus_drivers_and_gpu_memory_go_together() {
    assert!(refused(|manifest| manifest.driver = None).to_string().contains("driver"));
    assert!(refused(|manifest| manifest.gpus.clear()).to_string().contains("driver"));
    let fault = refused(|manifest| {
        manifest.gpus.clear();
        manifest.driver = None;
    });
    assert!(fault.to_string().contains("process 1"), "{fault}");
}

#[test]
fn what_is_written_is_read_back() {
    let data = sample().to_bytes().expect("written");
    assert_eq!(Manifest::parse(&data).expect("read"), sample());
}

#[test]
fn the_documented_names_are_the_written_ones() {
    let text = String::from_utf8(sample().to_bytes().expect("written")).expect("utf-8");
    for part in [
        r#""format":1"#,
        r#""cgroup":"v1""#,
        r#""kind":"whole""#,
        r#""compute_capability":[9,0]"#,
        r#""gpu":{"bytes":1073741824}"#,
        r#""cuda_version":13000"#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn every_cut_is_refused() {
    let data = sample().to_bytes().expect("written");
    for end in 0..data.len() {
        assert_eq!(Manifest::parse(&data[..end]).expect_err("cut").code, Code::ImageCorrupt);
    }
}

#[test]
fn a_newer_format_says_that_a_newer_baton_is_needed() {
    let fault = Manifest::parse(br#"{"format":2,"anything":"else"}"#).expect_err("newer");
    assert_eq!(fault.code, Code::ImageCorrupt);
    assert!(fault.to_string().contains("newer Baton"), "{fault}");
}

#[test]
fn unknown_fields_and_kinds_are_refused() {
    let text = String::from_utf8(sample().to_bytes().expect("written")).expect("utf-8");
    for (old, new) in [
        (r#""format":1"#, r#""format":1,"extra":1"#),
        (r#""kind":"whole""#, r#""kind":"mig""#),
        (r#""pid":1"#, r#""pid":-1"#),
        (r#""length":8192"#, r#""length":-8192"#),
    ] {
        let changed = text.replace(old, new);
        assert_ne!(changed, text);
        assert_eq!(Manifest::parse(changed.as_bytes()).expect_err(new).code, Code::ImageCorrupt);
    }
}

#[test]
fn lists_and_texts_are_bounded() {
    refused(|m| m.mounts = vec!["/x".into(); MOUNTS_MAX + 1]);
    refused(|m| m.gpus = vec![m.gpus[0].clone(); GPUS_MAX + 1]);
    refused(|m| m.host.cpu_flags = vec!["f".into(); CPU_FLAGS_MAX + 1]);
    refused(|m| m.source.container = "x".repeat(TEXT_MAX + 1));
    refused(|m| m.segments[0].length = PAGES_BYTES_MAX + 1);
    refused(|m| m.state = Some(State { digest: Digest::of(b""), bytes: STATE_BYTES_MAX + 1 }));
    refused(|m| m.state = None);
    assert!(Manifest::parse(&vec![b' '; MANIFEST_MAX + 1]).is_err());
}

#[test]
fn segments_must_be_pages_files_in_order_without_gaps() {
    for file in ["../pages-1.img", "pages-1.img/x", "core-1.img", "pages-.img", "pages-1.img\0", "/etc/passwd"] {
        refused(|m| m.segments[0].file = file.into());
    }
    refused(|m| m.segments[0].offset = 4096);
    refused(|m| {
        let (a, mut b) = (m.segments[0].clone(), m.segments[0].clone());
        b.file = "pages-2.img".into();
        let mut c = a.clone();
        c.offset = 8192;
        m.segments = vec![a, b, c];
    });
    let mut manifest = sample();
    let mut second = manifest.segments[0].clone();
    second.offset = 8192;
    manifest.segments.push(second);
    Manifest::parse(&manifest.to_bytes().expect("written")).expect("two segments of one file");
}
