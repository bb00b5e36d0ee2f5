//! What is told of a card's MIG devices.

use super::card::memory;
use super::fact::{Fact, group, plain, value};
use crate::device::Device;
use crate::outcome::Code;
use crate::sensors::Errors;

/// A group for each.
pub fn facts(device: Device<'_>) -> Result<Vec<Fact>, Code> {
    let devices = device.mig_devices();
    if devices.is_empty() {
        return Ok(vec![Fact::Nothing]);
    }
    devices.into_iter().map(|mig| Ok(group("MIG Device", "mig_device", of(mig)?))).collect()
}

fn of(mig: Device<'_>) -> Result<Vec<Fact>, Code> {
    let ((gpu, compute), has) = (mig.instance()?, mig.attributes()?);
    let shared = [
        plain("Multiprocessor count", "multiprocessor_count", has.multiprocessorCount),
        plain("Copy Engine count", "copy_engine_count", has.sharedCopyEngineCount),
        plain("Encoder count", "encoder_count", has.sharedEncoderCount),
        plain("Decoder count", "decoder_count", has.sharedDecoderCount),
        plain("OFA count", "ofa_count", has.sharedOfaCount),
        plain("JPG count", "jpg_count", has.sharedJpegCount),
    ];
    let errors = value("SRAM Uncorrectable", "sram_uncorrectable", mig.errors(Errors::Uncorrected));
    let mut facts = vec![
        value("Index", "index", mig.index()),
        plain("GPU Instance ID", "gpu_instance_id", gpu),
        plain("Compute Instance ID", "compute_instance_id", compute),
        group("Device Attributes", "device_attributes", [group("Shared", "shared", shared)]),
        group("ECC Errors", "ecc_error_count", [group("Volatile", "volatile_count", [errors])]),
    ];
    facts.extend(memory(mig));
    Ok(facts)
}
