//! Where a container mounts the pod's volumes.

use k8s_openapi::api::core::v1::{Container, Volume, VolumeDevice, VolumeMount};
use rekindle_types::validation::field_error::FieldError;

use super::checked_pod::CheckedPod;
use super::{one_of, unsupported};
use crate::validation::{ListKeys, Path, items, paths, text};

/// Checks `volumeMounts` and `volumeDevices`.
pub(super) fn check(container: &Container, pod: &CheckedPod<'_>, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let devices = VolumeUses::of_devices(items(container.volume_devices.as_ref()));
    let mut taken: ListKeys<&str> = ListKeys::new();
    // upstream names these fields without the index of the mount
    let of_all = field.child("volumeMounts");
    for (index, mount) in items(container.volume_mounts.as_ref()).iter().enumerate() {
        let field = of_all.index(index);
        errors.extend(known_volume(&mount.name, pod, &field));
        errors.extend(not_a_device(mount, &devices, &field));
        if mount.mount_path.is_empty() {
            errors.push(FieldError::required(field.child("mountPath"), ""));
        } else if taken.add(&mount.mount_path).is_some() {
            errors.push(FieldError::invalid(
                field.child("mountPath"),
                &mount.mount_path,
                "must be unique",
            ));
        }
        errors.extend(sub_paths(mount, &of_all, &field));
        errors.extend(propagation(mount, container, &of_all));
        errors.extend(recursive_read_only(mount, &of_all));
        errors.extend(bind_options(mount, pod, &field));
    }
    errors.extend(self::devices(container, pod, &field.child("volumeDevices")));
    errors
}

/// The volumes that a container uses in one way, and the paths where it has them.
struct VolumeUses<'a> {
    names: ListKeys<&'a str>,
    paths: ListKeys<&'a str>,
}

impl<'a> VolumeUses<'a> {
    fn of_devices(devices: &'a [VolumeDevice]) -> Self {
        Self {
            names: devices.iter().map(|device| device.name.as_str()).collect(),
            paths: devices.iter().map(|device| device.device_path.as_str()).collect(),
        }
    }

    fn of_mounts(mounts: &'a [VolumeMount]) -> Self {
        Self {
            names: mounts.iter().map(|mount| mount.name.as_str()).collect(),
            paths: mounts.iter().map(|mount| mount.mount_path.as_str()).collect(),
        }
    }
}

/// What is a device in a container is no folder in it, too.
fn not_a_device(mount: &VolumeMount, devices: &VolumeUses<'_>, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !mount.name.is_empty() && devices.names.has(mount.name.as_str()) {
        let detail = "must not already exist in volumeDevices";
        errors.push(FieldError::invalid(field.child("name"), &mount.name, detail));
    }
    let path = &mount.mount_path;
    if !path.is_empty() && devices.paths.has(path.as_str()) {
        let detail = "must not already exist as a path in volumeDevices";
        errors.push(FieldError::invalid(field.child("mountPath"), path, detail));
    }
    errors
}

fn known_volume(name: &str, pod: &CheckedPod<'_>, field: &Path) -> Option<FieldError> {
    if name.is_empty() {
        return Some(FieldError::required(field.child("name"), ""));
    }
    let known = pod.volume(name).is_some();
    (!known).then(|| FieldError::not_found(field.child("name"), name))
}

fn sub_paths(mount: &VolumeMount, of_all: &Path, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let sub_path = text(mount.sub_path.as_ref());
    let expression = text(mount.sub_path_expr.as_ref());
    if !sub_path.is_empty() {
        errors.extend(paths::descending_path(sub_path, &of_all.child("subPath")));
    }
    if !expression.is_empty() {
        let field = field.child("subPathExpr");
        if !sub_path.is_empty() {
            errors.push(FieldError::invalid(
                &field,
                expression,
                "subPathExpr and subPath are mutually exclusive",
            ));
        }
        errors.extend(paths::descending_path(expression, &field));
    }
    errors
}

fn propagation(mount: &VolumeMount, container: &Container, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(mode) = &mount.mount_propagation {
        let field = field.child("mountPropagation");
        errors.extend(one_of(
            Some(mode),
            &["Bidirectional", "HostToContainer", "None"],
            field.clone(),
        ));
        let privileged = container.security_context.as_ref().and_then(|context| context.privileged);
        if mode == "Bidirectional" && privileged != Some(true) {
            errors.push(FieldError::forbidden(
                field,
                "Bidirectional mount propagation is available only to privileged containers",
            ));
        }
    }
    errors
}

/// Upstream allows it with propagation None alone: what is mounted later would not be read-only.
fn recursive_read_only(mount: &VolumeMount, field: &Path) -> Vec<FieldError> {
    let Some(mode) = &mount.recursive_read_only else { return Vec::new() };
    let field = field.child("recursiveReadOnly");
    match mode.as_str() {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if mount.read_only != Some(true) {
                let detail = "may only be specified when readOnly is true";
                return vec![FieldError::forbidden(field, detail)];
            }
            if !matches!(text(mount.mount_propagation.as_ref()), "" | "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                return vec![FieldError::forbidden(field, detail)];
            }
        }
        other => {
            let known = ["Disabled", "Enabled", "IfPossible"];
            return vec![FieldError::not_supported(field, other, &known)];
        }
    }
    Vec::new()
}

fn bind_options(mount: &VolumeMount, pod: &CheckedPod<'_>, field: &Path) -> Vec<FieldError> {
    let field = field.child("bindMountOptions");
    let options = items(mount.bind_mount_options.as_ref());
    let of_image = pod.volume(&mount.name).is_some_and(|volume| volume.image.is_some());
    if of_image && !options.is_empty() {
        return vec![FieldError::forbidden(field, "may not be specified for image volumes")];
    }
    let known = ["nodev", "noexec", "nosuid"];
    let wrong = options.iter().enumerate().filter(|(_, option)| !known.contains(&option.as_str()));
    let mut errors: Vec<FieldError> = wrong
        .map(|(index, option)| FieldError::not_supported(field.index(index), option, &known))
        .collect();
    let mut taken = ListKeys::new();
    errors.extend(options.iter().enumerate().filter_map(|(index, option)| {
        let again = taken.add(option).is_some();
        again.then(|| FieldError::duplicate(field.index(index), option))
    }));
    errors
}

fn devices(container: &Container, pod: &CheckedPod<'_>, field: &Path) -> Vec<FieldError> {
    let devices = items(container.volume_devices.as_ref());
    let mounts = VolumeUses::of_mounts(items(container.volume_mounts.as_ref()));
    let (mut names, mut paths): (ListKeys<&str>, ListKeys<&str>) =
        (ListKeys::new(), ListKeys::new());
    let mut errors = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        let field = field.index(index);
        let (name, path) = (&device.name, &device.device_path);
        errors.extend(known_volume(name, pod, &field));
        let volume = pod.volume(name);
        errors.extend(volume.map(|volume| device_of(volume, &field)));
        let mut wrong = |at: &str, value: &String, detail: &str| {
            errors.push(FieldError::invalid(field.child(at), value, detail));
        };
        if names.add(name.as_str()).is_some() && !name.is_empty() {
            wrong("name", name, "must be unique");
        }
        if !name.is_empty() && mounts.names.has(name.as_str()) {
            wrong("name", name, "must not already exist in volumeMounts");
        }
        if paths.add(path.as_str()).is_some() && !path.is_empty() {
            wrong("devicePath", path, "must be unique");
        }
        if !path.is_empty() && mounts.paths.has(path.as_str()) {
            wrong("devicePath", path, "must not already exist as a path in volumeMounts");
        }
        if path.split('/').any(|part| part == "..") {
            wrong("devicePath", path, "can not contain backsteps ('..')");
        }
        if path.is_empty() {
            errors.push(FieldError::required(field.child("devicePath"), ""));
        }
    }
    errors
}

/// Only what is behind a claim could be a device; and of those none is.
fn device_of(volume: &Volume, field: &Path) -> FieldError {
    if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() {
        return unsupported(field.clone(), "no volume is a block device; mount its files");
    }
    let detail =
        "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
    FieldError::invalid(field.child("name"), &volume.name, detail)
}
