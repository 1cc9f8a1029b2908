//! The ladder's part of the view: which ladder, ledger and requests belong to a pod, and the writes that a decision becomes.
//! Pure, as the controllers are.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rekindle_controllers::events::{Note, Severity};
use rekindle_controllers::plan::{Part, Propagation};
use rekindle_controllers::{
    Kind, NamespacedName, Object, ObjectId, Plan, View, Write, owners, pods,
};
use rekindle_ladder::{
    Action, Crowd, Decision, Identity, Limits, Occupancy, Peers, PodRestartPlan, Policy,
    RollbackTarget, Severity as LadderSeverity, Situation, decide, decided_lately, ladder_status,
    symptom_of,
};
use rekindle_types::reasons::event::LADDER_EXHAUSTED;
use rekindle_types::v1alpha1::{
    CarriedOutBy, PodRestart, PodRestartPhase, RestartLadder, RestartLedger, RestartLedgerSpec,
    RestartLedgerStatus,
};
use rekindle_types::{Tick, TickDuration};

use crate::ledgers::{self, Place};
use crate::{peers, policies, revisions};

/// Says the events of the ladder.
pub(crate) const COMPONENT: &str = "restart-ladder";
/// How long the ledger of a pod is kept that is gone, when its ladder is gone too.
const KEPT_WITHOUT_LADDER: TickDuration = TickDuration::from_secs(600);

/// Decides for a pod. The ledger is written before the PodRestart that it speaks of.
pub(crate) fn climb(view: &View, name: &NamespacedName, now: Tick, limits: &Limits) -> Plan {
    let mut plan = Plan::default();
    let Some(pod) = view.pod(name) else { return plan };
    let policy = match policies::of_pod(view, pod) {
        Ok(Some(policy)) => policy,
        Ok(None) => return plan,
        Err(error) => {
            plan.notes.extend(policies::complaint(pod, &error));
            return plan;
        }
    };
    let place = ledgers::place_of(view, pod);
    let restarts: Vec<&PodRestart> =
        restarts(view, &name.namespace).filter(|r| r.spec.pod_name == name.name).collect();
    let around = Surroundings::of(view, &policy, pod, place.ledger, now);
    let decision = decide(&Situation {
        now,
        policy: &policy,
        pod,
        ledger: place.ledger.and_then(|ledger| ledger.status.as_ref()),
        restarts: &restarts,
        others: &around.others,
        crowd: &around.crowd,
        limits,
        peers: &around.peers,
        rollback: around.rollback.as_ref(),
    });
    let spec = RestartLedgerSpec {
        ladder_name: policy.name.clone(),
        pod_name: name.name.clone(),
        pod_uid: pod.metadata.uid.clone().unwrap_or_default(),
    };
    match ledger_write(&place, spec, &decision) {
        LedgerWrite::TakeOver(write) => {
            plan.then(write); // the answer brings us here again
            return plan;
        }
        LedgerWrite::Status(write) => plan.then(write),
        LedgerWrite::None => {}
    }
    match &decision.action {
        Action::None => {}
        Action::Restart(restart) => plan.then(Write::Create(pod_restart(restart, pod, &place))),
        Action::Fail { message } => plan.then(failed(pod, message)),
    }
    let about = Object::Pod(std::sync::Arc::clone(pod));
    for event in decision.events {
        let severity = match event.severity {
            LadderSeverity::Normal => Severity::Normal,
            LadderSeverity::Warning => Severity::Warning,
        };
        plan.notes.push(Note::new(&about, severity, event.reason, event.message, COMPONENT));
    }
    if let Some(at) = decision.again_at {
        plan.look_again(at);
    }
    plan
}

/// Ends the pod as Failed: the node ends what runs, with its grace period, and the object stays to be looked at.
fn failed(pod: &Pod, message: &str) -> Write {
    let id = ObjectId::new(Kind::Pod, NamespacedName::of(&pod.metadata));
    let patch = serde_json::json!({
        "metadata": {"uid": pod.metadata.uid},
        "status": {"phase": "Failed", "reason": LADDER_EXHAUSTED, "message": message},
    });
    Write::Patch { id, part: Part::Status, patch }
}

/// What a decision to restart a pod looks at beside the pod.
#[derive(Default)]
struct Surroundings {
    others: Occupancy,
    crowd: Crowd,
    peers: Peers,
    rollback: Option<RollbackTarget>,
}

impl Surroundings {
    /// Nothing for a pod that is ready, does not fail and waits for no restart: nothing is restarted then, and most pods are so.
    fn of(
        view: &View,
        policy: &Policy,
        pod: &Pod,
        ledger: Option<&std::sync::Arc<RestartLedger>>,
        now: Tick,
    ) -> Self {
        let status = ledger.and_then(|ledger| ledger.status.as_ref());
        let is_held = status.is_some_and(|status| status.held_rung.is_some());
        let fails = || symptom_of(pod, now, policy.window).is_some();
        if pods::is_ready(pod) && !is_held && !fails() {
            return Self::default();
        }
        Self {
            others: occupancy(view, &policy.name, pod, now),
            crowd: crowd(view, pod, now),
            peers: peers::of(view, pod, policy, now),
            rollback: revisions::target_of(view, pod),
        }
    }
}

/// What brings the stored ledger to the decision's.
enum LedgerWrite {
    /// Nothing changed.
    None,
    /// It speaks of another pod, or under another ladder: from now on of this one. Nothing else is done before that is written,
    /// for it is what gives a ledger one heir and an heir one ledger.
    TakeOver(Write),
    /// A new ledger, or a new status.
    Status(Write),
}

fn ledger_write(place: &Place<'_>, spec: RestartLedgerSpec, decision: &Decision) -> LedgerWrite {
    let status = &decision.ledger;
    let owners = place.identity.owner.clone().map(|owner| vec![owner]);
    match place.ledger {
        None if *status == RestartLedgerStatus::default() => LedgerWrite::None,
        None => {
            let ledger = RestartLedger {
                metadata: ObjectMeta {
                    name: Some(place.name.name.clone()),
                    namespace: Some(place.name.namespace.clone()),
                    owner_references: owners,
                    ..ObjectMeta::default()
                },
                spec,
                status: Some(status.clone()),
                ..RestartLedger::default()
            };
            // the API keeps the status of a new ledger, so the first entry needs no second write
            LedgerWrite::Status(Write::Create(Object::from(ledger)))
        }
        Some(before) if before.status.as_ref() == Some(status) => LedgerWrite::None,
        Some(before) if before.spec != spec => {
            let meta = &before.metadata;
            let patch = serde_json::json!({
                "metadata": {
                    "uid": meta.uid,
                    "resourceVersion": meta.resource_version,
                    "ownerReferences": owners,
                },
                "spec": spec,
            });
            let id = ObjectId::new(Kind::RestartLedger, place.name.clone());
            LedgerWrite::TakeOver(Write::Patch { id, part: Part::Whole, patch })
        }
        Some(before) => {
            let ledger = before.as_ref().clone();
            let with_status = RestartLedger { status: Some(status.clone()), ..ledger };
            LedgerWrite::Status(Write::UpdateStatus(Object::from(with_status)))
        }
    }
}

/// The object to create. What is restarted in place goes with the pod; what replaces the pod outlives it, and says how far it is.
fn pod_restart(plan: &PodRestartPlan, pod: &Pod, place: &Place<'_>) -> Object {
    let owner = match plan.rung.carried_out_by() {
        CarriedOutBy::Node => Some(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: plan.pod_name.clone(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        }),
        CarriedOutBy::Operator => place.identity.owner.clone(),
    };
    Object::from(PodRestart {
        metadata: ObjectMeta {
            name: Some(plan.name.clone()),
            namespace: pod.metadata.namespace.clone(),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: plan.spec(),
        ..PodRestart::default()
    })
}

/// Whether a ladder can be carried out, in its status.
pub(crate) fn status(view: &View, name: &NamespacedName, now: Tick) -> Plan {
    let mut plan = Plan::default();
    if let Some(ladder) = view.restart_ladder(name) {
        let status = ladder_status(ladder, now);
        if ladder.status.as_ref() != Some(&status) {
            let with_status = RestartLadder { status: Some(status), ..ladder.as_ref().clone() };
            plan.then(Write::UpdateStatus(Object::from(with_status)));
        }
    }
    plan
}

/// Removes the ledger of a pod that is gone and that nobody took over, when its attempts would not count any more.
pub(crate) fn old_ledger(view: &View, name: &NamespacedName, now: Tick) -> Plan {
    let mut plan = Plan::default();
    let Some(ledger) = view.restart_ledger(name) else { return plan };
    let is_needed = ledgers::has_pod(view, ledger)
        || restarts(view, &name.namespace).any(|restart| replaces_pod_of(restart, ledger));
    if is_needed {
        return plan;
    }
    let policy = policies::of_ledger(view, ledger);
    let kept = policy.as_ref().map_or(KEPT_WITHOUT_LADDER, Identity::outlives_pod_by);
    let decisions = ledger.status.iter().flat_map(|status| status.decisions.iter().flatten());
    let created = ledger.metadata.creation_timestamp.as_ref().map_or(now, Tick::from);
    let last = decisions.map(|decision| Tick::from(&decision.at)).max().unwrap_or(created);
    if now.since(last) < kept {
        plan.look_again(last + kept);
    } else {
        let object = Object::RestartLedger(std::sync::Arc::clone(ledger));
        plan.then(Write::delete(&object, Propagation::Background));
    }
    plan
}

/// The pods of a namespace that a budget holds back.
pub(crate) fn held_back<'a>(
    view: &'a View,
    namespace: &'a str,
) -> impl Iterator<Item = NamespacedName> + 'a {
    all_ledgers(view, namespace)
        .filter(|ledger| ledger.status.as_ref().is_some_and(|status| status.held_rung.is_some()))
        .map(move |ledger| NamespacedName::new(namespace, ledger.spec.pod_name.as_str()))
}

/// True when the request is about to bring the ledger's pod back.
fn replaces_pod_of(restart: &PodRestart, ledger: &RestartLedger) -> bool {
    let status = restart.status.as_ref();
    let is_over = status.and_then(|s| s.phase).is_some_and(PodRestartPhase::is_final);
    let replacement = status.and_then(|status| status.replacement.as_ref());
    !is_over && replacement.is_some_and(|r| r.pod_uid == ledger.spec.pod_uid)
}

/// What the ladder's other pods take of its budget.
fn occupancy(view: &View, ladder_name: &str, pod: &Pod, now: Tick) -> Occupancy {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let others: Vec<&RestartLedger> = all_ledgers(view, namespace)
        .filter(|l| l.spec.ladder_name == ladder_name && l.spec.pod_name != pod_name)
        .collect();
    let of_others = |restart: &&PodRestart| {
        let status = restart.status.as_ref();
        let new_pod = status.and_then(|s| s.replacement.as_ref()?.new_pod_uid.as_ref());
        let is_own = restart.spec.pod_name == pod_name
            || (new_pod.is_some() && new_pod == pod.metadata.uid.as_ref());
        let is_of_ladder = restart.spec.ladder_name.as_deref() == Some(ladder_name);
        !is_own
            && (is_of_ladder
                || others.iter().any(|ledger| ledger.spec.pod_name == restart.spec.pod_name))
    };
    let statuses = others.iter().filter_map(|ledger| ledger.status.as_ref());
    Occupancy::of(now, restarts(view, namespace).filter(of_others), statuses)
}

/// What restarts of other pods take of the limits over all ladders.
fn crowd(view: &View, pod: &Pod, now: Tick) -> Crowd {
    let namespace = pod.metadata.namespace.as_deref();
    let controller = owners::controller_of(&pod.metadata).map(|owner| owner.uid.as_str());
    let mut crowd = Crowd::default();
    for (id, object) in view.of_kind(Kind::RestartLedger) {
        let Object::RestartLedger(ledger) = object else { continue };
        let Some(status) = ledger.status.as_ref() else { continue };
        if Some(&ledger.spec.pod_uid) == pod.metadata.uid.as_ref() {
            continue;
        }
        let decided = decided_lately(now, status);
        if Some(id.name.namespace.as_str()) == namespace {
            crowd.namespace.extend(&decided);
            let owners = owners::references(&ledger.metadata);
            if owners.iter().any(|owner| Some(owner.uid.as_str()) == controller) {
                crowd.workload.extend(under_way(view, ledger, now));
            }
        }
        crowd.cluster.extend(decided);
    }
    crowd.namespace.sort_unstable();
    crowd.cluster.sort_unstable();
    crowd.workload.sort_unstable();
    crowd
}

/// Since when a restart of the ledger's pod is under way: one that is decided, or open.
fn under_way(view: &View, ledger: &RestartLedger, now: Tick) -> Option<Tick> {
    let namespace = ledger.metadata.namespace.as_deref().unwrap_or_default();
    let own = restarts(view, namespace).filter(|restart| {
        let replacement = restart.status.as_ref().and_then(|s| s.replacement.as_ref());
        let new_pod = replacement.and_then(|replacement| replacement.new_pod_uid.as_ref());
        restart.spec.pod_name == ledger.spec.pod_name || new_pod == Some(&ledger.spec.pod_uid)
    });
    Occupancy::of(now, own, ledger.status.iter()).under_way.first().copied()
}

fn all_ledgers<'a>(view: &'a View, namespace: &'a str) -> impl Iterator<Item = &'a RestartLedger> {
    view.in_namespace(Kind::RestartLedger, namespace).filter_map(|object| match object {
        Object::RestartLedger(ledger) => Some(ledger.as_ref()),
        _ => None,
    })
}

fn restarts<'a>(view: &'a View, namespace: &'a str) -> impl Iterator<Item = &'a PodRestart> {
    view.in_namespace(Kind::PodRestart, namespace).filter_map(|object| match object {
        Object::PodRestart(restart) => Some(restart.as_ref()),
        _ => None,
    })
}
