//! A world for tests: an API server in memory, a runtime and a network that remember, and a folder
//! that is unmounted and removed whatever happens. The world outlives the agents in it, so that one
//! can crash and the next one takes over.

mod api;
mod folder;
mod images;
mod network;
mod pods;
mod runtime;
mod usage;
mod world;

pub(crate) use api::FakeApi;
pub(crate) use folder::TestFolder;
pub(crate) use network::FakeNetwork;
pub(crate) use pods::{container, pod, restart, with_volumes};
pub(crate) use runtime::{CommandEnds, Machine};
pub(crate) use world::World;
