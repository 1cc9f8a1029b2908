//! The fields of a pod spec that are accepted and stored but not carried out by this version. Each
//! is answered with a Warning and listed in docs/compatibility.md. When a field becomes enforced,
//! its line goes.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, ContainerPort, LifecycleHandler, PodSecurityContext, PodSpec,
    SELinuxOptions, SecurityContext, WindowsSecurityContextOptions,
};

use rekindle_types::ephemeral;

use crate::validation::items;

/// One field that is not carried out.
#[derive(Clone, Copy, Debug)]
pub struct UnenforcedField {
    /// The field inside its holder: `livenessProbe`, `securityContext.sysctls`.
    pub field: &'static str,
    /// What holds it, and how to see that it is set.
    pub set: FieldLocation,
    /// What happens instead.
    pub note: &'static str,
}

/// Where a field stands, with the test whether it asks for something.
#[derive(Clone, Copy, Debug)]
pub enum FieldLocation {
    /// In the spec itself.
    Pod(fn(&PodSpec) -> bool),
    /// In a regular, init or ephemeral container.
    Container(fn(&Container) -> bool),
    /// In a regular or init container of a pod that has a network of its own.
    OwnNetwork(fn(&Container) -> bool),
}

impl UnenforcedField {
    /// The path as documentation shows it: `spec.containers[*].livenessProbe`.
    pub fn documented_path(&self) -> String {
        let field = self.field;
        match self.set {
            FieldLocation::Pod(_) => format!("spec.{field}"),
            FieldLocation::Container(_) | FieldLocation::OwnNetwork(_) => {
                format!("spec.containers[*].{field}")
            }
        }
    }

    /// The paths in a spec at which the field is set.
    fn found(&self, spec: &PodSpec, prefix: &str) -> Vec<String> {
        let field = self.field;
        match self.set {
            FieldLocation::Pod(is_set) => {
                is_set(spec).then(|| format!("{prefix}.{field}")).into_iter().collect()
            }
            FieldLocation::Container(is_set) => containers(spec, prefix)
                .filter(|(_, container)| is_set(container))
                .map(|(path, _)| format!("{path}.{field}"))
                .collect(),
            FieldLocation::OwnNetwork(_) if spec.host_network == Some(true) => Vec::new(),
            FieldLocation::OwnNetwork(is_set) => {
                UnenforcedField { set: FieldLocation::Container(is_set), ..*self }
                    .found(spec, prefix)
            }
        }
    }
}

fn containers<'a>(
    spec: &'a PodSpec,
    prefix: &'a str,
) -> impl Iterator<Item = (String, Cow<'a, Container>)> {
    let list = |name: &'static str, containers: &'a [Container]| {
        containers.iter().enumerate().map(move |(index, container)| {
            (format!("{prefix}.{name}[{index}]"), Cow::Borrowed(container))
        })
    };
    let ephemerals = items(spec.ephemeral_containers.as_ref()).iter().enumerate();
    let ephemerals = ephemerals.map(move |(index, container)| {
        let path = format!("{prefix}.ephemeralContainers[{index}]");
        (path, Cow::Owned(ephemeral::as_container(container)))
    });
    list("containers", &spec.containers)
        .chain(list("initContainers", items(spec.init_containers.as_ref())))
        .chain(ephemerals)
}

/// One warning for each line of the table that applies, so that their number is bounded whatever
/// the pod.
pub(crate) fn warnings(spec: &PodSpec, prefix: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for line in UNENFORCED {
        let found = line.found(spec, prefix);
        let Some(first) = found.first() else { continue };
        let others = match found.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        warnings.push(format!(
            "{first}{others}: accepted, but not enforced by this version of Rekindle: {}",
            line.note
        ));
    }
    warnings
}

const fn pod(
    field: &'static str,
    set: fn(&PodSpec) -> bool,
    note: &'static str,
) -> UnenforcedField {
    UnenforcedField { field, set: FieldLocation::Pod(set), note }
}

const fn container(
    field: &'static str,
    set: fn(&Container) -> bool,
    note: &'static str,
) -> UnenforcedField {
    UnenforcedField { field, set: FieldLocation::Container(set), note }
}

const fn own_network(
    field: &'static str,
    set: fn(&Container) -> bool,
    note: &'static str,
) -> UnenforcedField {
    UnenforcedField { field, set: FieldLocation::OwnNetwork(set), note }
}

/// The table.
pub const UNENFORCED: &[UnenforcedField] = &[
    pod(
        "evictionResponders",
        |s| !items(s.eviction_responders.as_ref()).is_empty(),
        "nobody asks them",
    ),
    pod(
        "resourceClaims",
        |s| !items(s.resource_claims.as_ref()).is_empty(),
        "no devices are given",
    ),
    pod(
        "schedulingGroup",
        |s| s.scheduling_group.as_ref().is_some_and(|group| is_text(group.pod_group_name.as_ref())),
        "each pod is scheduled by itself",
    ),
    pod(
        "securityContext.appArmorProfile",
        |s| context(s, |c| asks_for_app_armor(c.app_armor_profile.as_ref())),
        "no AppArmor profile is applied",
    ),
    pod(
        "securityContext.seLinuxChangePolicy",
        |s| context(s, |c| is_text(c.se_linux_change_policy.as_ref())),
        "no SELinux label is applied",
    ),
    pod(
        "securityContext.seLinuxOptions",
        |s| context(s, |c| asks_for_se_linux(c.se_linux_options.as_ref())),
        "no SELinux label is applied",
    ),
    pod(
        "os.name",
        |s| s.os.as_ref().is_some_and(|os| os.name == "windows"),
        "the nodes run Linux, and fail the pod with PodOSNotSupported, as a kubelet",
    ),
    pod(
        "securityContext.windowsOptions",
        |s| context(s, |c| asks_for_windows(c.windows_options.as_ref())),
        "the nodes run Linux",
    ),
    container(
        "lifecycle.postStart.tcpSocket",
        |c| c.lifecycle.as_ref().is_some_and(|l| connects(l.post_start.as_ref())),
        "the hook fails, as it does upstream",
    ),
    container(
        "lifecycle.preStop.tcpSocket",
        |c| c.lifecycle.as_ref().is_some_and(|l| connects(l.pre_stop.as_ref())),
        "the hook fails, as it does upstream",
    ),
    own_network(
        "ports[*].hostPort",
        |c| items(c.ports.as_ref()).iter().any(asks_for_ipv6_loopback),
        "no port of the node is opened at ::1",
    ),
    container(
        "resources.claims",
        |c| c.resources.as_ref().is_some_and(|r| !items(r.claims.as_ref()).is_empty()),
        "no devices are given",
    ),
    container(
        "resources.limits",
        limits_something_else,
        "limits of CPU, memory and ephemeral storage hold, others do not",
    ),
    container(
        "securityContext.appArmorProfile",
        |c| security(c, |s| asks_for_app_armor(s.app_armor_profile.as_ref())),
        "no AppArmor profile is applied",
    ),
    container(
        "securityContext.seLinuxOptions",
        |c| security(c, |s| asks_for_se_linux(s.se_linux_options.as_ref())),
        "no SELinux label is applied",
    ),
    container(
        "securityContext.windowsOptions",
        |c| security(c, |s| asks_for_windows(s.windows_options.as_ref())),
        "the nodes run Linux",
    ),
];

fn context(spec: &PodSpec, test: fn(&PodSecurityContext) -> bool) -> bool {
    spec.security_context.as_ref().is_some_and(test)
}

fn security(container: &Container, test: fn(&SecurityContext) -> bool) -> bool {
    container.security_context.as_ref().is_some_and(test)
}

fn asks_for_app_armor(profile: Option<&AppArmorProfile>) -> bool {
    profile.is_some_and(|profile| profile.type_ != "Unconfined")
}

/// A text that is empty says no more than one that is not there.
fn is_text(text: Option<&String>) -> bool {
    text.is_some_and(|text| !text.is_empty())
}

fn asks_for_se_linux(options: Option<&SELinuxOptions>) -> bool {
    options.is_some_and(|SELinuxOptions { level, role, type_, user }| {
        [level, role, type_, user].into_iter().any(|text| is_text(text.as_ref()))
    })
}

fn asks_for_windows(options: Option<&WindowsSecurityContextOptions>) -> bool {
    options.is_some_and(|options| {
        let WindowsSecurityContextOptions {
            gmsa_credential_spec,
            gmsa_credential_spec_name,
            host_process,
            run_as_user_name,
        } = options;
        let texts = [gmsa_credential_spec, gmsa_credential_spec_name, run_as_user_name];
        *host_process == Some(true) || texts.into_iter().any(|text| is_text(text.as_ref()))
    })
}

fn connects(hook: Option<&LifecycleHandler>) -> bool {
    hook.is_some_and(|hook| hook.tcp_socket.is_some())
}

fn asks_for_ipv6_loopback(port: &ContainerPort) -> bool {
    let address = port.host_ip.as_deref().and_then(|address| address.parse::<IpAddr>().ok());
    port.host_port.unwrap_or(0) != 0 && address.is_some_and(|it| it == Ipv6Addr::LOCALHOST)
}

fn limits_something_else(container: &Container) -> bool {
    let limits = container.resources.iter().flat_map(|resources| resources.limits.iter().flatten());
    let holds = |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage");
    limits.into_iter().any(|(name, _)| !holds(name))
}
