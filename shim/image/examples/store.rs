//! Tries the library against a running containerd, without CRIU and without a GPU:
//! `store SOCKET NAMESPACE publish CONTAINER STAGING REFERENCE | fetch REFERENCE DIR | inspect REFERENCE |
//! push REFERENCE HOSTS_DIR | remove REFERENCE`.

use std::path::Path;
use std::process::ExitCode;

use baton_fault::{Code, Fault, Result};
use baton_image::manifest::{CgroupVersion, Criu, FORMAT, Host, Manifest, Process, Source};
use baton_image::{BaseImage, Inspection, Publication, Store};

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match runtime.block_on(run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &[&str]) -> Result<()> {
    let [socket, namespace, verb @ ..] = args else {
        return Err(Fault::new(Code::Usage, "store", "SOCKET NAMESPACE VERB …"));
    };
    let store = Store::connect(Path::new(socket), namespace).await?;
    match verb {
        ["publish", container, staging, reference] => publish(&store, container, Path::new(staging), reference).await,
        ["fetch", reference, into] => {
            let checkpoint = store.checkpoint_required(reference).await?;
            store.fetch(&checkpoint, Path::new(into)).await
        }
        ["inspect", reference] => {
            print!("{}", Inspection::from(&store.checkpoint_required(reference).await?));
            Ok(())
        }
        ["push", reference, hosts] => {
            println!("{:?}", store.push(reference, Path::new(hosts)).await?);
            Ok(())
        }
        ["remove", reference] => store.remove(reference).await,
        _ => Err(Fault::new(Code::Usage, "store", "unknown verb")),
    }
}

async fn publish(store: &Store, container: &str, staging: &Path, reference: &str) -> Result<()> {
    let container = store.container(container).await?;
    let base = store.base_image(&container).await?;
    let lease = store.lease().await?;
    let published = async {
        let layer = Some(store.diff(&lease, &container).await?);
        let manifest = manifest(&container.id, &base);
        store.publish(&lease, Publication { base: &base, layer, staging, manifest, reference, level: 1 }).await
    };
    match published.await {
        Ok(published) => {
            println!("{published:#?}");
            lease.release().await
        }
        Err(fault) => {
            if let Err(second) = lease.discard().await {
                eprintln!("{second}");
            }
            Err(fault)
        }
    }
}

fn manifest(container: &str, base: &BaseImage) -> Manifest {
    Manifest {
        format: FORMAT,
        created: "2026-11-30T14:00:00Z".into(),
        source: Source {
            container: container.into(),
            image: base.name.clone(),
            image_digest: base.digest.to_string(),
            node: None,
        },
        host: Host {
            arch: std::env::consts::ARCH.into(),
            kernel: "6.18".into(),
            cpu_model: "a CPU".into(),
            cpu_flags: vec![],
            cgroup: CgroupVersion::V1,
        },
        criu: Criu { version: "4.2".into() },
        driver: None,
        gpus: vec![],
        processes: vec![Process { pid: 1, command: "sleep".into(), gpu: None }],
        mounts: vec![],
        segments: vec![],
        state: None,
    }
}
