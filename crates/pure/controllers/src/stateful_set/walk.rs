//! One look at the pods of a StatefulSet in the order of their ordinals.

use std::ops::Range;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use rekindle_types::held::HeldPod;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick, TickDuration};
use serde_json::json;

use super::claims::{self, OrdinalClaims, OrdinalNeed};
use super::member::{MemberState, StatefulMember};
use super::rolling::{self, StatefulSetStrategy};
use super::{COMPONENT, identity, make, writes};
use crate::avoidance;
use crate::creation_brake::{self, CreationPause, CreationSeries};
use crate::events::{EventNote, EventSubject};
use crate::plan::{PatchTarget, PlannedWrite, WriteOperation};
use crate::{ClusterView, NamespacedName, ViewObject, WritePlan, owners, pods, revisions};

/// Pods made, and pods deleted, at most in one go, as of ReplicaSets and Jobs.
const BURST: usize = 500;

/// Whether the walk goes on behind a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkControl {
    On,
    Stop,
}

/// Where there is something to look at.
#[derive(Clone, Copy)]
enum OrdinalStation<'a> {
    There(&'a StatefulMember<'a>),
    /// An ordinal that lacks its pod.
    Missing(i32),
}

/// The look.
pub(super) struct StatefulSetSync<'a> {
    view: &'a ClusterView,
    set: &'a Arc<StatefulSet>,
    current: &'a ControllerRevision,
    update: &'a ControllerRevision,
    /// By their ordinals.
    members: &'a [StatefulMember<'a>],
    strategy: StatefulSetStrategy,
    /// Whether each pod has claims of its own.
    has_claims: bool,
    /// Whether a pod waits for the one before it.
    blocked: WalkControl,
    now: Tick,
    /// Who keeps claims that there are.
    keepers: Vec<PlannedWrite>,
    /// Deletions, and labels that lack.
    mends: Vec<PlannedWrite>,
    /// New claims.
    claims: Vec<PlannedWrite>,
    /// New pods.
    creations: Vec<PlannedWrite>,
    notes: Vec<EventNote>,
    again_at: Option<Tick>,
    /// Pods that have ended and stay where they are for a while.
    waiting: Vec<(CreationSeries, CreationPause)>,
}

impl<'a> StatefulSetSync<'a> {
    pub(super) fn new(
        view: &'a ClusterView,
        set: &'a Arc<StatefulSet>,
        members: &'a [StatefulMember<'a>],
        (current, update): (&'a ControllerRevision, &'a ControllerRevision),
        now: Tick,
    ) -> Self {
        let is_parallel = set.spec.pod_management_policy.as_deref() == Some("Parallel");
        Self {
            view,
            set,
            current,
            update,
            members,
            strategy: rolling::strategy(set),
            has_claims: claims::templates(set).next().is_some(),
            blocked: if is_parallel { WalkControl::On } else { WalkControl::Stop },
            now,
            keepers: Vec::new(),
            mends: Vec::new(),
            claims: Vec::new(),
            creations: Vec::new(),
            notes: Vec::new(),
            again_at: None,
            waiting: Vec::new(),
        }
    }

    /// Up the ordinals, down what is beyond them, and then the update.
    pub(super) fn go(&mut self) {
        for station in self.stations() {
            let pace = match station {
                OrdinalStation::There(member) => self.at(member),
                OrdinalStation::Missing(ordinal) => {
                    self.make(ordinal);
                    self.blocked
                }
            };
            if pace == WalkControl::Stop {
                return;
            }
        }
        if self.scale_down() == WalkControl::Stop {
            return;
        }
        self.update();
    }

    /// In the order of the ordinals: those that have a pod, and the first of those that lack one.
    fn stations(&self) -> Vec<OrdinalStation<'a>> {
        let wanted = identity::ordinals(self.set);
        let mut stations = Vec::new();
        let (mut next, mut room) = (wanted.start, BURST);
        for member in self.members_of(&wanted) {
            let gap = (next..member.ordinal).take(room);
            room -= gap.len();
            stations.extend(gap.map(OrdinalStation::Missing));
            stations.push(OrdinalStation::There(member));
            next = member.ordinal.saturating_add(1);
        }
        stations.extend((next..wanted.end).take(room).map(OrdinalStation::Missing));
        stations
    }

    /// The pods of some ordinals.
    fn members_of(&self, ordinals: &Range<i32>) -> &'a [StatefulMember<'a>] {
        let from = |ordinal: i32| self.members.partition_point(|member| member.ordinal < ordinal);
        &self.members[from(ordinals.start)..from(ordinals.end)]
    }

    /// What was found out: whose a claim is before the end of a pod, claims before their pods. What
    /// a quota or a webhook can refuse comes last, and begins with one.
    pub(super) fn into_plan(self, plan: &mut WritePlan) {
        plan.then_all(self.keepers);
        plan.then_all(self.mends.into_iter().take(BURST).collect());
        plan.then_ever_more(self.claims);
        plan.then_ever_more(self.creations);
        plan.notes.extend(self.notes);
        if let Some(at) = self.again_at {
            plan.look_again(at);
        }
        for (series, pause) in self.waiting {
            let about = EventSubject::from_object(&ViewObject::StatefulSet(self.set.clone()));
            creation_brake::announce(series, pause, Some(about), COMPONENT, plan, self.now);
        }
    }

    fn at(&mut self, member: &StatefulMember<'_>) -> WalkControl {
        let StatefulMember { ordinal, pod, standing, .. } = *member;
        match standing {
            MemberState::Terminating => return self.blocked,
            MemberState::Ended => {
                self.recreate(pod);
                return self.blocked;
            }
            MemberState::Unready if self.is_abandoned(member) => {
                self.mends.push(writes::deletion(self.set, pod));
                return self.blocked;
            }
            MemberState::Ready(at) => {
                self.again_at = Some(self.again_at.map_or(at, |before| before.min(at)));
            }
            MemberState::Unready | MemberState::Available => {}
        }
        if pods::phase(pod) == "Pending"
            && let OrdinalClaims::Missing(missing) =
                claims::needed(self.view, self.set, ordinal, Some(pod))
        {
            self.claims.extend(missing);
        }
        if self.has_claims {
            self.keepers.extend(claims::retained(self.view, self.set, pod, OrdinalNeed::Wanted));
        }
        if !member.is_labelled {
            self.mends.push(labelled(pod, ordinal));
        }
        match standing {
            MemberState::Available => WalkControl::On,
            MemberState::Unready
            | MemberState::Ready(_)
            | MemberState::Terminating
            | MemberState::Ended => self.blocked,
        }
    }

    /// True when nothing is won by waiting for the pod: its revision is neither the one that was
    /// nor the one that is to be.
    fn is_abandoned(&self, member: &StatefulMember<'_>) -> bool {
        !matches!(self.strategy, StatefulSetStrategy::OnDelete)
            && !identity::revision_of(member.pod).is_empty()
            && !member.is_current
            && !member.is_new
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
            self.note(EventSeverity::Warning, event::FAILED_CREATE, text);
            self.again_at = Some(self.now + TickDuration::from_secs(10));
            return;
        }
        let missing = match claims::needed(self.view, self.set, ordinal, None) {
            OrdinalClaims::Missing(missing) => missing,
            OrdinalClaims::Going => return, // the claim's end brings the next look
        };
        let (template, revision) = self.template(ordinal);
        let mut pod = make::pod(self.set, ordinal, template, revision);
        // a set that an operator of its own controls is known by that one, as its requests name it
        let workload = owners::root_uid(self.view, &ViewObject::StatefulSet(Arc::clone(self.set)));
        let avoided =
            avoidance::nodes_avoided_by_workload(self.view, namespace, &workload, self.now);
        avoidance::exclude(&mut pod, &avoided);
        self.claims.extend(missing);
        self.creations.push(writes::creation(self.set, pod));
    }

    /// What the pod of an ordinal is made from: before the partition the current revision, else the
    /// new one.
    fn template(&self, ordinal: i32) -> (PodTemplateSpec, &'a str) {
        let index = (identity::ordinals(self.set).start..ordinal).len();
        let new = || (self.set.spec.template.clone(), revisions::name(self.update));
        match self.strategy {
            StatefulSetStrategy::RollingUpdate { partition, .. } if index < partition => {
                let current = revisions::template(self.current);
                current.map_or_else(new, |template| (template, revisions::name(self.current)))
            }
            StatefulSetStrategy::RollingUpdate { .. } | StatefulSetStrategy::OnDelete => new(),
        }
    }

    fn recreate(&mut self, pod: &Arc<HeldPod>) {
        let object = ViewObject::Pod(pod.clone());
        if let Some(pause) = creation_brake::pause_for(self.view, &object, self.now) {
            self.waiting.push((CreationSeries::of_object(&object), pause));
            return;
        }
        let set = NamespacedName::from_meta(&self.set.metadata);
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let (reason, how) = match pods::phase(pod) {
            "Failed" => ("RecreatingFailedPod", "failed"),
            _ => ("RecreatingTerminatedPod", "terminated"),
        };
        let text = format!("StatefulSet {set} is recreating {how} Pod {name}");
        self.note(EventSeverity::Warning, reason, text);
        self.mends.push(writes::deletion(self.set, pod));
    }

    fn note(&mut self, severity: EventSeverity, reason: &'static str, text: String) {
        let about = ViewObject::StatefulSet(self.set.clone());
        self.notes.push(EventNote::new(&about, severity, reason, text, COMPONENT));
    }

    /// Deletes what is beyond the wanted ordinals, the highest first.
    fn scale_down(&mut self) -> WalkControl {
        let wanted = identity::ordinals(self.set);
        let members = self.members.iter().rev();
        for &StatefulMember { pod, standing, .. } in
            members.filter(|m| !wanted.contains(&m.ordinal))
        {
            if standing == MemberState::Terminating {
                match self.blocked {
                    WalkControl::Stop => return WalkControl::Stop,
                    WalkControl::On => continue,
                }
            }
            self.keepers.extend(claims::retained(
                self.view,
                self.set,
                pod,
                OrdinalNeed::ScaledAway,
            ));
            self.mends.push(writes::deletion(self.set, pod));
            if self.blocked == WalkControl::Stop {
                return WalkControl::Stop;
            }
        }
        WalkControl::On
    }

    /// Deletes pods of another revision than the new one, the highest ordinals first: those that
    /// are not available, of which nothing is lost, and as many of the others as may be
    /// unavailable. Only under `Parallel` there are some of the former here.
    ///
    /// Source: upstream since kubernetes#137666. Before, a revision that never became available was
    /// never left.
    fn update(&mut self) {
        let (partition, max_unavailable) = match self.strategy {
            StatefulSetStrategy::OnDelete => return,
            StatefulSetStrategy::RollingUpdate { partition, max_unavailable } => {
                (partition, max_unavailable)
            }
        };
        if !self.mends.is_empty() || !self.creations.is_empty() {
            return; // what is made or deleted now counts first
        }
        let wanted = identity::ordinals(self.set);
        let Some(first) = wanted.clone().nth(partition) else { return };
        let is_available = |member: &&StatefulMember<'_>| member.standing == MemberState::Available;
        let available = self.members_of(&wanted).iter().filter(is_available).count();
        let unavailable = wanted.len() - available;
        let later = self.members_of(&(first..wanted.end)).iter().rev();
        let outdated = later.filter(|m| !m.is_new && m.standing != MemberState::Terminating);
        let (available, broken): (Vec<&StatefulMember<'_>>, Vec<_>) =
            outdated.partition(is_available);
        let spare = max_unavailable.saturating_sub(unavailable);
        let doomed = broken.into_iter().chain(available.into_iter().take(spare));
        self.mends.extend(doomed.map(|member| writes::deletion(self.set, member.pod)));
    }
}

/// The labels that a pod lacks which was adopted.
fn labelled(pod: &Arc<HeldPod>, ordinal: i32) -> PlannedWrite {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let patch = json!({"metadata": {
        "uid": pod.metadata.uid,
        "labels": {identity::POD_NAME: name, identity::POD_INDEX: ordinal.to_string()},
    }});
    let id = ViewObject::Pod(pod.clone()).id();
    PlannedWrite::from(WriteOperation::Patch { id, part: PatchTarget::Whole, patch })
}
