//! The world: server, kubelet, watches, and the driver's loop as a function.

use std::collections::{BTreeMap, BTreeSet};

use rekindle_controllers::events::EventNote;
use rekindle_controllers::plan::PlanContinuation;
use rekindle_controllers::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ObjectId, ResourceKind, ViewObject,
    WriteOperation, WriteResult, affected, pods, reconcile,
};
use rekindle_types::{ResourceScope, Tick, TickDuration};
use serde_json::json;

use crate::api::{Event, FakeApi};

/// What becomes of the answer to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Arrives,
    /// The write is done, and nobody learns of it.
    IsLost,
    /// The write is not done, and nobody learns of it.
    NeverSent,
}

pub(crate) struct World {
    pub(crate) api: FakeApi,
    pub(crate) view: ClusterView,
    pub(crate) queue: BTreeSet<ControllerKey>,
    pub(crate) timers: BTreeMap<ControllerKey, Tick>,
    /// How many events of each kind's log the view has seen.
    pub(crate) seen: BTreeMap<ResourceKind, usize>,
    pub(crate) notes: Vec<EventNote>,
    pub(crate) writes: Vec<WriteOperation>,
    /// Called after every write: what must always hold.
    pub(crate) check: Box<dyn Fn(&FakeApi)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let api = FakeApi { now: Tick::from_secs(1_000_000), ..Default::default() };
        let mut world = World {
            api,
            view: ClusterView::new(),
            queue: BTreeSet::new(),
            timers: BTreeMap::new(),
            seen: BTreeMap::new(),
            notes: Vec::new(),
            writes: Vec::new(),
            check: Box::new(|_| {}),
        };
        world.create(json!({"kind": "Namespace", "metadata": {"name": "shop"},
            "spec": {"finalizers": ["kubernetes"]}}));
        world
    }

    pub(crate) fn with_node() -> Self {
        let mut world = Self::new();
        world.api.add_node("node-1", "100", "100Gi", "1000");
        world
    }

    /// A user creates an object, of namespace `shop` unless it names another.
    pub(crate) fn create(&mut self, mut value: serde_json::Value) -> ObjectId {
        let kind = ResourceKind::ALL.into_iter().find(|k| value["kind"] == k.info().kind).unwrap();
        if kind.info().scope == ResourceScope::Namespaced
            && value["metadata"]["namespace"].is_null()
        {
            value["metadata"]["namespace"] = json!("shop");
        }
        value["apiVersion"] = json!(kind.api_version());
        match self.api.create(kind, value) {
            WriteResult::Stored(object) => object.id(),
            refused => panic!("{refused:?}"),
        }
    }

    /// The built-in kinds, and those of which there ever was an object.
    fn kinds(&self) -> BTreeSet<ResourceKind> {
        ResourceKind::ALL.into_iter().chain(self.api.log.keys().copied()).collect()
    }

    /// The watch of a kind shows its next event. False when there is none.
    pub(crate) fn watch_next(&mut self, kind: ResourceKind) -> bool {
        let seen = self.seen.entry(kind).or_default();
        let Some(event) = self.api.log.get(&kind).and_then(|log| log.get(*seen)).cloned() else {
            return false;
        };
        *seen += 1;
        self.show(event);
        true
    }

    fn show(&mut self, event: Event) {
        self.view.set_time(self.api.now);
        let change = match event {
            Event::Applied(object) => self.view.apply(object),
            Event::Deleted(object) => self.view.delete(&object.id(), object.uid()),
        };
        self.follow(change);
    }

    /// A watch breaks and lists anew; the list is `lag` events behind, but not behind what the
    /// watch had shown.
    pub(crate) fn relist(&mut self, kind: ResourceKind, lag: usize) {
        self.view.set_time(self.api.now);
        let log = self.api.log.get(&kind).cloned().unwrap_or_default();
        let seen = self.seen.get(&kind).copied().unwrap_or(0);
        let until = log.len().saturating_sub(lag).max(seen);
        let mut listed = BTreeMap::new();
        for event in &log[..until] {
            match event {
                Event::Applied(object) => listed.insert(object.id(), object.clone()),
                Event::Deleted(object) => listed.remove(&object.id()),
            };
        }
        self.seen.insert(kind, until);
        let reset = self.view.reset(kind, listed.into_values().collect());
        self.follow(reset.changes);
        self.queue.extend(reset.doubtful.into_iter().map(ControllerKey::Doubt));
    }

    fn follow(&mut self, changes: impl IntoIterator<Item = ObjectChange>) {
        for change in changes {
            let keys = affected(&self.view, &change);
            self.queue.extend(keys);
        }
    }

    /// Looks at one key and carries its plan out.
    pub(crate) fn work(
        &mut self,
        key: &ControllerKey,
        mut answer: impl FnMut(&WriteOperation) -> Answer,
    ) {
        self.view.set_time(self.api.now);
        let plan = reconcile(&self.view, key, self.api.now);
        self.notes.extend(plan.notes);
        plan.unfit.into_iter().for_each(|attempt| self.view.remember(attempt));
        plan.recommendation.iter().for_each(|made| self.view.recommend(made));
        plan.counted_quota.iter().for_each(|quota| self.view.quota_counted(quota));
        self.view.creation_pauses_told(&plan.paused);
        match plan.again_at {
            Some(at) => self.timers.insert(key.clone(), at),
            None => self.timers.remove(key),
        };
        let mut verdict = PlanContinuation::Continue;
        for batch in plan.batches {
            for step in &batch {
                let changes = self.view.begin(step);
                self.follow(changes);
            }
            for step in batch {
                self.writes.push(step.write.clone());
                let lost = || WriteResult::Unknown { message: "connection reset".to_owned() };
                let outcome = match answer(&step.write) {
                    Answer::Arrives => self.api.carry_out(&step.write),
                    Answer::IsLost => {
                        self.api.carry_out(&step.write);
                        lost()
                    }
                    Answer::NeverSent => lost(),
                };
                (self.check)(&self.api);
                let settled = self.view.settle(&key.object(), &step, outcome);
                self.notes.extend(settled.notes);
                self.follow(settled.changes);
                verdict = match (verdict, settled.verdict) {
                    (PlanContinuation::Continue, other) => other,
                    (other, _) => other,
                };
            }
            if verdict != PlanContinuation::Continue {
                break;
            }
        }
        if verdict == PlanContinuation::Retry {
            self.queue.remove(key); // the driver waits a while, whatever changed meanwhile
            let at = self.api.now + TickDuration::from_millis(50);
            let due = self.timers.entry(key.clone()).or_insert(at);
            *due = at.min(*due);
        }
    }

    /// Lets watches and controllers run until nothing is left to do now. Panics when that takes
    /// unreasonably long.
    pub(crate) fn settle(&mut self) {
        for _ in 0..20_000 {
            let shown = self.kinds().into_iter().filter(|kind| self.watch_next(*kind)).count();
            if shown > 0 {
                continue;
            }
            let Some(key) = self.queue.pop_first() else { return };
            self.work(&key, |_| Answer::Arrives);
        }
        panic!("no end of work: {:?}", self.queue);
    }

    /// The kubelet gets everything on: bound pods run and are ready, terminating pods go.
    pub(crate) fn kubelet(&mut self) {
        let ids = self.api.ids(ResourceKind::Pod, "shop");
        for id in ids {
            self.kubelet_at(&id);
        }
    }

    /// The kubelet gets one pod on.
    pub(crate) fn kubelet_at(&mut self, id: &ObjectId) {
        let Some(ViewObject::Pod(pod)) = self.api.objects.get(id).cloned() else { return };
        if pod.node_name.is_none() {
            return;
        }
        if pod.metadata.deletion_timestamp.is_some() {
            self.api.pod_ended(id);
        } else if !pods::is_finished(&pod) && !pods::is_ready(&pod) {
            self.set_ready(id, "True");
        }
        (self.check)(&self.api);
    }

    pub(crate) fn set_ready(&mut self, id: &ObjectId, ready: &str) {
        let since = self.api.now.to_time();
        self.api.change(id, |pod| {
            pod["status"]["phase"] = json!("Running");
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": ready, "lastTransitionTime": since}]);
        });
    }

    /// Time passes, and what is due is done.
    pub(crate) fn advance(&mut self, span: TickDuration) {
        let end = self.api.now + span;
        loop {
            self.settle();
            let due = self.timers.iter().map(|(key, at)| (*at, key.clone())).min();
            let Some((at, key)) = due.filter(|(at, _)| *at <= end) else { break };
            self.api.now = self.api.now.max(at);
            self.timers.remove(&key);
            self.queue.insert(key);
        }
        self.api.now = end;
        self.settle();
    }

    /// Controllers and kubelet in turn until nothing changes.
    pub(crate) fn converge(&mut self) {
        for _ in 0..500 {
            self.advance(TickDuration::from_secs(1));
            let before = self.api.version;
            self.kubelet();
            self.settle();
            if self.api.version == before {
                return;
            }
        }
        panic!("it does not converge");
    }

    /// The view shows exactly what the server has.
    pub(crate) fn assert_view_is_true(&self) {
        for kind in self.kinds() {
            let of_view: BTreeMap<_, _> =
                self.view.of_kind(kind).map(|(id, object)| (id.clone(), object.clone())).collect();
            let of_api: BTreeMap<_, _> = self
                .api
                .objects
                .iter()
                .filter(|(id, _)| id.kind == kind)
                .map(|(id, object)| (id.clone(), object.clone()))
                .collect();
            assert_eq!(of_view, of_api);
        }
    }

    pub(crate) fn deployment(&self, name: &str) -> &k8s_openapi::api::apps::v1::Deployment {
        match &self.api.objects[&id(ResourceKind::Deployment, name)] {
            ViewObject::Deployment(deployment) => deployment,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn replica_sets(&self) -> Vec<&k8s_openapi::api::apps::v1::ReplicaSet> {
        self.api
            .objects
            .values()
            .filter_map(|object| match object {
                ViewObject::ReplicaSet(set) => Some(set.as_ref()),
                _ => None,
            })
            .collect()
    }

    /// Reasons and messages of the events, in order.
    pub(crate) fn said(&self) -> Vec<String> {
        self.notes.iter().map(|note| format!("{}: {}", note.reason, note.message)).collect()
    }
}

pub(crate) fn id(kind: ResourceKind, name: &str) -> ObjectId {
    let namespace = match kind.info().scope {
        ResourceScope::Namespaced => "shop",
        ResourceScope::Cluster => "",
    };
    ObjectId::new(kind, NamespacedName::new(namespace, name))
}
