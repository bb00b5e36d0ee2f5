//! As much of PTX text as it takes to see what is in a module: the directives at its head and its entries.
//!
//! ```text
//! // comment
//! .version 7.8
//! .target sm_80
//! .address_size 64
//! .visible .entry NAME(…)
//! ```

use crate::codes::{Code, Outcome};

/// What a text says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ptx {
    /// `.version`: major and minor.
    pub version: (u32, u32),
    /// `.target sm_NN`: ten times the compute capability.
    pub target: i32,
    /// Names of its `.entry`s.
    pub entries: Vec<String>,
}

/// The newest PTX that each CUDA version reads (PTX ISA, release notes table).
const NEWEST: [(i32, (u32, u32)); 10] = [
    (12040, (8, 4)),
    (12050, (8, 5)),
    (12060, (8, 5)),
    (12070, (8, 6)),
    (12080, (8, 7)),
    (12090, (8, 8)),
    (13000, (9, 0)),
    (13010, (9, 1)),
    (13020, (9, 2)),
    (13030, (9, 3)),
];

impl Ptx {
    /// Reads a text.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_PTX` when its head or the brackets in it are not those of PTX.
    pub fn read(text: &str) -> Outcome<Ptx> {
        let text = without_comments(text);
        if !text.trim_start().starts_with(".version") {
            return Err(Code::INVALID_PTX);
        }
        let directive = |name: &str| text.split_whitespace().skip_while(|word| *word != name).nth(1);
        let version = directive(".version").and_then(version_of);
        let target = directive(".target").and_then(|target| target.split(',').next()?.strip_prefix("sm_"));
        let target = target.and_then(|target| target.trim_end_matches(['a', 'f']).parse().ok());
        let address_size = directive(".address_size");
        let (Some(version), Some(target), Some("64")) = (version, target, address_size) else {
            return Err(Code::INVALID_PTX);
        };
        let count = |bracket: char| text.chars().filter(|char| *char == bracket).count();
        if count('{') != count('}') || count('(') != count(')') {
            return Err(Code::INVALID_PTX);
        }
        let names = text.split(".entry").skip(1).map(|rest| rest.trim_start());
        let end = |name: &str| name.find(|char: char| !(char.is_ascii_alphanumeric() || "_$%".contains(char)));
        let entries = names.filter_map(|rest| Some(rest[..end(rest)?].to_owned())).collect();
        Ok(Ptx { version, target, entries })
    }

    /// Whether a driver of that CUDA version compiles it for a card of that compute capability.
    ///
    /// # Errors
    /// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`, or `CUDA_ERROR_INVALID_PTX` for a newer card.
    pub fn compiles(&self, cuda: i32, capability: (i32, i32)) -> Outcome {
        let newest = NEWEST.iter().rev().find(|(version, _)| *version <= cuda).map(|(_, newest)| *newest);
        if newest.is_none_or(|newest| self.version > newest) {
            return Err(Code::UNSUPPORTED_PTX_VERSION);
        }
        if self.target > capability.0 * 10 + capability.1 { Err(Code::INVALID_PTX) } else { Ok(()) }
    }
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn without_comments(text: &str) -> String {
    let mut left = text;
    let mut kept = String::with_capacity(text.len());
    while let Some(start) = left.find("//").into_iter().chain(left.find("/*")).min() {
        kept.push_str(&left[..start]);
        let end = if left[start..].starts_with("//") { "\n" } else { "*/" };
        left = left[start + 2..].find(end).map_or("", |at| &left[start + 2 + at + end.len()..]);
        kept.push('\n');
    }
    kept.push_str(left);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// .entry not_this(\n.version 7.8 /* .target */\n.target sm_80, debug\n.address_size 64\n\
        .visible .entry first(.param .u64 a) { ret; }\n.entry second ( ) { ret; }\n";

    #[test]
    fn a_text_tells_its_version_target_and_entries() {
        let ptx = Ptx::read(TEXT).expect("PTX");
        assert_eq!(ptx, Ptx { version: (7, 8), target: 80, entries: vec!["first".into(), "second".into()] });
        let ours = Ptx::read(include_str!("../../../workloads/kernels/baton.ptx")).expect("PTX");
        assert_eq!(ours.entries, ["baton_count_step", "baton_train_step", "baton_add", "baton_spin"]);
    }

    #[test]
    fn what_is_no_ptx_is_refused() {
        for wrong in ["", "hello", ".version", ".version 8\n.target sm_80\n.address_size 64", ".target sm_80"] {
            assert_eq!(Ptx::read(wrong), Err(Code::INVALID_PTX), "{wrong:?}");
        }
        assert_eq!(Ptx::read(&TEXT.replace("{ ret", "ret")), Err(Code::INVALID_PTX));
        assert_eq!(Ptx::read(&TEXT.replace("64", "32")), Err(Code::INVALID_PTX));
    }

    #[test]
    fn newer_text_than_driver_or_card_is_refused() {
        let ptx = |version, target| Ptx { version, target, entries: Vec::new() };
        assert_eq!(ptx((8, 4), 80).compiles(12040, (8, 0)), Ok(()));
        assert_eq!(ptx((8, 5), 80).compiles(12040, (8, 0)), Err(Code::UNSUPPORTED_PTX_VERSION));
        assert_eq!(ptx((8, 5), 80).compiles(13030, (9, 0)), Ok(()));
        assert_eq!(ptx((7, 8), 90).compiles(13000, (8, 0)), Err(Code::INVALID_PTX));
    }
}
