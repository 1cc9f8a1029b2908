//! Taints of devices, and the tolerations of requests for them (KEP-5055).

use k8s_openapi::api::resource::v1::{DeviceTaint, DeviceToleration};
use rekindle_types::validation::field_error::FieldError;

use super::bounded_lists::{UNBOUNDED, entry_errors};
use crate::defaults;
use crate::validation::{Path, invalid_each, items, names, text};

/// The most taints of a device.
const TAINTS_MAX: usize = 16;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const EQUAL: &str = "Equal";
const EXISTS: &str = "Exists";

/// A toleration compares the value unless it says otherwise.
pub(super) fn set_toleration_defaults(tolerations: &mut Option<Vec<DeviceToleration>>) {
    for toleration in tolerations.iter_mut().flatten() {
        defaults::text(&mut toleration.operator, EQUAL);
        for slot in [&mut toleration.key, &mut toleration.value, &mut toleration.effect] {
            defaults::drop_empty_text(slot);
        }
    }
    defaults::drop_empty_list(tolerations);
}

/// What is wrong with tolerations.
pub(super) fn toleration_errors(
    tolerations: Option<&Vec<DeviceToleration>>,
    field: &Path,
) -> Vec<FieldError> {
    entry_errors(items(tolerations), UNBOUNDED, field, |toleration, field| {
        let (key, value) = (text(toleration.key.as_ref()), text(toleration.value.as_ref()));
        let mut errors = Vec::new();
        if !key.is_empty() {
            errors.extend(invalid_each(&field.child("key"), key, names::qualified(key)));
        }
        match text(toleration.operator.as_ref()) {
            EXISTS if value.is_empty() => {}
            EXISTS => {
                let why = "must be empty for operator `Exists`";
                errors.push(FieldError::invalid(field.child("value"), value, why));
            }
            EQUAL => errors.extend(value_errors(value, field)),
            other => {
                let known = [EQUAL, EXISTS];
                errors.push(FieldError::not_supported(field.child("operator"), other, &known));
            }
        }
        let effect = text(toleration.effect.as_ref());
        if !effect.is_empty() {
            errors.extend(effect_error(effect, field));
        }
        errors
    })
}

/// What is wrong with the taints of a device.
pub(super) fn taint_errors(taints: Option<&Vec<DeviceTaint>>, field: &Path) -> Vec<FieldError> {
    entry_errors(items(taints), TAINTS_MAX, field, |taint, field| {
        let mut errors: Vec<FieldError> =
            invalid_each(&field.child("key"), &taint.key, names::qualified(&taint.key)).collect();
        errors.extend(value_errors(text(taint.value.as_ref()), field));
        if taint.effect.is_empty() {
            errors.push(FieldError::required(field.child("effect"), ""));
        } else {
            errors.extend(effect_error(&taint.effect, field));
        }
        errors
    })
}

fn value_errors(value: &str, field: &Path) -> Vec<FieldError> {
    invalid_each(&field.child("value"), value, names::label_value(value)).collect()
}

fn effect_error(effect: &str, field: &Path) -> Option<FieldError> {
    let error = || FieldError::not_supported(field.child("effect"), effect, &EFFECTS);
    (!EFFECTS.contains(&effect)).then(error)
}
