//! The library's own heap memory.
//!
//! The driver's thread works while every other thread of the process is stopped, perhaps in the middle of `malloc`. So it
//! takes nothing from the program's heap and waits for no lock that another thread may hold: it has a heap to itself.
//! A block goes back to the heap that it came from; across the two it goes over a list that needs no lock.
//!
//! ```text
//! next: *mut Head (on that list only) | home: u64 | the block
//! ```

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use dlmalloc::Dlmalloc;

/// Lies directly before every block.
#[repr(C, align(16))]
struct Head {
    next: *mut Head,
    /// Index of the heap.
    home: usize,
}

/// A block of alignment 16 starts that far behind what the heap gave; one of a larger alignment that alignment behind.
const HEAD: usize = size_of::<Head>();

/// Calls of the program, and the driver's workers.
const CALLS: usize = 0;
/// The driver's own thread.
const DRIVER: usize = 1;

/// The driver's own thread, as `pthread_self` names it; 0 before it runs.
static DRIVER_THREAD: AtomicUsize = AtomicUsize::new(0);

struct Heap {
    blocks: Mutex<Dlmalloc>,
    /// Given back by a thread of the other heap.
    returned: AtomicPtr<Head>,
}

impl Heap {
    const fn new() -> Heap {
        Heap { blocks: Mutex::new(Dlmalloc::new()), returned: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Works on the blocks, those that were returned among them.
    fn with<T>(&self, work: impl FnOnce(&mut Dlmalloc) -> T) -> T {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut head = self.returned.swap(ptr::null_mut(), Ordering::Acquire);
        while !head.is_null() {
            // SAFETY: who pushed the head gave the block up; its layout lies behind the head, see `give_back`.
            unsafe {
                let next = (*head).next;
                let before = head.add(1).cast::<usize>().read();
                blocks.c_free(head.cast::<u8>().sub(before));
                head = next;
            }
        }
        work(&mut blocks)
    }

    /// Hands a block over without a lock.
    ///
    /// # Safety
    ///
    /// `head` lies before a block of this heap that nobody uses any more; `before` bytes in front of it are the heap's.
    unsafe fn give_back(&self, head: *mut Head, before: usize) {
        let mut first = self.returned.load(Ordering::Relaxed);
        // SAFETY: the head and at least 16 bytes behind it belong to the block.
        unsafe { head.add(1).cast::<usize>().write(before) };
        loop {
            // SAFETY: as above.
            unsafe { (*head).next = first };
            match self.returned.compare_exchange_weak(first, head, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }
}

static HEAPS: [Heap; 2] = [Heap::new(), Heap::new()];

/// From now on the calling thread is the driver's own.
pub fn become_driver() {
    // SAFETY: no preconditions.
    DRIVER_THREAD.store(unsafe { libc::pthread_self() } as usize, Ordering::Relaxed);
}

fn own() -> usize {
    // SAFETY: no preconditions.
    let thread = unsafe { libc::pthread_self() } as usize;
    if DRIVER_THREAD.load(Ordering::Relaxed) == thread { DRIVER } else { CALLS }
}

/// Bytes in front of the block, and bytes asked of the heap.
fn room(layout: Layout) -> Option<(usize, usize)> {
    let before = layout.align().max(HEAD);
    // Room for what `give_back` writes behind the head.
    Some((before, layout.size().max(16).checked_add(before)?))
}

/// The allocator of this library.
struct TwoHeaps;

// SAFETY: blocks come from dlmalloc, which serves one thread at a time behind its lock, and go back to the heap that the
// word before them names.
unsafe impl GlobalAlloc for TwoHeaps {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((before, bytes)) = room(layout) else { return ptr::null_mut() };
        let home = own();
        // SAFETY: any size and any alignment may be asked for.
        let start = HEAPS[home].with(|heap| unsafe { heap.malloc(bytes, before) });
        if start.is_null() {
            return start;
        }
        // SAFETY: there are `before` bytes in front, at least a head, and the block is aligned like it.
        unsafe {
            let block = start.add(before);
            block.cast::<Head>().sub(1).write(Head { next: ptr::null_mut(), home });
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let before = layout.align().max(HEAD);
        // SAFETY: the block came from `alloc`, so a head lies before it.
        unsafe {
            let head = block.cast::<Head>().sub(1);
            let home = (*head).home;
            if home == own() {
                HEAPS[home].with(|heap| heap.c_free(block.sub(before)));
            } else {
                HEAPS[home].give_back(head, before - HEAD);
            }
        }
    }
}

#[global_allocator]
static ALLOCATOR: TwoHeaps = TwoHeaps;

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(4096))]
    struct Page([u8; 4096]);

    #[test]
    fn blocks_are_aligned_and_keep_what_was_written() {
        let small: Vec<Box<u8>> = (0..200).map(Box::new).collect();
        let pages: Vec<Box<Page>> = (0..20).map(|byte| Box::new(Page([byte; 4096]))).collect();
        assert!(pages.iter().all(|page| ptr::from_ref(&**page).addr().is_multiple_of(4096)));
        assert!(small.iter().enumerate().all(|(index, byte)| usize::from(**byte) == index));
        assert!(pages.iter().enumerate().all(|(index, page)| page.0.iter().all(|byte| usize::from(*byte) == index)));
    }

    #[test]
    fn a_heap_whose_lock_is_held_takes_blocks_back() {
        let heap = Heap::new();
        // SAFETY: a block of 16 bytes and a head, 64 bytes behind the start, as for an alignment of 64.
        let (start, head) = unsafe {
            let start = heap.with(|blocks| blocks.malloc(80, 64));
            (start, start.add(48).cast::<Head>())
        };
        let held = heap.blocks.lock().expect("free");
        // SAFETY: the block is given up here.
        unsafe { heap.give_back(head, 48) };
        drop(held);
        // SAFETY: any size may be asked for.
        let again = heap.with(|blocks| unsafe { blocks.malloc(80, 64) });
        assert_eq!(again, start, "the place is free again");
    }
}
