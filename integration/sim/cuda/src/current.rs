//! Each thread's stack of contexts.
//!
//! It holds nothing that has to be given back when a thread ends: a thread may be stopped while it does.

use std::cell::RefCell;

use crate::codes::{Code, Outcome};
use crate::table::Handle;

/// The most contexts on one thread's stack.
const DEEPEST: usize = 64;

struct Stack {
    handles: [Handle; DEEPEST],
    depth: usize,
}

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { handles: [0; DEEPEST], depth: 0 }) };
}

/// The context on top; `None` without one.
pub fn top() -> Option<Handle> {
    STACK.with_borrow(|stack| stack.depth.checked_sub(1).map(|last| stack.handles[last]))
}

/// Puts a context on top.
pub fn push(handle: Handle) -> Outcome {
    STACK.with_borrow_mut(|stack| {
        *stack.handles.get_mut(stack.depth).ok_or(Code::OUT_OF_MEMORY)? = handle;
        stack.depth += 1;
        Ok(())
    })
}

/// Takes the one on top away.
pub fn pop() -> Option<Handle> {
    STACK.with_borrow_mut(|stack| {
        stack.depth = stack.depth.checked_sub(1)?;
        Some(stack.handles[stack.depth])
    })
}

/// Puts a context in place of the one on top; 0 takes that away.
pub fn replace(handle: Handle) -> Outcome {
    pop();
    if handle == 0 { Ok(()) } else { push(handle) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_a_stack_of_its_own() {
        assert_eq!((top(), pop()), (None, None));
        replace(1).expect("room");
        push(2).expect("room");
        std::thread::spawn(|| assert_eq!(top(), None)).join().expect("no panic");
        replace(3).expect("room");
        assert_eq!((pop(), top()), (Some(3), Some(1)));
        replace(0).expect("room");
        assert_eq!(top(), None);
    }

    #[test]
    fn a_stack_has_an_end() {
        let pushed = (0..=DEEPEST).filter(|_| push(7).is_ok()).count();
        assert_eq!(pushed, DEEPEST);
    }
}
