//! What selects devices: an expression in CEL.

use k8s_openapi::api::resource::v1::DeviceSelector;
use rekindle_structural_schema::{DeviceSelectorError, check_device_selector};
use rekindle_types::validation::field_error::FieldError;

use super::bounded_lists;
use crate::validation::{Path, items};

/// The most selectors of a request or a class.
const SELECTORS_MAX: usize = 32;
/// The longest expression.
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;

/// What is wrong with selectors.
pub(super) fn list_errors(
    selectors: Option<&Vec<DeviceSelector>>,
    field: &Path,
) -> Vec<FieldError> {
    bounded_lists::entry_errors(items(selectors), SELECTORS_MAX, field, |selector, field| {
        let field = field.child("cel");
        match &selector.cel {
            None => vec![FieldError::required(field, "")],
            Some(cel) => {
                expression_error(&cel.expression, &field.child("expression")).into_iter().collect()
            }
        }
    })
}

fn expression_error(text: &str, field: &Path) -> Option<FieldError> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Some(FieldError::too_long(field, EXPRESSION_BYTES_MAX));
    }
    Some(match check_device_selector(text) {
        Ok(()) => return None,
        Err(DeviceSelectorError::Wrong(why)) => FieldError::invalid(field, text, why),
        Err(DeviceSelectorError::TooExpensive) => {
            FieldError::forbidden(field, "too complex, exceeds cost limit")
        }
    })
}
