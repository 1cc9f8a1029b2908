//! What is for Windows: its options, which a pod that says it is for Linux cannot have. Checked
//! although no node runs Windows: what is wrong would be wrong elsewhere, too.

use k8s_openapi::api::core::v1::{
    Container, PodSecurityContext, PodSpec, WindowsSecurityContextOptions,
};
use rekindle_types::ephemeral::as_container;
use rekindle_types::validation::field_error::FieldError;

use crate::validation::{Path, invalid_each, items, names};

const CREDENTIAL_KIB_MAX: usize = 64;
/// A domain is shorter than this.
const DOMAIN_BYTES: usize = 256;
const USER_BYTES_MAX: usize = 104;

/// Checks the options of a pod or of a container.
pub(super) fn options(
    options: Option<&WindowsSecurityContextOptions>,
    field: &Path,
) -> Vec<FieldError> {
    let Some(options) = options else { return Vec::new() };
    let mut errors = Vec::new();
    if let Some(name) = &options.gmsa_credential_spec_name {
        let field = field.child("gmsaCredentialSpecName");
        errors.extend(invalid_each(&field, name, names::dns_subdomain(name)));
    }
    if let Some(credential) = &options.gmsa_credential_spec {
        let field = field.child("gmsaCredentialSpec");
        if credential.is_empty() {
            let detail = "gmsaCredentialSpec cannot be an empty string";
            errors.push(FieldError::invalid(field, credential, detail));
        } else if credential.len() > CREDENTIAL_KIB_MAX * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {CREDENTIAL_KIB_MAX} KiB");
            errors.push(FieldError::invalid(field, credential, detail));
        }
    }
    if let Some(name) = &options.run_as_user_name {
        let field = field.child("runAsUserName");
        let wrong = user_name(name);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(&field, name, why)));
    }
    errors
}

/// A user, maybe with a domain before it: `DOMAIN\user`.
fn user_name(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_owned()];
    }
    if name.chars().any(|letter| letter.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".to_owned()];
    }
    let parts: Vec<&str> = name.split('\\').collect();
    let (domain, user) = match parts[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return vec!["runAsUserName cannot contain more than one backslash".to_owned()],
    };
    let mut wrong = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= DOMAIN_BYTES {
            wrong.push(format!(
                "runAsUserName's Domain length must be under {DOMAIN_BYTES} characters"
            ));
        }
        if !is_net_bios(domain) && !domain.split('.').all(is_dns_label) {
            wrong.push(
                "runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned(),
            );
        }
    }
    if user.is_empty() {
        wrong.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > USER_BYTES_MAX {
        wrong.push(format!(
            "runAsUserName's User length must not be longer than {USER_BYTES_MAX} characters"
        ));
    }
    if !user.is_empty() && user.chars().all(|letter| matches!(letter, '.' | ' ')) {
        wrong.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user
        .contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']'])
    {
        wrong.push(
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"
                .to_owned(),
        );
    }
    wrong
}

fn is_net_bios(domain: &str) -> bool {
    let allowed =
        |letter: char| !matches!(letter, '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && domain.chars().all(allowed)
}

fn is_dns_label(label: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric();
    label.len() <= 63
        && label.starts_with(plain)
        && label.ends_with(plain)
        && label.chars().all(|letter| plain(letter) || letter == '-')
}

/// Checks what holds over all containers: either all are processes of the host, or none.
pub(super) fn host_processes(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let of_pod = spec.security_context.as_ref().and_then(|context| {
        context.windows_options.as_ref().and_then(|options| options.host_process)
    });
    let mut errors = Vec::new();
    let (mut all, mut of_host) = (0, 0);
    each_container(spec, field, |container, field| {
        all += 1;
        let of_container = options_of(container).and_then(|options| options.host_process);
        if let (Some(of_pod), Some(own)) = (of_pod, of_container)
            && of_pod != own
        {
            let field = field.child("securityContext").child("windowsOptions").child("hostProcess");
            let detail = format!(
                "pod hostProcess value must be identical if both are specified, was {of_pod}"
            );
            errors.push(FieldError::invalid(field, own, detail));
        }
        if of_container.or(of_pod) == Some(true) {
            of_host += 1;
        }
    });
    if of_host > 0 && of_host != all {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid(field, "", detail));
    }
    if of_host > 0 && spec.host_network != Some(true) {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(field.child("hostNetwork"), false, detail));
    }
    errors
}

/// Checks that a pod which is for Linux has no such options.
pub(super) fn none_for_linux(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut refuse = |holder: &Path| {
        let field = holder.child("securityContext").child("windowsOptions");
        errors.push(FieldError::forbidden(field, "windows options cannot be set for a linux pod"));
    };
    if spec.security_context.as_ref().is_some_and(|context| context.windows_options.is_some()) {
        refuse(field);
    }
    each_container(spec, field, |container, field| {
        if options_of(container).is_some() {
            refuse(field);
        }
    });
    errors
}

/// Checks that a pod which is for Windows has nothing of Linux, in upstream's order.
pub(super) fn none_of_linux(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut refuse = |field: Path, is_set: bool| {
        if is_set {
            errors.push(FieldError::forbidden(field, "cannot be set for a windows pod"));
        }
    };
    let none = PodSecurityContext::default();
    let context = spec.security_context.as_ref().unwrap_or(&none);
    let at = field.child("securityContext");
    refuse(at.child("appArmorProfile"), context.app_armor_profile.is_some());
    refuse(at.child("seLinuxOptions"), context.se_linux_options.is_some());
    refuse(field.child("hostUsers"), spec.host_users.is_some());
    refuse(field.child("hostPID"), spec.host_pid == Some(true));
    refuse(field.child("hostIPC"), spec.host_ipc == Some(true));
    refuse(at.child("seccompProfile"), context.seccomp_profile.is_some());
    refuse(at.child("fsGroup"), context.fs_group.is_some());
    refuse(at.child("fsGroupChangePolicy"), context.fs_group_change_policy.is_some());
    refuse(at.child("sysctls"), !items(context.sysctls.as_ref()).is_empty());
    refuse(field.child("shareProcessNamespace"), spec.share_process_namespace.is_some());
    refuse(at.child("runAsUser"), context.run_as_user.is_some());
    refuse(at.child("runAsGroup"), context.run_as_group.is_some());
    refuse(at.child("supplementalGroups"), context.supplemental_groups.is_some());
    refuse(at.child("supplementalGroupsPolicy"), context.supplemental_groups_policy.is_some());
    each_container(spec, field, |container, field| {
        let Some(context) = &container.security_context else { return };
        let at = field.child("securityContext");
        for (name, is_set) in [
            ("appArmorProfile", context.app_armor_profile.is_some()),
            ("seLinuxOptions", context.se_linux_options.is_some()),
            ("seccompProfile", context.seccomp_profile.is_some()),
            ("capabilities", context.capabilities.is_some()),
            ("readOnlyRootFilesystem", context.read_only_root_filesystem.is_some()),
            ("privileged", context.privileged.is_some()),
            ("allowPrivilegeEscalation", context.allow_privilege_escalation.is_some()),
            ("procMount", context.proc_mount.is_some()),
            ("runAsUser", context.run_as_user.is_some()),
            ("runAsGroup", context.run_as_group.is_some()),
        ] {
            refuse(at.child(name), is_set);
        }
    });
    errors
}

fn options_of(container: &Container) -> Option<&WindowsSecurityContextOptions> {
    container.security_context.as_ref().and_then(|context| context.windows_options.as_ref())
}

fn each_container(spec: &PodSpec, field: &Path, mut visit: impl FnMut(&Container, &Path)) {
    let lists = [
        ("initContainers", items(spec.init_containers.as_ref())),
        ("containers", spec.containers.as_slice()),
    ];
    for (name, containers) in lists {
        for (index, container) in containers.iter().enumerate() {
            visit(container, &field.child(name).index(index));
        }
    }
    let ephemeral = items(spec.ephemeral_containers.as_ref()).iter().enumerate();
    for (index, container) in ephemeral {
        visit(&as_container(container), &field.child("ephemeralContainers").index(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_may_have_a_domain_and_no_more() {
        let long_domain = format!("{}\\user", "a.".repeat(128));
        let cases: &[(&str, &[&str])] = &[
            ("ContainerAdministrator", &[]),
            ("NT AUTHORITY\\SYSTEM", &[]),
            ("corp.example.com\\web", &[]),
            ("", &["cannot be an empty string"]),
            ("a\tb", &["cannot contain control characters"]),
            ("a\\b\\c", &["cannot contain more than one backslash"]),
            ("\\user", &["Domain doesn't match the NetBios nor the DNS format"]),
            (".local\\user", &["Domain doesn't match the NetBios nor the DNS format"]),
            (
                "this-is-too-long_for\\user",
                &["Domain doesn't match the NetBios nor the DNS format"],
            ),
            (&long_domain, &["Domain length must be under 256", "Domain doesn't match"]),
            ("corp\\", &["User cannot be empty"]),
            (". .", &["User cannot contain only periods or spaces"]),
            ("a@b", &["User cannot contain the following characters"]),
        ];
        for (name, expected) in cases {
            let wrong = user_name(name);
            assert_eq!(wrong.len(), expected.len(), "{name:?}: {wrong:?}");
            for (wrong, expected) in wrong.iter().zip(*expected) {
                assert!(wrong.contains(expected), "{name:?}: {wrong}");
            }
        }
        assert_eq!(user_name(&"u".repeat(105)).len(), 1);
    }
}
