//! The pod's volumes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EmptyDirVolumeSource, HostPathVolumeSource, ImageVolumeSource,
    KeyToPath, Volume,
};

use super::{Holder, one_of, own_fields, projected, unsupported, volume_claims};
use crate::kinds::pod::volumes::{SUPPORTED, sources};
use crate::registry::field_error::FieldError;
use crate::validation::{Path, invalid_each, items, names, numbers, quantities, text};

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// Checks `volumes`.
pub(super) fn volumes(volumes: &[Volume], holder: Holder, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let field = field.index(index);
        if volume.name.is_empty() {
            errors.push(FieldError::required(field.child("name"), ""));
        } else {
            let messages = names::dns_label(&volume.name);
            errors.extend(invalid_each(&field.child("name"), &volume.name, messages));
            if !taken.insert(&volume.name) {
                errors.push(FieldError::duplicate(field.child("name"), &volume.name));
            }
        }
        errors.extend(one_supported_source(volume, &field));
        errors.extend(source(volume, &field));
        errors.extend(volume.image.iter().flat_map(|source| image(source, holder, &field)));
    }
    errors
}

fn one_supported_source(volume: &Volume, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (position, name) in sources(volume).enumerate() {
        if position > 0 {
            errors.push(FieldError::forbidden(
                field.child(name),
                "may not specify more than 1 volume type",
            ));
        } else if !SUPPORTED.contains(&name) {
            errors.push(unsupported(
                field.child(name),
                &format!(
                    "the pod could not start; volumes may be of the types {}",
                    SUPPORTED.join(", ")
                ),
            ));
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
        errors.extend(host_path(source, &field.child("hostPath")));
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
fn image(source: &ImageVolumeSource, holder: Holder, field: &Path) -> Vec<FieldError> {
    let field = field.child("image");
    let mut errors = Vec::new();
    if text(source.reference.as_ref()).is_empty() && holder == Holder::Pod {
        errors.push(FieldError::required(field.child("reference"), ""));
    }
    errors.extend(one_of(
        source.pull_policy.as_ref(),
        &["Always", "IfNotPresent", "Never"],
        field.child("pullPolicy"),
    ));
    errors
}

fn host_path(source: &HostPathVolumeSource, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = &source.path;
    if path.is_empty() {
        errors.push(FieldError::required(field.child("path"), ""));
    } else if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(field.child("path"), path, "must not contain '..'"));
    }
    let kind = text(source.type_.as_ref());
    if !HOST_PATH_TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(field.child("type"), kind, &HOST_PATH_TYPES));
    }
    errors
}

/// Checks which keys of a ConfigMap or a Secret are shown, and where.
pub(super) fn keys(keys: &[KeyToPath], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let field = field.index(index);
        if key.key.is_empty() {
            errors.push(FieldError::required(field.child("key"), ""));
        }
        errors.extend(file_path(&key.path, &field.child("path")));
        errors.extend(mode(key.mode, &field.child("mode")));
        errors.extend(user(key.user, &field.child("user")));
    }
    errors
}

/// Checks the files that show what a pod says of itself.
pub(super) fn files(files: &[DownwardAPIVolumeFile], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for file in files {
        errors.extend(file_path(&file.path, &field.child("path")));
        match (&file.field_ref, &file.resource_field_ref) {
            (Some(selector), other) => {
                errors.extend(own_fields::field_selector(
                    selector,
                    &own_fields::FILE_FIELDS,
                    &field.child("fieldRef"),
                ));
                if other.is_some() {
                    errors.push(FieldError::invalid(
                        field,
                        "resource",
                        "fieldRef and resourceFieldRef can not be specified simultaneously",
                    ));
                }
            }
            (None, Some(selector)) => {
                let field = field.child("resourceFieldRef");
                let container = own_fields::ContainerName::Required;
                errors.extend(own_fields::resource_selector(selector, container, &field));
            }
            (None, None) => errors.push(FieldError::required(
                field,
                "one of fieldRef and resourceFieldRef is required",
            )),
        }
        errors.extend(mode(file.mode, &field.child("mode")));
        errors.extend(user(file.user, &field.child("user")));
    }
    errors
}

/// Who may read a file.
pub(super) fn mode(mode: Option<i32>, field: &Path) -> Option<FieldError> {
    mode.and_then(|mode| numbers::file_mode(mode, field))
}

/// Whom a file belongs to.
pub(super) fn user(user: Option<i64>, field: &Path) -> Option<FieldError> {
    user.and_then(|user| numbers::unix_id(user, field))
}

/// A path of a file inside a volume, which may not look like the names that atomic updates use.
pub(super) fn file_path(path: &str, field: &Path) -> Vec<FieldError> {
    if path.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = descending_path(path, field);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(FieldError::invalid(field, path, "must not start with '..'"));
    }
    errors
}

/// A relative path that never goes up.
pub(in crate::kinds::pod) fn descending_path(path: &str, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if path.starts_with('/') {
        errors.push(FieldError::invalid(field, path, "must be a relative path"));
    }
    if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(field, path, "must not contain '..'"));
    }
    errors
}
