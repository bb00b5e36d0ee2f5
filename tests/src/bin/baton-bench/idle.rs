//! The memory of a shim whose containers do nothing: of one container, and of a pod of ten.

use baton_fault::{Code, Fault, Result};
use baton_nodes::Node;

use crate::contenders::Contender;
use crate::figures::Figures;
use crate::memory;

const IMAGE: &str = "localhost/baton/counter:1";
const POD: usize = 10;
/// By this annotation of the CRI containers come into one shim.
const SANDBOX: &str = "io.kubernetes.cri.sandbox-id";

/// Measures and adds the figures. Only those with a shim of their own are compared.
pub fn measure(node: &Node, contenders: &[Contender], figures: &mut Figures) -> Result<()> {
    let mut shims: Vec<&Contender> = Vec::new();
    for contender in contenders {
        if shims.iter().all(|known| known.shim != contender.shim) {
            shims.push(contender);
        }
    }
    println!("memory of idle shims");
    for (count, label) in [(1, "idle shim, one container"), (POD, "idle shim, ten containers")] {
        let mut sizes = Vec::new();
        for contender in &shims {
            let ids: Vec<_> = (0..count).map(|number| format!("idle{count}-{}-{number}", contender.name)).collect();
            for id in &ids {
                let pod = format!("--label {SANDBOX}={0} --annotation {SANDBOX}={0}", ids[0]);
                let pod = if count == 1 { "" } else { &pod };
                let run = format!("ctr run -d {} {pod} {IMAGE} {id} /bin/sleep 100000", contender.options);
                node.ok(&["sh", "-c", &run])?;
            }
            sizes.push((contender.name, of_shim(contender, &ids[0])? as f64 / MIB));
            for id in ids.iter().rev() {
                node.ok(&["ctr", "task", "rm", "-f", id])?;
                node.ok(&["ctr", "container", "rm", id])?;
            }
        }
        figures.beside(format!("{label}, PSS"), "MiB", &sizes);
    }
    Ok(())
}

const MIB: f64 = (1 << 20) as f64;

/// The proportional set size of the shim whose command line names that container; it is the only one.
fn of_shim(contender: &Contender, id: &str) -> Result<u64> {
    let none = || Fault::new(Code::NotFound, format!("find the shim of {id}"), "no process has it on its command line");
    memory::pids_of(contender.shim, id)?.first().map(|pid| memory::proportional(pid)).ok_or_else(none)
}
