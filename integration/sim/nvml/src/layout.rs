//! Where members of structs lie: a library that laid one out otherwise than `nvml.h` would not compile.

/// Says the size of a struct and the offset of each member that callers read or write, as a C compiler has them from
/// `nvml.h` of NVML 12.9 and 13.5 (x86-64; both have the same).
macro_rules! layout {
    ($of:ty, $size:literal: $($($member:ident).+ $offset:literal),+) => {
        const _: () = {
            assert!(size_of::<$of>() == $size, concat!("size of ", stringify!($of)));
            $(assert!(
                std::mem::offset_of!($of, $($member).+) == $offset,
                concat!(stringify!($of), ": ", stringify!($($member).+))
            );)+
        };
    };
}

pub(crate) use layout;
