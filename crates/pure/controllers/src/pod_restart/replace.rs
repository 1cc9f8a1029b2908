//! Recreate and Reschedule: the pod is evicted and a new one takes its place.
//!
//! ```text
//!   asked ─► Held ⇄ Evicting ─► Starting ─► Succeeded
//!     │        │        │           │
//!     └────────┴────────┴───────────┴─────► Refused or Withdrawn (nothing was done), Failed
//! ```
//! Every step is written before what it leads to, so that whoever comes after a crash goes on from
//! it:
//! - *Evicting* is written, with the pod as it is to be created again, before the eviction is asked
//!   for. From then on a pod that is gone was evicted; asking twice does no harm. A pod that goes
//!   while the request is *Held* was deleted by somebody else.
//! - A pod without a controller is created again under its name, which the API gives once only:
//!   nothing is doubled. The API is asked before the eviction whether it would take the pod, and a
//!   finalizer keeps the request until the pod is there ([`super::kept`]). A request that fails
//!   before that goes on creating it.
//! - The new pod of a controller is told by the workload and the order of creation
//!   ([`super::successor`]).

use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::held::HeldPod;
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::reasons::event;
use rekindle_types::v1alpha1::{
    PodReplacement, PodRestart, PodRestartPhase, RESTART_GIVEN_UP_AFTER, ReplacementHold,
    ReplacementStep, Rung,
};
use rekindle_types::{EventSeverity, Tick, TickDuration, span};

use super::unfilled::ReplacementFailure;
use super::{
    again, budgets, elsewhere, finish, finish_owing, grace, is_namespace_terminating, kept, pod_of,
    silence, successor, unfilled,
};
use crate::events::{EventNote, cut};
use crate::plan::{EvictWrite, NewObject, PlannedWrite, WriteNotes, WriteOperation, WriteRefusal};
use crate::{ClusterView, NamespacedName, ViewObject, WritePlan, owners, pods};

/// From the eviction to the new pod's readiness, the pod's grace period aside.
const DEADLINE_DEFAULT: TickDuration = RESTART_GIVEN_UP_AFTER;
/// A Reschedule avoids its node so long.
const AVOID_DEFAULT: TickDuration = TickDuration::from_secs(30 * 60);
/// A pod that has been ready so long is well again. It is the kubelet's first delay between two
/// restarts.
const WELL_AFTER: TickDuration = TickDuration::from_secs(10);
/// What was refused is tried again after so long, doubling to the longest wait.
const HELD_WAIT_MIN: TickDuration = TickDuration::from_secs(1);
const HELD_WAIT_MAX: TickDuration = TickDuration::from_secs(30);
/// … and to this one when what held it seems to be over.
const FREED_WAIT_MAX: TickDuration = TickDuration::from_secs(5);
/// Before the API's words about a pod without a controller.
pub const NOT_TAKEN: &str = "the API does not take the pod again: ";
/// So much of them at most: a message of the status has 4096 bytes.
const WORDS_BYTES_MAX: usize = 2048;
/// `source.component` of its events.
const COMPONENT: &str = "podrestart-controller";

/// What is to be done for a request of rung Recreate or Reschedule that is not finished.
pub(super) fn reconcile(view: &ClusterView, restart: &Arc<PodRestart>, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let status = restart.status.as_ref();
    let job = Job { view, restart, rung: restart.spec.rung(), now };
    // a request that is being deleted is not begun; one that was begun goes on
    let is_wanted = !owners::is_terminating(&restart.metadata);
    match status.and_then(|status| status.replacement.as_ref()) {
        None if is_wanted => job.take_up(&mut plan),
        None => {}
        Some(replacement) => match replacement.step {
            ReplacementStep::Held if is_wanted => job.try_again(replacement, &mut plan),
            ReplacementStep::Held => {}
            ReplacementStep::Evicting => job.replace(replacement, &mut plan),
            ReplacementStep::Starting => job.await_readiness(replacement, &mut plan),
        },
    }
    plan
}

/// Goes on with the pod that a failed request owes.
pub(super) fn make_good(
    view: &ClusterView,
    restart: &Arc<PodRestart>,
    owed: &PodReplacement,
    now: Tick,
) -> WritePlan {
    let mut plan = WritePlan::default();
    let job = Job { view, restart, rung: restart.spec.rung(), now };
    // who deletes it lets go of the pod
    if owners::is_terminating(&restart.metadata) || is_namespace_terminating(view, restart) {
        return plan;
    }
    match view.pod(&pod_of(restart)) {
        Some(pod) if is_meant(pod, owed) => {} // it still ends
        Some(pod) => plan.then(job.made_good(owed, pod)),
        None => job.create_again(owed, &mut plan),
    }
    plan
}

/// A request and what is known around it.
struct Job<'a> {
    view: &'a ClusterView,
    restart: &'a Arc<PodRestart>,
    rung: Rung,
    now: Tick,
}

impl Job<'_> {
    /// Begins. That the pod is there, with the right UID and on a node, was looked at before.
    fn take_up(&self, plan: &mut WritePlan) {
        let Some(pod) = self.view.pod(&pod_of(self.restart)) else { return };
        if let Some(message) = self.refusal(pod) {
            return plan.then(finish(self.restart, PodRestartPhase::Refused, message, self.now));
        }
        if let Some(message) = self.withdrawal(pod) {
            return plan.then(finish(self.restart, PodRestartPhase::Withdrawn, message, self.now));
        }
        self.begin(pod, plan);
    }

    /// Evicts the pod, or holds the request when it would have nowhere to go or would not be taken
    /// again.
    fn begin(&self, pod: &Arc<HeldPod>, plan: &mut WritePlan) {
        match self.nowhere_to_go(pod) {
            Some(message) => {
                let is_told = self.message() == Some(message.as_str());
                plan.then(self.held(pod, ReplacementHold::NoOtherNode, &message));
                if !is_told {
                    let waits = format!("{} waits: {message}", doing(self.rung));
                    let note =
                        self.note(pod, EventSeverity::Warning, event::POD_RESTART_HELD, &waits);
                    plan.notes.push(note);
                }
            }
            None => match self.news_of_refused_creation() {
                // an event says it already
                Some(message) => {
                    plan.then(self.held(pod, ReplacementHold::PodNotTaken, &message));
                }
                None => self.evict(pod, plan),
            },
        }
    }

    fn evict(&self, pod: &Arc<HeldPod>, plan: &mut WritePlan) {
        let replacement = self.replacement(pod, ReplacementStep::Evicting);
        if let Some(copy) = &replacement.pod {
            if let Some(guard) = kept::guard(self.restart) {
                return plan.then(guard); // which brings us here again
            }
            match kept::from_copy(self.restart, &replacement, copy, self.now) {
                Ok(again) => plan.then_all(vec![self.trial(pod, again)]),
                Err(error) => return plan.then(self.broken_copy(&error)),
            }
        }
        plan.then(self.evicting(replacement));
        plan.then_all(vec![self.eviction(pod)]);
    }

    /// Asks whether the API would take the pod again.
    fn trial(&self, pod: &Arc<HeldPod>, again: v1::Pod) -> PlannedWrite {
        let waits = format!("{} waits: {NOT_TAKEN}", doing(self.rung));
        let failure = self.note(pod, EventSeverity::Warning, event::FAILED_CREATE, &waits);
        PlannedWrite {
            write: WriteOperation::TryCreate(again.into()),
            report: Some(WriteNotes { success: Vec::new(), failure }),
        }
    }

    /// Why the API does not take the pod, unless the request says so already.
    fn news_of_refused_creation(&self) -> Option<String> {
        let (_, words) = self.refused(event::FAILED_CREATE)?;
        let message = format!("{NOT_TAKEN}{words}");
        (self.message() != Some(message.as_str())).then_some(message)
    }

    fn refusal(&self, pod: &HeldPod) -> Option<String> {
        let name = NamespacedName::from_meta(&pod.metadata);
        let controller = owners::controller_of(&pod.metadata);
        if pods::is_terminating(pod) {
            return Some(format!("pod {name} is terminating"));
        }
        if is_mirror(pod) {
            return Some(format!("pod {name} is a static pod: its node alone can replace it"));
        }
        match controller {
            Some(_) if pods::is_finished(pod) => {
                Some(format!("pod {name} has finished (phase {})", pods::phase(pod)))
            }
            Some(owner) if self.rung == Rung::Reschedule && owner.kind == "DaemonSet" => {
                Some(format!("pod {name} is of DaemonSet {}: it has no other node", owner.name))
            }
            Some(_) | None => None,
        }
    }

    /// A ladder's request is not needed any more when the pod is well again.
    fn withdrawal(&self, pod: &HeldPod) -> Option<String> {
        let ladder = self.restart.spec.ladder_name.as_ref()?;
        let ready = pods::condition(pod, "Ready").filter(|c| c.status == "True")?;
        let since = Tick::from(ready.last_transition_time.as_ref()?);
        (self.now.since(since) >= WELL_AFTER).then(|| {
            let name = NamespacedName::from_meta(&pod.metadata);
            format!("pod {name} is ready again: ladder {ladder} leaves it alone")
        })
    }

    /// Why no other node would take the pod.
    fn nowhere_to_go(&self, pod: &HeldPod) -> Option<String> {
        match self.rung {
            Rung::Reschedule => {}
            Rung::Container | Rung::Containers | Rung::Pod | Rung::Recreate | Rung::Rollback => {
                return None;
            }
        }
        elsewhere::no_other_node(self.view, self.restart, pod, self.now)
    }

    fn replacement(&self, pod: &Arc<HeldPod>, step: ReplacementStep) -> PodReplacement {
        let workload = owners::controller_of(&pod.metadata)
            .map(|_| owners::root_uid(self.view, &ViewObject::Pod(pod.clone())));
        let known = workload.as_ref().and_then(|uid| self.view.by_uid(uid));
        let naked = match (&workload, step) {
            (None, ReplacementStep::Evicting) => Some(kept::copy(pod)),
            (None, ReplacementStep::Held | ReplacementStep::Starting) | (Some(_), _) => None,
        };
        let avoid_until = match (self.rung, step) {
            (Rung::Reschedule, ReplacementStep::Evicting) => {
                let until = self.now + self.avoid_for();
                Some(elsewhere::avoided_until(self.view, pod, until, self.now))
            }
            _ => None,
        };
        let before = self.restart.status.as_ref().and_then(|status| status.replacement.as_ref());
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let node = pods::node(pod).unwrap_or_default().to_owned();
        PodReplacement {
            held_by: before.and_then(|before| before.held_by),
            held_since: before.and_then(|before| before.held_since.clone()),
            deadline: match step {
                ReplacementStep::Evicting => Some(self.deadline_from_now()),
                ReplacementStep::Held | ReplacementStep::Starting => None,
            },
            workload_kind: known.map(|workload| workload.kind().info().kind.to_owned()),
            workload_name: known.and_then(|workload| workload.meta().name.clone()),
            workload_uid: workload,
            avoid_node_until: avoid_until.map(Tick::to_time),
            pod: naked,
            ..PodReplacement::new(step, self.now.to_time(), uid, node)
        }
    }

    fn avoid_for(&self) -> TickDuration {
        let text = self.restart.spec.avoid_node_for.as_deref();
        text.and_then(|text| span::parse(text).ok()).unwrap_or(AVOID_DEFAULT)
    }

    fn eviction(&self, pod: &Arc<HeldPod>) -> PlannedWrite {
        let about = ViewObject::Pod(pod.clone());
        let why = self.restart.spec.reason.as_deref().unwrap_or("asked for");
        let going = format!("{} ({why})", doing(self.rung));
        PlannedWrite {
            write: WriteOperation::Evict(EvictWrite {
                pod: about.id(),
                uid: about.uid().to_owned(),
                grace_seconds: self.restart.spec.grace_period_seconds,
            }),
            report: Some(WriteNotes::new(
                self.note(pod, EventSeverity::Normal, event::POD_RESTARTING, &going),
                self.note(
                    pod,
                    EventSeverity::Warning,
                    event::POD_RESTART_HELD,
                    &format!("{} waits: ", doing(self.rung)),
                ),
            )),
        }
    }

    /// Held back: is it over?
    fn try_again(&self, replacement: &PodReplacement, plan: &mut WritePlan) {
        let name = pod_of(self.restart);
        let pod = match self.view.pod(&name) {
            Some(pod) if is_meant(pod, replacement) && !pods::is_terminating(pod) => pod,
            Some(_) | None => {
                let message = format!("pod {name} was deleted meanwhile");
                return plan.then(finish(self.restart, PodRestartPhase::Failed, message, self.now));
            }
        };
        if let Some(message) = self.withdrawal(pod) {
            return plan.then(finish(self.restart, PodRestartPhase::Withdrawn, message, self.now));
        }
        let asked = self.restart.metadata.creation_timestamp.as_ref().map_or(self.now, Tick::from);
        let deadline = self.restart.spec.deadline_seconds;
        let deadline = deadline.map(|seconds| asked + TickDuration::of_field(seconds));
        if deadline.is_some_and(|deadline| deadline <= self.now) {
            let held = self.message().unwrap_or_default();
            let message = format!("held back until its deadline: {held}");
            return plan.then(finish(self.restart, PodRestartPhase::Failed, message, self.now));
        }
        let since = Tick::from(&replacement.since);
        let longest = if self.is_freed(replacement, pod) { FREED_WAIT_MAX } else { HELD_WAIT_MAX };
        let due = since + since.since(asked).max(HELD_WAIT_MIN).min(longest);
        if due <= self.now {
            if let Some(deadline) = deadline {
                plan.look_again(deadline);
            }
            return self.begin(pod, plan);
        }
        plan.look_again(deadline.map_or(due, |deadline| deadline.min(due)));
    }

    /// True when what held it seems to be over: no budget stands in its way any more, and there is
    /// a node.
    fn is_freed(&self, replacement: &PodReplacement, pod: &HeldPod) -> bool {
        match replacement.held_by {
            None
            | Some(
                ReplacementHold::DisruptionBudget
                | ReplacementHold::DeadlockedBudget
                | ReplacementHold::NoOtherNode
                | ReplacementHold::LadderLimits,
            ) => budgets::let_go(self.view, pod) && self.nowhere_to_go(pod).is_none(),
            // nothing here tells when it is
            Some(ReplacementHold::EvictionRefused | ReplacementHold::PodNotTaken) => false,
        }
    }

    /// The eviction was or is to be asked for: until the new pod is there.
    fn replace(&self, replacement: &PodReplacement, plan: &mut WritePlan) {
        let name = pod_of(self.restart);
        let pod = self.view.pod(&name).filter(|pod| is_meant(pod, replacement));
        if let Some(pod) = pod.filter(|pod| !pods::is_terminating(pod)) {
            if let Some((by, message)) = self.refused(event::POD_RESTART_HELD) {
                return plan.then(self.held(pod, by, &message));
            }
            return plan.then_all(vec![self.eviction(pod)]);
        }
        let new_pod = match &replacement.workload_uid {
            Some(workload) => {
                successor::find_successor(self.view, self.restart, replacement, workload)
            }
            None => self.view.pod(&name).filter(|pod| !is_meant(pod, replacement)),
        };
        if let Some(new_pod) = new_pod {
            return plan.then(self.starting(replacement, new_pod));
        }
        let workload = replacement.workload_uid.as_deref();
        let unfilled = workload.and_then(|uid| {
            unfilled::failure_without_successor(self.view, self.restart, replacement, uid)
                .zip(Some(uid))
        });
        if let Some((ReplacementFailure { why, gone }, uid)) = unfilled {
            if let Some(id) = gone {
                plan.then(WriteOperation::CheckAbsent { id, uid: Some(uid.to_owned()) });
            }
            let message =
                format!("nothing takes the place of pod {}: {why}", self.restart.spec.pod_name);
            return plan.then(finish(self.restart, PodRestartPhase::Failed, message, self.now));
        }
        if let Some(news) = pod.and_then(|pod| self.news_of_silence(pod)) {
            return plan.then(self.going_on(replacement, news));
        }
        match (&replacement.workload_uid, &replacement.pod) {
            (Some(_), _) => {
                self.fail_when_overdue(replacement, "nothing took the pod's place in time", plan);
            }
            (None, Some(_)) if pod.is_some() => self.await_end(replacement, plan),
            (None, Some(_)) => self.bring_back(replacement, plan),
            (None, None) => {}
        }
    }

    /// Why the pod does not end, unless the request says so already.
    fn news_of_silence(&self, pod: &HeldPod) -> Option<String> {
        let why = silence::why_no_eviction_ends(self.view, pod)?;
        let message = format!("{}; {why}", doing(self.rung));
        (self.message() != Some(message.as_str())).then_some(message)
    }

    /// It is where it was, with other words.
    fn going_on(&self, replacement: &PodReplacement, message: String) -> WriteOperation {
        let started = self.restart.status.as_ref().and_then(|s| s.started_at.clone());
        again(self.restart, message, started, replacement.clone(), self.now)
    }

    /// The pod still ends, and is to be created again after that.
    fn await_end(&self, replacement: &PodReplacement, plan: &mut WritePlan) {
        let deadline = self.deadline(replacement);
        if deadline > self.now {
            return plan.look_again(deadline);
        }
        let name = &self.restart.spec.pod_name;
        let message = format!(
            "pod {name} had not ended in time; it is created again when it has, unless this request is deleted"
        );
        plan.then(finish_owing(self.restart, message, self.now));
    }

    /// The pod is gone, and nobody else would create it again.
    fn bring_back(&self, replacement: &PodReplacement, plan: &mut WritePlan) {
        let name = &self.restart.spec.pod_name;
        if is_namespace_terminating(self.view, self.restart) {
            let message =
                format!("pod {name} is not created again: its namespace is being deleted");
            return plan.then(finish(self.restart, PodRestartPhase::Failed, message, self.now));
        }
        let words = self.refused(event::FAILED_CREATE).map(|(_, words)| words);
        let deadline = self.deadline(replacement);
        if deadline <= self.now {
            let why = words.map_or_else(String::new, |words| format!(": {words}"));
            let message = format!(
                "pod {name} could not be created again in time{why}; it stays in status.replacement.pod and is tried again, unless this \
                 request is deleted"
            );
            return plan.then(finish_owing(self.restart, message, self.now));
        }
        plan.look_again(deadline);
        if let Some(message) = self.news_of_refused_creation() {
            return plan.then(self.going_on(replacement, message));
        }
        self.create_again(replacement, plan);
    }

    /// What the server said to the write that is reported with this reason, if it said no. A
    /// conflict or a lost answer says nothing.
    fn refused(&self, reason: &str) -> Option<(ReplacementHold, String)> {
        let id = ViewObject::PodRestart(self.restart.clone()).id();
        let failure = self.view.failure(&id).filter(|failure| failure.reason == reason)?;
        let by = match failure.refusal? {
            WriteRefusal::Budget => ReplacementHold::DisruptionBudget,
            WriteRefusal::DeadlockedBudget => ReplacementHold::DeadlockedBudget,
            WriteRefusal::Other => ReplacementHold::EvictionRefused,
            WriteRefusal::Conflict
            | WriteRefusal::AlreadyExists
            | WriteRefusal::StillThere
            | WriteRefusal::NamespaceTerminating => return None,
        };
        Some((by, cut(&failure.message, WORDS_BYTES_MAX).to_owned()))
    }

    fn create_again(&self, replacement: &PodReplacement, plan: &mut WritePlan) {
        let Some(copy) = &replacement.pod else { return };
        let pod = match kept::from_copy(self.restart, replacement, copy, self.now) {
            Ok(pod) => NewObject::from(pod),
            Err(error) => return plan.then(self.broken_copy(&error)),
        };
        let id = pod.id();
        let about = ViewObject::PodRestart(self.restart.clone()); // the pod is gone
        let note = |severity, reason, message| {
            EventNote::new(&about, severity, reason, message, COMPONENT)
        };
        let created = format!("Created pod {} again", id.name.name);
        plan.then(WriteOperation::CheckAbsent { id, uid: Some(replacement.pod_uid.clone()) });
        plan.then_all(vec![PlannedWrite {
            write: WriteOperation::Create(pod),
            report: Some(WriteNotes::new(
                note(EventSeverity::Normal, event::SUCCESSFUL_CREATE, created.as_str()),
                note(EventSeverity::Warning, event::FAILED_CREATE, NOT_TAKEN),
            )),
        }]);
    }

    fn broken_copy(&self, error: &serde_json::Error) -> WriteOperation {
        let message = format!("the pod that was kept to be created again: {error}");
        finish(self.restart, PodRestartPhase::Failed, message, self.now)
    }

    /// The pod that a failed request owed is there.
    fn made_good(&self, owed: &PodReplacement, pod: &HeldPod) -> WriteOperation {
        let mut restart = self.restart.as_ref().clone();
        let status = restart.status.get_or_insert_default();
        let name = pod.metadata.name.clone();
        let message = format!("pod {} was there again only after that", self.restart.spec.pod_name);
        status.go_on(PodRestartPhase::Failed, message, self.now.to_micro_time());
        status.replacement = Some(PodReplacement {
            pod: None,
            new_pod_name: name,
            new_pod_uid: pod.metadata.uid.clone(),
            ..owed.clone()
        });
        WriteOperation::UpdateStatus(restart.into())
    }

    /// The new pod is there: until it is ready.
    fn await_readiness(&self, replacement: &PodReplacement, plan: &mut WritePlan) {
        let uid = replacement.new_pod_uid.as_deref().unwrap_or_default();
        let name = replacement.new_pod_name.as_deref().unwrap_or_default();
        let Some(ViewObject::Pod(pod)) = self.view.by_uid(uid) else {
            let message = format!("pod {name}, which took its place, was deleted meanwhile");
            return plan.then(finish(self.restart, PodRestartPhase::Failed, message, self.now));
        };
        let node = pods::node(pod).unwrap_or("no node");
        if pods::is_ready(pod) || pods::phase(pod) == "Succeeded" {
            let message = format!("pod {name} on {node} took its place");
            let note = self.note(pod, EventSeverity::Normal, event::POD_RESTARTED, &message);
            plan.notes.push(note);
            return plan.then(finish(self.restart, PodRestartPhase::Succeeded, message, self.now));
        }
        if pods::is_finished(pod) || pods::is_terminating(pod) {
            let message = format!("pod {name}, which took its place, ended before it was ready");
            return plan.then(finish(self.restart, PodRestartPhase::Failed, message, self.now));
        }
        let late = format!("pod {name}, which took its place on {node}, was not ready in time");
        self.fail_when_overdue(replacement, &late, plan);
    }

    /// Fails the request when its deadline has passed, or looks again then.
    fn fail_when_overdue(&self, replacement: &PodReplacement, late: &str, plan: &mut WritePlan) {
        let deadline = self.deadline(replacement);
        if deadline <= self.now {
            plan.then(finish(self.restart, PodRestartPhase::Failed, late.to_owned(), self.now));
        } else {
            plan.look_again(deadline);
        }
    }

    /// When it is given up.
    fn deadline(&self, replacement: &PodReplacement) -> Tick {
        // one that an earlier version has evicted says since when
        let of_earlier = || Tick::from(&replacement.since) + DEADLINE_DEFAULT;
        replacement.deadline.as_ref().map_or_else(of_earlier, Tick::from)
    }

    /// The same when it is evicted now. Its grace period is asked for once: what comes in its place
    /// may have another.
    fn deadline_from_now(&self) -> Time {
        let limit = match self.restart.spec.deadline_seconds {
            Some(seconds) => TickDuration::of_field(seconds),
            None => DEADLINE_DEFAULT + grace(self.view, self.restart),
        };
        (self.now + limit).to_time()
    }

    fn message(&self) -> Option<&str> {
        self.restart.status.as_ref()?.message.as_deref()
    }

    fn held(&self, pod: &Arc<HeldPod>, by: ReplacementHold, why: &str) -> WriteOperation {
        let mut replacement = self.replacement(pod, ReplacementStep::Held);
        hold(&mut replacement, by, self.now);
        again(self.restart, why.to_owned(), None, replacement, self.now)
    }

    fn evicting(&self, replacement: PodReplacement) -> WriteOperation {
        let started = self.now.to_time();
        again(self.restart, doing(self.rung).to_owned(), Some(started), replacement, self.now)
    }

    fn starting(&self, before: &PodReplacement, pod: &HeldPod) -> WriteOperation {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let replacement = PodReplacement {
            step: ReplacementStep::Starting,
            since: self.now.to_time(),
            held_by: None,
            held_since: None,
            pod: None,
            new_pod_name: Some(name.clone()),
            new_pod_uid: pod.metadata.uid.clone(),
            ..before.clone()
        };
        let started = self.restart.status.as_ref().and_then(|status| status.started_at.clone());
        let message = format!("pod {name} is starting in its place");
        again(self.restart, message, started, replacement, self.now)
    }

    fn note(
        &self,
        pod: &Arc<HeldPod>,
        severity: EventSeverity,
        reason: &'static str,
        message: &str,
    ) -> EventNote {
        EventNote::new(&ViewObject::Pod(pod.clone()), severity, reason, message, COMPONENT)
    }
}

/// Says what holds a replacement back, and since when.
pub(super) fn hold(replacement: &mut PodReplacement, by: ReplacementHold, now: Tick) {
    if replacement.held_by.replace(by) != Some(by) {
        replacement.held_since = None;
    }
    replacement.held_since.get_or_insert_with(|| now.to_time());
}

pub(super) fn is_meant(pod: &HeldPod, replacement: &PodReplacement) -> bool {
    pod.metadata.uid.as_ref() == Some(&replacement.pod_uid)
}

fn doing(rung: Rung) -> &'static str {
    match rung {
        Rung::Reschedule => "Evicting the pod, to be created on another node",
        Rung::Container | Rung::Containers | Rung::Pod | Rung::Recreate | Rung::Rollback => {
            "Evicting the pod, to be created again"
        }
    }
}
