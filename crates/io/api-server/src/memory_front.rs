//! A front over a store in memory, for tests.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use rekindle_api::auth::AuthorizationMode;
use rekindle_api::auth::token::TokenKeys;
use rekindle_api::{Api, ApiParts};
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use rekindle_store::memory::MemoryDisk;
use rekindle_store::{Store, StoreLimits};

use serde_json::Value;

use crate::caller::RequestSource;
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

/// What an administrator gets for a request that succeeds.
pub(crate) async fn call(front: &Front, method: Method, path: &str, body: &Value) -> Value {
    let (status, answer) = ask(front, method, path, body).await;
    assert!(status.is_success(), "{answer}");
    answer
}

/// The answer to an administrator.
pub(crate) async fn ask(
    front: &Front,
    method: Method,
    path: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(path);
    let request = request.header(http::header::CONTENT_TYPE, "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string())));
    let admin = ClientIdentity::User(UserInfo::internal("admin"));
    let request = request.expect("a path of a test");
    let response = front.serve(&RequestSource::InProcess(admin), request).await;
    let status = response.status();
    let answer = response.into_body().collect().await.expect("it is whole").to_bytes();
    (status, serde_json::from_slice(&answer).expect("it is JSON"))
}
