//! Looks after PodRestarts that no node will answer, carries out those that replace the pod, and
//! clears away old ones.
//!
//! A request that names no pod, or one that does not exist, has another UID or is on no node is
//! Refused here. Restarts in place are the node's to answer; Recreate, Reschedule ([`replace`])
//! and Rollback ([`rollback`]) are carried out here, and so are groups ([`group`]). A request that
//! is not finished by its deadline is Failed. A finished one is deleted when its time after the
//! finish is over (ten minutes, if it says nothing else), unless a ledger still has to read it, a
//! node is avoided because of it, or it has the only copy of a pod ([`kept`]).

mod budgets;
mod elsewhere;
mod group;
mod kept;
mod preview;
mod replace;
mod rollback;
mod silence;
mod successor;
mod unfilled;

pub use elsewhere::no_other_node;
pub use group::selected_pods;
pub use kept::{KeptPod, created_again, kept_pod};
pub use preview::{RestartPreview, preview};
pub use replace::NOT_TAKEN;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::held::HeldPod;
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::v1alpha1::{
    CarriedOutBy, PodReplacement, PodRestart, PodRestartPhase, ReplacementHold, ReplacementStep,
    Rung,
};
use rekindle_types::validation::names;
use rekindle_types::{Tick, TickDuration};

use crate::plan::{DependentPolicy, WriteOperation};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ObjectId, ResourceKind, ViewObject,
    WritePlan, avoidance, cluster, owners, pods,
};

/// How long a finished request that does not say so stays to be looked at.
pub const TTL_AFTER_FINISH: TickDuration = TickDuration::from_secs(10 * 60);
/// A ledger that waits to see its request waits no longer than this: by then the ladder would not
/// ask for it again.
const AWAITED_MAX: TickDuration = TickDuration::from_secs(20 * 60);
/// The grace period of a pod that names none.
const GRACE_DEFAULT: TickDuration = TickDuration::from_secs(30);

pub(crate) fn affected(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    match change.latest() {
        ViewObject::PodRestart(restart) => {
            if !change.is_removal() {
                keys.insert(ControllerKey::PodRestart(change.id.name.clone()));
            }
            group::affected(view, restart, keys);
        }
        ViewObject::Pod(_) => concerned(view, change, keys),
        // A Deployment that goes back, or is changed by somebody else.
        ViewObject::Deployment(deployment) => {
            keys.extend(unfilled::affected(view, change).map(ControllerKey::PodRestart));
            let name = deployment.metadata.name.as_deref();
            let restarts = view.in_namespace(ResourceKind::PodRestart, &change.id.name.namespace);
            keys.extend(restarts.filter_map(|object| match object {
                ViewObject::PodRestart(restart) if !is_finished(restart) => {
                    let rollback = restart.status.as_ref()?.rollback.as_ref()?;
                    let concerns = Some(rollback.deployment_name.as_str()) == name;
                    concerns.then(|| {
                        ControllerKey::PodRestart(NamespacedName::from_meta(&restart.metadata))
                    })
                }
                _ => None,
            }));
        }
        ViewObject::ReplicaSet(_)
        | ViewObject::ReplicationController(_)
        | ViewObject::StatefulSet(_)
        | ViewObject::DaemonSet(_)
        | ViewObject::Job(_)
        | ViewObject::CronJob(_) => {
            keys.extend(unfilled::affected(view, change).map(ControllerKey::PodRestart));
        }
        // A budget that forbade an eviction may allow it now.
        ViewObject::PodDisruptionBudget(_) => {
            let restarts = view.in_namespace(ResourceKind::PodRestart, &change.id.name.namespace);
            keys.extend(restarts.filter_map(|object| match object {
                ViewObject::PodRestart(restart) if is_held(restart) => {
                    Some(ControllerKey::PodRestart(NamespacedName::from_meta(&restart.metadata)))
                }
                _ => None,
            }));
        }
        ViewObject::Node(_) => concerned_by_node(view, change, keys),
        // What waits for a pod that cannot be created in it any more lets go.
        ViewObject::Namespace(namespace) if owners::is_terminating(&namespace.metadata) => {
            let restarts = view.in_namespace(ResourceKind::PodRestart, &change.id.name.name);
            keys.extend(restarts.map(|restart| ControllerKey::PodRestart(restart.id().name)));
        }
        ViewObject::RestartLedger(ledger) => {
            let pending = ledger.status.as_ref().and_then(|s| s.pending_restart.clone());
            let before = change.before.as_ref().and_then(|before| match before {
                ViewObject::RestartLedger(ledger) => {
                    ledger.status.as_ref()?.pending_restart.clone()
                }
                _ => None,
            });
            // One that was pending and is not any more may be old enough to go.
            if let Some(name) = before.filter(|name| Some(name) != pending.as_ref()) {
                let namespace = change.id.name.namespace.as_str();
                keys.insert(ControllerKey::PodRestart(NamespacedName::new(namespace, name)));
            }
        }
        _ => {}
    }
}

/// The requests that a change of a node concerns: one that had nowhere to go may have somewhere
/// now, and one that waits for its agent says so.
fn concerned_by_node(
    view: &ClusterView,
    change: &ObjectChange,
    keys: &mut BTreeSet<ControllerKey>,
) {
    let is_ready = |object: Option<&ViewObject>| match object {
        Some(ViewObject::Node(node)) => Some(cluster::is_ready(node)),
        Some(_) | None => None,
    };
    let is_news = is_ready(change.before.as_ref()) != is_ready(change.after.as_ref());
    let node = change.id.name.name.as_str();
    for (_, object) in view.of_kind(ResourceKind::PodRestart) {
        let ViewObject::PodRestart(restart) = object else { continue };
        let waits_for_pod_on_it =
            unfilled::waits_for(restart).is_some_and(|replacement| replacement.node_name == node);
        if is_held(restart)
            || waits_for_pod_on_it
            || (is_news && silence::concerns(view, restart, node))
        {
            keys.insert(ControllerKey::PodRestart(NamespacedName::from_meta(&restart.metadata)));
        }
    }
}

/// The requests that a change of a pod concerns. The node answers for its pods; a request of its is
/// ours only when its pod is gone, which one of the same name that comes after it tells, too.
fn concerned(view: &ClusterView, change: &ObjectChange, keys: &mut BTreeSet<ControllerKey>) {
    let pod = change.latest();
    let uid = |object: Option<&ViewObject>| object.map(|object| object.uid().to_owned());
    let is_other_pod = uid(change.before.as_ref()) != uid(change.after.as_ref());
    let workload = owners::controller_of(pod.meta()).map(|_| owners::root_uid(view, pod));
    for object in view.in_namespace(ResourceKind::PodRestart, &change.id.name.namespace) {
        let ViewObject::PodRestart(restart) = object else { continue };
        let is_named = restart.spec.pod_name == change.id.name.name;
        let concerns = match carried_out_by(restart) {
            CarriedOutBy::Node => is_named && is_other_pod && !is_finished(restart),
            CarriedOutBy::Operator if kept::owed(restart).is_some() => is_named,
            CarriedOutBy::Operator if is_finished(restart) => false,
            CarriedOutBy::Operator => {
                let replacement = restart.status.as_ref().and_then(|s| s.replacement.as_ref());
                let is_of_workload = replacement
                    .is_some_and(|r| r.workload_uid.is_some() && r.workload_uid == workload);
                is_named || is_of_workload
            }
        };
        if concerns {
            keys.insert(ControllerKey::PodRestart(NamespacedName::from_meta(&restart.metadata)));
        }
    }
}

fn carried_out_by(restart: &PodRestart) -> CarriedOutBy {
    restart.carried_out_by()
}

fn is_finished(restart: &PodRestart) -> bool {
    let phase = restart.status.as_ref().and_then(|status| status.phase);
    phase.is_some_and(PodRestartPhase::is_final)
}

/// True when it waits for a budget or a node.
pub fn is_held(restart: &PodRestart) -> bool {
    let replacement = restart.status.as_ref().and_then(|status| status.replacement.as_ref());
    !is_finished(restart) && replacement.is_some_and(|r| r.step == ReplacementStep::Held)
}

/// What is to be done for a request.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(restart) = view.pod_restart(name) else { return plan };
    if let Some(write) = kept::release(restart) {
        plan.then(write); // which brings us here again, unless it was the last that held it
        return plan;
    }
    if restart.is_of_group() && !is_finished(restart) {
        return group::reconcile(view, restart, now);
    }
    match restart.status.as_ref().and_then(|status| status.phase) {
        Some(phase) if phase.is_final() => match kept::owed(restart) {
            Some(owed) => return replace::make_good(view, restart, owed, now),
            None => expire(view, restart, now, &mut plan),
        },
        None => {
            let is_refused = group::refuse_stray(view, restart, now, &mut plan)
                || refuse_impossible(view, restart, now, &mut plan);
            if !is_refused {
                match carried_out_by(restart) {
                    CarriedOutBy::Node => tell_of_silence(view, restart, &mut plan),
                    CarriedOutBy::Operator if group::holds_back(view, restart) => {}
                    CarriedOutBy::Operator => return carry_out(view, restart, now),
                }
            }
        }
        Some(_) => match carried_out_by(restart) {
            CarriedOutBy::Node => fail_abandoned(view, restart, now, &mut plan),
            CarriedOutBy::Operator => return carry_out(view, restart, now),
        },
    }
    if plan.writes().next().is_none() {
        fail_late(view, restart, now, &mut plan);
    }
    plan
}

/// What is to be done for a request that no node carries out.
fn carry_out(view: &ClusterView, restart: &Arc<PodRestart>, now: Tick) -> WritePlan {
    match restart.spec.rung() {
        Rung::Rollback => rollback::reconcile(view, restart, now),
        Rung::Recreate | Rung::Reschedule => replace::reconcile(view, restart, now),
        Rung::Container | Rung::Containers | Rung::Pod => WritePlan::default(),
    }
}

/// Says why nobody takes a restart in place up. Who does writes over it.
fn tell_of_silence(view: &ClusterView, restart: &PodRestart, plan: &mut WritePlan) {
    let pod = view.pod(&pod_of(restart));
    let why = pod.and_then(|pod| silence::why_no_restart_begins(view, pod));
    let told = restart.status.as_ref().and_then(|status| status.message.as_ref());
    if why.is_some() && why.as_ref() != told {
        let mut restart = restart.clone();
        restart.status.get_or_insert_default().message = why;
        plan.then(WriteOperation::UpdateStatus(restart.into()));
    }
}

/// Gives up a restart in place that is not finished by its deadline. There always is one: what
/// never runs again, on a node that is gone or for want of something that is tried again and again,
/// would otherwise be under way for ever.
fn fail_late(view: &ClusterView, restart: &Arc<PodRestart>, now: Tick, plan: &mut WritePlan) {
    match carried_out_by(restart) {
        CarriedOutBy::Node => {}
        CarriedOutBy::Operator => return, // it knows its own steps
    }
    if group::is_read_by_group(view, restart) {
        return; // the deadline is the group's
    }
    let status = restart.status.as_ref();
    let phase = status.and_then(|status| status.phase);
    let Some(created) = restart.metadata.creation_timestamp.as_ref() else { return };
    let limit = restart.in_place_limit(grace(view, restart));
    let due = Tick::from(created) + limit;
    let limit = rekindle_types::span::show(limit);
    let pod = view.pod(&pod_of(restart));
    let silent = pod.filter(|_| phase.is_none()).and_then(|pod| silence::silent_node(view, pod));
    let message = match phase {
        Some(phase) if phase.is_final() => return,
        None => match silent {
            Some(node) => {
                format!(
                    "node {node} is not ready: nobody took it up within its deadline of {limit}"
                )
            }
            None => format!("its deadline of {limit} passed before it was begun"),
        },
        Some(_) => {
            let what = match &restart.spec.container_name {
                Some(container) => format!("container {container} was not running again"),
                None => "not all containers were running".to_owned(),
            };
            format!("{what} within its deadline of {limit}; what was begun goes on")
        }
    };
    // what a ladder asked for was not tried, and is none of its attempts; where a node that is well
    // takes nothing up, it is one: the ladder goes on with the next rung instead of asking for the
    // same for ever
    let end = match (silent, &restart.spec.ladder_name) {
        (Some(_), Some(_)) => PodRestartPhase::Withdrawn,
        (Some(_), None) | (None, _) => PodRestartPhase::Failed,
    };
    if due > now {
        plan.look_again(due);
    } else {
        plan.then(finish(restart, end, message, now));
    }
}

/// How long the pod's containers have to end.
fn grace(view: &ClusterView, restart: &PodRestart) -> TickDuration {
    let of_pod = view.pod(&pod_of(restart)).and_then(|pod| pod.spec.as_ref());
    let of_pod = of_pod.and_then(|spec| spec.termination_grace_period_seconds);
    let seconds = restart.spec.grace_seconds().or(of_pod);
    seconds.map_or(GRACE_DEFAULT, TickDuration::of_field)
}

/// Deletes it when it is old enough and nobody has to read it any more.
fn expire(view: &ClusterView, restart: &Arc<PodRestart>, now: Tick, plan: &mut WritePlan) {
    let finished = restart.status.as_ref().and_then(|status| status.finished_at.as_ref());
    let created = restart.metadata.creation_timestamp.as_ref();
    let Some(finished) = finished.or(created).map(Tick::from) else { return };
    let kept = restart.spec.ttl_seconds_after_finished;
    let kept = kept.map_or(TTL_AFTER_FINISH, TickDuration::of_field);
    let avoided = avoidance::node_avoided_by(restart).map(|(_, until)| Tick::from(until));
    let due = (finished + kept).max(avoided.unwrap_or(Tick::ZERO));
    let asked = created.map_or(Tick::ZERO, Tick::from);
    if due > now {
        plan.look_again(due);
    } else if group::is_read_by_group(view, restart) {
        // the end of the group brings us here again
    } else if asked + AWAITED_MAX > now && is_awaited(view, restart) {
        // The ledger's next write brings us here again. One whose ladder is gone is not written any
        // more.
        plan.look_again(asked + AWAITED_MAX);
    } else {
        plan.then(WriteOperation::delete(
            &ViewObject::PodRestart(restart.clone()),
            DependentPolicy::Background,
        ));
    }
}

/// True when a ledger waits for its end.
fn is_awaited(view: &ClusterView, restart: &PodRestart) -> bool {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    view.in_namespace(ResourceKind::RestartLedger, namespace).any(|object| match object {
        ViewObject::RestartLedger(ledger) => {
            let pending = ledger.status.as_ref().and_then(|status| status.pending_restart.as_ref());
            pending.is_some() && pending == restart.metadata.name.as_ref()
        }
        _ => false,
    })
}

/// Why no node will ever take a request up.
enum RestartObstacle {
    /// The name it gives is none that a pod can have. Nothing is to be asked: the server would
    /// answer something else.
    NoName(String),
    /// There is no such pod: to be checked at the server, for the view may be behind.
    NoPod,
    /// The pod of that name is another one.
    OtherUid(String),
    /// It has no node, and is what would be restarted.
    Unscheduled,
}

fn impossible(restart: &PodRestart, pod: Option<&Arc<HeldPod>>) -> Option<RestartObstacle> {
    let name = restart.spec.pod_name.as_str();
    if name.is_empty() {
        return Some(RestartObstacle::NoName("spec.podName is empty".to_owned()));
    }
    let wrong = names::dns_subdomain(name);
    if !wrong.is_empty() {
        return Some(RestartObstacle::NoName(format!(
            "spec.podName: {name:?}: {}",
            wrong.join("; ")
        )));
    }
    let Some(pod) = pod else { return Some(RestartObstacle::NoPod) };
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    match &restart.spec.pod_uid {
        Some(wanted) if wanted != uid => Some(RestartObstacle::OtherUid(uid.to_owned())),
        _ if pods::node(pod).is_none() && restarts_pod(restart.spec.rung()) => {
            Some(RestartObstacle::Unscheduled)
        }
        _ => None,
    }
}

/// False for a rung that concerns the pod's Deployment: a revision whose pods no node takes is one
/// to go back from.
fn restarts_pod(rung: Rung) -> bool {
    match rung {
        Rung::Container | Rung::Containers | Rung::Pod | Rung::Recreate | Rung::Reschedule => true,
        Rung::Rollback => false,
    }
}

/// True when it was refused.
fn refuse_impossible(
    view: &ClusterView,
    restart: &Arc<PodRestart>,
    now: Tick,
    plan: &mut WritePlan,
) -> bool {
    let pod_name = pod_of(restart);
    let Some(why) = impossible(restart, view.pod(&pod_name)) else { return false };
    let message = match why {
        RestartObstacle::NoName(message) => message,
        RestartObstacle::NoPod => {
            let id = ObjectId::new(ResourceKind::Pod, pod_name.clone());
            plan.then(WriteOperation::CheckAbsent { id, uid: None });
            format!("there is no pod {pod_name}")
        }
        RestartObstacle::OtherUid(uid) => {
            let wanted = restart.spec.pod_uid.as_deref().unwrap_or_default();
            let id = ObjectId::new(ResourceKind::Pod, pod_name.clone());
            plan.then(WriteOperation::CheckAbsent { id, uid: Some(wanted.to_owned()) });
            format!("pod {pod_name} has UID {uid}, the request is for {wanted}: it was re-created")
        }
        RestartObstacle::Unscheduled => {
            format!("pod {pod_name} is not on a node yet: there is nothing to restart")
        }
    };
    plan.then(finish(restart, PodRestartPhase::Refused, message, now));
    true
}

/// A request that was begun and whose pod is gone will not be finished.
fn fail_abandoned(view: &ClusterView, restart: &Arc<PodRestart>, now: Tick, plan: &mut WritePlan) {
    let pod_name = pod_of(restart);
    let begun_for = restart.pod_uid();
    let message = match view.pod(&pod_name) {
        None => format!("pod {pod_name} was deleted meanwhile"),
        // another mirror shows the same pod
        Some(pod) if is_mirror(pod.as_ref()) => return,
        Some(pod) => {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            match begun_for {
                Some(begun_for) if begun_for != uid => {
                    format!("pod {pod_name} was deleted meanwhile: the one of that name is another")
                }
                Some(_) | None => return,
            }
        }
    };
    let id = ObjectId::new(ResourceKind::Pod, pod_name);
    plan.then(WriteOperation::CheckAbsent { id, uid: begun_for.map(str::to_owned) });
    plan.then(finish(restart, PodRestartPhase::Failed, message, now));
}

fn pod_of(restart: &PodRestart) -> NamespacedName {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    NamespacedName::new(namespace, restart.spec.pod_name.as_str())
}

fn is_namespace_terminating(view: &ClusterView, restart: &PodRestart) -> bool {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    let namespace = view.namespace(&NamespacedName::new("", namespace));
    namespace.is_some_and(|namespace| owners::is_terminating(&namespace.metadata))
}

/// The request as it goes on.
fn again(
    restart: &PodRestart,
    message: String,
    started_at: Option<Time>,
    replacement: PodReplacement,
    now: Tick,
) -> WriteOperation {
    let mut restart = restart.clone();
    let status = restart.status.get_or_insert_default();
    status.go_on(PodRestartPhase::Running, message, now.to_micro_time());
    status.started_at = started_at;
    status.pod_uid.get_or_insert_with(|| replacement.pod_uid.clone());
    status.replacement = Some(replacement);
    WriteOperation::UpdateStatus(restart.into())
}

/// A request that is held back stays so, for it has no room among the restarts of ladders; none
/// when that is what it says already.
pub fn waits_for_room(restart: &PodRestart, why: &str, now: Tick) -> Option<WriteOperation> {
    let status = restart.status.as_ref()?;
    let before = status.replacement.as_ref().filter(|_| is_held(restart))?;
    let mut replacement = before.clone();
    replace::hold(&mut replacement, ReplacementHold::LadderLimits, now);
    let is_told = status.message.as_deref() == Some(why) && *before == replacement;
    (!is_told).then(|| again(restart, why.to_owned(), None, replacement, now))
}

/// A request stays as it is, and says what has to be done by hand; none when it says so already.
pub fn left_to_hand(restart: &PodRestart, what: &str, now: Tick) -> Option<WriteOperation> {
    let mut restart = restart.clone();
    let status = restart.status.get_or_insert_default();
    let before = status.message.clone().unwrap_or_default();
    if before.ends_with(what) {
        return None;
    }
    let message = if status.phase.is_some_and(PodRestartPhase::is_final) {
        format!("{before}; {what}")
    } else {
        what.to_owned()
    };
    status.go_on(status.phase.unwrap_or(PodRestartPhase::Running), message, now.to_micro_time());
    let is_news = status.message.as_ref() != Some(&before);
    is_news.then(|| WriteOperation::UpdateStatus(restart.into()))
}

/// It cannot be carried out, and nothing was begun.
pub fn refuse(restart: &PodRestart, why: String, now: Tick) -> WriteOperation {
    finish(restart, PodRestartPhase::Refused, why, now)
}

/// The ladder that asked does not any more, and nothing was begun.
pub fn withdraw(restart: &PodRestart, why: String, now: Tick) -> WriteOperation {
    finish(restart, PodRestartPhase::Withdrawn, why, now)
}

/// What held it back lasts too long for the ladder that asked.
pub fn give_up(restart: &PodRestart, why: String, now: Tick) -> WriteOperation {
    finish(restart, PodRestartPhase::Failed, why, now)
}

fn finish(
    restart: &PodRestart,
    phase: PodRestartPhase,
    message: String,
    now: Tick,
) -> WriteOperation {
    let mut restart = finished(restart, phase, message, now);
    let replacement = restart.status.as_mut().and_then(|status| status.replacement.as_mut());
    if let Some(replacement) = replacement {
        replacement.pod = None; // it is not created again any more
    }
    WriteOperation::UpdateStatus(restart.into())
}

/// It failed, and the pod that it keeps is still to be created again.
fn finish_owing(restart: &PodRestart, message: String, now: Tick) -> WriteOperation {
    WriteOperation::UpdateStatus(finished(restart, PodRestartPhase::Failed, message, now).into())
}

fn finished(
    restart: &PodRestart,
    phase: PodRestartPhase,
    message: String,
    now: Tick,
) -> PodRestart {
    let mut restart = restart.clone();
    let status = restart.status.get_or_insert_default();
    status.go_on(phase, message, now.to_micro_time());
    status.finished_at = Some(now.to_time());
    restart
}
