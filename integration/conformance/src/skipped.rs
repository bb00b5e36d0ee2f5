//! The cases that are skipped, and why: `skipped.toml`.

use serde::Deserialize;

const LIST: &str = include_str!("../skipped.toml");

/// Cases that are skipped, under every handler alike.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Skipped {
    /// Part of the names of the cases.
    pub case: String,
    /// Why.
    pub why: String,
    /// The containerd versions in which they are skipped (`2.0`); in all of them if there is none.
    #[serde(default)]
    pub containerd: Vec<String>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    skipped: Vec<Skipped>,
}

/// The list for a containerd version, `2.1.9`.
///
/// # Errors
/// When the list is not as it should be.
pub fn list(containerd: &str) -> Result<Vec<Skipped>, toml::de::Error> {
    let all = toml::from_str::<List>(LIST)?.skipped;
    let of_it = |line: &str| containerd.strip_prefix(line).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    Ok(all
        .into_iter()
        .filter(|one| one.containerd.is_empty() || one.containerd.iter().any(|line| of_it(line)))
        .collect())
}

/// What Ginkgo is told to skip: a regular expression.
pub fn expression(list: &[Skipped]) -> String {
    let escape = |text: &str| {
        text.chars().fold(String::new(), |mut done, letter| {
            if !letter.is_alphanumeric() && letter != ' ' {
                done.push('\\');
            }
            done.push(letter);
            done
        })
    };
    list.iter().map(|one| escape(&one.case)).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_and_each_case_has_a_reason() {
        for one in list("2.1.9").expect("a list") {
            assert!(!one.case.is_empty() && one.why.len() > 10, "{one:?}");
        }
    }

    #[test]
    fn an_expression_means_its_letters() {
        let skipped = |case: &str| Skipped { case: case.to_owned(), why: String::new(), containerd: Vec::new() };
        assert_eq!(expression(&[skipped("[Pod] a.b"), skipped("c")]), "\\[Pod\\] a\\.b|c");
        assert_eq!(expression(&[]), "");
    }
}
