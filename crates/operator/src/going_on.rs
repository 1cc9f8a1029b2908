//! Requests of ladders that a disruption budget or the lack of a node held back ask for room again before they go on: a crowd that waited
//! for one node would otherwise be evicted together when it comes. Pure, as the controllers are.

use rekindle_controllers::pod_restart::{is_held, still_held};
use rekindle_controllers::{Change, Key, NamespacedName, Object, Plan, Write, reconcile};
use rekindle_ladder::{NoRoom, Register, room_to_go_on};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase};
use rekindle_types::{Tick, TickDuration};

use crate::around::Around;
use crate::work::Work;
use crate::{ladder, policies};

/// Room is asked for again after this long, also when nobody tells that there is some: a request that was refused by its disruption budget
/// meanwhile has given its room back.
const ASK_AGAIN: TickDuration = TickDuration::from_secs(5);

/// What is to be done for a request.
pub(crate) fn plan(around: &Around<'_>, name: &NamespacedName, now: Tick) -> Plan {
    let view = around.view;
    let plan = reconcile(view, &Key::PodRestart(name.clone()), now);
    let held = view.pod_restart(name).filter(|restart| is_held(restart) && evicts(&plan));
    let Some(restart) = held else { return plan };
    let Some(NoRoom { until, why }) = no_room(around, restart, now) else { return plan };
    let mut waits = Plan::default();
    if let Some(write) = still_held(restart, &why, now) {
        waits.then(write);
    }
    waits.look_again(until.min(now + ASK_AGAIN));
    waits
}

fn evicts(plan: &Plan) -> bool {
    plan.writes().any(|write| matches!(write, Write::Evict(_)))
}

/// Why a ladder's request may not go on yet. What a person asked for is no ladder's business.
fn no_room(around: &Around<'_>, restart: &PodRestart, now: Tick) -> Option<NoRoom> {
    let Around { view, register, limits, granted } = *around;
    let ladder = restart.spec.ladder_name.as_deref()?;
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    let pod = view.pod(&NamespacedName::new(namespace, restart.spec.pod_name.as_str()))?;
    let policy = policies::of_pod(view, pod).ok().flatten();
    let policy = policy.filter(|policy| policy.name == ladder);
    let asker = ladder::asker(pod, ladder);
    let (others, crowd) = (register.occupancy(now, &asker), register.crowd(now, &asker, granted));
    room_to_go_on(now, asker.pod_uid, policy.as_ref(), &others, &crowd, limits)
}

/// The requests of a namespace that are held back.
pub(crate) fn held<'a>(
    register: &'a Register,
    namespace: &'a str,
) -> impl Iterator<Item = Work> + 'a {
    let names = register.held_requests(namespace);
    names.map(move |name| Work::Controller(Key::PodRestart(NamespacedName::new(namespace, name))))
}

/// True when a request took room until now.
pub(crate) fn makes_room(change: &Change) -> bool {
    let takes = |object: Option<&Object>| match object {
        Some(Object::PodRestart(restart)) => {
            let phase = restart.status.as_ref().and_then(|status| status.phase);
            !is_held(restart) && !phase.is_some_and(PodRestartPhase::is_final)
        }
        Some(_) | None => false,
    };
    let is_refused = matches!(&change.after, Some(Object::PodRestart(after)) if is_held(after));
    takes(change.before.as_ref()) && !takes(change.after.as_ref()) && !is_refused
}
