//! A device of a slice: what it is, how much of it there is, and where it can be used.

use k8s_openapi::api::resource::v1::Device;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::bounded_lists::set_errors;
use super::qualified_name::label_errors;
use super::{allocation, device_attribute, device_capacity, device_taint, shared_counters};
use crate::defaults;
use crate::validation::node_selector::node_selector;
use crate::validation::{Path, invalid_each, items, names};

/// The most attributes and capacities of a device together.
const ATTRIBUTES_MAX: usize = 32;
/// The most values of all its attributes.
const VALUES_MAX: usize = 48;
/// The most sets of counters that a device uses.
const COUNTER_SETS_MAX: usize = 2;

/// Fills in what a device leaves out, but for times.
pub(super) fn set_defaults(device: &mut Device) {
    device
        .capacity
        .iter_mut()
        .flat_map(|all| all.values_mut())
        .for_each(device_capacity::canonicalize);
    let consumed = device.consumes_counters.iter_mut().flatten();
    consumed.for_each(shared_counters::canonicalize_consumption);
    defaults::drop_empty_map(&mut device.attributes);
    defaults::drop_empty_map(&mut device.capacity);
    defaults::drop_empty_list(&mut device.taints);
    defaults::drop_empty_list(&mut device.consumes_counters);
    defaults::drop_empty_list(&mut device.binding_conditions);
    defaults::drop_empty_list(&mut device.binding_failure_conditions);
}

/// Taints begin now, unless they say when.
pub(super) fn set_times(device: &mut Device, now: Tick) {
    for taint in device.taints.iter_mut().flatten() {
        taint.time_added.get_or_insert_with(|| now.to_time());
    }
}

/// Whether a slice with this device may hold fewer devices.
pub(super) fn is_advanced(device: &Device) -> bool {
    let mut attributes = device.attributes.iter().flat_map(|attributes| attributes.values());
    device.taints.is_some()
        || device.consumes_counters.is_some()
        || attributes.any(device_attribute::has_list)
}

/// What is wrong with a device. `is_per_device` says that each device of the slice has nodes of
/// its own.
pub(super) fn errors(device: &Device, is_per_device: bool, field: &Path) -> Vec<FieldError> {
    let mut errors = label_errors(&device.name, &field.child("name"));
    errors.extend(amount_errors(device, field));
    errors.extend(device_attribute::map_of_errors(device, &field.child("attributes")));
    errors.extend(device_capacity::map_of_errors(device, &field.child("capacity")));
    errors.extend(device_taint::taint_errors(device.taints.as_ref(), &field.child("taints")));
    errors.extend(set_errors(
        items(device.consumes_counters.as_ref()),
        COUNTER_SETS_MAX,
        &field.child("consumesCounters"),
        |consumption| consumption.counter_set.as_str(),
        shared_counters::consumption_errors,
    ));
    if is_per_device {
        errors.extend(node_errors(device, field));
    } else if device.node_name.is_some()
        || device.node_selector.is_some()
        || device.all_nodes.is_some()
    {
        let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                   `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.push(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid("null".to_owned()),
            detail: why.to_owned(),
        });
    }
    errors.extend(allocation::binding_errors(
        device.binding_conditions.as_ref(),
        device.binding_failure_conditions.as_ref(),
        field,
    ));
    errors
}

fn amount_errors(device: &Device, field: &Path) -> Vec<FieldError> {
    let attributes = device.attributes.iter().flat_map(|attributes| attributes.values());
    let values = attributes.clone().map(device_attribute::value_count).sum::<usize>();
    let both = attributes.count() + device.capacity.as_ref().map_or(0, |all| all.len());
    let mut errors = Vec::new();
    for (what, found, max) in [
        ("attributes and capacities", both, ATTRIBUTES_MAX),
        ("attribute values", values, VALUES_MAX),
    ] {
        if found > max {
            let why = format!("the total number of {what} must not exceed {max}");
            errors.push(FieldError::invalid(field, found, why));
        }
    }
    errors
}

/// The nodes of a device are said in one of three ways.
fn node_errors(device: &Device, field: &Path) -> Vec<FieldError> {
    const WHY: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                       `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let mut errors = Vec::new();
    let mut ways = Vec::new();
    match device.node_name.as_deref() {
        None => {}
        Some("") => {
            let field = field.child("nodeName");
            errors.push(FieldError::invalid(field, "", "must not be empty"));
        }
        Some(name) => {
            ways.push("`nodeName`");
            let messages = names::dns_subdomain(name);
            errors.extend(invalid_each(&field.child("nodeName"), name, messages));
        }
    }
    if let Some(selector) = &device.node_selector {
        ways.push("`nodeSelector`");
        errors.extend(node_selector(selector, &field.child("nodeSelector")));
    }
    match device.all_nodes {
        None => {}
        Some(true) => ways.push("`allNodes`"),
        Some(false) => {
            let why = "must be either unset or set to true";
            errors.push(FieldError::invalid(field.child("allNodes"), false, why));
        }
    }
    match ways.len() {
        0 => errors.push(FieldError::required(field, WHY)),
        1 => {}
        _ => errors.push(FieldError::invalid(field, format!("{{{}}}", ways.join(", ")), WHY)),
    }
    errors
}
