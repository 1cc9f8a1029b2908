//! What an earlier agent left: pods that the API has forgotten meanwhile, sandboxes and folders of
//! pods that nobody knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client};
use rekindle_runtime::{Runtime, SandboxSnapshot};
use rekindle_types::{PodRef, PodUid};

use crate::context::NodeContext;
use crate::durable::read_object;
use crate::layout::PodDirs;
use crate::network::PodNetwork;
use crate::volumes::{EmptyDirContents, remove_tree, unmount_volumes};

/// The longest wait between tries to delete an object.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Which pod an object is; `None` when it lacks what every stored object has, or has what could not
/// be the name of a folder.
pub(crate) fn pod_ref(pod: &Pod) -> Option<PodRef> {
    let name_of_folder = |text: &Option<String>| {
        let plain = |text: &&String| {
            let safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
            !text.starts_with('.') && !text.is_empty() && text.chars().all(safe)
        };
        text.as_ref().filter(plain).cloned()
    };
    Some(PodRef {
        namespace: name_of_folder(&pod.metadata.namespace)?,
        name: name_of_folder(&pod.metadata.name)?,
        uid: PodUid(name_of_folder(&pod.metadata.uid)?),
    })
}

/// The pods that an earlier agent kept on disk, by UID, without those in `known`.
pub(crate) fn kept_pods<R, N>(
    node: &NodeContext<R, N>,
    known: &BTreeSet<PodUid>,
) -> BTreeMap<PodUid, Option<Arc<Pod>>> {
    let mut kept = BTreeMap::new();
    for uid in node.dirs.kept_pods().filter(|uid| !known.contains(uid)) {
        let pod = read_object::<Pod>(&node.dirs.pod_root(&uid).join("pod.json"));
        let pod = pod.filter(|pod| pod.metadata.uid.as_deref() == Some(&uid.0));
        kept.insert(uid, pod.map(Arc::new));
    }
    kept
}

/// Takes away sandboxes whose pod is known to nobody: neither the API nor a kept spec can say how
/// to end them better. Answers the pods of those that it cannot.
pub(crate) async fn remove_orphans<R: Runtime, N: PodNetwork>(
    node: Arc<NodeContext<R, N>>,
    orphans: Vec<SandboxSnapshot>,
) -> BTreeSet<PodUid> {
    let mut left = BTreeSet::new();
    // first: what is removed would not answer, not even with a refusal
    join_all(orphans.iter().map(|sandbox| node.routes.close_ports(&sandbox.id))).await;
    for sandbox in orphans {
        tracing::info!(pod = %sandbox.key.pod, uid = %sandbox.key.pod.uid, "removing a sandbox of a pod that nobody knows");
        if let Err(error) = node.runtime.remove_sandbox(&sandbox.key).await {
            tracing::warn!(
                error = error.chain(),
                "failed to remove an orphaned sandbox; trying again at the next start"
            );
            left.insert(sandbox.key.pod.uid);
            continue;
        }
        if let Err(error) = node.network.detach(&sandbox.id).await {
            tracing::warn!(%error, "failed to release the address of an orphaned sandbox; trying again at the next start");
        }
    }
    left
}

/// What is left on disk of pods that nobody knows. Found in one go, so that nothing made later is
/// among it.
#[derive(Debug, Default)]
pub(crate) struct PodLeftovers {
    pods: Vec<PodDirs>,
    logs: Vec<PathBuf>,
    trash: PathBuf,
}

/// The folders of `unreadable` pods, and the logs of all that are not `known`.
pub(crate) fn leftovers<R, N>(
    node: &NodeContext<R, N>,
    unreadable: &[PodUid],
    known: &BTreeSet<PodUid>,
) -> PodLeftovers {
    let nobody =
        |uid: &PodUid| PodRef { namespace: String::new(), name: String::new(), uid: uid.clone() };
    let mut logs = Vec::new();
    for entry in std::fs::read_dir(node.dirs.logs()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // <namespace>_<name>_<uid>: none of the parts can hold an underscore
        let uid = PodUid(name.rsplit('_').next().unwrap_or_default().to_owned());
        if name.split('_').count() == 3 && !known.contains(&uid) {
            logs.push(entry.path());
        }
    }
    let pods = unreadable.iter().map(|uid| node.dirs.pod(&nobody(uid))).collect();
    PodLeftovers { pods, logs, trash: node.dirs.trash() }
}

/// Removes them. Blocks.
pub(crate) fn remove_leftovers(leftovers: &PodLeftovers) {
    for dirs in &leftovers.pods {
        match unmount_volumes(dirs, EmptyDirContents::Discard) {
            Ok(()) => remove(dirs.root()),
            Err(error) => {
                tracing::warn!(path = %dirs.root().display(), %error, "failed to remove the volumes of an unknown pod");
            }
        }
    }
    for path in &leftovers.logs {
        remove(path);
    }
    crate::volumes::sweep(&leftovers.trash);
}

/// Removes the folder of a pod that is over; its volumes are unmounted.
pub(crate) fn remove_folder(dirs: &PodDirs) {
    remove(dirs.root());
}

/// Removes the logs of a pod that is gone from the API.
pub(crate) fn remove_logs(dirs: &PodDirs) {
    remove(dirs.logs());
}

fn remove(path: &std::path::Path) {
    if let Err(error) = remove_tree(path) {
        tracing::warn!(path = %path.display(), %error, "failed to remove what an ended pod left; trying again at the next start");
    }
}

/// Removes the object for good, if it is still the same pod.
pub(crate) async fn delete_object(client: &Client, pod_ref: &PodRef) {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod_ref.namespace);
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some(pod_ref.uid.0.clone()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let mut wait = Duration::from_millis(100);
    loop {
        match api.delete(&pod_ref.name, &params).await {
            Ok(_) => return,
            // gone, or a new pod of the same name
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => return,
            // one of the same name on another node, which this one may not touch
            Err(kube::Error::Api(answer)) if answer.code == 403 && is_gone(&api, pod_ref).await => {
                return;
            }
            Err(error) => {
                tracing::debug!(pod = %pod_ref, %error, "cannot delete the object of an ended pod; trying again")
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

/// True when the API says that there is no such pod, or another one.
async fn is_gone(api: &Api<Pod>, pod_ref: &PodRef) -> bool {
    match api.get_opt(&pod_ref.name).await {
        Ok(found) => found.is_none_or(|pod| pod.metadata.uid.as_deref() != Some(&pod_ref.uid.0)),
        Err(_) => false,
    }
}
