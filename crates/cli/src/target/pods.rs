//! The objects behind a target: the replica sets of a Deployment, the pods of a workload or of a node.

use anyhow::Context;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, ListParams};

/// Reads what a target stands for.
#[derive(Clone)]
pub struct Lookup {
    /// Through this.
    pub client: Client,
    /// Where namespaced targets are.
    pub namespace: String,
}

impl Lookup {
    /// One pod.
    pub async fn pod(&self, name: &str) -> anyhow::Result<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        pods.get(name).await.with_context(|| format!("read pod {name:?}"))
    }

    /// A Deployment and its replica sets.
    pub async fn deployment(&self, name: &str) -> anyhow::Result<(Deployment, Vec<ReplicaSet>)> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let deployment =
            api.get(name).await.with_context(|| format!("read deployment {name:?}"))?;
        let sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut sets = sets.list(&ListParams::default()).await.context("list replica sets")?.items;
        sets.retain(|set| is_owned(&set.metadata, &deployment.metadata));
        Ok((deployment, sets))
    }

    /// A ReplicaSet.
    pub async fn replica_set(&self, name: &str) -> anyhow::Result<ReplicaSet> {
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &self.namespace);
        api.get(name).await.with_context(|| format!("read replica set {name:?}"))
    }

    /// A DaemonSet and its pods.
    pub async fn daemon_set(&self, name: &str) -> anyhow::Result<(DaemonSet, Vec<Pod>)> {
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), &self.namespace);
        let set = api.get(name).await.with_context(|| format!("read daemon set {name:?}"))?;
        let mut pods = self.pods(&ListParams::default()).await?;
        pods.retain(|pod| is_owned(&pod.metadata, &set.metadata));
        Ok((set, pods))
    }

    /// A StatefulSet and its pods.
    pub async fn stateful_set(&self, name: &str) -> anyhow::Result<(StatefulSet, Vec<Pod>)> {
        let api: Api<StatefulSet> = Api::namespaced(self.client.clone(), &self.namespace);
        let set = api.get(name).await.with_context(|| format!("read stateful set {name:?}"))?;
        let mut pods = self.pods(&ListParams::default()).await?;
        pods.retain(|pod| is_owned(&pod.metadata, &set.metadata));
        Ok((set, pods))
    }

    /// The pods of these replica sets.
    pub async fn pods_of(&self, sets: &[ReplicaSet]) -> anyhow::Result<Vec<Pod>> {
        let mut pods = self.pods(&ListParams::default()).await?;
        pods.retain(|pod| sets.iter().any(|set| is_owned(&pod.metadata, &set.metadata)));
        Ok(pods)
    }

    /// The pods of the namespace that these parameters select.
    pub async fn pods(&self, params: &ListParams) -> anyhow::Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(api.list(params).await.context("list pods")?.items)
    }

    /// A node and the pods on it, of all namespaces.
    pub async fn node(&self, name: &str) -> anyhow::Result<(Node, Vec<Pod>)> {
        let api: Api<Node> = Api::all(self.client.clone());
        let node = api.get(name).await.with_context(|| format!("read node {name:?}"))?;
        let on_it = ListParams::default().fields(&format!("spec.nodeName={name}"));
        let pods: Api<Pod> = Api::all(self.client.clone());
        Ok((node, pods.list(&on_it).await.context("list the node's pods")?.items))
    }
}

fn is_owned(object: &ObjectMeta, owner: &ObjectMeta) -> bool {
    let mut owners = object.owner_references.iter().flatten();
    owners.any(|reference| Some(&reference.uid) == owner.uid.as_ref())
}
