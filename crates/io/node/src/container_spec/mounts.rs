//! The bind mounts of a container.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, VolumeMount};
use rekindle_runtime::{
    Mount, MountAccess, MountFeature, MountOptions, MountPropagation, MountSource, ReadOnlyReach,
};

use super::error::SpecError;
use crate::env::expand;

/// The file of names that the kubelet provides.
const HOSTS: &str = "/etc/hosts";

/// Where a volume stands on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumePath {
    /// Its folder (or file, of a hostPath), or its image.
    pub source: MountSource,
    /// `ReadOnly` for what the agent projects (ConfigMaps, Secrets, the downward API) and for
    /// images.
    pub access: MountAccess,
}

/// Every host path that a container may get to see.
#[derive(Clone, Debug)]
pub(crate) struct MountPaths<'a> {
    /// The pod's volumes by name.
    pub volumes: &'a BTreeMap<String, VolumePath>,
    /// The pod's /etc/hosts, /etc/hostname and /etc/resolv.conf: destination and source.
    pub etc_files: &'a [(PathBuf, PathBuf)],
    /// The file that stands at terminationMessagePath.
    pub termination_log: Option<PathBuf>,
}

/// The mounts, parents before children: the volumes, then what the agent provides where no volume
/// stands.
pub(crate) fn container_mounts(
    container: &Container,
    paths: &MountPaths<'_>,
    env: &[(String, String)],
) -> Result<Vec<Mount>, SpecError> {
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        mounts.push(volume_mount(container, mount, paths, env)?);
    }
    for (destination, source) in paths.etc_files {
        if !mounts.iter().any(|mount: &Mount| mount.destination == *destination) {
            let access = etc_file_access(container, destination);
            mounts.push(agent_file(source.clone(), destination.clone(), access));
        }
    }
    let message_path = container.termination_message_path.as_deref().unwrap_or_default();
    if let Some(source) = &paths.termination_log
        && !message_path.is_empty()
        && !mounts.iter().any(|mount| mount.destination == Path::new(message_path))
    {
        let path = PathBuf::from(message_path);
        mounts.push(agent_file(source.clone(), path, MountAccess::ReadWrite));
    }
    // stable, so that mounts at one place keep the order of the spec
    mounts.sort_by_key(|mount| mount.destination.components().count());
    Ok(mounts)
}

fn agent_file(source: PathBuf, destination: PathBuf, access: MountAccess) -> Mount {
    let (source, options) = (MountSource::Host(source), MountOptions::default());
    Mount { source, sub_path: None, destination, access, options }
}

/// /etc/hosts may always be written, as the kubelet mounts it; the others are the runtime's, which
/// mounts them as it does the root (containerd, `containerMounts`).
fn etc_file_access(container: &Container, destination: &Path) -> MountAccess {
    let context = container.security_context.as_ref();
    let read_only_root = context.and_then(|c| c.read_only_root_filesystem).unwrap_or(false);
    if read_only_root && destination != Path::new(HOSTS) {
        MountAccess::ReadOnly
    } else {
        MountAccess::ReadWrite
    }
}

fn volume_mount(
    container: &Container,
    mount: &VolumeMount,
    paths: &MountPaths<'_>,
    env: &[(String, String)],
) -> Result<Mount, SpecError> {
    let volume = paths.volumes.get(&mount.name).ok_or_else(|| SpecError::NoSuchVolume {
        container: container.name.clone(),
        volume: mount.name.clone(),
    })?;
    let access = match (volume.access, mount.read_only) {
        (MountAccess::ReadOnly, _) | (_, Some(true)) => MountAccess::ReadOnly,
        (MountAccess::ReadWrite, Some(false) | None) => MountAccess::ReadWrite,
    };
    Ok(Mount {
        source: volume.source.clone(),
        sub_path: sub_path(container, mount, env)?,
        destination: Path::new("/").join(&mount.mount_path),
        access,
        options: mount_options(&volume.source, mount),
    })
}

/// The API's validation knows no other words.
fn mount_options(source: &MountSource, mount: &VolumeMount) -> MountOptions {
    // nothing of an image that is only data is executed, as with the kubelet
    let of_source = match source {
        MountSource::Host(_) => None,
        MountSource::Image(_) => Some(MountFeature::Exec),
    };
    let without =
        mount.bind_mount_options.iter().flatten().filter_map(|option| match option.as_str() {
            "noexec" => Some(MountFeature::Exec),
            "nodev" => Some(MountFeature::Devices),
            "nosuid" => Some(MountFeature::SetUid),
            _ => None,
        });
    MountOptions {
        read_only: match mount.recursive_read_only.as_deref() {
            Some("Enabled" | "IfPossible") => ReadOnlyReach::Tree,
            Some(_) | None => ReadOnlyReach::Mount,
        },
        propagation: match mount.mount_propagation.as_deref() {
            Some("HostToContainer") => MountPropagation::HostToContainer,
            Some("Bidirectional") => MountPropagation::Bidirectional,
            Some(_) | None => MountPropagation::Private,
        },
        without: of_source.into_iter().chain(without).collect(),
    }
}

fn sub_path(
    container: &Container,
    mount: &VolumeMount,
    env: &[(String, String)],
) -> Result<Option<PathBuf>, SpecError> {
    let text = match (&mount.sub_path, &mount.sub_path_expr) {
        (Some(path), _) if !path.is_empty() => path.clone(),
        (_, Some(expression)) if !expression.is_empty() => {
            expanded_sub_path(container, mount, expression, env)?
        }
        _ => return Ok(None),
    };
    let path = PathBuf::from(&text);
    let stays_beneath =
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !stays_beneath {
        return Err(SpecError::SubPath { volume: mount.name.clone(), sub_path: text });
    }
    Ok(Some(path))
}

/// Every reference in subPathExpr must be known: a path is never made of half a text.
fn expanded_sub_path(
    container: &Container,
    mount: &VolumeMount,
    expression: &str,
    env: &[(String, String)],
) -> Result<String, SpecError> {
    let missing = std::cell::RefCell::new(None);
    let text = expand(expression, |name| {
        let found = env.iter().rev().find(|(known, _)| known == name);
        if found.is_none() {
            missing.borrow_mut().get_or_insert_with(|| name.to_owned());
        }
        found.map(|(_, value)| value.as_str())
    });
    match missing.into_inner() {
        None => Ok(text),
        Some(variable) => Err(SpecError::SubPathVariable {
            container: container.name.clone(),
            volume: mount.name.clone(),
            variable,
        }),
    }
}
