//! HorizontalPodAutoscaler (autoscaling/v2): how many replicas a workload has, by what its pods
//! use. `rekindle-controllers` has the controller.

mod behavior;
mod behavior_annotation;
mod metrics;
mod row;
mod v1;

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::{defaults, preparation};
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, invalid_each, names, numbers, text};

impl ApiKind for HorizontalPodAutoscaler {
    const NAMES: ResourceNames = ResourceNames {
        singular: "horizontalpodautoscaler",
        short_names: &["hpa"],
        categories: &["all"],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Reference", "string", "The workload that is scaled."),
        column("Targets", "string", "Each metric as it is, and as it should be."),
        column("MinPods", "string", "The fewest replicas that the workload gets."),
        column("MaxPods", "string", "The most replicas that the workload gets."),
        column("Replicas", "string", "The replicas that the workload has, as last seen."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        v1::take_view_annotations(&mut self.metadata);
        self.spec.min_replicas.get_or_insert(1);
        metrics::set_defaults(&mut self.spec);
        behavior::set_defaults(self.spec.behavior.as_mut());
        defaults::drop_zeros!(self.status, [current_replicas]);
    }

    /// Upstream gives the kind no generation.
    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        self.metadata.generation = None;
        self.status = Some(HorizontalPodAutoscalerStatus::default());
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.metadata.generation = old.metadata.generation;
        self.status.clone_from(&old.status);
    }

    fn validate_created(&self) -> Vec<FieldError> {
        spec_errors(&self.spec, group_error(self), &Path::new("spec"))
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let target = |autoscaler: &Self| {
            let target = &autoscaler.spec.scale_target_ref;
            (target.api_version.clone(), target.kind.clone())
        };
        // one that is stored already may stay
        let is_other = target(self) != target(old);
        group_error(self).filter(|_| is_other).into_iter().collect()
    }

    fn validate(&self) -> Vec<FieldError> {
        spec_errors(&self.spec, None, &Path::new("spec"))
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let (spec, status) = (&self.spec, self.status.as_ref());
        let target = &spec.scale_target_ref;
        let min = spec.min_replicas.map_or_else(|| "<unset>".to_owned(), |min| min.to_string());
        vec![
            text(self.metadata.name.as_ref()).into(),
            format!("{}/{}", target.kind, target.name).into(),
            row::targets(spec, status).into(),
            min.into(),
            spec.max_replicas.into(),
            status.and_then(|status| status.current_replicas).unwrap_or(0).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for HorizontalPodAutoscaler {
    preparation::updates_of_status_and_metadata!();

    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        let Some(status) = &self.status else { return Vec::new() };
        let field = Path::new("status");
        [
            ("currentReplicas", status.current_replicas.unwrap_or(0)),
            ("desiredReplicas", status.desired_replicas),
        ]
        .into_iter()
        .filter_map(|(name, count)| numbers::non_negative(count, &field.child(name)))
        .collect()
    }
}

/// Source: upstream's `pkg/apis/autoscaling/validation`.
fn spec_errors(
    spec: &HorizontalPodAutoscalerSpec,
    of_group: Option<FieldError>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (min, max) = (spec.min_replicas, spec.max_replicas);
    // Zero needs such a metric (KEP-2021, on since Kubernetes 1.37). Without one the answer is that
    // of Kubernetes 1.36.
    let least = if metrics::count_without_pods(spec) { 0 } else { 1 };
    if let Some(min) = min.filter(|min| *min < least) {
        let why = format!("must be greater than or equal to {least}");
        errors.push(FieldError::invalid(field.child("minReplicas"), min, why));
    }
    let max_field = field.child("maxReplicas");
    match max {
        0 => errors.push(FieldError::required(&max_field, "must be set and greater than 0")),
        ..0 => {
            errors.push(FieldError::invalid(&max_field, max, "must be greater than or equal to 1"))
        }
        1.. => {}
    }
    if min.is_some_and(|min| max < min) {
        let why = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(&max_field, max, why));
    }
    errors.extend(reference_errors(&spec.scale_target_ref, &field.child("scaleTargetRef")));
    errors.extend(of_group);
    errors.extend(metrics::errors(spec, &field.child("metrics")));
    if let Some(behavior) = &spec.behavior {
        errors.extend(behavior::errors(behavior, &field.child("behavior")));
    }
    errors
}

fn reference_errors(reference: &CrossVersionObjectReference, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, value) in [("kind", &reference.kind), ("name", &reference.name)] {
        let field = field.child(name);
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else {
            errors.extend(invalid_each(&field, value, names::path_segment(value)));
        }
    }
    let version = text(reference.api_version.as_ref());
    if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        errors.push(FieldError::invalid(field.child("apiVersion"), version, why));
    }
    errors
}

/// A workload without an API group that is no ReplicationController.
fn group_error(autoscaler: &HorizontalPodAutoscaler) -> Option<FieldError> {
    let target = &autoscaler.spec.scale_target_ref;
    let version = text(target.api_version.as_ref());
    let is_in_core = !version.contains('/') && target.kind != "ReplicationController";
    is_in_core.then(|| {
        let field = Path::new("spec").child("scaleTargetRef").child("apiVersion");
        FieldError::invalid(field, version, "apiVersion must specify API group")
    })
}
