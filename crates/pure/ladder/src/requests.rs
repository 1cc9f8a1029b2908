//! The PodRestarts of a pod: which one is on its way, and which ends they account for.
//!
//! A restart ends containers on purpose, and that is no failure. Which ends are its own is known in
//! two ways: the attempt that ran when the restart was decided, or when its request was first seen
//! waiting, is excused beforehand (`excusedAttempt` in the ledger); and an end is the restart's
//! when the attempt had started before the restart began and ended while it was carried out. The
//! second way is for restarts that were begun before their request was seen. On a cluster a restart
//! of the whole pod removes the container from the runtime, so its end has no times for a while, or
//! nothing of it is shown: it is the restart's if that goes on or has just ended. What starts after
//! a restart has begun is on its own again: a pod that crashes before all its containers ran has
//! failed, although its PodRestart is still Running.
//!
//! What had ended before a restart began is a failure like any other, also when it is seen only
//! later. The restart is its answer while it goes on.
//!
//! A request that names one container ends that one only: what the others do meanwhile is their
//! own.
//!
//! A request that replaces the pod ends nothing that is counted: what is evicted is terminating,
//! and its successor begins with counts of its own. Until then the pod is its request's: nothing
//! else is decided for it. One that was held back until it was given up has done nothing either,
//! but it was an attempt: there is no sense in another one.

use rekindle_diagnosis::{ContainerEnd, TerminatedReason};
use rekindle_types::v1alpha1::{CarriedOutBy, PodRestart, PodRestartPhase, ReplacementStep, Rung};
use rekindle_types::{Tick, TickDuration};

use crate::budget::GIVEN_UP_AFTER;
use crate::observation::{ObservedMember, ObservedPod, PodObject};

/// A kubelet looks at its pods every second, and may take some more to write what it saw.
const UNSEEN_END_SHOWS_WITHIN: TickDuration = TickDuration::from_secs(10);

/// The PodRestarts that are for this very pod.
#[derive(Clone, Debug)]
pub(crate) struct PodRestartRequests<'a> {
    list: Vec<&'a PodRestart>,
    now: Tick,
}

impl<'a> PodRestartRequests<'a> {
    /// Of a pod, those that are for it. Of a group, its own, and those of its members.
    pub(crate) fn new(now: Tick, view: &ObservedPod<'_>, restarts: &[&'a PodRestart]) -> Self {
        let concerns = |restart: &&&'a PodRestart| match view.shown {
            PodObject::Itself | PodObject::Mirror => restart.is_for(view.uid),
            PodObject::Group => {
                restart.is_of_group() || view.members.iter().any(|pod| is_of(restart, pod))
            }
        };
        Self { list: restarts.iter().filter(concerns).copied().collect(), now }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.list.iter().any(|r| r.metadata.name.as_deref() == Some(name))
    }

    /// One that nobody has taken up yet.
    pub(crate) fn waiting(&self) -> Option<&'a PodRestart> {
        self.open().find(|r| phase(r).is_none())
    }

    /// One of those that the node has to carry out, which it has not taken up yet. What one member
    /// of a group is asked to do excuses no other.
    pub(crate) fn waiting_in_place(&self, view: &ObservedPod<'_>) -> Option<&'a PodRestart> {
        let is_whole = |request: &&PodRestart| match view.shown {
            PodObject::Itself | PodObject::Mirror => true,
            PodObject::Group => request.is_of_group(),
        };
        let mut waiting = self.open().filter(is_whole);
        waiting.find(|r| phase(r).is_none() && carried_out_by(r) == CarriedOutBy::Node)
    }

    /// A group that restarts as one, and is not over: another one would be refused.
    pub(crate) fn group_under_way(&self) -> Option<&'a PodRestart> {
        self.open().find(|request| request.is_of_group())
    }

    /// Whether one in place is neither begun nor over, however long it takes: its end is what the
    /// ladder goes on from.
    pub(crate) fn is_unbegun(&self) -> bool {
        self.list.iter().any(|r| phase(r).is_none() && carried_out_by(r) == CarriedOutBy::Node)
    }

    /// Whether one in place that is not over was begun after this time, which is told in whole
    /// seconds.
    pub(crate) fn is_begun_since(&self, at: Tick) -> bool {
        self.open().any(|request| {
            let started = request.status.as_ref().and_then(|status| status.started_at.as_ref());
            carried_out_by(request) == CarriedOutBy::Node
                && started.is_some_and(|started| at < Tick::from(started))
        })
    }

    /// One that replaces the pod.
    pub(crate) fn replacing(&self) -> Option<&'a PodRestart> {
        self.open().find(|r| carried_out_by(r) == CarriedOutBy::Operator)
    }

    /// What holds the replacement of the pod back, in the words of the budget or the scheduler.
    pub(crate) fn held(&self) -> Option<(&'a PodRestart, &'a str)> {
        let mut replacing = self.open().filter(|r| carried_out_by(r) == CarriedOutBy::Operator);
        replacing.find_map(|request| {
            let status = request.status.as_ref()?;
            let is_held = status.replacement.as_ref()?.step == ReplacementStep::Held;
            Some((request, status.message.as_deref()?)).filter(|_| is_held)
        })
    }

    /// Until when the restarts that are not finished are waited for; none when all are.
    pub(crate) fn awaited_until(&self) -> Option<Tick> {
        self.open().map(|request| self.created(request) + GIVEN_UP_AFTER).max()
    }

    fn open(&self) -> impl Iterator<Item = &'a PodRestart> + '_ {
        self.list.iter().copied().filter(|request| {
            let is_final = phase(request).is_some_and(PodRestartPhase::is_final);
            let is_given_up = match carried_out_by(request) {
                CarriedOutBy::Node => self.now.since(self.created(request)) >= GIVEN_UP_AFTER,
                // a budget may hold it back for as long as it likes; it is always answered
                CarriedOutBy::Operator => false,
            };
            !is_final && !is_given_up
        })
    }

    fn created(&self, request: &PodRestart) -> Tick {
        request.metadata.creation_timestamp.as_ref().map_or(self.now, Tick::from)
    }

    /// This one was refused or withdrawn: it ended nothing.
    pub(crate) fn ended_nothing(&self, name: &str) -> bool {
        let named = |r: &&&PodRestart| r.metadata.name.as_deref() == Some(name);
        self.list.iter().find(named).is_some_and(|request| request.did_nothing())
    }

    /// When the node began this one, if it has.
    pub(crate) fn begun_in_place(&self, name: &str) -> Option<Tick> {
        begun_in_place(self.list.iter().find(|r| r.metadata.name.as_deref() == Some(name))?)
    }

    /// When this one in place was over, if nobody had begun it.
    pub(crate) fn over_unbegun(&self, name: &str) -> Option<Tick> {
        let request = self.list.iter().find(|r| r.metadata.name.as_deref() == Some(name))?;
        let status = request.status.as_ref()?;
        let is_of_node = carried_out_by(request) == CarriedOutBy::Node;
        let is_unbegun = match status.phase? {
            PodRestartPhase::Withdrawn => true,
            PodRestartPhase::Failed => status.started_at.is_none(),
            PodRestartPhase::Running | PodRestartPhase::Succeeded | PodRestartPhase::Refused => {
                false
            }
        };
        status.finished_at.as_ref().filter(|_| is_of_node && is_unbegun).map(Tick::from)
    }

    /// Those of the ladder that were taken back before they were begun, and why.
    pub(crate) fn withdrawn(&self) -> impl Iterator<Item = (&'a str, &'a str)> + '_ {
        let withdrawn = self.list.iter().filter(|r| phase(r) == Some(PodRestartPhase::Withdrawn));
        withdrawn.filter_map(|request| {
            let why = request.status.as_ref().and_then(|status| status.message.as_deref());
            Some((request.metadata.name.as_deref()?, why.unwrap_or("its ladder took it back")))
        })
    }

    /// Whether the newest end of a container is one of theirs: see the module's text. None is an
    /// end of which nothing is shown.
    pub(crate) fn account_for(
        &self,
        pod: &ObservedMember<'_>,
        container: &str,
        end: Option<&ContainerEnd<'_>>,
    ) -> bool {
        let mut requests = self.list.iter().filter(|request| request.is_for(pod.uid));
        match end.map(|end| (end.started_at, end.finished_at, end.reason)) {
            Some((Some(started), Some(finished), _)) => {
                requests.any(|request| request.has_ended(container, started, finished))
            }
            None | Some((_, _, TerminatedReason::ContainerStatusUnknown)) => {
                requests.any(|request| self.has_removed(request, container))
            }
            Some(_) => false,
        }
    }

    /// One in place that goes on, and was begun in a later second than that in which a container
    /// ended. Of one that is over this is not asked: a clock may have been set back since.
    pub(crate) fn begun_after(
        &self,
        pod: &ObservedMember<'_>,
        container: &str,
        end: &ContainerEnd<'_>,
    ) -> Option<&'a str> {
        let finished = end.finished_at?;
        let of_pod = self.open().filter(|request| request.is_for(pod.uid));
        let mut concerned = of_pod.filter(|request| request.spec.concerns(container));
        let answer = concerned.find(|r| begun_in_place(r).is_some_and(|began| finished < began));
        answer?.metadata.name.as_deref()
    }

    /// Whether this one removes the sandbox of the container now, or did so a moment ago. The
    /// runtime forgets the container with it, so the kubelet knows no times of its end.
    fn has_removed(&self, request: &PodRestart, container: &str) -> bool {
        let Some(status) = &request.status else { return false };
        let is_recent = match &status.finished_at {
            Some(over) => self.now.since(Tick::from(over)) < UNSEEN_END_SHOWS_WITHIN,
            None => phase(request) == Some(PodRestartPhase::Running),
        };
        request.spec.rung() == Rung::Pod
            && request.spec.concerns(container)
            && status.started_at.is_some()
            && !request.did_nothing()
            && is_recent
    }
}

fn begun_in_place(request: &PodRestart) -> Option<Tick> {
    let is_in_place = carried_out_by(request) == CarriedOutBy::Node && !request.did_nothing();
    let started = request.status.as_ref()?.started_at.as_ref()?;
    is_in_place.then(|| Tick::from(started))
}

/// By the rung: of a group the operator is in charge, and on the rungs in place its nodes do it.
fn carried_out_by(restart: &PodRestart) -> CarriedOutBy {
    restart.spec.rung().carried_out_by()
}

fn is_of(restart: &PodRestart, pod: &ObservedMember<'_>) -> bool {
    restart.spec.pod_name == pod.name && restart.is_for(pod.uid)
}

fn phase(restart: &PodRestart) -> Option<PodRestartPhase> {
    restart.status.as_ref().and_then(|status| status.phase)
}
