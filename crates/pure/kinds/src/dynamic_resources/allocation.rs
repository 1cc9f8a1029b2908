//! What a claim was given: devices by name, where they are, and how they are configured.

use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceAllocationConfiguration, DeviceRequestAllocationResult,
};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::bounded_lists::entry_errors;
use super::device_configuration::{self, CONFIGURATIONS_MAX};
use super::qualified_name::{label_errors, pool_errors, uid_error};
use super::request_names::RequestNames;
use super::{REQUESTS_MAX, device_taint};
use crate::defaults;
use crate::validation::driver_name::name_errors as driver_errors;
use crate::validation::node_selector::node_selector;
use crate::validation::{ListKeys, Path, invalid_each, items, json, names, quantities};

/// The most conditions that bind a device, and the most that say that it failed.
const CONDITIONS_MAX: usize = 4;
const SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

/// Fills in what an allocation leaves out.
pub(super) fn set_defaults(allocation: &mut AllocationResult) {
    let devices = allocation.devices.get_or_insert_default();
    for result in devices.results.iter_mut().flatten() {
        device_taint::set_toleration_defaults(&mut result.tolerations);
        quantities::canonicalize_list(result.consumed_capacity.as_mut());
    }
    defaults::drop_empty_list(&mut devices.results);
    defaults::drop_empty_list(&mut devices.config);
}

/// What is wrong with a new allocation.
pub(super) fn errors(
    allocation: &AllocationResult,
    known: &RequestNames<'_>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(devices) = &allocation.devices {
        let field = field.child("devices");
        errors.extend(entry_errors(
            items(devices.results.as_ref()),
            REQUESTS_MAX,
            &field.child("results"),
            |result, field| result_errors(result, known, field),
        ));
        errors.extend(entry_errors(
            items(devices.config.as_ref()),
            2 * CONFIGURATIONS_MAX, // of the class, and of the claim
            &field.child("config"),
            |config, field| configuration_errors(config, known, field),
        ));
    }
    if let Some(selector) = &allocation.node_selector {
        errors.extend(node_selector(selector, &field.child("nodeSelector")));
    }
    errors
}

fn result_errors(
    result: &DeviceRequestAllocationResult,
    known: &RequestNames<'_>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = known.reference_errors(&result.request, &field.child("request"));
    errors.extend(driver_errors(&result.driver, &field.child("driver")));
    errors.extend(pool_errors(&result.pool, &field.child("pool")));
    errors.extend(label_errors(&result.device, &field.child("device")));
    errors.extend(binding_errors(
        result.binding_conditions.as_ref(),
        result.binding_failure_conditions.as_ref(),
        field,
    ));
    if let Some(share) = &result.share_id {
        errors.extend(uid_error(share, &field.child("shareID")));
    }
    if result.admin_access == Some(true) {
        let why = "not supported by this version of Rekindle: no namespace gives admin access to \
                   devices";
        errors.push(FieldError::forbidden(field.child("adminAccess"), why));
    }
    for (name, amount) in result.consumed_capacity.iter().flatten() {
        let field = field.child("consumedCapacity").key(name);
        errors.extend(quantities::check(amount, &field).err());
    }
    errors
}

fn configuration_errors(
    config: &DeviceAllocationConfiguration,
    known: &RequestNames<'_>,
    field: &Path,
) -> Vec<FieldError> {
    let source = field.child("source");
    let mut errors = match config.source.as_str() {
        "" => vec![FieldError::required(source, "")],
        known if SOURCES.contains(&known) => Vec::new(),
        other => vec![FieldError::not_supported(source, other, &SOURCES)],
    };
    errors.extend(known.list_errors(config.requests.as_ref(), &field.child("requests")));
    errors.extend(device_configuration::errors(config.opaque.as_ref(), field));
    errors
}

/// What is wrong with the conditions that a device waits for, and those that end the wait. There
/// are both, or neither.
pub(super) fn binding_errors(
    conditions: Option<&Vec<String>>,
    failures: Option<&Vec<String>>,
    field: &Path,
) -> Vec<FieldError> {
    let (bound, failed) =
        (field.child("bindingConditions"), field.child("bindingFailureConditions"));
    let name_errors = |name: &String, field: &Path| -> Vec<FieldError> {
        invalid_each(field, name, names::qualified(name)).collect()
    };
    let (conditions, failures) = (items(conditions), items(failures));
    let mut errors = entry_errors(conditions, CONDITIONS_MAX, &bound, name_errors);
    errors.extend(entry_errors(failures, CONDITIONS_MAX, &failed, name_errors));
    if conditions.len().max(failures.len()) > CONDITIONS_MAX {
        return errors;
    }
    let mut known: ListKeys<&str> = ListKeys::new();
    for (index, name) in conditions.iter().enumerate() {
        if known.add(name).is_some() {
            errors.push(FieldError::duplicate(bound.index(index), name));
        }
    }
    let mut known_failures: ListKeys<&str> = ListKeys::new();
    for (index, name) in failures.iter().enumerate() {
        if known_failures.add(name).is_some() {
            errors.push(FieldError::duplicate(failed.index(index), name));
        }
        if known.has(name.as_str()) {
            let why = "bindingFailureConditions must not overlap with bindingConditions";
            errors.push(FieldError::invalid(failed.index(index), name, why));
        }
    }
    let missing = |field: &Path, list: &[String], why: &str| FieldError {
        field: field.into(),
        problem: FieldProblem::Invalid(if list.is_empty() {
            "null".to_owned()
        } else {
            json(&list)
        }),
        detail: why.to_owned(),
    };
    match (conditions.is_empty(), failures.is_empty()) {
        (true, false) => {
            let why = "bindingConditions are required to use bindingFailureConditions";
            errors.push(missing(&bound, conditions, why));
        }
        (false, true) => {
            let why = "bindingFailureConditions are required to use bindingConditions";
            errors.push(missing(&failed, failures, why));
        }
        (true, true) | (false, false) => {}
    }
    errors
}
