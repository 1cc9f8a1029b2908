//! The ladder's part of the view: which ladder, ledger and requests belong to a pod, and the writes that a decision becomes.
//! Pure, as the controllers are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_controllers::events::{Note, Severity};
use rekindle_controllers::plan::Propagation;
use rekindle_controllers::{Kind, NamespacedName, Object, Plan, View, Write};
use rekindle_ladder::{
    Action, Decision, Identity, Occupancy, PodRestartPlan, Policy, Severity as LadderSeverity,
    Situation, decide, identity, ladder_status, select,
};
use rekindle_types::v1alpha1::{
    PodRestart, RestartLadder, RestartLedger, RestartLedgerSpec, RestartLedgerStatus,
};
use rekindle_types::{Tick, TickDuration};

/// Says the events of the ladder.
const COMPONENT: &str = "restart-ladder";
/// How long the ledger of a naked pod is kept whose ladder is gone too.
const KEPT_WITHOUT_LADDER: TickDuration = TickDuration::from_secs(600);

/// Decides for a pod. The ledger is written before the PodRestart that it speaks of.
pub(crate) fn climb(view: &View, name: &NamespacedName, now: Tick) -> Plan {
    let mut plan = Plan::default();
    let Some(pod) = view.pod(name) else { return plan };
    let Some(ladder) = select(ladders(view, &name.namespace), pod) else { return plan };
    let Ok(policy) = Policy::of(ladder) else { return plan }; // its status says why
    let Identity { ledger_name, owner } = identity(pod);
    let ledger_name = NamespacedName::new(name.namespace.as_str(), ledger_name);
    let ledger = view.restart_ledger(&ledger_name);
    let restarts: Vec<&PodRestart> =
        restarts(view, &name.namespace).filter(|r| r.spec.pod_name == name.name).collect();
    let others = occupancy(view, ladder, name, now);
    let decision = decide(&Situation {
        now,
        policy: &policy,
        pod,
        ledger: ledger.and_then(|ledger| ledger.status.as_ref()),
        restarts: &restarts,
        others: &others,
    });
    let spec = RestartLedgerSpec {
        ladder_name: policy.name.clone(),
        pod_name: name.name.clone(),
        pod_uid: pod.metadata.uid.clone().unwrap_or_default(),
    };
    let before = ledger.map(|ledger| ledger.as_ref());
    plan.batches.extend(ledger_writes(before, &ledger_name, owner, spec, &decision));
    match &decision.action {
        Action::None => {}
        Action::Restart(restart) => {
            plan.then(Write::Create(pod_restart(restart, &name.namespace, pod)))
        }
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

/// The batches that bring the stored ledger to the decision's; none when nothing changed.
fn ledger_writes(
    before: Option<&RestartLedger>,
    name: &NamespacedName,
    owner: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>,
    spec: RestartLedgerSpec,
    decision: &Decision,
) -> Vec<Vec<rekindle_controllers::Step>> {
    let status = &decision.ledger;
    match before {
        None if *status == RestartLedgerStatus::default() => Vec::new(),
        None => {
            let ledger = RestartLedger {
                metadata: ObjectMeta {
                    name: Some(name.name.clone()),
                    namespace: Some(name.namespace.clone()),
                    owner_references: owner.map(|owner| vec![owner]),
                    ..ObjectMeta::default()
                },
                spec,
                status: Some(status.clone()),
                ..RestartLedger::default()
            };
            // the API keeps the status of a new ledger, so the first entry needs no second write
            vec![vec![Write::Create(Object::from(ledger)).into()]]
        }
        Some(before) if before.status.as_ref() == Some(status) => Vec::new(),
        Some(before) => {
            let with_status = RestartLedger { status: Some(status.clone()), ..before.clone() };
            let mut writes = vec![vec![Write::UpdateStatus(Object::from(with_status)).into()]];
            if before.spec != spec {
                let patch = serde_json::json!({
                    "metadata": {"uid": before.metadata.uid, "ownerReferences": owner.map(|owner| vec![owner])},
                    "spec": spec,
                });
                let id = rekindle_controllers::ObjectId::new(Kind::RestartLedger, name.clone());
                let part = rekindle_controllers::plan::Part::Whole;
                writes.push(vec![Write::Patch { id, part, patch }.into()]);
            }
            writes
        }
    }
}

fn pod_restart(
    plan: &PodRestartPlan,
    namespace: &str,
    pod: &k8s_openapi::api::core::v1::Pod,
) -> Object {
    let owner = k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: plan.pod_name.clone(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        ..Default::default()
    };
    Object::from(PodRestart {
        metadata: ObjectMeta {
            name: Some(plan.name.clone()),
            namespace: Some(namespace.to_owned()),
            owner_references: Some(vec![owner]),
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

/// Removes the ledger of a naked pod that is gone, when its attempts would not count any more. Ledgers with an owner are the
/// garbage collector's.
pub(crate) fn old_ledger(view: &View, name: &NamespacedName, now: Tick) -> Plan {
    let mut plan = Plan::default();
    let Some(ledger) = view.restart_ledger(name) else { return plan };
    let pod = NamespacedName::new(name.namespace.as_str(), ledger.spec.pod_name.as_str());
    let is_owned = ledger.metadata.owner_references.iter().flatten().next().is_some();
    if is_owned || view.pod(&pod).is_some() {
        return plan;
    }
    let ladder = NamespacedName::new(name.namespace.as_str(), ledger.spec.ladder_name.as_str());
    let policy = view.restart_ladder(&ladder).and_then(|ladder| Policy::of(ladder).ok());
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
    ledgers(view, namespace)
        .filter(|ledger| ledger.status.as_ref().is_some_and(|status| status.held_rung.is_some()))
        .map(move |ledger| NamespacedName::new(namespace, ledger.spec.pod_name.as_str()))
}

/// What the ladder's other pods take of its budget.
fn occupancy(view: &View, ladder: &RestartLadder, pod: &NamespacedName, now: Tick) -> Occupancy {
    let namespace = pod.namespace.as_str();
    let ladder_name = ladder.metadata.name.as_deref().unwrap_or_default();
    let others: Vec<&RestartLedger> = ledgers(view, namespace)
        .filter(|l| l.spec.ladder_name == ladder_name && l.spec.pod_name != pod.name)
        .collect();
    let of_others = |restart: &&PodRestart| {
        others.iter().any(|ledger| ledger.spec.pod_name == restart.spec.pod_name)
    };
    let statuses = others.iter().filter_map(|ledger| ledger.status.as_ref());
    Occupancy::of(now, restarts(view, namespace).filter(of_others), statuses)
}

fn ladders<'a>(view: &'a View, namespace: &'a str) -> impl Iterator<Item = &'a RestartLadder> {
    view.in_namespace(Kind::RestartLadder, namespace).filter_map(|object| match object {
        Object::RestartLadder(ladder) => Some(ladder.as_ref()),
        _ => None,
    })
}

fn ledgers<'a>(view: &'a View, namespace: &'a str) -> impl Iterator<Item = &'a RestartLedger> {
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
