//! Volumes behind claims. What a claim leads to is looked up once, when the pod comes: from then on
//! a link in the pod's folder says where the volume stands. So a restart of the pod asks nobody,
//! and finds the same volume with what it holds, also while the API is away or the claim is being
//! deleted.
//!
//! A share of NFS is mounted in the pod's folder instead, and the mount says that it was looked up.
//! Nothing else is mounted, so nothing of a volume lies beneath what is thrown away with a pod:
//! there, a link is removed.

use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, NFSVolumeSource, NodeSelectorTerm, PersistentVolume,
    PersistentVolumeClaim, Pod, Volume,
};
use kube::{Api, Client};
use rekindle_pod::mounted_volumes::mounted;
use rekindle_types::pods::claim_name;
use rekindle_types::{causes, volume_sources};
use rustix::fs::CWD;
use rustix::io::Errno;

use super::error::{VolumeError, VolumeProblem};
use super::nfs::NfsMount;
use super::ownership::{ChangePolicy, give_to_group};
use super::tmpfs::make_folder;
use super::{host_path, nfs};
use crate::container_spec::fs_group;
use crate::layout::PodDirs;

/// The label that binds a volume to a node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A volume that a claim of the pod leads to, and that the pod has no link to yet.
#[derive(Debug)]
pub(crate) struct ClaimedVolume {
    /// The volume's name in the pod.
    name: String,
    place: ClaimBacking,
}

#[derive(Debug)]
enum ClaimBacking {
    /// A folder that is there.
    Local(PathBuf),
    /// A path that is checked, and made when its type says so.
    Host(HostPathVolumeSource),
    /// A share that is mounted in the pod's folder, with the options of its volume.
    Nfs(NFSVolumeSource, Vec<String>),
}

/// True for a volume that stands behind a claim.
pub(super) fn is_claimed(volume: &Volume) -> bool {
    volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
}

/// Looks up the claims that a container of the pod uses and that it has no link to.
pub(crate) async fn look_up(
    client: &Client,
    dirs: &PodDirs,
    pod: &Pod,
    node: &str,
) -> Result<Vec<ClaimedVolume>, VolumeError> {
    let mut found = Vec::new();
    for volume in mounted(pod).filter(|volume| is_claimed(volume)) {
        let link = link(dirs, &volume.name);
        let about = |problem| VolumeError { volume: volume.name.clone(), problem };
        if linked(&link).is_some() || nfs::is_mount_point(&link).map_err(about)? {
            continue;
        }
        let place = place(client, pod, volume, node).await;
        let place = place.map_err(about)?;
        found.push(ClaimedVolume { name: volume.name.clone(), place });
    }
    Ok(found)
}

/// Where the volume behind a claim stands. A claim on its way out takes no new pod in.
async fn place(
    client: &Client,
    pod: &Pod,
    volume: &Volume,
    node: &str,
) -> Result<ClaimBacking, VolumeProblem> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let of_pod = pod.metadata.name.as_deref().unwrap_or_default();
    let name = claim_name(of_pod, volume).unwrap_or_default();
    let refused = |text: String| VolumeProblem::Claim(text);
    let unanswered =
        |error: kube::Error| refused(format!("look up claim {name:?}: {}", causes(&error)));
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claim = claims.get_opt(&name).await.map_err(unanswered)?;
    let claim =
        claim.ok_or_else(|| refused(format!("persistentvolumeclaim {name:?} not found")))?;
    let owners = claim.metadata.owner_references.iter().flatten();
    if volume.ephemeral.is_some()
        && !owners.into_iter().any(|owner| Some(&owner.uid) == pod.metadata.uid.as_ref())
    {
        return Err(refused(format!(
            "PVC {name:?} was not created for this pod (pod is not owner)"
        )));
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(refused(format!("persistentvolumeclaim {name:?} is being deleted")));
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    let of = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
    let (Some("Bound"), Some(volume_name)) = (phase, of) else {
        return Err(refused(format!("persistentvolumeclaim {name:?} is not bound")));
    };
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let persistent = volumes.get_opt(volume_name).await.map_err(unanswered)?;
    let persistent =
        persistent.ok_or_else(|| refused(format!("persistentvolume {volume_name:?} not found")))?;
    let spec = persistent.spec.unwrap_or_default();
    if spec.claim_ref.as_ref().and_then(|claim| claim.uid.as_ref()) != claim.metadata.uid.as_ref() {
        let text = format!("persistentvolume {volume_name:?} does not belong to claim {name:?}");
        return Err(refused(text));
    }
    let source = volume_sources::of_persistent_volume(&spec).next();
    let has_options = spec.mount_options.as_ref().is_some_and(|options| !options.is_empty());
    let required = spec.node_affinity.and_then(|affinity| affinity.required);
    if required.is_some_and(|required| is_elsewhere(&required.node_selector_terms, node)) {
        return Err(refused(format!("persistentvolume {volume_name:?} is not on this node")));
    }
    if spec.volume_mode.as_deref() == Some("Block") {
        let text =
            format!("persistentvolume {volume_name:?} is a block device, which no pod gets here");
        return Err(refused(text));
    }
    match (spec.local, spec.host_path) {
        (Some(_), _) | (_, Some(_)) if has_options => {
            Err(refused("mount options are not supported for this volume type".to_owned()))
        }
        (Some(local), _) => Ok(ClaimBacking::Local(PathBuf::from(local.path))),
        (None, Some(source)) => Ok(ClaimBacking::Host(source)),
        (None, None) => match spec.nfs {
            Some(share) => Ok(ClaimBacking::Nfs(share, spec.mount_options.unwrap_or_default())),
            None => Err(VolumeProblem::Unsupported(source.unwrap_or("unknown"))),
        },
    }
}

/// True when every term names other nodes. What else a term asks of the node, the scheduler has
/// looked at.
fn is_elsewhere(terms: &[NodeSelectorTerm], node: &str) -> bool {
    let names_others = |term: &NodeSelectorTerm| {
        term.match_expressions.iter().flatten().any(|requirement| {
            let values = requirement.values.as_deref().unwrap_or_default();
            requirement.key == HOSTNAME
                && requirement.operator == "In"
                && !values.iter().any(|value| value == node)
        })
    };
    !terms.is_empty() && terms.iter().all(names_others)
}

/// The shares among what was looked up.
pub(crate) fn shares(dirs: &PodDirs, claimed: &[ClaimedVolume]) -> Vec<NfsMount> {
    let shares = claimed.iter().filter_map(|volume| match &volume.place {
        ClaimBacking::Nfs(share, options) => {
            Some(NfsMount::new(dirs, &volume.name, share, options))
        }
        ClaimBacking::Local(_) | ClaimBacking::Host(_) => None,
    });
    shares.collect()
}

/// Makes the pod's links to what was looked up; shares are mounted in their place.
pub(crate) fn link_claims(
    dirs: &PodDirs,
    pod: &Pod,
    claimed: &[ClaimedVolume],
) -> Result<(), VolumeError> {
    for volume in claimed {
        link_one(dirs, pod, volume)
            .map_err(|problem| VolumeError { volume: volume.name.clone(), problem })?;
    }
    Ok(())
}

fn link_one(dirs: &PodDirs, pod: &Pod, volume: &ClaimedVolume) -> Result<(), VolumeProblem> {
    make_folder(&dirs.volumes())?;
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| VolumeProblem::io("find volume", path, error))
    };
    let target = match &volume.place {
        ClaimBacking::Local(path) => {
            let path = real(path)?;
            hand_over(dirs, pod, &volume.name, &path)?;
            path
        }
        ClaimBacking::Host(source) => {
            host_path::ensure(source)?;
            PathBuf::from(&source.path)
        }
        ClaimBacking::Nfs(..) => return Ok(()),
    };
    let link = link(dirs, &volume.name);
    match rustix::fs::symlinkat(&target, CWD, &link) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) if linked(&link).as_deref() == Some(&target) => Ok(()),
        Err(error) => Err(VolumeProblem::io("make link", link, error)),
    }
}

/// Gives the volume to the pod's group, if it has one and may write: before the first of the node's
/// pods uses it, as the kubelet does with volumes of type local. Who shares it with a pod that runs
/// finds it as that one has it.
fn hand_over(dirs: &PodDirs, pod: &Pod, volume: &str, folder: &Path) -> Result<(), VolumeProblem> {
    let Some(group) = fs_group(pod)?.filter(|_| !is_read_only(pod, volume)) else { return Ok(()) };
    let pods = dirs.root().parent().expect("the folder of a pod lies in that of all");
    let used =
        is_used(pods, folder).map_err(|error| VolumeProblem::io("look at pods in", pods, error))?;
    if used {
        return Ok(());
    }
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let policy = context.and_then(|context| context.fs_group_change_policy.as_deref());
    give_to_group(folder, group, ChangePolicy::parse(policy))
}

/// Whether the pod's volume says that it is only read.
fn is_read_only(pod: &Pod, volume: &str) -> bool {
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claim = volumes.find(|v| v.name == volume).and_then(|v| v.persistent_volume_claim.as_ref());
    claim.is_some_and(|claim| claim.read_only == Some(true))
}

/// Checks that a linked volume is there.
pub(super) fn check(folder: &Path) -> Result<(), VolumeProblem> {
    let Some(target) = linked(folder) else {
        return match nfs::is_mount_point(folder)? {
            true => Ok(()),
            false => Err(VolumeProblem::Claim("its claim has not been looked up".to_owned())),
        };
    };
    match std::fs::metadata(&target) {
        Ok(_) => Ok(()),
        Err(error) => Err(VolumeProblem::io("find volume", target, error)),
    }
}

/// Where a volume stands that a pod has a link to.
pub(crate) fn linked(link: &Path) -> Option<PathBuf> {
    std::fs::read_link(link).ok()
}

/// True when a pod of this node has the folder; also one that has ended and is not yet taken down.
pub(crate) fn is_used(pods: &Path, folder: &Path) -> io::Result<bool> {
    for pod in std::fs::read_dir(pods)? {
        let volumes = match std::fs::read_dir(pod?.path().join("volumes")) {
            Ok(volumes) => volumes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for volume in volumes {
            if linked(&volume?.path()).as_deref() == Some(folder) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn link(dirs: &PodDirs, volume: &str) -> PathBuf {
    dirs.volumes().join(volume)
}
