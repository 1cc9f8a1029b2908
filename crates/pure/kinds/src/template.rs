//! What DaemonSets, Deployments, ReplicaSets and StatefulSets have in common: a selector and the
//! template of their pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::ladder_annotations;
use super::pod::{self, annotations, defaults, validate};
use crate::registry::metadata;
use crate::validation::{Path, json, labels, selector, text};

/// Fills the spec of the pods. What says nothing must not look like a change to those who make
/// them.
pub(super) fn set_defaults(template: &mut PodTemplateSpec) {
    if let Some(metadata) = &mut template.metadata {
        metadata::drop_empty(metadata);
    }
    defaults::pod_spec(template.spec.get_or_insert_default());
}

/// Who makes the pods of a template, as upstream's texts name it: those of a Deployment are made by
/// its ReplicaSets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodMaker {
    DaemonSet,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
}

impl PodMaker {
    /// What upstream says of a selector that cannot be used, beside what is wrong in it.
    fn unreadable_selector(self, selector: &LabelSelector, field: Path) -> Option<FieldError> {
        let detail = match self {
            PodMaker::ReplicaSet => "invalid label selector",
            PodMaker::StatefulSet => "",
            PodMaker::DaemonSet | PodMaker::ReplicationController => return None,
        };
        Some(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid(json(selector)),
            detail: detail.to_owned(),
        })
    }

    /// What is wrong in a selector. A map of labels may hold any.
    fn selector_mistakes(self, selector: &LabelSelector, field: &Path) -> Vec<FieldError> {
        match self {
            PodMaker::ReplicationController => Vec::new(),
            PodMaker::DaemonSet | PodMaker::ReplicaSet | PodMaker::StatefulSet => {
                selector::check(selector, field)
            }
        }
    }

    const fn name(self) -> &'static str {
        match self {
            PodMaker::DaemonSet => "DaemonSet",
            PodMaker::ReplicaSet => "ReplicaSet",
            PodMaker::ReplicationController => "ReplicationController",
            PodMaker::StatefulSet => "StatefulSet",
        }
    }

    /// Whether the selector is a map of labels, which is empty where it is missing.
    const fn has_selecting_labels(self) -> bool {
        matches!(self, PodMaker::ReplicationController)
    }

    /// What is wrong with a selector that is not there.
    fn missing_selector(self, field: Path) -> Option<FieldError> {
        match self {
            PodMaker::ReplicaSet | PodMaker::ReplicationController | PodMaker::StatefulSet => {
                Some(FieldError::required(field, ""))
            }
            PodMaker::DaemonSet => None,
        }
    }

    /// What is wrong with a selector that selects everything. The reader keeps it apart from one
    /// that is missing.
    fn empty_selector(self, field: Path) -> FieldError {
        let workload = match self {
            PodMaker::ReplicationController => return FieldError::required(field, ""),
            PodMaker::ReplicaSet => "deployment",
            PodMaker::DaemonSet => "daemonset",
            PodMaker::StatefulSet => "statefulset",
        };
        FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid("{}".to_owned()),
            detail: format!("empty selector is invalid for {workload}"),
        }
    }
}

/// The selector, or the lack of one, does not select the pods of the template at `field`.
pub(super) fn unselected_labels(
    labels: Option<&BTreeMap<String, String>>,
    field: &Path,
) -> FieldError {
    FieldError {
        field: field.child("metadata").child("labels").into(),
        problem: FieldProblem::Invalid(json(&labels)),
        detail: "`selector` does not match template `labels`".to_owned(),
    }
}

/// Everything wrong with the selector and the template.
pub(super) fn check(
    maker: PodMaker,
    labels_selector: &LabelSelector,
    template: &PodTemplateSpec,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let metadata = template.metadata.as_ref();
    let template_labels = metadata.and_then(|metadata| metadata.labels.as_ref());
    let template_field = field.child("template");
    let selector_field = field.child("selector");
    if labels_selector == &LabelSelector::default() && !maker.has_selecting_labels() {
        errors.extend(maker.missing_selector(selector_field));
        errors.push(unselected_labels(template_labels, &template_field));
    } else if selector::is_empty(labels_selector) {
        errors.push(maker.empty_selector(selector_field));
    } else {
        let mistakes = maker.selector_mistakes(labels_selector, &selector_field);
        if !mistakes.is_empty() {
            errors.extend(mistakes);
            if let Some(error) = maker.unreadable_selector(labels_selector, selector_field) {
                // upstream looks no further
                errors.push(error);
                return errors;
            }
        } else if !selector::matches(labels_selector, template_labels) {
            errors.push(unselected_labels(template_labels, &template_field));
        }
    }
    errors.extend(check_pods(template, &template_field));
    errors.extend(check_spec(maker, template, &template_field.child("spec")));
    if maker == PodMaker::StatefulSet {
        // upstream looks at the metadata twice: its causes are there twice
        errors.extend(check_labels_and_annotations(template, &template_field));
    }
    errors
}

/// Everything wrong with the pods of the template at `field`.
pub(super) fn check_pods(template: &PodTemplateSpec, field: &Path) -> Vec<FieldError> {
    let metadata = template.metadata.as_ref();
    let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
    let mut errors = check_labels_and_annotations(template, field);
    if let Some(spec) = &template.spec {
        let field = field.child("spec");
        errors.extend(validate::pod_spec(spec, validate::SpecHolder::Template, &field));
        errors.extend(pod::profiles::agree(annotations, spec, &field));
    }
    errors
}

fn check_labels_and_annotations(template: &PodTemplateSpec, field: &Path) -> Vec<FieldError> {
    let metadata = template.metadata.as_ref();
    let labels = metadata.and_then(|metadata| metadata.labels.as_ref());
    let mut errors = labels::labels(labels, &field.child("labels"));
    let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
    errors.extend(labels::annotations(annotations, &field.child("annotations")));
    errors.extend(annotations::check(
        annotations,
        template.spec.as_ref(),
        &field.child("annotations"),
    ));
    errors
}

fn check_spec(maker: PodMaker, template: &PodTemplateSpec, field: &Path) -> Vec<FieldError> {
    let Some(spec) = &template.spec else {
        return vec![FieldError::required(field, "")];
    };
    let mut errors = Vec::new();
    let policy = text(spec.restart_policy.as_ref());
    if policy != "Always" && !policy.is_empty() {
        errors.push(FieldError::not_supported(field.child("restartPolicy"), policy, &["Always"]));
    }
    if spec.active_deadline_seconds.is_some() {
        errors.push(FieldError::forbidden(
            field.child("activeDeadlineSeconds"),
            format!("activeDeadlineSeconds in {} is not Supported", maker.name()),
        ));
    }
    errors
}

/// A selector decides which pods belong to whom, so it never changes.
pub(super) fn check_selector_update(
    new: &LabelSelector,
    old: &LabelSelector,
) -> Option<FieldError> {
    (new != old).then(|| FieldError {
        field: "spec.selector".to_owned(),
        problem: FieldProblem::Invalid(shown_selector(new)),
        detail: "field is immutable".to_owned(),
    })
}

/// A selector as an error shows it: null where there is none.
fn shown_selector(selector: &LabelSelector) -> String {
    if *selector == LabelSelector::default() {
        "null".to_owned()
    } else if selector::is_empty(selector) {
        "{}".to_owned()
    } else {
        json(selector)
    }
}

/// The warnings of the pods that the template at `field` makes.
pub(super) fn warnings(template: &PodTemplateSpec, field: &Path) -> Vec<String> {
    let annotations_field = field.child("metadata").child("annotations");
    let annotations = template.metadata.as_ref().and_then(|meta| meta.annotations.as_ref());
    let of_spec = |spec| {
        pod::warnings(&pod::AdvisedPod {
            holder: validate::SpecHolder::Template,
            annotations,
            annotations_field: &annotations_field,
            spec,
            field: &field.child("spec"),
        })
    };
    let of_spec = template.spec.as_ref().map_or_else(Vec::new, of_spec);
    let of_ladder = ladder_annotations::warnings(annotations, &annotations_field);
    of_ladder.into_iter().chain(of_spec).collect()
}

/// Where the template of most workloads stands.
pub(super) fn field() -> Path {
    Path::new("spec").child("template")
}
