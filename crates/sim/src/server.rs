//! The real API core over a disk in memory, asked without HTTP: each call is answered before it returns.

use std::sync::{Arc, Mutex, PoisonError};

use http::Method;
use rekindle_api::auth::{Authorizer, Identity, UserInfo};
use rekindle_api::{Answer, Api, ApiParts, Outcome, Request, kinds};
use rekindle_operator::{Status, Transport};
use rekindle_store::memory::MemoryDisk;
use rekindle_store::{Committer, Limits, Store, Watch};
use rekindle_types::Tick;
use serde_json::Value;

use crate::entropy::Seeded;
use crate::error::SimError;

/// The API. Clones are the same.
#[derive(Clone)]
pub(crate) struct Server {
    api: Api,
    identity: Identity,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    committer: Committer<MemoryDisk>,
    now: Tick,
    figures: Figures,
}

/// What was asked of the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests that wrote, and were not refused.
    pub writes: u64,
    /// Those of them that wrote Events.
    pub events: u64,
    /// Requests that were refused.
    pub refused: u64,
}

impl Server {
    /// A new cluster and a watch over everything that will ever be in it.
    pub(crate) fn new(seed: u64, now: Tick) -> Result<(Self, Watch), SimError> {
        let (store, mut committer) = Store::open(MemoryDisk::new(), Limits::default())?;
        let watch = store.watch("/", store.revision())?;
        let api = Api::new(ApiParts {
            registry: kinds::all(),
            store,
            entropy: Box::new(Seeded::new(seed)),
            authorizer: Authorizer::AlwaysAllow,
            ca_bundle: String::new(),
        });
        api.bootstrap(now)?;
        committer.commit_pending().map_err(|error| SimError::Disk(error.to_string()))?;
        let identity = Identity::User(UserInfo::internal("system:rekindle:sim"));
        let inner = Inner { committer, now, figures: Figures::default() };
        Ok((Self { api, identity, inner: Arc::new(Mutex::new(inner)) }, watch))
    }

    pub(crate) fn figures(&self) -> Figures {
        self.inner().figures
    }

    pub(crate) fn next_expiry(&self) -> Option<Tick> {
        self.api.next_expiry()
    }

    /// Time goes on; Events whose hour is over go.
    pub(crate) fn set_time(&self, now: Tick) -> Result<(), SimError> {
        let mut inner = self.inner();
        inner.now = now;
        if self.api.next_expiry().is_some_and(|due| due <= now) {
            self.api.prune(now)?;
            inner.committer.commit_pending().map_err(|error| SimError::Disk(error.to_string()))?;
        }
        Ok(())
    }

    /// One request and its answer.
    pub(crate) fn call(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Vec<u8>,
    ) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut inner = self.inner();
        let request = Request {
            path: path.to_owned(),
            query: query.to_owned(),
            accept: String::new(),
            content_type: kind.to_owned(),
            body: body.into(),
            identity: self.identity.clone(),
            now: inner.now,
            method,
        };
        let answer: Option<Answer> = match self.api.handle(&request) {
            Outcome::Answer(answer) => Some(answer),
            Outcome::Write(mut write) => {
                // a commit that fails answers the writes that it was for
                let _ = inner.committer.commit_pending();
                write.try_answer()
            }
            Outcome::Watch(_)
            | Outcome::Log(_)
            | Outcome::Stream(_)
            | Outcome::Node(_)
            | Outcome::ResourceMetrics(_)
            | Outcome::Metrics => None,
        };
        let Some(answer) = answer else { return (501, Value::Null) };
        let code = answer.code.as_u16();
        let is_write = request.method != Method::GET;
        let figures = &mut inner.figures;
        match (code < 300, is_write) {
            (true, true) => {
                figures.writes += 1;
                figures.events += u64::from(request.path.contains("/events"));
            }
            (true, false) => {}
            (false, _) => figures.refused += 1,
        }
        (code, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for Server {
    async fn send(&self, request: http::Request<Vec<u8>>) -> rekindle_operator::Answer {
        let (parts, body) = request.into_parts();
        let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        let path = parts.uri.to_string();
        let (code, value) = self.call(parts.method, &path, kind.unwrap_or_default(), body);
        if code < 300 {
            return rekindle_operator::Answer::Object(value);
        }
        match serde_json::from_value::<Status>(value) {
            Ok(status) => rekindle_operator::Answer::Refused(Box::new(status)),
            Err(error) => rekindle_operator::Answer::Unknown(format!("answer {code}: {error}")),
        }
    }
}
