//! What a node's agent may do beyond its role: only what is about its own node and the pods that are bound to it. A role cannot say
//! that; upstream has an authorizer and an admission plugin of their own for it (Node, NodeRestriction).
//!
//! ```text
//!   user system:node:NAME, group system:nodes
//!     secrets, configmaps          read, one by name, which a pod on NAME refers to
//!     serviceaccounts/token        for the account of a pod on NAME
//!     pods                         status and end of those on NAME; made are only mirrors of NAME's own files
//!     nodes, leases                written under its own name
//! ```
//! What is looked at is durable: an agent asks about a pod after it has seen it.

use k8s_openapi::api::core::v1::Pod;
use rekindle_store::{RangeQuery, Store};
use rekindle_types::references::{ObjectRef, pod_references};

use crate::auth::user::NODES;
use crate::auth::{Attributes, Identity, UserInfo};
use crate::call::Call;
use crate::registry::AnyObject;
use crate::status::ApiError;

/// What the names of nodes' users begin with.
const PREFIX: &str = "system:node:";
/// The namespace of the nodes' leases.
const LEASES: &str = "kube-node-lease";
/// The annotation of a pod that stands for a static one.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The node whose agent this is; none for everybody else.
pub(crate) fn node_of(user: &UserInfo) -> Option<&str> {
    user.name.strip_prefix(PREFIX).filter(|name| !name.is_empty() && user.is_in(NODES))
}

/// Whether this is about what is the node's own. Its role has been asked already.
pub(crate) fn allow(store: &Store, node: &str, what: &Attributes<'_>) -> bool {
    let Attributes::Resource { verb, group, resource, subresource, namespace, name } = *what else {
        return true;
    };
    let reads = matches!(verb, "get" | "list" | "watch");
    match (group, resource, subresource) {
        ("", "secrets", _) => refers(store, node, &ObjectRef::secret(namespace, name)),
        ("", "configmaps", _) => refers(store, node, &ObjectRef::config_map(namespace, name)),
        ("", "serviceaccounts", "token") => {
            pods_on(store, node, namespace).any(|pod| account(&pod) == name)
        }
        ("", "pods", _) if reads || verb == "create" => true, // what is created is looked at then
        ("", "pods", _) => is_on(store, node, namespace, name),
        ("", "nodes", _) if reads => true,
        ("", "nodes", _) => name.is_empty() || name == node,
        ("coordination.k8s.io", "leases", _) => {
            namespace == LEASES && (name == node || verb == "create")
        }
        _ => true,
    }
}

/// Refuses a pod that a node's agent may not make: all but mirrors of its own files, which refer to nothing.
pub(crate) fn check_create(call: &Call<'_>, object: &dyn AnyObject) -> Result<(), ApiError> {
    let Identity::User(user) = &call.request.identity else { return Ok(()) };
    let (Some(node), Some(pod)) = (node_of(user), object.as_any().downcast_ref::<Pod>()) else {
        return Ok(());
    };
    if is_own_mirror(node, pod) {
        return Ok(());
    }
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let why = format!("node {node:?} may only create mirror pods of its own files");
    Err(ApiError::forbidden(call.entry, name, &why))
}

fn is_own_mirror(node: &str, pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let annotations = pod.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(MIRROR))
        && spec.and_then(|spec| spec.node_name.as_deref()) == Some(node)
        && spec.is_some_and(|spec| spec.service_account_name.as_deref().is_none_or(str::is_empty))
        && pod_references(pod).is_empty()
}

fn account(pod: &Pod) -> &str {
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    account.filter(|account| !account.is_empty()).unwrap_or("default")
}

/// Whether a pod of the node refers to the object. Without a name it would be all of them.
fn refers(store: &Store, node: &str, object: &ObjectRef) -> bool {
    !object.name.is_empty()
        && pods_on(store, node, &object.namespace).any(|pod| pod_references(&pod).contains(object))
}

fn is_on(store: &Store, node: &str, namespace: &str, name: &str) -> bool {
    let stored = store.get(&format!("/pods/{namespace}/{name}"));
    // one that is gone is nobody's: the answer is that it is not there
    stored.is_none_or(|stored| on_node(&stored.value, node).is_some())
}

/// The pods of a namespace that are bound to the node.
fn pods_on(store: &Store, node: &str, namespace: &str) -> impl Iterator<Item = Pod> {
    let prefix = format!("/pods/{namespace}/");
    let query = RangeQuery { prefix, ..RangeQuery::default() };
    let found = match namespace {
        "" => Vec::new(),
        _ => store.range(&query).map(|range| range.objects).unwrap_or_default(),
    };
    found.into_iter().filter_map(move |stored| on_node(&stored.value, node))
}

/// The pod, if it is bound to the node. Most are of other nodes, and not decoded.
fn on_node(json: &[u8], node: &str) -> Option<Pod> {
    let text = std::str::from_utf8(json).ok()?;
    if !text.contains(node) {
        return None;
    }
    let pod: Pod = serde_json::from_str(text).ok()?;
    let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    (bound == Some(node)).then_some(pod)
}
