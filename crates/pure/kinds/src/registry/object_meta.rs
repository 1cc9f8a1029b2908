//! `metadata`, whatever the kind.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use crate::registry::resource::{MetadataChecks, ResourceScope};
use crate::validation::names::NameRule;
use crate::validation::{
    ListKeys, MISTAKES_MAX, Path, invalid_each, items, labels, names, shortened, text,
};

/// How the metadata of a kind's objects must look.
#[derive(Clone, Copy, Debug)]
pub struct MetadataRules {
    /// The name.
    pub name: NameRule,
    /// The namespace.
    pub scope: ResourceScope,
    /// The finalizers.
    pub finalizers: FinalizerRule,
    /// What is checked of a change.
    pub checks: MetadataChecks,
}

/// How the names of finalizers must look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerRule {
    /// They have a domain, or are Kubernetes' own.
    Qualified,
    /// They may be any, but those without a domain deserve a warning.
    Any,
}

/// Everything wrong with a new object: with its metadata, what its kind has found, and what is left
/// to the machinery, which looks only when there is nothing else.
pub fn with_errors_of_new(
    meta: &ObjectMeta,
    rules: &MetadataRules,
    of_kind: impl FnOnce() -> Vec<FieldError>,
) -> Vec<FieldError> {
    let field = Path::new("metadata");
    // what a rule of the kind takes, the machinery takes, too
    let (mut errors, is_left) = match rules.checks {
        MetadataChecks::OfUpdate | MetadataChecks::OfUpdateAndObject | MetadataChecks::OfObject => {
            (check(meta, rules, &field), rules.name == NameRule::AnyText)
        }
        MetadataChecks::OfMachinery => (Vec::new(), true),
    };
    errors.extend(of_kind());
    if is_left && errors.is_empty() {
        let rules =
            MetadataRules { name: NameRule::PathSegment, finalizers: FinalizerRule::Any, ..*rules };
        errors = check(meta, &rules, &field);
    }
    errors
}

/// Checks the metadata of a new object, and those parts of a changed one that may change.
pub fn check(meta: &ObjectMeta, rules: &MetadataRules, field: &Path) -> Vec<FieldError> {
    let (rule, scope) = (rules.name, rules.scope);
    let mut errors = Vec::new();
    let generate_name = text(meta.generate_name.as_ref());
    let name = text(meta.name.as_ref());
    if !generate_name.is_empty() {
        let messages = names::by_rule_prefix(rule, generate_name);
        errors.extend(invalid_each(&field.child("generateName"), generate_name, messages));
    }
    if name.is_empty() {
        errors.push(FieldError::required(field.child("name"), "name or generateName is required"));
    } else {
        errors.extend(invalid_each(&field.child("name"), name, names::by_rule(rule, name)));
    }
    errors.extend(check_namespace(text(meta.namespace.as_ref()), scope, &field.child("namespace")));
    errors.extend(check_common(meta, field));
    errors.extend(check_finalizer_domains(meta, rules, field));
    errors
}

/// What upstream checks of the metadata of each object, whatever its kind says.
fn check_common(meta: &ObjectMeta, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if meta.generation.is_some_and(|generation| generation < 0) {
        errors.push(FieldError::invalid(
            field.child("generation"),
            meta.generation.unwrap_or_default(),
            "must be greater than or equal to 0",
        ));
    }
    errors.extend(check_changeable(meta, field));
    errors.extend(check_finalizers(items(meta.finalizers.as_ref()), &field.child("finalizers")));
    errors
}

/// Labels, annotations and owners.
fn check_changeable(meta: &ObjectMeta, field: &Path) -> Vec<FieldError> {
    let mut errors = labels::labels(meta.labels.as_ref(), &field.child("labels"));
    errors.extend(labels::annotations(meta.annotations.as_ref(), &field.child("annotations")));
    let owners = items(meta.owner_references.as_ref());
    errors.extend(check_owners(owners, &field.child("ownerReferences")));
    errors
}

fn check_namespace(namespace: &str, scope: ResourceScope, field: &Path) -> Vec<FieldError> {
    match scope {
        ResourceScope::Namespaced if namespace.is_empty() => vec![FieldError::required(field, "")],
        ResourceScope::Namespaced => {
            invalid_each(field, namespace, names::dns_label(namespace)).collect()
        }
        ResourceScope::Cluster if namespace.is_empty() => Vec::new(),
        ResourceScope::Cluster => vec![FieldError::forbidden(field, "not allowed on this type")],
    }
}

fn check_owners(owners: &[OwnerReference], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<&OwnerReference> = None;
    for owner in owners {
        if errors.len() >= MISTAKES_MAX {
            break;
        }
        let version = owner.api_version.rsplit('/').next().unwrap_or_default();
        if version.is_empty() || owner.api_version.starts_with('/') {
            errors.push(FieldError::invalid(
                field.child("apiVersion"),
                &owner.api_version,
                "version must not be empty",
            ));
        }
        for (name, value) in [("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)] {
            if value.is_empty() {
                errors.push(FieldError::invalid(field.child(name), value, "must not be empty"));
            }
        }
        if owner.kind == "Event" && matches!(owner.api_version.as_str(), "v1" | "events.k8s.io/v1")
        {
            let group_version = match owner.api_version.as_str() {
                "v1" => "/v1",
                other => other,
            };
            errors.push(FieldError {
                field: field.into(),
                problem: FieldProblem::Invalid(shown_owner(owner)),
                detail: format!("{group_version}, Kind=Event is disallowed from being an owner"),
            });
        }
        if owner.controller == Some(true) {
            if let Some(first) = controller {
                errors.push(FieldError {
                    field: field.into(),
                    problem: FieldProblem::Invalid(shown_owners(owners)),
                    detail: format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
                        shortened(&first.kind), shortened(&first.name), owner.kind, owner.name
                    ),
                });
            } else {
                controller = Some(owner);
            }
        }
    }
    errors
}

/// The owners as JSON, as far as an error shows them.
fn shown_owners(owners: &[OwnerReference]) -> String {
    const SHOWN_MAX: usize = 16;
    let shown: Vec<_> = owners.iter().take(SHOWN_MAX).map(shown_owner).collect();
    format!("[{}]", shown.join(","))
}

fn shown_owner(owner: &OwnerReference) -> String {
    let text = |text: &str| serde_json::Value::from(shortened(text));
    let mut fields = format!(
        "{{\"apiVersion\":{},\"kind\":{},\"name\":{},\"uid\":{}",
        text(&owner.api_version),
        text(&owner.kind),
        text(&owner.name),
        text(&owner.uid)
    );
    for (name, value) in
        [("controller", owner.controller), ("blockOwnerDeletion", owner.block_owner_deletion)]
    {
        if let Some(value) = value {
            fields.push_str(&format!(",\"{name}\":{value}"));
        }
    }
    fields + "}"
}

fn check_finalizers(finalizers: &[String], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for finalizer in finalizers {
        if errors.len() >= MISTAKES_MAX {
            break;
        }
        errors.extend(invalid_each(field, finalizer, names::qualified(finalizer)));
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid_json(field, &finalizers, why));
    }
    errors
}

/// Unqualified names are kept for upstream's own two and for the namespace's.
fn check_finalizer_domains(
    meta: &ObjectMeta,
    rules: &MetadataRules,
    field: &Path,
) -> Vec<FieldError> {
    let finalizers = match rules.finalizers {
        FinalizerRule::Qualified => items(meta.finalizers.as_ref()),
        FinalizerRule::Any => &[],
    };
    let field = field.child("finalizers");
    let unknown = finalizers.iter().enumerate().filter(|(_, name)| !is_qualified(name));
    let errors = unknown.take(MISTAKES_MAX).map(|(index, finalizer)| {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        FieldError::invalid(field.index(index), finalizer, detail)
    });
    errors.collect()
}

fn is_qualified(finalizer: &str) -> bool {
    finalizer.contains('/') || matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes")
}

/// The warnings about finalizers that might be those of another writer, of an object with
/// any finalizers.
pub fn finalizer_warnings(meta: &ObjectMeta) -> Vec<String> {
    let unknown = items(meta.finalizers.as_ref()).iter().filter(|name| !is_qualified(name));
    let warning = |name: &String| {
        format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name to avoid \
             accidental conflicts with other finalizer writers"
        )
    };
    unknown.take(MISTAKES_MAX).map(warning).collect()
}

/// Everything wrong with the metadata of a changed object. Upstream asks the machinery and the
/// kind, and tells what both find twice; so do we, because clients count causes.
pub fn check_change(
    (new, old): (&ObjectMeta, &ObjectMeta),
    rules: &MetadataRules,
) -> Vec<FieldError> {
    let field = Path::new("metadata");
    let mut errors = check_common(new, &field);
    let times = match rules.checks {
        MetadataChecks::OfObject | MetadataChecks::OfMachinery => 1,
        MetadataChecks::OfUpdate | MetadataChecks::OfUpdateAndObject => 2,
    };
    for _ in 0..times {
        errors.extend(check_update(new, old, &field));
        errors.extend(check_changeable(new, &field));
    }
    errors.extend(check_finalizer_domains(new, rules, &field));
    match rules.checks {
        MetadataChecks::OfUpdate | MetadataChecks::OfMachinery => {}
        MetadataChecks::OfUpdateAndObject | MetadataChecks::OfObject => {
            errors.extend(check(new, rules, &field))
        }
    }
    errors
}

/// Checks what may never change. The machinery has filled the fields that a client may leave out.
pub fn check_update(new: &ObjectMeta, old: &ObjectMeta, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let texts = [
        ("name", &new.name, &old.name),
        ("namespace", &new.namespace, &old.namespace),
        ("uid", &new.uid, &old.uid),
    ];
    for (name, new, old) in texts {
        if new != old {
            errors.push(immutable(field.child(name), text(new.as_ref())));
        }
    }
    let times = [
        ("creationTimestamp", &new.creation_timestamp, &old.creation_timestamp),
        ("deletionTimestamp", &new.deletion_timestamp, &old.deletion_timestamp),
    ];
    for (name, new, old) in times {
        if new != old {
            let shown = new.as_ref().map_or_else(String::new, |time| time.0.to_string());
            errors.push(immutable(field.child(name), &shown));
        }
    }
    let grace = new.deletion_grace_period_seconds;
    if grace != old.deletion_grace_period_seconds {
        errors.push(FieldError::invalid(
            field.child("deletionGracePeriodSeconds"),
            grace.unwrap_or_default(),
            "field is immutable",
        ));
    }
    if new.deletion_timestamp.is_some() {
        let old_finalizers: ListKeys<&String> = items(old.finalizers.as_ref()).iter().collect();
        let added: Vec<&String> = items(new.finalizers.as_ref())
            .iter()
            .filter(|finalizer| !old_finalizers.has(finalizer))
            .collect();
        if !added.is_empty() {
            let added: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            let added = added.join(", ");
            errors.push(FieldError::forbidden(
                field.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{added}}}"
                ),
            ));
        }
    }
    errors
}

/// What is said of a field that may not change, in upstream's words.
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// `field is immutable`, in upstream's words.
pub fn immutable(field: Path, value: &str) -> FieldError {
    FieldError::invalid(field, value, IMMUTABLE)
}
