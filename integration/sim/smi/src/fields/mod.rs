//! The fields that `--query-gpu` and `--query-compute-apps` know, one table each: by it they are found, put under heads with
//! their units, and listed by `--help-query-gpu` and `--help-query-compute-apps`.

mod card;
mod process;

pub use card::CARD;
pub use process::PROCESS;

use crate::outcome::{Code, Failure, NO_PERMISSION, Outcome};

/// A value without its unit, or why there is none.
pub type Value = Result<String, Code>;

/// A field, with the function `V` that answers for it.
pub struct Field<V: 'static> {
    /// What it may be called.
    pub names: &'static [&'static str],
    /// The unit of its values.
    pub unit: &'static str,
    /// What it is, for a person.
    pub about: &'static str,
    /// Its value.
    pub value: V,
}

const fn field<V>(names: &'static [&'static str], unit: &'static str, about: &'static str, value: V) -> Field<V> {
    Field { names, unit, about, value }
}

/// The fields of these names, with the names.
pub fn find<'f, V>(fields: &'static [Field<V>], names: &'f [String]) -> Outcome<Vec<(&'f str, &'static Field<V>)>> {
    let known = |name: &'f String| {
        let found = fields.iter().find(|field| field.names.contains(&name.as_str()));
        let unknown = || Failure::usage(format!("Field \"{name}\" is not a valid field to query.\n"));
        found.map(|field| (name.as_str(), field)).ok_or_else(unknown)
    };
    names.iter().map(known).collect()
}

/// All of them, as the option that queries them lists them. Programs look for names in quotes below an empty line.
pub fn help<V>(fields: &[Field<V>], option: &str) -> String {
    let mut text = format!("List of valid properties to query for the switch \"{option}\":\n\n");
    for Field { names, about, .. } in fields {
        let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        text += &format!("{}\n{about}\n\n", quoted.join(" or "));
    }
    text
}

fn text(value: Result<impl ToString, Code>) -> Value {
    value.map(|value| value.to_string())
}

/// What is printed for a value that there is not.
pub fn absent(code: Code) -> &'static str {
    if code == NO_PERMISSION { "Insufficient Permissions" } else { "N/A" }
}

/// `Enabled` or `Disabled`.
pub fn enabled(on: bool) -> &'static str {
    if on { "Enabled" } else { "Disabled" }
}

/// As nvidia-smi names `nvmlComputeMode_t`.
pub fn compute_mode(mode: u32) -> &'static str {
    match mode {
        0 => "Default",
        2 => "Prohibited",
        3 => "Exclusive_Process",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_names_in_quotes_below_empty_lines() {
        let field = field(&["name", "gpu_name"], "", "What it is.", ());
        let wanted = "List of valid properties to query for the switch \"--query-gpu\":\n\n\
                      \"name\" or \"gpu_name\"\nWhat it is.\n\n";
        assert_eq!(help(&[field], "--query-gpu"), wanted);
    }

    #[test]
    fn no_two_fields_have_a_name_in_common() {
        let names = |lists: Vec<&'static [&'static str]>| {
            let mut names = lists.concat();
            names.sort_unstable();
            names
        };
        let card = names(CARD.iter().map(|field| field.names).collect());
        let process = names(PROCESS.iter().map(|field| field.names).collect());
        for names in [card, process] {
            let mut once = names.clone();
            once.dedup();
            assert_eq!(names, once);
        }
    }
}
