//! The ladder's part of the view: which ladder, ledger and requests belong to a pod, and the writes
//! that a decision becomes. Pure, as the controllers are.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rekindle_controllers::events::EventNote;
use rekindle_controllers::plan::PatchTarget;
use rekindle_controllers::{
    NamespacedName, ObjectChange, ObjectId, PlannedWrite, ResourceKind, ViewObject, WriteOperation,
    WritePlan, owners, pods,
};
use rekindle_ladder::{
    BudgetApplicant, LadderAction, LadderMode, LadderPolicy, LadderReach, LadderSubject,
    LedgerRegister, LimitUsage, Occupancy, PodRestartPlan, RestartDecision, RevisionPeers,
    RollbackTarget, Situation, decide, ladder_status, symptom_of, tells_of_overlap, unselected,
};
use rekindle_types::held::HeldPod;
use rekindle_types::reasons::event::{LADDER_EXHAUSTED, LADDER_OVERLAPPED};
use rekindle_types::v1alpha1::{
    CarriedOutBy, LadderScope, PodRestart, RestartLadder, RestartLedger, RestartLedgerSpec,
    RestartLedgerStatus,
};
use rekindle_types::{EventSeverity, Tick};

use crate::ledgers::{self, PodLedger};
use crate::planner_role::PlannerRole;
use crate::restart_context::{COMPONENT, RestartContext};
use crate::{group_ladder, groups, overlaps, peers, policies, revisions};

/// Decides for a pod, or for a group by its name. The ledger is written before the PodRestart that
/// it speaks of.
pub(crate) fn climb(context: &RestartContext<'_>, name: &NamespacedName, now: Tick) -> WritePlan {
    if groups::is_group(name) {
        return group_ladder::climb(context, name, now);
    }
    let mut plan = WritePlan::default();
    let RestartContext { view, limits, .. } = *context;
    let Some(pod) = view.pod(name) else { return plan };
    let policy = match policies::policy_of_pod(context, pod) {
        Ok(Some(policy)) if policy.scope == LadderScope::Pod => policy,
        Ok(Some(_) | None) => {
            plan.batches.extend(settle_unselected(context, pod, now));
            return plan;
        }
        Err(error) => {
            plan.notes.extend(policies::complaint(pod, &error));
            return plan;
        }
    };
    let place = ledgers::place_of(view, pod);
    let status = place.ledger.and_then(|ledger| ledger.status.as_ref());
    let restarts = requests(context, name, status);
    let authority = context.role.authority(view, pods::node(pod));
    let decide_with = |inputs: &DecisionInputs| {
        decide(&Situation {
            now,
            policy: &policy,
            subject: LadderSubject::Pod(pod),
            ledger: status,
            restarts: &restarts,
            others: &inputs.others,
            crowd: &inputs.crowd,
            limits,
            peers: &inputs.peers,
            rollback: inputs.rollback.as_ref(),
            authority,
        })
    };
    // To read the inputs costs a walk over other pods, and most pods are well. A failure of a well
    // pod may still become known only now, and ask for a restart.
    let without = is_well(pod, status, &policy, now)
        .then(|| decide_with(&DecisionInputs::default()))
        .filter(|decision| decision.action == LadderAction::None);
    let decision = without
        .unwrap_or_else(|| decide_with(&DecisionInputs::read(context, &policy, pod, status, now)));
    let spec = RestartLedgerSpec {
        ladder_name: policy.name.clone(),
        pod_name: name.name.clone(),
        pod_uid: pod.metadata.uid.clone().unwrap_or_default(),
        scope: None,
    };
    let ladder =
        LadderMove { context, place: &place, spec, about: ViewObject::Pod(Arc::clone(pod)) };
    ladder.plan(decision, |action| match action {
        LadderAction::None => None,
        LadderAction::Restart(restart) => {
            let mut request = pod_restart(restart, pod, &place);
            request.metadata.annotations =
                policies::named_pods(context, &policy, &name.namespace, [pod.as_ref()]);
            Some(WriteOperation::Create(request.into()))
        }
        LadderAction::Fail { message } => Some(failed(pod, message)),
    })
}

/// What a decision needs to be carried out: where it is written, and what its events are about.
pub(crate) struct LadderMove<'a> {
    pub(crate) context: &'a RestartContext<'a>,
    pub(crate) place: &'a PodLedger<'a>,
    pub(crate) spec: RestartLedgerSpec,
    /// What the events are about.
    pub(crate) about: ViewObject,
}

impl LadderMove<'_> {
    /// Writes the ledger, and then does what was decided.
    pub(crate) fn plan(
        self,
        decision: RestartDecision,
        deed: impl FnOnce(&LadderAction) -> Option<WriteOperation>,
    ) -> WritePlan {
        let mut plan = WritePlan::default();
        match ledger_write(self.context, self.place, self.spec, &decision) {
            LedgerWrite::First(write) => {
                plan.then(write); // the answer brings us here again
                return plan;
            }
            LedgerWrite::Status(write) => plan.then(write),
            LedgerWrite::None => {}
        }
        if let Some(at) = decision.again_at {
            plan.look_again(at);
        }
        match self.context.role.mode() {
            LadderMode::Act => {}
            LadderMode::Observe => return plan, // the ledger says all of it
        }
        if let Some(write) = deed(&decision.action) {
            plan.then(write);
        }
        for event in decision.events {
            let (severity, reason) = (event.severity, event.reason);
            let note = EventNote::new(&self.about, severity, reason, event.message, COMPONENT);
            plan.notes.push(note.of_kind(event.kind));
        }
        plan
    }
}

/// The requests for a pod, and those that its ledger asked for: for the pod before it, that is. The
/// same for a group.
pub(crate) fn requests<'a>(
    context: &RestartContext<'a>,
    pod: &NamespacedName,
    ledger: Option<&RestartLedgerStatus>,
) -> Vec<&'a PodRestart> {
    let RestartContext { view, register, .. } = *context;
    let mut names: BTreeSet<&str> = register.restarts_of(&pod.namespace, &pod.name).collect();
    names.extend(ledger.into_iter().flat_map(open_requests));
    let requests = names.into_iter().filter_map(|name| {
        let name = NamespacedName::new(pod.namespace.as_str(), name);
        view.pod_restart(&name).map(Arc::as_ref)
    });
    requests.collect()
}

/// The names of the requests that a ledger asked for and has not seen the end of.
pub(crate) fn open_requests(ledger: &RestartLedgerStatus) -> impl Iterator<Item = &str> {
    let open = ledger.asked().filter(|decision| decision.outcome.is_none());
    open.filter_map(|decision| decision.pod_restart.as_deref())
}

/// The ledgers of a pod that no ladder selects any more say so.
fn settle_unselected(
    context: &RestartContext<'_>,
    pod: &HeldPod,
    now: Tick,
) -> Option<Vec<PlannedWrite>> {
    let name = NamespacedName::from_meta(&pod.metadata);
    let ledgers = ledgers::ledgers_of_pod(context.register, &name)
        .filter_map(|ledger| context.view.restart_ledger(&ledger))
        .filter(|ledger| Some(&ledger.spec.pod_uid) == pod.metadata.uid.as_ref());
    let writes = ledgers.filter_map(|ledger| {
        let before = ledger.status.as_ref()?;
        let status = unselected(before, now);
        let ledger = ledger.as_ref().clone();
        let settled = RestartLedger { status: Some(status.clone()), ..ledger };
        (*before != status)
            .then(|| PlannedWrite::from(WriteOperation::UpdateStatus(ViewObject::from(settled))))
    });
    let writes: Vec<PlannedWrite> = writes.collect();
    (!writes.is_empty()).then_some(writes)
}

/// Ends the pod as Failed: the node ends what runs, with its grace period, and the object stays to
/// be looked at.
fn failed(pod: &HeldPod, message: &str) -> WriteOperation {
    let id = ObjectId::new(ResourceKind::Pod, NamespacedName::from_meta(&pod.metadata));
    let patch = serde_json::json!({
        "metadata": {"uid": pod.metadata.uid},
        "status": {"phase": "Failed", "reason": LADDER_EXHAUSTED, "message": message},
    });
    WriteOperation::Patch { id, part: PatchTarget::Status, patch }
}

/// What a decision to restart a pod depends on beside the pod.
#[derive(Default)]
struct DecisionInputs {
    others: Occupancy,
    crowd: LimitUsage,
    peers: RevisionPeers,
    rollback: Option<RollbackTarget>,
}

impl DecisionInputs {
    fn read(
        context: &RestartContext<'_>,
        policy: &LadderPolicy,
        pod: &HeldPod,
        ledger: Option<&RestartLedgerStatus>,
        now: Tick,
    ) -> Self {
        let RestartContext { view, register, granted, .. } = *context;
        let asker = asker(pod, &policy.name);
        let mut peers = peers::revision_peers(view, pod, ledger, policy, now);
        // an engine of ours knows why its pods ended, and starts them again at once
        if context.role.cluster().is_some() {
            peers.outage = peers::node_outage(view, pod, now, policy.window);
        }
        Self {
            others: register.occupancy(now, &asker),
            crowd: register.crowd(now, &asker, granted),
            peers,
            rollback: revisions::target_of(view, pod),
        }
    }
}

/// Whether a pod is ready, does not fail and waits for no restart.
fn is_well(
    pod: &HeldPod,
    ledger: Option<&RestartLedgerStatus>,
    policy: &LadderPolicy,
    now: Tick,
) -> bool {
    let is_held = ledger.is_some_and(|ledger| ledger.held_rung.is_some());
    pods::is_ready(pod) && !is_held && symptom_of(pod, ledger, now, policy.window).is_none()
}

/// Who asks for room, for a pod of a ladder.
pub(crate) fn asker<'a>(pod: &'a HeldPod, ladder: &'a str) -> BudgetApplicant<'a> {
    BudgetApplicant {
        namespace: pod.metadata.namespace.as_deref().unwrap_or_default(),
        pod_name: pod.metadata.name.as_deref().unwrap_or_default(),
        pod_uid: pod.metadata.uid.as_deref().unwrap_or_default(),
        controller: owners::controller_of(&pod.metadata).map(|owner| owner.uid.as_str()),
        ladder,
    }
}

/// What brings the stored ledger to the decision's.
enum LedgerWrite {
    /// Nothing changed.
    None,
    /// Nothing else is done before that is written. The ledger speaks of another pod, or under
    /// another ladder: from now on of this one, which gives a ledger one heir and an heir one
    /// ledger. Or it is new, and on a cluster its status needs a write of its own.
    First(WriteOperation),
    /// A new ledger, or a new status.
    Status(WriteOperation),
}

fn ledger_write(
    context: &RestartContext<'_>,
    place: &PodLedger<'_>,
    spec: RestartLedgerSpec,
    decision: &RestartDecision,
) -> LedgerWrite {
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
                ..RestartLedger::default()
            };
            match context.role {
                // our API keeps the status of a new ledger: the first entry needs no second write
                PlannerRole::Engine | PlannerRole::EngineWithoutLadders => {
                    let status = Some(status.clone());
                    let ledger = RestartLedger { status, ..ledger };
                    LedgerWrite::Status(WriteOperation::Create(ledger.into()))
                }
                // others drop it: a custom resource has its status by its subresource alone
                PlannerRole::Cluster(_) => {
                    LedgerWrite::First(WriteOperation::Create(ledger.into()))
                }
            }
        }
        Some(before) if before.status.as_ref().is_some_and(|before| is_known(before, status)) => {
            LedgerWrite::None
        }
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
            let id = ObjectId::new(ResourceKind::RestartLedger, place.name.clone());
            LedgerWrite::First(WriteOperation::Patch { id, part: PatchTarget::Whole, patch })
        }
        // of a cluster's API no more is asked than has to be kept
        Some(before)
            if context.role.cluster().is_some()
                && before
                    .status
                    .as_ref()
                    .is_some_and(|before| tells_a_start_only(before, status)) =>
        {
            LedgerWrite::None
        }
        Some(before) => {
            let ledger = before.as_ref().clone();
            let with_status = RestartLedger { status: Some(status.clone()), ..ledger };
            LedgerWrite::Status(WriteOperation::UpdateStatus(ViewObject::from(with_status)))
        }
    }
}

/// Whether a status says no more than the one before. Since when attempts were only noted is read
/// from the decisions where an API drops that field: it would drop it again.
fn is_known(before: &RestartLedgerStatus, status: &RestartLedgerStatus) -> bool {
    if before.dry_run_since.is_some() || status.dry_run_since.is_none() {
        return before == status;
    }
    *before == RestartLedgerStatus { dry_run_since: None, ..status.clone() }
}

/// Whether a status says no more than the one before, but that what failed runs again: the pod says
/// that itself, and the next decision finds it there.
fn tells_a_start_only(before: &RestartLedgerStatus, status: &RestartLedgerStatus) -> bool {
    let without_start = |status: &RestartLedgerStatus| RestartLedgerStatus {
        stable_since: None,
        next_attempt_at: None,
        ..status.clone()
    };
    status.next_attempt_at.is_none() && is_known(&without_start(before), &without_start(status))
}

/// The object to create. What is restarted in place goes with the pod; what replaces the pod
/// outlives it, and says how far it is.
fn pod_restart(plan: &PodRestartPlan, pod: &HeldPod, place: &PodLedger<'_>) -> PodRestart {
    let owner = match plan.rung.carried_out_by() {
        CarriedOutBy::Node => Some(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        }),
        CarriedOutBy::Operator => place.identity.owner.clone(),
    };
    PodRestart {
        metadata: ObjectMeta {
            name: Some(plan.name.clone()),
            namespace: pod.metadata.namespace.clone(),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: plan.spec(),
        ..PodRestart::default()
    }
}

/// Whether a ladder can be carried out, and whether an older one decides for its pods, in its
/// status.
pub(crate) fn status(context: &RestartContext<'_>, name: &NamespacedName, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let view = context.view;
    if let Some(ladder) = view.restart_ladder(name) {
        let overlapped = overlaps::overlap_warning(view, ladder);
        let role = context.role;
        let not_enabled = role.why_not_enabled(view, &name.namespace);
        let unknown = || role.cluster().and_then(|_| policies::unknown_inclusion(ladder));
        let reach = match (not_enabled, unknown()) {
            (Some(why), _) => LadderReach::NotEnabled(why),
            (None, Some(why)) => LadderReach::Misread(why),
            (None, None) => LadderReach::Pods(role.in_place_anywhere(view, ladder.spec.scope())),
        };
        let status = ladder_status(ladder, &reach, overlapped.as_deref(), now);
        if let Some(message) = overlapped.filter(|message| !tells_of_overlap(ladder, message)) {
            let about = ViewObject::RestartLadder(Arc::clone(ladder));
            let reason = LADDER_OVERLAPPED;
            let note = EventNote::new(&about, EventSeverity::Warning, reason, message, COMPONENT);
            plan.notes.push(note.of_kind(reason));
        }
        if ladder.status.as_ref() != Some(&status) {
            let with_status = RestartLadder { status: Some(status), ..ladder.as_ref().clone() };
            plan.then(WriteOperation::UpdateStatus(ViewObject::from(with_status)));
        }
    }
    plan
}

/// The pods of a namespace that a budget or a trial holds back.
pub(crate) fn held_back<'a>(
    register: &'a LedgerRegister,
    namespace: &'a str,
) -> impl Iterator<Item = NamespacedName> + 'a {
    register.held_back(namespace).map(move |pod| NamespacedName::new(namespace, pod))
}

/// Whether a ledger's change may say what came of a rung that other pods wait for.
pub(crate) fn is_news_of_trial(change: &ObjectChange) -> bool {
    let status = |object: Option<&'_ ViewObject>| match object {
        Some(ViewObject::RestartLedger(ledger)) => ledger.status.clone(),
        Some(_) | None => None,
    };
    let (before, after) = (status(change.before.as_ref()), status(change.after.as_ref()));
    rekindle_ladder::is_news_of_trial(before.as_ref(), after.as_ref())
}
