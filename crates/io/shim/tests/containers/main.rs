//! Containers of the real shim, which is spoken to directly. Needs root.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test that drives a real process, and has failed when it cannot go on"
)]

mod confinement;
mod early_start;
mod hostile_images;
mod image_volumes;
mod roots_ahead;
mod shim;
