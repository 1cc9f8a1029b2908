//! Preemption: pods of lower priority end, so that a pod that fits nowhere fits somewhere.
//!
//! ```text
//!   fits nowhere ─► may it preempt? ─► on which nodes would it help, and which pods would have to go? ─► the node that loses least
//!                                                                                                             │
//!   bound ◄─ their node has room ◄─ they are gone ◄─ they end, with their grace ◄─ condition, delete ◄─ nominatedNodeName
//! ```
//! The nomination is written first: room that is being made counts as taken for pods of the same or
//! a lower priority. Nothing is remembered here: who finds its nomination and no pods that end
//! looks anew. Source: Kubernetes documentation, "Pod Priority and Preemption"; order and words are
//! those of kube-scheduler's DefaultPreemption.

mod budgets;
mod choice;
mod victims;

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodCondition;
use rekindle_types::held::HeldPod;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick};
use serde_json::json;

pub(crate) use budgets::breaking_a_budget;

use super::fit::PodPlacement;
use super::refusal::{NodeRefusal, NodeRefusals};
use super::{NAME, UnfitNodes, priority};
use crate::events::EventNote;
use crate::patches::status_patch;
use crate::plan::{DependentPolicy, PlannedWrite, WriteNotes, WriteOperation};
use crate::{ClusterView, NamespacedName, ResourceKind, ViewObject, pods};
pub(super) use victims::PreemptionVictims;

/// Nodes among which one is chosen, at least and as a share of those that come into question
/// (upstream's minCandidateNodesAbsolute and minCandidateNodesPercentage).
const CANDIDATES_MIN: usize = 100;
const CANDIDATES_SHARE: usize = 10;
/// What a pod says that never preempts.
const NEVER: &str = "not eligible due to preemptionPolicy=Never.";
/// The reason in condition DisruptionTarget.
const BY_SCHEDULER: &str = "PreemptionByScheduler";

/// What preemption can do for a pod.
pub(super) enum PreemptionResult<'a> {
    /// It fits when these are gone.
    Helps(PreemptionVictims<'a>),
    /// Nothing, and no nomination holds any more. The message is the last part of the pod's.
    Useless(String),
    /// Nothing now; a nomination stays.
    NotNow(&'static str),
}

/// Looks for pods that have to go for this one.
pub(super) fn look<'a>(
    view: &'a ClusterView,
    fit: &PodPlacement<'a>,
    unfit: &UnfitNodes<'a>,
) -> PreemptionResult<'a> {
    if let Some(reason) = ineligibility(view, fit.pod, unfit) {
        return PreemptionResult::NotNow(reason);
    }
    let enough = CANDIDATES_MIN.max(unfit.curable.len() / CANDIDATES_SHARE);
    let mut fit = fit.clone();
    let mut refusals = NodeRefusals::default();
    let mut candidates: Vec<PreemptionVictims<'a>> = Vec::new();
    for host in &unfit.curable {
        match victims::select(view, &mut fit, *host) {
            Ok(victims) => candidates.push(victims),
            Err(refusal) => refusals.add(&refusal),
        }
        if candidates.len() == enough {
            break;
        }
    }
    match choice::best(candidates) {
        Some(victims) => PreemptionResult::Helps(victims),
        None => {
            let others = unfit.refusals.nodes() - unfit.curable.len();
            refusals.add_many(&useless(), others);
            PreemptionResult::Useless(refusals.explain())
        }
    }
}

fn useless() -> NodeRefusal {
    NodeRefusal::final_for("Preemption is not helpful for scheduling")
}

/// The last part of the message of a pod whose volumes keep it from every node.
pub(super) fn no_help(pod: &HeldPod, node_count: usize) -> String {
    if is_never(pod) {
        return NEVER.to_owned();
    }
    let mut refusals = NodeRefusals::default();
    refusals.add_many(&useless(), node_count);
    refusals.explain()
}

/// True for a pod that never has others end (`preemptionPolicy`).
pub(super) fn is_never(pod: &HeldPod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never")
}

/// Why the pod may not have others end, or not now: those that end for it already are waited for.
fn ineligibility(
    view: &ClusterView,
    pod: &HeldPod,
    unfit: &UnfitNodes<'_>,
) -> Option<&'static str> {
    if is_never(pod) {
        return Some(NEVER);
    }
    let nominated = pods::nominated_node(pod)?;
    let node = view.cluster().node(nominated)?.node;
    let is_curable = unfit.curable.iter().any(|curable| Arc::ptr_eq(curable.node, node));
    let mut there = view.pods_on(nominated);
    let ends = there.any(|other| priority(other) < priority(pod) && ends_by_preemption(other));
    (is_curable && ends).then_some("not eligible due to a terminating pod on the nominated node.")
}

fn ends_by_preemption(pod: &HeldPod) -> bool {
    let condition = pods::condition(pod, "DisruptionTarget");
    pods::is_terminating(pod)
        && !pods::is_finished(pod)
        && condition
            .is_some_and(|c| c.status == "True" && c.reason.as_deref() == Some(BY_SCHEDULER))
}

/// The writes behind the nomination: others of lower priority lose theirs, the victims are told
/// why, then deleted. Those that chose the node since it is nominated found room beside this pod:
/// were they to lose that at each look, they would choose it anew without end.
pub(super) fn carry_out(
    view: &ClusterView,
    preemptor: &HeldPod,
    victims: &PreemptionVictims<'_>,
    now: Tick,
) -> Vec<Vec<PlannedWrite>> {
    let node = victims.node.metadata.name.as_deref().unwrap_or_default();
    let is_news = pods::nominated_node(preemptor) != Some(node);
    let weaker =
        view.nominated_to(node).filter(|other| is_news && priority(other) < priority(preemptor));
    let freed = weaker.map(|other| PlannedWrite::from(without_nomination(other)));
    let alive = victims.pods.iter().filter(|pod| !pods::is_terminating(pod));
    let told = alive.clone().map(|pod| PlannedWrite::from(told(pod, preemptor, now)));
    let ended = alive.map(|pod| ended(pod, preemptor, node));
    vec![freed.collect(), told.collect(), ended.collect()]
}

fn without_nomination(pod: &Arc<HeldPod>) -> WriteOperation {
    status_patch(ResourceKind::Pod, &pod.metadata, json!({"nominatedNodeName": null}))
}

fn told(victim: &Arc<HeldPod>, preemptor: &HeldPod, now: Tick) -> WriteOperation {
    let scheduler = preemptor.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
    let condition = PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some(BY_SCHEDULER.to_owned()),
        message: Some(format!(
            "{}: preempting to accommodate a higher priority pod",
            scheduler.unwrap_or(NAME)
        )),
        last_transition_time: Some(now.to_time()),
        observed_generation: victim.metadata.generation,
        ..Default::default()
    };
    let mut conditions: Vec<_> =
        victim.status.iter().flat_map(|s| s.conditions.iter().flatten()).cloned().collect();
    conditions.retain(|c| c.type_ != condition.type_);
    conditions.push(condition);
    status_patch(ResourceKind::Pod, &victim.metadata, json!({"conditions": conditions}))
}

fn ended(victim: &Arc<HeldPod>, preemptor: &HeldPod, node: &str) -> PlannedWrite {
    let about = ViewObject::Pod(victim.clone());
    let uid = preemptor.metadata.uid.as_deref().unwrap_or_default();
    let success = EventNote::new(
        &about,
        EventSeverity::Normal,
        event::PREEMPTED,
        format!("Preempted by pod {uid} on node {node}"),
        NAME,
    );
    let failure = EventNote::new(
        &about,
        EventSeverity::Warning,
        event::FAILED_SCHEDULING,
        format!("preempting for pod {}: ", NamespacedName::from_meta(&preemptor.metadata)),
        NAME,
    );
    let write = WriteOperation::delete(&about, DependentPolicy::Default);
    PlannedWrite { write, report: Some(WriteNotes { success: vec![success], failure }) }
}
