//! The library.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::path::PathBuf;

use libloading::Library;
use nvml_wrapper_sys::bindings::{NvmlLib, nvmlDevice_t, nvmlReturn_t};

use crate::device::Device;
use crate::outcome::{Code, DRIVER_NOT_LOADED, Failure, LIBRARY_NOT_FOUND, Outcome};

/// The library, initialised, and what the simulated one has of its own.
pub struct Nvml(pub NvmlLib, Own);

/// The functions of the simulated library that are in no header: the real one keeps what they do to itself. They stay there
/// as long as the library does.
#[derive(Clone, Copy)]
pub struct Own {
    /// Resets a card.
    pub reset: Option<unsafe extern "C" fn(nvmlDevice_t) -> nvmlReturn_t>,
    /// How long processes take turns on a card.
    pub timeslice: Option<unsafe extern "C" fn(nvmlDevice_t, *mut u32) -> nvmlReturn_t>,
    /// Has them take turns of another length.
    pub set_timeslice: Option<unsafe extern "C" fn(nvmlDevice_t, u32) -> nvmlReturn_t>,
}

impl Own {
    /// Those that the library has.
    ///
    /// # Safety
    /// A function of one of these names must be of the type that it has here, and is called while the library is loaded.
    unsafe fn of(library: &Library) -> Own {
        // SAFETY: as the caller promises.
        unsafe {
            Own {
                reset: library.get(b"batonDeviceReset\0").ok().map(|found| *found),
                timeslice: library.get(b"batonDeviceGetTimeslice\0").ok().map(|found| *found),
                set_timeslice: library.get(b"batonDeviceSetTimeslice\0").ok().map(|found| *found),
            }
        }
    }
}

/// Calls a function whose last argument is a place for its answer; the answer, or the code.
macro_rules! ask {
    ($nvml:expr, $function:ident($($argument:expr),*) -> $answer:ty) => {{
        let mut place = std::mem::MaybeUninit::<$answer>::zeroed();
        // SAFETY: the bindings give the types of nvml.h, and the place is one for what the function answers.
        let code = unsafe { $nvml.0.$function($($argument,)* place.as_mut_ptr()) };
        // SAFETY: all that is asked for are plain numbers, structs of them and handles, which may be zero.
        if code == 0 { Ok(unsafe { place.assume_init() }) } else { Err(code) }
    }};
}
pub(crate) use ask;

/// The longest text that NVML gives.
const ROOM: usize = 256;

impl Nvml {
    /// Loads it: the one beside which this program was installed, or the loader's.
    pub fn load() -> Outcome<Nvml> {
        // SAFETY: loading the driver's library runs only its own initialisers.
        let loaded = places().into_iter().find_map(|place| unsafe { Library::new(&place) }.ok());
        let absent = "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA \
                      Display Driver is properly installed and present in your system.\nPlease also try adding directory \
                      that contains libnvidia-ml.so to your system PATH.";
        let library = loaded.ok_or_else(|| Failure::of(LIBRARY_NOT_FOUND, absent))?;
        // SAFETY: the simulated library alone has such names; it stays loaded as long as what is made here.
        let own = unsafe { Own::of(&library) };
        // SAFETY: the bindings give the types of nvml.h.
        let bound = unsafe { NvmlLib::from_library(library) };
        let nvml = Nvml(bound.map_err(|_| Failure::of(LIBRARY_NOT_FOUND, absent))?, own);
        // SAFETY: no precondition.
        match unsafe { nvml.0.nvmlInit_v2() } {
            0 => Ok(nvml),
            DRIVER_NOT_LOADED => Err(Failure::of(
                DRIVER_NOT_LOADED,
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest \
                 NVIDIA driver is installed and running.\n",
            )),
            code => Err(Failure::of(code, format!("Failed to initialize NVML: {}", nvml.text_of(code)))),
        }
    }

    /// What the library has of its own. It stays loaded as long as this does.
    pub fn own(&self) -> Own {
        self.1
    }

    /// What the library calls a code.
    pub fn text_of(&self, code: Code) -> String {
        // SAFETY: the function takes any number.
        let text = unsafe { self.0.nvmlErrorString(code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: not null: a constant text of the library.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// A text, from a function that takes a place and its room.
    pub fn text(&self, call: impl FnOnce(&NvmlLib, *mut c_char, u32) -> nvmlReturn_t) -> Result<String, Code> {
        let mut room = MaybeUninit::<[c_char; ROOM]>::zeroed();
        match call(&self.0, room.as_mut_ptr().cast(), ROOM as u32) {
            // SAFETY: zeros where the library has written nothing, and it ends what it writes with one.
            0 => Ok(unsafe { CStr::from_ptr(room.as_ptr().cast()) }.to_string_lossy().into_owned()),
            code => Err(code),
        }
    }

    /// The driver's version.
    pub fn driver(&self) -> String {
        // SAFETY: the place has the room that is named.
        self.text(|nvml, to, room| unsafe { nvml.nvmlSystemGetDriverVersion(to, room) }).unwrap_or_default()
    }

    /// The library's version.
    pub fn version(&self) -> String {
        // SAFETY: the place has the room that is named.
        self.text(|nvml, to, room| unsafe { nvml.nvmlSystemGetNVMLVersion(to, room) }).unwrap_or_default()
    }

    /// CUDA's version: `13.0`.
    pub fn cuda(&self) -> String {
        let version = ask!(self, nvmlSystemGetCudaDriverVersion_v2() -> i32).unwrap_or(0);
        format!("{}.{}", version / 1000, version % 1000 / 10)
    }

    /// The program of a process.
    pub fn process(&self, pid: u32) -> String {
        // SAFETY: the place has the room that is named.
        let name = self.text(|nvml, to, room| unsafe { nvml.nvmlSystemGetProcessName(pid, to, room) });
        name.unwrap_or_else(|_| "[Not Found]".to_owned())
    }

    /// All cards, in NVML's order.
    pub fn cards(&self) -> Result<Vec<Device<'_>>, Code> {
        let count = ask!(self, nvmlDeviceGetCount_v2() -> u32)?;
        let handle = |index| ask!(self, nvmlDeviceGetHandleByIndex_v2(index) -> nvmlDevice_t);
        (0..count).map(|index| handle(index).map(|handle| Device { nvml: self, handle })).collect()
    }
}

/// Where the library may lie: beside this program in the same driver's tree, or where the loader finds it.
fn places() -> Vec<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(|own| Some(own.parent()?.parent()?.join("lib/x86_64-linux-gnu")));
    let beside = beside.map(|folder| folder.join("libnvidia-ml.so.1")).filter(|path| path.exists());
    beside.into_iter().chain([PathBuf::from("libnvidia-ml.so.1")]).collect()
}
