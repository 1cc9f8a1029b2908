//! What is said about Services in events.

use k8s_openapi::api::core::v1::ObjectReference;
use rekindle_services::{Frontend, ServiceIdentity};
use rekindle_types::EventSeverity;
use rekindle_types::reasons::event;

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
