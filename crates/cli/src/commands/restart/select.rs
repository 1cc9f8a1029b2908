//! The pods that a restart is about.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;

use crate::args::{Restart, RungArg};
use crate::target::{Lookup, Target};

/// Each pod once, in the order of the targets and of their names. Of a group, pods that have ended or are being deleted are
/// passed over and named; a pod that is a target by itself is left to the API's answer.
pub(super) async fn pods(args: &Restart, lookup: &Lookup) -> anyhow::Result<Vec<Pod>> {
    let targets: Vec<Target> =
        args.targets.iter().map(|text| Target::parse(text)).collect::<Result<_, _>>()?;
    let restartable = |pods: Vec<Pod>| of_group(args.rung, pods);
    let mut pods = Vec::new();
    if let Some(labels) = &args.selector {
        pods.extend(restartable(lookup.pods(&ListParams::default().labels(labels)).await?));
    }
    for target in targets {
        match target {
            Target::Pod(name) => pods.push(lookup.pod(&name).await?),
            Target::Deployment(name) => {
                let (_, sets) = lookup.deployment(&name).await?;
                pods.extend(restartable(lookup.pods_of(&sets).await?));
            }
            Target::ReplicaSet(name) => {
                let sets = [lookup.replica_set(&name).await?];
                pods.extend(restartable(lookup.pods_of(&sets).await?));
            }
            Target::DaemonSet(name) => {
                pods.extend(restartable(lookup.daemon_set(&name).await?.1));
            }
            Target::StatefulSet(name) => {
                pods.extend(restartable(lookup.stateful_set(&name).await?.1));
            }
            Target::Node(name) => pods.extend(restartable(lookup.node(&name).await?.1)),
        }
    }
    let mut seen = BTreeSet::new();
    pods.retain(|pod| seen.insert(pod.uid()));
    Ok(pods)
}

fn of_group(rung: RungArg, pods: Vec<Pod>) -> Vec<Pod> {
    let mut kept = Vec::new();
    for pod in pods {
        match passed_over(rung, &pod) {
            None => kept.push(pod),
            Some(why) => println!("pod/{}: passed over, {why}", pod.name_any()),
        }
    }
    kept.sort_by_key(|pod| (pod.namespace(), pod.name_any()));
    kept
}

/// Why a pod of a group is not restarted.
fn passed_over(rung: RungArg, pod: &Pod) -> Option<&'static str> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted");
    }
    let is_mirror =
        pod.annotations().contains_key("kubernetes.io/config.mirror") && makes_a_new_pod(rung);
    if is_mirror {
        return Some("it is a static pod: its node alone can replace it");
    }
    if rung == RungArg::Reschedule && controlled_by(pod, "DaemonSet") {
        return Some("it is of a DaemonSet and has no other node");
    }
    match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Succeeded" | "Failed") => Some("it has ended"),
        Some(_) | None => None,
    }
}

fn makes_a_new_pod(rung: RungArg) -> bool {
    match rung {
        RungArg::Container | RungArg::Containers | RungArg::Pod => false,
        RungArg::Recreate | RungArg::Reschedule | RungArg::Rollback => true,
    }
}

fn controlled_by(pod: &Pod, kind: &str) -> bool {
    pod.owner_references().iter().any(|owner| owner.controller == Some(true) && owner.kind == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_cannot_be_restarted_are_passed_over_and_the_rest_comes_in_order() {
        let pods = [
            json!({"metadata": {"name": "b", "namespace": "n"}}),
            json!({"metadata": {"name": "a", "namespace": "n"}, "status": {"phase": "Running"}}),
            json!({"metadata": {"name": "done"}, "status": {"phase": "Succeeded"}}),
            json!({"metadata": {"name": "going", "deletionTimestamp": "2026-11-21T12:00:00Z"}}),
        ];
        let pods = pods.map(|pod| serde_json::from_value(pod).unwrap()).to_vec();
        let pods = of_group(RungArg::Pod, pods);
        let names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn a_pod_that_only_its_node_can_replace_does_not_stop_the_others() {
        let mirror = json!({"metadata": {
            "name": "a", "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true}],
        }});
        let of_daemon_set = json!({"metadata": {
            "name": "b",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}],
        }});
        let other = json!({"metadata": {"name": "c"}});
        let pods = [mirror, of_daemon_set, other].map(|pod| serde_json::from_value(pod).unwrap());
        for (rung, expected) in [
            (RungArg::Pod, vec!["a", "b", "c"]),
            (RungArg::Recreate, vec!["b", "c"]),
            (RungArg::Reschedule, vec!["c"]),
        ] {
            let kept = of_group(rung, pods.to_vec());
            let names: Vec<String> = kept.iter().map(ResourceExt::name_any).collect();
            assert_eq!(names, expected, "{rung:?}");
        }
    }
}
