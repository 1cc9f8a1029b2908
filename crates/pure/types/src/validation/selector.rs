//! Label selectors inside objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::{FieldError, Path, invalid_each, items, labels, names};

/// The expressions of one selector, and the values in all of them. Each is looked at for each
/// object that may be selected, again and again. Upstream has no such limit.
pub const TERMS_MAX: usize = 1_000;

/// Checks the keys, values and operators of a selector, and how many there are.
pub fn check(selector: &LabelSelector, field: &Path) -> Vec<FieldError> {
    let mut errors = labels::labels(selector.match_labels.as_ref(), &field.child("matchLabels"));
    let expressions = field.child("matchExpressions");
    let requirements = items(selector.match_expressions.as_ref());
    let values = requirements.iter().map(|one| items(one.values.as_ref()).len());
    if requirements.len() > TERMS_MAX || values.sum::<usize>() > TERMS_MAX {
        errors.push(FieldError::too_many(&expressions, TERMS_MAX));
    }
    for (index, requirement) in requirements.iter().enumerate().take(TERMS_MAX) {
        errors.extend(check_requirement(requirement, &expressions.index(index)));
    }
    errors
}

/// Checks requirements that a request carries. Their operators may be of a later version.
pub fn check_requirements(
    requirements: &[LabelSelectorRequirement],
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, requirement) in requirements.iter().enumerate().take(TERMS_MAX) {
        let field = field.index(index);
        errors.extend(values_mismatch(&requirement.operator, requirement.values.as_ref(), &field));
        errors.extend(check_texts(requirement, &field));
    }
    errors
}

/// The selector as text, as tables show it: `app=web,tier in (a,b)`; `<none>` when empty
/// (apimachinery `FormatLabelSelector`).
pub fn format(selector: &LabelSelector) -> String {
    let mut parts: Vec<(&str, String)> = Vec::new();
    for (key, value) in selector.match_labels.iter().flatten() {
        parts.push((key, format!("{key}={value}")));
    }
    for requirement in items(selector.match_expressions.as_ref()) {
        let key = &requirement.key;
        let mut values = items(requirement.values.as_ref()).to_vec();
        values.sort();
        let values = values.join(",");
        parts.push((
            key,
            match requirement.operator.as_str() {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.clone(),
                "DoesNotExist" => format!("!{key}"),
                _ => "<error>".to_owned(),
            },
        ));
    }
    if parts.is_empty() {
        return "<none>".to_owned();
    }
    parts.sort_by(|a, b| a.0.cmp(b.0));
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

fn check_requirement(requirement: &LabelSelectorRequirement, field: &Path) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        values_mismatch(&requirement.operator, requirement.values.as_ref(), field)
            .into_iter()
            .collect();
    let operator = requirement.operator.as_str();
    if !matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist") {
        let why = "not a valid selector operator";
        errors.push(FieldError::invalid(field.child("operator"), operator, why));
    }
    errors.extend(check_texts(requirement, field));
    errors
}

/// Values where the operator takes none, or none where it needs some.
pub fn values_mismatch(
    operator: &str,
    values: Option<&Vec<String>>,
    field: &Path,
) -> Option<FieldError> {
    let has_values = !items(values).is_empty();
    let field = field.child("values");
    match (operator, has_values) {
        ("In" | "NotIn", false) => Some(FieldError::required(
            field,
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        ("Exists" | "DoesNotExist", true) => Some(FieldError::forbidden(
            field,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        _ => None,
    }
}

fn check_texts(requirement: &LabelSelectorRequirement, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let values = items(requirement.values.as_ref());
    errors.extend(invalid_each(
        &field.child("key"),
        &requirement.key,
        names::qualified(&requirement.key),
    ));
    for (index, value) in values.iter().enumerate().take(TERMS_MAX) {
        errors.extend(invalid_each(
            &field.child("values").index(index),
            value,
            names::label_value(value),
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(expressions: usize, values: usize) -> LabelSelector {
        let one = LabelSelectorRequirement {
            key: "a".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec!["x".to_owned(); values]),
        };
        LabelSelector {
            match_expressions: Some(vec![one; expressions]),
            ..LabelSelector::default()
        }
    }

    #[test]
    fn the_number_of_expressions_and_values_is_bounded() {
        let errors = |expressions, values| {
            check(&selector(expressions, values), &Path::new("spec.selector"))
        };
        assert_eq!(errors(TERMS_MAX, 1), []);
        assert_eq!(errors(1, TERMS_MAX), []);
        for (expressions, values) in [(TERMS_MAX + 1, 1), (2, TERMS_MAX)] {
            let told: Vec<String> =
                errors(expressions, values).iter().map(|e| e.to_string()).collect();
            let expected = "spec.selector.matchExpressions: Too many: must have at most 1000 items";
            assert_eq!(told, [expected]);
        }
    }
}
