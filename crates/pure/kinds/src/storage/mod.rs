//! PersistentVolumeClaim, PersistentVolume (core/v1), and the kinds of storage.k8s.io/v1.

pub mod claim;
pub mod class;
pub(crate) mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod data_source;
mod volume;
mod volume_attachment;
mod volume_attributes_class;

pub(crate) use claim::{set_spec_defaults as set_claim_defaults, spec_errors as claim_errors};

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use rekindle_types::validation::field_error::FieldError;

use crate::registry::resource::TableCell;
use crate::validation::quantities::ResourceList;
use crate::validation::{Path, items, quantities, text};

/// What a volume's size is called in a list of resources.
const STORAGE: &str = "storage";
/// How a volume may be mounted, with the short form that tables show.
const ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOnce", "RWO"),
    ("ReadWriteOncePod", "RWOP"),
];
/// The mode that goes with no other.
const ONE_POD: &str = "ReadWriteOncePod";
/// The mode of volumes that hold files.
const FILESYSTEM: &str = "Filesystem";
/// The mode of volumes that are devices.
const BLOCK: &str = "Block";

/// The warning about a field that is kept for other provisioners and drivers.
fn not_done_here(field: &Path, why: &str) -> String {
    format!("{field}: accepted, but not supported by this version of Rekindle: {why}")
}

/// The warning of a kind that has no controller here.
pub(crate) fn stored_only(kind: &str, why: &str) -> Vec<String> {
    vec![format!("a {kind} is stored only: {why}")]
}

/// Source: upstream's `ValidatePersistentVolumeClaimSpec` and `ValidatePersistentVolumeSpec`.
fn access_mode_errors(modes: Option<&Vec<String>>, detail: &str, field: &Path) -> Vec<FieldError> {
    let modes = items(modes);
    if modes.is_empty() {
        return vec![FieldError::required(field, detail)];
    }
    let known = ACCESS_MODES.map(|(name, _)| name);
    let mut errors: Vec<FieldError> = modes
        .iter()
        .filter(|mode| !known.contains(&mode.as_str()))
        .map(|mode| FieldError::not_supported(field, mode, &known))
        .collect();
    if modes.len() > 1 && modes.iter().any(|mode| mode == ONE_POD) {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(field, detail));
    }
    errors
}

fn volume_mode_error(mode: Option<&String>, field: Path) -> Option<FieldError> {
    match mode?.as_str() {
        FILESYSTEM | BLOCK => None,
        other => Some(FieldError::not_supported(field, other, &[BLOCK, FILESYSTEM])),
    }
}

fn volume_mode_warning(mode: Option<&String>, field: &Path) -> Option<String> {
    let is_block = text(mode) == BLOCK;
    is_block.then(|| not_done_here(field, "no volume is a block device, pods wait"))
}

/// What to say of a claim that asks for parts of bytes.
pub(crate) fn fractional_sizes(spec: &PersistentVolumeClaimSpec, field: &Path) -> Vec<String> {
    let Some(resources) = &spec.resources else { return Vec::new() };
    let field = field.child("resources");
    let lists = [("requests", &resources.requests), ("limits", &resources.limits)];
    let of_list = |(name, list): (&str, &Option<ResourceList>)| {
        quantities::fraction_warning(size_of(list.as_ref())?, &field.child(name).key(STORAGE))
    };
    lists.into_iter().filter_map(of_list).collect()
}

/// A size, which must be more than nothing.
fn size_error(size: &QuantityText, field: &Path) -> Option<FieldError> {
    match quantities::check(size, field) {
        Err(error) => Some(error),
        Ok(amount) if amount.is_negative() || amount.units() == 0 => {
            Some(FieldError::invalid(field, &size.0, "must be greater than zero"))
        }
        Ok(_) => None,
    }
}

fn size_of(list: Option<&ResourceList>) -> Option<&QuantityText> {
    list.and_then(|list| list.get(STORAGE))
}

/// `RWO,ROX`, in the order in which upstream's tables have them.
fn modes_cell(modes: Option<&Vec<String>>) -> TableCell {
    let order = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
    let listed = order.into_iter().filter(|mode| items(modes).iter().any(|m| m == mode));
    let short = |name: &str| ACCESS_MODES.iter().find(|(n, _)| *n == name).map(|(_, s)| *s);
    TableCell::Text(listed.filter_map(short).collect::<Vec<_>>().join(","))
}
