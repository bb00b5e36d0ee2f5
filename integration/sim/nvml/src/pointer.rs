//! What C callers hand in: pointers, with what may be done with them.
//!
//! Only C code makes values of these types, by calling an exported function. It promises, as `nvml.h` says of every
//! pointer, that one that is not null points to what the function's prototype says. Everything here rests on that.

use std::ffi::{CStr, c_char};

use crate::codes::{Code, Outcome};

/// A place for a `T`, or null. The C caller's promise: valid for reads and writes of a `T`.
#[repr(transparent)]
pub struct Place<T>(*mut T);

// By hand: a place can be copied whatever `T` is.
impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T> Place<T> {
    /// Writes; null is an invalid argument.
    pub fn give(self, value: T) -> Outcome {
        self.exists()?;
        // SAFETY: not null, and the C caller promises that a T may be written there.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Refuses null.
    pub fn exists(self) -> Outcome {
        if self.0.is_null() { Err(Code::INVALID_ARGUMENT) } else { Ok(()) }
    }
}

impl<T: Copy> Place<T> {
    /// Reads what the caller has put there.
    pub fn take(self) -> Outcome<T> {
        self.exists()?;
        // SAFETY: not null, and the C caller promises that there is a T.
        Ok(unsafe { self.0.read() })
    }
}

/// A place for a struct whose first member says which version of it the caller has.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Versioned(*mut u32);

impl Versioned {
    /// The version that the caller has written.
    pub fn version(self) -> Outcome<u32> {
        if self.0.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: not null; the version is the first member of every version of the struct.
        Ok(unsafe { self.0.read() })
    }

    /// Refuses another version than this. `NVML_STRUCT_VERSION`: the size, and the number in the highest byte.
    pub fn must_be<T>(self, number: u32) -> Outcome<Place<T>> {
        if self.version()? != struct_version::<T>(number) {
            return Err(Code::ARGUMENT_VERSION_MISMATCH);
        }
        Ok(Place(self.0.cast()))
    }
}

/// `NVML_STRUCT_VERSION` of nvml.h.
pub const fn struct_version<T>(number: u32) -> u32 {
    size_of::<T>() as u32 | number << 24
}

/// A place for a text, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct TextPlace(*mut c_char);

impl TextPlace {
    /// Writes text and NUL into `room` bytes, all or nothing.
    pub fn give(self, room: u32, text: &str) -> Outcome {
        if self.0.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        if text.len() + 1 > room as usize {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        // SAFETY: not null, the C caller promises `room` bytes, and text and NUL fit into them.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.0.cast(), text.len());
            self.0.add(text.len()).write(0);
        }
        Ok(())
    }
}

/// A text, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    /// The text.
    pub fn read(self) -> Outcome<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: not null, and NUL-terminated as the C caller promises.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

/// A list with room for as many entries as the caller says elsewhere, or null.
#[repr(transparent)]
pub struct List<T>(*mut T);

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<T> {}

impl<T> List<T> {
    /// Writes all entries; the C caller promises room for `count` of them, which says afterwards how many there are. With
    /// too little room that is all that is said.
    pub fn fill(self, count: Place<u32>, entries: Vec<T>) -> Outcome {
        let room = count.take()? as usize;
        count.give(entries.len() as u32)?;
        if entries.len() > room {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        self.write(entries)
    }

    /// Writes all entries; the C caller promises room for as many as there can be.
    pub fn fill_unchecked(self, count: Place<u32>, entries: Vec<T>) -> Outcome {
        count.give(entries.len() as u32)?;
        self.write(entries)
    }

    /// Whether it is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    fn write(self, entries: Vec<T>) -> Outcome {
        if self.0.is_null() && !entries.is_empty() {
            return Err(Code::INVALID_ARGUMENT);
        }
        for (index, entry) in entries.into_iter().enumerate() {
            // SAFETY: not null, and the C caller promises room for that many entries.
            unsafe { self.0.add(index).write(entry) };
        }
        Ok(())
    }

    /// Has each of `count` entries that the caller has filled in answered.
    pub fn for_each(self, count: u32, mut answer: impl FnMut(&mut T)) -> Outcome {
        if self.0.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        for index in 0..count as usize {
            // SAFETY: not null, and the C caller promises that many entries.
            answer(unsafe { &mut *self.0.add(index) });
        }
        Ok(())
    }
}

/// A text of at most `N` - 1 bytes with NULs behind it, as members of structs have it.
pub fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0u8; N];
    let length = text.len().min(N - 1);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_whole_or_not_at_all() {
        let mut room = [1u8; 6];
        let place = TextPlace(room.as_mut_ptr().cast());
        assert_eq!(place.give(5, "whole"), Err(Code::INSUFFICIENT_SIZE));
        assert_eq!(room, [1; 6]);
        assert_eq!(place.give(6, "whole"), Ok(()));
        assert_eq!(&room, b"whole\0");
        assert_eq!(TextPlace(std::ptr::null_mut()).give(6, ""), Err(Code::INVALID_ARGUMENT));
    }

    #[test]
    fn a_list_says_how_much_room_it_wants() {
        let (mut count, mut list) = (1u32, [0u32; 2]);
        let (place, entries) = (Place(&raw mut count), List(list.as_mut_ptr()));
        assert_eq!(entries.fill(place, vec![7, 8]), Err(Code::INSUFFICIENT_SIZE));
        assert_eq!(place.take(), Ok(2));
        assert_eq!(entries.fill(place, vec![7, 8]), Ok(()));
        assert_eq!(list, [7, 8]);
        let mut none = 0u32;
        let nowhere = List(std::ptr::null_mut::<u32>());
        assert_eq!(nowhere.fill(Place(&raw mut none), Vec::new()), Ok(()));
        assert_eq!(nowhere.fill(Place(&raw mut none), vec![1]), Err(Code::INSUFFICIENT_SIZE));
    }

    #[test]
    fn another_version_of_a_struct_is_refused() {
        let mut version = struct_version::<[u32; 3]>(2);
        assert_eq!(version, 0x0200_000c);
        let place = Versioned(&raw mut version);
        assert!(place.must_be::<[u32; 3]>(2).is_ok());
        assert_eq!(place.must_be::<[u32; 3]>(1).err(), Some(Code::ARGUMENT_VERSION_MISMATCH));
        assert_eq!(place.must_be::<[u32; 4]>(2).err(), Some(Code::ARGUMENT_VERSION_MISMATCH));
    }
}
