//! Pulling from registries (OCI distribution specification 1.1; Docker's registry API v2).
//!
//! ```text
//!  Puller -> Pull -> manifest (index, this machine's image, config)
//!    |        +----> layer (nameless file, digested while it comes)
//!    |                 +-> store (the safe unpacker, then images.json)
//!    +- Session -> Authorizer (Basic, token) -> Transport (hyper, rustls)
//! ```
//!
//! Invariants: nothing is shown before all of it is proven by its digest; everything that comes
//! from outside has a limit in bytes and in time; credentials go to the registry and its token
//! service only, over TLS but for loopback, and into no text; a pull that ends early leaves no file
//! with a name.

mod address;
mod authorization;
mod challenge;
mod docker_config;
mod error;
mod layer;
mod login;
mod manifest;
mod progress;
mod pull;
mod puller;
mod session;
mod settings;
mod transport;

pub use docker_config::DockerConfigError;
pub use error::RegistryError;
pub use login::{Keyring, Login};
pub use progress::{LayerProgress, LayerState};
pub use puller::Puller;
pub(crate) use puller::has_registry;
pub use settings::RegistrySettings;
