//! A node's pods go elsewhere, as disruption budgets allow: what `kubectl drain` does.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, EvictParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher::{self};
use kube::{Client, ResourceExt};
use rekindle_object_watch::watcher;
use rekindle_types::owners::{controller_of, is_controlled_by};
use rekindle_types::pod_annotations::{SAFE_TO_EVICT, is_mirror};
use rekindle_types::pods::is_finished;
use serde_json::json;

/// After a budget has said no; also when no pod's end is seen in between.
const AGAIN: Duration = Duration::from_secs(1);

/// What becomes of pods that nobody makes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmanagedPodPolicy {
    /// Nothing is done while there are any.
    Refuse,
    /// Nothing is done while there are any but those that are annotated as safe to evict, which go,
    /// too.
    AsAnnotated,
    /// They go, too.
    Delete,
}

impl UnmanagedPodPolicy {
    /// True for a pod that nothing is done for the sake of.
    fn keeps(self, pod: &Pod) -> bool {
        match self {
            Self::Refuse => is_lost(pod),
            Self::AsAnnotated => {
                let is_safe =
                    pod.annotations().get(SAFE_TO_EVICT).is_some_and(|said| said == "true");
                is_lost(pod) && !is_safe
            }
            Self::Delete => false,
        }
    }

    /// What a user can do who is refused. Nobody reads of a flag where no user has asked.
    const fn advice(self) -> &'static str {
        match self {
            Self::Refuse => " (give --force to delete them)",
            Self::AsAnnotated | Self::Delete => "",
        }
    }
}

/// What became of a node that was to take no pods any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CordonResult {
    /// It takes none.
    Done,
    /// It never registered, or is gone already: so are its pods.
    NoNode,
}

/// Has the node take no more pods.
pub async fn cordon(client: &Client, node: &str) -> anyhow::Result<CordonResult> {
    let cordon = json!({ "spec": { "unschedulable": true } });
    let nodes = Api::<Node>::all(client.clone());
    match nodes.patch(node, &PatchParams::default(), &Patch::Merge(cordon)).await {
        Ok(_) => Ok(CordonResult::Done),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(CordonResult::NoNode),
        Err(error) => Err(error.into()),
    }
}

/// Cordons the node and evicts its pods until none is left that could run elsewhere; `tell` hears
/// how it goes.
pub async fn drain(
    client: &Client,
    node: &str,
    unmanaged: UnmanagedPodPolicy,
    tell: impl Fn(String),
) -> anyhow::Result<()> {
    match cordon(client, node).await.context("cordon it")? {
        CordonResult::Done => {}
        CordonResult::NoNode => return Ok(()),
    }
    let on_it = format!("spec.nodeName={node}");
    let mut seen =
        watcher(Api::<Pod>::all(client.clone()), watcher::Config::default().fields(&on_it)).boxed();
    let mut told = BTreeSet::new();
    let (all, those) = (Api::<Pod>::all(client.clone()), ListParams::default().fields(&on_it));
    loop {
        let pods = all.list(&those).await.context("list its pods")?.items;
        let movable: Vec<&Pod> = pods.iter().filter(|pod| !belongs_to_node(pod)).collect();
        let lost: Vec<String> =
            movable.iter().filter(|pod| unmanaged.keeps(pod)).map(|pod| full_name(pod)).collect();
        if !lost.is_empty() {
            bail!("nobody makes these pods again: {}{}", lost.join(", "), unmanaged.advice());
        }
        if movable.is_empty() {
            return Ok(());
        }
        for pod in movable.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            evict(client, pod, &mut told, &tell).await?;
        }
        // woken by whatever happens to one of them
        let _ = tokio::time::timeout(AGAIN, seen.next()).await;
    }
}

/// Whether none is left of the node's pods that could run elsewhere but those that are to end.
pub async fn all_are_going(client: &Client, node: &str) -> anyhow::Result<bool> {
    let those = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = Api::<Pod>::all(client.clone()).list(&those).await.context("list its pods")?;
    let is_going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some() || is_finished(pod);
    Ok(pods.iter().all(|pod| belongs_to_node(pod) || is_going(pod)))
}

async fn evict(
    client: &Client,
    pod: &Pod,
    told: &mut BTreeSet<String>,
    tell: &impl Fn(String),
) -> anyhow::Result<()> {
    let api =
        Api::<Pod>::namespaced(client.clone(), pod.metadata.namespace.as_deref().unwrap_or(""));
    match api.evict(&pod.name_any(), &EvictParams::default()).await {
        Ok(_) => {
            tell(format!("evicting pod {}", full_name(pod)));
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 429 => {
            if told.insert(full_name(pod)) {
                tell(format!("waiting with pod {}: {}", full_name(pod), status.message));
            }
            Ok(())
        }
        Err(error) => Err(error).with_context(|| format!("evict pod {}", full_name(pod))),
    }
}

fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace.as_deref().unwrap_or(""), pod.name_any())
}

/// Pods of a DaemonSet and those of the node's own files run nowhere else.
fn belongs_to_node(pod: &Pod) -> bool {
    is_mirror(pod) || is_controlled_by(&pod.metadata, "DaemonSet")
}

/// True for a pod that runs and is made again by nobody.
fn is_lost(pod: &Pod) -> bool {
    !is_finished(pod) && controller_of(&pod.metadata).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_nobody_makes_again_goes_where_it_is_annotated_as_safe_to_evict() {
        let naked = Pod::default();
        let mut safe = Pod::default();
        safe.metadata.annotations = Some([(SAFE_TO_EVICT.to_owned(), "true".to_owned())].into());
        let mut kept = Pod::default();
        kept.metadata.annotations = Some([(SAFE_TO_EVICT.to_owned(), "false".to_owned())].into());
        for (unmanaged, keeps) in [
            (UnmanagedPodPolicy::Refuse, [true, true, true]),
            (UnmanagedPodPolicy::AsAnnotated, [true, false, true]),
            (UnmanagedPodPolicy::Delete, [false, false, false]),
        ] {
            let all = [&naked, &safe, &kept].map(|pod| unmanaged.keeps(pod));
            assert_eq!(all, keeps, "{unmanaged:?}");
        }
    }
}
