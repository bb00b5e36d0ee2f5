//! What was measured: its table, and its file.

use std::fs;

use baton_fault::{Attempt, Code, Fault, Result};
use serde_json::{Value, json};

/// One figure.
struct Figure {
    name: String,
    unit: &'static str,
    baton: f64,
    /// The others' names and figures.
    peers: Vec<(&'static str, f64)>,
}

/// All figures.
#[derive(Default)]
pub struct Figures(Vec<Figure>);

impl Figures {
    /// Adds one that only Baton has.
    pub fn alone(&mut self, name: impl Into<String>, unit: &'static str, baton: f64) {
        self.0.push(Figure { name: name.into(), unit, baton, peers: Vec::new() });
    }

    /// Adds one that is compared: Baton's comes first.
    pub fn beside(&mut self, name: impl Into<String>, unit: &'static str, all: &[(&'static str, f64)]) {
        let [(_, baton), peers @ ..] = all else { return };
        self.0.push(Figure { name: name.into(), unit, baton: *baton, peers: peers.to_vec() });
    }

    /// Prints the table: each peer's figure, and behind it Baton's as a part of it.
    pub fn print(&self) {
        println!("\n{:<60} {:>4} {:>9}   peers (Baton's as a part of it)", "", "", "Baton");
        for figure in &self.0 {
            print!("{:<60} {:>4} {:>9.1}", figure.name, figure.unit, figure.baton);
            for (name, value) in &figure.peers {
                print!("   {name} {value:.1} ({:.2})", figure.baton / value);
            }
            println!();
        }
    }

    /// Writes `bench.json` into the target folder, in which this program lies.
    pub fn write(&self) -> Result<()> {
        let own = std::env::current_exe().attempt(|| "find the own program")?;
        let folder = own.ancestors().nth(2).ok_or_else(|| {
            Fault::new(Code::File, "find the target folder", format!("{} lies in none", own.display()))
        })?;
        let path = folder.join("bench.json");
        let all: Vec<Value> = self.0.iter().map(Figure::json).collect();
        fs::write(&path, format!("{:#}\n", Value::Array(all))).attempt(|| format!("write {}", path.display()))?;
        println!("\nThe same as JSON: {}", path.display());
        Ok(())
    }
}

impl Figure {
    fn json(&self) -> Value {
        let all = |pick: &dyn Fn(f64) -> f64| -> serde_json::Map<String, Value> {
            self.peers.iter().map(|(name, value)| ((*name).to_owned(), json!(pick(*value)))).collect()
        };
        let ratios = all(&|value| self.baton / value);
        json!({ "name": self.name, "unit": self.unit, "baton": self.baton, "peers": all(&|value| value), "ratios": ratios })
    }
}

/// The value below which that part of all lies (nearest rank): 0.5 is the median. 0 of none.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_nearest_rank() {
        let values: Vec<f64> = (1..=50).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), 25.0);
        assert_eq!(quantile(&values, 0.95), 48.0);
        assert_eq!(quantile(&[7.0], 0.95), 7.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_ratio_is_a_part_of_the_peers_figure() {
        let mut figures = Figures::default();
        figures.alone("a", "ms", 3.0);
        figures.beside("b", "ms", &[("baton", 3.0), ("runc", 2.0)]);
        assert_eq!(figures.0[0].json(), json!({"name": "a", "unit": "ms", "baton": 3.0, "peers": {}, "ratios": {}}));
        assert_eq!(
            figures.0[1].json(),
            json!({"name": "b", "unit": "ms", "baton": 3.0, "peers": {"runc": 2.0}, "ratios": {"runc": 1.5}})
        );
    }
}
