//! What `-q` tells, before it is text or XML.

use crate::fields;
use crate::outcome::Code;

/// Something that is told, with its name in text and in XML. nvidia-smi writes the two differently in a few places; what is
/// different is said here, once, and not where the facts are put together.
#[derive(Debug, PartialEq, Eq)]
pub enum Fact {
    /// A name and a value.
    Value {
        /// Its name in text.
        title: &'static str,
        /// Its name in XML.
        element: &'static str,
        /// The value, or why there is none.
        value: String,
    },
    /// A number in hexadecimal: text has `0x` before it.
    Hexadecimal {
        /// Its name in text.
        title: &'static str,
        /// Its name in XML.
        element: &'static str,
        /// The number.
        digits: String,
    },
    /// Facts under a heading. In text, a group without a title is none, and one without facts has the value `None`.
    Group {
        /// The heading in text.
        title: &'static str,
        /// The element around them in XML.
        element: &'static str,
        /// The facts.
        facts: Vec<Fact>,
    },
    /// Facts that belong to the value before them: text has them one step deeper, XML beside it.
    Beneath(Vec<Fact>),
    /// In XML, the word `None` in place of facts that there are not; nothing in text.
    Nothing,
}

/// A name and a value.
pub fn plain(title: &'static str, element: &'static str, value: impl ToString) -> Fact {
    Fact::Value { title, element, value: value.to_string() }
}

/// A name and a value that may be absent.
pub fn value(title: &'static str, element: &'static str, value: Result<impl ToString, Code>) -> Fact {
    with(title, element, value, "")
}

/// A name and a value with a unit, as ` MiB`, that may be absent.
pub fn with(title: &'static str, element: &'static str, value: Result<impl ToString, Code>, unit: &str) -> Fact {
    let text = value.map(|value| format!("{}{unit}", value.to_string()));
    plain(title, element, text.unwrap_or_else(|code| fields::absent(code).to_owned()))
}

/// A number in hexadecimal.
pub fn hexadecimal(title: &'static str, element: &'static str, digits: String) -> Fact {
    Fact::Hexadecimal { title, element, digits }
}

/// Facts under a heading.
pub fn group(title: &'static str, element: &'static str, facts: impl Into<Vec<Fact>>) -> Fact {
    Fact::Group { title, element, facts: facts.into() }
}
