//! Whether a container ended because its pod was ended as Failed, by whoever did that.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use rekindle_types::reasons::event::LADDER_EXHAUSTED;
use rekindle_types::v1alpha1::{RestartLedger, RestartLedgerStatus};

use crate::evidence::PodEvidence;
use crate::restarts::was_signalled;
use crate::subject::Subject;
use crate::words::line;

/// Who ended its pod, and it with that, as a sentence goes on after `was ended`. Nobody did when it had ended by itself before.
pub(crate) fn that_ended(
    subject: Subject<'_>,
    end: &ContainerStateTerminated,
    evidence: &PodEvidence,
) -> Option<String> {
    let status = evidence.pod.status.as_ref()?;
    let reason = status.reason.as_deref().filter(|reason| !reason.is_empty())?;
    if status.phase.as_deref() != Some("Failed") || subject.is_done() {
        return None;
    }
    if reason != LADDER_EXHAUSTED {
        return was_signalled(end).then(|| format!("with its pod ({})", line(reason)));
    }
    let ladder = failing(&evidence.pod, evidence.ledger.as_ref());
    let (ladder, was_ended) = match ladder {
        // what it counted had ended before: it looks no more at a pod that it has ended
        Some((ledger, status)) => {
            let mut observed = status.observed.iter().flatten();
            let counted = observed.find(|entry| entry.name == subject.name);
            let counted = counted.map_or(0, |entry| entry.ended_attempts);
            (format!("ladder {:?}", ledger.spec.ladder_name), subject.ends() > counted)
        }
        None => ("its ladder".to_owned(), was_signalled(end)),
    };
    was_ended.then(|| format!("by {ladder}, which is exhausted (onExhausted Fail)"))
}

/// The ledger that says that this pod was to fail.
fn failing<'a>(
    pod: &Pod,
    ledger: Option<&'a RestartLedger>,
) -> Option<(&'a RestartLedger, &'a RestartLedgerStatus)> {
    let ledger = ledger?;
    let status = ledger.status.as_ref()?;
    let is_of_pod = pod.metadata.uid.is_some() && status.failing_pod_uid == pod.metadata.uid;
    is_of_pod.then_some((ledger, status))
}
