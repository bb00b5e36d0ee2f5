//! A stream: work that is done in order by a thread of its own, while the program goes on.
//!
//! Each piece of work holds a place inside the gate until it is done, so a lock waits for what was submitted before it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::codes::{Code, Outcome};
use crate::driver::Driver;
use crate::gate::Call;
use crate::health::Health;
use crate::signals;
use crate::table::Handle;

/// `CU_STREAM_NON_BLOCKING`.
pub const NON_BLOCKING: u32 = 1;

/// Priorities go from 0, the least, to this.
pub const GREATEST_PRIORITY: i32 = -5;

/// What is done; it gets the health of the context and gives what breaks it.
pub type Job = Box<dyn FnOnce(Outcome) -> Outcome + Send>;

/// One stream.
pub struct Stream {
    /// Number that no other stream of the process has.
    pub id: u64,
    /// Its context.
    pub context: Handle,
    /// As it was created with.
    pub flags: u32,
    /// Between 0 and [`GREATEST_PRIORITY`]; it changes nothing here.
    pub priority: i32,
    /// Of its context.
    pub health: Arc<Health>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    submitted: u64,
    done: u64,
    has_worker: bool,
    closed: bool,
}

struct Work {
    after: Vec<Mark>,
    job: Job,
    inside: Call<'static>,
}

/// A point in a stream: reached when all that was submitted before it is done.
#[derive(Debug, Clone)]
pub struct Mark {
    stream: Arc<Stream>,
    count: u64,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Stream {
    /// A stream with nothing to do.
    pub fn new(context: Handle, flags: u32, priority: i32, health: Arc<Health>) -> Arc<Stream> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let (queue, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Stream { id, context, flags, priority, health, queue, changed })
    }

    /// Whether it takes turns with the legacy default stream.
    pub fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it stands now, if anything is still to be done.
    pub fn pending(self: &Arc<Self>) -> Option<Mark> {
        let queue = self.queue();
        (queue.done < queue.submitted).then(|| Mark { stream: Arc::clone(self), count: queue.submitted })
    }

    /// Has something done after all that it was given before, and after those marks.
    pub fn submit(self: &Arc<Self>, inside: &Call<'static>, after: Vec<Mark>, job: Job) -> Outcome<Mark> {
        let mut queue = self.queue();
        if !queue.has_worker {
            let stream = Arc::clone(self);
            let worker = std::thread::Builder::new().name("cuda-stream".to_owned());
            worker.spawn(move || stream.work()).map_err(|_| Code::OPERATING_SYSTEM)?;
            queue.has_worker = true;
        }
        queue.waiting.push_back(Work { after, job, inside: inside.clone() });
        queue.submitted += 1;
        let mark = Mark { stream: Arc::clone(self), count: queue.submitted };
        drop(queue);
        self.changed.notify_all();
        Ok(mark)
    }

    /// Nothing more will be submitted: its thread ends when all is done.
    pub fn close(&self) {
        self.queue().closed = true;
        self.changed.notify_all();
    }

    fn work(&self) {
        signals::block_all();
        loop {
            let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closed;
            let mut queue = self.changed.wait_while(self.queue(), idle).unwrap_or_else(PoisonError::into_inner);
            let Some(Work { after, job, inside }) = queue.waiting.pop_front() else { return };
            drop(queue);
            wait_for(&after);
            if let Err(code) = job(self.health.check()) {
                self.health.fail(code);
                if let Ok(driver) = Driver::get() {
                    driver.tell_fault();
                }
            }
            self.queue().done += 1;
            self.changed.notify_all();
            drop(inside);
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "stream {} of {:#x}", self.id, self.context)
    }
}

impl Mark {
    /// Whether it is reached.
    pub fn is_reached(&self) -> bool {
        self.stream.queue().done >= self.count
    }

    /// Waits until it is.
    pub fn wait(&self) {
        let earlier = |queue: &mut Queue| queue.done < self.count;
        let queue = self.stream.queue();
        drop(self.stream.changed.wait_while(queue, earlier).unwrap_or_else(PoisonError::into_inner));
    }

    /// The health of the stream's context.
    pub fn health(&self) -> Outcome {
        self.stream.health.check()
    }
}

/// Waits for all of them.
pub fn wait_for(marks: &[Mark]) {
    marks.iter().for_each(Mark::wait);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Gate;
    use std::sync::mpsc;
    use std::time::Duration;

    fn stream() -> (&'static Gate, Arc<Stream>) {
        (Box::leak(Box::new(Gate::new())), Stream::new(1, 0, 0, Arc::default()))
    }

    #[test]
    fn work_is_done_in_order_and_a_lock_waits_for_it() {
        let (gate, stream) = stream();
        let (go, going) = mpsc::channel::<()>();
        let (tell, hear) = mpsc::channel();
        let call = gate.enter();
        let first = tell.clone();
        let job = move |_: Outcome| {
            going.recv().expect("told");
            first.send(1).expect("heard");
            Ok(())
        };
        stream.submit(&call, Vec::new(), Box::new(job)).expect("a thread");
        let second = move |_: Outcome| {
            tell.send(2).expect("heard");
            Ok(())
        };
        let mark = stream.submit(&call, Vec::new(), Box::new(second)).expect("a thread");
        drop(call);
        assert!(!mark.is_reached());
        assert!(!gate.close(Some(Duration::from_millis(20))), "two pieces of work are inside");
        go.send(()).expect("a waiting job");
        assert!(gate.close(Some(Duration::from_secs(10))));
        assert!(mark.is_reached());
        assert_eq!((hear.recv(), hear.recv()), (Ok(1), Ok(2)));
        stream.close();
    }

    #[test]
    fn an_error_breaks_the_context_and_later_work_is_told() {
        let (gate, stream) = stream();
        let call = gate.enter();
        stream.submit(&call, Vec::new(), Box::new(|_| Err(Code::ILLEGAL_ADDRESS))).expect("a thread");
        let (tell, hear) = mpsc::channel();
        let next = move |health: Outcome| {
            tell.send(health).expect("heard");
            health
        };
        stream.submit(&call, Vec::new(), Box::new(next)).expect("a thread").wait();
        assert_eq!(hear.recv(), Ok(Err(Code::ILLEGAL_ADDRESS)));
        assert_eq!(stream.health.check(), Err(Code::ILLEGAL_ADDRESS));
        stream.close();
    }

    #[test]
    fn work_waits_for_marks_of_other_streams() {
        let (gate, one) = stream();
        let other = Stream::new(1, 0, 0, Arc::default());
        let (go, going) = mpsc::channel::<()>();
        let call = gate.enter();
        let mark = one.submit(&call, Vec::new(), Box::new(move |_| going.recv().map_err(|_| Code::UNKNOWN)));
        let after = other.submit(&call, vec![mark.expect("a thread")], Box::new(|_| Ok(()))).expect("a thread");
        assert!(!after.is_reached());
        go.send(()).expect("a waiting job");
        after.wait();
        assert!(one.pending().is_none());
        one.close();
        other.close();
    }
}
