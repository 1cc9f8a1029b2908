//! What the receiver reads: the documented shape of docs/how-to/report-an-exhausted-ladder.md.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{API_VERSION, RestartLedger, Rung};
use serde::Serialize;

/// The condition of a ledger while every rung was tried in vain.
const EXHAUSTED: &str = "Exhausted";

/// Letters of the message at most. Names are bounded by the API, attempts by the number of rungs.
const MESSAGE_LETTERS_MAX: usize = 2048;

/// That a ladder is exhausted. It holds what the ledger says and nothing that a container wrote.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExhaustionNotice {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// The same for the same exhaustion: should it come twice, it is the same news.
    pub(super) id: String,
    /// Since when.
    pub at: Time,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    #[serde(rename = "podUID")]
    pub(super) pod_uid: String,
    /// The controller of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workload: Option<NoticeWorkload>,
    pub(super) ladder: String,
    pub(super) message: String,
    pub(super) attempts: Vec<NoticeAttempts>,
    pub(super) failures_total: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NoticeWorkload {
    pub(super) kind: String,
    pub(super) name: String,
}

/// How often a rung was tried inside the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NoticeAttempts {
    pub(super) rung: Rung,
    pub(super) count: usize,
}

/// Since when the ledger's ladder has been exhausted, if it is and nobody was told.
pub(super) fn untold_since(ledger: &RestartLedger) -> Option<Tick> {
    let since = &exhausted(ledger)?.last_transition_time;
    let told = ledger.status.as_ref().and_then(|status| status.exhaustion_told_at.as_ref());
    (told != Some(since)).then(|| Tick::from(since))
}

fn exhausted(ledger: &RestartLedger) -> Option<&Condition> {
    let mut conditions = ledger.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == EXHAUSTED && condition.status == "True")
}

impl ExhaustionNotice {
    /// The notice of this ledger, exhausted since then.
    pub fn new(ledger: &RestartLedger, since: Tick) -> Self {
        let meta = &ledger.metadata;
        let status = ledger.status.clone().unwrap_or_default();
        let uid = meta.uid.as_deref().unwrap_or_default();
        let message = exhausted(ledger).map(|condition| condition.message.clone());
        let workload = meta.owner_references.iter().flatten().next();
        let attempts = status.attempts.iter().flatten();
        Self {
            api_version: API_VERSION,
            kind: "LadderExhausted",
            id: format!("{uid}-{}", since.as_micros() / 1_000_000),
            at: since.to_time(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            pod: ledger.spec.pod_name.clone(),
            pod_uid: ledger.spec.pod_uid.clone(),
            workload: workload
                .map(|owner| NoticeWorkload { kind: owner.kind.clone(), name: owner.name.clone() }),
            ladder: ledger.spec.ladder_name.clone(),
            message: message.unwrap_or_default().chars().take(MESSAGE_LETTERS_MAX).collect(),
            attempts: attempts
                .map(|attempts| NoticeAttempts { rung: attempts.rung, count: attempts.at.len() })
                .collect(),
            failures_total: status.failures_total,
        }
    }
}
