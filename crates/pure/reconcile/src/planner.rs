//! The planner: owns the view, feeds it what watches show, plans what is due, and settles how
//! writes went. It does no IO and keeps no time: the engine drives it with tasks and a clock, the
//! simulator in one thread and virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rekindle_controllers::events::{EventCorrelator, EventNote, EventWrite};
use rekindle_controllers::plan::{PlanContinuation, WriteRecency};
use rekindle_controllers::readings::{NamespaceReading, ReadingRequest};
use rekindle_controllers::{
    ClusterView, ControllerKey, ObjectChange, PlannedWrite, ResourceKind, Settlement, WritePlan,
    WriteResult, affected_by_first_list,
};
use rekindle_ladder::{LadderMode, LedgerRegister, RestartLimits};
use rekindle_types::Tick;

use crate::NodeLifecycleSettings;
use crate::custom_lists::CustomLists;
use crate::figures::{ChangeAge, LadderFigures, LedgerFollower};
use crate::ledgers;
use crate::planner_role::PlannerRole;
use crate::queue::WorkQueue;
use crate::reading_schedule::ReadingSchedule;
use crate::restart_context::RestartContext;
use crate::restart_queue::{PlanPermission, RestartQueue};
use crate::watched::{WatchUpdate, kinds};
use crate::work::{WorkItem, touched};

/// Controllers and ladder at work.
pub struct Planner {
    role: PlannerRole,
    limits: RestartLimits,
    view: ClusterView,
    register: LedgerRegister,
    queue: WorkQueue,
    restart_queue: RestartQueue,
    recorder: EventCorrelator,
    follower: LedgerFollower,
    /// Kinds whose first list has not been seen. Nothing is decided before: an empty view is not an
    /// empty world.
    unseen: BTreeSet<ResourceKind>,
    custom: CustomLists,
    /// Plans under way, by their work: each work has one at most.
    under_way: BTreeMap<WorkItem, PlanInProgress>,
    readings: ReadingSchedule,
    tasks: VecDeque<PlannerTask>,
}

/// What the driver is asked to do.
#[derive(Debug)]
pub enum PlannerTask {
    /// Carry out this write for this work, and tell [`Planner::settle`] how it went.
    Write(WorkItem, Box<PlannedWrite>),
    /// Write an event; nobody waits for it.
    Record(EventWrite),
    /// Read what the autoscalers of a namespace decide on, and call [`Planner::measured`].
    Read(ReadingRequest),
}

/// A plan that is being carried out.
#[derive(Default)]
struct PlanInProgress {
    batches: VecDeque<Vec<PlannedWrite>>,
    outstanding: usize,
    verdict: PlanContinuation,
    freshness: PlanFreshness,
}

/// Whether something changed for a work while its plan was under way.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum PlanFreshness {
    #[default]
    Fresh,
    Stale,
}

impl Planner {
    /// A planner that has seen nothing yet; `limits` hold over all ladders.
    pub fn new(limits: RestartLimits) -> Self {
        Self {
            role: PlannerRole::default(),
            limits,
            view: ClusterView::new(),
            register: LedgerRegister::default(),
            queue: WorkQueue::default(),
            restart_queue: RestartQueue::default(),
            recorder: EventCorrelator::new(),
            follower: LedgerFollower::new(Arc::default()),
            unseen: kinds().collect(),
            custom: CustomLists::default(),
            under_way: BTreeMap::new(),
            readings: ReadingSchedule::default(),
            tasks: VecDeque::new(),
        }
    }

    /// When nodes count as silent, and how fast their pods have to go; before anything is seen.
    pub fn set_node_settings(&mut self, settings: NodeLifecycleSettings) {
        self.view.set_node_settings(settings);
    }

    /// The same planner in this role; before anything is seen.
    pub fn with_role(mut self, role: PlannerRole) -> Self {
        self.unseen = role.kinds().into_iter().collect();
        self.role = role;
        self
    }

    /// The same planner, which counts here what ladders do.
    pub fn with_figures(mut self, figures: Arc<LadderFigures>) -> Self {
        self.follower = LedgerFollower::new(figures);
        self
    }

    /// What was observed.
    pub fn view(&self) -> &ClusterView {
        &self.view
    }

    /// When something becomes due that is not due yet.
    pub fn next_due(&self) -> Option<Tick> {
        let reading = self.readings.next_due().filter(|_| self.unseen.is_empty());
        [self.queue.next_due(), reading].into_iter().flatten().min()
    }

    /// The next thing to do, oldest first; several may be under way at a time.
    pub fn poll_task(&mut self) -> Option<PlannerTask> {
        self.tasks.pop_front()
    }

    /// Takes in what a watch shows.
    pub fn see(&mut self, now: Tick, seen: WatchUpdate) {
        self.view.set_time(now);
        let mut age = ChangeAge::New;
        let mut lists_changed = false;
        let mut first_listed = None;
        let changes = match seen {
            WatchUpdate::List(kind, objects) => {
                if self.unseen.remove(&kind) {
                    age = ChangeAge::FromBefore;
                }
                lists_changed = self.custom.listed(kind);
                first_listed = lists_changed.then_some(kind);
                let reset = self.view.reset(kind, objects);
                let doubts =
                    reset.doubtful.into_iter().map(ControllerKey::Doubt).map(WorkItem::Controller);
                doubts.for_each(|doubt| self.enqueue(doubt));
                reset.changes
            }
            WatchUpdate::Applied(object) => self.view.apply(object).into_iter().collect(),
            WatchUpdate::Deleted(id, uid) => self.view.delete(&id, &uid).into_iter().collect(),
        };
        if changes.iter().any(|change| change.id.kind == ResourceKind::CustomResourceDefinition) {
            self.custom.described(self.view.custom_kinds().collect());
            lists_changed = true;
        }
        if lists_changed {
            self.view.set_unlisted(self.custom.unlisted().collect());
        }
        self.follow(now, changes, age);
        if let Some(kind) = first_listed {
            let keys = affected_by_first_list(&self.view, kind);
            keys.into_iter().for_each(|key| self.enqueue(WorkItem::Controller(key)));
        }
        if lists_changed {
            self.custom.take_ready(&self.view).into_iter().for_each(|work| self.enqueue(work));
        }
    }

    /// The kinds of definitions that are to be listed; see [`WatchUpdate::List`].
    pub fn unlisted_kinds(&self) -> impl Iterator<Item = ResourceKind> {
        self.custom.unlisted()
    }

    /// What the autoscalers of a namespace decide on, as it was read.
    pub fn measured(&mut self, now: Tick, namespace: &str, reading: NamespaceReading) {
        self.view.set_time(now);
        if !self.readings.answered(namespace) {
            return;
        }
        let scaled: Vec<ControllerKey> = self.view.measured(namespace, reading).collect();
        scaled.into_iter().map(WorkItem::Controller).for_each(|work| self.enqueue(work));
    }

    /// Queues what changes touch.
    fn follow(&mut self, now: Tick, changes: Vec<ObjectChange>, age: ChangeAge) {
        for change in changes {
            self.follower.follow(&change, age, now);
            if let Some(namespace) = self.readings.follow(&change, now) {
                self.view.forget_reading(&namespace);
            }
            ledgers::register(&mut self.register, &change);
            for work in touched(&self.role, &self.view, &self.register, &change) {
                self.enqueue(work);
            }
        }
    }

    fn enqueue(&mut self, work: WorkItem) {
        if !self.role.runs(&work) {
            return;
        }
        match self.under_way.get_mut(&work) {
            Some(under_way) => under_way.freshness = PlanFreshness::Stale,
            None => self.queue.add(work),
        }
    }

    /// Plans everything that is due and begins to carry it out; nothing before every kind was seen.
    pub fn begin_due(&mut self, now: Tick) {
        if !self.unseen.is_empty() {
            return;
        }
        self.view.set_time(now);
        let due = self.readings.begin_due(now).into_iter();
        let requests = due.map(|namespace| self.view.reading_request(&namespace));
        self.tasks.extend(requests.map(PlannerTask::Read));
        loop {
            let due = self.queue.take(now);
            if due.is_empty() {
                return;
            }
            let mut due: Vec<WorkItem> = due.into_iter().collect();
            due.sort_by_cached_key(|work| work.turn(&self.view));
            for work in due {
                match self.under_way.get_mut(&work) {
                    // its time came while it writes: what it writes would be decided on twice
                    Some(under_way) => under_way.freshness = PlanFreshness::Stale,
                    None => self.begin(work, now),
                }
            }
        }
    }

    fn begin(&mut self, work: WorkItem, now: Tick) {
        let Some(work) = self.custom.ready(&self.view, work) else { return };
        let context = RestartContext {
            view: &self.view,
            register: &self.register,
            limits: &self.limits,
            granted: &self.restart_queue.granted(),
            role: &self.role,
        };
        let plan = work.plan(&context, now);
        if self.restart_queue.ask(&work, &plan, now) == PlanPermission::Waits {
            return;
        }
        let WritePlan { batches, notes, again_at, unfit, paused, recommendation, counted_quota } =
            plan;
        unfit.into_iter().for_each(|attempt| self.view.remember(attempt));
        self.view.creation_pauses_told(&paused);
        recommendation.iter().for_each(|made| self.view.recommend(made));
        counted_quota.iter().for_each(|quota| self.view.quota_counted(quota));
        self.record(notes, now);
        if let Some(at) = again_at {
            // never in a circle without time passing
            let at = at.max(now + rekindle_types::TickDuration::from_millis(1));
            self.queue.add_at(work.clone(), at);
        }
        let batches: VecDeque<Vec<PlannedWrite>> =
            batches.into_iter().filter(|batch| !batch.is_empty()).collect();
        if batches.is_empty() {
            self.queue.forgive(&work);
            self.end_turn(&work);
            return;
        }
        self.under_way
            .insert(work.clone(), PlanInProgress { batches, ..PlanInProgress::default() });
        self.next_batch(now, &work);
    }

    /// Begins the next batch of a plan, or ends the plan.
    fn next_batch(&mut self, now: Tick, work: &WorkItem) {
        let Some(under_way) = self.under_way.get_mut(work) else { return };
        let next = match under_way.verdict {
            PlanContinuation::Continue => under_way.batches.pop_front(),
            PlanContinuation::Retry | PlanContinuation::Stop => None,
        };
        let Some(batch) = next else { return self.end(now, work) };
        under_way.outstanding = batch.len();
        for step in batch {
            let changes = self.view.begin(&step);
            self.follow(now, changes, ChangeAge::New);
            self.tasks.push_back(PlannerTask::Write(work.clone(), Box::new(step)));
        }
    }

    /// A write went so.
    pub fn settle(
        &mut self,
        now: Tick,
        work: &WorkItem,
        step: &PlannedWrite,
        outcome: WriteResult,
    ) {
        let Settlement { changes, notes, verdict, place } =
            self.view.settle(&work.object(), step, outcome);
        self.record(notes, now);
        self.follow(now, changes, ChangeAge::New);
        let Some(under_way) = self.under_way.get_mut(work) else { return };
        under_way.outstanding -= 1;
        match place {
            WriteRecency::Newest => {}
            WriteRecency::Overtaken => under_way.freshness = PlanFreshness::Stale,
        }
        under_way.verdict = worse(under_way.verdict, verdict);
        if under_way.outstanding == 0 {
            self.next_batch(now, work);
        }
    }

    fn end(&mut self, now: Tick, work: &WorkItem) {
        let Some(under_way) = self.under_way.remove(work) else { return };
        match under_way.verdict {
            PlanContinuation::Continue | PlanContinuation::Stop => {
                self.queue.forgive(work);
                self.end_turn(work);
            }
            // it keeps its turn: what it wrote may have been done, and not be seen yet
            PlanContinuation::Retry => self.queue.retry(work.clone(), now),
        }
        if under_way.freshness == PlanFreshness::Stale
            && under_way.verdict != PlanContinuation::Retry
        {
            self.queue.add(work.clone());
        }
    }

    fn end_turn(&mut self, work: &WorkItem) {
        for next in self.restart_queue.over(work) {
            self.enqueue(next);
        }
    }

    /// Writes events, unless the operator only observes: ledgers say what ladders would do, and it
    /// has no right to more.
    fn record(&mut self, notes: Vec<EventNote>, now: Tick) {
        match self.role.mode() {
            LadderMode::Act => {}
            LadderMode::Observe => return,
        }
        for note in notes {
            let event = self.recorder.record(note, now);
            self.tasks.extend(event.map(PlannerTask::Record));
        }
    }
}

/// The one of two verdicts that lets less go on.
fn worse(one: PlanContinuation, other: PlanContinuation) -> PlanContinuation {
    match (one, other) {
        (PlanContinuation::Stop, _) | (_, PlanContinuation::Stop) => PlanContinuation::Stop,
        (PlanContinuation::Retry, _) | (_, PlanContinuation::Retry) => PlanContinuation::Retry,
        (PlanContinuation::Continue, PlanContinuation::Continue) => PlanContinuation::Continue,
    }
}

#[cfg(test)]
mod tests {
    use rekindle_controllers::plan::DependentPolicy;
    use rekindle_controllers::readings::UsageReport;
    use rekindle_controllers::{NamespacedName, ObjectId, ViewObject, WriteOperation};
    use rekindle_types::TickDuration;
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::object_from_json;

    const NOW: Tick = Tick::from_secs(1_800_000_000);

    /// A pod that is being deleted in the foreground.
    fn pod(version: u32, finalizers: Value) -> ViewObject {
        named_pod("web", version, finalizers)
    }

    fn named_pod(name: &str, version: u32, finalizers: Value) -> ViewObject {
        let pod = json!({"metadata": {
            "name": name, "namespace": "shop", "uid": format!("u-{name}"), "resourceVersion": version.to_string(),
            "deletionTimestamp": "2026-11-21T11:00:00Z", "deletionGracePeriodSeconds": 1,
            "finalizers": finalizers,
        }});
        object_from_json(ResourceKind::Pod, pod.to_string().as_bytes()).unwrap()
    }

    /// The collector's next write, if there is one.
    fn collection(planner: &mut Planner) -> Option<(WorkItem, PlannedWrite)> {
        planner.begin_due(NOW);
        while let Some(task) = planner.poll_task() {
            if let PlannerTask::Write(
                work @ WorkItem::Controller(ControllerKey::Garbage(_)),
                step,
            ) = task
            {
                return Some((work, *step));
            }
        }
        None
    }

    #[test]
    fn what_pods_use_is_read_while_an_autoscaler_is_there_and_it_looks_at_each_reading() {
        let autoscaler = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "5"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
        });
        let kind = ResourceKind::HorizontalPodAutoscaler;
        let autoscaler = object_from_json(kind, autoscaler.to_string().as_bytes()).unwrap();
        let mut planner = Planner::new(RestartLimits::default());
        planner.see(NOW, WatchUpdate::List(kind, vec![autoscaler.clone()]));
        assert_eq!(planner.next_due(), None, "nothing is asked before everything is seen");
        kinds()
            .filter(|other| *other != kind)
            .for_each(|other| planner.see(NOW, WatchUpdate::List(other, Vec::new())));
        planner.begin_due(NOW);
        let task = planner.poll_task();
        assert!(matches!(&task, Some(PlannerTask::Read(of)) if of.namespace == "shop"), "{task:?}");
        assert!(planner.poll_task().is_none(), "it waits for the first reading");
        planner.measured(NOW, "shop", Ok(UsageReport::default()).into());
        assert_eq!(planner.next_due(), Some(NOW + TickDuration::from_secs(15)));
        planner.begin_due(NOW);
        let status = std::iter::from_fn(|| planner.poll_task()).find_map(|task| match task {
            PlannerTask::Write(_, step) => Some(step.write),
            PlannerTask::Record(_) | PlannerTask::Read(_) => None,
        });
        assert!(matches!(status, Some(WriteOperation::UpdateStatus(_))), "{status:?}");
        planner.see(NOW, WatchUpdate::Deleted(autoscaler.id(), "u1".to_owned()));
        planner.begin_due(NOW + TickDuration::from_secs(60));
        assert!(planner.poll_task().is_none());
    }

    /// A definition of a kind, an object of that kind, and what is owned by it.
    fn kites() -> [ViewObject; 3] {
        let definition = json!({
            "metadata": {"name": "kites.example.org", "uid": "d1", "resourceVersion": "1"},
            "spec": {
                "group": "example.org", "scope": "Namespaced",
                "names": {"plural": "kites", "kind": "Kite"},
                "versions": [{"name": "v1", "served": true, "storage": true}],
            },
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        });
        let kind = ResourceKind::CustomResourceDefinition;
        let definition = object_from_json(kind, definition.to_string().as_bytes()).unwrap();
        let ViewObject::CustomResourceDefinition(held) = &definition else { panic!() };
        let kind = ResourceKind::Custom(held.kind.unwrap());
        let named = |kind, name: &str, owner: Value| {
            let object = json!({"metadata": {
                "name": name, "namespace": "shop", "uid": name, "resourceVersion": "2",
                "ownerReferences": owner,
            }});
            object_from_json(kind, object.to_string().as_bytes()).unwrap()
        };
        let owner = json!([
            {"apiVersion": "example.org/v1", "kind": "Kite", "name": "red", "uid": "red"},
        ]);
        let kite = named(kind, "red", json!([]));
        [definition, kite, named(ResourceKind::ConfigMap, "tail", owner)]
    }

    #[test]
    fn the_owner_of_a_users_kind_is_not_missed_before_the_first_list_of_its_kind() {
        let [definition, kite, tail] = kites();
        let kind = kite.id().kind;
        for (listed, is_asked_for) in [(vec![kite], false), (Vec::new(), true)] {
            let mut planner = Planner::new(RestartLimits::default());
            kinds().for_each(|kind| planner.see(NOW, WatchUpdate::List(kind, Vec::new())));
            planner.see(NOW, WatchUpdate::Applied(definition.clone()));
            planner.see(NOW, WatchUpdate::Applied(tail.clone()));
            assert!(collection(&mut planner).is_none(), "nothing is known of its owner");
            planner.see(NOW, WatchUpdate::List(kind, listed));
            let next = collection(&mut planner).map(|(_, step)| step.write);
            let is_asked = matches!(next, Some(WriteOperation::CheckAbsent { .. }));
            assert_eq!(is_asked, is_asked_for, "{next:?}");
        }
    }

    #[test]
    fn an_owner_waits_for_its_dependents_of_a_users_kind_before_their_first_list() {
        let [definition, kite, _] = kites();
        let kind = kite.id().kind;
        let mut planner = Planner::new(RestartLimits::default());
        kinds().for_each(|kind| planner.see(NOW, WatchUpdate::List(kind, Vec::new())));
        planner.see(NOW, WatchUpdate::Applied(definition.clone()));
        planner.see(NOW, WatchUpdate::Applied(pod(5, json!(["foregroundDeletion"]))));
        assert!(collection(&mut planner).is_none(), "a kite may be its dependent");
        // a definition that goes is waited for no longer
        planner.see(NOW, WatchUpdate::Deleted(definition.id(), "d1".to_owned()));
        assert!(collection(&mut planner).is_some());
        // the last list of the watch that ends is no first list of the one that begins
        planner.see(NOW, WatchUpdate::List(kind, Vec::new()));
        planner.see(NOW, WatchUpdate::Applied(definition));
        planner.see(NOW, WatchUpdate::Applied(named_pod("second", 6, json!(["orphan"]))));
        assert!(collection(&mut planner).is_none());
    }

    #[test]
    fn a_dependent_of_an_owner_that_waits_is_deleted_after_the_first_list_of_its_own() {
        let [definition, kite, _] = kites();
        let owned = |id: &ObjectId, api: &str, kind: &str, name: &str, uid: &str| {
            let object = json!({"metadata": {
                "name": id.name.name, "namespace": "shop", "uid": id.name.name, "resourceVersion": "2",
                "ownerReferences": [{
                    "apiVersion": api, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true,
                }],
            }});
            object_from_json(id.kind, object.to_string().as_bytes()).unwrap()
        };
        let tail = ObjectId::new(ResourceKind::ConfigMap, NamespacedName::new("shop", "tail"));
        let middle = owned(&tail, "v1", "Pod", "web", "u-web");
        let below = owned(&kite.id(), "v1", "ConfigMap", "tail", "tail");
        let mut planner = Planner::new(RestartLimits::default());
        kinds().for_each(|kind| planner.see(NOW, WatchUpdate::List(kind, Vec::new())));
        planner.see(NOW, WatchUpdate::Applied(definition));
        planner.see(NOW, WatchUpdate::Applied(pod(5, json!(["foregroundDeletion"]))));
        planner.see(NOW, WatchUpdate::Applied(middle));
        assert!(collection(&mut planner).is_none(), "a kite may be a dependent of the dependent");
        planner.see(NOW, WatchUpdate::List(below.id().kind, vec![below]));
        let next = collection(&mut planner).map(|(_, step)| step.write);
        let Some(WriteOperation::Delete(delete)) = next else { panic!("{next:?}") };
        assert_eq!((delete.id, delete.propagation), (tail, DependentPolicy::Foreground));
    }

    #[test]
    fn a_quota_keeps_its_count_of_a_users_kind_until_the_first_list_of_it() {
        let [definition, kite, _] = kites();
        let quota = json!({
            "metadata": {"name": "budget", "namespace": "shop", "uid": "q", "resourceVersion": "3"},
            "spec": {"hard": {"count/kites.example.org": "9"}},
            "status": {"hard": {"count/kites.example.org": "9"}, "used": {"count/kites.example.org": "4"}},
        });
        let kind = ResourceKind::ResourceQuota;
        let quota = object_from_json(kind, quota.to_string().as_bytes()).unwrap();
        let mut planner = Planner::new(RestartLimits::default());
        kinds().for_each(|kind| planner.see(NOW, WatchUpdate::List(kind, Vec::new())));
        planner.see(NOW, WatchUpdate::Applied(definition));
        planner.see(NOW, WatchUpdate::Applied(quota));
        let later = NOW + TickDuration::from_secs(5);
        planner.begin_due(later);
        assert!(planner.poll_task().is_none(), "nothing is known of kites");
        planner.see(later, WatchUpdate::List(kite.id().kind, Vec::new()));
        planner.begin_due(later);
        let Some(PlannerTask::Write(_, step)) = planner.poll_task() else { panic!() };
        let WriteOperation::UpdateStatus(ViewObject::ResourceQuota(counted)) = &step.write else {
            panic!("{step:?}")
        };
        let used = counted.status.as_ref().unwrap().used.as_ref().unwrap();
        assert_eq!(used["count/kites.example.org"].0, "0");
    }

    #[test]
    fn what_was_undone_before_its_answer_came_is_done_again() {
        let mut planner = Planner::new(RestartLimits::default());
        kinds().for_each(|kind| planner.see(NOW, WatchUpdate::List(kind, Vec::new())));
        let held = || json!(["foregroundDeletion"]);
        planner.see(NOW, WatchUpdate::Applied(pod(5, held())));
        let (work, step) = collection(&mut planner).unwrap();
        // somebody puts the finalizer back, and that is seen before the answer of version 6
        planner.see(NOW, WatchUpdate::Applied(pod(7, held())));
        planner.settle(NOW, &work, &step, WriteResult::Stored(pod(6, json!([]))));
        let (work, step) = collection(&mut planner).unwrap();
        let WriteOperation::Patch { patch, .. } = &step.write else { panic!("{step:?}") };
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        planner.settle(NOW, &work, &step, WriteResult::Stored(pod(8, json!([]))));
        assert!(collection(&mut planner).is_none());
    }
}
