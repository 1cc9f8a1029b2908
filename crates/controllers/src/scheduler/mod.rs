//! The scheduler: finds a node for each pod that has none.
//!
//! A pod is looked at when it appears, and again when something changed that may let it fit: a node came, changed or is
//! less loaded. Pods that are looked at together go by their priority, the longest waiting first. Nothing is polled. Of the nodes that fit,
//! the one with the best score is taken (`scores`), then the first by name.
//!
//! Not here yet: preemption. The API warns about its fields.

pub mod requests;

mod affinity;
mod claims;
mod filter;
pub(crate) mod neighbours;
mod ports;
mod scores;
mod spread;
pub(crate) mod taints;
mod wake;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use rekindle_types::Tick;
use rekindle_types::reasons::event;
use serde_json::json;

use crate::events::{Note, Severity};
use crate::plan::{Part, Report, Step, Write};
use crate::{Kind, NamespacedName, Object, ObjectId, Plan, View, avoidance, pods};
pub(crate) use affinity::{fits_volume, matches as matches_node};
use claims::Claims;
use neighbours::Neighbours;
use ports::Ports;
use requests::Requests;
use scores::Candidate;
use spread::Spread;
pub(crate) use wake::affected;

/// The scheduler's name in `spec.schedulerName`, and `source.component` of its events.
pub const NAME: &str = "default-scheduler";

/// True when this scheduler should find a node for it now.
fn is_waiting(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    pods::node(pod).is_none()
        && pods::is_active(pod)
        && spec.scheduler_name.as_deref().is_none_or(|name| name == NAME)
        && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
}

/// Where a waiting pod stands in the queue: the higher priority first, then the older pod (upstream's PrioritySort). A driver
/// looks at what is due at the same time in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(Reverse<i32>, Tick);

pub(crate) fn turn(view: &View, name: &NamespacedName) -> Turn {
    let Some(pod) = view.pod(name) else { return Turn::default() };
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
    let since = pod.metadata.creation_timestamp.as_ref().map_or(Tick::ZERO, Tick::from);
    Turn(Reverse(priority), since)
}

/// Binds the pod, or says why no node fits.
pub(crate) fn reconcile(view: &View, name: &NamespacedName, now: Tick) -> Plan {
    let mut plan = Plan::default();
    let Some(pod) = view.pod(name).filter(|pod| is_waiting(pod)) else { return plan };
    let claims = match Claims::of(view, pod) {
        Ok(claims) => claims,
        Err(reason) => {
            refuse(pod, &nowhere(view, &reason), now, &mut plan);
            return plan;
        }
    };
    match fitting(view, &avoidance::as_of(pod, now), &claims, None) {
        Ok(node) if claims.is_ready() => bind(pod, node, &mut plan),
        // The pod is bound when its volumes are there.
        Ok(node) => plan.then_all(claims.select(node).map(Step::from).collect()),
        Err(message) => {
            refuse(pod, &message, now, &mut plan);
            if let Some(at) = avoidance::next_end(pod, now) {
                plan.look_again(at);
            }
        }
    }
    plan
}

/// The best node for the pod, or why there is none; `except` is left out.
///
/// # Errors
/// The reasons of all nodes together.
pub(crate) fn best_node<'a>(
    view: &'a View,
    pod: &Pod,
    except: Option<&str>,
) -> Result<&'a Arc<Node>, String> {
    let claims = Claims::of(view, pod).map_err(|reason| nowhere(view, &reason))?;
    fitting(view, pod, &claims, except)
}

fn nowhere(view: &View, reason: &str) -> String {
    format!("0/{} nodes are available: {reason}.", view.of_kind(Kind::Node).count())
}

fn fitting<'a>(
    view: &'a View,
    pod: &Pod,
    claims: &Claims<'_>,
    except: Option<&str>,
) -> Result<&'a Arc<Node>, String> {
    let requests = Requests::of(pod);
    let ports = Ports::of(pod);
    let spread = Spread::of(view, pod);
    let neighbours = Neighbours::of(view, pod);
    let mut candidates = Vec::new();
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    let mut node_count = 0;
    for (id, object) in view.of_kind(Kind::Node) {
        let Object::Node(node) = object else { continue };
        if except == Some(id.name.name.as_str()) {
            continue;
        }
        node_count += 1;
        let used = view.requested_on(&id.name.name);
        let first = filter::placement_reason(pod, node)
            .or_else(|| Some(ports.reason_against(view, pod, &id.name.name)?.to_owned()));
        let mut reasons = match first {
            Some(reason) => vec![reason],
            None => filter::shortages(&requests, &Requests::allocatable(node), &used),
        };
        if reasons.is_empty() {
            let next = claims
                .reason_against(node)
                .or_else(|| Some(spread.reason_against(node)?.to_owned()))
                .or_else(|| Some(neighbours.reason_against(node)?.to_owned()));
            reasons.extend(next);
        }
        if reasons.is_empty() {
            let free_share = filter::free_share(node, &used, &requests);
            candidates.push(Candidate { node, free_share });
        }
        for reason in reasons {
            *refusals.entry(reason).or_insert(0) += 1;
        }
    }
    scores::best(view, pod, &neighbours, &candidates).ok_or_else(|| explain(node_count, &refusals))
}

fn bind(pod: &Arc<Pod>, node: &Node, plan: &mut Plan) {
    let about = Object::Pod(pod.clone());
    let node = node.metadata.name.clone().unwrap_or_default();
    let name = NamespacedName::of(&pod.metadata);
    let success = Note::new(
        &about,
        Severity::Normal,
        event::SCHEDULED,
        format!("Successfully assigned {name} to {node}"),
        NAME,
    );
    let failure = Note::new(
        &about,
        Severity::Warning,
        event::FAILED_SCHEDULING,
        format!("binding rejected by node {node}: "),
        NAME,
    );
    let uid = about.uid().to_owned();
    let write = Write::Bind { pod: about.id(), uid, node };
    plan.then_all(vec![Step { write, report: Some(Report { success, failure }) }]);
}

/// `0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.`, as upstream words and orders it.
fn explain(node_count: usize, refusals: &BTreeMap<String, usize>) -> String {
    if node_count == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut parts: Vec<String> =
        refusals.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    format!("0/{node_count} nodes are available: {}.", parts.join(", "))
}

/// Says so in an event and in condition PodScheduled, each only when it is news.
fn refuse(pod: &Arc<Pod>, message: &str, now: Tick, plan: &mut Plan) {
    let about = Object::Pod(pod.clone());
    plan.notes.push(Note::new(&about, Severity::Warning, event::FAILED_SCHEDULING, message, NAME));
    let current = pods::condition(pod, "PodScheduled");
    let is_told = current.is_some_and(|c| {
        c.status == "False"
            && c.reason.as_deref() == Some("Unschedulable")
            && c.message.as_deref() == Some(message)
    });
    if is_told {
        return;
    }
    let since = current
        .filter(|c| c.status == "False")
        .and_then(|c| c.last_transition_time.clone())
        .unwrap_or_else(|| pods::whole_seconds(now));
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
    plan.then(Write::Patch {
        id: ObjectId::new(Kind::Pod, NamespacedName::of(&pod.metadata)),
        part: Part::Status,
        patch: json!({
            "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
            "status": {"conditions": conditions},
        }),
    });
}
