//! The events of a resize: the kubelet's (`pkg/kubelet/events/podresize.go`), with the resources as
//! JSON.

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use rekindle_types::EventSeverity;
use rekindle_types::reasons::event;
use rekindle_types::resources::INFEASIBLE;
use serde::Serialize;

use crate::action::PodEvent;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResizeSummary<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<&'a ResourceRequirements>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<OfContainer<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<OfContainer<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct OfContainer<'a> {
    name: &'a str,
    resources: ResourceRequirements,
}

fn of_container(container: &Container) -> OfContainer<'_> {
    let resources = container.resources.clone().unwrap_or_default();
    OfContainer { name: &container.name, resources }
}

/// Granted: it begins.
pub(super) fn started(pod: &Pod, generation: i64) -> PodEvent {
    let message = message("Pod resize started", pod, generation, None);
    PodEvent {
        severity: EventSeverity::Normal,
        reason: event::RESIZE_STARTED,
        message,
        field_path: None,
    }
}

/// All of it is in force.
pub(super) fn completed(pod: &Pod, generation: i64) -> PodEvent {
    let message = message("Pod resize completed", pod, generation, None);
    let (severity, reason) = (EventSeverity::Normal, event::RESIZE_COMPLETED);
    PodEvent { severity, reason, message, field_path: None }
}

/// A step failed.
pub(super) fn failed(pod: &Pod, generation: i64, error: &str) -> PodEvent {
    let message = message("Pod resize error", pod, generation, Some(error));
    PodEvent {
        severity: EventSeverity::Warning,
        reason: event::RESIZE_ERROR,
        message,
        field_path: None,
    }
}

/// Not granted, now or ever.
pub(super) fn refused(pod: &Pod, reason: &str, why: &str, generation: i64) -> PodEvent {
    let message = message(&format!("Pod resize {reason}"), pod, generation, Some(why));
    let reason =
        if reason == INFEASIBLE { event::RESIZE_INFEASIBLE } else { event::RESIZE_DEFERRED };
    PodEvent { severity: EventSeverity::Warning, reason, message, field_path: None }
}

fn message(begin: &str, pod: &Pod, generation: i64, error: Option<&str>) -> String {
    let spec = pod.spec.as_ref();
    let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let summary = ResizeSummary {
        resources: spec.and_then(|spec| spec.resources.as_ref()),
        init_containers: init.map(of_container).collect(),
        containers: spec.into_iter().flat_map(|spec| &spec.containers).map(of_container).collect(),
        generation,
        error,
    };
    let json = serde_json::to_string(&summary).expect("text keys only, so JSON can hold it");
    format!("{begin}: {json}")
}
