//! Annotations that said which security profiles a pod has, before there were fields for it. Those
//! of seccomp do nothing any more; those of AppArmor count where the field is not set. Upstream
//! still checks both, and that they agree with the fields.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, PodSpec};
use rekindle_types::ephemeral::as_container;
use rekindle_types::validation::field_error::FieldError;

use super::advice::AdvisedPod;
use super::validate::SpecHolder;
use crate::validation::paths::descending_path;
use crate::validation::{ListKeys, Path, items};

pub(super) type Annotations = BTreeMap<String, String>;

const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Annotations that do nothing since a version, and the field that took their place.
const FORGOTTEN: [(&str, &str, &str); 3] = [
    ("scheduler.alpha.kubernetes.io/critical-pod", "v1.16", "priorityClassName"),
    ("security.alpha.kubernetes.io/sysctls", "v1.11", "sysctls"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "v1.11", "sysctls"),
];

/// So that a pod of many containers does not drown its own answer.
const WARNINGS_MAX: usize = 8;

/// The profile that an annotation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnnotatedProfile<'a> {
    RuntimeDefault,
    Unconfined,
    Localhost(&'a str),
}

impl<'a> AnnotatedProfile<'a> {
    fn read(text: &'a str) -> Option<Self> {
        match text {
            "runtime/default" => Some(Self::RuntimeDefault),
            "unconfined" => Some(Self::Unconfined),
            _ => text.strip_prefix("localhost/").map(Self::Localhost),
        }
    }

    /// The same by the field's words: its type, and the profile of the node's own.
    const fn in_field(self) -> (&'static str, Option<&'a str>) {
        match self {
            Self::RuntimeDefault => ("RuntimeDefault", None),
            Self::Unconfined => ("Unconfined", None),
            Self::Localhost(name) => ("Localhost", Some(name)),
        }
    }
}

/// seccomp had one name more.
fn seccomp(text: &str) -> Option<AnnotatedProfile<'_>> {
    if text == "docker/default" {
        Some(AnnotatedProfile::RuntimeDefault)
    } else {
        AnnotatedProfile::read(text)
    }
}

/// Everything wrong with the annotations alone.
pub(super) fn check(
    annotations: Option<&Annotations>,
    spec: Option<&PodSpec>,
    field: &Path,
) -> Vec<FieldError> {
    let all = || annotations.into_iter().flatten();
    let mut errors = Vec::new();
    if let Some(profile) = annotations.and_then(|all| all.get(SECCOMP_OF_POD)) {
        errors.extend(check_seccomp(profile, &field.child(SECCOMP_OF_POD)));
    }
    for (key, profile) in all().filter(|(key, _)| key.starts_with(SECCOMP_OF_CONTAINER)) {
        errors.extend(check_seccomp(profile, &field.child(key)));
    }
    let containers = spec.map_or_else(ListKeys::new, names_of_containers);
    for (key, value) in all() {
        let Some(name) = key.strip_prefix(APP_ARMOR) else { continue };
        if !containers.has(name) {
            errors.push(FieldError::invalid(field.key(key), name, "container not found"));
        }
        if !value.is_empty() && AnnotatedProfile::read(value).is_none() {
            let detail = format!("invalid AppArmor profile name: {value:?}");
            errors.push(FieldError::invalid(field.key(key), value, detail));
        }
    }
    errors
}

fn check_seccomp(profile: &str, field: &Path) -> Vec<FieldError> {
    match seccomp(profile) {
        Some(AnnotatedProfile::Localhost(path)) => descending_path(path, field),
        Some(AnnotatedProfile::RuntimeDefault | AnnotatedProfile::Unconfined) => Vec::new(),
        None => vec![FieldError::invalid(field, profile, "must be a valid seccomp profile")],
    }
}

fn names_of_containers(spec: &PodSpec) -> ListKeys<&str> {
    let lasting = spec.containers.iter().chain(items(spec.init_containers.as_ref()));
    let ephemeral = items(spec.ephemeral_containers.as_ref()).iter();
    let lasting = lasting.map(|container| container.name.as_str());
    lasting.chain(ephemeral.map(|container| container.name.as_str())).collect()
}

/// Everything in which the fields of a new pod, or of a template, say something else than its
/// annotations.
pub(crate) fn agree(
    annotations: Option<&Annotations>,
    spec: &PodSpec,
    field: &Path,
) -> Vec<FieldError> {
    let Some(annotations) = annotations.filter(|all| all.keys().any(|key| is_profile(key))) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    let of_pod = spec.security_context.as_ref();
    let given = of_pod.and_then(|context| context.seccomp_profile.as_ref());
    if let (Some(text), Some(given)) = (annotations.get(SECCOMP_OF_POD), given) {
        let given = (given.type_.as_str(), given.localhost_profile.as_deref());
        let field = field.child("securityContext").child("seccompProfile");
        errors.extend(differs("seccomp", seccomp(text), given, &field));
    }
    let of_pod = of_pod.and_then(|context| context.app_armor_profile.as_ref());
    for_each(spec, field, |container, field| {
        let context = container.security_context.as_ref();
        let field = field.child("securityContext");
        let given = context.and_then(|context| context.seccomp_profile.as_ref());
        let text = annotations.get(&format!("{SECCOMP_OF_CONTAINER}{}", container.name));
        if let (Some(text), Some(given)) = (text, given) {
            let given = (given.type_.as_str(), given.localhost_profile.as_deref());
            let field = field.child("seccompProfile");
            errors.extend(differs("seccomp", seccomp(text), given, &field));
        }
        let given = context.and_then(|context| context.app_armor_profile.as_ref()).or(of_pod);
        let text = annotations.get(&format!("{APP_ARMOR}{}", container.name));
        if let (Some(text), Some(given)) = (text, given) {
            let given = (given.type_.as_str(), given.localhost_profile.as_deref());
            let field = field.child("appArmorProfile");
            errors.extend(differs("apparmor", AnnotatedProfile::read(text), given, &field));
        }
    });
    errors
}

fn differs(
    what: &str,
    annotated: Option<AnnotatedProfile<'_>>,
    given: (&str, Option<&str>),
    field: &Path,
) -> Option<FieldError> {
    let annotated = annotated.map(AnnotatedProfile::in_field);
    if annotated.map(|(kind, _)| kind) != Some(given.0) {
        let detail = format!("{what} type in annotation and field must match");
        Some(FieldError::forbidden(field.child("type"), detail))
    } else if annotated.map(|(_, profile)| profile) != Some(given.1) && given.0 == "Localhost" {
        let detail = format!("{what} profile in annotation and field must match");
        Some(FieldError::forbidden(field.child("localhostProfile"), detail))
    } else {
        None
    }
}

fn is_profile(key: &str) -> bool {
    key == SECCOMP_OF_POD || key.starts_with(SECCOMP_OF_CONTAINER) || key.starts_with(APP_ARMOR)
}

fn for_each(spec: &PodSpec, field: &Path, mut visit: impl FnMut(&Container, &Path)) {
    for (index, container) in items(spec.init_containers.as_ref()).iter().enumerate() {
        visit(container, &field.child("initContainers").index(index));
    }
    for (index, container) in spec.containers.iter().enumerate() {
        visit(container, &field.child("containers").index(index));
    }
    for (index, container) in items(spec.ephemeral_containers.as_ref()).iter().enumerate() {
        visit(&as_container(container), &field.child("ephemeralContainers").index(index));
    }
}

/// What a change of the annotations may not do: the profiles of AppArmor stay as they were.
pub(super) fn check_update(
    new: Option<&Annotations>,
    old: Option<&Annotations>,
    field: &Path,
) -> Vec<FieldError> {
    let of_app_armor = |(key, _): &(&String, &String)| key.starts_with(APP_ARMOR);
    let get = |all: Option<&Annotations>, key: &str| all.and_then(|all| all.get(key)).cloned();
    let kept = old.into_iter().flatten().filter(of_app_armor);
    let changed =
        kept.filter(|(key, value)| get(new, key).as_ref() != Some(value)).map(|(key, _)| {
            FieldError::forbidden(field.key(key), "may not remove or update AppArmor annotations")
        });
    let given = new.into_iter().flatten().filter(of_app_armor);
    let added = given
        .filter(|(key, _)| get(old, key).is_none())
        .map(|(key, _)| FieldError::forbidden(field.key(key), "may not add AppArmor annotations"));
    changed.chain(added).collect()
}

/// Writes into the fields of a new pod what only its annotations say of AppArmor (upstream:
/// `applyAppArmorVersionSkew`).
pub(super) fn into_fields(annotations: Option<&Annotations>, spec: &mut PodSpec) {
    let Some(annotations) = annotations.filter(|_| !is_windows(spec)) else { return };
    let of_pod = app_armor_of_pod(spec).cloned();
    let all = spec.init_containers.iter_mut().flatten().chain(spec.containers.iter_mut());
    for container in all {
        let Some(text) = superseded(annotations, container, of_pod.as_ref()) else { continue };
        let Some(profile) = AnnotatedProfile::read(text) else { continue };
        let context = container.security_context.get_or_insert_default();
        context.app_armor_profile = Some(app_armor_field(profile));
    }
}

/// Which annotations of a new pod the fields have taken over, before [`into_fields`]. A client
/// learns that even if the pod is refused then.
pub(super) fn app_armor_warnings(
    annotations: Option<&Annotations>,
    spec: &PodSpec,
    field: &Path,
) -> Vec<String> {
    let Some(annotations) = annotations.filter(|_| !is_windows(spec)) else {
        return Vec::new();
    };
    let of_pod = app_armor_of_pod(spec);
    let all = items(spec.init_containers.as_ref()).iter().chain(&spec.containers);
    all.filter(|container| superseded(annotations, container, of_pod).is_some())
        .map(|container| app_armor_warning(&container.name, field))
        .take(WARNINGS_MAX)
        .collect()
}

/// The annotation of a container without a field of its own, unless the pod's says the same.
fn superseded<'a>(
    annotations: &'a Annotations,
    container: &Container,
    of_pod: Option<&AppArmorProfile>,
) -> Option<&'a str> {
    let context = container.security_context.as_ref();
    if context.is_some_and(|context| context.app_armor_profile.is_some()) {
        return None;
    }
    let text = annotations.get(&format!("{APP_ARMOR}{}", container.name))?;
    let annotated = AnnotatedProfile::read(text).map(app_armor_field);
    (of_pod.is_none() || annotated.as_ref() != of_pod).then_some(text)
}

fn app_armor_field(profile: AnnotatedProfile<'_>) -> AppArmorProfile {
    let (kind, name) = profile.in_field();
    AppArmorProfile { type_: kind.to_owned(), localhost_profile: name.map(str::to_owned) }
}

fn is_windows(spec: &PodSpec) -> bool {
    spec.os.as_ref().is_some_and(|os| os.name == "windows")
}

fn app_armor_of_pod(spec: &PodSpec) -> Option<&AppArmorProfile> {
    spec.security_context.as_ref()?.app_armor_profile.as_ref()
}

fn app_armor_warning(container: &str, field: &Path) -> String {
    let field = field.key(&format!("{APP_ARMOR}{container}"));
    format!("{field}: deprecated since v1.30; use the \"appArmorProfile\" field instead")
}

fn seccomp_warning(key: &str, field: &Path) -> String {
    let field = field.key(key);
    format!("{field}: non-functional in v1.27+; use the \"seccompProfile\" field instead")
}

/// Annotations that fields have replaced, and that mean nothing any more.
pub(super) fn forgotten_warnings(annotations: Option<&Annotations>, field: &Path) -> Vec<String> {
    let given = |key: &str| annotations.is_some_and(|all| all.contains_key(key));
    let forgotten = FORGOTTEN.iter().filter(|(key, ..)| given(key));
    forgotten
        .map(|(key, since, newer)| {
            let field = field.key(key);
            format!("{field}: non-functional in {since}+; use the {newer:?} field instead")
        })
        .collect()
}

/// What to use in place of the annotation that is the whole pod's.
pub(super) fn seccomp_warning_of_pod(pod: &AdvisedPod<'_>) -> Option<String> {
    let context = pod.spec.security_context.as_ref();
    let is_annotated = pod.annotations.is_some_and(|all| all.contains_key(SECCOMP_OF_POD));
    let has_field = context.is_some_and(|context| context.seccomp_profile.is_some());
    (is_annotated && !has_field).then(|| seccomp_warning(SECCOMP_OF_POD, pod.annotations_field))
}

/// What to use in place of the annotations of a container. Those of AppArmor are the preparation's
/// to name, if it is a pod's.
pub(super) fn warnings_of_container(pod: &AdvisedPod<'_>, container: &Container) -> Vec<String> {
    let Some(annotations) = pod.annotations else { return Vec::new() };
    let context = container.security_context.as_ref();
    let mut warnings = Vec::new();
    let key = format!("{SECCOMP_OF_CONTAINER}{}", container.name);
    let has_field = context.is_some_and(|context| context.seccomp_profile.is_some());
    if annotations.contains_key(&key) && !has_field {
        warnings.push(seccomp_warning(&key, pod.annotations_field));
    }
    let has_field = context.is_some_and(|context| context.app_armor_profile.is_some())
        || app_armor_of_pod(pod.spec).is_some();
    let is_annotated = annotations.contains_key(&format!("{APP_ARMOR}{}", container.name));
    if pod.holder == SpecHolder::Template && is_annotated && !has_field {
        warnings.push(app_armor_warning(&container.name, pod.annotations_field));
    }
    warnings
}
