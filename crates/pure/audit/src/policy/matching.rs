//! Whether a rule is for a request. Source: upstream's `audit/policy/checker.go`.

use super::rule::{AuditRule, GroupResources, RuleTarget};
use crate::subject::{AuditObjectReference, AuditSubject};

impl AuditRule {
    pub(super) fn matches(&self, subject: &AuditSubject) -> bool {
        let user = subject.user.as_ref();
        let has_user = || {
            let name = user.map(|user| user.username.as_deref().unwrap_or_default());
            name.is_some_and(|name| self.users.iter().any(|known| known == name))
        };
        let has_group = || {
            let mut groups = user.and_then(|user| user.groups.as_ref()).into_iter().flatten();
            groups.any(|group| self.user_groups.contains(group))
        };
        (self.users.is_empty() || has_user())
            && (self.user_groups.is_empty() || has_group())
            && (self.verbs.is_empty() || self.verbs.contains(&subject.verb))
            && self.target.matches(subject)
    }
}

impl RuleTarget {
    fn matches(&self, subject: &AuditSubject) -> bool {
        match (self, &subject.object) {
            (Self::Any, _) => true,
            (Self::Resources { namespaces, resources }, Some(object)) => {
                (namespaces.is_empty() || namespaces.contains(&object.namespace))
                    && (resources.is_empty() || resources.iter().any(|group| group.matches(object)))
            }
            (Self::Paths(paths), None) => {
                paths.iter().any(|path| path_matches(path, &subject.path))
            }
            (Self::Resources { .. }, None) | (Self::Paths(_), Some(_)) => false,
        }
    }
}

/// Whether a path is the one of a rule; a `*` at the end of the rule stands for any rest.
fn path_matches(rule: &str, path: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => rule == path,
    }
}

impl GroupResources {
    fn matches(&self, object: &AuditObjectReference) -> bool {
        if self.group != object.api_group {
            return false;
        }
        let is_named =
            || self.resource_names.is_empty() || self.resource_names.contains(&object.name);
        self.resources.is_empty()
            || (is_named() && self.resources.iter().any(|known| resource_matches(known, object)))
    }
}

/// `pods` is for pods alone; `pods/*` also for their subresources, as upstream has it.
fn resource_matches(rule: &str, object: &AuditObjectReference) -> bool {
    let AuditObjectReference { resource, subresource, .. } = object;
    match rule.split_once('/') {
        None => rule == "*" || (subresource.is_empty() && rule == resource),
        Some(("*", wanted)) if !subresource.is_empty() && wanted == subresource => true,
        Some((wanted, "*")) => wanted == resource,
        Some((of, wanted)) => !subresource.is_empty() && of == resource && wanted == subresource,
    }
}
