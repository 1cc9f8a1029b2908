//! Whose history a ledger holds, and with what it goes.
//!
//! A ledger is named like its pod. Pod names are unique in a namespace, a StatefulSet's pod comes back under its name, and so
//! does a naked pod that is created again, so their histories go on. The pods of a Deployment (a Job, a DaemonSet, …) never come
//! back under their name: several replicas may fail at once, each has its own place on the ladder, and its ledger goes with it.
//! As no rung carried out here creates such a pod anew, nothing is forgotten that is needed.
//!
//! The owner makes the garbage collector remove the ledger: the StatefulSet for its pods, otherwise the pod itself if a
//! controller made it. A naked pod's ledger has no owner, for it outlives the pod: whoever drives the ladder removes it when the
//! pod is gone and [`Identity::outlives_pod_by`] has passed since the ledger's last decision.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rekindle_types::TickDuration;

use crate::Policy;

/// Whose history a ledger holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// The ledger's name, in the pod's namespace.
    pub ledger_name: String,
    /// With what the ledger goes; none for a naked pod.
    pub owner: Option<OwnerReference>,
}

/// The identity of a pod.
pub fn identity(pod: &Pod) -> Identity {
    let meta = &pod.metadata;
    let controller =
        meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let name = meta.name.clone().unwrap_or_default();
    let owner = controller.map(|controller| match controller.kind.as_str() {
        "StatefulSet" => {
            OwnerReference { controller: None, block_owner_deletion: None, ..controller.clone() }
        }
        _ => OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: name.clone(),
            uid: meta.uid.clone().unwrap_or_default(),
            controller: None,
            block_owner_deletion: None,
        },
    });
    Identity { ledger_name: name, owner }
}

impl Identity {
    /// How long after its last decision the ledger of a naked pod that is gone is worth keeping: the window, after which its
    /// attempts would not count any more.
    pub fn outlives_pod_by(policy: &Policy) -> TickDuration {
        policy.window
    }
}

#[cfg(test)]
mod tests;
