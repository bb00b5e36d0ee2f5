//! Modules and libraries: what a program has loaded, and the kernels that it found in there.

use std::ffi::{CStr, c_char, c_void};

use crate::call::call;
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::image::{file_at, kernels_in, text_at};
use crate::kernel::Kernel;
use crate::table::{Handle, Table};

/// What is loaded.
#[derive(Debug, Clone)]
struct Loaded {
    /// The context of a module; a library belongs to none.
    context: Option<Handle>,
    kernels: Vec<&'static Kernel>,
}

/// A `CUfunction` or `CUkernel`.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// The module or library that it was found in.
    pub home: Handle,
}

/// All modules, libraries and functions of the process.
#[derive(Debug)]
pub struct Modules {
    modules: Table<Loaded>,
    libraries: Table<Loaded>,
    functions: Table<Function>,
}

impl Default for Modules {
    fn default() -> Modules {
        Modules { modules: Table::of_kind(4), libraries: Table::of_kind(5), functions: Table::of_kind(6) }
    }
}

impl Modules {
    /// Unloads a context's modules.
    pub fn end_context(&mut self, context: Handle) {
        let of_context = |loaded: &Loaded| loaded.context == Some(context);
        let gone: Vec<Handle> =
            self.modules.iter().filter(|(_, loaded)| of_context(loaded)).map(|(handle, _)| handle).collect();
        self.modules.remove(of_context);
        self.functions.remove(|function| gone.contains(&function.home));
    }

    /// A function that a launch names.
    pub fn function(&self, handle: Handle) -> Outcome<Function> {
        self.functions.get(handle).copied().ok_or(Code::INVALID_HANDLE)
    }

    fn find(&mut self, home: Handle, kernel: &'static Kernel) -> Handle {
        let known = self.functions.iter().find(|(_, known)| known.home == home && std::ptr::eq(known.kernel, kernel));
        match known.map(|(handle, _)| handle) {
            Some(handle) => handle,
            None => self.functions.enter(Function { kernel, home }),
        }
    }
}

fn load(parts: &mut Parts, module: *mut Handle, image: &[u8]) -> Outcome {
    let (context, slot) = parts.current()?;
    let kernels = kernels_in(image, crate::init::cuda_version(), Some(parts.slots[slot].card.capability))?;
    // SAFETY: the C caller gives a place for a CUmodule.
    unsafe { give(module, parts.modules.modules.enter(Loaded { context: Some(context), kernels })) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> i32 {
    // SAFETY: the C caller gives an image.
    call("cuModuleLoadData", |parts| load(parts, module, unsafe { text_at(image) }?))
}

/// Options change how fast a text is compiled and what is told about it: nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    _count: u32,
    _options: *const u32,
    _values: *const *const c_void,
) -> i32 {
    // SAFETY: the C caller gives an image.
    call("cuModuleLoadDataEx", |parts| load(parts, module, unsafe { text_at(image) }?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadFatBinary(module: *mut Handle, image: *const c_void) -> i32 {
    // SAFETY: the C caller gives an image.
    call("cuModuleLoadFatBinary", |parts| load(parts, module, unsafe { text_at(image) }?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoad(module: *mut Handle, path: *const c_char) -> i32 {
    // SAFETY: the C caller gives a NUL-terminated path.
    call("cuModuleLoad", |parts| load(parts, module, &unsafe { file_at(path) }?))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: Handle) -> i32 {
    call("cuModuleUnload", |parts| {
        parts.current()?;
        parts.modules.modules.take(module).ok_or(Code::INVALID_HANDLE)?;
        parts.modules.functions.remove(|function| function.home == module);
        Ok(())
    })
}

/// Finds a kernel by name.
///
/// # Safety
///
/// `name` must be null or NUL-terminated, `function` a place for a handle.
unsafe fn find(modules: &mut Modules, loaded: Option<Loaded>, home: Handle, name: *const c_char) -> Outcome<Handle> {
    let loaded = loaded.ok_or(Code::INVALID_HANDLE)?;
    if name.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, so NUL-terminated.
    let name = unsafe { CStr::from_ptr(name) };
    let kernel = loaded.kernels.iter().find(|kernel| kernel.name == name).ok_or(Code::NOT_FOUND)?;
    Ok(modules.find(home, kernel))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> i32 {
    call("cuModuleGetFunction", |parts| {
        let loaded = parts.modules.modules.get(module).cloned();
        // SAFETY: the C caller gives a NUL-terminated name and a place for a CUfunction.
        unsafe { give(function, find(&mut parts.modules, loaded, module, name)?) }
    })
}

/// No text that is known here has variables of its own.
#[unsafe(no_mangle)]
pub extern "C" fn cuModuleGetGlobal_v2(_: *mut u64, _: *mut usize, module: Handle, name: *const c_char) -> i32 {
    call("cuModuleGetGlobal_v2", |parts| {
        parts.modules.modules.get(module).ok_or(Code::INVALID_HANDLE)?;
        Err(if name.is_null() { Code::INVALID_VALUE } else { Code::NOT_FOUND })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunctionCount(count: *mut u32, module: Handle) -> i32 {
    call("cuModuleGetFunctionCount", |parts| {
        let loaded = parts.modules.modules.get(module).ok_or(Code::INVALID_HANDLE)?;
        // SAFETY: the C caller gives a place for an unsigned int.
        unsafe { give(count, loaded.kernels.len() as u32) }
    })
}

/// `CU_MODULE_LAZY_LOADING`.
const LAZY: u32 = 2;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetLoadingMode(mode: *mut u32) -> i32 {
    // SAFETY: the C caller gives a place for a CUmoduleLoadingMode.
    call("cuModuleGetLoadingMode", |_| unsafe { give(mode, LAZY) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryLoadData(
    library: *mut Handle,
    code: *const c_void,
    _jit_options: *const u32,
    _jit_values: *const *const c_void,
    _jit_count: u32,
    _options: *const u32,
    _values: *const *const c_void,
    _count: u32,
) -> i32 {
    call("cuLibraryLoadData", |parts| {
        // SAFETY: the C caller gives an image.
        let kernels = kernels_in(unsafe { text_at(code) }?, 0, None)?;
        // SAFETY: the C caller gives a place for a CUlibrary.
        unsafe { give(library, parts.modules.libraries.enter(Loaded { context: None, kernels })) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLibraryUnload(library: Handle) -> i32 {
    call("cuLibraryUnload", |parts| {
        parts.modules.libraries.take(library).ok_or(Code::INVALID_HANDLE)?;
        parts.modules.functions.remove(|function| function.home == library);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetKernel(kernel: *mut Handle, library: Handle, name: *const c_char) -> i32 {
    call("cuLibraryGetKernel", |parts| {
        let loaded = parts.modules.libraries.get(library).cloned();
        // SAFETY: the C caller gives a NUL-terminated name and a place for a CUkernel.
        unsafe { give(kernel, find(&mut parts.modules, loaded, library, name)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetKernelCount(count: *mut u32, library: Handle) -> i32 {
    call("cuLibraryGetKernelCount", |parts| {
        let loaded = parts.modules.libraries.get(library).ok_or(Code::INVALID_HANDLE)?;
        // SAFETY: the C caller gives a place for an unsigned int.
        unsafe { give(count, loaded.kernels.len() as u32) }
    })
}

/// A kernel of a library is launched under the same handle in every context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelGetFunction(function: *mut Handle, kernel: Handle) -> i32 {
    call("cuKernelGetFunction", |parts| {
        parts.current()?;
        parts.modules.function(kernel)?;
        // SAFETY: the C caller gives a place for a CUfunction.
        unsafe { give(function, kernel) }
    })
}
