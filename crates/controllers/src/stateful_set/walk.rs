//! One look at the pods of a StatefulSet in the order of their ordinals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use rekindle_types::reasons::event;
use rekindle_types::{Tick, TickDuration};
use serde_json::json;

use super::claims::{self, Claims, Wanted};
use super::rolling::{self, Strategy};
use super::{COMPONENT, deeds, identity, make};
use crate::avoidance;
use crate::events::{Note, Severity};
use crate::plan::{Part, Step, Write};
use crate::pods::{self, Availability};
use crate::{NamespacedName, Object, Plan, View, owners, refused, revisions};

/// Pods made, and pods deleted, at most in one go, as of ReplicaSets and Jobs.
const BURST: usize = 500;

/// How a pod that exists is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is being deleted.
    Terminating,
    /// It has ended for good.
    Ended,
    /// It is not ready.
    Unready,
    /// It is ready, and available from then on.
    Ready(Tick),
    /// It is available.
    Available,
}

/// How the pod is at `now`.
pub(super) fn standing(pod: &Pod, min_ready: TickDuration, now: Tick) -> Standing {
    if pods::is_terminating(pod) {
        return Standing::Terminating;
    }
    if pods::is_finished(pod) {
        return Standing::Ended;
    }
    match availability(pod, min_ready, now) {
        Availability::NotReady => Standing::Unready,
        Availability::From(at) => Standing::Ready(at),
        Availability::Available => Standing::Available,
    }
}

/// Whether it runs and is ready, and counts as available at `now`, be it that it is being deleted.
pub(super) fn availability(pod: &Pod, min_ready: TickDuration, now: Tick) -> Availability {
    match pods::phase(pod) {
        "Running" => pods::availability(pod, min_ready, now),
        _ => Availability::NotReady,
    }
}

/// `spec.minReadySeconds`.
pub(super) fn min_ready(set: &StatefulSet) -> TickDuration {
    TickDuration::of_field(set.spec.min_ready_seconds.unwrap_or(0))
}

/// Whether the walk goes on behind a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    On,
    Stop,
}

/// The look.
pub(super) struct Walk<'a> {
    view: &'a View,
    set: &'a Arc<StatefulSet>,
    current: &'a ControllerRevision,
    update: &'a ControllerRevision,
    pods: BTreeMap<i32, &'a Arc<Pod>>,
    strategy: Strategy,
    /// Whether a pod waits for the one before it.
    blocked: Pace,
    now: Tick,
    /// Who keeps claims that there are.
    keepers: Vec<Step>,
    /// Deletions, and labels that lack.
    mends: Vec<Step>,
    /// New claims.
    claims: Vec<Step>,
    /// New pods.
    creations: Vec<Step>,
    notes: Vec<Note>,
    again_at: Option<Tick>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        view: &'a View,
        set: &'a Arc<StatefulSet>,
        pods: &[&'a Arc<Pod>],
        current: &'a ControllerRevision,
        update: &'a ControllerRevision,
        now: Tick,
    ) -> Self {
        let by_ordinal =
            pods.iter().filter_map(|pod| Some((identity::ordinal_of(set, &pod.metadata)?, *pod)));
        let is_parallel = set.spec.pod_management_policy.as_deref() == Some("Parallel");
        Self {
            view,
            set,
            current,
            update,
            pods: by_ordinal.collect(),
            strategy: rolling::strategy(set),
            blocked: if is_parallel { Pace::On } else { Pace::Stop },
            now,
            keepers: Vec::new(),
            mends: Vec::new(),
            claims: Vec::new(),
            creations: Vec::new(),
            notes: Vec::new(),
            again_at: None,
        }
    }

    /// Up the ordinals, down what is beyond them, and then the update.
    pub(super) fn go(&mut self) {
        for ordinal in self.stations() {
            if self.at(ordinal) == Pace::Stop {
                return;
            }
        }
        if self.scale_down() == Pace::Stop {
            return;
        }
        self.update();
    }

    /// Where there is something to look at, in order: the ordinals that have a pod, and the first of those that lack one.
    fn stations(&self) -> BTreeSet<i32> {
        let wanted = identity::ordinals(self.set);
        let there = self.pods.range(wanted.clone()).map(|(ordinal, _)| *ordinal);
        let missing = wanted.filter(|ordinal| !self.pods.contains_key(ordinal)).take(BURST);
        there.chain(missing).collect()
    }

    /// What was found out: whose a claim is before the end of a pod, claims before their pods. What a quota or a webhook can
    /// refuse comes last, and begins with one.
    pub(super) fn into_plan(self, plan: &mut Plan) {
        plan.then_all(self.keepers);
        plan.then_all(self.mends.into_iter().take(BURST).collect());
        plan.then_ever_more(self.claims);
        plan.then_ever_more(self.creations);
        plan.notes.extend(self.notes);
        if let Some(at) = self.again_at {
            plan.look_again(at);
        }
    }

    fn at(&mut self, ordinal: i32) -> Pace {
        let Some(pod) = self.pods.get(&ordinal).copied() else {
            self.make(ordinal);
            return self.blocked;
        };
        let standing = standing(pod, min_ready(self.set), self.now);
        match standing {
            Standing::Terminating => return self.blocked,
            Standing::Ended => {
                self.recreate(pod);
                return self.blocked;
            }
            Standing::Unready if self.is_abandoned(pod) => {
                self.mends.push(deeds::deletion(self.set, pod));
                return self.blocked;
            }
            Standing::Ready(at) => {
                self.again_at = Some(self.again_at.map_or(at, |before| before.min(at)));
            }
            Standing::Unready | Standing::Available => {}
        }
        if pods::phase(pod) == "Pending"
            && let Claims::Missing(missing) =
                claims::needed(self.view, self.set, ordinal, Some(pod))
        {
            self.claims.extend(missing);
        }
        self.keepers.extend(claims::retained(self.view, self.set, pod, Wanted::Yes));
        self.mends.extend(labelled(pod));
        match standing {
            Standing::Available => Pace::On,
            Standing::Unready | Standing::Ready(_) | Standing::Terminating | Standing::Ended => {
                self.blocked
            }
        }
    }

    /// True when nothing is won by waiting for the pod: its revision is neither the one that was nor the one that is to be.
    fn is_abandoned(&self, pod: &Pod) -> bool {
        let revision = identity::revision_of(pod);
        !matches!(self.strategy, Strategy::OnDelete)
            && !revision.is_empty()
            && revision != revisions::name(self.current)
            && revision != revisions::name(self.update)
    }

    /// A pod that is not there, after its claims.
    fn make(&mut self, ordinal: i32) {
        let name = identity::pod_name(self.set, ordinal);
        let namespace = self.set.metadata.namespace.as_deref().unwrap_or_default();
        if self.view.pod(&NamespacedName::new(namespace, name.as_str())).is_some() {
            let set = identity::set_name(self.set);
            let text = format!(
                "create Pod {name} in StatefulSet {set} failed error: a pod of that name belongs to nobody or to another owner"
            );
            self.note(Severity::Warning, event::FAILED_CREATE, text);
            self.again_at = Some(self.now + TickDuration::from_secs(10));
            return;
        }
        let missing = match claims::needed(self.view, self.set, ordinal, None) {
            Claims::Missing(missing) => missing,
            Claims::Going => return, // the claim's end brings the next look
        };
        let (template, revision) = self.template(ordinal);
        let mut pod = make::pod(self.set, ordinal, template, revision);
        // a set that an operator of its own controls is known by that one, as its requests name it
        let workload = owners::root_uid(self.view, &Object::StatefulSet(Arc::clone(self.set)));
        let avoided = avoidance::of_workload(self.view, namespace, &workload, self.now);
        avoidance::exclude(&mut pod, &avoided);
        self.claims.extend(missing);
        self.creations.push(deeds::creation(self.set, pod));
    }

    /// What the pod of an ordinal is made from: before the partition the current revision, else the new one.
    fn template(&self, ordinal: i32) -> (PodTemplateSpec, &'a str) {
        let index = (identity::ordinals(self.set).start..ordinal).len();
        let new = || (self.set.spec.template.clone(), revisions::name(self.update));
        match self.strategy {
            Strategy::RollingUpdate { partition, .. } if index < partition => {
                let current = revisions::template(self.current);
                current.map_or_else(new, |template| (template, revisions::name(self.current)))
            }
            Strategy::RollingUpdate { .. } | Strategy::OnDelete => new(),
        }
    }

    fn recreate(&mut self, pod: &Arc<Pod>) {
        let held = refused::held_until(std::iter::once(pod)).filter(|end| *end > self.now);
        if let Some(end) = held {
            self.again_at = Some(self.again_at.map_or(end, |before| before.min(end)));
            return;
        }
        let set = NamespacedName::of(&self.set.metadata);
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let (reason, how) = match pods::phase(pod) {
            "Failed" => ("RecreatingFailedPod", "failed"),
            _ => ("RecreatingTerminatedPod", "terminated"),
        };
        let text = format!("StatefulSet {set} is recreating {how} Pod {name}");
        self.note(Severity::Warning, reason, text);
        self.mends.push(deeds::deletion(self.set, pod));
    }

    fn note(&mut self, severity: Severity, reason: &'static str, text: String) {
        let about = Object::StatefulSet(self.set.clone());
        self.notes.push(Note::new(&about, severity, reason, text, COMPONENT));
    }

    /// Deletes what is beyond the wanted ordinals, the highest first.
    fn scale_down(&mut self) -> Pace {
        let wanted = identity::ordinals(self.set);
        let condemned: Vec<&Arc<Pod>> = {
            let beyond = self.pods.iter().rev().filter(|(ordinal, _)| !wanted.contains(ordinal));
            beyond.map(|(_, pod)| *pod).collect()
        };
        for pod in condemned {
            if pods::is_terminating(pod) {
                match self.blocked {
                    Pace::Stop => return Pace::Stop,
                    Pace::On => continue,
                }
            }
            self.keepers.extend(claims::retained(self.view, self.set, pod, Wanted::ScaledAway));
            self.mends.push(deeds::deletion(self.set, pod));
            if self.blocked == Pace::Stop {
                return Pace::Stop;
            }
        }
        Pace::On
    }

    /// Deletes pods of another revision than the new one, the highest ordinals first: those that are not available, of which
    /// nothing is lost, and as many of the others as may be unavailable. Only under `Parallel` there are some of the former here.
    ///
    /// Source: upstream since kubernetes#137666. Before, a revision that never became available was never left.
    fn update(&mut self) {
        let (partition, max_unavailable) = match self.strategy {
            Strategy::OnDelete => return,
            Strategy::RollingUpdate { partition, max_unavailable } => (partition, max_unavailable),
        };
        if !self.mends.is_empty() || !self.creations.is_empty() {
            return; // what is made or deleted now counts first
        }
        let wanted = identity::ordinals(self.set);
        let Some(first) = wanted.clone().nth(partition) else { return };
        let min_ready = min_ready(self.set);
        let is_available = |pod: &Pod| standing(pod, min_ready, self.now) == Standing::Available;
        let members = self.pods.range(wanted.clone());
        let unavailable = wanted.len() - members.filter(|(_, pod)| is_available(pod)).count();
        let new = revisions::name(self.update);
        let outdated = self
            .pods
            .range(first..wanted.end)
            .rev()
            .map(|(_, pod)| *pod)
            .filter(|pod| identity::revision_of(pod) != new && !pods::is_terminating(pod));
        let (available, broken): (Vec<_>, Vec<_>) = outdated.partition(|pod| is_available(pod));
        let spare = max_unavailable.saturating_sub(unavailable);
        let doomed = broken.into_iter().chain(available.into_iter().take(spare));
        self.mends.extend(doomed.map(|pod| deeds::deletion(self.set, pod)));
    }
}

/// The labels that a pod lacks which was adopted.
fn labelled(pod: &Arc<Pod>) -> Option<Step> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let (_, index) = name.rsplit_once('-')?;
    let labels = pod.metadata.labels.as_ref();
    let has = |key: &str, value: &str| labels.and_then(|l| l.get(key)).is_some_and(|v| v == value);
    if has(identity::POD_NAME, name) && has(identity::POD_INDEX, index) {
        return None;
    }
    let patch = json!({"metadata": {
        "uid": pod.metadata.uid,
        "labels": {identity::POD_NAME: name, identity::POD_INDEX: index},
    }});
    let id = Object::Pod(pod.clone()).id();
    Some(Step::from(Write::Patch { id, part: Part::Whole, patch }))
}
