//! DaemonSet (apps/v1).

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetStatus, DaemonSetUpdateStrategy, RollingUpdateDaemonSet,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use rekindle_types::{ObjectJson, Tick};

use super::defaults;
use super::preparation::{self, DesiredState};
use super::template::{self, PodMaker};
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, containers_and_images, list_or_none, wide};
use crate::validation::{Path, amounts, json, numbers, selector, text};

/// How often the template was changed: a field of earlier versions of the API that lives on as an
/// annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

impl ApiKind for DaemonSet {
    const NAMES: ResourceNames = ResourceNames {
        singular: "daemonset",
        short_names: &["ds"],
        categories: &["all"],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const SPEC_ANNOTATION: Option<&'static str> = Some(TEMPLATE_GENERATION);
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Desired", "integer", "The number of nodes that should run the daemon pod."),
        column("Current", "integer", "The number of those that have at least one."),
        column("Ready", "integer", "The number of those whose daemon pod is ready."),
        column("Up-to-date", "integer", "The number of those whose pod is of the newest template."),
        column("Available", "integer", "The number of those ready for at least minReadySeconds."),
        column("Node Selector", "string", "The labels that a node must have."),
        AGE,
        wide("Containers", "string", "Names of each container in the template."),
        wide("Images", "string", "Images referenced by each container in the template."),
        wide("Selector", "string", "Label selector for pods."),
    ];

    fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        template::set_defaults(&mut spec.template);
        spec.revision_history_limit.get_or_insert(10);
        let strategy = spec.update_strategy.get_or_insert_default();
        defaults::text(&mut strategy.type_, "RollingUpdate");
        if strategy.type_.as_deref() == Some("RollingUpdate") {
            let rolling = strategy.rolling_update.get_or_insert_default();
            rolling.max_unavailable.get_or_insert(IntOrString::Int(1));
            rolling.max_surge.get_or_insert(IntOrString::Int(0));
        }
        defaults::drop_zeros!(
            self.status,
            [observed_generation, updated_number_scheduled, number_available, number_unavailable]
        );
    }

    /// Upstream keeps the annotation as a field of the spec, which is always shown.
    fn tracked_value(&self) -> serde_json::Value {
        let mut shown = self.clone();
        set_template_generation(&mut shown, template_generation(self));
        ObjectJson::to_value(&shown)
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = Some(DaemonSetStatus::default());
        set_template_generation(self, 1);
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        let desired = DesiredState::compare(&self.spec, &old.spec);
        preparation::next_generation(&mut self.metadata, &old.metadata, desired);
        self.status.clone_from(&old.status);
        let template = DesiredState::compare(&self.spec.template, &old.spec.template);
        let before = template_generation(old);
        set_template_generation(
            self,
            match template {
                DesiredState::Changed => before + 1,
                DesiredState::Same => before,
            },
        );
    }

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let spec = &self.spec;
        let non_negative = |name: &str, value: Option<i32>| {
            numbers::non_negative(value.unwrap_or(0), &field.child(name))
        };
        let mut errors =
            template::check(PodMaker::DaemonSet, &spec.selector, &spec.template, &field);
        errors.extend(non_negative("minReadySeconds", spec.min_ready_seconds));
        if let Some(strategy) = &spec.update_strategy {
            errors.extend(strategy_errors(strategy, &field.child("updateStrategy")));
        }
        errors.extend(non_negative("revisionHistoryLimit", spec.revision_history_limit));
        errors
    }

    const IS_COMPARED_FIRST: bool = true;

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let (new, old) = (&self.spec.selector, &old.spec.selector);
        template::check_selector_update(new, old).into_iter().collect()
    }

    fn warnings(&self) -> Vec<String> {
        template::warnings(&self.spec.template, &template::field())
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let no_status = DaemonSetStatus::default();
        let spec = &self.spec;
        let status = self.status.as_ref().unwrap_or(&no_status);
        let pods = spec.template.spec.as_ref();
        let [containers, images] = containers_and_images(pods);
        let nodes = pods.and_then(|pods| pods.node_selector.as_ref());
        let labels: Vec<String> =
            nodes.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
        vec![
            text(self.metadata.name.as_ref()).into(),
            status.desired_number_scheduled.into(),
            status.current_number_scheduled.into(),
            status.number_ready.into(),
            status.updated_number_scheduled.unwrap_or(0).into(),
            status.number_available.unwrap_or(0).into(),
            list_or_none(labels.iter().map(String::as_str)).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            containers,
            images,
            selector::format(&spec.selector).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for DaemonSet {
    fn prepare_part(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.spec.clone_from(&old.spec);
        self.metadata.generation = old.metadata.generation;
    }

    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        let Some(status) = &self.status else { return Vec::new() };
        let field = Path::new("status");
        let counts = [
            ("currentNumberScheduled", status.current_number_scheduled),
            ("numberMisscheduled", status.number_misscheduled),
            ("desiredNumberScheduled", status.desired_number_scheduled),
            ("numberReady", status.number_ready),
            ("updatedNumberScheduled", status.updated_number_scheduled.unwrap_or(0)),
            ("numberAvailable", status.number_available.unwrap_or(0)),
            ("numberUnavailable", status.number_unavailable.unwrap_or(0)),
            ("collisionCount", status.collision_count.unwrap_or(0)),
        ];
        let errors = counts.map(|(name, count)| numbers::non_negative(count, &field.child(name)));
        errors.into_iter().flatten().collect()
    }
}

fn template_generation(set: &DaemonSet) -> i64 {
    let annotations = set.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(TEMPLATE_GENERATION)?.parse().ok()).unwrap_or(0)
}

/// Whatever the client sent.
fn set_template_generation(set: &mut DaemonSet, generation: i64) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string());
}

fn strategy_errors(strategy: &DaemonSetUpdateStrategy, field: &Path) -> Vec<FieldError> {
    match text(strategy.type_.as_ref()) {
        "OnDelete" => Vec::new(),
        "RollingUpdate" => match &strategy.rolling_update {
            Some(rolling) => rolling_errors(rolling, &field.child("rollingUpdate")),
            None => vec![FieldError::required(field.child("rollingUpdate"), "")],
        },
        other => vec![FieldError::not_supported(field, other, &["RollingUpdate", "OnDelete"])],
    }
}

/// Exactly one of the two is not zero: a node has either its old pod or its new one first.
fn rolling_errors(rolling: &RollingUpdateDaemonSet, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (unavailable, surge) = (rolling.max_unavailable.as_ref(), rolling.max_surge.as_ref());
    let (unavailable_field, surge_field) = (field.child("maxUnavailable"), field.child("maxSurge"));
    for (amount, field) in [(unavailable, &unavailable_field), (surge, &surge_field)] {
        errors.extend(amount.and_then(|amount| amounts::check(amount, field)));
        errors.extend(amount.and_then(|amount| amounts::at_most_all(amount, field)));
    }
    let is_zero = |amount: Option<&IntOrString>| amount.is_none_or(amounts::is_zero);
    match (is_zero(unavailable), is_zero(surge)) {
        (false, false) => errors.push(FieldError {
            field: surge_field.into(),
            problem: FieldProblem::Invalid(surge.map_or_else(|| "0".to_owned(), json)),
            detail: "may not be set when maxUnavailable is non-zero".to_owned(),
        }),
        (true, true) => {
            errors.push(FieldError::required(unavailable_field, "cannot be 0 when maxSurge is 0"))
        }
        (true, false) | (false, true) => {}
    }
    errors
}
