//! Capacities of a device, and how much of one a request may take (KEP-5075).

use k8s_openapi::api::resource::v1::{
    CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use rekindle_types::Quantity;
use rekindle_types::validation::field_error::FieldError;

use super::bounded_lists::{UNBOUNDED, map_errors, set_errors};
use super::qualified_name::{QUALIFIED_BYTES_MAX, qualified_errors};
use crate::validation::{Path, items, quantities};

/// The most amounts that a policy lists.
const VALID_VALUES_MAX: usize = 10;

/// Writes the amounts of a capacity in the canonical form.
pub(super) fn canonicalize(capacity: &mut DeviceCapacity) {
    quantities::canonicalize(&mut capacity.value);
    let Some(policy) = &mut capacity.request_policy else { return };
    let listed = policy.valid_values.iter_mut().flatten().chain(&mut policy.default);
    listed.for_each(quantities::canonicalize);
    if let Some(range) = &mut policy.valid_range {
        let bounds = [&mut range.max, &mut range.step].into_iter().flatten();
        bounds.chain([&mut range.min]).for_each(quantities::canonicalize);
    }
}

/// What is wrong with the capacities of a device.
pub(super) fn map_of_errors(device: &Device, field: &Path) -> Vec<FieldError> {
    let is_shared = device.allow_multiple_allocations == Some(true);
    map_errors(
        device.capacity.as_ref(),
        (UNBOUNDED, QUALIFIED_BYTES_MAX),
        field,
        qualified_errors,
        |capacity, field| {
            let value = match quantities::check(&capacity.value, &field.child("value")) {
                Ok(value) => value,
                Err(error) => return vec![error],
            };
            let field = field.child("requestPolicy");
            match &capacity.request_policy {
                None => Vec::new(),
                Some(policy) if is_shared => policy_errors(value, policy, &field),
                Some(_) => {
                    vec![FieldError::forbidden(field, "allowMultipleAllocations must be true")]
                }
            }
        },
    )
}

fn policy_errors(
    capacity: Quantity,
    policy: &CapacityRequestPolicy,
    field: &Path,
) -> Vec<FieldError> {
    let values = items(policy.valid_values.as_ref());
    let (rule, range) = match (values.is_empty(), &policy.valid_range) {
        (true, None) => return Vec::new(),
        (false, Some(_)) => {
            let why = "exactly one policy can be specified, cannot specify \"validValues\" and \
                       \"validRange\" at the same time";
            return vec![FieldError::forbidden(field, why)];
        }
        (false, None) => ("validValues", None),
        (true, Some(range)) => ("validRange", Some(range)),
    };
    let Some(default) = &policy.default else {
        let why = format!("required when {rule} is defined");
        return vec![FieldError::required(field.child("default"), why)];
    };
    let default = match quantities::check(default, &field.child("default")) {
        Ok(default) => default,
        Err(error) => return vec![error],
    };
    match range {
        None => values_errors((default, capacity), values, &field.child(rule)),
        Some(range) => {
            let bounds = RangeBounds::read(range, &field.child(rule));
            bounds.map_or_else(
                |errors| errors,
                |bounds| bounds.errors((default, capacity), &field.child(rule)),
            )
        }
    }
}

fn values_errors(
    (default, capacity): (Quantity, Quantity),
    values: &[QuantityText],
    field: &Path,
) -> Vec<FieldError> {
    let mut read = Vec::new();
    for (index, value) in values.iter().enumerate().take(VALID_VALUES_MAX) {
        match quantities::check(value, &field.index(index)) {
            Ok(value) => read.push(value),
            Err(error) => return vec![error],
        }
    }
    let mut errors = Vec::new();
    for (index, pair) in read.windows(2).enumerate() {
        if pair[0].exceeds(pair[1]) {
            let why = "values must be sorted in ascending order";
            errors.push(FieldError::invalid(field.index(index + 1), pair[1].to_string(), why));
        }
    }
    errors.extend(set_errors(
        values,
        VALID_VALUES_MAX,
        field,
        |value| value.0.as_str(),
        |value, field| {
            let value = quantities::read(value).unwrap_or_default();
            let why = || format!("option is larger than capacity value: {capacity}");
            let error = || FieldError::invalid(field, value.to_string(), why());
            value.exceeds(capacity).then(error).into_iter().collect()
        },
    ));
    let is_default = |value: &Quantity| !value.exceeds(default) && !default.exceeds(*value);
    if !read.iter().any(is_default) {
        let why = "default value is not valid according to the requestPolicy";
        errors.push(FieldError::invalid(field, default.to_string(), why));
    }
    errors
}

/// What a request may take: from `min` to `max`, in steps.
struct RangeBounds {
    min: Quantity,
    max: Option<Quantity>,
    step: Option<Quantity>,
}

impl RangeBounds {
    fn read(range: &CapacityRequestPolicyRange, field: &Path) -> Result<Self, Vec<FieldError>> {
        if range.min.0.is_empty() {
            let why = "required when validRange is defined";
            return Err(vec![FieldError::required(field.child("min"), why)]);
        }
        let bound = |text: &Option<QuantityText>, name: &str| {
            let check = |text| quantities::check(text, &field.child(name));
            text.as_ref().map(check).transpose().map_err(|error| vec![error])
        };
        let min = quantities::check(&range.min, &field.child("min"));
        Ok(Self {
            min: min.map_err(|error| vec![error])?,
            max: bound(&range.max, "max")?,
            step: bound(&range.step, "step")?,
        })
    }

    fn errors(&self, (default, capacity): (Quantity, Quantity), field: &Path) -> Vec<FieldError> {
        let min = self.min;
        let mut errors = Vec::new();
        let mut refuse_if = |is_wrong: bool, name: &str, value: Quantity, why: String| {
            if is_wrong {
                errors.push(FieldError::invalid(field.child(name), value.to_string(), why));
            }
        };
        let beyond = |what: &str| format!("{what} is larger than capacity value: {capacity}");
        refuse_if(min.exceeds(capacity), "min", min, beyond("min"));
        let below = format!("default is less than min: {min}");
        refuse_if(min.exceeds(default), "min", default, below);
        if let Some(max) = self.max {
            let why = format!("min is larger than max: {max}");
            refuse_if(min.exceeds(max), "max", min, why);
            refuse_if(max.exceeds(capacity), "max", max, beyond("max"));
            let why = format!("default is more than max: {max}");
            refuse_if(default.exceeds(max), "max", default, why);
        }
        if let Some(step) = self.step {
            let first = min.saturating_add(step);
            let why = format!("one step {first} is larger than capacity value: {capacity}");
            refuse_if(first.exceeds(capacity), "step", step, why);
            for value in [Some(default), self.max].into_iter().flatten() {
                let why = format!("value is not a multiple of a given step ({step}) from ({min})");
                let distance = value.units().saturating_sub(min.units());
                let is_multiple = step.units() != 0 && distance % step.units() == 0;
                refuse_if(!is_multiple, "step", value, why);
            }
        }
        errors
    }
}
