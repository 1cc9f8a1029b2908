//! Settings that are carried out and still are probably a mistake: the warnings of upstream's
//! `pkg/api/pod/warnings`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};
use rekindle_types::sysctls::{self, SysctlNamespace};

use crate::kinds::runtime_class::HANDLER;
use crate::kinds::volume_sources::pod_volume;
use crate::validation::{ListKeys, Path, items, quantities, text};

/// The most advice of one kind, so that a long manifest does not drown its own answer.
const SHOWN_MAX: usize = 8;

/// What a user should look at again.
pub(crate) fn warnings(spec: &PodSpec, prefix: &str) -> Vec<String> {
    let field = Path::new(prefix);
    let mut warnings = warnings_about_lists(spec, &field);
    warnings.extend(hidden_files(spec, &field));
    for (index, volume) in items(spec.volumes.as_ref()).iter().enumerate() {
        warnings.extend(pod_volume::warnings(volume, &field.child("volumes").index(index)));
    }
    if spec.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0) {
        let field = field.child("terminationGracePeriodSeconds");
        let problem = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{field}: {problem}"));
    }
    warnings.extend(unsafe_sysctls(spec, &field));
    warnings.extend(runtime_class(spec, &field));
    let lists = [
        ("containers", spec.containers.as_slice()),
        ("initContainers", items(spec.init_containers.as_ref())),
    ];
    for (name, containers) in lists {
        for (index, container) in containers.iter().enumerate() {
            let field = field.child(name).index(index);
            warnings.extend(hidden_variables(container, &field));
            warnings.extend(duplicate_ports(container, &field));
            warnings.extend(fractional_bytes(container, &field));
        }
    }
    warnings.truncate(SHOWN_MAX);
    warnings
}

fn warnings_about_lists(spec: &PodSpec, field: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let constraints = items(spec.topology_spread_constraints.as_ref()).iter().enumerate();
    for (index, _) in constraints.filter(|(_, constraint)| constraint.label_selector.is_none()) {
        let field = field.child("topologySpreadConstraints").index(index).child("labelSelector");
        warnings.push(format!("{field}: a null labelSelector results in matching no pod"));
    }
    let aliases = items(spec.host_aliases.as_ref());
    let mut taken: ListKeys<&str> = ListKeys::new();
    for (index, alias) in aliases.iter().enumerate() {
        if taken.add(&alias.ip).is_some() {
            let field = field.child("hostAliases").index(index).child("ip");
            warnings.push(format!("{field}: duplicate ip {:?}", alias.ip));
        }
    }
    let secrets = items(spec.image_pull_secrets.as_ref());
    let mut taken: ListKeys<&str> = ListKeys::new();
    for (index, secret) in secrets.iter().enumerate() {
        let field = field.child("imagePullSecrets").index(index).child("name");
        let is_again = taken.add(&secret.name).is_some();
        if secret.name.is_empty() {
            warnings.push(format!("{field}: invalid empty name \"\""));
        } else if is_again {
            warnings.push(format!("{field}: duplicate name {:?}", secret.name));
        }
    }
    warnings
}

/// What a node refuses unless it is told not to; a controller would make such pods again and again.
fn unsafe_sysctls(spec: &PodSpec, field: &Path) -> Option<String> {
    let given = spec.security_context.as_ref()?.sysctls.as_ref()?;
    let names: BTreeSet<String> = given.iter().map(|s| sysctls::with_dots(&s.name)).collect();
    let is_unsafe =
        |name: &&str| !sysctls::is_safe(name) && sysctls::home(name) != SysctlNamespace::Machine;
    let unsafe_ones: Vec<&str> = names.iter().map(String::as_str).filter(is_unsafe).collect();
    let field = field.child("securityContext").child("sysctls");
    let more = if unsafe_ones.len() > SHOWN_MAX { ", ..." } else { "" };
    let shown: Vec<&str> = unsafe_ones.iter().take(SHOWN_MAX).copied().collect();
    let list = format!("{}{more}", shown.join(", "));
    (!unsafe_ones.is_empty()).then(|| {
        format!("{field}: nodes refuse the pod unless they allow {list} (rekindle up --allowed-unsafe-sysctls)")
    })
}

/// Of a class with another handler no pod is bound to a node.
fn runtime_class(spec: &PodSpec, field: &Path) -> Option<String> {
    let class = spec.runtime_class_name.as_ref()?;
    let field = field.child("runtimeClassName");
    Some(format!(
        "{field}: pods run only where the RuntimeClass {class:?} has the handler {HANDLER:?}, the embedded runtime"
    ))
}

/// A file that has the path of a token: one hides the other.
fn hidden_files(spec: &PodSpec, field: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, volume) in items(spec.volumes.as_ref()).iter().enumerate() {
        let Some(projected) = &volume.projected else { continue };
        let sources = items(projected.sources.as_ref());
        let tokens = sources.iter().filter_map(|s| s.service_account_token.as_ref());
        let tokens: ListKeys<&str> = tokens.map(|token| token.path.as_str()).collect();
        for (position, source) in sources.iter().enumerate() {
            let config_map = source.config_map.iter().flat_map(|map| map.items.iter().flatten());
            let secret = source.secret.iter().flat_map(|secret| secret.items.iter().flatten());
            let files = source.downward_api.iter().flat_map(|api| api.items.iter().flatten());
            let paths = config_map.chain(secret).map(|key| &key.path);
            for path in
                paths.chain(files.map(|file| &file.path)).filter(|path| tokens.has(path.as_str()))
            {
                let field = field.child("volumes").index(index).child("projected");
                let field = field.child("sources").index(position);
                let why = "has duplicated path with ServiceAccountToken";
                warnings.push(format!("{field}: {why} {path:?}"));
            }
        }
    }
    warnings
}

/// The last of several variables with one name counts; apply may lose the others.
fn hidden_variables<'a>(container: &'a Container, field: &Path) -> Vec<String> {
    let variables = items(container.env.as_ref());
    let mut taken: ListKeys<&str> = ListKeys::new();
    let hides = |variable: &'a EnvVar| {
        let (name, value) = (variable.name.as_str(), text(variable.value.as_ref()));
        // A variable that extends its predecessor is meant so.
        taken.add(name).is_some() && !value.contains(&format!("$({name})"))
    };
    let hiding = variables.iter().map(hides).enumerate().filter(|(_, hides)| *hides);
    hiding
        .map(|(index, _)| {
            let field = field.child("env").index(index);
            let name = &variables[index].name;
            format!("{field}: hides previous definition of {name:?}, which may be dropped when using apply")
        })
        .collect()
}

fn duplicate_ports(container: &Container, field: &Path) -> Vec<String> {
    let ports = items(container.ports.as_ref());
    let mut taken = ListKeys::new();
    let firsts = ports
        .iter()
        .map(|port| taken.add((port.container_port, port.protocol.as_deref(), port.host_port)));
    firsts
        .enumerate()
        .filter_map(|(second, first)| Some((first?, second)))
        .map(|(first, second)| {
            let (first, second) =
                (field.child("ports").index(first), field.child("ports").index(second));
            format!("{second}: duplicate port definition with {first}")
        })
        .collect()
}

/// `100m` of memory is a tenth of a byte; `100Mi` was meant.
fn fractional_bytes(container: &Container, field: &Path) -> Vec<String> {
    let Some(resources) = &container.resources else { return Vec::new() };
    let lists = [("limits", &resources.limits), ("requests", &resources.requests)];
    let mut warnings = Vec::new();
    for (name, list) in lists {
        for resource in ["memory", "ephemeral-storage"] {
            let Some(amount) = list.as_ref().and_then(|list| list.get(resource)) else { continue };
            if quantities::read(amount).is_ok_and(|read| !read.is_whole()) {
                let field = field.child("resources").child(name).key(resource);
                let shown = &amount.0;
                warnings.push(format!(
                    "{field}: fractional byte value {shown:?} is invalid, must be an integer"
                ));
            }
        }
    }
    warnings
}
