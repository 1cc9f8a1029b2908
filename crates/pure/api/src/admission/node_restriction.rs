//! What the agent of a node may write although its role allows it: mirrors of its own files, the
//! Node and the Lease of its own name, the status of its pods, and tokens that end with them.
//! Upstream's admission plugin NodeRestriction.

use std::collections::BTreeMap;

use k8s_openapi::api::authentication::v1::BoundObjectReference;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Node, NodeSpec, PersistentVolume, Pod, PodResourceClaimStatus, Volume,
};
use k8s_openapi::api::storage::v1::CSINode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rekindle_kinds::certificate_signing_request::CertificateRequest;
use rekindle_kinds::identity::ClientIdentity;
use rekindle_kinds::validation::{items, text};
use rekindle_types::local_path;
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::references::{ObjectKind, ObjectRef, pod_references};
use rekindle_types::v1alpha1::{CarriedOutBy, PodRestart};

use super::ObjectWrite;
use crate::call::{ApiCall, ObjectPart};
use crate::certificates::BuiltInSigner;
use crate::node_rights::{LEASES, account, is_on, node_of};
use crate::status::ApiError;

/// The labels under `kubernetes.io` and `k8s.io` that an agent may set on its own Node (upstream:
/// `kubeletLabels`).
const LABELS: [&str; 10] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// The namespaces, with what is below them, in which it may set any label (upstream:
/// `kubeletLabelNamespaces`).
const LABEL_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The node whose agent asks; none for everybody else.
fn asking<'a>(call: &ApiCall<'a>) -> Option<&'a str> {
    match &call.request.identity {
        ClientIdentity::User(user) => node_of(user),
        ClientIdentity::Anonymous => None,
    }
}

/// Refuses what a node's agent may not make: pods but mirrors of its own files, which refer to
/// nothing; Nodes and Leases of other names; its own Node with labels that are not for it to set.
pub(super) fn check_create(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let (call, object) = (write.call, write.new);
    let Some(node) = asking(call) else { return Ok(()) };
    let made = object.as_any();
    let name = object.meta().name.as_deref().unwrap_or_default();
    let why = if let Some(pod) = made.downcast_ref::<Pod>() {
        wrong_with_mirror(call, node, pod)
    } else if made.is::<Lease>() && call.path.namespace != LEASES {
        Some(format!("can only access leases in the {LEASES:?} system namespace"))
    } else if made.is::<Lease>() && name != node {
        let why = "can only access node lease with the same name as the requesting node";
        Some(why.to_owned())
    } else if made.is::<CSINode>() && name != node {
        Some("can only access CSINode with the same name as the requesting node".to_owned())
    } else if let Some(request) = made.downcast_ref::<CertificateSigningRequest>() {
        wrong_with_request(node, request)
    } else if made.is::<Node>() && name != node {
        Some(format!("node {node:?} is not allowed to modify node {name:?}"))
    } else if let Some(volume) = made.downcast_ref::<PersistentVolume>() {
        (!local_path::is_of_node(volume, node)).then(|| {
            format!("node {node:?} can only create persistentvolumes of class local-path on itself")
        })
    } else if let Some(made) = made.downcast_ref::<Node>() {
        wrong_with_new_node(node, made)
    } else {
        None
    };
    refuse(call, name, why)
}

/// A node asks for certificates of its own only. Source: upstream since 1.31.
fn wrong_with_request(node: &str, request: &CertificateSigningRequest) -> Option<String> {
    let of_nodes = [BuiltInSigner::NodeClient.name(), BuiltInSigner::NodeServing.name()];
    if !of_nodes.contains(&request.spec.signer_name.as_str()) {
        return None;
    }
    // what cannot be read is refused by validation
    let parsed = CertificateRequest::parse(&request.spec.request.0).ok()?;
    let own = format!("system:node:{node}");
    (parsed.common_names() != [own.as_str()])
        .then(|| format!("can only create a node CSR with CN={own}"))
}

/// Refuses what a node's agent may not change: of its pods anything but the status, and in it the
/// labels and what claims they got; of its own Node the taints, owners, finalizers and
/// configuration, and labels that are not for it to set; of PodRestarts all but the report about a
/// restart in place of its own pods.
pub(super) fn check_update(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let ObjectWrite { call, new, old: Some(old), part } = *write else { return Ok(()) };
    let Some(node) = asking(call) else { return Ok(()) };
    let pods = (new.as_any().downcast_ref::<Pod>(), old.as_any().downcast_ref::<Pod>());
    let nodes = (new.as_any().downcast_ref::<Node>(), old.as_any().downcast_ref::<Node>());
    let volumes = (
        new.as_any().downcast_ref::<PersistentVolume>(),
        old.as_any().downcast_ref::<PersistentVolume>(),
    );
    if let (Some(new), Some(old)) = volumes {
        return refuse(call, &call.path.name, wrong_with_volume(node, new, old));
    }
    let restarts =
        (new.as_any().downcast_ref::<PodRestart>(), old.as_any().downcast_ref::<PodRestart>());
    if let (Some(new), Some(old)) = restarts {
        return refuse(call, &call.path.name, wrong_with_restart(call, node, new, old));
    }
    let why = match (pods, nodes) {
        ((Some(new), Some(old)), _) => {
            wrong_part_of_pod(node, part).or_else(|| wrong_with_pod(node, new, old))
        }
        (_, (Some(new), Some(old))) => wrong_with_node(node, new, old),
        _ => None,
    };
    refuse(call, &call.path.name, why)
}

/// Refuses a token that a node's agent asks for unless it ends with a pod of that node. That the
/// pod has the account is looked at for everybody.
pub(crate) fn check_token(
    call: &ApiCall<'_>,
    bound: Option<&BoundObjectReference>,
) -> Result<(), ApiError> {
    let Some(node) = asking(call) else { return Ok(()) };
    let why = |why: String| refuse(call, &call.path.name, Some(why));
    let kind = bound.map(|bound| (text(bound.api_version.as_ref()), text(bound.kind.as_ref())));
    let name = bound.map(|bound| text(bound.name.as_ref())).unwrap_or_default();
    let uid = bound.map(|bound| text(bound.uid.as_ref())).unwrap_or_default();
    if kind != Some(("v1", "Pod")) || name.is_empty() {
        return why("node requested token not bound to a pod".to_owned());
    }
    if uid.is_empty() {
        return why("node requested token with a pod binding without a uid".to_owned());
    }
    let state = call.api.state();
    let entry = state.registry.find("", "v1", "pods").ok_or_else(ApiError::no_such_path)?;
    let key = crate::keys::object(entry, &call.path.namespace, name);
    let stored = state.store.get(&key).ok_or_else(|| ApiError::not_found(entry, name))?;
    let object = call.api.read(entry, &stored)?;
    let pod = object.as_any().downcast_ref::<Pod>();
    if text(object.meta().uid.as_ref()) != uid {
        return why(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted \
             and then recreated"
        ));
    }
    let bound_to = pod.and_then(|pod| pod.spec.as_ref()?.node_name.as_deref());
    if bound_to != Some(node) {
        return why("node requested token bound to a pod scheduled on a different node".to_owned());
    }
    Ok(())
}

fn refuse(call: &ApiCall<'_>, name: &str, why: Option<String>) -> Result<(), ApiError> {
    why.map_or(Ok(()), |why| Err(ApiError::forbidden(call.entry, name, &why)))
}

/// A mirror stands for a file of its node, goes with the Node, and gives its node nothing that a
/// file could not.
fn wrong_with_mirror(call: &ApiCall<'_>, node: &str, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref();
    if !is_mirror(pod) {
        return Some(format!("node {node:?} may only create mirror pods of its own files"));
    }
    if spec.and_then(|spec| spec.node_name.as_deref()) != Some(node) {
        return Some(format!(
            "node {node:?} can only create pods with spec.nodeName set to itself"
        ));
    }
    let uid = call.api.state().meta_of("nodes", "", node).and_then(|meta| meta.uid);
    if let Some(why) = wrong_with_owner(node, uid.as_deref(), &pod.metadata) {
        return Some(why);
    }
    let claims =
        |volume: &Volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
    let (bundles, others): (Vec<ObjectRef>, Vec<ObjectRef>) =
        pod_references(pod).into_iter().partition(|reference| match reference.kind {
            ObjectKind::TrustBundle | ObjectKind::TrustBundlesOfSigner => true,
            ObjectKind::ConfigMap | ObjectKind::Secret => false,
        });
    let volumes = items(spec.and_then(|spec| spec.volumes.as_ref()));
    let what = if account(pod).is_some() {
        "a service account"
    } else if !others.is_empty() {
        "secrets or configmaps"
    } else if volumes.iter().any(claims) {
        "persistentvolumeclaims"
    } else if !bundles.is_empty() {
        "clustertrustbundles"
    } else if !items(spec.and_then(|spec| spec.resource_claims.as_ref())).is_empty() {
        "resourceclaims"
    } else {
        return None;
    };
    Some(format!("node {node:?} can not create pods that reference {what}"))
}

/// Without its Node as the owner a mirror would stay when the Node goes, and be counted as somebody
/// else's.
fn wrong_with_owner(node: &str, uid: Option<&str>, mirror: &ObjectMeta) -> Option<String> {
    let may = format!("node {node:?} can only create pods with");
    let [owner] = items(mirror.owner_references.as_ref()) else {
        return Some(format!("{may} a single owner reference set to itself"));
    };
    let OwnerReference { api_version, kind, name, uid: given, controller, block_owner_deletion } =
        owner;
    if (api_version.as_str(), kind.as_str(), name.as_str()) != ("v1", "Node", node) {
        Some(format!("{may} an owner reference set to itself"))
    } else if *controller != Some(true) {
        Some(format!("{may} a controller owner reference set to itself"))
    } else if *block_owner_deletion == Some(true) {
        Some(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"))
    } else if uid != Some(given.as_str()) {
        let expected = uid.unwrap_or_default();
        Some(format!("node {node} UID mismatch: expected {expected} got {given}"))
    } else {
        None
    }
}

/// Of a pod that there is an agent writes the status only.
fn wrong_part_of_pod(node: &str, part: ObjectPart) -> Option<String> {
    let subresource = match part {
        ObjectPart::Status => return None,
        ObjectPart::Main | ObjectPart::Finalize => {
            return Some(format!(
                "unexpected operation \"UPDATE\", node {node:?} can only create and delete mirror pods"
            ));
        }
        ObjectPart::Resize => "resize",
        ObjectPart::EphemeralContainers => "ephemeralcontainers",
        ObjectPart::Approval => "approval",
    };
    Some(format!(
        "unexpected pod subresource {subresource:?}, only 'status' and 'eviction' are allowed"
    ))
}

/// A volume of the node stays what it is: the node says only that its folder has been dealt with.
fn wrong_with_volume(node: &str, new: &PersistentVolume, old: &PersistentVolume) -> Option<String> {
    let freed = PersistentVolume {
        metadata: ObjectMeta {
            finalizers: new.metadata.finalizers.clone(),
            managed_fields: new.metadata.managed_fields.clone(),
            resource_version: new.metadata.resource_version.clone(),
            ..old.metadata.clone()
        },
        ..old.clone()
    };
    (*new != freed).then(|| {
        format!("node {node:?} may change nothing but the finalizers of its persistentvolumes")
    })
}

/// The controller of PodRestarts creates the pod that stands in `status.replacement` with its own
/// rights: with the status of such a request an agent would create any pod, on any node, as any
/// account. What a node carries out has no replacement.
fn wrong_with_restart(
    call: &ApiCall<'_>,
    node: &str,
    new: &PodRestart,
    old: &PodRestart,
) -> Option<String> {
    let marks = |restart: &PodRestart| {
        let ObjectMeta { labels, annotations, finalizers, owner_references, .. } =
            restart.metadata.clone();
        (labels, annotations, finalizers, owner_references)
    };
    let replacement =
        |restart: &PodRestart| restart.status.as_ref().and_then(|it| it.replacement.clone());
    let group = |restart: &PodRestart| restart.group().cloned();
    let pod = &old.spec.pod_name;
    if old.carried_out_by() == CarriedOutBy::Operator {
        Some(format!("node {node:?} can only report on podrestarts of one pod in place"))
    } else if !is_on(call.api.state(), node, &call.path.namespace, pod) {
        Some(format!("node {node:?} can only report on podrestarts of its own pods"))
    } else if marks(new) != marks(old)
        || replacement(new) != replacement(old)
        || group(new) != group(old)
    {
        Some(format!("node {node:?} can only update the report in the status of podrestarts"))
    } else {
        None
    }
}

fn wrong_with_pod(node: &str, new: &Pod, old: &Pod) -> Option<String> {
    let claims = |pod: &Pod| -> Vec<PodResourceClaimStatus> {
        let status = pod.status.as_ref();
        items(status.and_then(|status| status.resource_claim_statuses.as_ref())).to_vec()
    };
    if labels(&new.metadata) != labels(&old.metadata) {
        Some(format!("node {node:?} cannot update labels through pod status"))
    } else if new.metadata.finalizers != old.metadata.finalizers {
        // beyond upstream: a finalizer would keep a pod that is to go
        Some(format!("node {node:?} cannot update finalizers through pod status"))
    } else if claims(new) != claims(old) {
        Some(format!("node {node:?} cannot update resource claim statuses"))
    } else {
        None
    }
}

/// By an owner that is not there a node would have its Node deleted, and could make it again
/// without its taints (CVE-2025-5187). A finalizer would keep a Node that is to go. Upstream checks
/// the owners of a Node that is changed, not of one that is made.
fn wrong_with_new_node(node: &str, made: &Node) -> Option<String> {
    if made.spec.as_ref().is_some_and(|spec| spec.config_source.is_some()) {
        return Some(format!(
            "node {node:?} is not allowed to create pods with a non-nil configSource"
        ));
    }
    let of_others = [
        ("ownerReferences", items(made.metadata.owner_references.as_ref()).is_empty()),
        ("finalizers", items(made.metadata.finalizers.as_ref()).is_empty()),
    ];
    if let Some((field, _)) = of_others.into_iter().find(|(_, is_empty)| !is_empty) {
        return Some(format!("node {node:?} is not allowed to set {field}"));
    }
    let labels = forbidden_labels(&made.metadata, &ObjectMeta::default());
    labels
        .map(|labels| format!("node {node:?} is not allowed to set the following labels: {labels}"))
}

fn wrong_with_node(node: &str, new: &Node, old: &Node) -> Option<String> {
    let config_source =
        |node: &Node| node.spec.as_ref().and_then(|spec| spec.config_source.clone());
    if config_source(new).is_some() && config_source(new) != config_source(old) {
        return Some(format!(
            "node {node:?} is not allowed to update configSource to a new non-nil configSource"
        ));
    }
    let taints = |node: &Node| {
        let taints = |spec: &NodeSpec| spec.taints.clone();
        node.spec.as_ref().and_then(taints).unwrap_or_default()
    };
    if taints(new) != taints(old) {
        return Some(format!("node {node:?} is not allowed to modify taints"));
    }
    let (of_new, of_old) = (&new.metadata, &old.metadata);
    let of_others = [
        (
            "ownerReferences",
            items(of_new.owner_references.as_ref()) == items(of_old.owner_references.as_ref()),
        ),
        ("finalizers", items(of_new.finalizers.as_ref()) == items(of_old.finalizers.as_ref())),
    ];
    if let Some((field, _)) = of_others.into_iter().find(|(_, is_same)| !is_same) {
        return Some(format!("node {node:?} is not allowed to modify {field}"));
    }
    let labels = forbidden_labels(&new.metadata, &old.metadata);
    labels.map(|labels| format!("is not allowed to modify labels: {labels}"))
}

fn labels(meta: &ObjectMeta) -> BTreeMap<String, String> {
    meta.labels.clone().unwrap_or_default()
}

/// The labels that were added, changed or removed although they are not for an agent to set: by
/// them it would bring pods to itself.
fn forbidden_labels(new: &ObjectMeta, old: &ObjectMeta) -> Option<String> {
    let (new, old) = (labels(new), labels(old));
    let mut changed: Vec<&str> = new
        .keys()
        .chain(old.keys())
        .map(String::as_str)
        .filter(|key| new.get(*key) != old.get(*key) && !is_agents_label(key))
        .collect();
    changed.sort_unstable();
    changed.dedup();
    (!changed.is_empty()).then(|| changed.join(", "))
}

/// Any label that is not Kubernetes' own, and some of those. `node-restriction.kubernetes.io` is
/// what nodes must not set about themselves.
fn is_agents_label(key: &str) -> bool {
    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
    let is_in = |domain: &str| {
        namespace.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_kubernetes = ["kubernetes.io", "k8s.io"].into_iter().any(is_in);
    !is_kubernetes || LABELS.contains(&key) || LABEL_NAMESPACES.into_iter().any(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `getForbiddenLabels`.
    #[test]
    fn an_agent_sets_the_labels_of_kubelets_and_those_that_are_not_kubernetes() {
        for (key, is_allowed) in [
            ("disk", true),
            ("example.com/disk", true),
            ("notkubernetes.io/x", true),
            ("kubernetes.io/hostname", true),
            ("kubernetes.io/os", true),
            ("beta.kubernetes.io/arch", true),
            ("topology.kubernetes.io/zone", true),
            ("node.kubernetes.io/instance-type", true),
            ("node.kubernetes.io/mine", true),
            ("sub.kubelet.kubernetes.io/mine", true),
            ("kubernetes.io/role", false),
            ("node-role.kubernetes.io/control-plane", false),
            ("node-restriction.kubernetes.io/trusted", false),
            ("a.node-restriction.kubernetes.io/trusted", false),
            ("topology.kubernetes.io/rack", false),
            ("k8s.io/x", false),
            ("a.k8s.io/x", false),
        ] {
            assert_eq!(is_agents_label(key), is_allowed, "{key}");
        }
    }
}
