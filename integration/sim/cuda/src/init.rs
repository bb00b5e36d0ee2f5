//! `cuInit` and what comes before it.

use std::ffi::c_void;
use std::fs::File;
use std::sync::{Mutex, PoisonError};

use baton_sim_wire::DriverRoot;

use crate::codes::{Code, Outcome, code_of, give};
use crate::driver::{Driver, Parts, is_forked};
use crate::session::Session;
use crate::version::DriverVersion;
use crate::{fault, mps, nodes, slots, thread};

/// Names the file of the job that the process was launched in (`cuda-checkpoint --launch-job`).
const JOB_FILE: &str = "CUDA_CHECKPOINT_JOB_FILE";

static STARTING: Mutex<()> = Mutex::new(());

/// The root this library was loaded from.
pub fn root() -> Outcome<DriverRoot> {
    DriverRoot::of_library(cuInit as *const c_void).ok_or(Code::NO_DEVICE)
}

fn start() -> Outcome {
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if Driver::get().is_ok() {
        return Ok(());
    }
    let root = root()?;
    let mut session = Session::open(&root, None)?;
    if session.faults.any() {
        fault::suffer(session.fault("cuInit")?)?;
    }
    let machine = session.machine()?;
    nodes::make_missing(&root, &machine.cards);
    let variable = |name: &str| std::env::var(name).ok();
    let mut slots = slots::openable(&root, &machine.cards, variable("CUDA_VISIBLE_DEVICES").as_deref());
    let shown = slots::shown(&slots, variable("CUDA_VISIBLE_DEVICES").as_deref());
    if shown.is_empty() {
        return Err(Code::NO_DEVICE);
    }
    let devices: Vec<String> = shown.iter().map(|slot| slots[*slot].device().to_owned()).collect();
    let client = mps::Client::join(&devices)?;
    if let Some(client) = &client {
        session = Session::open(&root, Some(client.server))?;
        slots.iter_mut().for_each(|slot| slot.share = Some(client.threads));
    }
    let may_have_job = DriverVersion::of(root.version()).has_jobs();
    let job = variable(JOB_FILE).filter(|_| may_have_job);
    let job = job.map(|path| File::options().read(true).write(true).open(path)).transpose();
    let job = job.map_err(|_| Code::OPERATING_SYSTEM)?;
    let parts = Parts::new(session, slots, shown, client);
    Driver::new(root, machine.cuda, parts, job).install()?;
    thread::start().map_err(|_| Code::OPERATING_SYSTEM)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: u32) -> i32 {
    if flags != 0 {
        return Code::INVALID_VALUE.0;
    }
    if is_forked() {
        return Code::NOT_INITIALIZED.0;
    }
    code_of(start())
}

/// The CUDA version of this driver, also before `cuInit`.
pub fn cuda_version() -> i32 {
    match Driver::get() {
        Ok(driver) => driver.cuda,
        Err(_) => root().map_or(0, |root| DriverVersion::of(root.version()).cuda()),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut i32) -> i32 {
    // SAFETY: the C caller gives a place for an int.
    code_of(unsafe { give(version, cuda_version()) })
}
