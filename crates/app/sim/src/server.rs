//! The real API core over a disk in memory, asked without HTTP: each call is answered before it
//! returns.

mod asks;
mod deletions;
mod reads;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use rekindle_api::auth::AuthorizationMode;
use rekindle_api::{Api, ApiParts};
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use rekindle_store::{
    BatchRow, Committer, DiskError, Revision, Store, StoreEvent, StoreLimits, StoreWatch,
    StoredObject,
};
use rekindle_types::Tick;
use serde_json::Value;

use crate::acknowledgements::Acknowledgements;
use crate::disk::SimDisk;
use crate::entropy::RequestEntropy;
use crate::error::SimError;
use crate::faults::{DiskSpace, PowerLossSync};
use crate::kinds::ServedKinds;
use crate::known_bugs::KnownBug;
use crate::written::WriteCounts;
use reads::everything;

/// So many objects are held beside their texts at least: more than the pods of the largest world.
/// The controllers hold the same.
const REMEMBERED: usize = 40_000;
/// All pods of the largest world may write at once, when their nodes have their network again.
const LIMITS: StoreLimits = StoreLimits {
    history_events_max: 1 << 17,
    history_bytes_max: 64 << 20,
    ..StoreLimits::DEFAULT
};

/// The API. Clones are the same.
#[derive(Clone)]
pub(crate) struct SimServer {
    api: Api,
    kinds: Arc<ServedKinds>,
    identity: Arc<ClientIdentity>,
    entropy: RequestEntropy,
    inner: Arc<Mutex<SimServerState>>,
}

struct SimServerState {
    committer: Committer<SimDisk>,
    disk: SimDisk,
    now: Tick,
    figures: RequestFigures,
    /// The same by object, if somebody wants to know.
    written: Option<WriteCounts>,
    power: MachinePower,
    /// Power fails in the commit after so many more.
    power_fails: Option<(u64, PowerLossSync)>,
    /// What anybody was told of, if that is looked at.
    told: Option<Acknowledgements>,
    /// What was told and cannot be.
    broken: Option<String>,
    /// A bug of the API.
    bug: Option<KnownBug>,
    /// Pods whose eviction was granted, as they were before.
    evicted: Vec<Arc<Pod>>,
    /// Pods as they were read when they had been written, by revision, until the watch shows them:
    /// another write may come before that, and the API holds the newest only.
    unseen: BTreeMap<Revision, Arc<Pod>>,
    /// How often it was opened.
    opened: u64,
    seed: u64,
}

/// What was on the disk when it was opened.
struct DurableObjects {
    newest: Revision,
    objects: Vec<Arc<StoredObject>>,
}

/// An API that was opened anew.
pub(crate) struct ReopenedServer {
    pub(crate) server: SimServer,
    /// Of all that comes after what was found.
    pub(crate) watch: StoreWatch,
    /// The newest revision that was found.
    pub(crate) newest: u64,
    /// What was found is not what anybody was told.
    pub(crate) wrong: Option<String>,
}

/// Whether the machine has power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MachinePower {
    On,
    /// It fails in the next commit.
    Failing,
    Lost,
}

/// What was asked of the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFigures {
    /// Requests that wrote, and were not refused.
    pub writes: u64,
    /// Those of them that wrote Events.
    pub events: u64,
    /// Requests that were to write and were refused.
    pub refused: u64,
}

/// The answer to a request.
pub(crate) struct SimAnswer {
    pub(crate) code: u16,
    pub(crate) body: Bytes,
    /// What its Warning headers say.
    pub(crate) warnings: Vec<String>,
}

impl SimAnswer {
    /// The code, and what the API says when it refuses.
    pub(crate) fn refusal(&self) -> (u16, Value) {
        match self.code {
            code @ 0..300 => (code, Value::Null),
            code => (code, serde_json::from_slice(&self.body).unwrap_or(Value::Null)),
        }
    }
}

impl SimServer {
    /// A new cluster and a watch over everything that will ever be in it.
    pub(crate) fn new(seed: u64, now: Tick) -> Result<(Self, StoreWatch), SimError> {
        let (server, watch, _) = Self::open(SimDisk::default(), seed, 0, now)?;
        Ok((server, watch))
    }

    /// From now on it is looked at what anybody was told; so far everybody knows everything.
    pub(crate) fn remember_what_is_told(&self) {
        let all = everything(self.api.store());
        self.inner().told =
            Some(Acknowledgements::new(all.iter().map(AsRef::as_ref), self.api.store().revision()));
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
    ) -> Result<(Self, StoreWatch, DurableObjects), SimError> {
        let (store, mut committer) = Store::open(disk.clone(), LIMITS)?;
        let found = DurableObjects { newest: store.revision(), objects: everything(&store) };
        let watch = store.watch("/", found.newest)?;
        // what is drawn after another start must not be drawn again
        let entropy =
            RequestEntropy::new(seed.wrapping_add(opened.wrapping_mul(0x5851_f42d_4c95_7f2d)));
        let api = Api::new(ApiParts {
            registry: rekindle_kinds::all(),
            store,
            entropy: Box::new(entropy.clone()),
            authorizer: AuthorizationMode::AlwaysAllow,
            ca_bundle: String::new(),
        });
        api.set_remembered(REMEMBERED);
        api.bootstrap(now).map_err(|error| SimError::Refused {
            operation: "prepare",
            object: "the API".to_owned(),
            message: error.to_string(),
        })?;
        if let Some((object, error)) = api.resume_definitions(now).failures.into_iter().next() {
            return Err(SimError::Refused {
                operation: "resume",
                object,
                message: error.to_string(),
            });
        }
        committer.commit_pending().map_err(|error| SimError::Disk(error.to_string()))?;
        let identity = Arc::new(ClientIdentity::User(UserInfo::internal("system:rekindle:sim")));
        let inner = SimServerState {
            committer,
            disk,
            now,
            figures: RequestFigures::default(),
            written: None,
            power: MachinePower::On,
            power_fails: None,
            told: None,
            broken: None,
            bug: None,
            evicted: Vec::new(),
            unseen: BTreeMap::new(),
            opened,
            seed,
        };
        let kinds = Arc::new(ServedKinds::new());
        let inner = Arc::new(Mutex::new(inner));
        let server = Self { api, kinds, identity, entropy, inner };
        Ok((server, watch, found))
    }

    /// The same data, opened anew after power was lost.
    pub(crate) fn reopen(&self, now: Tick) -> Result<ReopenedServer, SimError> {
        let (disk, seed, opened, bug, told, figures) = {
            let mut inner = self.inner();
            let figures = (inner.figures, inner.written.clone());
            (inner.disk.clone(), inner.seed, inner.opened, inner.bug, inner.told.take(), figures)
        };
        let under_way = disk.under_way();
        disk.power_on();
        let (server, watch, found) = Self::open(disk, seed, opened + 1, now)?;
        let objects: Vec<&StoredObject> = found.objects.iter().map(AsRef::as_ref).collect();
        let wrong =
            told.as_ref().and_then(|told| told.differs(&objects, found.newest, under_way.as_ref()));
        let mut inner = server.inner();
        (inner.figures, inner.written) = figures;
        inner.told = told.is_some().then(|| Acknowledgements::new(objects, found.newest));
        inner.bug = bug;
        drop(inner);
        Ok(ReopenedServer { server, watch, newest: found.newest.0, wrong })
    }

    /// Power will be lost in the commit after so many.
    pub(crate) fn lose_power(&self, after: u64, sync: PowerLossSync) {
        self.inner().power_fails.get_or_insert((after, sync));
    }

    /// Whether power was lost.
    pub(crate) fn power(&self) -> MachinePower {
        self.inner().power
    }

    /// Power stays on.
    pub(crate) fn heal(&self) {
        let mut inner = self.inner();
        inner.power_fails = None;
        if inner.power == MachinePower::Failing {
            inner.disk.keep_power();
            inner.power = MachinePower::On;
        }
    }

    /// The watch shows this. What is wrong with it, or with what was told before, if anything is.
    pub(crate) fn shown(&self, event: &StoreEvent) -> Option<String> {
        let inner = &mut *self.inner();
        let wrong = inner.told.as_mut().and_then(|told| told.shown(event));
        inner.broken.take().or(wrong)
    }

    /// What was told and cannot be.
    pub(crate) fn take_broken(&self) -> Option<String> {
        self.inner().broken.take()
    }

    /// What the watch shows of the commit in which power was lost; only the bug
    /// [`KnownBug::ShownUnsynced`] has it show anything.
    pub(crate) fn shown_unsynced(&self) -> Vec<StoreEvent> {
        let inner = self.inner();
        let batch = inner.disk.under_way().filter(|_| inner.bug == Some(KnownBug::ShownUnsynced));
        let Some(batch) = batch else { return Vec::new() };
        let event = |row: BatchRow| match (row.after, row.before) {
            (Some(object), previous) => Some(StoreEvent::Put { object, previous }),
            (None, Some(previous)) => {
                Some(StoreEvent::Delete { revision: batch.revision, previous })
            }
            (None, None) => None,
        };
        batch.rows.into_iter().filter_map(event).collect()
    }

    /// The newest revision there is.
    pub(crate) fn revision(&self) -> u64 {
        self.api.store().revision().0
    }

    pub(crate) fn figures(&self) -> RequestFigures {
        self.inner().figures
    }

    /// From now on writes are counted by object.
    pub(crate) fn count_by_object(&self) {
        self.inner().written.get_or_insert_default();
    }

    /// What was written, as far as that was counted.
    pub(crate) fn written(&self) -> WriteCounts {
        self.inner().written.clone().unwrap_or_default()
    }

    /// Nothing that was asked so far counts.
    pub(crate) fn forget_figures(&self) {
        self.inner().figures = RequestFigures::default();
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
                Err(_) if inner.power == MachinePower::Failing => {
                    inner.power = MachinePower::Lost;
                    break;
                }
                Err(error) => return Err(SimError::Disk(error.to_string())),
            }
        }
        Ok(())
    }

    /// The disk is full from now on, or no more.
    pub(crate) fn set_full(&self, room: DiskSpace) {
        self.inner().disk.set_room(room);
    }

    /// This pod is evicted without the API's eviction.
    pub(crate) fn note_eviction(&self, pod: Arc<Pod>) {
        self.inner().evicted.push(pod);
    }

    /// Pods whose eviction was granted since this was asked last, as they were before.
    pub(crate) fn take_evicted(&self) -> Vec<Arc<Pod>> {
        std::mem::take(&mut self.inner().evicted)
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, SimServerState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The segments of a path after group and version; none when it is of no group.
fn below_version(path: &str) -> Vec<&str> {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let group_and_version = match segments.next() {
        Some("api") => 1,
        Some("apis") => 2,
        Some(_) | None => return Vec::new(),
    };
    segments.skip(group_and_version).collect()
}
