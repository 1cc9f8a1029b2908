//! What the events of a pod say of a restart beside a kubelet. They are written once for each
//! request and phase, by their name, and lost when the API does not take them.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use rekindle_types::name_stem::name_stem;
use rekindle_types::reasons::event;
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase};
use rekindle_types::{EventSeverity, Tick};

/// Who says so.
const COMPONENT: &str = "rekindle-agent";
/// Bytes of the pod's name that go into the event's name, which may have 253.
const NAME_BYTES_MAX: usize = 180;
/// Bytes of a message (API reference: 1024).
const MESSAGE_BYTES_MAX: usize = 1024;

/// The event of a status that was written over another; none when it is no news.
pub(crate) fn event_of(
    before: Option<PodRestartPhase>,
    written: &PodRestart,
    pod: &Pod,
    node: &str,
    now: Tick,
) -> Option<Event> {
    let status = written.status.as_ref()?;
    let phase = status.phase.filter(|phase| Some(*phase) != before)?;
    let name = written.metadata.name.as_deref().unwrap_or_default();
    let said = status.message.as_deref().unwrap_or_default();
    let (severity, reason, mut message) = match phase {
        PodRestartPhase::Running => {
            let why = written.spec.reason.as_deref().unwrap_or_default();
            let text = format!("{said} (PodRestart {name}): {why}");
            let text = text.trim_end_matches(": ").to_owned();
            (EventSeverity::Normal, event::POD_RESTARTING, text)
        }
        PodRestartPhase::Succeeded => {
            let text = format!("{said} (PodRestart {name})");
            (EventSeverity::Normal, event::POD_RESTARTED, text)
        }
        PodRestartPhase::Failed | PodRestartPhase::Refused | PodRestartPhase::Withdrawn => {
            let text = format!("{said} (PodRestart {name})");
            (EventSeverity::Warning, event::POD_RESTART_FAILED, text)
        }
    };
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let request = written.metadata.uid.as_deref().unwrap_or_default();
    let stem = name_stem(pod_name, NAME_BYTES_MAX);
    let suffix = format!("{phase:?}").to_lowercase();
    Some(Event {
        metadata: ObjectMeta {
            name: Some(format!("{stem}.{request}.{suffix}")),
            namespace: pod.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            field_path: written.spec.container_name.as_deref().map(|name| field_path(pod, name)),
            ..ObjectReference::default()
        },
        type_: Some(severity.name().to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        count: Some(1),
        first_timestamp: Some(now.to_time()),
        last_timestamp: Some(now.to_time()),
        source: Some(EventSource {
            component: Some(COMPONENT.to_owned()),
            host: Some(node.to_owned()),
        }),
        reporting_component: Some(COMPONENT.to_owned()),
        reporting_instance: Some(node.to_owned()),
        ..Event::default()
    })
}

/// A container as the kubelet's events name it.
fn field_path(pod: &Pod, container: &str) -> String {
    let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let is_init = inits.into_iter().any(|init| init.name == container);
    let list = if is_init { "initContainers" } else { "containers" };
    format!("spec.{list}{{{container}}}")
}

/// Writes an event. An event is no promise: what the API does not take is left.
pub(crate) async fn record(client: Client, event: Event) {
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    let events: Api<Event> = Api::namespaced(client, &namespace);
    match events.create(&PostParams::default(), &event).await {
        Ok(_) => {}
        // an agent before this one has said it
        Err(kube::Error::Api(answer)) if answer.code == 409 => {}
        Err(error) => tracing::info!(%error, "failed to record an event of a restart"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says by failing what it expected")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(before: Option<PodRestartPhase>, spec: Value, status: Value) -> Option<Event> {
        let mut restart = json!({"metadata": {"name": "again", "namespace": "shop", "uid": "r1"},
            "spec": {"podName": "web", "rung": "Pod"}, "status": status});
        for (key, value) in spec.as_object().unwrap() {
            restart["spec"][key] = value.clone();
        }
        let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
            "spec": {"containers": [{"name": "app"}], "initContainers": [{"name": "proxy"}]}});
        let restart = serde_json::from_value(restart).unwrap();
        event_of(before, &restart, &serde_json::from_value(pod).unwrap(), "n1", Tick::from_secs(9))
    }

    #[test]
    fn an_event_says_once_that_a_restart_begins_and_how_it_ended() {
        let running = json!({"phase": "Running", "message": "Restarting the whole pod in place"});
        let event = said(None, json!({"reason": "new certificates"}), running.clone()).unwrap();
        let text = "Restarting the whole pod in place (PodRestart again): new certificates";
        assert_eq!(event.message.as_deref(), Some(text));
        assert_eq!(event.reason.as_deref(), Some("PodRestarting"));
        assert_eq!(event.metadata.name.as_deref(), Some("web.r1.running"));
        assert_eq!(event.involved_object.uid.as_deref(), Some("u1"));
        let text = said(None, json!({}), running.clone()).unwrap().message.unwrap();
        assert_eq!(text, "Restarting the whole pod in place (PodRestart again)");
        assert_eq!(said(Some(PodRestartPhase::Running), json!({}), running), None);
        for (phase, kind, reason) in [
            ("Succeeded", "Normal", "PodRestarted"),
            ("Failed", "Warning", "PodRestartFailed"),
            ("Refused", "Warning", "PodRestartFailed"),
        ] {
            let status = json!({"phase": phase, "message": "so it is"});
            let event = said(Some(PodRestartPhase::Running), json!({}), status).unwrap();
            assert_eq!(event.type_.as_deref(), Some(kind));
            assert_eq!(event.reason.as_deref(), Some(reason));
            assert_eq!(event.message.as_deref(), Some("so it is (PodRestart again)"));
        }
    }

    #[test]
    fn an_event_about_one_container_names_its_field_as_the_kubelet_does() {
        for (name, path) in
            [("app", "spec.containers{app}"), ("proxy", "spec.initContainers{proxy}")]
        {
            let spec = json!({"rung": "Container", "containerName": name});
            let event = said(None, spec, json!({"phase": "Running"})).unwrap();
            assert_eq!(event.involved_object.field_path.as_deref(), Some(path));
        }
    }
}
