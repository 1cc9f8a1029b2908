//! The ladder at a group: the pods of a workload fail and are restarted as one. Pure, as the
//! controllers are.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_controllers::events::EventNote;
use rekindle_controllers::{NamespacedName, ViewObject, WriteOperation, WritePlan};
use rekindle_ladder::{
    BudgetApplicant, LadderAction, LadderSubject, PodRestartPlan, RevisionPeers, Situation, decide,
    unselected,
};
use rekindle_types::held::HeldPod;
use rekindle_types::reasons::event::LADDER_INVALID;
use rekindle_types::v1alpha1::{
    GROUP_MEMBERS_MAX, LadderScope, PodRestart, RestartLedger, RestartLedgerSpec,
};
use rekindle_types::{EventSeverity, Tick};

use crate::groups::{self, WorkloadGroup};
use crate::ladder::{LadderMove, requests};
use crate::ledgers::PodLedger;
use crate::restart_context::{COMPONENT, RestartContext};
use crate::{peers, policies};

/// Decides for the group of this name.
pub(crate) fn climb(context: &RestartContext<'_>, name: &NamespacedName, now: Tick) -> WritePlan {
    let view = context.view;
    let Some(group) = groups::group_of(context, name) else { return settle(context, name, now) };
    if group.pods.len() > GROUP_MEMBERS_MAX {
        return too_many(context, name, &group);
    }
    let place = groups::place_of(view, name, group.root.clone());
    let status = place.ledger.and_then(|ledger| ledger.status.as_ref());
    let mut restarts = requests(context, name, status);
    for pod in &group.pods {
        restarts.extend(requests(context, &NamespacedName::from_meta(&pod.metadata), None));
    }
    let pods: Vec<&HeldPod> = group.pods.iter().copied().map(Arc::as_ref).collect();
    let asker = BudgetApplicant {
        namespace: &name.namespace,
        pod_name: &name.name,
        pod_uid: &group.uid,
        controller: group.root.as_ref().map(|root| root.uid.as_str()),
        ladder: &group.policy.name,
    };
    let decision = decide(&Situation {
        now,
        policy: &group.policy,
        subject: LadderSubject::Group(&group.subject),
        ledger: status,
        restarts: &restarts,
        others: &context.register.occupancy(now, &asker),
        crowd: &context.register.crowd(now, &asker, context.granted),
        limits: context.limits,
        peers: &peers_of(context, &group, now),
        rollback: None,
        authority: context.role.group_authority(view, &pods),
    });
    let spec = RestartLedgerSpec {
        ladder_name: group.policy.name.clone(),
        pod_name: name.name.clone(),
        pod_uid: group.uid.clone(),
        scope: Some(LadderScope::Group),
    };
    let about = about(context, &group);
    LadderMove { context, place: &place, spec, about }.plan(decision, |action| match action {
        LadderAction::Restart(plan) => {
            let mut request = request(plan, name, &place);
            request.metadata.annotations =
                policies::named_pods(context, &group.policy, &name.namespace, pods.iter().copied());
            Some(WriteOperation::Create(request.into()))
        }
        LadderAction::None | LadderAction::Fail { .. } => None,
    })
}

/// Members may be on a node where most pods ended together. There are no peers: all pods of the
/// workload are in the group.
fn peers_of(context: &RestartContext<'_>, group: &WorkloadGroup<'_>, now: Tick) -> RevisionPeers {
    let window = group.policy.window;
    let outage = context.role.cluster().and_then(|_| {
        let outages =
            group.pods.iter().filter_map(|pod| peers::node_outage(context.view, pod, now, window));
        outages.max_by_key(|outage| outage.over_at)
    });
    RevisionPeers { outage, ..RevisionPeers::default() }
}

/// The workload, if it is read; else the first of the pods.
fn about(context: &RestartContext<'_>, group: &WorkloadGroup<'_>) -> ViewObject {
    let root = group.root.as_ref().and_then(|root| context.view.by_uid(&root.uid));
    let pod = || ViewObject::Pod(Arc::clone(group.pods[0]));
    root.cloned().unwrap_or_else(pod)
}

/// The PodRestart of the group. It goes with the workload.
fn request(plan: &PodRestartPlan, group: &NamespacedName, place: &PodLedger<'_>) -> PodRestart {
    PodRestart {
        metadata: ObjectMeta {
            name: Some(plan.name.clone()),
            namespace: Some(group.namespace.clone()),
            owner_references: place.identity.owner.clone().map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: plan.spec(),
        ..PodRestart::default()
    }
}

/// A group is not cut to what a request may have.
fn too_many(
    context: &RestartContext<'_>,
    name: &NamespacedName,
    group: &WorkloadGroup<'_>,
) -> WritePlan {
    let mut plan = WritePlan::default();
    if let Some(ladder) = groups::ladder_of(context.view, name) {
        let about = ViewObject::RestartLadder(Arc::clone(ladder));
        let message = format!(
            "group {} has {} pods, and may have {GROUP_MEMBERS_MAX}: the ladder does nothing for it",
            name.name,
            group.pods.len()
        );
        let reason = LADDER_INVALID;
        let note = EventNote::new(&about, EventSeverity::Warning, reason, message, COMPONENT);
        plan.notes.push(note.of_kind(reason));
    }
    plan
}

/// Says in the ledger of a group that no ladder of that scope selects it any more. `orphans` looks
/// after the ledger when the pods are gone.
fn settle(context: &RestartContext<'_>, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let ladder = groups::ladder_of(context.view, name);
    if ladder.is_some_and(|ladder| ladder.is_at_work() && ladder.spec.scope() == LadderScope::Group)
    {
        return plan;
    }
    let place = groups::place_of(context.view, name, None);
    let Some(ledger) = place.ledger else { return plan };
    let before = ledger.status.clone().unwrap_or_default();
    let status = unselected(&before, now);
    if status != before {
        let ledger = RestartLedger { status: Some(status), ..ledger.as_ref().clone() };
        plan.then(WriteOperation::UpdateStatus(ViewObject::from(ledger)));
    }
    plan
}
