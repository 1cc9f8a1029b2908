//! hostPath: the host's own path, checked against the type that the pod expects.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Component, Path};

use k8s_openapi::api::core::v1::HostPathVolumeSource;

use super::error::VolumeProblem;

/// Checks the path, and makes the folder or file of an `…OrCreate` type. Source: the API reference
/// of `HostPathVolumeSource.type`. A path without a type is not checked, but made a folder where
/// nothing is: container runtimes do so before they mount it (containerd's `WithMounts`).
pub(crate) fn ensure(source: &HostPathVolumeSource) -> Result<(), VolumeProblem> {
    let path = Path::new(&source.path);
    let upwards = path.components().any(|part| part == Component::ParentDir);
    if !path.is_absolute() || upwards {
        return Err(VolumeProblem::HostPath(source.path.clone()));
    }
    let refused = |expected| VolumeProblem::HostPathType { path: source.path.clone(), expected };
    let found = fs::metadata(path).ok().map(|metadata| metadata.file_type());
    let expect = |is: bool, expected| if is { Ok(()) } else { Err(refused(expected)) };
    match source.type_.as_deref().unwrap_or_default() {
        "" => match found {
            Some(_) => Ok(()),
            None => create_folder(path),
        },
        "DirectoryOrCreate" => match found {
            Some(kind) => expect(kind.is_dir(), "a directory"),
            None => create_folder(path),
        },
        "Directory" => expect(found.is_some_and(|kind| kind.is_dir()), "a directory"),
        "FileOrCreate" => match found {
            Some(kind) => expect(kind.is_file(), "a file"),
            None => create_file(path),
        },
        "File" => expect(found.is_some_and(|kind| kind.is_file()), "a file"),
        "Socket" => expect(found.is_some_and(|kind| kind.is_socket()), "a socket file"),
        "CharDevice" => {
            expect(found.is_some_and(|kind| kind.is_char_device()), "a character device")
        }
        "BlockDevice" => expect(found.is_some_and(|kind| kind.is_block_device()), "a block device"),
        _ => Err(refused("of a known type")),
    }
}

fn create_folder(path: &Path) -> Result<(), VolumeProblem> {
    let failed = |error| VolumeProblem::io("create hostPath folder", path, error);
    fs::create_dir_all(path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(failed)
}

/// The parent folder must be there, as with the kubelet.
fn create_file(path: &Path) -> Result<(), VolumeProblem> {
    let failed = |error| VolumeProblem::io("create hostPath file", path, error);
    fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(0o644)).map_err(failed)
}
