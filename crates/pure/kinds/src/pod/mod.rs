//! Pod (core/v1).

mod advice;
pub(super) mod annotations;
pub mod defaults;
mod deprecated_keys;
mod image;
mod label_keys;
mod overlaps;
pub(super) mod profiles;
mod resize;
mod row;
mod status;
pub mod unenforced;
pub(crate) mod validate;

pub(crate) use advice::AdvisedPod;
pub use row::PodSummary;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodSpec, PodStatus};
use rekindle_types::pods;
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{ObjectJson, Tick, resources, taints};
use serde_json::Value;

use super::ladder_annotations;
use super::preparation::{self, DesiredState};
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{
    EphemeralPart, ResizePart, StatusPart, Strategies, SubresourceStrategy,
};
use crate::validation::{Path, items, text};

/// The taints that every pod tolerates for 300 s unless it says otherwise.
const DEFAULT_TOLERATION_KEYS: [&str; 2] = [taints::NOT_READY, taints::UNREACHABLE];

impl ApiKind for Pod {
    const NAMES: ResourceNames = ResourceNames {
        singular: "pod",
        short_names: &["po"],
        categories: &["all"],
        scope: ResourceScope::Namespaced,
    };
    const NAME_IS_IN: Option<&'static str> = Some("the Pod's hostname");
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::Status,
        Subresource::Binding,
        Subresource::Eviction,
        Subresource::Log,
        Subresource::Exec,
        Subresource::Attach,
        Subresource::PortForward,
        Subresource::Proxy,
        Subresource::Resize,
        Subresource::EphemeralContainers,
    ];
    const STRATEGIES: Strategies<Self> =
        Strategies::of_status().with_resize().with_ephemeral_containers();
    const COLUMNS: &'static [TableColumn] = row::COLUMNS;
    const SELECTABLE_FIELDS: &'static [&'static str] = &[
        "spec.hostNetwork",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.nominatedNodeName",
        "status.phase",
        "status.podIP",
        "status.podIPs",
    ];

    fn set_defaults(&mut self) {
        defaults::pod(self);
    }

    fn prepare_for_create(&mut self, ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        label_keys::merge(self);
        if let Some(spec) = &mut self.spec {
            profiles::into_fields(self.metadata.annotations.as_ref(), spec);
        }
        let class = self.spec.as_ref().map(resources::qos_class);
        self.status = Some(PodStatus {
            conditions: gated(self, ctx.now).map(|condition| vec![condition]),
            phase: Some("Pending".to_owned()),
            qos_class: class.map(str::to_owned),
            ..PodStatus::default()
        });
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        keep_priority(self.spec.as_mut(), old.spec.as_ref());
        let desired = DesiredState::compare(&self.spec, &old.spec);
        preparation::next_generation(&mut self.metadata, &old.metadata, desired);
        self.status.clone_from(&old.status);
    }

    fn status_alone(&self, is_replaced: &dyn Fn(&str) -> bool) -> Option<Value> {
        let status = self.status.as_ref().map(|status| status::without(status, is_replaced));
        Some(status.map_or(Value::Null, |status| status.to_value()))
    }

    fn validate_new(&self) -> Vec<FieldError> {
        let spec = self.spec.as_ref();
        let has_ephemeral =
            spec.is_some_and(|spec| !items(spec.ephemeral_containers.as_ref()).is_empty());
        let is_bound_and_gated = spec.is_some_and(|spec| {
            !text(spec.node_name.as_ref()).is_empty()
                && !items(spec.scheduling_gates.as_ref()).is_empty()
        });
        let ephemeral = has_ephemeral
            .then(|| FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
        let gated = is_bound_and_gated.then(|| {
            let why = "cannot be set until all schedulingGates have been cleared";
            FieldError::forbidden("spec.nodeName", why)
        });
        let annotations = self.metadata.annotations.as_ref();
        let profiles = spec.map(|spec| profiles::agree(annotations, spec, &Path::new("spec")));
        profiles.into_iter().flatten().chain(ephemeral).chain(gated).collect()
    }

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("metadata").child("annotations");
        let annotations = self.metadata.annotations.as_ref();
        let mut errors = annotations::check(annotations, self.spec.as_ref(), &field);
        errors.extend(self.spec.as_ref().map_or_else(
            || vec![FieldError::required("spec", "")],
            |spec| validate::pod_spec(spec, validate::SpecHolder::Pod, &Path::new("spec")),
        ));
        if let Some(spec) = &self.spec {
            let (name, field) = (text(self.metadata.name.as_ref()), Path::new("spec"));
            let volumes = items(spec.volumes.as_ref());
            errors.extend(validate::volume_claims::by_name(volumes, name, &field.child("volumes")));
            errors.extend(validate::tokens_of_nobody(spec, &field));
        }
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = annotations_changed(self, old);
        errors.extend(validate::pod_update(self, old));
        errors
    }

    fn warnings(&self) -> Vec<String> {
        let field = Path::new("metadata").child("annotations");
        let of_ladder = ladder_annotations::warnings(self.metadata.annotations.as_ref(), &field);
        let of_spec = self.spec.as_ref().map_or_else(Vec::new, |spec| {
            warnings(&AdvisedPod {
                holder: validate::SpecHolder::Pod,
                annotations: self.metadata.annotations.as_ref(),
                annotations_field: &field,
                spec,
                field: &Path::new("spec"),
            })
        });
        of_ladder.into_iter().chain(of_spec).collect()
    }

    fn warnings_of_preparation(&self) -> Vec<String> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let field = Path::new("metadata").child("annotations");
        profiles::app_armor_warnings(self.metadata.annotations.as_ref(), spec, &field)
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        let spec = self.spec.as_ref();
        let status = self.status.as_ref();
        let of_spec = |get: fn(&PodSpec) -> &Option<String>| {
            text(spec.and_then(|spec| get(spec).as_ref())).to_owned()
        };
        let of_status = |get: fn(&PodStatus) -> &Option<String>| {
            text(status.and_then(|status| get(status).as_ref())).to_owned()
        };
        let host_network = spec.is_some_and(|spec| spec.host_network == Some(true));
        let pod_ip = of_status(|status| &status.pod_ip);
        vec![
            ("spec.hostNetwork", host_network.to_string()),
            ("spec.nodeName", of_spec(|spec| &spec.node_name)),
            ("spec.restartPolicy", of_spec(|spec| &spec.restart_policy)),
            ("spec.schedulerName", of_spec(|spec| &spec.scheduler_name)),
            ("spec.serviceAccountName", of_spec(|spec| &spec.service_account_name)),
            ("status.nominatedNodeName", of_status(|status| &status.nominated_node_name)),
            ("status.phase", of_status(|status| &status.phase)),
            ("status.podIP", pod_ip.clone()),
            ("status.podIPs", pod_ip),
        ]
    }

    /// Its own grace period while it is on a node and not at its end; else it goes at once,
    /// whatever a delete asks for.
    fn deletion_grace_period_seconds(&self) -> i64 {
        match &self.spec {
            Some(spec) if needs_time(self) => {
                match spec.termination_grace_period_seconds.unwrap_or(30) {
                    ..0 => 1,
                    seconds => seconds,
                }
            }
            Some(_) | None => 0,
        }
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        row::row(self, now)
    }
}

impl SubresourceStrategy<StatusPart> for Pod {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
        self.metadata.owner_references.clone_from(&old.metadata.owner_references);
        self.metadata.generation = old.metadata.generation;
        // The class is fixed at creation.
        let class = old.status.as_ref().and_then(|status| status.qos_class.clone());
        let status = self.status.get_or_insert_default();
        status.qos_class = status.qos_class.take().filter(|given| !given.is_empty()).or(class);
    }

    /// The metadata may change with the status. What stood there before is no reason to refuse what
    /// a node says of its pod.
    fn validate_part(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = validate::pod_status(self, old);
        let (new, was) = (self.metadata.annotations.as_ref(), old.metadata.annotations.as_ref());
        if new == was {
            return errors;
        }
        let field = Path::new("metadata").child("annotations");
        errors.extend(annotations_changed(self, old));
        errors.extend(annotations::check(new, self.spec.as_ref(), &field));
        errors
    }
}

impl SubresourceStrategy<ResizePart> for Pod {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        resize::keep_all_but_resources(self, old);
        let desired = DesiredState::compare(&self.spec, &old.spec);
        preparation::next_generation(&mut self.metadata, &old.metadata, desired);
    }

    fn validate_part(&self, old: &Self) -> Vec<FieldError> {
        resize::validate(self, old)
    }
}

impl SubresourceStrategy<EphemeralPart> for Pod {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        let added = self.spec.as_mut().and_then(|spec| spec.ephemeral_containers.take());
        let given = std::mem::replace(self, old.clone()).metadata;
        self.metadata.uid = given.uid;
        self.metadata.resource_version = given.resource_version;
        self.metadata.managed_fields = given.managed_fields;
        if let Some(spec) = &mut self.spec {
            spec.ephemeral_containers = added;
        }
        let desired = DesiredState::compare(&self.spec, &old.spec);
        preparation::next_generation(&mut self.metadata, &old.metadata, desired);
    }

    fn validate_part(&self, old: &Self) -> Vec<FieldError> {
        validate::ephemeral::update(self, old)
    }
}

/// Whether its node has to end it: it is on one, and something of it may run. One that somebody
/// else than its node made Failed goes on until the node has ended it (upstream: not looked at), so
/// that a StatefulSet does not make the next one of its name meanwhile.
pub fn needs_time(pod: &Pod) -> bool {
    let is_on_node =
        pod.spec.as_ref().is_some_and(|spec| !text(spec.node_name.as_ref()).is_empty());
    let Some(status) = &pod.status else { return is_on_node };
    let lists = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let runs = |container: &ContainerStatus| {
        container.state.as_ref().is_some_and(|state| state.running.is_some())
    };
    let is_at_end = pods::is_finished(pod);
    is_on_node && (!is_at_end || lists.into_iter().flatten().flatten().any(runs))
}

/// What a pod with scheduling gates says of itself from the start, before any scheduler sees it
/// (KEP-3521).
fn gated(pod: &Pod, now: Tick) -> Option<PodCondition> {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    gates.filter(|gates| !gates.is_empty()).map(|_| PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("SchedulingGated".to_owned()),
        message: Some("Scheduling is blocked due to non-empty scheduling gates".to_owned()),
        last_transition_time: Some(now.to_time()),
        ..PodCondition::default()
    })
}

fn annotations_changed(new: &Pod, old: &Pod) -> Vec<FieldError> {
    let field = Path::new("metadata").child("annotations");
    let (new, old) = (new.metadata.annotations.as_ref(), old.metadata.annotations.as_ref());
    annotations::check_update(new, old, &field)
}

/// Takes over what admission filled in when the pod was created, and a client that sends its
/// manifest again leaves out.
fn keep_priority(spec: Option<&mut PodSpec>, old: Option<&PodSpec>) {
    let (Some(spec), Some(old)) = (spec, old) else { return };
    spec.priority = spec.priority.or(old.priority);
    if spec.preemption_policy.is_none() {
        spec.preemption_policy.clone_from(&old.preemption_policy);
    }
}

/// Everything worth a Warning in a pod, or in the pods of a template.
pub(crate) fn warnings(pod: &AdvisedPod<'_>) -> Vec<String> {
    let mut warnings = advice::warnings(pod);
    warnings.extend(unenforced::warnings(pod.spec, &pod.field.to_string()));
    warnings
}

#[cfg(test)]
mod tests;
