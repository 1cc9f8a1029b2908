//! What would become of a request if it were made now. For the rungs that make a new pod it is what
//! the controller itself plans; for those in place it is what the node looks at, as far as the API
//! shows it.

use std::sync::Arc;

use rekindle_types::Tick;
use rekindle_types::held::HeldPod;
use rekindle_types::restart_rules::stays_ended;
use rekindle_types::v1alpha1::{
    CarriedOutBy, PodRestart, PodRestartPhase, PodRestartStatus, ReplacementStep, Rung,
    has_run_to_its_end, not_restartable,
};

use super::{carried_out_by, is_finished, pod_of, reconcile, silence};
use crate::{ClusterView, NamespacedName, ResourceKind, ViewObject, WriteOperation, pods};

/// What would become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartPreview {
    /// It would be carried out.
    Goes,
    /// It would be taken up and wait for this.
    Waits(String),
    /// It would be refused for this.
    Refused(String),
}

/// Looks ahead. The view holds the request's pod and the namespace's requests; for Reschedule all
/// that the scheduler looks at, for Rollback the namespace's Deployments and ReplicaSets.
pub fn preview(view: &ClusterView, restart: &Arc<PodRestart>, now: Tick) -> RestartPreview {
    let asked = Arc::new(PodRestart { status: None, ..restart.as_ref().clone() });
    let mut view = view.clone();
    // a request that is not in the view is nobody's
    view.apply(ViewObject::PodRestart(asked.clone()));
    let plan = reconcile(&view, &NamespacedName::from_meta(&asked.metadata), now);
    let planned = plan.writes().find_map(|write| match write {
        WriteOperation::UpdateStatus(ViewObject::PodRestart(written)) => written.status.clone(),
        _ => None,
    });
    // what has no phase is the node's to take up
    match planned.filter(|status| status.phase.is_some()) {
        Some(status) => match preview_from_status(status) {
            RestartPreview::Goes => evicted(&view, &asked),
            known => known,
        },
        None => match carried_out_by(&asked) {
            CarriedOutBy::Node => in_place(&view, &asked),
            CarriedOutBy::Operator => evicted(&view, &asked),
        },
    }
}

/// What the controller would write first.
fn preview_from_status(status: PodRestartStatus) -> RestartPreview {
    let message = status.message.unwrap_or_default();
    let step = status.replacement.map(|replacement| replacement.step);
    match (status.phase, step) {
        (Some(PodRestartPhase::Running), Some(ReplacementStep::Held)) => {
            RestartPreview::Waits(message)
        }
        (None | Some(PodRestartPhase::Running | PodRestartPhase::Succeeded), _) => {
            RestartPreview::Goes
        }
        (
            Some(PodRestartPhase::Failed | PodRestartPhase::Refused | PodRestartPhase::Withdrawn),
            _,
        ) => RestartPreview::Refused(message),
    }
}

/// What would become of the pod when it is evicted.
fn evicted(view: &ClusterView, restart: &PodRestart) -> RestartPreview {
    let why = match restart.spec.rung() {
        Rung::Recreate | Rung::Reschedule => {
            view.pod(&pod_of(restart)).and_then(|pod| silence::why_no_eviction_ends(view, pod))
        }
        Rung::Container | Rung::Containers | Rung::Pod | Rung::Rollback => None,
    };
    why.map_or(RestartPreview::Goes, RestartPreview::Waits)
}

/// What the pod's node would say.
fn in_place(view: &ClusterView, restart: &PodRestart) -> RestartPreview {
    let name = pod_of(restart);
    let Some(pod) = view.pod(&name) else {
        return RestartPreview::Refused(format!("there is no pod {name}"));
    };
    if pods::is_terminating(pod) {
        return RestartPreview::Refused(format!("pod {name} is terminating"));
    }
    if pods::is_finished(pod) {
        return RestartPreview::Refused(format!(
            "pod {name} has finished (phase {})",
            pods::phase(pod)
        ));
    }
    let named = restart.spec.container_name.as_deref().zip(pod.spec.as_deref());
    if let Some(why) =
        named.and_then(|(container, spec)| not_restartable(spec, &name.to_string(), container))
    {
        return RestartPreview::Refused(why);
    }
    if let Some(container) = &restart.spec.container_name
        && has_ended_for_good(pod, container)
    {
        return RestartPreview::Refused(has_run_to_its_end(&name.to_string(), container));
    }
    if let Some(other) = under_way(view, restart) {
        return RestartPreview::Waits(format!(
            "restart {other} of pod {name} is in progress: it would be refused while that one stops all containers, and take its place after that"
        ));
    }
    silence::why_no_restart_begins(view, pod).map_or(RestartPreview::Goes, RestartPreview::Waits)
}

/// Whether a regular container has run to its end.
fn has_ended_for_good(pod: &HeldPod, name: &str) -> bool {
    let statuses = pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
    let mut ends = statuses.filter(|s| s.name == name).filter_map(|s| s.state.terminated());
    let end = ends.next().map(|end| end.exit_code);
    pod.spec.as_ref().zip(end).is_some_and(|(spec, code)| {
        let named = spec.containers.iter().find(|container| container.name == name);
        named.is_some_and(|c| stays_ended(c, spec.restart_policy.as_deref(), code))
    })
}

/// Another restart in place of the same pod that is not finished.
fn under_way(view: &ClusterView, restart: &PodRestart) -> Option<String> {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    view.in_namespace(ResourceKind::PodRestart, namespace).find_map(|object| match object {
        ViewObject::PodRestart(other)
            if other.spec.pod_name == restart.spec.pod_name
                && other.metadata.name != restart.metadata.name
                && carried_out_by(other) == CarriedOutBy::Node
                && !is_finished(other) =>
        {
            other.metadata.name.clone()
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
