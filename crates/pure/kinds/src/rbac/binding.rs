//! What both kinds of binding have in common. Source: upstream's `pkg/apis/rbac` (v1 defaults,
//! validation, printers).

use k8s_openapi::api::rbac::v1::{RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::GROUP;
use crate::defaults;
use crate::registry::resource::{ResourceScope, TableCell, TableColumn};
use crate::table::{AGE, NAME, age, column, wide};
use crate::validation::{Path, invalid_each, items, names, text};

pub(super) const COLUMNS: &[TableColumn] = &[
    NAME,
    column("Role", "string", "The role that is bound."),
    AGE,
    wide("Users", "string", "Users in the roleBinding"),
    wide("Groups", "string", "Groups in the roleBinding"),
    wide("ServiceAccounts", "string", "ServiceAccounts in the roleBinding"),
];

const USER: &str = "User";
const GROUP_KIND: &str = "Group";
const SERVICE_ACCOUNT: &str = "ServiceAccount";

pub(super) fn set_defaults(role: &mut RoleRef, subjects: Option<&mut Vec<Subject>>) {
    defaults::text(&mut role.api_group, GROUP);
    for subject in subjects.into_iter().flatten() {
        if matches!(subject.kind.as_str(), USER | GROUP_KIND) {
            defaults::text(&mut subject.api_group, GROUP);
        }
    }
}

/// Checks a binding of this scope.
pub(super) fn check(
    role: &RoleRef,
    subjects: Option<&Vec<Subject>>,
    scope: ResourceScope,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let field = Path::new("roleRef");
    let group = text(role.api_group.as_ref());
    if group != GROUP {
        errors.push(FieldError::not_supported(field.child("apiGroup"), group, &[GROUP]));
    }
    let kinds: &[&str] = match scope {
        ResourceScope::Namespaced => &["Role", "ClusterRole"],
        ResourceScope::Cluster => &["ClusterRole"],
    };
    if !kinds.contains(&role.kind.as_str()) {
        errors.push(FieldError::not_supported(field.child("kind"), &role.kind, kinds));
    }
    let name = field.child("name");
    if role.name.is_empty() {
        errors.push(FieldError::required(&name, ""));
    } else {
        errors.extend(invalid_each(&name, &role.name, names::path_segment(&role.name)));
    }
    let field = Path::new("subjects");
    for (index, subject) in items(subjects).iter().enumerate() {
        errors.extend(check_subject(subject, scope, &field.index(index)));
    }
    errors
}

fn check_subject(subject: &Subject, scope: ResourceScope, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if subject.name.is_empty() {
        errors.push(FieldError::required(field.child("name"), ""));
    }
    let group = text(subject.api_group.as_ref());
    let wanted = match subject.kind.as_str() {
        SERVICE_ACCOUNT => {
            if !subject.name.is_empty() {
                let messages = names::dns_subdomain(&subject.name);
                errors.extend(invalid_each(&field.child("name"), &subject.name, messages));
            }
            if scope == ResourceScope::Cluster && text(subject.namespace.as_ref()).is_empty() {
                errors.push(FieldError::required(field.child("namespace"), ""));
            }
            ""
        }
        USER | GROUP_KIND => GROUP,
        other => {
            let kinds = [SERVICE_ACCOUNT, USER, GROUP_KIND];
            errors.push(FieldError::not_supported(field.child("kind"), other, &kinds));
            return errors;
        }
    };
    if group != wanted {
        errors.push(FieldError::not_supported(field.child("apiGroup"), group, &[wanted]));
    }
    errors
}

/// What a binding binds to is chosen once: another role would be another grant.
pub(super) fn check_update(new: &RoleRef, old: &RoleRef) -> Vec<FieldError> {
    if new == old {
        return Vec::new();
    }
    let RoleRef { api_group, kind, name } = new;
    let api_group = text(api_group.as_ref());
    let shown = format!(r#"{{"apiGroup":{api_group:?},"kind":{kind:?},"name":{name:?}}}"#);
    vec![FieldError::invalid("roleRef", format_args!("{shown}"), "cannot change roleRef")]
}

pub(super) fn row(
    meta: &ObjectMeta,
    role: &RoleRef,
    subjects: Option<&Vec<Subject>>,
    now: Tick,
) -> Vec<TableCell> {
    let of_kind = |kind: &str| {
        let subjects = items(subjects).iter().filter(|subject| subject.kind == kind);
        subjects
            .map(|subject| match text(subject.namespace.as_ref()) {
                "" => subject.name.clone(),
                namespace => format!("{namespace}/{}", subject.name),
            })
            .collect::<Vec<_>>()
            .join(", ")
    };
    vec![
        text(meta.name.as_ref()).into(),
        format!("{}/{}", role.kind, role.name).into(),
        age(meta.creation_timestamp.as_ref(), now).into(),
        of_kind(USER).into(),
        of_kind(GROUP_KIND).into(),
        of_kind(SERVICE_ACCOUNT).into(),
    ]
}
