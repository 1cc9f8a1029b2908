//! Which pods a rollback is asked for: it concerns a Deployment as a whole, so that one pod of each
//! is enough.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use rekindle_types::owners::controller_of;
use rekindle_types::revisions::DEPLOYMENT_REVISION;

/// Of the pods of each Deployment one of the newest revision, which alone can be gone back from.
/// Others stay: the API says why they cannot be rolled back.
pub(super) async fn one_of_each(client: &Client, pods: Vec<Pod>) -> anyhow::Result<Vec<Pod>> {
    let namespaces: BTreeSet<String> = pods.iter().filter_map(ResourceExt::namespace).collect();
    let mut sets = Vec::new();
    for namespace in namespaces {
        let api: Api<ReplicaSet> = Api::namespaced(client.clone(), &namespace);
        let listed = api.list(&ListParams::default()).await;
        sets.extend(listed.context("list the revisions of Deployments")?.items);
    }
    Ok(newest_of_each(pods, &sets))
}

fn newest_of_each(pods: Vec<Pod>, sets: &[ReplicaSet]) -> Vec<Pod> {
    let of_deployment = |set: &ReplicaSet| {
        let deployment = controller_of(&set.metadata)?.uid.clone();
        let revision = set.annotations().get(DEPLOYMENT_REVISION)?.parse::<i64>().ok()?;
        Some((set.uid()?, (deployment, revision)))
    };
    let revisions: BTreeMap<String, (String, i64)> =
        sets.iter().filter_map(of_deployment).collect();
    let revision_of = |pod: &Pod| Some(revisions.get(&controller_of(&pod.metadata)?.uid)?.clone());
    let mut newest: BTreeMap<String, (i64, Option<String>)> = BTreeMap::new();
    for pod in &pods {
        let Some((deployment, revision)) = revision_of(pod) else { continue };
        let known = newest.entry(deployment).or_insert((revision, pod.uid()));
        if known.0 < revision {
            *known = (revision, pod.uid());
        }
    }
    let chosen = |pod: &Pod| match revision_of(pod) {
        Some((deployment, _)) => newest.get(&deployment).is_some_and(|(_, uid)| *uid == pod.uid()),
        None => true,
    };
    pods.into_iter().filter(chosen).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(uid: &str, deployment: &str, revision: &str) -> ReplicaSet {
        serde_json::from_value(json!({"metadata": {
            "uid": uid, "annotations": {DEPLOYMENT_REVISION: revision},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": deployment, "controller": true}],
        }}))
        .unwrap()
    }

    fn pod(name: &str, owner: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {
            "name": name, "uid": name,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "X", "name": "x", "uid": owner, "controller": true}],
        }}))
        .unwrap()
    }

    #[test]
    fn one_pod_of_the_newest_revision_stands_for_its_deployment() {
        let sets = [set("old", "web", "9"), set("new", "web", "10"), set("other", "api", "1")];
        let pods = vec![
            pod("a-old", "old"),
            pod("b-new", "new"),
            pod("c-new", "new"),
            pod("d", "other"),
            pod("e", "other"),
            pod("f", "stateful-set"),
        ];
        let kept = newest_of_each(pods, &sets);
        let names: Vec<String> = kept.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["b-new", "d", "f"]);
    }
}
