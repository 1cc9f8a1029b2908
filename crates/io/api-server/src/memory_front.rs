//! A front over a store in memory, for tests.

use std::sync::Arc;

use rekindle_api::auth::AuthorizationMode;
use rekindle_api::auth::token::TokenKeys;
use rekindle_api::{Api, ApiParts};
use rekindle_store::memory::MemoryDisk;
use rekindle_store::{Store, StoreLimits};

use crate::pki::TokenKey;
use crate::{Front, FrontParts, NoLogs, OsEntropy, SystemClock};

/// A front with no objects. A thread commits its writes, as in the engine.
pub(crate) fn front_in_memory(clock: &SystemClock, authorizer: AuthorizationMode) -> Front {
    let opened = Store::open(MemoryDisk::new(), StoreLimits::default());
    let (store, committer) = opened.expect("a disk in memory is empty");
    std::thread::spawn(move || committer.run());
    let parts = ApiParts {
        registry: rekindle_kinds::all(),
        store,
        entropy: Box::new(OsEntropy::default()),
        authorizer,
        ca_bundle: String::new(),
    };
    let api = Api::new(parts);
    let key = TokenKey::ephemeral().expect("the system has random numbers");
    api.set_token_keys(TokenKeys::new(key));
    Front::new(FrontParts { api, clock: clock.shared(), logs: Arc::new(NoLogs) })
}
