//! Several processes, each with a context of its own, each counting; the parent answers for all.
//!
//! The children are started by exec, before the parent touches the driver, and talk over pipes: a line with anything on
//! it is answered by a report.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use baton_cuda::Driver;

use crate::report::Report;
use crate::tally::Tally;
use crate::work::{Pace, Work, make_steps};

/// The word that starts a child.
pub const MEMBER: &str = "member";

/// One process's count.
pub struct Member(Tally);

impl Member {
    /// Begins on the first card.
    pub fn begin() -> Result<Member, String> {
        Ok(Member(Tally::begin(&Driver::open()?.card().context()?)?))
    }
}

impl Work for Member {
    fn step(&mut self) -> Result<(), String> {
        self.0.step(None)?;
        Ok(self.0.context().synchronize()?)
    }

    fn report(&mut self) -> Result<Report, String> {
        let part = self.0.part()?;
        Ok(Report { workload: MEMBER.to_owned(), step: part.step, parts: vec![part], ..Report::default() })
    }
}

/// Runs a child: counts until the parent closes the pipe.
pub fn run_member(pace: &Pace) -> Result<(), String> {
    let member = Member::begin()?;
    make_steps(Box::new(member), pace, |shared| {
        std::thread::spawn(move || {
            for _question in std::io::stdin().lines().map_while(Result::ok) {
                let answer = shared.report().map_or_else(|why| format!("error {why}"), |report| report.to_string());
                println!("{answer}");
            }
            std::process::exit(0);
        });
    })
    .map(drop)
}

/// A child as the parent sees it; killed when dropped.
struct Kin {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Kin {
    fn start(pace: &Pace) -> Result<Kin, String> {
        let own = std::env::current_exe().map_err(|err| format!("find the own program: {err}"))?;
        let mut child = Command::new(own)
            .args([MEMBER, "--interval-ms", &pace.interval.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|err| format!("start a child: {err}"))?;
        let (questions, answers) = (child.stdin.take(), child.stdout.take());
        match (questions, answers) {
            (Some(questions), Some(answers)) => Ok(Kin { child, questions, answers: BufReader::new(answers) }),
            _ => Err("a child has no pipes".to_owned()),
        }
    }

    fn report(&mut self) -> Result<Report, String> {
        let pid = self.child.id();
        writeln!(self.questions, "status").map_err(|err| format!("child {pid} has gone: {err}"))?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|err| format!("child {pid} has gone: {err}"))?;
        match line.trim_end().strip_prefix("error ") {
            Some(why) => Err(format!("child {pid}: {why}")),
            None if line.is_empty() => Err(format!("child {pid} has gone")),
            None => line.parse(),
        }
    }
}

impl Drop for Kin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The parent.
pub struct Family {
    own: Member,
    kin: Vec<Kin>,
}

impl Family {
    /// A family with so many children, all of which count.
    pub fn begin(children: usize, pace: &Pace) -> Result<Family, String> {
        let mut kin = (0..children).map(|_| Kin::start(pace)).collect::<Result<Vec<_>, _>>()?;
        // An answer says that the child has its context.
        kin.iter_mut().try_for_each(|child| child.report().map(drop))?;
        Ok(Family { own: Member::begin()?, kin })
    }
}

impl Work for Family {
    fn step(&mut self) -> Result<(), String> {
        self.own.step()
    }

    fn report(&mut self) -> Result<Report, String> {
        let mut report = Report { workload: "family".to_owned(), ..self.own.report()? };
        for child in &mut self.kin {
            let its = child.report()?;
            report.step = report.step.min(its.step);
            report.parts.extend(its.parts);
        }
        Ok(report)
    }
}
