//! The one error type of Baton: a stable [`Code`] and one line that says what was attempted, on what,
//! what came back and what to do.
//!
//! Faults are returned, never logged on the way; the edge (the command line, the Task service) prints or
//! logs them once. The text of a fault is one line whatever went into it: control characters are replaced,
//! so that a path or a log line of a hostile container cannot forge a second one.

use std::fmt;

/// What a caller may branch on. The name printed by [`Code::as_str`] never changes once released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The command line was not understood.
    Usage,
    /// A file that is needed is missing or unreadable.
    File,
    /// A container, image or other named thing does not exist.
    NotFound,
    /// A container or image of that name exists already.
    Exists,
    /// The thing exists but is in a state in which the request makes no sense.
    State,
    /// A settings file does not parse or holds a value out of range.
    Settings,
    /// A bundle or its config.json is not what the OCI runtime specification asks for.
    Bundle,
    /// A program or a daemon that Baton needs did not answer, or answered nonsense.
    Unavailable,
    /// A deadline passed; the outcome of the last call may be unknown.
    Deadline,
    /// No room: disk, content store or host memory.
    NoSpace,
    /// The kernel refused a system call.
    System,
    /// libcontainer refused or failed a container operation.
    Engine,
    /// CRIU failed; the text carries its last real error.
    Criu,
    /// CRIU is missing or older than 4.2.
    CriuVersion,
    /// A device request comes from a source that is not trusted.
    RequestUntrusted,
    /// A device request does not parse.
    RequestSyntax,
    /// A requested device does not exist on this node.
    DeviceUnknown,
    /// A device node is missing, or is not the character device it should be.
    NodeType,
    /// The driver, its libraries or its device files are missing.
    DriverMissing,
    /// Another save, restore or pause holds the card.
    LeaseBusy,
    /// The container has no GPU, and the operation needs one.
    NoGpu,
    /// The driver cannot checkpoint this kind of device.
    CrUnsupported,
    /// The GPU agent could not be started, or ended.
    CrHelperMissing,
    /// A CUDA process did not stop at a safe point in time.
    CrLockTimeout,
    /// After a checkpoint or a restore a process is not in the state it must be in.
    CrGpuStateMissing,
    /// The driver refused a checkpoint or a restore.
    CrDriver,
    /// A process is lost: the driver could not put its GPU state back.
    CrLost,
    /// The image is not a checkpoint of Baton.
    ImageNotCheckpoint,
    /// The image is a checkpoint, but damaged, cut or hostile.
    ImageCorrupt,
    /// The registry refused or did not answer.
    Registry,
    /// The image was saved on another machine architecture.
    RestoreArch,
    /// The image was saved with another driver version.
    RestoreDriver,
    /// The image was saved on another GPU model.
    RestoreModel,
    /// The image needs another number of GPUs.
    RestoreCount,
    /// The image was saved on another kind of device (whole card, MIG, MPS).
    RestoreKind,
    /// The card has too little memory, or too little of it is free.
    RestoreMemory,
    /// The CPU lacks features that the saved processes use.
    RestoreCpu,
    /// CRIU here is older than the one that saved.
    RestoreCriu,
    /// A mount point of the saved container is missing in the live spec.
    RestoreMount,
    /// After the restore something is not as it was.
    RestoreState,
}

impl Code {
    /// The stable name, as printed and as tests and operators match it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Code::Usage => "USAGE",
            Code::File => "FILE",
            Code::NotFound => "NOT_FOUND",
            Code::Exists => "EXISTS",
            Code::State => "STATE",
            Code::Settings => "SETTINGS",
            Code::Bundle => "BUNDLE",
            Code::Unavailable => "UNAVAILABLE",
            Code::Deadline => "DEADLINE",
            Code::NoSpace => "NO_SPACE",
            Code::System => "SYSTEM",
            Code::Engine => "ENGINE",
            Code::Criu => "CRIU",
            Code::CriuVersion => "CRIU_VERSION",
            Code::RequestUntrusted => "REQUEST_UNTRUSTED",
            Code::RequestSyntax => "REQUEST_SYNTAX",
            Code::DeviceUnknown => "DEVICE_UNKNOWN",
            Code::NodeType => "NODE_TYPE",
            Code::DriverMissing => "DRIVER_MISSING",
            Code::LeaseBusy => "LEASE_BUSY",
            Code::NoGpu => "NO_GPU",
            Code::CrUnsupported => "CR_UNSUPPORTED",
            Code::CrHelperMissing => "CR_HELPER_MISSING",
            Code::CrLockTimeout => "CR_LOCK_TIMEOUT",
            Code::CrGpuStateMissing => "CR_GPU_STATE_MISSING",
            Code::CrDriver => "CR_DRIVER",
            Code::CrLost => "CR_LOST",
            Code::ImageNotCheckpoint => "IMAGE_NOT_CHECKPOINT",
            Code::ImageCorrupt => "IMAGE_CORRUPT",
            Code::Registry => "REGISTRY",
            Code::RestoreArch => "RESTORE_ARCH",
            Code::RestoreDriver => "RESTORE_DRIVER",
            Code::RestoreModel => "RESTORE_MODEL",
            Code::RestoreCount => "RESTORE_COUNT",
            Code::RestoreKind => "RESTORE_KIND",
            Code::RestoreMemory => "RESTORE_MEMORY",
            Code::RestoreCpu => "RESTORE_CPU",
            Code::RestoreCriu => "RESTORE_CRIU",
            Code::RestoreMount => "RESTORE_MOUNT",
            Code::RestoreState => "RESTORE_STATE",
        }
    }

    /// The code of that name, for a fault that another program of Baton printed.
    pub fn parse(name: &str) -> Option<Code> {
        ALL.iter().copied().find(|code| code.as_str() == name)
    }
}

/// Every code, for [`Code::parse`] and for the test that names are unique.
const ALL: &[Code] = &[
    Code::Usage,
    Code::File,
    Code::NotFound,
    Code::Exists,
    Code::State,
    Code::Settings,
    Code::Bundle,
    Code::Unavailable,
    Code::Deadline,
    Code::NoSpace,
    Code::System,
    Code::Engine,
    Code::Criu,
    Code::CriuVersion,
    Code::RequestUntrusted,
    Code::RequestSyntax,
    Code::DeviceUnknown,
    Code::NodeType,
    Code::DriverMissing,
    Code::LeaseBusy,
    Code::NoGpu,
    Code::CrUnsupported,
    Code::CrHelperMissing,
    Code::CrLockTimeout,
    Code::CrGpuStateMissing,
    Code::CrDriver,
    Code::CrLost,
    Code::ImageNotCheckpoint,
    Code::ImageCorrupt,
    Code::Registry,
    Code::RestoreArch,
    Code::RestoreDriver,
    Code::RestoreModel,
    Code::RestoreCount,
    Code::RestoreKind,
    Code::RestoreMemory,
    Code::RestoreCpu,
    Code::RestoreCriu,
    Code::RestoreMount,
    Code::RestoreState,
];

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Longest text of one part of a fault, in characters: enough for a path and an errno, too little for a log.
const PART_MAX: usize = 1024;

/// A failure, as a user reads it: `CODE: what was attempted: what came back; what to do`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The stable code.
    pub code: Code,
    what: String,
    why: String,
    advice: String,
}

/// What every fallible function of Baton returns.
pub type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    /// `what` was attempted (with the object it was attempted on), `why` it failed.
    pub fn new(code: Code, what: impl fmt::Display, why: impl fmt::Display) -> Fault {
        Fault { code, what: one_line(&what), why: one_line(&why), advice: String::new() }
    }

    /// Adds what the reader can do about it.
    #[must_use]
    pub fn advise(mut self, advice: impl fmt::Display) -> Fault {
        self.advice = one_line(&advice);
        self
    }

    /// A failed system call or file operation: the code follows the error (no room, missing, the rest).
    pub fn io(what: impl fmt::Display, err: &std::io::Error) -> Fault {
        use std::io::ErrorKind;
        let (code, advice) = match err.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => (Code::NoSpace, "make room there, then try again"),
            ErrorKind::NotFound => (Code::File, "see whether the path is right"),
            ErrorKind::PermissionDenied => (Code::System, "run it as root"),
            _ => (Code::System, ""),
        };
        Fault::new(code, what, err).advise(advice)
    }

    /// What came back, without code and advice, for a fault that tells of another.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The same under another code.
    #[must_use]
    pub fn with_code(mut self, code: Code) -> Fault {
        self.code = code;
        self
    }

    /// Puts a wider attempt before the text: `saving job: <what it was before>`.
    #[must_use]
    pub fn during(mut self, wider: impl fmt::Display) -> Fault {
        self.what = one_line(&format_args!("{wider}: {}", self.what));
        self
    }

    /// Reads a fault back from its printed form, as it crosses from one program of Baton to another.
    pub fn parse(line: &str) -> Option<Fault> {
        let (name, rest) = line.trim().split_once(": ")?;
        let code = Code::parse(name)?;
        let (rest, advice) = rest.rsplit_once("; ").unwrap_or((rest, ""));
        let (what, why) = rest.rsplit_once(": ").unwrap_or((rest, ""));
        Some(Fault { code, what: one_line(&what), why: one_line(&why), advice: one_line(&advice) })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.what)?;
        if !self.why.is_empty() {
            write!(f, ": {}", self.why)?;
        }
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// Attaches what was attempted to an I/O error.
pub trait Attempt<T> {
    /// On failure: `what` with the error as the reason.
    fn attempt<D: fmt::Display>(self, what: impl FnOnce() -> D) -> Result<T>;
}

impl<T> Attempt<T> for std::io::Result<T> {
    fn attempt<D: fmt::Display>(self, what: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|err| Fault::io(what(), &err))
    }
}

/// Whether a terminal shows the character and does nothing else: no control character, no zero-width one, none that
/// turns the direction of the text.
pub fn is_printed(c: char) -> bool {
    let acts = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !acts
}

fn one_line(text: &dyn fmt::Display) -> String {
    let text = text.to_string();
    let mut line: String = text.trim().chars().take(PART_MAX).map(|c| if is_printed(c) { c } else { ' ' }).collect();
    if text.trim().chars().nth(PART_MAX).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_code_what_why_and_what_to_do() {
        let fault = Fault::new(Code::RestoreModel, "cannot restore r/job:1", "saved on \"H100\", here is \"A100\"")
            .advise("run it on a node with an H100");
        assert_eq!(
            fault.to_string(),
            "RESTORE_MODEL: cannot restore r/job:1: saved on \"H100\", here is \"A100\"; run it on a node with an H100"
        );
    }

    #[test]
    fn a_hostile_text_stays_on_one_line_and_is_bounded() {
        let fault = Fault::new(Code::File, "open a\nb\u{1b}[31m", "x".repeat(5000));
        let text = fault.to_string();
        assert!(!text.contains('\n') && !text.contains('\u{1b}'));
        assert_eq!(text.chars().filter(|c| *c == 'x').count(), PART_MAX);
    }

    #[test]
    fn what_turns_the_text_round_is_not_printed() {
        let text = Fault::new(Code::File, "open gpj\u{202e}exe\u{200b}.x", "none").to_string();
        assert_eq!(text, "FILE: open gpj exe .x: none");
    }

    #[test]
    fn crosses_from_program_to_program() {
        let fault = Fault::new(Code::Criu, "dump of job", "Can't dump task").advise("see dump.log");
        assert_eq!(Fault::parse(&fault.to_string()), Some(fault));
        assert_eq!(Fault::parse("nonsense: x"), None);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|c| c.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn a_full_disk_has_its_own_code() {
        let err = std::io::Error::from_raw_os_error(28);
        let fault = Fault::io("write pages-1.img", &err);
        assert_eq!(fault.code, Code::NoSpace);
        assert!(fault.to_string().ends_with("; make room there, then try again"), "{fault}");
    }
}
