//! The real API core over a disk in memory, asked without HTTP: each call is answered before it returns.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use rekindle_api::auth::{Authorizer, Identity, UserInfo};
use rekindle_api::{Answer, Api, ApiParts, Outcome, Request, kinds as api_kinds};
use rekindle_controllers::{Kind, NamespacedName, Object, ObjectId, Outcome as Went};
use rekindle_operator::{Status, Transport, stored_from_json};
use rekindle_store::{
    Committer, DiskError, Event, Limits, Object as Stored, RangeQuery, Revision, Row, Store, Watch,
};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::PodRestart;
use serde_json::Value;

use crate::disk::SimDisk;
use crate::entropy::ByRequest;
use crate::error::SimError;
use crate::faults::{Room, Sync};
use crate::kinds::{self, Kinds};
use crate::known_bugs::KnownBug;
use crate::told::Told;
use crate::written::Written;

/// So many objects are held beside their texts at least: more than the pods of the largest world. The controllers hold the same.
const REMEMBERED: usize = 40_000;
/// All pods of the largest world may write at once, when their nodes have their network again.
const LIMITS: Limits =
    Limits { history_events_max: 1 << 17, history_bytes_max: 64 << 20, ..Limits::DEFAULT };

/// The API. Clones are the same.
#[derive(Clone)]
pub(crate) struct Server {
    api: Api,
    kinds: Arc<Kinds>,
    identity: Arc<Identity>,
    entropy: ByRequest,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    committer: Committer<SimDisk>,
    disk: SimDisk,
    now: Tick,
    figures: Figures,
    /// The same by object, if somebody wants to know.
    written: Option<Written>,
    power: Power,
    /// Power fails in the commit after so many more.
    power_fails: Option<(u64, Sync)>,
    /// What anybody was told of, if that is looked at.
    told: Option<Told>,
    /// What was told and cannot be.
    broken: Option<String>,
    /// A bug of the API.
    bug: Option<KnownBug>,
    /// Pods whose eviction was granted, as they were before.
    evicted: Vec<Arc<Pod>>,
    /// Pods as they were read when they had been written, by revision, until the watch shows them: another write may come before that, and
    /// the API holds the newest only.
    unseen: BTreeMap<Revision, Arc<Pod>>,
    /// How often it was opened.
    opened: u64,
    seed: u64,
}

/// What was on the disk when it was opened.
struct Found {
    newest: Revision,
    objects: Vec<Arc<Stored>>,
}

/// An API that was opened anew.
pub(crate) struct Reopened {
    pub(crate) server: Server,
    /// Of all that comes after what was found.
    pub(crate) watch: Watch,
    /// The newest revision that was found.
    pub(crate) newest: u64,
    /// What was found is not what anybody was told.
    pub(crate) wrong: Option<String>,
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
    /// Requests that were to write and were refused.
    pub refused: u64,
}

/// The answer to a request.
pub(crate) struct Answered {
    pub(crate) code: u16,
    pub(crate) body: Bytes,
    /// What its Warning headers say.
    pub(crate) warnings: Vec<String>,
}

impl Answered {
    /// The code, and what the API says when it refuses.
    pub(crate) fn refusal(&self) -> (u16, Value) {
        match self.code {
            code @ 0..300 => (code, Value::Null),
            code => (code, serde_json::from_slice(&self.body).unwrap_or(Value::Null)),
        }
    }
}

impl Server {
    /// A new cluster and a watch over everything that will ever be in it.
    pub(crate) fn new(seed: u64, now: Tick) -> Result<(Self, Watch), SimError> {
        let (server, watch, _) = Self::open(SimDisk::default(), seed, 0, now)?;
        Ok((server, watch))
    }

    /// From now on it is looked at what anybody was told; so far everybody knows everything.
    pub(crate) fn remember_what_is_told(&self) {
        let all = everything(self.api.store());
        self.inner().told =
            Some(Told::of(all.iter().map(AsRef::as_ref), self.api.store().revision()));
    }

    /// A bug of the API or its disk.
    pub(crate) fn set_bug(&self, bug: Option<KnownBug>) {
        let mut inner = self.inner();
        inner.bug = bug;
        inner.disk.set_bug(bug);
    }

    fn open(
        disk: SimDisk,
        seed: u64,
        opened: u64,
        now: Tick,
    ) -> Result<(Self, Watch, Found), SimError> {
        let (store, mut committer) = Store::open(disk.clone(), LIMITS)?;
        let found = Found { newest: store.revision(), objects: everything(&store) };
        let watch = store.watch("/", found.newest)?;
        // what is drawn after another start must not be drawn again
        let entropy = ByRequest::new(seed.wrapping_add(opened.wrapping_mul(0x5851_f42d_4c95_7f2d)));
        let api = Api::new(ApiParts {
            registry: api_kinds::all(),
            store,
            entropy: Box::new(entropy.clone()),
            authorizer: Authorizer::AlwaysAllow,
            ca_bundle: String::new(),
        });
        api.set_remembered(REMEMBERED);
        api.bootstrap(now)?;
        committer.commit_pending().map_err(|error| SimError::Disk(error.to_string()))?;
        let identity = Arc::new(Identity::User(UserInfo::internal("system:rekindle:sim")));
        let inner = Inner {
            committer,
            disk,
            now,
            figures: Figures::default(),
            written: None,
            power: Power::On,
            power_fails: None,
            told: None,
            broken: None,
            bug: None,
            evicted: Vec::new(),
            unseen: BTreeMap::new(),
            opened,
            seed,
        };
        let kinds = Arc::new(Kinds::new());
        let inner = Arc::new(Mutex::new(inner));
        let server = Self { api, kinds, identity, entropy, inner };
        Ok((server, watch, found))
    }

    /// The same data, opened anew after power was lost.
    pub(crate) fn reopen(&self, now: Tick) -> Result<Reopened, SimError> {
        let (disk, seed, opened, bug, told, figures) = {
            let mut inner = self.inner();
            let figures = (inner.figures, inner.written.clone());
            (inner.disk.clone(), inner.seed, inner.opened, inner.bug, inner.told.take(), figures)
        };
        let under_way = disk.under_way();
        disk.power_on();
        let (server, watch, found) = Self::open(disk, seed, opened + 1, now)?;
        let objects: Vec<&Stored> = found.objects.iter().map(AsRef::as_ref).collect();
        let wrong =
            told.as_ref().and_then(|told| told.differs(&objects, found.newest, under_way.as_ref()));
        let mut inner = server.inner();
        (inner.figures, inner.written) = figures;
        inner.told = told.is_some().then(|| Told::of(objects, found.newest));
        inner.bug = bug;
        drop(inner);
        Ok(Reopened { server, watch, newest: found.newest.0, wrong })
    }

    /// Power will be lost in the commit after so many.
    pub(crate) fn lose_power(&self, after: u64, sync: Sync) {
        self.inner().power_fails.get_or_insert((after, sync));
    }

    /// Whether power was lost.
    pub(crate) fn power(&self) -> Power {
        self.inner().power
    }

    /// Power stays on.
    pub(crate) fn heal(&self) {
        let mut inner = self.inner();
        inner.power_fails = None;
        if inner.power == Power::Failing {
            inner.disk.keep_power();
            inner.power = Power::On;
        }
    }

    /// The watch shows this. What is wrong with it, or with what was told before, if anything is.
    pub(crate) fn shown(&self, event: &Event) -> Option<String> {
        let inner = &mut *self.inner();
        let wrong = inner.told.as_mut().and_then(|told| told.shown(event));
        inner.broken.take().or(wrong)
    }

    /// What was told and cannot be.
    pub(crate) fn take_broken(&self) -> Option<String> {
        self.inner().broken.take()
    }

    /// What the watch shows of the commit in which power was lost; only the bug [`KnownBug::ShownUnsynced`] has it show anything.
    pub(crate) fn shown_unsynced(&self) -> Vec<Event> {
        let inner = self.inner();
        let batch = inner.disk.under_way().filter(|_| inner.bug == Some(KnownBug::ShownUnsynced));
        let Some(batch) = batch else { return Vec::new() };
        let event = |row: Row| match (row.after, row.before) {
            (Some(object), previous) => Some(Event::Put { object, previous }),
            (None, Some(previous)) => Some(Event::Delete { revision: batch.revision, previous }),
            (None, None) => None,
        };
        batch.rows.into_iter().filter_map(event).collect()
    }

    /// The newest revision there is.
    pub(crate) fn revision(&self) -> u64 {
        self.api.store().revision().0
    }

    pub(crate) fn figures(&self) -> Figures {
        self.inner().figures
    }

    /// From now on writes are counted by object.
    pub(crate) fn count_by_object(&self) {
        self.inner().written.get_or_insert_default();
    }

    /// What was written, as far as that was counted.
    pub(crate) fn written(&self) -> Written {
        self.inner().written.clone().unwrap_or_default()
    }

    /// Nothing that was asked so far counts.
    pub(crate) fn forget_figures(&self) {
        self.inner().figures = Figures::default();
    }

    /// What is asked in here is the simulation's own, and does not count.
    pub(crate) fn uncounted<T>(&self, ask: impl FnOnce() -> T) -> T {
        let (before, written) = {
            let mut inner = self.inner();
            (inner.figures, inner.written.take())
        };
        let answer = ask();
        let mut inner = self.inner();
        (inner.figures, inner.written) = (before, written);
        drop(inner);
        answer
    }

    /// An Event that is counted as if it had been written.
    pub(crate) fn count_event(&self) {
        let figures = &mut self.inner().figures;
        figures.writes += 1;
        figures.events += 1;
    }

    pub(crate) fn next_expiry(&self) -> Option<Tick> {
        self.api.next_expiry()
    }

    /// Time goes on; Events whose hour is over go.
    pub(crate) fn set_time(&self, now: Tick) -> Result<(), SimError> {
        let mut inner = self.inner();
        inner.now = now;
        while self.api.next_expiry().is_some_and(|due| due <= now) {
            let _answered_by_the_commit = self.api.prune(now)?;
            match inner.committer.commit_pending() {
                Ok(_) => {}
                // what was to go stays
                Err(DiskError::Full { .. }) => break,
                Err(_) if inner.power == Power::Failing => {
                    inner.power = Power::Lost;
                    break;
                }
                Err(error) => return Err(SimError::Disk(error.to_string())),
            }
        }
        Ok(())
    }

    /// The disk is full from now on, or no more.
    pub(crate) fn set_full(&self, room: Room) {
        self.inner().disk.set_room(room);
    }

    /// Whether there is such an object.
    pub(crate) fn holds(&self, id: &ObjectId) -> bool {
        self.kinds.key(id).is_some_and(|key| self.api.store().get(&key).is_some())
    }

    /// The object under this name.
    pub(crate) fn get(&self, id: &ObjectId) -> Option<Object> {
        self.read(self.stored(id)?.as_ref())
    }

    /// An object as it is stored.
    pub(crate) fn stored(&self, id: &ObjectId) -> Option<Arc<Stored>> {
        let stored = self.api.store().get(&self.kinds.key(id)?)?;
        self.note_read(std::slice::from_ref(&stored));
        Some(stored)
    }

    fn all(&self, kind: Kind) -> Vec<Arc<Stored>> {
        let all = self.kinds.all(&self.api, kind);
        self.note_read(&all);
        all
    }

    fn note_read(&self, all: &[Arc<Stored>]) {
        let inner = &mut *self.inner();
        if let Some(told) = &mut inner.told {
            let wrong = all.iter().find_map(|stored| told.read(stored));
            inner.broken = inner.broken.take().or(wrong);
        }
    }

    /// What is behind a stored text; none when its kind is not watched.
    pub(crate) fn read(&self, stored: &Stored) -> Option<Object> {
        self.kinds.read(&self.api, stored)
    }

    /// A pod that the watch shows, as the API has it; none for another object.
    pub(crate) fn seen_pod(&self, stored: &Stored) -> Option<Arc<Pod>> {
        let mut inner = self.inner();
        // what was shown before is not shown again
        let later = inner.unseen.split_off(&stored.revision);
        inner.unseen = later;
        let known = inner.unseen.remove(&stored.revision);
        drop(inner);
        let pod = known.or_else(|| self.kinds.pod(&self.api, stored))?;
        debug_assert!(
            serde_json::from_slice(&stored.value).is_ok_and(|read: Pod| read == *pod),
            "{} reads back as something else than it was",
            stored.key
        );
        Some(pod)
    }

    /// A pod that was written just now.
    pub(crate) fn written_pod(&self, name: &NamespacedName) -> Option<Arc<Pod>> {
        let stored = self.stored(&ObjectId::new(Kind::Pod, name.clone()))?;
        let pod = self.kinds.pod(&self.api, &stored)?;
        self.inner().unseen.insert(stored.revision, pod.clone());
        Some(pod)
    }

    /// A pod as it is stored.
    pub(crate) fn pod(&self, name: &NamespacedName) -> Option<Arc<Pod>> {
        let stored = self.stored(&ObjectId::new(Kind::Pod, name.clone()))?;
        self.kinds.pod(&self.api, &stored)
    }

    /// All pods as they were at a revision; none when that is forgotten.
    pub(crate) fn pods_at(&self, revision: Revision) -> Option<Vec<Arc<Pod>>> {
        let prefix = self.kinds.prefix(Kind::Pod)?;
        let query = RangeQuery { prefix, at: Some(revision), ..RangeQuery::default() };
        let range = self.api.store().range(&query).ok()?;
        // not through the API, which holds the newest version of each
        let pods = range.objects.iter().map(|stored| serde_json::from_slice(&stored.value));
        pods.map(|pod| pod.map(Arc::new)).collect::<Result<Vec<_>, _>>().ok()
    }

    /// This pod is evicted without the API's eviction.
    pub(crate) fn note_eviction(&self, pod: Arc<Pod>) {
        self.inner().evicted.push(pod);
    }

    /// Pods whose eviction was granted since this was asked last, as they were before.
    pub(crate) fn take_evicted(&self) -> Vec<Arc<Pod>> {
        std::mem::take(&mut self.inner().evicted)
    }

    /// All pods as they are stored.
    pub(crate) fn pods(&self) -> Vec<Arc<Pod>> {
        let all = self.all(Kind::Pod);
        all.iter().filter_map(|stored| self.kinds.pod(&self.api, stored)).collect()
    }

    /// All PodRestarts.
    pub(crate) fn restarts(&self) -> Vec<Arc<PodRestart>> {
        let restarts = self.list(Kind::PodRestart).into_iter().filter_map(|object| match object {
            Object::PodRestart(restart) => Some(restart),
            _ => None,
        });
        restarts.collect()
    }

    /// All objects of a kind.
    pub(crate) fn list(&self, kind: Kind) -> Vec<Object> {
        self.all(kind).iter().filter_map(|stored| self.read(stored)).collect()
    }

    /// One request and its answer.
    pub(crate) fn call(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Vec<u8>,
    ) -> (u16, Bytes) {
        let Answered { code, body, warnings: _ } = self.ask(method, path, kind, body);
        (code, body)
    }

    /// The same, with what the API warns of.
    pub(crate) fn ask(&self, method: Method, path: &str, kind: &str, body: Vec<u8>) -> Answered {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let evicted = path.strip_suffix("/eviction").and_then(|pod| self.pod_at(pod));
        let mut inner = self.inner();
        let request = Request {
            path: path.to_owned(),
            query: query.to_owned(),
            accept: String::new(),
            content_type: kind.to_owned(),
            body: body.into(),
            identity: Identity::clone(&self.identity),
            now: inner.now,
            method,
        };
        if request.method == Method::POST {
            self.entropy.asked(&request.path, &request.body);
        }
        let answer: Option<Answer> = match self.api.handle(&request) {
            Outcome::Answer(answer) => Some(answer),
            Outcome::Write(mut write) => {
                inner.commit_begins();
                // a commit that fails answers the writes that it was for
                let is_lost =
                    inner.committer.commit_pending().is_err() && inner.power == Power::Failing;
                if is_lost {
                    inner.power = Power::Lost;
                }
                let unsynced = if is_lost { inner.answer_unsynced() } else { None };
                unsynced.or_else(|| write.try_answer())
            }
            Outcome::Watch(_)
            | Outcome::Log(_)
            | Outcome::Stream(_)
            | Outcome::Node(_)
            | Outcome::ResourceMetrics(_)
            | Outcome::Metrics => None,
        };
        let Some(Answer { code, body, warnings, .. }) = answer else {
            return Answered { code: 501, body: Bytes::new(), warnings: Vec::new() };
        };
        let code = code.as_u16();
        let is_write = !is_question(&request);
        if code < 300 {
            inner.evicted.extend(evicted);
        }
        // what is deleted is answered as it was, or as it is from now on
        if code < 300 && is_write && request.method != Method::DELETE {
            self.note_answer(&mut inner, &body);
        }
        let figures = &mut inner.figures;
        match (code < 300, is_write) {
            (true, true) => {
                let is_event = is_of_events(&request.path);
                figures.writes += 1;
                figures.events += u64::from(is_event);
                if let Some(written) = inner.written.as_mut().filter(|_| !is_event) {
                    written.note(&request.path, request.now);
                }
            }
            (false, true) => figures.refused += 1,
            (_, false) => {}
        }
        Answered { code, body, warnings }
    }

    /// A write is granted with this answer.
    fn note_answer(&self, inner: &mut Inner, body: &Bytes) {
        let Some(told) = &mut inner.told else { return };
        let Some((key, revision)) = self.kinds.place_of(body) else { return };
        let wrong = match self.api.store().get(key.as_str()) {
            Some(_) => told.answered(key, revision, body),
            None => {
                told.answered_of_gone(key, revision, body);
                None
            }
        };
        inner.broken = inner.broken.take().or(wrong);
    }

    /// The pod of a path such as `/api/v1/namespaces/default/pods/web-0`.
    fn pod_at(&self, path: &str) -> Option<Arc<Pod>> {
        let (namespace, name) = path.strip_prefix("/api/v1/namespaces/")?.split_once("/pods/")?;
        self.pod(&NamespacedName::new(namespace, name))
    }

    fn carry(&self, request: http::Request<Vec<u8>>) -> (u16, Bytes) {
        let (parts, body) = request.into_parts();
        let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        self.call(parts.method, &parts.uri.to_string(), kind.unwrap_or_default(), body)
    }

    /// The object of an answer as the API holds it: its text is the very one that is stored.
    fn answered(&self, kind: Kind, body: &Bytes) -> Option<Object> {
        let name = kinds::name_of(body)?;
        let stored = self.api.store().get(&self.kinds.key(&ObjectId::new(kind, name))?)?;
        if stored.value.as_ptr() != body.as_ptr() {
            return None;
        }
        self.read(&stored)
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// What an API answers that does not wait for the disk; only the bug [`KnownBug::AnsweredUnsynced`] does that.
    fn answer_unsynced(&self) -> Option<Answer> {
        let batch = self.disk.under_way().filter(|_| self.bug == Some(KnownBug::AnsweredUnsynced));
        let written = batch?.rows.into_iter().find_map(|row| row.after)?;
        Some(Answer::json(StatusCode::OK, written.value.clone()))
    }

    /// The commit is told when it is the one in which power is lost.
    fn commit_begins(&mut self) {
        match self.power_fails.take() {
            Some((0, sync)) if self.power == Power::On => {
                self.disk.lose_power(sync);
                self.power = Power::Failing;
            }
            Some((left, sync)) => self.power_fails = Some((left.saturating_sub(1), sync)),
            None => {}
        }
    }
}

impl Transport for Server {
    async fn send(&self, request: http::Request<Vec<u8>>) -> rekindle_operator::Answer {
        let is_event = is_of_events(request.uri().path());
        let (code, body) = self.carry(request);
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

    async fn store(&self, kind: Kind, request: http::Request<Vec<u8>>) -> Went {
        let (code, body) = self.carry(request);
        if code < 300 {
            return match self.answered(kind, &body) {
                Some(object) => Went::Stored(object),
                None => stored_from_json(kind, &body),
            };
        }
        match serde_json::from_slice::<Status>(&body) {
            Ok(status) => rekindle_operator::refused(status),
            Err(error) => Went::Unknown { message: format!("answer {code}: {error}") },
        }
    }
}

/// All that a store holds.
fn everything(store: &Store) -> Vec<Arc<Stored>> {
    store.range(&RangeQuery::default()).expect("the newest revision can be read").objects
}

/// A request that changes nothing, whatever is answered.
fn is_question(request: &Request) -> bool {
    let is_tried = request.query.split('&').any(|option| option == "dryRun=All");
    request.method == Method::GET || is_tried
}

/// Whether a path is one of Events: its resource says so, and not a name that begins in the same way.
fn is_of_events(path: &str) -> bool {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let group_and_version = match segments.next() {
        Some("api") => 1,
        Some("apis") => 2,
        Some(_) | None => return false,
    };
    let of_version: Vec<&str> = segments.skip(group_and_version).collect();
    let resource = match of_version.as_slice() {
        ["namespaces", _, resource, ..] | [resource, ..] => *resource,
        [] => return false,
    };
    resource == "events"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_by_the_resource_and_not_by_a_name() {
        let cases = [
            ("/api/v1/namespaces/default/events", true),
            ("/api/v1/namespaces/default/events/web.17", true),
            ("/apis/events.k8s.io/v1/namespaces/default/events/web.17", true),
            ("/api/v1/events", true),
            ("/api/v1/namespaces/default/pods/events-0", false),
            ("/api/v1/namespaces/default/pods/events/status", false),
            ("/apis/apps/v1/namespaces/events/deployments/events", false),
            ("/api/v1/namespaces/events", false),
            ("/api/v1/nodes/events-1", false),
            ("/healthz", false),
        ];
        for (path, expected) in cases {
            assert_eq!(is_of_events(path), expected, "{path}");
        }
    }
}
