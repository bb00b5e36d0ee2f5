//! What must happen inside the mount namespace of a container before it starts: links by which programs find
//! the driver libraries, the loader's cache, the mask over the driver's parameters.
//!
//! The work is named by the arguments of a `createContainer` hook ([`Work`]), which `baton-devices` writes
//! into config.json and the program `baton-hook` reads. Everything of the image is met through [`baton_rooted::Rooted`]: no
//! path of it is used twice by name, no link of it leads out, nothing of it is executed or becomes the source
//! of a mount.

mod cache;
mod links;
mod params;
mod state;
mod word;
mod work;

pub use state::Container;
pub use word::{fault, leave};
pub use work::{Link, Work};

use baton_fault::Result;

/// Does `work` in the container.
///
/// # Errors
/// Of the step that failed. The links come first: without them no program finds the driver.
pub fn run(work: &Work, container: &Container) -> Result<()> {
    let rootfs = container.rootfs()?;
    for link in &work.links {
        links::make(&rootfs, link)?;
    }
    if let Some(ldconfig) = &work.ldconfig {
        cache::update(&rootfs, ldconfig, &work.library_dirs)?;
    }
    if work.mask_params {
        params::mask(&rootfs, container.bundle())?;
    }
    Ok(())
}
