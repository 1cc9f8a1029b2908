//! What is said in events about Services, and about the ports of pods.

use k8s_openapi::api::core::v1::ObjectReference;
use rekindle_pod::PodEvent;
use rekindle_services::{Frontend, ServiceIdentity};
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, PodRef};

use crate::pods::EventRecorder;

/// A port of the machine that the Service wants is another's.
pub(super) fn report_closed_port(
    recorder: &EventRecorder,
    port: Frontend,
    service: ServiceIdentity,
    why: &str,
) {
    let (number, protocol) = (port.port, port.protocol);
    let message = format!(
        "Port {number}/{protocol} of the machine cannot be opened: {why}; free the port, or give the Service another one"
    );
    let about = reference_to(service);
    recorder.record(about, EventSeverity::Warning, event::FAILED_OPEN_PORT, message);
}

/// A process listens at a node port, and clients reach the Service there.
pub(super) fn report_shadowed_port(
    recorder: &EventRecorder,
    port: Frontend,
    service: ServiceIdentity,
    why: &str,
) {
    let (number, protocol) = (port.port, port.protocol);
    let message = format!(
        "Node port {number}/{protocol} is another process's, too ({why}): its clients reach the Service now; free the port, or give the Service another one"
    );
    let about = reference_to(service);
    recorder.record(about, EventSeverity::Warning, event::PORT_CONFLICT, message);
}

/// A pod that runs goes on without ports that are another's.
pub(super) fn report_lost_ports(recorder: &EventRecorder, pod: &PodRef, refused: &[String]) {
    let lost = refused.join("; ");
    tracing::warn!(%pod, lost, "failed to reopen a running pod's host ports");
    let message = format!("lost a port of the node, and gets it when it is free: {lost}");
    let (severity, reason) = (EventSeverity::Warning, event::FAILED_SYNC);
    recorder.pod_event(pod, PodEvent { severity, reason, message, field_path: None });
}

pub(super) fn reference_to(service: ServiceIdentity) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        namespace: Some(service.name.namespace),
        name: Some(service.name.name),
        uid: Some(service.uid),
        ..ObjectReference::default()
    }
}
