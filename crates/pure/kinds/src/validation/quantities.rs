//! Quantities in objects: read, written in the canonical form, checked.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{Quantity, QuantityError};

use super::Path;

/// A resource name with its amount, as in `limits`.
pub type ResourceList = BTreeMap<String, QuantityText>;

/// What a text means.
pub fn read(text: &QuantityText) -> Result<Quantity, QuantityError> {
    text.0.parse()
}

/// Rewrites a quantity in the canonical form (`1000m` becomes `1`), as the API server does. What is
/// none is left for validation to name.
pub fn canonicalize(text: &mut QuantityText) {
    if let Ok(quantity) = read(text) {
        let canonical = quantity.to_string();
        if canonical != text.0 {
            text.0 = canonical;
        }
    }
}

/// Rewrites every amount of a list.
pub fn canonicalize_list(list: Option<&mut ResourceList>) {
    for amount in list.into_iter().flat_map(BTreeMap::values_mut) {
        canonicalize(amount);
    }
}

/// A quantity, or the error that says why it is none.
pub fn check(text: &QuantityText, field: &Path) -> Result<Quantity, FieldError> {
    read(text).map_err(|error| FieldError::invalid(field, &text.0, error.to_string()))
}

/// What to say of an amount of bytes that is not whole: `100m` is a tenth of a byte, and `100Mi`
/// was meant.
pub fn fraction_warning(amount: &QuantityText, field: &Path) -> Option<String> {
    let shown = &amount.0;
    let is_fraction = read(amount).is_ok_and(|amount| !amount.is_whole());
    is_fraction
        .then(|| format!("{field}: fractional byte value {shown:?} is invalid, must be an integer"))
}

/// A quantity that is not negative, or the error that says why it is none.
pub fn check_non_negative(text: &QuantityText, field: &Path) -> Result<Quantity, FieldError> {
    let quantity = check(text, field)?;
    if quantity.is_negative() {
        return Err(FieldError::invalid(field, &text.0, "must be greater than or equal to 0"));
    }
    Ok(quantity)
}
