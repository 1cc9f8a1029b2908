//! The real API core over a disk in memory, asked without HTTP: each call is answered before it returns.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use rekindle_api::auth::{Authorizer, Identity, UserInfo};
use rekindle_api::{Answer, Api, ApiParts, Outcome, Request, kinds};
use rekindle_controllers::{Kind, NamespacedName, Object};
use rekindle_operator::{Status, Transport, object_from_json};
use rekindle_store::memory::MemoryDisk;
use rekindle_store::{Committer, Limits, RangeQuery, Store, Watch};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::PodRestart;
use serde_json::Value;

use crate::entropy::Seeded;
use crate::error::SimError;
use crate::faults::Sync;

/// The API. Clones are the same.
#[derive(Clone)]
pub(crate) struct Server {
    api: Api,
    identity: Identity,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    committer: Committer<MemoryDisk>,
    disk: MemoryDisk,
    now: Tick,
    figures: Figures,
    power: Power,
    /// The newest revision that somebody was told of.
    acknowledged: u64,
    /// How often it was opened.
    opened: u64,
    seed: u64,
}

/// Whether the machine has power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    On,
    /// It fails in the next commit.
    Failing,
    Lost,
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
        let (server, watch, _) = Self::open(MemoryDisk::new(), seed, 0, now)?;
        Ok((server, watch))
    }

    fn open(
        disk: MemoryDisk,
        seed: u64,
        opened: u64,
        now: Tick,
    ) -> Result<(Self, Watch, u64), SimError> {
        let (store, mut committer) = Store::open(disk.clone(), Limits::default())?;
        let found = store.revision();
        let watch = store.watch("/", found)?;
        // what is drawn after another start must not be drawn again
        let entropy = Seeded::new(seed.wrapping_add(opened.wrapping_mul(0x5851_f42d_4c95_7f2d)));
        let api = Api::new(ApiParts {
            registry: kinds::all(),
            store,
            entropy: Box::new(entropy),
            authorizer: Authorizer::AlwaysAllow,
            ca_bundle: String::new(),
        });
        api.bootstrap(now)?;
        committer.commit_pending().map_err(|error| SimError::Disk(error.to_string()))?;
        let identity = Identity::User(UserInfo::internal("system:rekindle:sim"));
        let inner = Inner {
            committer,
            disk,
            now,
            figures: Figures::default(),
            power: Power::On,
            acknowledged: 0,
            opened,
            seed,
        };
        Ok((Self { api, identity, inner: Arc::new(Mutex::new(inner)) }, watch, found.0))
    }

    /// The same data, opened anew after power was lost, with a watch and the newest revision that was found.
    pub(crate) fn reopen(&self, now: Tick) -> Result<(Self, Watch, u64), SimError> {
        let (disk, seed, opened, figures) = {
            let inner = self.inner();
            (inner.disk.clone(), inner.seed, inner.opened, inner.figures)
        };
        disk.power_on();
        let (server, watch, found) = Self::open(disk, seed, opened + 1, now)?;
        server.inner().figures = figures;
        Ok((server, watch, found))
    }

    /// Power will be lost in the next commit.
    pub(crate) fn lose_power(&self, sync: Sync) {
        let mut inner = self.inner();
        if inner.power == Power::On {
            inner.disk.inject(sync.fault());
            inner.power = Power::Failing;
        }
    }

    /// Whether power was lost.
    pub(crate) fn power(&self) -> Power {
        self.inner().power
    }

    /// Power stays on.
    pub(crate) fn heal(&self) {
        let mut inner = self.inner();
        if inner.power == Power::Failing {
            inner.disk.forget_faults();
            inner.power = Power::On;
        }
    }

    /// The newest revision that somebody was told of.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.inner().acknowledged
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

    /// Whether there is an object under this key.
    pub(crate) fn holds(&self, key: &str) -> bool {
        self.api.store().get(key).is_some()
    }

    /// A pod as it is stored.
    pub(crate) fn pod(&self, name: &NamespacedName) -> Option<Arc<Pod>> {
        let key = format!("/pods/{}/{}", name.namespace, name.name);
        let stored = self.api.store().get(&key)?;
        serde_json::from_slice(&stored.value).ok().map(Arc::new)
    }

    /// All pods as they are stored.
    pub(crate) fn pods(&self) -> Vec<Object> {
        self.all("/pods/", Kind::Pod)
    }

    /// All PodRestarts.
    pub(crate) fn restarts(&self) -> Vec<Arc<PodRestart>> {
        let all = self.all("/podrestarts.rekindle.dev/", Kind::PodRestart).into_iter();
        let restarts = all.filter_map(|object| match object {
            Object::PodRestart(restart) => Some(restart),
            _ => None,
        });
        restarts.collect()
    }

    pub(crate) fn all(&self, prefix: &str, kind: Kind) -> Vec<Object> {
        let query = RangeQuery { prefix: prefix.to_owned(), ..RangeQuery::default() };
        let range = self.api.store().range(&query).expect("the newest revision can be read");
        let objects = range.objects.iter();
        objects.filter_map(|stored| object_from_json(kind, &stored.value).ok()).collect()
    }

    /// One request and its answer.
    pub(crate) fn call(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Vec<u8>,
    ) -> (u16, Bytes) {
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
                if inner.committer.commit_pending().is_err() && inner.power == Power::Failing {
                    inner.power = Power::Lost;
                }
                write.try_answer()
            }
            Outcome::Watch(_)
            | Outcome::Log(_)
            | Outcome::Stream(_)
            | Outcome::Node(_)
            | Outcome::ResourceMetrics(_)
            | Outcome::Metrics => None,
        };
        let Some(answer) = answer else { return (501, Bytes::new()) };
        let code = answer.code.as_u16();
        let is_write = request.method != Method::GET;
        if code < 300 {
            let revision = self.api.store().revision().0;
            inner.acknowledged = inner.acknowledged.max(revision);
        }
        let figures = &mut inner.figures;
        match (code < 300, is_write) {
            (true, true) => {
                figures.writes += 1;
                figures.events += u64::from(request.path.contains("/events"));
            }
            (true, false) => {}
            (false, _) => figures.refused += 1,
        }
        (code, answer.body)
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
        let is_event = path.contains("/events");
        let (code, body) = self.call(parts.method, &path, kind.unwrap_or_default(), body);
        if code < 300 {
            // nobody reads an event that was written, and they are most of what is
            let object = match is_event {
                true => Ok(Value::Null),
                false => serde_json::from_slice(&body),
            };
            return match object {
                Ok(object) => rekindle_operator::Answer::Object(object),
                Err(error) => rekindle_operator::Answer::Unknown(format!("answer {code}: {error}")),
            };
        }
        match serde_json::from_slice::<Status>(&body) {
            Ok(status) => rekindle_operator::Answer::Refused(Box::new(status)),
            Err(error) => rekindle_operator::Answer::Unknown(format!("answer {code}: {error}")),
        }
    }
}
