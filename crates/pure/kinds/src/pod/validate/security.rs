//! Security contexts. What this version cannot carry out and what would leave a container with more
//! rights than asked for is refused, not only warned of.

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, PodSpec, SeccompProfile, SecurityContext, Sysctl,
};

use rekindle_types::sysctls::{self, SysctlNamespace};
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::{one_of_if_set, unsupported, windows};
use crate::validation::{ListKeys, Path, items, numbers, paths};

/// Checks the pod's security context.
pub(super) fn pod(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let host = spec.host_pid == Some(true);
    if host && spec.share_process_namespace == Some(true) {
        errors.push(FieldError::invalid(
            field.child("securityContext").child("shareProcessNamespace"),
            true,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        ));
    }
    let Some(context) = &spec.security_context else { return errors };
    let field = field.child("securityContext");
    for (name, id) in [
        ("fsGroup", context.fs_group),
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
    ] {
        errors.extend(id.and_then(|id| numbers::unix_id(id, &field.child(name))));
    }
    for (index, group) in items(context.supplemental_groups.as_ref()).iter().enumerate() {
        let field = field.child("supplementalGroups").index(index);
        errors.extend(numbers::unix_id(*group, &field));
    }
    errors.extend(one_of_if_set(
        context.fs_group_change_policy.as_ref(),
        &["Always", "OnRootMismatch"],
        field.child("fsGroupChangePolicy"),
    ));
    errors.extend(one_of_if_set(
        context.supplemental_groups_policy.as_ref(),
        &["Merge", "Strict"],
        field.child("supplementalGroupsPolicy"),
    ));
    if let Some(policy) = &context.se_linux_change_policy {
        let known = ["MountOption", "Recursive"];
        let field = field.child("seLinuxChangePolicy");
        let is_known = known.contains(&policy.as_str());
        errors.extend((!is_known).then(|| FieldError::not_supported(field, policy, &known)));
    }
    let windows = context.windows_options.as_ref();
    errors.extend(windows::options(windows, &field.child("windowsOptions")));
    errors.extend(sysctls(spec, items(context.sysctls.as_ref()), &field.child("sysctls")));
    errors.extend(seccomp(context.seccomp_profile.as_ref(), &field.child("seccompProfile")));
    errors.extend(app_armor(context.app_armor_profile.as_ref(), &field.child("appArmorProfile")));
    errors
}

/// Only what a namespace of the pod's own holds may be set.
fn sysctls(spec: &PodSpec, given: &[Sysctl], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut taken = ListKeys::new();
    for (index, sysctl) in given.iter().enumerate() {
        let field = field.index(index).child("name");
        let name = sysctls::with_dots(&sysctl.name);
        let is_again = taken.add(name.clone()).is_some();
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if !sysctls::is_name(&name) {
            errors.push(FieldError::invalid(
                field,
                &sysctl.name,
                "must have at most 253 characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            ));
        } else if is_again {
            errors.push(FieldError::duplicate(field, &sysctl.name));
        } else {
            errors.extend(sysctl_of_node(spec, sysctl, &name, field));
        }
    }
    errors
}

/// What the pod shares with the node it may not set, nor what is in no namespace at all.
fn sysctl_of_node(spec: &PodSpec, sysctl: &Sysctl, name: &str, field: Path) -> Option<FieldError> {
    let shared = |host: Option<bool>, switch: &str| {
        let detail = format!("may not be specified when '{switch}' is true");
        (host == Some(true)).then(|| FieldError::invalid(field.clone(), &sysctl.name, detail))
    };
    match sysctls::home(name) {
        SysctlNamespace::Network => shared(spec.host_network, "hostNetwork"),
        SysctlNamespace::Ipc => shared(spec.host_ipc, "hostIPC"),
        SysctlNamespace::Machine => {
            Some(unsupported(field, "it is not namespaced and would change the node"))
        }
    }
}

/// Checks a container's security context.
pub(super) fn container(container: &Container, spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(context) = &container.security_context else { return errors };
    for (name, id) in [("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)] {
        errors.extend(id.and_then(|id| numbers::unix_id(id, &field.child(name))));
    }
    errors.extend(one_of_if_set(
        context.proc_mount.as_ref(),
        &["Default", "Unmasked"],
        field.child("procMount"),
    ));
    errors.extend(unmasked_proc(context, spec, &field.child("procMount")));
    let windows = context.windows_options.as_ref();
    errors.extend(windows::options(windows, &field.child("windowsOptions")));
    errors.extend(seccomp(context.seccomp_profile.as_ref(), &field.child("seccompProfile")));
    errors.extend(app_armor(context.app_armor_profile.as_ref(), &field.child("appArmorProfile")));
    if context.allow_privilege_escalation == Some(false) {
        let added = context.capabilities.iter().flat_map(|caps| caps.add.iter().flatten());
        let problem = if context.privileged == Some(true) {
            Some("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        } else if added.into_iter().any(|name| name == "CAP_SYS_ADMIN") {
            Some(
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            )
        } else {
            None
        };
        if let Some(detail) = problem {
            let shown = serde_json::to_string(context)
                .expect("a security context has text keys only, so JSON can hold it");
            errors.push(FieldError {
                field: field.into(),
                problem: FieldProblem::Invalid(shown),
                detail: detail.to_owned(),
            });
        }
    }
    errors
}

/// What is the machine's in /proc is kept from a pod by whose it is, or else hidden.
fn unmasked_proc(context: &SecurityContext, spec: &PodSpec, field: &Path) -> Option<FieldError> {
    match (context.proc_mount.as_deref(), spec.host_users) {
        (Some("Unmasked"), Some(true) | None) => Some(FieldError::invalid(
            field,
            "Unmasked",
            "`hostUsers` must be false to use `Unmasked`",
        )),
        (Some("Unmasked"), Some(false)) | (Some(_) | None, _) => None,
    }
}

/// Users of the pod's own are nobody in the node's namespaces, and devices have no mount that could
/// be mapped (KEP-127).
pub(super) fn own_users(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec.host_users != Some(false) {
        return Vec::new();
    }
    let shared = [
        ("hostNetwork", spec.host_network),
        // upstream names the field so
        ("HostPID", spec.host_pid),
        ("hostIPC", spec.host_ipc),
    ];
    let shared = shared.into_iter().filter(|(_, host)| *host == Some(true));
    let mut errors: Vec<FieldError> =
        shared.map(|(name, _)| FieldError::forbidden(field.child(name), DETAIL)).collect();
    let with_devices = |containers: Option<&Vec<Container>>, field: Path| -> Vec<FieldError> {
        let named = containers.into_iter().flatten().enumerate();
        let with = named.filter(|(_, container)| {
            container.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty())
        });
        with.map(|(index, _)| {
            FieldError::forbidden(field.index(index).child("volumeDevices"), DETAIL)
        })
        .collect()
    };
    errors.extend(with_devices(Some(&spec.containers), field.child("containers")));
    errors.extend(with_devices(spec.init_containers.as_ref(), field.child("initContainers")));
    errors
}

/// Checked although this version does not carry it out: what is wrong would be wrong elsewhere,
/// too.
fn app_armor(profile: Option<&AppArmorProfile>, field: &Path) -> Option<FieldError> {
    const PROFILE_BYTES_MAX: usize = 4095;
    let profile = profile?;
    let local = field.child("localhostProfile");
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("RuntimeDefault" | "Unconfined", None) => None,
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            let why = "can only be set when AppArmor type is Localhost";
            Some(FieldError::invalid(local, name, why))
        }
        ("Localhost", Some(name)) if name.trim() != name => {
            Some(FieldError::invalid(local, name, "must not be padded with whitespace"))
        }
        ("Localhost", None | Some("")) => {
            Some(FieldError::required(local, "must be set when AppArmor type is Localhost"))
        }
        ("Localhost", Some(name)) => {
            (name.len() > PROFILE_BYTES_MAX).then(|| FieldError::too_long(local, PROFILE_BYTES_MAX))
        }
        ("", _) => {
            let why = "type is required when appArmorProfile is set";
            Some(FieldError::required(field.child("type"), why))
        }
        (other, _) => Some(FieldError::not_supported(
            field.child("type"),
            other,
            &["Localhost", "RuntimeDefault", "Unconfined"],
        )),
    }
}

fn seccomp(profile: Option<&SeccompProfile>, field: &Path) -> Vec<FieldError> {
    let Some(profile) = profile else { return Vec::new() };
    let mut errors = Vec::new();
    match profile.type_.as_str() {
        "RuntimeDefault" | "Unconfined" => {
            if profile.localhost_profile.is_some() {
                errors.push(FieldError::invalid(
                    field.child("localhostProfile"),
                    profile.localhost_profile.as_deref().unwrap_or_default(),
                    "can only be set when seccomp type is Localhost",
                ));
            }
        }
        "Localhost" => match profile.localhost_profile.as_deref() {
            // the folder of all profiles is none; upstream lets the empty name through and the
            // kubelet fails the container
            None | Some("") => errors.push(FieldError::required(
                field.child("localhostProfile"),
                "must be set when seccomp type is Localhost",
            )),
            Some(path) => {
                errors.extend(paths::descending_path(path, &field.child("localhostProfile")));
            }
        },
        "" => errors.push(FieldError::required(
            field.child("type"),
            "type is required when seccompProfile is set",
        )),
        other => errors.push(FieldError::not_supported(
            field.child("type"),
            other,
            &["Localhost", "RuntimeDefault", "Unconfined"],
        )),
    }
    errors
}
