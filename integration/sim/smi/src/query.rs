//! `--query-gpu` and `--query-compute-apps`, as comma-separated values.

use crate::device::Device;
use crate::fields;
use crate::nvml::Nvml;
use crate::outcome::{Failure, Outcome};

/// How values are printed: `--format=csv[,noheader][,nounits]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// With the names of the columns.
    pub header: bool,
    /// With units.
    pub units: bool,
}

impl Default for Form {
    fn default() -> Form {
        Form { header: true, units: true }
    }
}

impl Form {
    /// From the value of `--format`.
    pub fn parse(text: &str) -> Outcome<Form> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let known = |word: &&str| matches!(*word, "csv" | "noheader" | "nounits");
        if !words.contains(&"csv") || !words.iter().all(known) {
            return Err(Failure::usage(format!("\"{text}\" is not a valid format")));
        }
        Ok(Form { header: !words.contains(&"noheader"), units: !words.contains(&"nounits") })
    }

    fn head(self, fields: &[String]) {
        if self.header {
            let column = |field: &String| match fields::unit(field) {
                "" => field.clone(),
                unit => format!("{field} [{unit}]"),
            };
            println!("{}", fields.iter().map(column).collect::<Vec<_>>().join(", "));
        }
    }

    fn value(self, value: Result<(String, &'static str), u32>) -> String {
        match value {
            Ok((value, unit)) if self.units && !unit.is_empty() => format!("{value} {unit}"),
            Ok((value, _)) => value,
            Err(code) => fields::absent(code).to_owned(),
        }
    }
}

/// One line per card.
pub fn gpus(_nvml: &Nvml, devices: &[Device<'_>], names: &[String], form: Form) -> Outcome {
    let unknown = |name: &str| Failure::usage(format!("Field \"{name}\" is not a valid field to query.\n"));
    let mut lines = Vec::new();
    for device in devices {
        let value = |name: &String| fields::of_card(*device, devices.len(), name).ok_or_else(|| unknown(name));
        let values: Vec<_> = names.iter().map(value).collect::<Outcome<_>>()?;
        lines.push(values.into_iter().map(|value| form.value(value)).collect::<Vec<_>>().join(", "));
    }
    form.head(names);
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// One line per process.
pub fn applications(nvml: &Nvml, devices: &[Device<'_>], names: &[String], form: Form) -> Outcome {
    if let Some(name) = names.iter().find(|name| !fields::is_of_process(name)) {
        return Err(Failure::usage(format!("Field \"{name}\" is not a valid field to query.\n")));
    }
    let mut lines = Vec::new();
    for device in devices {
        let processes = match device.processes() {
            Err(code) if fields::is_absence(code) => Vec::new(),
            answer => answer.map_err(|code| Failure::of(code, nvml.text_of(code)))?,
        };
        for process in processes {
            let value = |name: &String| form.value(fields::of_process(*device, &process, name));
            lines.push(names.iter().map(value).collect::<Vec<_>>().join(", "));
        }
    }
    form.head(names);
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_csv_with_what_is_left_out() {
        assert_eq!(Form::parse("csv"), Ok(Form { header: true, units: true }));
        assert_eq!(Form::parse("csv, noheader,nounits"), Ok(Form { header: false, units: false }));
        assert!(Form::parse("noheader").is_err() && Form::parse("csv,pretty").is_err());
    }

    #[test]
    fn what_is_not_there_is_said_to_be_so() {
        let form = Form { header: true, units: true };
        assert_eq!(form.value(Ok(("5".to_owned(), "MiB"))), "5 MiB");
        assert_eq!(Form { units: false, ..form }.value(Ok(("5".to_owned(), "MiB"))), "5");
        assert_eq!(
            (form.value(Err(3)), form.value(Err(4))),
            ("[N/A]".to_owned(), "[Insufficient Permissions]".to_owned())
        );
    }
}
