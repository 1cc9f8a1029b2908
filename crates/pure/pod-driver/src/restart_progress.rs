//! How a restart in place stands, as it is written into the status of its PodRestart.

use k8s_openapi::serde_json::{Value, json};
use rekindle_pod::RestartReport;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestartPhase, PodRestartStatus};

/// The status after one more report about this pod. A step that was reported already is not
/// reported again: the core repeats itself after a crash of its agent.
#[must_use]
pub fn restart_progress(
    before: &PodRestartStatus,
    pod: Option<&str>,
    phase: PodRestartPhase,
    message: String,
    at: Tick,
) -> PodRestartStatus {
    let mut status = before.clone();
    if status.pod_uid.is_none() {
        status.pod_uid = pod.map(str::to_owned);
    }
    if status.steps.iter().any(|step| step.phase == phase && step.message == message) {
        status.stand(phase, message, &at.to_micro_time());
    } else {
        status.go_on(phase, message, at.to_micro_time());
    }
    match phase {
        PodRestartPhase::Running => {
            status.started_at.get_or_insert_with(|| at.to_time());
            status.finished_at = None;
        }
        PodRestartPhase::Succeeded
        | PodRestartPhase::Failed
        | PodRestartPhase::Refused
        | PodRestartPhase::Withdrawn => status.finished_at = Some(at.to_time()),
    }
    status
}

/// The same for what the pod's core reports.
#[must_use]
pub fn reported_progress(
    before: &PodRestartStatus,
    pod: Option<&str>,
    report: RestartReport,
) -> PodRestartStatus {
    let RestartReport { id: _, phase, message, at, is_held } = report;
    let mut status = restart_progress(before, pod, phase, message, at);
    if is_held {
        status.stopped_at.get_or_insert_with(|| at.to_time());
    }
    status
}

/// The merge patch that writes such a status into the object with this UID.
pub fn restart_status_patch(uid: Option<&str>, status: &PodRestartStatus) -> Value {
    let mut patch = json!({
        "metadata": { "uid": uid },
        "status": {
            "phase": status.phase,
            "message": status.message,
            "conditions": status.conditions,
            "startedAt": status.started_at,
            "finishedAt": status.finished_at,
            "steps": status.steps,
        },
    });
    // a null would take away what an earlier agent has said
    if let Some(pod) = &status.pod_uid {
        patch["status"]["podUID"] = json!(pod);
    }
    if let Some(stopped) = &status.stopped_at {
        patch["status"]["stoppedAt"] = json!(stopped);
    }
    if let Some(node) = &status.node_name {
        patch["status"]["nodeName"] = json!(node);
    }
    if let Some(runtime) = &status.runtime {
        patch["status"]["runtime"] = json!(runtime);
    }
    patch
}

/// What is reported of a request whose pod is over, when nothing else was.
pub fn lost_with_its_pod(pod_name: &str) -> (PodRestartPhase, String) {
    (PodRestartPhase::Failed, format!("pod {pod_name} was deleted before the restart was over"))
}

#[cfg(test)]
mod tests {
    use rekindle_types::TickDuration;

    use super::*;

    #[test]
    fn each_step_is_told_once_with_its_time_also_when_the_core_repeats_itself() {
        let at = |seconds| Tick::ZERO + TickDuration::from_secs(seconds);
        let mut status = PodRestartStatus::default();
        for (phase, message, seconds) in [
            (PodRestartPhase::Running, "stopping", 1),
            (PodRestartPhase::Running, "starting", 2),
            (PodRestartPhase::Running, "stopping", 1),
            (PodRestartPhase::Succeeded, "running", 3),
        ] {
            status = restart_progress(&status, Some("u"), phase, message.to_owned(), at(seconds));
        }
        let steps: Vec<_> =
            status.steps.iter().map(|s| (s.message.as_str(), Tick::from(&s.at))).collect();
        assert_eq!(steps, [("stopping", at(1)), ("starting", at(2)), ("running", at(3))]);
        assert_eq!(status.pod_uid.as_deref(), Some("u"));
        assert_eq!(status.started_at, Some(at(1).to_time()));
        assert_eq!(status.finished_at, Some(at(3).to_time()));
    }
}
