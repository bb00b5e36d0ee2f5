//! Faults that a test has ordered, for any call of any program.
//!
//! ```text
//! fault=CALL[@PROGRAM]:ACTION[*COUNT]    CALL: name of a C function, or Lock, Checkpoint, Restore, Unlock, State
//!                                        ACTION: error-CODE, delay-MS, hang, crash      COUNT: 1, a number, or all
//! ```

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::FileExt;

use baton_sim_wire::FaultAction;

/// The most faults that stand at once.
const MOST: usize = 64;
/// The longest name of a call or a program.
const LONGEST: usize = 64;

/// What is wrong with a code that [`failure`] does not take.
pub const NO_FAILURE: &str = "the code is no number from 1 on";

/// The code of a failure: 0 would be a success that has not happened, and the libraries know none below.
pub fn failure(text: &str) -> Option<i32> {
    text.parse().ok().filter(|code| *code > 0)
}

/// The call that a well-formed order is for.
pub fn call_of(text: &str) -> Option<String> {
    Fault::of(text).ok().map(|fault| fault.call)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    call: String,
    program: Option<String>,
    action: FaultAction,
    /// How often it still happens; `None`: every time.
    left: Option<u32>,
}

impl Fault {
    fn of(text: &str) -> Result<Fault, String> {
        let wrong = |what: &str| format!("fault={text}: {what}; CALL[@PROGRAM]:ACTION[*COUNT]");
        let (whom, how) = text.split_once(':').ok_or_else(|| wrong("no \":\""))?;
        let (call, program) = match whom.split_once('@') {
            Some((call, program)) => (call, Some(program)),
            None => (whom, None),
        };
        let plain = |word: &str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            !word.is_empty() && word.len() <= LONGEST && word.bytes().all(known)
        };
        if !plain(call) || program.is_some_and(|program| !plain(program)) {
            return Err(wrong("a name is empty, too long or odd"));
        }
        let (action, count) = how.split_once('*').unwrap_or((how, "1"));
        let left = match count {
            "all" => None,
            count => Some(count.parse().ok().filter(|count| *count > 0).ok_or_else(|| wrong("no such count"))?),
        };
        let action = match action.split_once('-') {
            Some(("error", code)) => FaultAction::Error(failure(code).ok_or_else(|| wrong(NO_FAILURE))?),
            Some(("delay", time)) => FaultAction::Delay(time.parse().map_err(|_| wrong("the delay is no number"))?),
            None if action == "hang" => FaultAction::Hang,
            None if action == "crash" => FaultAction::Crash,
            _ => return Err(wrong("no such action: error-CODE, delay-MS, hang, crash")),
        };
        Ok(Fault { call: call.to_owned(), program: program.map(str::to_owned), action, left })
    }
}

/// All faults that stand.
#[derive(Debug)]
pub struct Faults {
    standing: Vec<Fault>,
    page: File,
}

impl Faults {
    /// None.
    ///
    /// # Errors
    /// When there is no memory for the page.
    pub fn none() -> io::Result<Faults> {
        // SAFETY: the name is NUL-terminated; memfd_create returns a new descriptor or -1.
        let raw = unsafe { libc::memfd_create(c"faults".as_ptr(), libc::MFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let page = unsafe { File::from_raw_fd(raw) };
        page.set_len(4096)?;
        Ok(Faults { standing: Vec::new(), page })
    }

    /// What programs map: the number of faults that stand, a `u32`.
    pub fn page(&self) -> BorrowedFd<'_> {
        self.page.as_fd()
    }

    /// Takes an order; `off` takes all back.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn order(&mut self, text: &str) -> Result<(), String> {
        if text == "off" {
            self.standing.clear();
        } else if self.standing.len() == MOST {
            return Err(format!("{MOST} faults stand already"));
        } else {
            self.standing.push(Fault::of(text)?);
        }
        self.tell().map_err(|error| format!("cannot tell of the fault: {error}"))
    }

    /// What this call of this program is to do wrong, used up by asking.
    pub fn of_call(&mut self, call: &str, program: &str) -> Option<FaultAction> {
        let meant = |fault: &Fault| fault.call == call && fault.program.as_deref().is_none_or(|name| name == program);
        let place = self.standing.iter().position(meant)?;
        let fault = &mut self.standing[place];
        let action = fault.action;
        if let Some(left) = &mut fault.left {
            *left -= 1;
            if *left == 0 {
                self.standing.remove(place);
                // Who reads the old number asks once in vain.
                let _ = self.tell();
            }
        }
        Some(action)
    }

    fn tell(&self) -> io::Result<()> {
        self.page.write_all_at(&(self.standing.len() as u32).to_ne_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_meets_the_call_it_names_as_often_as_it_says() {
        let mut faults = Faults::none().expect("memory");
        let told = |faults: &Faults| {
            let mut count = [0u8; 4];
            faults.page.read_exact_at(&mut count, 0).expect("read");
            u32::from_ne_bytes(count)
        };
        faults.order("cuMemAlloc_v2@counter:error-2*2").expect("an order");
        faults.order("nvmlInit_v2:delay-5*all").expect("an order");
        assert_eq!(told(&faults), 2);
        assert_eq!(faults.of_call("cuMemAlloc_v2", "other"), None);
        assert_eq!(faults.of_call("cuMemAlloc_v2", "counter"), Some(FaultAction::Error(2)));
        assert_eq!(faults.of_call("cuMemAlloc_v2", "counter"), Some(FaultAction::Error(2)));
        assert_eq!(faults.of_call("cuMemAlloc_v2", "counter"), None);
        for _ in 0..3 {
            assert_eq!(faults.of_call("nvmlInit_v2", "x"), Some(FaultAction::Delay(5)));
        }
        assert_eq!(told(&faults), 1);
        faults.order("off").expect("an order");
        assert_eq!((told(&faults), faults.of_call("nvmlInit_v2", "x")), (0, None));
    }

    #[test]
    fn malformed_orders_are_refused_with_a_reason() {
        let long = format!("{}:hang", "a".repeat(65));
        for (order, why) in [
            ("cuInit", "no \":\""),
            (":hang", "empty"),
            ("cuInit@:hang", "empty"),
            ("cu Init:hang", "odd"),
            (long.as_str(), "too long"),
            ("cuInit:explode", "no such action"),
            ("cuInit:error", "no such action"),
            ("cuInit:error-x", "no number"),
            ("cuInit:error-0", "no number from 1"),
            ("cuInit:error--5", "no number from 1"),
            ("cuInit:delay--1", "no number"),
            ("cuInit:hang*0", "no such count"),
            ("cuInit:hang*", "no such count"),
        ] {
            let said = Fault::of(order).expect_err(order);
            assert!(said.contains(why), "{order}: {said}");
        }
    }
}
