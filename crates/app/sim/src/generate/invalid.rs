//! What users ask for that the API refuses, and for which nothing else may change.

use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use serde_json::{Value, json};

use super::CampaignGenerator;
use crate::faults::{InvalidPatch, WorldEvent};

/// What is asked for: of which kind and name, what its spec is to be, and the field that is wrong
/// with that.
type Case = (ResourceKind, &'static str, Value, &'static str);

impl CampaignGenerator {
    /// One of these.
    pub(super) fn invalid(&mut self) -> WorldEvent {
        let mut cases = cases();
        let case = cases.swap_remove(self.index(cases.len()));
        WorldEvent::Invalid(Box::new(asked(case)))
    }
}

fn asked((kind, name, spec, field): Case) -> InvalidPatch {
    let id = ObjectId::new(kind, NamespacedName::new("default", name));
    let whole = whole(kind, name, &spec);
    InvalidPatch { id, patch: json!({"spec": spec}), field: field.to_owned(), whole }
}

/// Most are of objects that a campaign has, or may have.
fn cases() -> Vec<Case> {
    let of_workloads = [
        (ResourceKind::Deployment, "web-0", json!({"replicas": -1}), "spec.replicas"),
        (
            ResourceKind::Deployment,
            "web-0",
            json!({"selector": {"matchLabels": {"app": "other"}}}),
            "spec.selector",
        ),
        (
            ResourceKind::Deployment,
            "web-0",
            json!({"strategy": {"type": "Sideways"}}),
            "spec.strategy",
        ),
        (ResourceKind::Deployment, "web-0", json!({"replicas": "many"}), "spec.replicas"),
        (ResourceKind::StatefulSet, "db", json!({"serviceName": "other"}), "spec"),
        (
            ResourceKind::DaemonSet,
            "agent",
            json!({"template": {"spec": {"containers": []}}}),
            "spec.template.spec.containers",
        ),
        (ResourceKind::Job, "once", json!({"completionMode": "Sideways"}), "spec.completionMode"),
        (ResourceKind::CronJob, "tick", json!({"schedule": "often"}), "spec.schedule"),
        (ResourceKind::Pod, "solo-0", json!({"hostname": "No Name"}), "spec"),
        (
            ResourceKind::PodDisruptionBudget,
            "web-0",
            json!({"minAvailable": 1, "maxUnavailable": 1}),
            "spec",
        ),
        (ResourceKind::Service, "web-0", json!({"ports": [{"port": 0}]}), "spec.ports[0].port"),
    ];
    let of_ladders = [
        (json!({"window": "soon"}), "spec.window"),
        (json!({"rungs": []}), "spec.rungs"),
        (json!({"rungs": [{"rung": "Container", "attempts": 0}]}), "spec.rungs[0].attempts"),
        (json!({"rungs": [{"rung": "Pod"}, {"rung": "Container"}]}), "spec.rungs[1].rung"),
        (json!({"budget": {"maxConcurrent": 0}}), "spec.budget.maxConcurrent"),
    ];
    let of_ladders = of_ladders
        .into_iter()
        .flat_map(|(spec, field)| ["web-0", "db"].map(|name| (name, spec.clone(), field)))
        .map(|(name, spec, field)| (ResourceKind::RestartLadder, name, spec, field));
    // there is none of this name
    let of_restarts =
        [(ResourceKind::PodRestart, "sideways", json!({"rung": "Sideways"}), "spec.rung")];
    of_workloads.into_iter().chain(of_ladders).chain(of_restarts).collect()
}

/// An object of that name whose spec says the same and is invalid for that. What only a change is
/// refused for has another fault.
fn whole(kind: ResourceKind, name: &str, wrong: &Value) -> Value {
    let labels = json!({"app": name});
    let selector = json!({"matchLabels": labels});
    let of_pods = |policy: &str| {
        let containers = json!([{"name": "app", "image": "app:1"}]);
        json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": policy, "containers": containers}})
    };
    let mut spec = match kind {
        ResourceKind::StatefulSet => {
            json!({"selector": selector, "template": of_pods("Always"), "replicas": -1})
        }
        ResourceKind::Job => json!({"template": of_pods("Never")}),
        ResourceKind::CronJob => json!({"jobTemplate": {"spec": {"template": of_pods("Never")}}}),
        ResourceKind::Pod => of_pods("Always")["spec"].clone(),
        ResourceKind::PodDisruptionBudget => json!({"selector": selector}),
        ResourceKind::Service => json!({"selector": labels}),
        ResourceKind::RestartLadder => {
            json!({"selector": selector, "rungs": [{"rung": "Container"}]})
        }
        ResourceKind::PodRestart => json!({"podName": "solo-0", "reason": "by hand"}),
        _ => json!({"selector": selector, "template": of_pods("Always")}),
    };
    for (field, value) in wrong.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({
        "apiVersion": kind.api_version(), "kind": kind.info().kind, "metadata": {"name": name}, "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use rekindle_pod::PodConfig;
    use rekindle_types::TickDuration;

    use super::*;
    use crate::world::World;

    /// Asked for where there is no such object, and where there is one.
    #[test]
    fn all_of_it_is_refused_and_changes_nothing() {
        for case in cases() {
            let (kind, name, ..) = case;
            let invalid = asked(case);
            let mut world = World::new(1, 1, Vec::new(), PodConfig::default()).unwrap();
            world.ask_for_what_is_invalid(&invalid);
            assert_eq!(world.broken_promise(), None, "there is none: {invalid:?}");
            if kind != ResourceKind::PodRestart {
                world.apply(&valid(kind, name)).unwrap();
                world.run_until(TickDuration::from_secs(5)).unwrap();
                world.ask_for_what_is_invalid(&invalid);
                assert_eq!(world.broken_promise(), None, "there is one: {invalid:?}");
            }
        }
    }

    fn valid(kind: ResourceKind, name: &str) -> Value {
        let right = match kind {
            ResourceKind::StatefulSet => json!({"replicas": 1, "serviceName": "db"}),
            ResourceKind::CronJob => json!({"schedule": "0 0 1 1 *"}),
            ResourceKind::Service => json!({"ports": [{"port": 80}]}),
            ResourceKind::PodDisruptionBudget => json!({"minAvailable": 1}),
            _ => json!({}),
        };
        whole(kind, name, &right)
    }
}
