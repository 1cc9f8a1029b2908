//! Requests of a claim: devices of one class, or the first of several alternatives.

use k8s_openapi::api::resource::v1::{
    CapacityRequirements, DeviceRequest, DeviceSelector, DeviceToleration,
};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::qualified_name::label_errors;
use super::{bounded_lists, device_selector, device_taint};
use crate::defaults;
use crate::validation::{MISTAKES_MAX, Path, invalid_each, items, names, quantities, text};

/// The most alternatives of a request.
const ALTERNATIVES_MAX: usize = 8;
const ALL: &str = "All";
const EXACT_COUNT: &str = "ExactCount";

/// One device, unless the request says otherwise.
pub(super) fn set_defaults(request: &mut DeviceRequest) {
    if let Some(exactly) = &mut request.exactly {
        set_count_defaults(&mut exactly.allocation_mode, &mut exactly.count);
        device_taint::set_toleration_defaults(&mut exactly.tolerations);
        canonicalize(exactly.capacity.as_mut());
        defaults::drop_empty_list(&mut exactly.selectors);
    }
    for alternative in request.first_available.iter_mut().flatten() {
        set_count_defaults(&mut alternative.allocation_mode, &mut alternative.count);
        device_taint::set_toleration_defaults(&mut alternative.tolerations);
        canonicalize(alternative.capacity.as_mut());
        defaults::drop_empty_list(&mut alternative.selectors);
    }
    defaults::drop_empty_list(&mut request.first_available);
}

fn set_count_defaults(mode: &mut Option<String>, count: &mut Option<i64>) {
    defaults::text(mode, EXACT_COUNT);
    *count = count.filter(|count| *count != 0);
    if mode.as_deref() == Some(EXACT_COUNT) {
        count.get_or_insert(1);
    }
}

fn canonicalize(capacity: Option<&mut CapacityRequirements>) {
    quantities::canonicalize_list(capacity.and_then(|capacity| capacity.requests.as_mut()));
}

/// What a request and an alternative have in common.
struct RequestedDevices<'a> {
    class: &'a str,
    selectors: Option<&'a Vec<DeviceSelector>>,
    mode: &'a str,
    count: i64,
    tolerations: Option<&'a Vec<DeviceToleration>>,
    capacity: Option<&'a CapacityRequirements>,
}

/// What is wrong with a request.
pub(super) fn errors(request: &DeviceRequest, field: &Path) -> Vec<FieldError> {
    let mut errors = label_errors(&request.name, &field.child("name"));
    let alternatives = items(request.first_available.as_ref());
    match (&request.exactly, alternatives.is_empty()) {
        (None, true) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required";
            errors.push(FieldError::required(field, why));
        }
        (Some(_), false) => errors.push(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid("null".to_owned()),
            detail: "exactly one of `exactly` or `firstAvailable` is required, but multiple \
                     fields are set"
                .to_owned(),
        }),
        (None, false) => errors.extend(bounded_lists::set_errors(
            alternatives,
            ALTERNATIVES_MAX,
            &field.child("firstAvailable"),
            |alternative| alternative.name.as_str(),
            |alternative, field| {
                let mut errors = label_errors(&alternative.name, &field.child("name"));
                let devices = RequestedDevices {
                    class: &alternative.device_class_name,
                    selectors: alternative.selectors.as_ref(),
                    mode: text(alternative.allocation_mode.as_ref()),
                    count: alternative.count.unwrap_or_default(),
                    tolerations: alternative.tolerations.as_ref(),
                    capacity: alternative.capacity.as_ref(),
                };
                errors.extend(devices.errors(field));
                errors
            },
        )),
        (Some(exactly), true) => {
            let field = field.child("exactly");
            if exactly.admin_access == Some(true) {
                let why = "not supported by this version of Rekindle: no namespace gives admin \
                           access to devices";
                errors.push(FieldError::forbidden(field.child("adminAccess"), why));
            }
            let devices = RequestedDevices {
                class: &exactly.device_class_name,
                selectors: exactly.selectors.as_ref(),
                mode: text(exactly.allocation_mode.as_ref()),
                count: exactly.count.unwrap_or_default(),
                tolerations: exactly.tolerations.as_ref(),
                capacity: exactly.capacity.as_ref(),
            };
            errors.extend(devices.errors(&field));
        }
    }
    errors
}

impl RequestedDevices<'_> {
    fn errors(&self, field: &Path) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let class = field.child("deviceClassName");
        if self.class.is_empty() {
            errors.push(FieldError::required(class, ""));
        } else {
            errors.extend(invalid_each(&class, self.class, names::dns_subdomain(self.class)));
        }
        errors.extend(device_selector::list_errors(self.selectors, &field.child("selectors")));
        errors.extend(self.count_error(field));
        let tolerations = field.child("tolerations");
        errors.extend(device_taint::toleration_errors(self.tolerations, &tolerations));
        errors.extend(self.capacity_errors(&field.child("capacity").child("requests")));
        errors
    }

    fn count_error(&self, field: &Path) -> Option<FieldError> {
        let count = field.child("count");
        match self.mode {
            ALL if self.count != 0 => {
                let why = "must not be specified when allocationMode is 'All'";
                Some(FieldError::invalid(count, self.count, why))
            }
            EXACT_COUNT if self.count <= 0 => {
                Some(FieldError::invalid(count, self.count, "must be greater than zero"))
            }
            ALL | EXACT_COUNT => None,
            other => {
                let known = [ALL, EXACT_COUNT];
                Some(FieldError::not_supported(field.child("allocationMode"), other, &known))
            }
        }
    }

    fn capacity_errors(&self, field: &Path) -> Vec<FieldError> {
        let requests = self.capacity.and_then(|capacity| capacity.requests.as_ref());
        let mut errors = Vec::new();
        for (name, amount) in requests.into_iter().flatten() {
            if errors.len() >= MISTAKES_MAX {
                break;
            }
            errors.extend(quantities::check(amount, &field.key(name)).err());
        }
        errors
    }
}
