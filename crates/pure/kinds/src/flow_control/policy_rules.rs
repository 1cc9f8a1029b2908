//! What the rules of a FlowSchema may say.

use k8s_openapi::api::flowcontrol::v1::{
    NonResourcePolicyRule, PolicyRulesWithSubjects, ResourcePolicyRule, ServiceAccountSubject,
    Subject,
};
use rekindle_types::validation::field_error::FieldError;

use crate::validation::{Path, invalid_each, items, names};

const ALL: &str = "*";
const KINDS: [&str; 3] = ["Group", "ServiceAccount", "User"];
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

pub(super) fn errors(rule: &PolicyRulesWithSubjects, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let of_subjects = field.child("subjects");
    if rule.subjects.is_empty() {
        let why = "subjects must contain at least one value";
        errors.push(FieldError::required(&of_subjects, why));
    }
    for (index, subject) in rule.subjects.iter().enumerate() {
        errors.extend(subject_errors(subject, &of_subjects.index(index)));
    }
    let resources = items(rule.resource_rules.as_ref());
    let paths = items(rule.non_resource_rules.as_ref());
    if resources.is_empty() && paths.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(field, why));
    }
    for (index, rule) in resources.iter().enumerate() {
        errors.extend(resource_errors(rule, &field.child("resourceRules").index(index)));
    }
    for (index, rule) in paths.iter().enumerate() {
        errors.extend(path_errors(rule, &field.child("nonResourceRules").index(index)));
    }
    errors
}

/// A subject has the part that its kind names, and no other.
fn subject_errors(subject: &Subject, field: &Path) -> Vec<FieldError> {
    let kind = subject.kind.as_str();
    let (own, mut errors) = match kind {
        "ServiceAccount" => {
            ("serviceAccount", account_errors(subject.service_account.as_ref(), field))
        }
        "User" => {
            let name = subject.user.as_ref().map(|user| user.name.as_str());
            ("user", name_errors(name, ("user", kind), field))
        }
        "Group" => {
            let name = subject.group.as_ref().map(|group| group.name.as_str());
            ("group", name_errors(name, ("group", kind), field))
        }
        other => return vec![FieldError::not_supported(field.child("kind"), other, &KINDS)],
    };
    for (part, of_kind, is_there) in [
        ("serviceAccount", "ServiceAccount", subject.service_account.is_some()),
        ("user", "User", subject.user.is_some()),
        ("group", "Group", subject.group.is_some()),
    ] {
        if is_there && part != own {
            let why = format!("{part} is forbidden when subject kind is not '{of_kind}'");
            errors.push(FieldError::forbidden(field.child(part), why));
        }
    }
    errors
}

fn name_errors(name: Option<&str>, (part, kind): (&str, &str), field: &Path) -> Vec<FieldError> {
    let field = field.child(part);
    match name {
        None => {
            let why = format!("{part} is required when subject kind is '{kind}'");
            vec![FieldError::required(&field, why)]
        }
        Some("") => vec![FieldError::required(field.child("name"), "")],
        Some(_) => Vec::new(),
    }
}

fn account_errors(account: Option<&ServiceAccountSubject>, field: &Path) -> Vec<FieldError> {
    let name = account.map(|account| account.name.as_str());
    let mut errors = name_errors(name, ("serviceAccount", "ServiceAccount"), field);
    let field = field.child("serviceAccount");
    let Some(ServiceAccountSubject { name, namespace }) = account else { return errors };
    if !name.is_empty() && name != ALL {
        errors.extend(invalid_each(&field.child("name"), name, names::dns_subdomain(name)));
    }
    let field = field.child("namespace");
    if namespace.is_empty() {
        let why = "must specify namespace for service account";
        errors.push(FieldError::required(&field, why));
    } else {
        errors.extend(invalid_each(&field, namespace, names::dns_label(namespace)));
    }
    errors
}

fn resource_errors(rule: &ResourcePolicyRule, field: &Path) -> Vec<FieldError> {
    let mut errors = verb_errors(&rule.verbs, field);
    let namespaces = items(rule.namespaces.as_ref());
    for (words, name, required, others) in [
        (
            &rule.api_groups[..],
            "apiGroups",
            "resource rules must supply at least one api group",
            "api groups",
        ),
        (
            &rule.resources[..],
            "resources",
            "resource rules must supply at least one resource",
            "resources",
        ),
    ] {
        errors.extend(word_errors(words, &field.child(name), (required, others)));
    }
    let required = "resource rules that are not cluster scoped must supply at least one namespace";
    let field = field.child("namespaces");
    if !namespaces.is_empty() || rule.cluster_scope != Some(true) {
        errors.extend(word_errors(namespaces, &field, (required, "namespaces")));
    }
    if !has_all(namespaces) {
        for (index, namespace) in namespaces.iter().enumerate() {
            let messages = names::dns_label(namespace).into_iter().map(|message| {
                format!("each member of this list must be '*' or a DNS-1123 label; {message}")
            });
            errors.extend(invalid_each(&field.index(index), namespace, messages.collect()));
        }
    }
    errors
}

fn path_errors(rule: &NonResourcePolicyRule, field: &Path) -> Vec<FieldError> {
    let mut errors = verb_errors(&rule.verbs, field);
    let field = field.child("nonResourceURLs");
    let paths = &rule.non_resource_urls;
    let required = "nonResourceURLs must contain at least one value";
    errors.extend(word_errors(paths, &field, (required, "non-resource URLs")));
    if !has_all(paths) {
        for (index, path) in paths.iter().enumerate() {
            if let Some(why) = path_error(path) {
                errors.push(FieldError::invalid(field.index(index), path, why));
            }
        }
    }
    errors
}

fn path_error(path: &str) -> Option<&'static str> {
    let stem = path.strip_suffix("/*").unwrap_or(path);
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !path.starts_with('/') => Some("must start with slash"),
        _ if path.contains(' ') => Some("must not contain white-space"),
        _ if path.contains("//") => Some("must not contain double slash"),
        _ if stem.contains('*') => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

fn verb_errors(verbs: &[String], field: &Path) -> Vec<FieldError> {
    let field = field.child("verbs");
    let mut errors = word_errors(verbs, &field, ("verbs must contain at least one value", "verbs"));
    let is_known = |verb: &String| VERBS.contains(&verb.as_str());
    if !has_all(verbs) && !verbs.iter().all(is_known) {
        errors.push(FieldError::not_supported(&field, verbs, &VERBS));
    }
    errors
}

/// There is a word, and `*` stands alone.
fn word_errors(
    words: &[String],
    field: &Path,
    (required, others): (&str, &str),
) -> Vec<FieldError> {
    if words.is_empty() {
        return vec![FieldError::required(field, required)];
    }
    if words.len() > 1 && has_all(words) {
        let why = format!("if '*' is present, must not specify other {others}");
        return vec![FieldError::invalid(field, words, why)];
    }
    Vec::new()
}

fn has_all(words: &[String]) -> bool {
    words.iter().any(|word| word == ALL)
}
