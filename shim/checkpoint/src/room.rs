//! Room on the cards. A restore of GPU memory that fails for lack of room ruins the process for good
//! (NVIDIA/cuda-checkpoint#44), so it is never tried before NVML shows room.

use std::time::{Duration, Instant};

use baton_config::Driver;
use baton_devices::{CardUsage, GpuUuid};
use baton_fault::{Code, Fault, Result};

use crate::gpu::{Gpu, Share};

/// What a context and its fragmentation may take beyond what was counted, in bytes.
const MARGIN: u64 = 64 << 20;
/// How often NVML is asked again.
const RETRY: Duration = Duration::from_millis(100);

/// What is used and free on `cards`, asked of NVML.
///
/// # Errors
/// `DRIVER_MISSING` or what NVML answers.
pub async fn usage(driver: &Driver, cards: &[GpuUuid]) -> Result<Vec<CardUsage>> {
    let (driver, cards) = (driver.clone(), cards.to_vec());
    tokio::task::spawn_blocking(move || baton_devices::usage(&driver, &cards))
        .await
        .map_err(|err| Fault::new(Code::System, "ask NVML", err))?
}

/// Waits until every card has room for its share.
///
/// # Errors
/// `RESTORE_MEMORY` with both values when `patience` runs out.
pub async fn wait_for(gpu: &dyn Gpu, shares: &[Share], patience: Duration) -> Result<()> {
    let cards: Vec<GpuUuid> = shares.iter().map(|share| share.card).collect();
    let deadline = Instant::now() + patience;
    loop {
        let usage = gpu.usage(&cards).await?;
        match lacking(shares, &usage) {
            None => return Ok(()),
            Some((share, free)) if Instant::now() >= deadline => {
                return Err(Fault::new(
                    Code::RestoreMemory,
                    format!("bring GPU memory back to {}", share.card),
                    format!("{} bytes are needed, {free} are free", share.bytes + MARGIN),
                )
                .advise("end what else uses the card, and try again"));
            }
            Some(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// The first share that does not fit, and what is free on its card.
fn lacking(shares: &[Share], usage: &[CardUsage]) -> Option<(Share, u64)> {
    shares.iter().filter(|share| share.bytes > 0).find_map(|share| {
        let free = usage.iter().find(|card| card.uuid == share.card).map_or(0, |card| card.free);
        (free < share.bytes + MARGIN).then_some((*share, free))
    })
}
