//! The options of an OCI runtime's verb, read as runc reads them: before or after the id, `--name value` or
//! `--name=value`, a switch also as `--name=false`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::str::FromStr;

use baton_fault::{Code, Fault, Result};

/// An option that a verb knows.
#[derive(Clone, Copy)]
pub struct Known {
    long: &'static str,
    short: Option<char>,
    takes: Takes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    /// What runc knows and Baton cannot do.
    Refused(&'static str),
}

/// `--long`, or `-s`, alone.
pub const fn switch(long: &'static str, short: Option<char>) -> Known {
    Known { long, short, takes: Takes::Nothing }
}

/// `--long VALUE`, or `-s VALUE`.
pub const fn value(long: &'static str, short: Option<char>) -> Known {
    Known { long, short, takes: Takes::Value }
}

/// An option that is refused by its name, with a reason.
pub const fn refused(long: &'static str, why: &'static str) -> Known {
    Known { long, short: None, takes: Takes::Refused(why) }
}

/// What of a command line the words are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// Options may stand among them.
    Mixed,
    /// The first is an id, and what follows it is a command with options of its own; ours may stand between the two.
    Command,
}

/// The options and words of a command line.
pub struct Options {
    verb: String,
    given: Vec<(&'static str, OsString)>,
    /// What is no option.
    pub words: Vec<OsString>,
}

impl Options {
    /// Reads what follows `verb`.
    ///
    /// # Errors
    /// `USAGE` naming the first thing that is wrong.
    pub fn read(verb: &str, args: &[OsString], known: &[Known], words: Words) -> Result<Options> {
        let mut options = Options { verb: verb.to_owned(), given: Vec::new(), words: Vec::new() };
        let mut left = args.iter();
        while let Some(arg) = left.next() {
            let text = arg.to_string_lossy();
            let command = words == Words::Command && !options.words.is_empty();
            if text == "--" || (command && !text.starts_with("--")) {
                options.words.extend((text != "--").then(|| arg.clone()));
                options.words.extend(left.cloned());
                break;
            }
            if !text.starts_with('-') || text == "-" {
                options.words.push(arg.clone());
                continue;
            }
            let name = text.trim_start_matches('-');
            let (name, attached) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
            let option = known.iter().find(|option| option.is(name)).ok_or_else(|| options.wrong(&text, "unknown"))?;
            let value = match (option.takes, attached) {
                (Takes::Refused(why), _) => return Err(options.wrong(&text, why)),
                (Takes::Nothing, None) => OsString::from("true"),
                (_, Some(attached)) => OsString::from(attached),
                (Takes::Value, None) => left.next().cloned().ok_or_else(|| options.wrong(&text, "it needs a value"))?,
            };
            if option.takes == Takes::Nothing && truth(&value).is_none() {
                return Err(options.wrong(&text, "neither true nor false"));
            }
            options.given.push((option.long, value));
        }
        Ok(options)
    }

    fn wrong(&self, option: &str, why: &str) -> Fault {
        Fault::new(Code::Usage, format_args!("option {option} of {}", self.verb), why).advise("see `baton --help`")
    }

    /// The last value of an option.
    fn last(&self, name: &str) -> Option<&OsStr> {
        self.given.iter().rev().find(|(given, _)| *given == name).map(|(_, value)| value.as_os_str())
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.last(name).and_then(truth).unwrap_or(false)
    }

    /// The value of an option as a path; an empty one is none.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.last(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The value of an option as text; an empty one is none.
    ///
    /// # Errors
    /// `USAGE` when it is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<&str>> {
        let utf8 = |value: &OsStr| value.to_str().is_some();
        match self.last(name).filter(|value| !value.is_empty()) {
            Some(value) if !utf8(value) => Err(self.wrong(&format!("--{name}"), "not UTF-8")),
            value => Ok(value.and_then(OsStr::to_str)),
        }
    }

    /// The value of an option as a number.
    ///
    /// # Errors
    /// `USAGE` when it is none, or out of range.
    pub fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let wrong = |_| self.wrong(&format!("--{name} {text}"), "not a number in range");
        text.parse().map(Some).map_err(wrong)
    }

    /// All values of an option that may be given again and again.
    ///
    /// # Errors
    /// `USAGE` when one is not UTF-8.
    pub fn all(&self, name: &str) -> Result<Vec<String>> {
        let values = self.given.iter().filter(|(given, _)| *given == name);
        values
            .map(|(_, value)| value.clone().into_string().map_err(|_| self.wrong(&format!("--{name}"), "not UTF-8")))
            .collect()
    }

    /// The one word that most verbs take.
    ///
    /// # Errors
    /// `USAGE` when there is none, or more.
    pub fn id(self) -> Result<String> {
        let verb = self.verb;
        let mut words = self.words.into_iter();
        let wrong = |why: &str| {
            Fault::new(Code::Usage, format_args!("read the arguments of {verb}"), why).advise("see `baton --help`")
        };
        match (words.next(), words.next()) {
            (Some(id), None) => id.into_string().map_err(|_| wrong("the container id is not UTF-8")),
            (None, _) => Err(wrong("no container id given")),
            (_, Some(_)) => Err(wrong("one container id is enough")),
        }
    }

    /// Refuses words.
    ///
    /// # Errors
    /// `USAGE` when there is one.
    pub fn no_words(&self) -> Result<()> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(self.wrong(&word.to_string_lossy(), "no argument belongs there")),
        }
    }
}

impl Known {
    fn is(&self, name: &str) -> bool {
        let mut letters = name.chars();
        self.long == name || (self.short.is_some() && letters.next() == self.short && letters.next().is_none())
    }
}

fn truth(value: &OsStr) -> Option<bool> {
    // What Go's strconv.ParseBool takes.
    match value.to_str()? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Known] = &[
        switch("detach", Some('d')),
        value("bundle", Some('b')),
        value("env", Some('e')),
        refused("lazy", "it cannot be done"),
    ];

    fn read(line: &str, words: Words) -> Result<Options> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Options::read("verb", &args, KNOWN, words)
    }

    #[test]
    fn options_stand_before_and_after_the_id() {
        for line in ["-d --bundle /b job", "job --bundle=/b --detach", "--detach=true job -b /b", "-bundle /b -d job"] {
            let options = read(line, Words::Mixed).expect(line);
            assert!(options.is_on("detach"), "{line}");
            assert_eq!(options.path("bundle"), Some("/b".into()), "{line}");
            assert_eq!(options.id().expect("an id"), "job", "{line}");
        }
        assert!(!read("--detach=false job", Words::Mixed).expect("read").is_on("detach"));
        assert_eq!(read("-e A=1 --env B=2 job", Words::Mixed).expect("read").all("env").expect("all"), ["A=1", "B=2"]);
    }

    #[test]
    fn a_command_keeps_its_options() {
        let options = read("-d job --env A=1 sh -c -d", Words::Command).expect("read");
        assert_eq!(options.words, ["job", "sh", "-c", "-d"]);
        assert!(options.is_on("detach"));
        let options = read("job -- --env x", Words::Command).expect("read");
        assert_eq!(options.words, ["job", "--env", "x"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, named) in [
            ("--frob job", "--frob"),
            ("job --bundle", "--bundle"),
            ("--detach=maybe job", "--detach=maybe"),
            ("--lazy job", "cannot be done"),
        ] {
            let fault = read(line, Words::Mixed).err().expect(line);
            assert!(fault.code == Code::Usage && fault.to_string().contains(named), "{fault}");
        }
        assert!(read("", Words::Mixed).expect("read").id().is_err());
        assert!(read("a b", Words::Mixed).expect("read").id().is_err());
        assert!(read("a", Words::Mixed).expect("read").no_words().is_err());
    }
}
