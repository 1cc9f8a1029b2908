//! ResourceSlice (resource.k8s.io/v1): devices of a pool, and from which nodes they can be used.

use k8s_openapi::api::resource::v1::{ResourceSlice, ResourceSliceSpec};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::bounded_lists::set_errors;
use super::qualified_name::pool_errors;
use super::{device, shared_counters, stored_only};
use crate::defaults;
use crate::preparation::{DesiredState, first_generation, next_generation};
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age, column};
use crate::validation::driver_name::name_errors as driver_errors;
use crate::validation::node_selector::node_selector;
use crate::validation::{Path, fixed, invalid_each, items, json, names, text};

/// The most devices of a slice.
const DEVICES_MAX: usize = 128;
/// The same when one of them has taints, uses counters or has lists of values.
const ADVANCED_DEVICES_MAX: usize = 64;
/// The most sets of counters of a slice.
const COUNTER_SETS_MAX: usize = 8;

const NODE_NAME: &str = "spec.nodeName";
const DRIVER: &str = "spec.driver";

impl ApiKind for ResourceSlice {
    const NAMES: ResourceNames = ResourceNames {
        singular: "resourceslice",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Node", "string", "The node that can use the devices, if it is one."),
        column("Driver", "string", "The driver of the devices."),
        column("Pool", "string", "The pool that the devices are of."),
        AGE,
    ];
    const SELECTABLE_FIELDS: &'static [&'static str] = &[NODE_NAME, DRIVER];

    fn set_defaults(&mut self) {
        let spec = &mut self.spec;
        spec.devices.iter_mut().flatten().for_each(device::set_defaults);
        spec.shared_counters.iter_mut().flatten().for_each(shared_counters::canonicalize);
        defaults::drop_empty_list(&mut spec.devices);
        defaults::drop_empty_list(&mut spec.shared_counters);
    }

    fn prepare_for_create(&mut self, ctx: &RequestContext<'_>) {
        first_generation(&mut self.metadata);
        self.spec
            .devices
            .iter_mut()
            .flatten()
            .for_each(|device| device::set_times(device, ctx.now));
    }

    fn prepare_for_update(&mut self, old: &Self, ctx: &RequestContext<'_>) {
        self.spec
            .devices
            .iter_mut()
            .flatten()
            .for_each(|device| device::set_times(device, ctx.now));
        let desired = DesiredState::compare(&self.spec, &old.spec);
        next_generation(&mut self.metadata, &old.metadata, desired);
    }

    fn validate(&self) -> Vec<FieldError> {
        let (spec, field) = (&self.spec, Path::new("spec"));
        let mut errors = driver_errors(&spec.driver, &field.child("driver"));
        errors.extend(pool(spec, &field.child("pool")));
        errors.extend(nodes(spec, &field));
        if spec.shared_counters.is_some() && spec.devices.is_some() {
            let why = "only one of `sharedCounters` or `devices` is allowed";
            errors.push(FieldError::invalid(&field, "", why));
        }
        let devices = items(spec.devices.as_ref());
        let is_advanced = devices.iter().any(device::is_advanced);
        let is_per_device = spec.per_device_node_selection == Some(true);
        errors.extend(set_errors(
            devices,
            if is_advanced { ADVANCED_DEVICES_MAX } else { DEVICES_MAX },
            &field.child("devices"),
            |device| device.name.as_str(),
            |device, field| device::errors(device, is_per_device, field),
        ));
        errors.extend(set_errors(
            items(spec.shared_counters.as_ref()),
            COUNTER_SETS_MAX,
            &field.child("sharedCounters"),
            |set| set.name.as_str(),
            shared_counters::set_errors,
        ));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let (new, old) = (&self.spec, &old.spec);
        let mut errors = Vec::new();
        if new.pool.name != old.pool.name {
            errors.push(fixed(&field.child("pool").child("name"), &new.pool.name));
        }
        if new.driver != old.driver {
            errors.push(fixed(&field.child("driver"), &new.driver));
        }
        if new.node_name != old.node_name {
            errors.push(fixed(&field.child("nodeName"), &new.node_name));
        }
        errors
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = stored_only("ResourceSlice");
        let driver = &self.spec.driver;
        if *driver != driver.to_lowercase() {
            warnings.push(format!(
                "spec.driver: driver names should be lowercase; {driver:?} contains uppercase \
                 characters"
            ));
        }
        warnings
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        vec![
            (NODE_NAME, self.spec.node_name.clone().unwrap_or_default()),
            (DRIVER, self.spec.driver.clone()),
        ]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            text(self.spec.node_name.as_ref()).into(),
            self.spec.driver.as_str().into(),
            self.spec.pool.name.as_str().into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

fn pool(spec: &ResourceSliceSpec, field: &Path) -> Vec<FieldError> {
    let pool = &spec.pool;
    let mut errors = pool_errors(&pool.name, &field.child("name"));
    if pool.resource_slice_count <= 0 {
        let (field, count) = (field.child("resourceSliceCount"), pool.resource_slice_count);
        errors.push(FieldError::invalid(field, count, "must be greater than zero"));
    }
    if pool.generation < 0 {
        let (field, why) = (field.child("generation"), "must be greater than or equal to zero");
        errors.push(FieldError::invalid(field, pool.generation, why));
    }
    errors
}

/// The nodes of a slice are said in one of four ways.
fn nodes(spec: &ResourceSliceSpec, field: &Path) -> Vec<FieldError> {
    const WHY: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, \
                       `perDeviceNodeSelection` is required";
    let mut errors = Vec::new();
    let mut ways = Vec::new();
    match spec.node_name.as_deref() {
        None => {}
        Some("") => {
            let why = "must be either unset or set to a non-empty string";
            errors.push(FieldError::invalid(field.child("nodeName"), "", why));
        }
        Some(name) => {
            ways.push("`nodeName`");
            let messages = names::dns_subdomain(name);
            errors.extend(invalid_each(&field.child("nodeName"), name, messages));
        }
    }
    if let Some(selector) = &spec.node_selector {
        ways.push("`nodeSelector`");
        let field = field.child("nodeSelector");
        errors.extend(node_selector(selector, &field));
        if selector.node_selector_terms.len() != 1 {
            errors.push(FieldError {
                field: field.child("nodeSelectorTerms").into(),
                problem: FieldProblem::Invalid(json(&selector.node_selector_terms)),
                detail: "must have exactly one node selector term".to_owned(),
            });
        }
    }
    for (name, shown, value) in [
        ("allNodes", "`allNodes`", spec.all_nodes),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`", spec.per_device_node_selection),
    ] {
        match value {
            None => {}
            Some(true) => ways.push(shown),
            Some(false) => {
                let why = "must be either unset or set to true";
                errors.push(FieldError::invalid(field.child(name), false, why));
            }
        }
    }
    match ways.len() {
        0 => errors.push(FieldError::required(field, WHY)),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", ways.join(", "));
            let why = format!("{WHY}, but multiple fields are set");
            errors.push(FieldError::invalid(field, shown, why));
        }
    }
    errors
}
