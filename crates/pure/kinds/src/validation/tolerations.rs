//! Tolerations of taints.

use k8s_openapi::api::core::v1::Toleration;
use rekindle_types::taints;
use rekindle_types::validation::field_error::FieldError;

use super::{Path, invalid_each, names, text};

const EFFECTS: [&str; 3] = [taints::NO_EXECUTE, taints::NO_SCHEDULE, taints::PREFER_NO_SCHEDULE];

/// Checks tolerations; also those that an update adds.
pub fn tolerations(tolerations: &[Toleration], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        let field = field.index(index);
        let key = text(toleration.key.as_ref());
        let operator = text(toleration.operator.as_ref());
        let value = text(toleration.value.as_ref());
        let effect = text(toleration.effect.as_ref());
        if !key.is_empty() {
            errors.extend(invalid_each(&field.child("key"), key, names::qualified(key)));
        } else if operator != "Exists" {
            errors.push(FieldError::invalid(
                field.child("operator"),
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if toleration.toleration_seconds.is_some() && effect != taints::NO_EXECUTE {
            errors.push(FieldError::invalid(
                field.child("effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            ));
        }
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value(value).join(";");
                let wrong = Some(wrong).filter(|wrong| !wrong.is_empty());
                errors.extend(
                    wrong.map(|why| FieldError::invalid(field.child("operator"), value, why)),
                );
            }
            "Exists" if value.is_empty() => {}
            "Exists" => errors.push(FieldError::invalid(
                field.child("operator"),
                value,
                "value must be empty when `operator` is 'Exists'",
            )),
            other => errors.push(FieldError::not_supported(
                field.child("operator"),
                other,
                &["Equal", "Exists"],
            )),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            errors.push(FieldError::not_supported(field.child("effect"), effect, &EFFECTS));
        }
    }
    errors
}
