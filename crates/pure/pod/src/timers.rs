//! The deadlines of a pod. There is no timer to be set or cancelled: each deadline is a field of
//! the state that it belongs to, this table lists them, and a step acts on those that have passed.

use rekindle_types::Tick;

use crate::containers::Containers;
use crate::context::PodContext;
use crate::journal::Halt;
use crate::outbox::Outbox;

/// The earliest deadline.
pub(crate) fn next_deadline(
    context: &PodContext<'_>,
    containers: &Containers,
    outbox: &Outbox,
) -> Option<Tick> {
    let PodContext { lifecycle, .. } = context;
    if lifecycle.is_recovering() || lifecycle.is_finished() {
        return None;
    }
    containers
        .deadlines(context, outbox)
        // a failed mount or refresh is tried again
        .chain(context.volumes.deadline())
        // a failed sandbox, or a failed teardown, is tried again
        .chain(context.sandboxes.deadlines())
        // limits of the pod that could not be changed are tried again
        .chain(context.resize.deadline())
        // a failed removal, or limits that could not be changed, are tried again
        .chain(containers.retry_deadlines())
        // a member of a group waits no longer for the others
        .chain(context.restarts.barrier_deadline())
        // activeDeadlineSeconds
        .chain(lifecycle.active_deadline(context.desired.active_deadline()))
        // the grace of a halt ends: sidecars whose turn has not come are signalled
        .chain(halt_deadline(context, containers, outbox))
        // one that has passed waits for something else, which will wake it
        .filter(|deadline| *deadline > context.now)
        .min()
}

/// When sidecars are signalled although it is not their turn.
fn halt_deadline(
    context: &PodContext<'_>,
    containers: &Containers,
    outbox: &Outbox,
) -> Option<Tick> {
    if context.stands_still(outbox) || containers.await_halted_start() {
        return None;
    }
    match context.halt()? {
        Halt::AtOnce => None,
        Halt::By { deadline, .. } => Some(deadline).filter(|_| !containers.nothing_lives()),
    }
}
