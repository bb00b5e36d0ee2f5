//! Handles: numbers that stand for what the driver keeps. They look like addresses and are never dereferenced, and none
//! is given twice.

/// A `CUcontext`, `CUstream`, `CUevent`, `CUmodule`, `CUlibrary`, `CUfunction`, `CUkernel`, or `CUmemoryPool`.
pub type Handle = usize;

/// Two handles of a kind lie that far apart.
const STEP: usize = 0x40;

/// Each kind has this much room.
const ROOM: usize = 1 << 36;

/// What handles of one kind stand for.
#[derive(Debug)]
pub struct Table<T> {
    first: Handle,
    all: Vec<Option<T>>,
}

impl<T> Table<T> {
    /// An empty table; each kind of handle has a number of its own, from 1.
    pub fn of_kind(kind: usize) -> Table<T> {
        Table { first: kind * ROOM, all: Vec::new() }
    }

    /// Enters something and gives it a handle.
    pub fn enter(&mut self, thing: T) -> Handle {
        self.all.push(Some(thing));
        self.first + (self.all.len() - 1) * STEP
    }

    fn index(&self, handle: Handle) -> Option<usize> {
        let offset = handle.checked_sub(self.first).filter(|offset| offset.is_multiple_of(STEP))?;
        Some(offset / STEP).filter(|index| *index < self.all.len())
    }

    /// Whether the handle stood for something once, and perhaps still does.
    pub fn knew(&self, handle: Handle) -> bool {
        self.index(handle).is_some()
    }

    /// What it stands for.
    pub fn get(&self, handle: Handle) -> Option<&T> {
        self.all[self.index(handle)?].as_ref()
    }

    /// What it stands for, to change it.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let index = self.index(handle)?;
        self.all[index].as_mut()
    }

    /// Takes it out; the handle stands for nothing from now on.
    pub fn take(&mut self, handle: Handle) -> Option<T> {
        let index = self.index(handle)?;
        self.all[index].take()
    }

    /// All that is there, by handle.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        let handle = |index: usize| self.first + index * STEP;
        self.all.iter().enumerate().filter_map(move |(index, thing)| Some((handle(index), thing.as_ref()?)))
    }

    /// Takes out all that `gone` names.
    pub fn remove(&mut self, gone: impl Fn(&T) -> bool) -> Vec<T> {
        self.all.iter_mut().filter(|thing| thing.as_ref().is_some_and(&gone)).filter_map(Option::take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_stands_for_one_thing_and_is_never_given_again() {
        let mut table = Table::of_kind(3);
        let (one, two) = (table.enter('a'), table.enter('b'));
        assert_eq!((table.get(one), table.get(two)), (Some(&'a'), Some(&'b')));
        assert_eq!(table.take(one), Some('a'));
        assert_eq!((table.take(one), table.get(one), table.knew(one)), (None, None, true));
        let three = table.enter('c');
        assert!(three != one && three != two);
        for wrong in [0, 1, one + 1, three + STEP, usize::MAX] {
            assert!(table.get(wrong).is_none() && !table.knew(wrong), "{wrong:#x}");
        }
        assert_eq!(table.remove(|thing| *thing == 'b'), ['b']);
        assert_eq!(table.iter().collect::<Vec<_>>(), [(three, &'c')]);
    }
}
