//! Settings that are carried out and still are probably a mistake: the warnings of upstream's `pkg/api/pod/warnings`.

use k8s_openapi::api::core::v1::{Container, PodSpec};

use crate::validation::{Path, items, quantities, text};

/// The most advice of one kind, so that a long manifest does not drown its own answer.
const SHOWN_MAX: usize = 8;

/// What a user should look at again.
pub(crate) fn warnings(spec: &PodSpec, prefix: &str) -> Vec<String> {
    let field = Path::new(prefix);
    let mut warnings = Vec::new();
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

/// The last of several variables with one name counts; apply may lose the others.
fn hidden_variables(container: &Container, field: &Path) -> Vec<String> {
    let variables = items(container.env.as_ref());
    let hides = |index: usize| {
        let (name, value) = (&variables[index].name, text(variables[index].value.as_ref()));
        // A variable that extends its predecessor is meant so.
        variables[..index].iter().any(|other| other.name == *name)
            && !value.contains(&format!("$({name})"))
    };
    (0..variables.len())
        .filter(|index| hides(*index))
        .map(|index| {
            let field = field.child("env").index(index);
            let name = &variables[index].name;
            format!("{field}: hides previous definition of {name:?}, which may be dropped when using apply")
        })
        .collect()
}

fn duplicate_ports(container: &Container, field: &Path) -> Vec<String> {
    let ports = items(container.ports.as_ref());
    let same = |a: usize, b: usize| {
        ports[a].container_port == ports[b].container_port
            && ports[a].protocol == ports[b].protocol
            && ports[a].host_port == ports[b].host_port
    };
    let twin =
        |index: usize| (0..index).find(|first| same(*first, index)).map(|first| (first, index));
    (0..ports.len())
        .filter_map(twin)
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
