//! Counters that the devices of a pool share: partitions of one card use its memory (KEP-4815).

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{Counter, CounterSet, DeviceCounterConsumption};
use rekindle_types::validation::field_error::FieldError;

use super::bounded_lists::map_errors;
use super::qualified_name::label_errors;
use crate::validation::{Path, quantities};

/// The most counters of a set, and the most that a device uses of one.
const COUNTERS_MAX: usize = 32;
/// How much of a counter's name the path of an error shows.
const NAME_BYTES_MAX: usize = 63;

/// Writes the amounts of a set in the canonical form.
pub(super) fn canonicalize(set: &mut CounterSet) {
    canonicalize_counters(&mut set.counters);
}

/// The same of what a device uses.
pub(super) fn canonicalize_consumption(consumption: &mut DeviceCounterConsumption) {
    canonicalize_counters(&mut consumption.counters);
}

fn canonicalize_counters(counters: &mut BTreeMap<String, Counter>) {
    counters.values_mut().for_each(|counter| quantities::canonicalize(&mut counter.value));
}

/// What is wrong with a set.
pub(super) fn set_errors(set: &CounterSet, field: &Path) -> Vec<FieldError> {
    named_errors((&set.name, "name"), &set.counters, field)
}

/// What is wrong with what a device uses of a set.
pub(super) fn consumption_errors(
    consumption: &DeviceCounterConsumption,
    field: &Path,
) -> Vec<FieldError> {
    named_errors((&consumption.counter_set, "counterSet"), &consumption.counters, field)
}

fn named_errors(
    (name, name_field): (&str, &str),
    counters: &BTreeMap<String, Counter>,
    field: &Path,
) -> Vec<FieldError> {
    let name_field = field.child(name_field);
    let mut errors = if name.is_empty() {
        vec![FieldError::required(name_field, "")]
    } else {
        label_errors(name, &name_field)
    };
    let field = field.child("counters");
    if counters.is_empty() {
        errors.push(FieldError::required(field, ""));
        return errors;
    }
    errors.extend(map_errors(
        Some(counters),
        (COUNTERS_MAX, NAME_BYTES_MAX),
        &field,
        label_errors,
        |counter, field| {
            quantities::check(&counter.value, &field.child("value")).err().into_iter().collect()
        },
    ));
    errors
}
