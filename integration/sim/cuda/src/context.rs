//! Contexts: what belongs to one, and which a call works in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::allocation::give_back;
use crate::codes::{Code, Outcome};
use crate::current;
use crate::driver::Parts;
use crate::health::Health;
use crate::limits::Limits;
use crate::memory::Place;
use crate::stream::{Mark, Stream};
use crate::table::{Handle, Table};

/// One context.
#[derive(Debug)]
pub struct Context {
    /// Its device.
    pub slot: usize,
    /// How often a primary context is retained; `None` for one made by `cuCtxCreate`.
    pub retained: Option<u32>,
    /// `CUctx_flags`.
    pub flags: u32,
    /// `CUfunc_cache`, which changes nothing here.
    pub cache: u32,
    /// What `cuCtxSetLimit` has set.
    pub limits: Limits,
    /// Contexts that may not be reached twice: `cuCtxEnablePeerAccess`.
    pub peers: Vec<Handle>,
    /// Number that no other context of the process has.
    pub id: u64,
    /// Broken or not.
    pub health: Arc<Health>,
    /// The legacy default stream.
    pub legacy: Option<Arc<Stream>>,
    /// The default stream of each thread that has used one, by thread id.
    per_thread: BTreeMap<i32, Arc<Stream>>,
}

/// All contexts of the process.
#[derive(Debug)]
pub struct Contexts {
    /// By handle.
    pub all: Table<Context>,
    /// The flags of the primary context of each slot, also of one that is not there.
    pub primary_flags: BTreeMap<usize, u32>,
}

impl Default for Contexts {
    fn default() -> Contexts {
        Contexts { all: Table::of_kind(1), primary_flags: BTreeMap::new() }
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Contexts {
    /// A context that is there.
    pub fn get(&self, handle: Handle) -> Outcome<&Context> {
        self.all.get(handle).ok_or_else(|| self.gone(handle))
    }

    /// One to change.
    pub fn get_mut(&mut self, handle: Handle) -> Outcome<&mut Context> {
        let gone = self.gone(handle);
        self.all.get_mut(handle).ok_or(gone)
    }

    fn gone(&self, handle: Handle) -> Code {
        if self.all.knew(handle) { Code::CONTEXT_IS_DESTROYED } else { Code::INVALID_CONTEXT }
    }

    /// The primary context of a slot.
    pub fn primary(&self, slot: usize) -> Option<Handle> {
        self.all
            .iter()
            .find(|(_, context)| context.slot == slot && context.retained.is_some())
            .map(|(handle, _)| handle)
    }

    /// The slot of each context.
    pub fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        self.all.iter().map(|(_, context)| context.slot)
    }
}

impl Parts {
    /// The context of the calling thread, whole, and its slot.
    pub fn current(&self) -> Outcome<(Handle, usize)> {
        let handle = current::top().ok_or(Code::INVALID_CONTEXT)?;
        let context = self.contexts.get(handle)?;
        context.health.check()?;
        Ok((handle, context.slot))
    }

    /// Makes a context on a slot.
    pub fn make_context(&mut self, slot: usize, retained: Option<u32>, flags: u32) -> Outcome<Handle> {
        self.session()?.context(self.slots[slot].device())?;
        let health = Arc::<Health>::default();
        let handle = self.contexts.all.enter(Context {
            slot,
            retained,
            flags,
            cache: 0,
            limits: Limits::default(),
            peers: Vec::new(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            health: Arc::clone(&health),
            legacy: None,
            per_thread: BTreeMap::new(),
        });
        self.contexts.get_mut(handle)?.legacy = Some(Stream::new(handle, 0, 0, health));
        Ok(handle)
    }

    /// Ends a context with all that belongs to it. Its work is done.
    pub fn end_context(&mut self, handle: Handle) -> Outcome {
        let missing = self.contexts.gone(handle);
        let context = self.contexts.all.take(handle).ok_or(missing)?;
        for stream in self.streams.remove(|stream| stream.context == handle) {
            stream.close();
        }
        context.legacy.iter().chain(context.per_thread.values()).for_each(|stream| stream.close());
        self.events.remove(|event| event.context == handle);
        self.modules.end_context(handle);
        self.memory.forget_host(handle);
        let device = self.slots[context.slot].device();
        for block in self.memory.forget_blocks(handle) {
            // What is still away needs no word.
            if matches!(block.place, Place::Card { .. }) {
                give_back(self, &block)?;
            }
        }
        self.session()?.context_gone(device)
    }

    /// A `CUstream` in the calling thread's context: 0 and 1 are its legacy default stream, 2 is the calling thread's.
    pub fn stream(&mut self, stream: Handle) -> Outcome<Arc<Stream>> {
        match stream {
            0 | 1 => {
                let (handle, _) = self.current()?;
                self.contexts.get(handle)?.legacy.clone().ok_or(Code::INVALID_CONTEXT)
            }
            2 => {
                let (handle, _) = self.current()?;
                let context = self.contexts.get_mut(handle)?;
                let health = Arc::clone(&context.health);
                // SAFETY: no preconditions.
                let thread = unsafe { libc::gettid() };
                let new = || Stream::new(handle, 0, 0, health);
                Ok(Arc::clone(context.per_thread.entry(thread).or_insert_with(new)))
            }
            stream => {
                let stream = self.streams.get(stream).ok_or(Code::INVALID_HANDLE)?;
                stream.health.check()?;
                Ok(Arc::clone(stream))
            }
        }
    }

    /// The streams of a context: those created, the threads' own, the legacy one.
    fn streams_of(&self, context: Handle) -> Vec<Arc<Stream>> {
        let created = self.streams.iter().map(|(_, stream)| stream).filter(|stream| stream.context == context);
        let own = self.contexts.get(context).ok();
        let own = own.iter().flat_map(|context| context.per_thread.values().chain(&context.legacy));
        created.chain(own).cloned().collect()
    }

    /// All work of a context that is not done yet.
    pub fn work_of(&self, context: Handle) -> Vec<Mark> {
        self.streams_of(context).iter().filter_map(|stream| stream.pending()).collect()
    }

    /// All work that is not done yet.
    pub fn all_work(&self) -> Vec<Mark> {
        self.contexts.all.iter().flat_map(|(context, _)| self.work_of(context)).collect()
    }

    /// What must be done in other streams before new work of `stream`: the legacy stream and the blocking ones take turns.
    pub fn work_before(&self, stream: &Arc<Stream>) -> Vec<Mark> {
        let legacy = self.contexts.get(stream.context).ok().and_then(|context| context.legacy.clone());
        match legacy {
            Some(legacy) if Arc::ptr_eq(&legacy, stream) => {
                let others = self.streams_of(stream.context);
                let others = others.iter().filter(|other| other.is_blocking() && !Arc::ptr_eq(other, stream));
                others.filter_map(|stream| stream.pending()).collect()
            }
            Some(legacy) if stream.is_blocking() => legacy.pending().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// What must be done before work that the calling thread does itself at this place of a stream.
    pub fn work_until(&self, stream: &Arc<Stream>) -> Vec<Mark> {
        self.work_before(stream).into_iter().chain(stream.pending()).collect()
    }
}
