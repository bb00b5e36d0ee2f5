//! What the suite says of itself: Ginkgo's JSON report.

use serde::Deserialize;

/// The report of one run.
#[derive(Debug, Deserialize)]
pub struct Suite {
    /// The cases, and what ran before and after all of them.
    #[serde(rename = "SpecReports", default)]
    cases: Option<Vec<Spec>>,
}

#[derive(Debug, Deserialize)]
struct Spec {
    #[serde(rename = "ContainerHierarchyTexts", default)]
    groups: Option<Vec<String>>,
    #[serde(rename = "LeafNodeText", default)]
    text: String,
    #[serde(rename = "LeafNodeType", default)]
    kind: String,
    #[serde(rename = "State")]
    state: String,
    #[serde(rename = "RunTime", default)]
    nanoseconds: u64,
    #[serde(rename = "Failure", default)]
    failure: Option<Failure>,
}

#[derive(Debug, Deserialize)]
struct Failure {
    #[serde(rename = "Message", default)]
    message: String,
}

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As it should.
    Passed,
    /// Otherwise.
    Failed,
    /// It did not run: we, or the case itself, skipped it.
    Skipped,
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its groups and its own text, as Ginkgo joins them.
    pub name: String,
    /// How it ended.
    pub end: End,
    /// What it said of that.
    pub message: String,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// Reads a report.
pub fn read(text: &str) -> serde_json::Result<Vec<Case>> {
    let suites: Vec<Suite> = serde_json::from_str(text)?;
    let specs = suites.into_iter().flat_map(|suite| suite.cases.unwrap_or_default());
    Ok(specs.filter(|spec| spec.kind == "It" || spec.state == "failed").map(case).collect())
}

fn case(spec: Spec) -> Case {
    let mut words = spec.groups.unwrap_or_default();
    words.push(spec.text);
    Case {
        name: words.join(" "),
        end: match spec.state.as_str() {
            "passed" => End::Passed,
            "skipped" | "pending" => End::Skipped,
            _ => End::Failed,
        },
        message: spec.failure.map(|failure| failure.message).unwrap_or_default(),
        seconds: std::time::Duration::from_nanos(spec.nanoseconds).as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_and_what_is_none_is_left_out() {
        let text = r#"[{"SpecReports":[
            {"ContainerHierarchyTexts":null,"LeafNodeText":"","LeafNodeType":"BeforeSuite","State":"passed","RunTime":5},
            {"ContainerHierarchyTexts":["[k8s.io] Pod","runtime"],"LeafNodeText":"should run","LeafNodeType":"It",
             "State":"passed","RunTime":1500000000},
            {"ContainerHierarchyTexts":["[k8s.io] Pod"],"LeafNodeText":"should stop","LeafNodeType":"It",
             "State":"timedout","RunTime":1,"Failure":{"Message":"too late"}},
            {"ContainerHierarchyTexts":["[k8s.io] Pod"],"LeafNodeText":"with AppArmor","LeafNodeType":"It",
             "State":"skipped","RunTime":0}]}]"#;
        let cases = read(text).expect("a report");
        let found: Vec<_> = cases.iter().map(|case| (case.name.as_str(), case.end, case.message.as_str())).collect();
        let wanted = [
            ("[k8s.io] Pod runtime should run", End::Passed, ""),
            ("[k8s.io] Pod should stop", End::Failed, "too late"),
            ("[k8s.io] Pod with AppArmor", End::Skipped, ""),
        ];
        assert_eq!(found, wanted);
        assert!((cases[0].seconds - 1.5).abs() < 1e-9);
    }
}
