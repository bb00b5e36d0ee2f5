//! `open`: whether a device node can be made and opened, to tell a forbidden device from one without a driver.

use std::ffi::CString;
use std::io;

/// Makes a node in a folder of its own, opens it, prints what came back and removes both.
pub fn open(major: u32, minor: u32) -> Result<(), String> {
    let folder = folder()?;
    let outcome = make_and_open(&format!("{folder}/node"), major, minor);
    let _ = std::fs::remove_file(format!("{folder}/node"));
    let _ = std::fs::remove_dir(&folder);
    let errno = outcome.map_err(|e| format!("mknod {major}:{minor}: {e}"))?;
    println!("{{\"errno\":{errno},\"name\":\"{}\"}}", name(errno));
    Ok(())
}

fn folder() -> Result<String, String> {
    let mut why = String::new();
    for parent in ["/tmp", "/run", "/dev", ""] {
        let path = format!("{parent}/counter-{}", std::process::id());
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) => why = format!("cannot make {path}: {error}"),
        }
    }
    Err(why)
}

/// The errno of opening, 0 when it opened.
fn make_and_open(path: &str, major: u32, minor: u32) -> io::Result<i32> {
    let path = CString::new(path)?;
    // SAFETY: the path is NUL-terminated and lives through both calls; a descriptor that opens is closed at exit.
    unsafe {
        if libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(major, minor)) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC) >= 0 {
            return Ok(0);
        }
    }
    Ok(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

fn name(errno: i32) -> &'static str {
    match errno {
        0 => "OK",
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::ENXIO => "ENXIO",
        libc::EACCES => "EACCES",
        libc::EBUSY => "EBUSY",
        libc::ENODEV => "ENODEV",
        libc::EINVAL => "EINVAL",
        _ => "OTHER",
    }
}
