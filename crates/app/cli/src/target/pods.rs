//! The objects behind a target: what a workload made, and the pods of a workload or of a node.

use anyhow::Context;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Node, Pod, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;

use super::{CommandTarget, TargetKind};

/// Reads what a target stands for.
#[derive(Clone)]
pub struct Lookup {
    /// Through this.
    pub client: Client,
    /// Where namespaced targets are.
    pub namespace: String,
}

impl Lookup {
    /// An object as lines name it: with its namespace when that is not the command's, as on a node.
    pub fn name_of(&self, object: &impl ResourceExt) -> String {
        let name = object.name_any();
        match object.namespace() {
            Some(namespace) if namespace != self.namespace => format!("{namespace}/{name}"),
            Some(_) | None => name,
        }
    }

    /// One object of the namespace.
    pub async fn object<K>(&self, kind: TargetKind, name: &str) -> anyhow::Result<K>
    where
        K: NamespacedKind,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let asking = || format!("read {} {name:?} of namespace {:?}", kind.name(), self.namespace);
        api.get(name).await.with_context(asking)
    }

    /// The objects of a kind that this one owns.
    pub async fn owned<K>(&self, owner: &ObjectMeta) -> anyhow::Result<Vec<K>>
    where
        K: NamespacedKind,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let listed = api.list(&ListParams::default()).await;
        let mut objects = listed.with_context(|| format!("list what is a {}", K::KIND))?.items;
        objects.retain(|object| is_owned(object.meta(), owner));
        Ok(objects)
    }

    /// A Deployment's replica sets.
    pub async fn replica_sets_of(&self, of: &Deployment) -> anyhow::Result<Vec<ReplicaSet>> {
        self.owned(&of.metadata).await
    }

    /// A CronJob's Jobs.
    pub async fn jobs_of(&self, of: &CronJob) -> anyhow::Result<Vec<Job>> {
        self.owned(&of.metadata).await
    }

    /// The pods that one of these objects owns.
    pub async fn pods_of<'a>(
        &self,
        owners: impl IntoIterator<Item = &'a ObjectMeta>,
    ) -> anyhow::Result<Vec<Pod>> {
        let owners: Vec<&ObjectMeta> = owners.into_iter().collect();
        let mut pods = self.pods(&ListParams::default()).await?;
        pods.retain(|pod| owners.iter().any(|owner| is_owned(&pod.metadata, owner)));
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

    /// The pods behind a target, itself if it is one.
    pub async fn pods_behind(&self, target: &CommandTarget) -> anyhow::Result<Vec<Pod>> {
        let CommandTarget { kind, name } = target;
        let kind = *kind;
        let owner = match kind {
            TargetKind::Pod => return Ok(vec![self.object(kind, name).await?]),
            TargetKind::Node => return Ok(self.node(name).await?.1),
            TargetKind::Deployment => {
                let sets = self.replica_sets_of(&self.object(kind, name).await?).await?;
                return self.pods_of(sets.iter().map(|set| &set.metadata)).await;
            }
            TargetKind::CronJob => {
                let jobs = self.jobs_of(&self.object(kind, name).await?).await?;
                return self.pods_of(jobs.iter().map(|job| &job.metadata)).await;
            }
            TargetKind::DaemonSet => self.object::<DaemonSet>(kind, name).await?.metadata,
            TargetKind::Job => self.object::<Job>(kind, name).await?.metadata,
            TargetKind::ReplicaSet => self.object::<ReplicaSet>(kind, name).await?.metadata,
            TargetKind::ReplicationController => {
                self.object::<ReplicationController>(kind, name).await?.metadata
            }
            TargetKind::StatefulSet => self.object::<StatefulSet>(kind, name).await?.metadata,
        };
        self.pods_of([&owner]).await
    }

    /// The objects of a kind that these parameters select, in the order of their names.
    pub async fn targets(
        &self,
        kind: TargetKind,
        params: &ListParams,
    ) -> anyhow::Result<Vec<CommandTarget>> {
        let mut names = match kind {
            TargetKind::CronJob => self.names::<CronJob>(params).await,
            TargetKind::DaemonSet => self.names::<DaemonSet>(params).await,
            TargetKind::Deployment => self.names::<Deployment>(params).await,
            TargetKind::Job => self.names::<Job>(params).await,
            TargetKind::Node => {
                let nodes: Api<Node> = Api::all(self.client.clone());
                nodes.list_metadata(params).await.map(|list| named(&list.items))
            }
            TargetKind::Pod => self.names::<Pod>(params).await,
            TargetKind::ReplicaSet => self.names::<ReplicaSet>(params).await,
            TargetKind::ReplicationController => self.names::<ReplicationController>(params).await,
            TargetKind::StatefulSet => self.names::<StatefulSet>(params).await,
        }
        .with_context(|| format!("list what is a {}", kind.name()))?;
        names.sort();
        Ok(names.into_iter().map(|name| CommandTarget { kind, name }).collect())
    }

    async fn names<K: NamespacedKind>(&self, params: &ListParams) -> kube::Result<Vec<String>> {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(named(&api.list_metadata(params).await?.items))
    }
}

fn named(objects: &[impl ResourceExt]) -> Vec<String> {
    objects.iter().map(ResourceExt::name_any).collect()
}

/// A kind of object that lives in namespaces.
pub trait NamespacedKind:
    kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + k8s_openapi::Resource
    + Clone
    + std::fmt::Debug
    + DeserializeOwned
{
}

impl<K> NamespacedKind for K where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + k8s_openapi::Resource
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
{
}

fn is_owned(object: &ObjectMeta, owner: &ObjectMeta) -> bool {
    let mut owners = object.owner_references.iter().flatten();
    owners.any(|reference| Some(&reference.uid) == owner.uid.as_ref())
}
