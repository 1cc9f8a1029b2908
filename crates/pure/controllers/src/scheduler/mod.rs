//! The scheduler: finds a node for each pod that has none.
//!
//! A pod is looked at when it appears, and again when something changed that may let it fit: a node
//! came, changed or is less loaded. Pods that are looked at together go by their priority, the
//! longest waiting first. Nothing is polled. Of the nodes that fit (of more than a hundred, of a
//! part of them: `sample`), the one with the best score is taken (`scores`), then the first by
//! name. Where none does, pods of lower priority may have to go (`preemption`).

mod affinity;
mod attempts;
mod candidate;
mod claims;
mod filter;
mod fit;
mod locality;
mod machine_ports;
mod neighbours;
mod preemption;
mod queue;
mod refusal;
mod sample;
mod scores;
mod spread;
mod taints;
mod volume_zones;
mod wake;

use std::cmp::Reverse;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PodCondition};
use rekindle_types::held::HeldPod;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick};
use serde_json::json;

use crate::cluster::NodeEntry;
use crate::events::EventNote;
use crate::patches::status_patch;
use crate::plan::{PlannedWrite, WriteNotes, WriteOperation};
use crate::{
    ClusterView, NamespacedName, ObjectId, ResourceKind, ViewObject, WritePlan, avoidance, pods,
};
pub(crate) use affinity::{fits_volume, matches as matches_node};
pub use attempts::SchedulingAttempt;
pub(crate) use attempts::SchedulingAttempts;
use candidate::NodeCandidate;
use claims::VolumeClaims;
use fit::PodPlacement;
use preemption::PreemptionResult;
pub(crate) use preemption::breaking_a_budget;
use queue::QueueState;
use refusal::{NodeRefusals, RefusalRemedy};
use sample::NodeSample;
pub(crate) use wake::affected;

/// The scheduler's name in `spec.schedulerName`, and `source.component` of its events.
pub const NAME: &str = "default-scheduler";

/// True when this scheduler should find a node for it now.
pub(crate) fn is_waiting(pod: &HeldPod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    pods::node(pod).is_none()
        && pods::is_active(pod)
        && spec.scheduler_name.as_deref().is_none_or(|name| name == NAME)
        && spec.scheduling_gates.is_empty()
}

/// Where a waiting pod stands in the queue: those that do not back off, then the higher priority
/// first, then the older pod (upstream's PrioritySort). A driver looks at what is due at the same
/// time in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchedulingRank(QueueState, Reverse<i32>, Tick);

pub(crate) fn turn(view: &ClusterView, name: &NamespacedName) -> SchedulingRank {
    let Some(pod) = view.pod(name) else { return SchedulingRank::default() };
    let since = pod.metadata.creation_timestamp.as_ref().map_or(Tick::ZERO, Tick::from);
    let standing = queue::standing(view, name, view.now());
    SchedulingRank(standing, Reverse(priority(pod)), since)
}

/// A pod's priority; the API writes that of its class.
fn priority(pod: &HeldPod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}

/// The pods that are to come to the node and that this one does not get ahead of: room is made for
/// them.
fn those_ahead<'a>(
    view: &'a ClusterView,
    pod: &'a HeldPod,
    node: &str,
) -> impl Iterator<Item = &'a Arc<HeldPod>> {
    let (own, uid) = (priority(pod), pod.metadata.uid.as_deref());
    let others = view.nominated_to(node);
    others.filter(move |other| other.metadata.uid.as_deref() != uid && priority(other) >= own)
}

/// Binds the pod, or says why no node fits.
pub(crate) fn reconcile(view: &ClusterView, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(pod) = view.pod(name).filter(|pod| is_waiting(pod)) else { return plan };
    if let Some(until) = queue::held_until(view, name, now) {
        plan.look_again(until);
        return plan;
    }
    let claims = match VolumeClaims::new(view, pod) {
        Ok(claims) => claims,
        Err(reason) => {
            let message = nowhere(view, &reason);
            let nodes = view.cluster().node_count();
            let message = format!("{message} preemption: {}", preemption::no_help(pod, nodes));
            refuse(pod, &message, NominatedNode::None, now, &mut plan);
            return plan;
        }
    };
    let seen = avoidance::as_of(pod, now);
    let fit = PodPlacement::new(view, &seen, &claims);
    match place(view, pod, (&fit, &claims), &[]) {
        Ok(node) if claims.is_ready() => bind(pod, node, &mut plan),
        Ok(node) => make_volumes(pod, node, &claims, &mut plan),
        Err(nowhere) => preempt(view, pod, (&fit, &claims), &nowhere, now, &mut plan),
    }
    plan
}

/// Why no node takes a pod.
struct SchedulingFailure<'v> {
    /// None of those that it does not keep away from.
    open: UnfitNodes<'v>,
    /// The pod without its exclusions, if it has some, and why no node takes that either.
    lifted: Option<(HeldPod, UnfitNodes<'v>)>,
}

impl<'v> SchedulingFailure<'v> {
    /// What there is to say of all nodes.
    fn unfit(&self) -> &UnfitNodes<'v> {
        self.lifted.as_ref().map_or(&self.open, |(_, unfit)| unfit)
    }
}

/// The node for a pod: of those that it does not keep away from the best, else of the others the
/// one that it would come back to first.
fn place<'v>(
    view: &'v ClusterView,
    pod: &HeldPod,
    (fit, claims): (&PodPlacement<'_>, &VolumeClaims<'_>),
    except: &[&str],
) -> Result<&'v Arc<Node>, Box<SchedulingFailure<'v>>> {
    let open = match fitting(view, fit, except) {
        Ok(node) => return Ok(node),
        Err(unfit) => unfit,
    };
    let Some(lifted) = avoidance::lifted(pod) else {
        return Err(Box::new(SchedulingFailure { open, lifted: None }));
    };
    let fits = |pod: &HeldPod| fitting(view, &PodPlacement::new(view, pod, claims), except);
    // most often there is none, whatever is avoided
    if let Err(unfit) = fits(&lifted) {
        return Err(Box::new(SchedulingFailure { open, lifted: Some((lifted, unfit)) }));
    }
    let node = avoidance::ever_less(pod).find_map(|pod| fits(&pod).ok());
    node.ok_or_else(|| Box::new(SchedulingFailure { open, lifted: None }))
}

/// Says why the pod fits nowhere, and has others end for it where that helps: first where it does
/// not keep away from.
fn preempt(
    view: &ClusterView,
    pod: &Arc<HeldPod>,
    (fit, claims): (&PodPlacement<'_>, &VolumeClaims<'_>),
    nowhere: &SchedulingFailure<'_>,
    now: Tick,
    plan: &mut WritePlan,
) {
    let mut answer = preemption::look(view, fit, &nowhere.open);
    if let (PreemptionResult::Useless(_), Some((lifted, unfit))) = (&answer, &nowhere.lifted) {
        answer = preemption::look(view, &PodPlacement::new(view, lifted, claims), unfit);
    }
    let unfit = nowhere.unfit();
    let message = unfit.refusals.explain();
    if unfit.refusals.nodes() == 0 {
        return refuse(pod, &message, NominatedNode::None, now, plan);
    }
    match answer {
        PreemptionResult::Helps(victims) => {
            let node = victims.node.metadata.name.as_deref().unwrap_or_default();
            refuse(pod, &message, NominatedNode::To(node), now, plan);
            let batches = preemption::carry_out(view, pod, &victims, now);
            batches.into_iter().for_each(|batch| plan.then_all(batch));
        }
        PreemptionResult::Useless(why) => {
            refuse(pod, &format!("{message} preemption: {why}"), NominatedNode::None, now, plan);
        }
        PreemptionResult::NotNow(why) => {
            refuse(pod, &format!("{message} preemption: {why}"), NominatedNode::Stays, now, plan);
        }
    }
}

/// The best node for the pod, or why there is none; those of `except` are left out.
///
/// # Errors
/// The reasons of all other nodes together.
pub(crate) fn best_node<'a>(
    view: &'a ClusterView,
    pod: &'a HeldPod,
    except: &[&str],
) -> Result<&'a Arc<Node>, String> {
    let claims = VolumeClaims::new(view, pod).map_err(|reason| nowhere(view, &reason))?;
    let seen = avoidance::as_of(pod, view.now());
    let found = place(view, pod, (&PodPlacement::new(view, &seen, &claims), &claims), except);
    found.map_err(|nowhere| nowhere.unfit().refusals.explain())
}

/// Whether this node takes the pod.
///
/// # Errors
/// The reasons why it does not.
pub(crate) fn fits_on(view: &ClusterView, pod: &HeldPod, node: &str) -> Result<(), String> {
    let claims = VolumeClaims::new(view, pod)?;
    let fit = PodPlacement::new(view, pod, &claims);
    let host = view.cluster().node(node).ok_or_else(|| format!("node {node:?} not found"))?;
    match fit.with_nominated(host) {
        Ok(_) => Ok(()),
        Err(refusal) => {
            let mut refusals = NodeRefusals::default();
            refusals.add(&refusal);
            Err(refusals.explain())
        }
    }
}

fn nowhere(view: &ClusterView, reason: &str) -> String {
    format!("0/{} nodes are available: {reason}.", view.cluster().node_count())
}

/// Why no node takes a pod.
struct UnfitNodes<'a> {
    refusals: NodeRefusals,
    /// The nodes where it may help that pods end.
    curable: Vec<NodeEntry<'a>>,
}

/// The best node, or why none is. One that was nominated is taken if it fits: room was made there.
fn fitting<'v: 'a, 'a>(
    view: &'v ClusterView,
    fit: &PodPlacement<'a>,
    except: &[&str],
) -> Result<&'v Arc<Node>, UnfitNodes<'v>> {
    let nominated = pods::nominated_node(fit.pod).filter(|name| !except.contains(name));
    let nominated = nominated.and_then(|name| view.cluster().node(name));
    if let Some(host) = nominated
        && fit.with_nominated(host).is_ok()
    {
        return Ok(host.node);
    }
    let mut candidates = Vec::new();
    let mut unfit = UnfitNodes { refusals: NodeRefusals::default(), curable: Vec::new() };
    let sample = NodeSample::new(fit.pod, view.cluster().node_count());
    for host in sample.walk(view.cluster()) {
        if sample.is_enough(candidates.len()) {
            break;
        }
        if except.contains(&host.name) {
            continue;
        }
        match fit.with_nominated(host) {
            Err(refusal) => {
                unfit.refusals.add(&refusal);
                match refusal.cure() {
                    RefusalRemedy::PodsEnd => unfit.curable.push(host),
                    RefusalRemedy::Nothing => {}
                }
            }
            Ok(state) => candidates.push(NodeCandidate {
                host,
                free_share: filter::free_share(&state, &fit.requests),
                balance: filter::balance(&state, &fit.requests),
            }),
        }
    }
    scores::best(view, fit, &candidates).ok_or(unfit)
}

fn bind(pod: &Arc<HeldPod>, node: &Node, plan: &mut WritePlan) {
    let about = ViewObject::Pod(pod.clone());
    let node = node.metadata.name.clone().unwrap_or_default();
    let name = NamespacedName::from_meta(&pod.metadata);
    let success = EventNote::new(
        &about,
        EventSeverity::Normal,
        event::SCHEDULED,
        format!("Successfully assigned {name} to {node}"),
        NAME,
    );
    let failure = EventNote::new(
        &about,
        EventSeverity::Warning,
        event::FAILED_SCHEDULING,
        format!("binding rejected by node {node}: "),
        NAME,
    );
    let uid = about.uid().to_owned();
    let write = WriteOperation::Bind { pod: about.id(), uid, node };
    plan.then_all(vec![PlannedWrite {
        write,
        report: Some(WriteNotes { success: vec![success], failure }),
    }]);
}

/// Has the pod's volumes made for a node. The pod is bound when they are there; its room is kept
/// for it until then, as its volumes cannot follow it elsewhere.
fn make_volumes(pod: &HeldPod, node: &Node, claims: &VolumeClaims<'_>, plan: &mut WritePlan) {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    if pods::nominated_node(pod) != Some(name) {
        plan.then(WriteOperation::Nominate {
            pod: ObjectId::new(ResourceKind::Pod, NamespacedName::from_meta(&pod.metadata)),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            node: name.to_owned(),
        });
    }
    plan.then_all(claims.select(node).map(PlannedWrite::from).collect());
}

/// What becomes of `status.nominatedNodeName`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NominatedNode<'a> {
    /// There is none any more.
    None,
    /// It stays as it is.
    Stays,
    /// It is this node.
    To(&'a str),
}

impl<'a> NominatedNode<'a> {
    fn of(self, pod: &'a HeldPod) -> Option<&'a str> {
        match self {
            NominatedNode::None => None,
            NominatedNode::Stays => pods::nominated_node(pod),
            NominatedNode::To(node) => Some(node),
        }
    }
}

/// Says so in an event and in condition PodScheduled, each only when it is news, and notes where
/// room is made.
fn refuse(
    pod: &Arc<HeldPod>,
    message: &str,
    nomination: NominatedNode<'_>,
    now: Tick,
    plan: &mut WritePlan,
) {
    let about = ViewObject::Pod(pod.clone());
    plan.notes.push(EventNote::new(
        &about,
        EventSeverity::Warning,
        event::FAILED_SCHEDULING,
        message,
        NAME,
    ));
    plan.unfit = Some(SchedulingAttempt::new(pod, now));
    plan.look_again(now + queue::FLUSHED_AFTER);
    let current = pods::condition(pod, "PodScheduled");
    let is_told = current.is_some_and(|c| {
        c.status == "False"
            && c.reason.as_deref() == Some("Unschedulable")
            && c.message.as_deref() == Some(message)
    });
    let nominated = nomination.of(pod);
    if is_told && nominated == pods::nominated_node(pod) {
        return;
    }
    let since = current
        .filter(|c| c.status == "False")
        .and_then(|c| c.last_transition_time.clone())
        .unwrap_or_else(|| now.to_time());
    let mut conditions: Vec<PodCondition> =
        pod.status.iter().flat_map(|s| s.conditions.iter().flatten()).cloned().collect();
    conditions.retain(|c| c.type_ != "PodScheduled");
    conditions.push(PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(since),
        observed_generation: pod.metadata.generation,
        ..Default::default()
    });
    let status = json!({"conditions": conditions, "nominatedNodeName": nominated});
    plan.then(status_patch(ResourceKind::Pod, &pod.metadata, status));
}
