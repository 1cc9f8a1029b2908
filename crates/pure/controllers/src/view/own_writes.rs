//! What we wrote ourselves and no watch has shown yet.
//!
//! client-go's controllers count expected creations and deletions so that a stale cache makes no
//! doubles. Here the server's answer to a write is put into the view at once, and these rules keep
//! it there until a watch catches up:
//! - a watch event with an older resourceVersion than the view's changes nothing;
//! - an object we deleted does not come back through an older event, and one that a watch saw go
//!   does not come back through a late answer;
//! - a list that does not show an object we wrote does not remove it, but makes it doubtful;
//! - a pod we bound (or are binding) counts on its node, and one we expect on a node keeps its room
//!   there, although its object does not say so yet;
//! - one we evicted counts as terminating: an older event must not make its replacement look like
//!   one pod too many.
//!
//! Resource versions are compared as numbers, as KEP-5504 allows for Kubernetes' own API and our
//! store guarantees.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rekindle_types::Tick;
use rekindle_types::held::HeldPod;

use crate::plan::WriteOperation;
use crate::{ObjectId, ResourceKind, ViewObject, pods};

/// UIDs remembered after their objects went.
const DEPARTED_MAX: usize = 1024;

/// Where a pod is assumed to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AssumedPlace {
    /// On this node.
    Bound(String),
    /// Nowhere yet, and expected on this one.
    Expected(String),
}

impl AssumedPlace {
    /// What a write says about a pod's place, if anything: the pod, its UID, and where.
    pub(super) fn from_write(write: &WriteOperation) -> Option<(&ObjectId, &str, Self)> {
        if let WriteOperation::Bind { pod, uid, node } = write {
            return Some((pod, uid, Self::Bound(node.clone())));
        }
        if let WriteOperation::Nominate { pod, uid, node } = write {
            return Some((pod, uid, Self::Expected(node.clone())));
        }
        None
    }

    /// Whether the pod says so itself. One that is bound is not expected anywhere.
    fn is_shown_by(&self, pod: &HeldPod) -> bool {
        match self {
            Self::Bound(_) => pods::node(pod).is_some(),
            Self::Expected(node) => {
                pods::node(pod).is_some() || pods::nominated_node(pod) == Some(node)
            }
        }
    }

    /// The pod with it.
    fn put_on(&self, pod: &HeldPod) -> HeldPod {
        let mut pod = pod.clone();
        match self {
            Self::Bound(node) => pod.node_name = Some(node.clone()),
            Self::Expected(node) => {
                pod.status.get_or_insert_default().nominated_node_name = Some(node.clone());
            }
        }
        pod
    }

    /// The pod without it.
    pub(super) fn taken_off(&self, pod: &HeldPod) -> HeldPod {
        let mut pod = pod.clone();
        match self {
            Self::Bound(_) => pod.node_name = None,
            Self::Expected(_) => pod.status.get_or_insert_default().nominated_node_name = None,
        }
        pod
    }
}

/// The UIDs that came last, up to [`DEPARTED_MAX`], with what is known of each.
#[derive(Clone, Debug)]
struct RecentUids<V> {
    /// Oldest first.
    in_order: VecDeque<Arc<str>>,
    /// The same, to look them up.
    known: BTreeMap<Arc<str>, V>,
}

impl<V> Default for RecentUids<V> {
    fn default() -> Self {
        Self { in_order: VecDeque::new(), known: BTreeMap::new() }
    }
}

impl<V> RecentUids<V> {
    fn get(&self, uid: &str) -> Option<&V> {
        self.known.get(uid)
    }

    fn insert(&mut self, uid: &str, value: V) {
        if self.in_order.len() == DEPARTED_MAX
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.known.remove(&oldest);
        }
        let uid: Arc<str> = uid.into();
        if self.known.insert(uid.clone(), value).is_some() {
            self.in_order.retain(|known| *known != uid);
        }
        self.in_order.push_back(uid);
    }
}

/// Own writes ahead of the watches.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnWrites {
    /// Objects put in by an answer, with the resourceVersion of the answer.
    unconfirmed: BTreeMap<ObjectId, u64>,
    /// UIDs of objects that the server said are gone.
    deleted: BTreeMap<String, ResourceKind>,
    /// UIDs of the objects that went last, oldest first: an answer that comes late does not bring
    /// them back.
    departed: RecentUids<()>,
    /// UIDs of objects of users' kinds that a watch showed to be deleted, the last ones, and where
    /// each was.
    seen_deleted: RecentUids<ObjectId>,
    /// Pod UID → where it is or is to come, from the moment that is decided until a watch shows it.
    assumed_places: BTreeMap<String, AssumedPlace>,
    /// Pod UID → when its eviction was granted, until a watch shows that it terminates.
    evicted: BTreeMap<String, Tick>,
}

impl OwnWrites {
    pub(super) fn wrote(&mut self, id: ObjectId, object: &ViewObject) {
        if let Some(version) = version(object) {
            self.unconfirmed.insert(id, version);
        }
    }

    pub(super) fn confirm(&mut self, id: &ObjectId, seen: &ViewObject) {
        if let Some(expected) = self.unconfirmed.get(id)
            && version(seen).is_none_or(|seen| seen >= *expected)
        {
            self.unconfirmed.remove(id);
        }
    }

    pub(super) fn is_unconfirmed(&self, id: &ObjectId) -> bool {
        self.unconfirmed.contains_key(id)
    }

    pub(super) fn deleted(&mut self, kind: ResourceKind, uid: &str) {
        self.deleted.insert(uid.to_owned(), kind);
    }

    pub(super) fn is_deleted(&self, uid: &str) -> bool {
        self.deleted.contains_key(uid)
    }

    pub(super) fn deletion_seen(&mut self, id: &ObjectId, uid: &str) {
        if matches!(id.kind, ResourceKind::Custom(_)) {
            self.seen_deleted.insert(uid, id.clone());
        }
        self.deleted.remove(uid);
        self.assumed_places.remove(uid);
        self.evicted.remove(uid);
    }

    /// True when an object with this UID was in the view and left it.
    pub(super) fn has_departed(&self, uid: &str) -> bool {
        self.departed.get(uid).is_some()
    }

    /// Where the object of a user's kind was which a watch lately showed to be deleted.
    pub(super) fn seen_deleted(&self, uid: &str) -> Option<&ObjectId> {
        self.seen_deleted.get(uid)
    }

    /// A fresh list is newer than every deletion the watch before it missed.
    pub(super) fn forget_deletions(&mut self, kind: ResourceKind) {
        self.deleted.retain(|_, k| *k != kind);
    }

    /// The object left the view.
    pub(super) fn forget(&mut self, id: &ObjectId, uid: &str) {
        self.departed.insert(uid, ());
        self.unconfirmed.remove(id);
        self.assumed_places.remove(uid);
        self.evicted.remove(uid);
    }

    pub(super) fn assume_place(&mut self, pod_uid: &str, place: AssumedPlace) {
        self.assumed_places.insert(pod_uid.to_owned(), place);
    }

    /// The assumption that there was.
    pub(super) fn drop_assumed_place(&mut self, pod_uid: &str) -> Option<AssumedPlace> {
        self.assumed_places.remove(pod_uid)
    }

    pub(super) fn assume_evicted(&mut self, pod_uid: &str, now: Tick) {
        self.evicted.insert(pod_uid.to_owned(), now);
    }

    /// The object with what is assumed of it.
    pub(super) fn with_assumptions(&mut self, object: ViewObject) -> ViewObject {
        let object = self.with_assumed_end(object);
        self.with_assumed_place(object)
    }

    /// Terminating, when its eviction was granted; unchanged when a watch shows that it is.
    fn with_assumed_end(&mut self, object: ViewObject) -> ViewObject {
        let ViewObject::Pod(pod) = &object else { return object };
        if pods::is_terminating(pod) {
            self.evicted.remove(object.uid());
            return object;
        }
        let Some(at) = self.evicted.get(object.uid()) else { return object };
        let mut pod = pod.as_ref().clone();
        pod.metadata.deletion_timestamp = Some(at.to_time());
        ViewObject::from(pod)
    }

    /// Where it is assumed to be; unchanged when a watch shows it there.
    fn with_assumed_place(&mut self, object: ViewObject) -> ViewObject {
        let ViewObject::Pod(pod) = &object else { return object };
        match self.assumed_places.get(object.uid()) {
            None => object,
            Some(place) if place.is_shown_by(pod) => {
                self.assumed_places.remove(object.uid());
                object
            }
            Some(place) => ViewObject::from(place.put_on(pod)),
        }
    }
}

/// True when what the view has is the same object in a strictly newer version than what a watch
/// shows.
pub(super) fn is_newer(known: &ViewObject, seen: &ViewObject) -> bool {
    match (version(known), version(seen)) {
        (Some(known_version), Some(seen_version)) => known_version > seen_version,
        _ => false, // versions that are not numbers cannot be compared: believe the watch
    }
}

fn version(object: &ViewObject) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}
