//! Requests of ladders that a disruption budget or the lack of a node held back ask for room again
//! before they go on: a crowd that waited for one node would otherwise be evicted together when it
//! comes. One whose ladder does not ask for it any more is withdrawn, and one that no other node
//! can take is given up after ten minutes: its ladder goes on. Pure, as the controllers are.

use std::sync::Arc;

use rekindle_controllers::pod_restart::{
    give_up, is_held, no_other_node, waits_for_room, withdraw,
};
use rekindle_controllers::{
    ClusterView, ControllerKey, NamespacedName, ObjectChange, ViewObject, WriteOperation,
    WritePlan, pods, reconcile,
};
use rekindle_ladder::{BudgetExhausted, LedgerRegister, room_to_go_on};
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, ReplacementHold, Rung};
use rekindle_types::{Tick, TickDuration, span};

use crate::restart_context::RestartContext;
use crate::{avoided_nodes, cluster_requests, ladder, policies};

/// Room is asked for again after this long, also when nobody tells that there is some: a request
/// that was refused by its disruption budget meanwhile has given its room back.
const ASK_AGAIN: TickDuration = TickDuration::from_secs(5);
/// A node that is to be avoided carries its taint after this.
const TAINTED_WITHIN: TickDuration = TickDuration::from_millis(100);
/// A ladder waits no longer than this for a node that could take its pod. On a single node there
/// will never be one.
const NO_NODE_MAX: TickDuration = TickDuration::from_secs(600);

/// What is to be done for a request.
pub(crate) fn plan(context: &RestartContext<'_>, name: &NamespacedName, now: Tick) -> WritePlan {
    let view = context.view;
    if let Some(restart) = view.pod_restart(name) {
        if let Some(plan) = cluster_requests::kept_copy(context, restart, now) {
            return plan;
        }
        let refused = cluster_requests::refusal(context, restart, now);
        let withdrawn =
            || not_asked_any_more(context, restart).map(|why| withdraw(restart, why, now));
        let over = refused.or_else(withdrawn).or_else(|| {
            too_long_without_node(view, restart, now).map(|why| give_up(restart, why, now))
        });
        if let Some(write) = over {
            let mut plan = WritePlan::default();
            plan.then(write);
            return plan;
        }
    }
    let plan = reconcile(view, &ControllerKey::PodRestart(name.clone()), now);
    let waits = |restart: &Arc<PodRestart>| avoided_nodes::waits_for_taint(context, restart, now);
    if evicts(&plan) && view.pod_restart(name).is_some_and(waits) {
        let mut later = WritePlan::default();
        later.look_again(now + TAINTED_WITHIN);
        return later;
    }
    let held = view.pod_restart(name).filter(|restart| is_held(restart) && evicts(&plan));
    let Some(restart) = held else { return plan };
    let Some(BudgetExhausted { until, why }) = no_room(context, restart, now) else { return plan };
    let mut waits = WritePlan::default();
    if let Some(write) = waits_for_room(restart, &why, now) {
        waits.then(write);
    }
    waits.look_again(until.min(now + ASK_AGAIN));
    waits
}

/// Why a ladder's request to replace a pod, which is not begun, has nobody who asks for it: the
/// ladder is gone, selects the pod no more, or does not list the rung. A ladder that cannot be read
/// may be so by mistake: its requests wait.
fn not_asked_any_more(context: &RestartContext<'_>, restart: &PodRestart) -> Option<String> {
    let view = context.view;
    let ladder = restart.spec.ladder_name.as_deref()?;
    let rung = restart.spec.rung();
    match rung {
        Rung::Recreate | Rung::Reschedule => {}
        Rung::Container | Rung::Containers | Rung::Pod | Rung::Rollback => return None,
    }
    let is_new = restart.status.as_ref().is_none_or(|status| status.phase.is_none());
    if !is_new && !is_held(restart) {
        return None;
    }
    let pod = pod_of(view, restart)?;
    let policy = policies::policy_of_pod(context, pod).ok()?;
    let asks = policy.filter(|policy| policy.name == ladder && policy.step(rung).is_some());
    let name = NamespacedName::from_meta(&pod.metadata);
    asks.is_none()
        .then(|| format!("ladder {ladder} does not ask for {rung} of pod {name} any more"))
}

/// Why a ladder's request to move the pod is given up: for ten minutes no other node could take it.
/// What a disruption budget holds waits on.
fn too_long_without_node(view: &ClusterView, restart: &PodRestart, now: Tick) -> Option<String> {
    restart.spec.ladder_name.as_ref()?;
    match restart.spec.rung() {
        Rung::Reschedule if is_held(restart) => {}
        Rung::Reschedule
        | Rung::Container
        | Rung::Containers
        | Rung::Pod
        | Rung::Recreate
        | Rung::Rollback => return None,
    }
    let replacement = restart.status.as_ref()?.replacement.as_ref()?;
    if replacement.held_by != Some(ReplacementHold::NoOtherNode) {
        return None;
    }
    let since = Tick::from(replacement.held_since.as_ref()?);
    // each look asks the scheduler for itself: what the last one said may be over
    let pod = pod_of(view, restart).filter(|pod| !pods::is_ready(pod))?;
    let message = no_other_node(view, restart, pod, now)?;
    (now.since(since) >= NO_NODE_MAX)
        .then(|| format!("given up after {}: {message}", span::show(NO_NODE_MAX)))
}

fn pod_of<'a>(view: &'a ClusterView, restart: &PodRestart) -> Option<&'a Arc<HeldPod>> {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    view.pod(&NamespacedName::new(namespace, restart.spec.pod_name.as_str()))
}

fn evicts(plan: &WritePlan) -> bool {
    plan.writes().any(|write| matches!(write, WriteOperation::Evict(_)))
}

/// Why a ladder's request may not go on yet. What a person asked for is no ladder's business.
fn no_room(
    context: &RestartContext<'_>,
    restart: &PodRestart,
    now: Tick,
) -> Option<BudgetExhausted> {
    let RestartContext { view, register, limits, granted, role: _ } = *context;
    let ladder = restart.spec.ladder_name.as_deref()?;
    let pod = pod_of(view, restart)?;
    let policy = policies::policy_of_pod(context, pod).ok().flatten();
    let policy = policy.filter(|policy| policy.name == ladder);
    let asker = ladder::asker(pod, ladder);
    let (others, crowd) = (register.occupancy(now, &asker), register.crowd(now, &asker, granted));
    room_to_go_on(now, asker.pod_uid, policy.as_ref(), &others, &crowd, limits)
}

/// The requests of a namespace that are held back.
pub(crate) fn held<'a>(
    register: &'a LedgerRegister,
    namespace: &'a str,
) -> impl Iterator<Item = ControllerKey> + 'a {
    let names = register.held_requests(namespace);
    names.map(move |name| ControllerKey::PodRestart(NamespacedName::new(namespace, name)))
}

/// True when a request took room until now.
pub(crate) fn makes_room(change: &ObjectChange) -> bool {
    let takes = |object: Option<&ViewObject>| match object {
        Some(ViewObject::PodRestart(restart)) => {
            let phase = restart.status.as_ref().and_then(|status| status.phase);
            !is_held(restart) && !phase.is_some_and(PodRestartPhase::is_final)
        }
        Some(_) | None => false,
    };
    let is_refused = matches!(&change.after, Some(ViewObject::PodRestart(after)) if is_held(after));
    takes(change.before.as_ref()) && !takes(change.after.as_ref()) && !is_refused
}
