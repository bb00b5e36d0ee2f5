//! What the person who watches sees: headings, commands with the time each took, and what has been found to hold.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use baton_fault::{Code, Fault, Result};

/// Longest line of a command, in characters.
const WIDTH: usize = 92;

/// The screen, and the times for the summary.
pub struct Show {
    color: bool,
    began: Instant,
    section: Option<(String, Instant)>,
    /// What took how long.
    times: Vec<(String, Duration)>,
    held: usize,
    number: u32,
}

impl Show {
    /// An empty screen.
    pub fn new() -> Show {
        Show {
            color: std::io::stdout().is_terminal(),
            began: Instant::now(),
            section: None,
            times: Vec::new(),
            held: 0,
            number: 0,
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A numbered heading; the section before it ends.
    pub fn heading(&mut self, title: &str) {
        self.end_section();
        println!("\n{}", self.paint("1", title));
        self.section = Some((title.to_owned(), Instant::now()));
    }

    fn end_section(&mut self) {
        if let Some((title, began)) = self.section.take() {
            self.times.push((title, began.elapsed()));
        }
    }

    /// A line of explanation.
    pub fn say(&self, text: &str) {
        println!("   {text}");
    }

    /// A line, or more, of what a command printed.
    pub fn output(&self, text: &str) {
        for line in text.lines() {
            for piece in folded(line, "   ", "") {
                println!("{}", self.paint("36", &format!("   | {piece}")));
            }
        }
    }

    /// Does something that is shown as a command, and shows how long it took.
    pub fn timed<T>(&self, prompt: &str, command: &str, deed: impl FnOnce() -> Result<T>) -> Result<T> {
        print!("   {}", folded(&format!("{prompt} {command}"), "     ", " \\").join("\n   "));
        // That the line is seen while the command runs is a kindness, no need.
        let _ = std::io::stdout().flush();
        let began = Instant::now();
        let done = deed();
        println!("{}", self.paint("2", &format!("   [{:.2} s]", began.elapsed().as_secs_f64())));
        done
    }

    /// Says that a claim holds, or ends the show with what was found instead.
    pub fn holds(&mut self, claim: &str, holds: bool, found: impl Display) -> Result<()> {
        if holds {
            self.held += 1;
            println!("   {} {claim}", self.paint("32", "ok"));
            return Ok(());
        }
        println!("   {} {claim}", self.paint("31", "NOT SO:"));
        Err(Fault::new(Code::State, format!("the demo's claim {claim:?}"), format!("it does not hold: {found}")))
    }

    /// A number that was not given before.
    pub fn next_number(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    /// The times of all sections.
    pub fn summary(&mut self) {
        self.end_section();
        println!("\n{}", self.paint("1", "Summary"));
        for (title, time) in &self.times {
            println!("   {title:<68} {:>6.1} s", time.as_secs_f64());
        }
        println!("   {:<68} {:>6.1} s", "all, with the nodes", self.began.elapsed().as_secs_f64());
        println!("\n   {} claims were checked, and all hold.", self.held);
    }
}

/// Cuts a line at its spaces where it is too long; all pieces but the first begin with `indent`, all but the last end
/// with `tail`.
fn folded(line: &str, indent: &str, tail: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for (index, word) in line.split(' ').enumerate() {
        let Some(piece) = pieces.last_mut() else { continue };
        if index == 0 {
            piece.push_str(word);
        } else if !piece.trim().is_empty() && piece.chars().count() + 1 + word.chars().count() > WIDTH {
            piece.push_str(tail);
            pieces.push(format!("{indent}{word}"));
        } else {
            piece.push(' ');
            piece.push_str(word);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_at_its_spaces_and_a_short_one_kept() {
        assert_eq!(folded("  two   words", "    ", " \\"), ["  two   words"]);
        let word = "x".repeat(60);
        assert_eq!(folded(&format!("{word} {word}"), "    ", " \\"), [format!("{word} \\"), format!("    {word}")]);
        assert_eq!(folded(&"y".repeat(200), "", ""), ["y".repeat(200)]);
    }
}
