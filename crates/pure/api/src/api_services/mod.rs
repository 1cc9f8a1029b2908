//! Which server answers for a group version: this one, or one behind a Service (API aggregation).
//!
//! ```text
//!  definitions, built-in kinds --> local_api_service: those of this server, kept by it
//!  APIService with a Service   --> routing: its requests go there, as AggregatedRequest
//!                                  followed_servers: does it answer? --> status
//!                                  server_discovery: what does it serve? --> discovery
//! ```
//! [`priorities`] orders groups and versions. Source of behaviour: upstream's `kube-aggregator`.

pub(crate) mod followed_servers;
pub(crate) mod listed_api_service;
pub(crate) mod local_api_service;
pub(crate) mod priorities;
pub(crate) mod routing;
pub(crate) mod server_discovery;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use followed_servers::FollowedServer;
pub use server_discovery::ServerDiscovery;

/// What is known beside the stored APIServices.
#[derive(Default)]
pub(crate) struct ApiServices {
    settling: Mutex<()>,
    /// What the servers of APIServices said last, by their names.
    discoveries: Mutex<BTreeMap<String, Arc<ServerDiscovery>>>,
}

impl ApiServices {
    fn discovery_of(&self, name: &str) -> Option<Arc<ServerDiscovery>> {
        self.lock_discoveries().get(name).cloned()
    }

    fn discovered(&self, name: &str, discovery: ServerDiscovery) {
        self.lock_discoveries().insert(name.to_owned(), Arc::new(discovery));
    }

    /// Forgets what other servers said.
    fn keep_discoveries(&self, names: &BTreeSet<&str>) {
        self.lock_discoveries().retain(|name, _| names.contains(name.as_str()));
    }

    fn lock_discoveries(&self) -> MutexGuard<'_, BTreeMap<String, Arc<ServerDiscovery>>> {
        self.discoveries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held from the look at what is stored to the writes that follow: two requests at once would
    /// undo each other's.
    fn hold_settling(&self) -> MutexGuard<'_, ()> {
        self.settling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
