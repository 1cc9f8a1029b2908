//! The pod's volumes.

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, ImageVolumeSource, Volume};

use rekindle_types::validation::field_error::FieldError;
use rekindle_types::volume_sources;

use super::volume_files::{files, keys, mode, user};
use super::{SpecHolder, one_of, projected, unsupported, volume_claims};
use crate::validation::{ListKeys, Path, invalid_each, items, names, paths, quantities, text};
use crate::volume_sources::pod_volume;

/// The volumes of a pod after their check.
pub(super) struct CheckedVolumes<'a> {
    pub(super) errors: Vec<FieldError>,
    /// The names of those without mistakes, at their places. The others can be mounted by none of
    /// the containers, as upstream.
    pub(super) names: ListKeys<&'a str>,
}

/// Checks `volumes`.
pub(super) fn volumes<'a>(
    volumes: &'a [Volume],
    holder: SpecHolder,
    field: &Path,
) -> CheckedVolumes<'a> {
    let mut all = CheckedVolumes { errors: Vec::new(), names: ListKeys::new() };
    for (index, volume) in volumes.iter().enumerate() {
        let field = field.index(index);
        let mut errors = one_source(volume, &field);
        errors.extend(source(volume, &field));
        errors.extend(volume.image.iter().flat_map(|source| image(source, holder, &field)));
        if volume.name.is_empty() {
            errors.push(FieldError::required(field.child("name"), ""));
        } else {
            let messages = names::dns_label(&volume.name);
            errors.extend(invalid_each(&field.child("name"), &volume.name, messages));
            if all.names.has(volume.name.as_str()) {
                errors.push(FieldError::duplicate(field.child("name"), &volume.name));
            }
        }
        // an empty name keeps the place of one that does not count
        all.names.add(if errors.is_empty() { &volume.name } else { "" });
        all.errors.extend(errors);
    }
    all
}

fn one_source(volume: &Volume, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (position, name) in volume_sources::of_pod_volume(volume).enumerate() {
        if position > 0 {
            let detail = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(field.child(name), detail));
        } else {
            errors.extend(pod_volume::errors(name, volume, field));
        }
    }
    errors
}

fn source(volume: &Volume, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(source) = &volume.empty_dir {
        errors.extend(empty_dir(source, &field.child("emptyDir")));
    }
    if let Some(source) = &volume.host_path {
        errors.extend(paths::host_path(source, &field.child("hostPath")));
    }
    if let Some(source) = &volume.config_map {
        let field = field.child("configMap");
        if source.name.is_empty() {
            errors.push(FieldError::required(field.child("name"), ""));
        }
        errors.extend(mode(source.default_mode, &field.child("defaultMode")));
        errors.extend(user(source.default_user, &field.child("defaultUser")));
        errors.extend(keys(items(source.items.as_ref()), &field.child("items")));
    }
    if let Some(source) = &volume.secret {
        let field = field.child("secret");
        if text(source.secret_name.as_ref()).is_empty() {
            errors.push(FieldError::required(field.child("secretName"), ""));
        }
        errors.extend(mode(source.default_mode, &field.child("defaultMode")));
        errors.extend(user(source.default_user, &field.child("defaultUser")));
        errors.extend(keys(items(source.items.as_ref()), &field.child("items")));
    }
    if let Some(source) = &volume.downward_api {
        let field = field.child("downwardAPI");
        errors.extend(mode(source.default_mode, &field.child("defaultMode")));
        errors.extend(user(source.default_user, &field.child("defaultUser")));
        errors.extend(files(items(source.items.as_ref()), &field));
    }
    if let Some(source) = &volume.persistent_volume_claim
        && source.claim_name.is_empty()
    {
        let field = field.child("persistentVolumeClaim").child("claimName");
        errors.push(FieldError::required(field, ""));
    }
    if let Some(source) = &volume.ephemeral {
        let field = field.child("ephemeral").child("volumeClaimTemplate");
        match &source.volume_claim_template {
            None => errors.push(FieldError::required(field, "")),
            Some(template) => errors.extend(volume_claims::template(template, &field)),
        }
    }
    if let Some(source) = &volume.projected {
        errors.extend(projected::check(source, &field.child("projected")));
    }
    errors
}

fn empty_dir(source: &EmptyDirVolumeSource, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match text(source.medium.as_ref()) {
        "" | "Memory" => {}
        medium if medium.starts_with("HugePages") => {
            errors.push(unsupported(field.child("medium"), "there are no huge page volumes"));
        }
        medium => errors.push(FieldError::not_supported(
            field.child("medium"),
            medium,
            &["", "HugePages", "Memory"],
        )),
    }
    if let Some(limit) = &source.size_limit
        && quantities::check_non_negative(limit, field).is_err()
    {
        errors.push(FieldError::forbidden(
            field.child("sizeLimit"),
            "SizeLimit field must be a valid resource quantity",
        ));
    }
    if let Some(mode) = source.mode.filter(|mode| !(0..=0o1777).contains(mode)) {
        let detail = "must be a number between 0 and 01777 (octal), both inclusive";
        errors.push(FieldError::invalid(field.child("mode"), mode, detail));
    }
    errors
}

/// In a template the reference may come later.
fn image(source: &ImageVolumeSource, holder: SpecHolder, field: &Path) -> Vec<FieldError> {
    let field = field.child("image");
    let mut errors = Vec::new();
    if text(source.reference.as_ref()).is_empty() && holder == SpecHolder::Pod {
        errors.push(FieldError::required(field.child("reference"), ""));
    }
    errors.extend(one_of(
        source.pull_policy.as_ref(),
        &["Always", "IfNotPresent", "Never"],
        field.child("pullPolicy"),
    ));
    errors
}
