//! The one container that a PodRestart may name.

use super::{PodRestartSpec, Rung};
use crate::pods::{AnyContainer, AnySpec};
use crate::validation::{FieldError, Path, invalid_each, names};

/// Only the rung Container restarts one container by itself; it is named as containers are. An
/// empty name is none, and not all of them: whoever left it out by mistake would end what was to go
/// on.
pub fn named_container_faults(rung: Rung, name: Option<&String>, field: &Path) -> Vec<FieldError> {
    let Some(name) = name else { return Vec::new() };
    let mut errors = Vec::new();
    if rung != Rung::Container {
        errors.push(FieldError::forbidden(field, "may only be set on the rung Container"));
    }
    errors.extend(invalid_each(field, name, names::dns_label(name)));
    errors
}

/// Why a container of this name cannot be restarted by itself in `pod`; none when it is a container
/// or a sidecar of it.
pub fn not_restartable(spec: &impl AnySpec, pod: &str, name: &str) -> Option<String> {
    let inits = spec.init_containers();
    if spec.containers().iter().any(|container| container.name() == name) {
        return None;
    }
    if let Some(init) = inits.iter().find(|init| init.name() == name) {
        return (!init.is_sidecar()).then(|| {
            format!(
                "container {name} of pod {pod} is an init container, which runs once and before the others: the rungs Containers and Pod \
                 run it again"
            )
        });
    }
    if spec.has_ephemeral(name) {
        return Some(format!(
            "container {name} of pod {pod} is an ephemeral container, which is never started again"
        ));
    }
    let known: Vec<&str> = spec.lasting().map(AnyContainer::name).collect();
    Some(format!("pod {pod} has no container {name}: it has {}", known.join(", ")))
}

/// Why a container of this name that has run to its end cannot be restarted by itself in `pod`.
pub fn has_run_to_its_end(pod: &str, name: &str) -> String {
    format!(
        "container {name} of pod {pod} has run to its end: the rungs Containers and Pod run it again"
    )
}

impl PodRestartSpec {
    /// Whether it restarts this container of its pod, as far as it names one.
    pub fn concerns(&self, container: &str) -> bool {
        self.container_name.as_ref().is_none_or(|name| name == container)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_or_a_sidecar_can_be_restarted_by_itself_and_nothing_else() {
        let spec: PodSpec = serde_json::from_value(json!({
            "containers": [{"name": "app"}, {"name": "metrics"}],
            "initContainers": [{"name": "migrate"}, {"name": "proxy", "restartPolicy": "Always"}],
            "ephemeralContainers": [{"name": "debugger"}],
        }))
        .unwrap();
        for (name, says) in [
            ("app", None),
            ("metrics", None),
            ("proxy", None),
            ("migrate", Some("container migrate of pod shop/web is an init container")),
            ("debugger", Some("container debugger of pod shop/web is an ephemeral container")),
            ("ap", Some("pod shop/web has no container ap: it has app, metrics, proxy")),
        ] {
            let told = not_restartable(&spec, "shop/web", name);
            match (&told, says) {
                (None, None) => {}
                (Some(told), Some(says)) => assert!(told.starts_with(says), "{name}: {told}"),
                (Some(_), None) | (None, Some(_)) => panic!("{name}: {told:?}"),
            }
        }
    }
}
