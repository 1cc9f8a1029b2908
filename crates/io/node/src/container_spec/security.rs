//! Who a container runs as and what it may: the container's security context over the pod's.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    Capabilities, Container, Pod, PodSecurityContext, SeccompProfile, SecurityContext,
};
use rekindle_runtime::{ImageGroups, ProcMount, Seccomp, Security};

use rekindle_types::pods::in_full;
use rekindle_types::validation::numbers::ID_MAX;

use super::error::SpecError;

/// Merges both contexts; `profiles` is where the node keeps seccomp profiles of its own. The same
/// input gives the same answer at every attempt (promise P4).
pub(crate) fn container_security(
    pod: &Pod,
    container: &Container,
    profiles: &Path,
) -> Result<Security, SpecError> {
    let pod_context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let context = container.security_context.as_ref();
    let privileged = context.and_then(|c| c.privileged).unwrap_or(false);
    let run_as_user =
        context.and_then(|c| c.run_as_user).or_else(|| pod_context.and_then(|p| p.run_as_user));
    let run_as_group =
        context.and_then(|c| c.run_as_group).or_else(|| pod_context.and_then(|p| p.run_as_group));
    let run_as_non_root = context
        .and_then(|c| c.run_as_non_root)
        .or_else(|| pod_context.and_then(|p| p.run_as_non_root))
        .unwrap_or(false);
    let run_as_user = run_as_user.map(|id| numeric_id("runAsUser", id)).transpose()?;
    if run_as_non_root && run_as_user == Some(0) {
        return Err(SpecError::RootForbidden {
            pod: in_full(&pod.metadata),
            container: container.name.clone(),
        });
    }
    let capabilities = context.and_then(|c| c.capabilities.as_ref());
    Ok(Security {
        run_as_user,
        run_as_group: run_as_group.map(|id| numeric_id("runAsGroup", id)).transpose()?,
        run_as_non_root,
        supplemental_groups: supplemental_groups(pod_context)?,
        image_groups: match pod_context.and_then(|p| p.supplemental_groups_policy.as_deref()) {
            Some("Strict") => ImageGroups::Left,
            // "Merge"; the API's validation knows no others
            Some(_) | None => ImageGroups::Merged,
        },
        add_capabilities: capability_names(capabilities.and_then(|c| c.add.as_ref())),
        drop_capabilities: capability_names(
            capabilities.and_then(|c: &Capabilities| c.drop.as_ref()),
        ),
        privileged,
        allow_privilege_escalation: context
            .and_then(|c| c.allow_privilege_escalation)
            .unwrap_or(true),
        read_only_root: context.and_then(|c| c.read_only_root_filesystem).unwrap_or(false),
        seccomp: if privileged {
            Seccomp::Unconfined
        } else {
            seccomp(pod_context, context, profiles)?
        },
        proc_mount: match context.and_then(|c| c.proc_mount.as_deref()) {
            Some("Unmasked") => ProcMount::Unmasked,
            // "Default"; the API's validation knows no others
            Some(_) | None => ProcMount::Default,
        },
    })
}

/// The user that all containers of the pod run as, if its spec names one and the same for each. The
/// kubelet's `FsUserFrom`: whom files belong to that nobody else should read.
pub(crate) fn common_user(pod: &Pod) -> Result<Option<u32>, SpecError> {
    let Some(spec) = &pod.spec else { return Ok(None) };
    let of_pod = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut users = containers.map(|container| {
        container.security_context.as_ref().and_then(|context| context.run_as_user).or(of_pod)
    });
    let Some(first) = users.next().flatten() else { return Ok(None) };
    if users.any(|user| user != Some(first)) {
        return Ok(None);
    }
    numeric_id("runAsUser", first).map(Some)
}

/// The pod's fsGroup, if it has one.
pub(crate) fn fs_group(pod: &Pod) -> Result<Option<u32>, SpecError> {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    context.and_then(|c| c.fs_group).map(|id| numeric_id("fsGroup", id)).transpose()
}

fn supplemental_groups(context: Option<&PodSecurityContext>) -> Result<Vec<u32>, SpecError> {
    let Some(context) = context else { return Ok(Vec::new()) };
    let mut groups = Vec::new();
    for id in context.fs_group.iter().chain(context.supplemental_groups.iter().flatten()) {
        let id = numeric_id("supplementalGroups", *id)?;
        if !groups.contains(&id) {
            groups.push(id);
        }
    }
    Ok(groups)
}

fn numeric_id(field: &'static str, id: i64) -> Result<u32, SpecError> {
    let within = Some(id).filter(|id| *id <= ID_MAX);
    within.and_then(|id| u32::try_from(id).ok()).ok_or(SpecError::IdRange { field, id })
}

/// `CAP_NET_ADMIN` and `NET_ADMIN` are the same.
fn capability_names(names: Option<&Vec<String>>) -> Vec<String> {
    names
        .into_iter()
        .flatten()
        .map(|name| name.strip_prefix("CAP_").unwrap_or(name).to_owned())
        .collect()
}

/// The container's profile, else the pod's, else the default profile (as a kubelet with
/// seccompDefault).
fn seccomp(
    pod: Option<&PodSecurityContext>,
    container: Option<&SecurityContext>,
    profiles: &Path,
) -> Result<Seccomp, SpecError> {
    let profile: Option<&SeccompProfile> = container
        .and_then(|c| c.seccomp_profile.as_ref())
        .or_else(|| pod.and_then(|p| p.seccomp_profile.as_ref()));
    let Some(profile) = profile else { return Ok(Seccomp::RuntimeDefault) };
    match (profile.type_.as_str(), profile.localhost_profile.as_deref().unwrap_or_default()) {
        ("RuntimeDefault", _) => Ok(Seccomp::RuntimeDefault),
        ("Unconfined", _) => Ok(Seccomp::Unconfined),
        ("Localhost", "") => Err(SpecError::NoLocalhostProfile),
        ("Localhost", name) => {
            Ok(Seccomp::Localhost { folder: profiles.to_owned(), profile: PathBuf::from(name) })
        }
        (other, _) => Err(SpecError::SeccompProfile { profile: other.to_owned() }),
    }
}
