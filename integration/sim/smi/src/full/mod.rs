//! `nvidia-smi -q`: the main fields, as text or as XML. What is told is put together once, as facts; each form renders them.

mod card;
mod fact;
mod mig_devices;
mod processes;
mod section;
mod text;
mod xml;

pub use section::{Section, parse as parse_sections};

use crate::device::Device;
use crate::nvml::Nvml;
use crate::outcome::{Failure, Outcome};
use crate::timestamp;
use fact::Fact;

/// How it is told.
#[derive(Debug, PartialEq, Eq)]
pub enum Form {
    /// For people; only these sections, if any are named.
    Text(Vec<Section>),
    /// For programs.
    Xml,
}

/// All that is told.
struct Log {
    /// Of the driver.
    driver: Vec<Fact>,
    /// How many cards there are.
    attached: Fact,
    /// PCI addresses of the cards that were asked for, and what is told of each.
    cards: Vec<(String, Vec<Fact>)>,
}

/// Tells of the cards.
pub fn print(nvml: &Nvml, devices: &[Device<'_>], form: &Form) -> Outcome {
    let told = |device: &Device<'_>| Ok((device.bus_id()?, card::facts(*device)?));
    let cards: Result<_, _> = devices.iter().map(told).collect();
    let mut log = Log {
        driver: vec![
            fact::plain("Timestamp", "timestamp", timestamp::now()),
            fact::plain("Driver Version", "driver_version", nvml.driver()),
            fact::plain("CUDA Version", "cuda_version", nvml.cuda()),
        ],
        attached: fact::value("Attached GPUs", "attached_gpus", nvml.cards().map(|cards| cards.len())),
        cards: cards.map_err(|code| Failure::of(code, nvml.text_of(code)))?,
    };
    match form {
        Form::Xml => print!("{}", xml::of(&log)),
        Form::Text(sections) => {
            section::keep(sections, &mut log.cards);
            print!("{}", text::of(&log));
        }
    }
    Ok(())
}
