//! The images of a node: places for pulls, pull secrets, the list in the Node's status, and what is
//! removed when the disk fills.

mod collect;
mod keeper;
mod secrets;
mod shared;

pub use collect::ImageGcPolicy;
pub(crate) use keeper::ImageKeeper;
pub(crate) use secrets::{PullSecrets, pull_secrets};
pub(crate) use shared::NodeImages;
