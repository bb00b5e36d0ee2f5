//! What was measured: its table, and its file.

use std::fs;

use baton_fault::{Attempt, Code, Fault, Result};
use serde_json::{Value, json};

/// One figure.
struct Figure {
    name: String,
    unit: &'static str,
    baton: f64,
    /// The other's name, and its figure.
    peer: Option<(&'static str, f64)>,
}

/// All figures.
#[derive(Default)]
pub struct Figures(Vec<Figure>);

impl Figures {
    /// Adds one that only Baton has.
    pub fn alone(&mut self, name: impl Into<String>, unit: &'static str, baton: f64) {
        self.0.push(Figure { name: name.into(), unit, baton, peer: None });
    }

    /// Adds one that is compared.
    pub fn beside(&mut self, name: impl Into<String>, unit: &'static str, baton: f64, peer: (&'static str, f64)) {
        self.0.push(Figure { name: name.into(), unit, baton, peer: Some(peer) });
    }

    /// Prints the table.
    pub fn print(&self) {
        println!("\n{:<52} {:>5} {:>12} {:>16} {:>7}", "", "", "Baton", "peer", "ratio");
        for figure in &self.0 {
            let peer = figure.peer.map_or_else(|| "-".to_owned(), |(name, value)| format!("{name} {value:.1}"));
            let ratio = figure.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            println!("{:<52} {:>5} {:>12.1} {peer:>16} {ratio:>7}", figure.name, figure.unit, figure.baton);
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
    /// How many times the peer's.
    fn ratio(&self) -> Option<f64> {
        self.peer.map(|(_, value)| self.baton / value).filter(|ratio| ratio.is_finite())
    }

    fn json(&self) -> Value {
        let peers: serde_json::Map<String, Value> =
            self.peer.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        json!({ "name": self.name, "unit": self.unit, "baton": self.baton, "peers": peers, "ratio": self.ratio() })
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
    fn a_figure_without_a_peer_has_no_ratio() {
        let mut figures = Figures::default();
        figures.alone("a", "ms", 3.0);
        figures.beside("b", "ms", 3.0, ("runc", 2.0));
        assert_eq!(figures.0[0].json(), json!({"name": "a", "unit": "ms", "baton": 3.0, "peers": {}, "ratio": null}));
        assert_eq!(
            figures.0[1].json(),
            json!({"name": "b", "unit": "ms", "baton": 3.0, "peers": {"runc": 2.0}, "ratio": 1.5})
        );
    }
}
