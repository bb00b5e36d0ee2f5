//! What a container asks for, from the annotation, the volume mounts or the environment of its config.json.
//!
//! | value | meaning |
//! |---|---|
//! | unset, empty, `void` | nothing is injected |
//! | `none` | libraries and control nodes, no card |
//! | `all` | every card |
//! | `0,GPU-…` | these cards, by index or UUID |
//! | `/var/run/nvidia-container-devices` | what the volume mounts there name |

use std::fmt;
use std::str::FromStr;

use baton_config::names::{ANNOTATION_DEVICES, ENV_VISIBLE_DEVICES};
use baton_fault::{Code, Fault, Result};
use serde_json::Value;

use crate::GpuUuid;
use crate::nodes::CONTROL;
use crate::volume_mounts;

/// Most entries in a list: more than any node has cards.
const ENTRIES_MAX: usize = 64;
/// Longest value, in bytes: 64 UUIDs and room to spare.
const VALUE_MAX: usize = 4096;
/// The mark of a container whose devices are injected already (CDI, `devices.md` §0).
const VOID: &str = "void";

/// Names one card of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CardRef {
    /// NVML's index.
    Index(u32),
    /// The card's UUID.
    Uuid(GpuUuid),
}

impl fmt::Display for CardRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CardRef::Index(index) => index.fmt(f),
            CardRef::Uuid(uuid) => uuid.fmt(f),
        }
    }
}

/// A request that parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Every card of the node.
    All,
    /// The driver's libraries and control nodes, and no card.
    None,
    /// These cards, in this order, none twice.
    Cards(Vec<CardRef>),
}

/// Where a request was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The annotation `io.baton.devices`.
    Annotation,
    /// Mounts of /dev/null whose names are those of devices.
    VolumeMounts,
    /// `NVIDIA_VISIBLE_DEVICES` in the process's environment, which an image may bring.
    Environment,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Annotation => ANNOTATION_DEVICES,
            Source::VolumeMounts => volume_mounts::FOLDER,
            Source::Environment => ENV_VISIBLE_DEVICES,
        })
    }
}

/// A request and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requested {
    /// What is asked for.
    pub request: Request,
    /// Who asks.
    pub source: Source,
}

impl Request {
    /// The request of a container: the annotation's if there is one, else that of the volume mounts, else the
    /// environment's. `None` when nothing is asked for, or when the devices are in the config already.
    ///
    /// # Errors
    /// `REQUEST_SYNTAX` when a value is not understood.
    pub fn from_config(config: &Value) -> Result<Option<Requested>> {
        if is_injected(config) {
            return Ok(None);
        }
        let annotation = config.get("annotations").and_then(|all| all.get(ANNOTATION_DEVICES)).and_then(Value::as_str);
        let mounted = volume_mounts::names(config).join(",");
        let (value, source) = match (annotation, environment(config)) {
            (Some(value), _) => (value, Source::Annotation),
            (None, _) if !mounted.is_empty() => (mounted.as_str(), Source::VolumeMounts),
            (None, Some(volume_mounts::FOLDER)) => {
                let why = "no mount of /dev/null below it names a device";
                return Err(refuse(volume_mounts::FOLDER, why).during(Source::Environment));
            }
            (None, Some(value)) => (value, Source::Environment),
            (None, None) => return Ok(None),
        };
        let request = Request::parse(value).map_err(|fault| fault.during(source))?;
        Ok(request.map(|request| Requested { request, source }))
    }

    /// Reads a value of `NVIDIA_VISIBLE_DEVICES` or `io.baton.devices`; `None` for empty and `void`.
    ///
    /// # Errors
    /// `REQUEST_SYNTAX`, naming the entry.
    pub fn parse(value: &str) -> Result<Option<Request>> {
        if value.len() > VALUE_MAX {
            return Err(refuse(&format!("{} bytes", value.len()), &format!("longer than {VALUE_MAX} bytes")));
        }
        match value {
            "" | VOID => return Ok(None),
            "all" => return Ok(Some(Request::All)),
            "none" => return Ok(Some(Request::None)),
            _ => {}
        }
        let mut cards = Vec::new();
        for (count, entry) in value.split(',').enumerate() {
            if count == ENTRIES_MAX {
                return Err(refuse(value, &format!("more than {ENTRIES_MAX} entries")));
            }
            let card = entry.parse()?;
            if !cards.contains(&card) {
                cards.push(card);
            }
        }
        Ok(Some(Request::Cards(cards)))
    }
}

impl FromStr for CardRef {
    type Err = Fault;

    fn from_str(entry: &str) -> Result<CardRef> {
        // No sign, no blanks, no leading zero: a second spelling of an index is a mistake.
        if !entry.is_empty() && entry.bytes().all(|byte| byte.is_ascii_digit()) {
            return match entry.parse() {
                Ok(index) if entry == "0" || !entry.starts_with('0') => Ok(CardRef::Index(index)),
                _ => Err(refuse(entry, "is not the index of a card")),
            };
        }
        if let Some(kind) = not_yet(entry) {
            return Err(refuse(entry, &format!("{kind} is not yet supported")));
        }
        if !entry.starts_with("GPU-") {
            return Err(refuse(entry, "is neither the index nor the UUID of a card"));
        }
        entry.parse().map(CardRef::Uuid)
    }
}

/// Kinds of devices that others know and Baton does not yet.
fn not_yet(entry: &str) -> Option<&'static str> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_pair = entry.split_once(':').is_some_and(|(card, instance)| digits(card) && digits(instance));
    // `1g.10gb`, `1c.3g.40gb`, `1g.10gb+me`.
    let is_profile = entry.split_once("g.").is_some_and(|(slices, memory)| {
        digits(slices.split_once("c.").map_or(slices, |(_, slices)| slices)) && memory.contains("gb")
    });
    if entry.starts_with("MIG-") {
        Some("a MIG instance by UUID")
    } else if is_pair {
        Some("a MIG instance by index")
    } else if is_profile {
        Some("a MIG profile")
    } else if entry.contains('=') {
        Some("a CDI name")
    } else if entry.starts_with("cdi/") {
        Some("a CDI name as a mount")
    } else if entry.starts_with("imex/") {
        Some("an IMEX channel")
    } else {
        None
    }
}

fn refuse(what: &str, why: &str) -> Fault {
    Fault::new(Code::RequestSyntax, format!("GPU request {what:?}"), why)
        .advise("ask for `all`, `none`, or a list of indices and GPU-… UUIDs as `baton devices` prints them")
}

/// The value of `NVIDIA_VISIBLE_DEVICES`; the last one counts, as it does for the process.
fn environment(config: &Value) -> Option<&str> {
    let env = config.pointer("/process/env")?.as_array()?;
    env.iter().rev().filter_map(Value::as_str).find_map(|entry| match entry.split_once('=') {
        Some((ENV_VISIBLE_DEVICES, value)) => Some(value),
        _ => None,
    })
}

/// Whether somebody injected the devices before us: the environment says `void`, and the driver's control
/// node is there.
fn is_injected(config: &Value) -> bool {
    let nodes = config.pointer("/linux/devices").and_then(Value::as_array);
    let has_control =
        nodes.is_some_and(|nodes| nodes.iter().any(|node| node.get("path").and_then(Value::as_str) == Some(CONTROL)));
    environment(config) == Some(VOID) && has_control
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const UUID: &str = "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";

    fn uuid() -> GpuUuid {
        UUID.parse().expect("uuid")
    }

    #[test]
    fn values_mean_what_the_table_says() {
        assert_eq!(Request::parse(""), Ok(None));
        assert_eq!(Request::parse("void"), Ok(None));
        assert_eq!(Request::parse("all"), Ok(Some(Request::All)));
        assert_eq!(Request::parse("none"), Ok(Some(Request::None)));
        let cards = vec![CardRef::Index(1), CardRef::Index(0), CardRef::Uuid(uuid())];
        assert_eq!(Request::parse(&format!("1,0,1,{UUID},{UUID}")), Ok(Some(Request::Cards(cards))));
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for value in [
            "ALL",
            "0,",
            ",0",
            "0 ",
            "-1",
            "+1",
            "01",
            "4294967296",
            "0,all",
            "0,none",
            "GPU-1",
            "nvidia0",
            "0;1",
            "1.5",
        ] {
            let fault = Request::parse(value).expect_err(value);
            assert_eq!(fault.code, Code::RequestSyntax, "{value}");
            assert!(!fault.to_string().contains("not yet"), "{fault}");
        }
        assert!(Request::parse(&"0,".repeat(3000)).is_err());
        let many: Vec<_> = (0..65).map(|index| index.to_string()).collect();
        assert!(Request::parse(&many.join(",")).is_err());
        assert!(Request::parse(&many[..64].join(",")).is_ok());
    }

    #[test]
    fn what_comes_later_says_so() {
        for (value, name) in [
            ("MIG-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "MIG instance"),
            ("MIG-GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9/1/0", "MIG instance"),
            ("0:1", "MIG instance"),
            ("1g.10gb", "MIG profile"),
            ("1c.3g.40gb", "MIG profile"),
            ("nvidia.com/gpu=0", "CDI name"),
            ("cdi/nvidia.com/gpu/0", "CDI name"),
            ("imex/0", "IMEX channel"),
        ] {
            let fault = Request::parse(value).expect_err(value);
            assert_eq!(fault.code, Code::RequestSyntax);
            assert!(fault.to_string().contains("not yet supported") && fault.to_string().contains(name), "{fault}");
        }
    }

    #[test]
    fn the_annotation_goes_before_the_environment_and_the_last_variable_counts() {
        let mut config =
            json!({"process": {"env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=1"]}});
        let one = Request::Cards(vec![CardRef::Index(1)]);
        let asked = Requested { request: one, source: Source::Environment };
        assert_eq!(Request::from_config(&config), Ok(Some(asked)));
        config["annotations"] = json!({"io.baton.devices": "none"});
        let asked = Requested { request: Request::None, source: Source::Annotation };
        assert_eq!(Request::from_config(&config), Ok(Some(asked)));
        config["annotations"] = json!({"io.baton.devices": "what"});
        assert!(Request::from_config(&config).expect_err("syntax").to_string().contains("io.baton.devices"));
    }

    #[test]
    fn volume_mounts_go_before_the_environment() {
        let folder = volume_mounts::FOLDER;
        let mut config = json!({
            "process": {"env": [format!("NVIDIA_VISIBLE_DEVICES={folder}")]},
            "mounts": [{"destination": format!("{folder}/{UUID}"), "source": "/dev/null"}]
        });
        let cards = Request::Cards(vec![CardRef::Uuid(uuid())]);
        let asked = Requested { request: cards, source: Source::VolumeMounts };
        assert_eq!(Request::from_config(&config), Ok(Some(asked.clone())));
        config["process"]["env"] = json!(["NVIDIA_VISIBLE_DEVICES=all"]);
        assert_eq!(Request::from_config(&config), Ok(Some(asked)));
        config["process"]["env"] = json!([format!("NVIDIA_VISIBLE_DEVICES={folder}")]);
        config["mounts"] = json!([]);
        let fault = Request::from_config(&config).expect_err("no mount");
        assert_eq!(fault.code, Code::RequestSyntax);
        assert!(fault.to_string().contains("no mount of /dev/null"), "{fault}");
    }

    #[test]
    fn nothing_asked_and_injected_already_are_no_request() {
        for config in [
            json!({}),
            json!({"process": {"env": ["A=NVIDIA_VISIBLE_DEVICES=0"]}}),
            json!({"process": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}}),
            json!({"process": {"env": null}, "annotations": null}),
            json!({
                "annotations": {"io.baton.devices": "0"},
                "process": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]},
                "linux": {"devices": [{"path": "/dev/nvidiactl"}]}
            }),
        ] {
            assert_eq!(Request::from_config(&config), Ok(None), "{config}");
        }
    }
}
