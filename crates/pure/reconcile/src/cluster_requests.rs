//! Requests on a cluster that is not ours. One that cannot be carried out there, or may not be, is
//! refused at once: nothing else would ever answer it. What was begun goes on, also when the
//! operator only observes since, or the namespace is not enabled any more: a pod without a
//! controller may be waiting to be created again. Where ladders never act nothing goes on, whatever
//! a status says. The operator may have been moved there, so a request with the only copy of a pod
//! stays until the pod is there again. Pure, as the controllers are.

use rekindle_controllers::pod_restart::{KeptPod, kept_pod, left_to_hand, refuse, selected_pods};
use rekindle_controllers::{NamespacedName, WriteOperation, WritePlan, pods};
use rekindle_ladder::LadderMode;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{CarriedOutBy, PodRestart, PodRestartPhase, ReplacementStep, Rung};

use crate::planner_role::ClusterLadders;
use crate::restart_context::RestartContext;

const ONLY_OBSERVES: &str = "the operator only observes: start it with --mode act";

/// What is done for a request where ladders never act, and that has the only copy of a pod: when
/// the pod has ended, it says how to create it. It is neither released nor removed before that. A
/// request with a copy of anything else is refused, whatever its phase: a failed one would still
/// be owed its pod.
pub(crate) fn kept_copy(
    context: &RestartContext<'_>,
    restart: &PodRestart,
    now: Tick,
) -> Option<WritePlan> {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    context.role.cluster().filter(|ladders| ladders.excludes(namespace))?;
    let why = context.role.why_not_enabled(context.view, namespace)?;
    let mut plan = WritePlan::default();
    let pod = &restart.spec.pod_name;
    match kept_pod(context.view, restart)? {
        KeptPod::Ends => {}
        KeptPod::Foreign => {
            let why = format!("{why}; status.replacement.pod is no copy of pod {pod}");
            plan.then(refuse(restart, why, now));
        }
        KeptPod::Gone => {
            let name = restart.metadata.name.as_deref().unwrap_or_default();
            let what = format!(
                "{why}: create pod {pod} by hand: kubectl get podrestart {name} -n {namespace} \
                 -o jsonpath='{{.status.replacement.pod}}' | kubectl create -n {namespace} -f -"
            );
            left_to_hand(restart, &what, now).into_iter().for_each(|write| plan.then(write));
        }
    }
    Some(plan)
}

/// The refusal of a request, if it has to be refused.
pub(crate) fn refusal(
    context: &RestartContext<'_>,
    restart: &PodRestart,
    now: Tick,
) -> Option<WriteOperation> {
    let ladders = context.role.cluster()?;
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    if is_over(restart) || (is_begun(restart) && !ladders.excludes(namespace)) {
        return None;
    }
    let is_in_place = restart.spec.rung().carried_out_by() == CarriedOutBy::Node;
    if is_in_place && restart.is_of_group() {
        let why = match restart.group() {
            Some(_) => return None, // its members are fixed: it goes on
            None => group_refusal(context, ladders, restart)?,
        };
        return Some(refuse(restart, why, now));
    }
    let rung = restart.spec.rung();
    let why = match (ladders.mode, rung.carried_out_by()) {
        // its answer: the agent of the pod's node
        (_, CarriedOutBy::Node) if is_of_agent(context, ladders, restart) => return None,
        (LadderMode::Observe, _) => ONLY_OBSERVES.to_owned(),
        (LadderMode::Act, CarriedOutBy::Node) => match context.view.pod(&pod_of(restart)) {
            None => format!("there is no pod {}", restart.spec.pod_name),
            Some(pod) if pods::node(pod).is_none() => {
                format!(
                    "the pod has no node yet, so there is nothing that rung {rung} could restart"
                )
            }
            Some(_) => format!(
                "the pod's node has no agent for rung {rung}: ask for Recreate, Reschedule or Rollback"
            ),
        },
        (LadderMode::Act, CarriedOutBy::Operator) => {
            context.role.why_not_enabled(context.view, namespace)?
        }
    };
    Some(refuse(restart, why, now))
}

/// Why a group is not restarted in place. Agents hold its pods back, frozen, until all have
/// stopped.
fn group_refusal(
    context: &RestartContext<'_>,
    ladders: &ClusterLadders,
    restart: &PodRestart,
) -> Option<String> {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    match (restart.spec.rung(), ladders.mode) {
        _ if ladders.excludes(namespace) => {
            return context.role.why_not_enabled(context.view, namespace);
        }
        (_, LadderMode::Observe) => return Some(ONLY_OBSERVES.to_owned()),
        (Rung::Pod, LadderMode::Act) => {}
        (rung, LadderMode::Act) => {
            return Some(format!(
                "on a cluster no group is restarted on rung {rung}: a kubelet starts containers again at once in a sandbox that stays; ask for Pod, Recreate or Reschedule"
            ));
        }
    }
    let active = selected_pods(context.view, restart).filter(|pod| pods::is_active(pod));
    let left: Vec<&str> = ladders
        .not_held_back(context.view, active)
        .filter_map(|pod| pod.metadata.name.as_deref())
        .collect();
    let (first, others) = left.split_first()?;
    let more = match others.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "no agent that freezes pods is ready on the node of pod {first}{more}: set the chart's value agent.freezePods, or ask for Recreate or Reschedule"
    ))
}

/// Whether an agent answers a request in place: it has begun to, or it can.
fn is_of_agent(
    context: &RestartContext<'_>,
    ladders: &ClusterLadders,
    restart: &PodRestart,
) -> bool {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    if ladders.excludes(namespace) {
        return false;
    }
    if restart.status.as_ref().is_some_and(|status| status.node_name.is_some()) {
        return true;
    }
    let node = context.view.pod(&pod_of(restart)).and_then(|pod| pods::node(pod));
    node.is_some_and(|node| ladders.has_agent(context.view, node))
}

fn pod_of(restart: &PodRestart) -> NamespacedName {
    let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
    NamespacedName::new(namespace, restart.spec.pod_name.as_str())
}

fn is_over(restart: &PodRestart) -> bool {
    let phase = restart.status.as_ref().and_then(|status| status.phase);
    phase.is_some_and(PodRestartPhase::is_final)
}

fn is_begun(restart: &PodRestart) -> bool {
    let Some(status) = &restart.status else { return false };
    let is_replacing =
        status.replacement.as_ref().is_some_and(|replacement| match replacement.step {
            ReplacementStep::Held => false,
            ReplacementStep::Evicting | ReplacementStep::Starting => true,
        });
    is_replacing || status.rollback.is_some()
}
