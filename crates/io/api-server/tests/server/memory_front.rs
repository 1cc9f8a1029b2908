//! Fronts over a store in memory.
#![allow(unreachable_pub, reason = "a module of a test")]

use std::sync::Arc;

use rekindle_api::auth::AuthorizationMode;
use rekindle_api::{Api, ApiParts};
use rekindle_api_server::{Front, FrontParts, NoLogs, NodeLogs, OsEntropy, SystemClock};
use rekindle_store::memory::MemoryDisk;
use rekindle_store::{Store, StoreLimits};

/// The parts of an API with no objects. A thread commits its writes, as in the engine.
pub fn api_parts() -> ApiParts {
    let (store, committer) = Store::open(MemoryDisk::new(), StoreLimits::default()).unwrap();
    std::thread::spawn(move || committer.run());
    ApiParts {
        registry: rekindle_kinds::all(),
        store,
        entropy: Box::new(OsEntropy::default()),
        authorizer: AuthorizationMode::Rbac,
        ca_bundle: String::new(),
    }
}

/// A front of this API with the objects that every cluster has.
pub fn front(api: Api, clock: &SystemClock) -> Front {
    front_with_logs(api, clock, Arc::new(NoLogs))
}

/// The same with logs of containers from here.
pub fn front_with_logs(api: Api, clock: &SystemClock, logs: Arc<dyn NodeLogs>) -> Front {
    for pending in api.bootstrap(clock.now()).unwrap() {
        pending.wait().unwrap();
    }
    Front::new(FrontParts { api, clock: clock.shared(), logs })
}
