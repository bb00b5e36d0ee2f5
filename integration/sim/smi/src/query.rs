//! `--query-gpu` and `--query-compute-apps`, as comma-separated values.

use crate::device::Device;
use crate::fields::{self, Field};
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

    fn head<V>(self, fields: &[(&str, &Field<V>)]) {
        if self.header {
            let column = |(name, field): &(&str, &Field<V>)| match field.unit {
                "" => (*name).to_owned(),
                unit => format!("{name} [{unit}]"),
            };
            println!("{}", fields.iter().map(column).collect::<Vec<_>>().join(", "));
        }
    }

    fn value(self, value: fields::Value, unit: &str) -> String {
        match value {
            Ok(value) if self.units && !unit.is_empty() => format!("{value} {unit}"),
            Ok(value) => value,
            Err(code) => format!("[{}]", fields::absent(code)),
        }
    }
}

/// One line per card.
pub fn gpus(devices: &[Device<'_>], names: &[String], form: Form) -> Outcome {
    let fields = fields::find(&fields::CARD, names)?;
    form.head(&fields);
    for device in devices {
        let values = fields.iter().map(|(_, field)| form.value((field.value)(*device), field.unit));
        println!("{}", values.collect::<Vec<_>>().join(", "));
    }
    Ok(())
}

/// One line per process.
pub fn applications(nvml: &Nvml, devices: &[Device<'_>], names: &[String], form: Form) -> Outcome {
    let fields = fields::find(&fields::PROCESS, names)?;
    let mut lines = Vec::new();
    for device in devices {
        for process in device.known_processes().map_err(|code| Failure::of(code, nvml.text_of(code)))? {
            let values = fields.iter().map(|(_, field)| form.value((field.value)(*device, &process), field.unit));
            lines.push(values.collect::<Vec<_>>().join(", "));
        }
    }
    form.head(&fields);
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
        assert_eq!(form.value(Ok("5".to_owned()), "MiB"), "5 MiB");
        assert_eq!(Form { units: false, ..form }.value(Ok("5".to_owned()), "MiB"), "5");
        assert_eq!(form.value(Err(3), "MiB"), "[N/A]");
        assert_eq!(form.value(Err(4), "MiB"), "[Insufficient Permissions]");
    }
}
