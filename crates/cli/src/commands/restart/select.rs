//! The pods that a restart is about.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;

use crate::args::Restart;
use crate::target::{Lookup, Target};

/// Each pod once, in the order of the targets and of their names. Of a group, pods that have ended or are being deleted are
/// passed over and named; a pod that is a target by itself is left to the API's answer.
pub(super) async fn pods(args: &Restart, lookup: &Lookup) -> anyhow::Result<Vec<Pod>> {
    let targets: Vec<Target> =
        args.targets.iter().map(|text| Target::parse(text)).collect::<Result<_, _>>()?;
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

fn restartable(pods: Vec<Pod>) -> Vec<Pod> {
    let mut kept = Vec::new();
    for pod in pods {
        match passed_over(&pod) {
            None => kept.push(pod),
            Some(why) => println!("pod/{}: passed over, {why}", pod.name_any()),
        }
    }
    kept.sort_by_key(|pod| (pod.namespace(), pod.name_any()));
    kept
}

/// Why a pod of a group is not restarted.
fn passed_over(pod: &Pod) -> Option<&'static str> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted");
    }
    match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Succeeded" | "Failed") => Some("it has ended"),
        Some(_) | None => None,
    }
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
        let names: Vec<String> = restartable(pods).iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
