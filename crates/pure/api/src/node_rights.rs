//! What a node's agent may do beyond its role: only what is about its own node and the pods that
//! are bound to it. A role cannot say that; upstream has an authorizer of its own for it (Node).
//! What it may make is looked at when it is read (`admission::node_restriction`).
//!
//! ```text
//!   user system:node:NAME, group system:nodes
//!     secrets, configmaps          read, one by name, which a pod on NAME refers to
//!     serviceaccounts/token        for the account of a pod on NAME, bound to that pod
//!     pods                         status (but no labels) and end of those on NAME
//!     nodes, leases                written under its own name; of the Node no taints, and not all labels
//!     persistentvolumes            those of class local-path on NAME: made, ended, their finalizers
//! ```
//! What is looked at is durable, as an agent asks about a pod after it has seen it; of a pod that
//! it writes to, the newest. The status of PodRestarts is looked at when it is written
//! (`admission::node_restriction`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, Pod};
use rekindle_kinds::identity::NODES;
use rekindle_kinds::identity::UserInfo;
use rekindle_kinds::registry::KindEntry;
use rekindle_store::RangeQuery;
use rekindle_types::references::{ObjectRef, pod_references};
use rekindle_types::{ObjectJson, local_path};

use crate::auth::AccessAttributes;
use crate::keys;
use crate::stored::StoredState;

/// What the names of nodes' users begin with.
const PREFIX: &str = "system:node:";
/// The namespace of the nodes' leases.
pub(crate) const LEASES: &str = "kube-node-lease";

/// The node whose agent this is; none for everybody else.
pub(crate) fn node_of(user: &UserInfo) -> Option<&str> {
    user.name.strip_prefix(PREFIX).filter(|name| !name.is_empty() && user.is_in(NODES))
}

/// Whether this is about what is the node's own. Its role has been asked already.
pub(crate) fn allow(state: StoredState<'_>, node: &str, what: &AccessAttributes<'_>) -> bool {
    let AccessAttributes::Resource { verb, group, resource, subresource, namespace, name } = *what
    else {
        return true;
    };
    let reads = matches!(verb, "get" | "list" | "watch");
    match (group, resource, subresource) {
        ("", "secrets", _) => refers(state, node, &ObjectRef::secret(namespace, name)),
        ("", "configmaps", _) => refers(state, node, &ObjectRef::config_map(namespace, name)),
        ("", "serviceaccounts", "token") => {
            pods_on(state, node, namespace).any(|pod| account(&pod) == Some(name))
        }
        ("", "pods", "") if reads || verb == "create" => true, // what is created is looked at then
        ("", "pods", _) => is_on(state, node, namespace, name),
        ("", "nodes", _) if reads => true,
        ("", "nodes", _) => name.is_empty() || name == node,
        ("", "persistentvolumes", _) if reads || verb == "create" => true,
        ("", "persistentvolumes", _) => is_volume_of(state, node, name),
        ("coordination.k8s.io", "leases", _) => {
            namespace == LEASES && (name == node || verb == "create")
        }
        _ => true,
    }
}

/// The account that a pod runs as; mirrors have none, all others do.
pub(crate) fn account(pod: &Pod) -> Option<&str> {
    let account = pod.spec.as_ref()?.service_account_name.as_deref();
    account.filter(|account| !account.is_empty())
}

/// Whether a pod of the node refers to the object. Without a name it would be all of them.
fn refers(state: StoredState<'_>, node: &str, object: &ObjectRef) -> bool {
    !object.name.is_empty()
        && pods_on(state, node, &object.namespace).any(|pod| pod_references(&pod).contains(object))
}

/// Whether the pod is on the node, or gone.
pub(crate) fn is_on(state: StoredState<'_>, node: &str, namespace: &str, name: &str) -> bool {
    let Some(pods) = pods(state) else { return true }; // none are served
    let stored = state.store.newest(&keys::object(pods, namespace, name));
    // one that is gone is nobody's: the answer is that it is not there
    stored.is_none_or(|stored| on_node(&stored.value, node).is_some())
}

/// Whether the node has made the volume, or it is gone.
fn is_volume_of(state: StoredState<'_>, node: &str, name: &str) -> bool {
    let Some(volumes) = state.registry.find("", "v1", "persistentvolumes") else { return true };
    if name.is_empty() {
        return false; // all of them
    }
    let stored = state.store.newest(&keys::object(volumes, "", name));
    stored.is_none_or(|stored| {
        let volume = PersistentVolume::from_json(&stored.value).ok();
        volume.is_some_and(|volume| local_path::is_of_node(&volume, node))
    })
}

fn pods<'a>(state: StoredState<'a>) -> Option<&'a Arc<KindEntry>> {
    state.registry.find("", "v1", "pods")
}

/// The pods of a namespace that are bound to the node.
fn pods_on(state: StoredState<'_>, node: &str, namespace: &str) -> impl Iterator<Item = Pod> {
    let found = match pods(state).filter(|_| !namespace.is_empty()) {
        Some(pods) => {
            let prefix = keys::collection(pods, namespace);
            let query = RangeQuery { prefix, ..RangeQuery::default() };
            state.store.range(&query).map(|range| range.objects).unwrap_or_default()
        }
        None => Vec::new(),
    };
    found.into_iter().filter_map(move |stored| on_node(&stored.value, node))
}

/// The pod, if it is bound to the node. Most are of other nodes, and not decoded.
fn on_node(json: &[u8], node: &str) -> Option<Pod> {
    if !std::str::from_utf8(json).ok()?.contains(node) {
        return None;
    }
    let pod = Pod::from_json(json).ok()?;
    let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    (bound == Some(node)).then_some(pod)
}
