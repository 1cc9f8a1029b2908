//! Which requests a policy looks at (`matchConstraints`, `matchResources`).

use k8s_openapi::api::admissionregistration::v1::{MatchResources, NamedRuleWithOperations};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::validation::field_error::FieldProblem;
use serde_json::json;

use crate::defaults;
use crate::validation::{ListKeys, MISTAKES_MAX, Path, invalid_each, items, names, selector};

/// All operations.
const OPERATIONS: [&str; 5] = [ANY, "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// Those of which the object can be changed.
const MUTATING_OPERATIONS: [&str; 4] = [ANY, "CONNECT", "CREATE", "UPDATE"];

/// Stands for all groups, versions, resources, operations or scopes.
pub const ANY: &str = "*";
const ANY_WITH_SUBRESOURCES: &str = "*/*";
pub(crate) const EQUIVALENT: &str = "Equivalent";
pub(crate) const EXACT: &str = "Exact";
const SCOPES: [&str; 3] = [ANY, "Cluster", "Namespaced"];

pub(crate) fn set_defaults(matched: &mut MatchResources) {
    defaults::absent_text(&mut matched.match_policy, EQUIVALENT);
    matched.namespace_selector.get_or_insert_default();
    matched.object_selector.get_or_insert_default();
    defaults::drop_empty_list(&mut matched.resource_rules);
    defaults::drop_empty_list(&mut matched.exclude_resource_rules);
    let rules = matched.resource_rules.iter_mut().chain(&mut matched.exclude_resource_rules);
    for rule in rules.flatten() {
        defaults::absent_text(&mut rule.scope, ANY);
        defaults::drop_empty_list(&mut rule.resource_names);
    }
}

/// The resource of which no policy and no webhook sees the requests: they see those of
/// `pods/binding`.
const UNSEEN: &str = "bindings";
/// Resources of which a policy that changes objects sees no requests: there is nothing to change.
const UNCHANGEABLE: [&str; 4] = [UNSEEN, "pods/binding", "pods/eviction", "serviceaccounts/token"];
const CONNECT: &str = "CONNECT";

/// What the rules name that no policy, or no webhook, sees here, for Warning headers.
pub(crate) fn warnings(
    seer: &str,
    effect: PolicyEffect,
    matched: Option<&MatchResources>,
) -> Vec<String> {
    let rules = items(matched.and_then(|matched| matched.resource_rules.as_ref()));
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        items(list.as_ref()).iter().any(|item| item == wanted)
    };
    let mut warnings = Vec::new();
    let (sees_connections, unseen): (_, &[&str]) = match effect {
        PolicyEffect::Validates => (true, &[UNSEEN]),
        PolicyEffect::Mutates => (false, &UNCHANGEABLE),
    };
    if !sees_connections && rules.iter().any(|rule| has(&rule.operations, CONNECT)) {
        warnings.push(format!("no {seer} sees requests of the operation CONNECT here"));
    }
    for resource in unseen {
        if rules.iter().any(|rule| has(&rule.resources, resource)) {
            warnings.push(format!("no {seer} sees requests to {resource} here"));
        }
    }
    warnings
}

/// Whether other versions of a resource match as well.
pub fn matches_equivalent(matched: &MatchResources) -> bool {
    matched.match_policy.as_deref() != Some(EXACT)
}

/// What a policy does with requests, as far as it matters which operations they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyEffect {
    /// The policy says whether a request may be done.
    Validates,
    /// The policy changes the object of a request.
    Mutates,
}

/// What is wrong with the requests that a policy looks at, beside what each rule alone has wrong:
/// those of a mutating policy have an object that can be changed.
pub(crate) fn operation_errors(
    matched: &MatchResources,
    effect: PolicyEffect,
    field: &Path,
) -> Vec<FieldError> {
    let rules = match effect {
        PolicyEffect::Validates => return Vec::new(),
        PolicyEffect::Mutates => items(matched.resource_rules.as_ref()),
    };
    let field = field.child("resourceRules").child("operations");
    let operations = rules.iter().flat_map(|rule| items(rule.operations.as_ref()));
    let unknown = operations.filter(|known| !MUTATING_OPERATIONS.contains(&known.as_str()));
    let errors = unknown
        .take(MISTAKES_MAX)
        .map(|operation| FieldError::not_supported(&field, operation, &MUTATING_OPERATIONS));
    errors.collect()
}

pub(crate) fn errors(matched: &MatchResources, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policy_field = field.child("matchPolicy");
    match matched.match_policy.as_deref() {
        None => errors.push(FieldError::required(policy_field, "")),
        Some(EQUIVALENT | EXACT) => {}
        Some(other) => {
            errors.push(FieldError::not_supported(policy_field, other, &[EQUIVALENT, EXACT]));
        }
    }
    for (name, given) in [
        ("namespaceSelector", &matched.namespace_selector),
        ("objectSelector", &matched.object_selector),
    ] {
        match given {
            None => errors.push(FieldError::required(field.child(name), "")),
            Some(given) => errors.extend(selector::check(given, &field.child(name))),
        }
    }
    for (name, rules) in [
        ("resourceRules", &matched.resource_rules),
        ("excludeResourceRules", &matched.exclude_resource_rules),
    ] {
        let field = field.child(name);
        for (index, rule) in items(rules.as_ref()).iter().enumerate() {
            errors.extend(rule_errors(rule, &field.index(index)));
        }
    }
    errors
}

pub(crate) fn rule_errors(rule: &NamedRuleWithOperations, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known = ListKeys::new();
    for (index, name) in items(rule.resource_names.as_ref()).iter().enumerate() {
        let field = field.child("resourceNames").index(index);
        errors.extend(invalid_each(&field, name, names::path_segment(name)));
        if known.add(name.as_str()).is_some() {
            errors.push(FieldError::duplicate(field, name));
        }
    }
    let given = items(rule.operations.as_ref());
    errors.extend(list_errors(given, &field.child("operations"), "operations"));
    for (index, operation) in given.iter().enumerate() {
        if !OPERATIONS.contains(&operation.as_str()) {
            let field = field.child("operations").index(index);
            errors.push(FieldError::not_supported(field, operation, &OPERATIONS));
        }
    }
    let groups = items(rule.api_groups.as_ref());
    errors.extend(list_errors(groups, &field.child("apiGroups"), "API groups"));
    let versions = items(rule.api_versions.as_ref());
    let versions_field = field.child("apiVersions");
    errors.extend(list_errors(versions, &versions_field, "API versions"));
    for (index, version) in versions.iter().enumerate() {
        if version.is_empty() {
            errors.push(FieldError::required(versions_field.index(index), ""));
        }
    }
    errors.extend(resource_errors(items(rule.resources.as_ref()), &field.child("resources")));
    if let Some(scope) = rule.scope.as_deref().filter(|scope| !SCOPES.contains(scope)) {
        errors.push(FieldError::not_supported(field.child("scope"), scope, &SCOPES));
    }
    errors
}

/// What is wrong with a list that is either of names or of `*` alone.
fn list_errors(list: &[String], field: &Path, what: &str) -> Option<FieldError> {
    if list.is_empty() {
        return Some(FieldError::required(field, ""));
    }
    let is_mixed = list.len() > 1 && list.iter().any(|item| item == ANY);
    is_mixed.then(|| {
        invalid_list(list, field, format!("if '*' is present, must not specify other {what}"))
    })
}

fn invalid_list(list: &[String], field: &Path, detail: String) -> FieldError {
    let problem = FieldProblem::Invalid(json!(list).to_string());
    FieldError { field: field.into(), problem, detail }
}

fn resource_errors(resources: &[String], field: &Path) -> Vec<FieldError> {
    if resources.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = Vec::new();
    let mut with_all_subresources = ListKeys::new();
    let mut with_all_resources = ListKeys::new();
    let mut has_plain = false;
    for (index, resource) in resources.iter().enumerate() {
        let field = field.index(index);
        if resource.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let Some((main, sub)) = resource.split_once('/') else {
            has_plain = resource != ANY;
            continue;
        };
        if with_all_subresources.has(main) {
            let why = format!("if '{main}/*' is present, must not specify {resource}");
            errors.push(FieldError::invalid(&field, resource, why));
        }
        if with_all_resources.has(sub) {
            let why = format!("if '*/{sub}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(&field, resource, why));
        }
        if sub == ANY {
            with_all_subresources.add(main);
        }
        if main == ANY {
            with_all_resources.add(sub);
        }
    }
    let has = |wanted: &str| resources.iter().any(|resource| resource == wanted);
    if resources.len() > 1 && has(ANY_WITH_SUBRESOURCES) {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(invalid_list(resources, field, why.to_owned()));
    }
    if has(ANY) && has_plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(invalid_list(resources, field, why.to_owned()));
    }
    errors
}
