//! All volumes of a pod: made ready, refreshed, updated, taken away. Every operation may be
//! repeated at any point.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Pod, Volume};
use rekindle_pod::mounted_volumes::mounted;
use rekindle_runtime::{MountAccess, MountSource};
use rekindle_types::volume_sources;

use super::atomic_writer::write_payload;
use super::empty_dir::{EmptyDir, move_to_trash};
use super::error::{VolumeError, VolumeProblem};
use super::payload::{PayloadInputs, payload};
use super::tmpfs::{FILES_TMPFS, PAYLOAD_TMPFS, ensure_tmpfs, make_folder, unmount_tmpfs};
use super::{claims, host_path, nfs};
use crate::container_spec::resources::pod_resources;
use crate::container_spec::{VolumePath, fs_group};
use crate::env::{Allocatable, PodFacts};
use crate::layout::PodDirs;
use crate::objects::FetchedObjects;

/// What a pod's volumes are made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeInputs<'a> {
    /// The pod's folders.
    pub dirs: &'a PodDirs,
    /// The pod.
    pub pod: &'a Pod,
    /// What is not in its spec.
    pub facts: &'a PodFacts,
    /// The node's amounts.
    pub allocatable: &'a Allocatable,
    /// The objects that it refers to.
    pub objects: &'a FetchedObjects,
}

/// Makes every volume ready that a container uses, and the tmpfs for the agent's own files. What
/// stands already keeps its content. Shares of NFS are mounted before.
pub(crate) fn mount_volumes(inputs: VolumeInputs<'_>) -> Result<(), VolumeError> {
    let dirs = inputs.dirs;
    make_folder(&dirs.volumes()).map_err(|problem| about("", problem))?;
    ensure_tmpfs(&dirs.files(), FILES_TMPFS).map_err(|problem| about("", problem))?;
    for volume in mounted(inputs.pod) {
        mount_volume(inputs, volume).map_err(|problem| about(&volume.name, problem))?;
    }
    Ok(())
}

/// Brings the projected files of every volume to what the objects say now. One that cannot be
/// written holds up no other; the first of these is told.
pub(crate) fn update_payloads(inputs: VolumeInputs<'_>) -> Result<(), VolumeError> {
    let mut updated = Ok(());
    for volume in mounted(inputs.pod).filter(|volume| is_payload(volume)) {
        let written = write_volume(inputs, volume).map_err(|problem| about(&volume.name, problem));
        updated = updated.and(written);
    }
    updated
}

/// Makes the contents of every emptyDir new that a container uses. Only while no container runs.
pub(crate) fn refresh_empty_dirs(
    dirs: &PodDirs,
    pod: &Pod,
    allocatable: &Allocatable,
) -> Result<(), VolumeError> {
    for volume in mounted(pod) {
        let refreshed = match empty_dir(pod, allocatable, volume) {
            Ok(Some(empty_dir)) => empty_dir.refresh(&volume_folder(dirs, volume), dirs.trash()),
            Ok(None) => Ok(()),
            Err(problem) => Err(problem),
        };
        refreshed.map_err(|problem| about(&volume.name, problem))?;
    }
    Ok(())
}

/// Unmounts everything, and with `EmptyDirContents::Discard` moves the folders to the trash, that
/// of the termination messages too: nothing of a pod's own content is walked through here.
pub(crate) fn unmount_volumes(
    dirs: &PodDirs,
    contents: EmptyDirContents,
) -> Result<(), VolumeError> {
    let failed = |problem| about("", problem);
    unmount_tmpfs(&dirs.files()).map_err(failed)?;
    // before anything is looked at through a share
    nfs::detach_shares(&dirs.volumes()).map_err(failed)?;
    if let Ok(entries) = std::fs::read_dir(dirs.volumes()) {
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            unmount_tmpfs(&entry.path()).map_err(|problem| about(&name, problem))?;
        }
    }
    match contents {
        EmptyDirContents::Keep => Ok(()),
        EmptyDirContents::Discard => [dirs.volumes(), dirs.messages()]
            .iter()
            .try_for_each(|folder| move_to_trash(folder, dirs.trash()).map_err(failed)),
    }
}

/// What becomes of the emptyDir folders on disk when volumes are unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyDirContents {
    /// The pod comes back after the node does.
    Keep,
    /// The pod is over.
    Discard,
}

/// Where each volume stands, whether it is mounted yet or not.
pub(crate) fn volume_paths(dirs: &PodDirs, pod: &Pod) -> BTreeMap<String, VolumePath> {
    volumes_of(pod)
        .map(|volume| {
            let place = match (&volume.host_path, &volume.image) {
                (Some(source), _) => VolumePath {
                    source: MountSource::Host(PathBuf::from(&source.path)),
                    access: MountAccess::ReadWrite,
                },
                (None, Some(source)) => VolumePath {
                    source: MountSource::Image(source.reference.clone().unwrap_or_default()),
                    access: MountAccess::ReadOnly,
                },
                (None, None) if claims::is_claimed(volume) => claimed_path(dirs, volume),
                (None, None) => VolumePath {
                    source: MountSource::Host(volume_folder(dirs, volume)),
                    access: if is_payload(volume) {
                        MountAccess::ReadOnly
                    } else {
                        MountAccess::ReadWrite
                    },
                },
            };
            (volume.name.clone(), place)
        })
        .collect()
}

/// The volume behind a claim itself; before it has been looked up, a place at which nothing is.
fn claimed_path(dirs: &PodDirs, volume: &Volume) -> VolumePath {
    let folder = volume_folder(dirs, volume);
    let claim = volume.persistent_volume_claim.as_ref();
    let read_only = claim.and_then(|claim| claim.read_only) == Some(true);
    VolumePath {
        source: MountSource::Host(claims::linked(&folder).unwrap_or(folder)),
        access: if read_only { MountAccess::ReadOnly } else { MountAccess::ReadWrite },
    }
}

fn volumes_of(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

fn volume_folder(dirs: &PodDirs, volume: &Volume) -> PathBuf {
    dirs.volumes().join(Path::new(&volume.name))
}

fn is_payload(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.projected.is_some()
        || volume.downward_api.is_some()
}

fn about(volume: &str, problem: VolumeProblem) -> VolumeError {
    VolumeError { volume: volume.to_owned(), problem }
}

fn empty_dir<'v>(
    pod: &Pod,
    allocatable: &Allocatable,
    volume: &'v Volume,
) -> Result<Option<EmptyDir<'v>>, VolumeProblem> {
    let Some(source) = &volume.empty_dir else { return Ok(None) };
    let of_node = allocatable.resources.get("memory");
    let of_node = of_node.and_then(|memory| u64::try_from(memory.units()).ok());
    let of_pod = pod_resources(pod, None).memory_limit_bytes;
    Ok(Some(EmptyDir {
        source,
        fs_group: fs_group(pod)?,
        memory_bytes_max: of_pod.into_iter().chain(of_node).min(),
    }))
}

fn mount_volume(inputs: VolumeInputs<'_>, volume: &Volume) -> Result<(), VolumeProblem> {
    if let Some(empty_dir) = empty_dir(inputs.pod, inputs.allocatable, volume)? {
        return empty_dir.ensure(&volume_folder(inputs.dirs, volume));
    }
    if let Some(source) = &volume.host_path {
        return host_path::ensure(source);
    }
    if volume.image.is_some() {
        return Ok(()); // it is fetched for each container that mounts it, and mounted with it
    }
    if claims::is_claimed(volume) {
        return claims::check(&volume_folder(inputs.dirs, volume));
    }
    if volume.nfs.is_some() {
        return Ok(()); // it was mounted before, as that takes a while
    }
    if is_payload(volume) {
        return write_volume(inputs, volume);
    }
    let source = volume_sources::of_pod_volume(volume).next();
    Err(VolumeProblem::Unsupported(source.unwrap_or("unknown")))
}

/// The content is put together first: a volume whose object is absent leaves no mount behind.
fn write_volume(inputs: VolumeInputs<'_>, volume: &Volume) -> Result<(), VolumeProblem> {
    let VolumeInputs { dirs, pod, facts, allocatable, objects } = inputs;
    let Some(files) = payload(PayloadInputs { pod, facts, allocatable, objects }, volume)? else {
        return Ok(());
    };
    let folder = volume_folder(dirs, volume);
    if volume.config_map.is_some() {
        make_folder(&folder)?;
    } else {
        ensure_tmpfs(&folder, PAYLOAD_TMPFS)?;
    }
    write_payload(&folder, &files, fs_group(pod)?)?;
    Ok(())
}
