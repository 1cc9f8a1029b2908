//! Annotations that said which security profiles a pod has, before there were fields for it. Those
//! of seccomp do nothing any more; those of AppArmor count where the field is not set. Upstream
//! still checks both, and that they agree with the fields.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, PodSpec};
use rekindle_types::ephemeral::as_container;

use super::validate::descending_path;
use crate::registry::field_error::FieldError;
use crate::validation::{ListKeys, Path, items};

type Annotations = BTreeMap<String, String>;

const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

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
    let mut errors = Vec::new();
    let containers = spec.map_or_else(ListKeys::new, names_of_containers);
    for (key, value) in annotations.into_iter().flatten() {
        if key == SECCOMP_OF_POD || key.starts_with(SECCOMP_OF_CONTAINER) {
            match seccomp(value) {
                Some(AnnotatedProfile::Localhost(path)) => {
                    errors.extend(descending_path(path, &field.key(key)));
                }
                Some(AnnotatedProfile::RuntimeDefault | AnnotatedProfile::Unconfined) => {}
                None => errors.push(FieldError::invalid(
                    field.key(key),
                    value,
                    "must be a valid seccomp profile",
                )),
            }
        } else if let Some(name) = key.strip_prefix(APP_ARMOR) {
            if !containers.has(name) {
                errors.push(FieldError::invalid(field.key(key), name, "container not found"));
            }
            if !value.is_empty() && AnnotatedProfile::read(value).is_none() {
                let detail = format!("invalid AppArmor profile name: {value:?}");
                errors.push(FieldError::invalid(field.key(key), value, detail));
            }
        }
    }
    errors
}

fn names_of_containers(spec: &PodSpec) -> ListKeys<&str> {
    let lasting = spec.containers.iter().chain(items(spec.init_containers.as_ref()));
    let ephemeral = items(spec.ephemeral_containers.as_ref()).iter();
    let lasting = lasting.map(|container| container.name.as_str());
    lasting.chain(ephemeral.map(|container| container.name.as_str())).collect()
}

/// Everything in which the fields of a new pod, or of a template, say something else than its
/// annotations.
pub(in crate::kinds) fn agree(
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
    let Some(annotations) =
        annotations.filter(|all| all.keys().any(|key| key.starts_with(APP_ARMOR)))
    else {
        return;
    };
    let of_pod = spec.security_context.as_ref();
    if of_pod.is_some_and(|context| context.app_armor_profile.is_some()) {
        return;
    }
    let all = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
    for container in all {
        let text = annotations.get(&format!("{APP_ARMOR}{}", container.name));
        let Some(profile) = text.and_then(|text| AnnotatedProfile::read(text)) else { continue };
        let (kind, name) = profile.in_field();
        let context = container.security_context.get_or_insert_default();
        context.app_armor_profile.get_or_insert_with(|| AppArmorProfile {
            type_: kind.to_owned(),
            localhost_profile: name.map(str::to_owned),
        });
    }
}

/// What to use in their place.
pub(in crate::kinds) fn warnings(annotations: Option<&Annotations>, field: &Path) -> Vec<String> {
    let keys = annotations.into_iter().flat_map(BTreeMap::keys);
    let old = keys.filter(|key| is_profile(key)).map(|key| {
        let field = field.key(key);
        if key.starts_with(APP_ARMOR) {
            format!("{field}: deprecated since v1.30; use the \"appArmorProfile\" field instead")
        } else {
            format!("{field}: non-functional in v1.27+; use the \"seccompProfile\" field instead")
        }
    });
    old.take(WARNINGS_MAX).collect()
}
