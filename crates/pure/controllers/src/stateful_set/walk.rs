//! One look at the pods of a StatefulSet in the order of their ordinals.

use std::ops::Range;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use rekindle_types::held::Pod;
use rekindle_types::reasons::event;
use rekindle_types::{Tick, TickDuration};
use serde_json::json;

use super::claims::{self, Claims, Wanted};
use super::member::{Member, Standing};
use super::rolling::{self, Strategy};
use super::{COMPONENT, identity, make, writes};
use crate::avoidance;
use crate::creation_brake::{self, CreationPause, CreationSeries};
use crate::events::{About, Note, Severity};
use crate::plan::{Part, Step, Write};
use crate::{NamespacedName, Object, Plan, View, owners, pods, revisions};

/// Pods made, and pods deleted, at most in one go, as of ReplicaSets and Jobs.
const BURST: usize = 500;

/// Whether the walk goes on behind a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    On,
    Stop,
}

/// Where there is something to look at.
#[derive(Clone, Copy)]
enum Station<'a> {
    There(&'a Member<'a>),
    /// An ordinal that lacks its pod.
    Missing(i32),
}

/// The look.
pub(super) struct Walk<'a> {
    view: &'a View,
    set: &'a Arc<StatefulSet>,
    current: &'a ControllerRevision,
    update: &'a ControllerRevision,
    /// By their ordinals.
    members: &'a [Member<'a>],
    strategy: Strategy,
    /// Whether each pod has claims of its own.
    has_claims: bool,
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
    /// Pods that have ended and stay where they are for a while.
    waiting: Vec<(CreationSeries, CreationPause)>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        view: &'a View,
        set: &'a Arc<StatefulSet>,
        members: &'a [Member<'a>],
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
            blocked: if is_parallel { Pace::On } else { Pace::Stop },
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
                Station::There(member) => self.at(member),
                Station::Missing(ordinal) => {
                    self.make(ordinal);
                    self.blocked
                }
            };
            if pace == Pace::Stop {
                return;
            }
        }
        if self.scale_down() == Pace::Stop {
            return;
        }
        self.update();
    }

    /// In the order of the ordinals: those that have a pod, and the first of those that lack one.
    fn stations(&self) -> Vec<Station<'a>> {
        let wanted = identity::ordinals(self.set);
        let mut stations = Vec::new();
        let (mut next, mut room) = (wanted.start, BURST);
        for member in self.members_of(&wanted) {
            let gap = (next..member.ordinal).take(room);
            room -= gap.len();
            stations.extend(gap.map(Station::Missing));
            stations.push(Station::There(member));
            next = member.ordinal.saturating_add(1);
        }
        stations.extend((next..wanted.end).take(room).map(Station::Missing));
        stations
    }

    /// The pods of some ordinals.
    fn members_of(&self, ordinals: &Range<i32>) -> &'a [Member<'a>] {
        let from = |ordinal: i32| self.members.partition_point(|member| member.ordinal < ordinal);
        &self.members[from(ordinals.start)..from(ordinals.end)]
    }

    /// What was found out: whose a claim is before the end of a pod, claims before their pods. What
    /// a quota or a webhook can refuse comes last, and begins with one.
    pub(super) fn into_plan(self, plan: &mut Plan) {
        plan.then_all(self.keepers);
        plan.then_all(self.mends.into_iter().take(BURST).collect());
        plan.then_ever_more(self.claims);
        plan.then_ever_more(self.creations);
        plan.notes.extend(self.notes);
        if let Some(at) = self.again_at {
            plan.look_again(at);
        }
        for (series, pause) in self.waiting {
            let about = About::of(&Object::StatefulSet(self.set.clone()));
            creation_brake::announce(series, pause, Some(about), COMPONENT, plan, self.now);
        }
    }

    fn at(&mut self, member: &Member<'_>) -> Pace {
        let Member { ordinal, pod, standing, .. } = *member;
        match standing {
            Standing::Terminating => return self.blocked,
            Standing::Ended => {
                self.recreate(pod);
                return self.blocked;
            }
            Standing::Unready if self.is_abandoned(member) => {
                self.mends.push(writes::deletion(self.set, pod));
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
        if self.has_claims {
            self.keepers.extend(claims::retained(self.view, self.set, pod, Wanted::Yes));
        }
        if !member.is_labelled {
            self.mends.push(labelled(pod, ordinal));
        }
        match standing {
            Standing::Available => Pace::On,
            Standing::Unready | Standing::Ready(_) | Standing::Terminating | Standing::Ended => {
                self.blocked
            }
        }
    }

    /// True when nothing is won by waiting for the pod: its revision is neither the one that was
    /// nor the one that is to be.
    fn is_abandoned(&self, member: &Member<'_>) -> bool {
        !matches!(self.strategy, Strategy::OnDelete)
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
        self.creations.push(writes::creation(self.set, pod));
    }

    /// What the pod of an ordinal is made from: before the partition the current revision, else the
    /// new one.
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
        let object = Object::Pod(pod.clone());
        if let Some(pause) = creation_brake::pause_for(self.view, &object, self.now) {
            self.waiting.push((CreationSeries::of_object(&object), pause));
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
        self.mends.push(writes::deletion(self.set, pod));
    }

    fn note(&mut self, severity: Severity, reason: &'static str, text: String) {
        let about = Object::StatefulSet(self.set.clone());
        self.notes.push(Note::new(&about, severity, reason, text, COMPONENT));
    }

    /// Deletes what is beyond the wanted ordinals, the highest first.
    fn scale_down(&mut self) -> Pace {
        let wanted = identity::ordinals(self.set);
        let members = self.members.iter().rev();
        for &Member { pod, standing, .. } in members.filter(|m| !wanted.contains(&m.ordinal)) {
            if standing == Standing::Terminating {
                match self.blocked {
                    Pace::Stop => return Pace::Stop,
                    Pace::On => continue,
                }
            }
            self.keepers.extend(claims::retained(self.view, self.set, pod, Wanted::ScaledAway));
            self.mends.push(writes::deletion(self.set, pod));
            if self.blocked == Pace::Stop {
                return Pace::Stop;
            }
        }
        Pace::On
    }

    /// Deletes pods of another revision than the new one, the highest ordinals first: those that
    /// are not available, of which nothing is lost, and as many of the others as may be
    /// unavailable. Only under `Parallel` there are some of the former here.
    ///
    /// Source: upstream since kubernetes#137666. Before, a revision that never became available was
    /// never left.
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
        let is_available = |member: &&Member<'_>| member.standing == Standing::Available;
        let available = self.members_of(&wanted).iter().filter(is_available).count();
        let unavailable = wanted.len() - available;
        let later = self.members_of(&(first..wanted.end)).iter().rev();
        let outdated = later.filter(|m| !m.is_new && m.standing != Standing::Terminating);
        let (available, broken): (Vec<&Member<'_>>, Vec<_>) = outdated.partition(is_available);
        let spare = max_unavailable.saturating_sub(unavailable);
        let doomed = broken.into_iter().chain(available.into_iter().take(spare));
        self.mends.extend(doomed.map(|member| writes::deletion(self.set, member.pod)));
    }
}

/// The labels that a pod lacks which was adopted.
fn labelled(pod: &Arc<Pod>, ordinal: i32) -> Step {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let patch = json!({"metadata": {
        "uid": pod.metadata.uid,
        "labels": {identity::POD_NAME: name, identity::POD_INDEX: ordinal.to_string()},
    }});
    let id = Object::Pod(pod.clone()).id();
    Step::from(Write::Patch { id, part: Part::Whole, patch })
}
