//! How a container had ended last, from the runtime and from the kubelet's status. With its sandbox
//! the runtime forgets it, and the kubelet then writes `ContainerStatusUnknown`. Only the kubelet
//! has the termination message of the app.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{ContainerLastEnd, END_MESSAGE_BYTES_MAX};

/// The later one of what both say; of the same end, what the kubelet says.
pub(crate) fn last_end(
    runtime: Option<&ContainerLastEnd>,
    status: Option<&ContainerStatus>,
) -> Option<ContainerLastEnd> {
    let states = status.map(|status| [&status.state, &status.last_state]);
    let mut ends = states.into_iter().flatten().flatten().filter_map(|s| s.terminated.as_ref());
    let Some(shown) = ends.next() else { return runtime.cloned() };
    let second =
        |end: &ContainerLastEnd| end.finished_at.as_ref().map(|at| Tick::from(at).whole_second());
    let of_kubelet = from_status(shown);
    match runtime {
        Some(runtime) if second(runtime) > second(&of_kubelet) => Some(runtime.clone()),
        Some(_) | None => Some(of_kubelet),
    }
}

fn from_status(terminated: &ContainerStateTerminated) -> ContainerLastEnd {
    let message = terminated.message.clone().map(|mut message| {
        message.truncate(message.floor_char_boundary(END_MESSAGE_BYTES_MAX));
        message
    });
    ContainerLastEnd {
        exit_code: terminated.exit_code,
        reason: terminated.reason.clone(),
        message,
        finished_at: terminated.finished_at.as_ref().map(|at| Tick::from(at).to_micro_time()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(seconds: u64) -> ContainerStatus {
        let terminated = json!({"exitCode": 7, "reason": "Error", "message": "out of wine",
            "finishedAt": Tick::from_secs(seconds).to_time()});
        serde_json::from_value(json!({"name": "app", "image": "", "imageID": "", "ready": false,
            "restartCount": 1, "lastState": {"terminated": terminated}}))
        .unwrap()
    }

    #[test]
    fn the_later_end_counts_and_of_the_same_one_the_kubelet_knows_the_message() {
        let of_runtime = |millis: u64| ContainerLastEnd {
            exit_code: 9,
            reason: Some("OOMKilled".to_owned()),
            message: None,
            finished_at: Some(Tick::from_micros(millis * 1000).to_micro_time()),
        };
        let code = |runtime: Option<u64>, kubelet: Option<u64>| {
            let runtime = runtime.map(of_runtime);
            let kubelet = kubelet.map(status);
            last_end(runtime.as_ref(), kubelet.as_ref()).map(|end| (end.exit_code, end.message))
        };
        let expected = Some((7, Some("out of wine".to_owned())));
        assert_eq!(code(None, None), None);
        assert_eq!(code(None, Some(100)), expected);
        assert_eq!(code(Some(100_500), None), Some((9, None)));
        assert_eq!(code(Some(100_500), Some(100)), expected, "the same end");
        assert_eq!(code(Some(105_000), Some(100)), Some((9, None)), "the kubelet is behind");
        assert_eq!(code(Some(90_000), Some(100)), expected);
    }
}
