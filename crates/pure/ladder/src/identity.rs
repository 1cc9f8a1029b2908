//! Whose history a ledger holds, with what it goes, and who takes it over.
//!
//! A ledger is made for a pod and named like it. Pod names are unique in a namespace, a
//! StatefulSet's pod comes back under its name, and so does a naked pod that is created again, so
//! their histories go on under the same name. The pods of a Deployment (a Job, …) come back under
//! other names: several replicas may fail at once, each has its own place on the ladder, and when a
//! pod goes, the pod that comes after it takes its ledger over. The API does not say which pod
//! comes after which; taken is the order of creation among the pods of the same controller, which
//! are of the same template ([`heir_of`]). The ledger keeps its name; its `spec` says whose it is
//! now. Of a DaemonSet the API does say it: what comes after a pod is the pod of the same node, and
//! the ledger has the name of both.
//!
//! The owner makes the garbage collector remove the ledger: the pod's controller, if it has one. A
//! naked pod's ledger has no owner, for it outlives the pod. A ledger without a pod that nobody
//! takes over is removed by whoever drives the ladder when [`LedgerIdentity::outlives_pod_by`] has
//! passed since its last decision.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use rekindle_types::held::HeldPod;
use rekindle_types::pods::AnyPod;
use rekindle_types::v1alpha1::RestartLedger;
use rekindle_types::{Tick, TickDuration};

use crate::LadderPolicy;
use rekindle_types::owners::controller_of;

/// Bytes of an object's name, at most.
const NAME_BYTES_MAX: usize = 253;

/// Whose history a ledger holds.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerIdentity {
    /// The ledger's name, in the pod's namespace.
    pub ledger_name: String,
    /// With what the ledger goes; none for a naked pod.
    pub owner: Option<OwnerReference>,
    /// By what the pod that comes after this one is known.
    pub lineage: Lineage,
}

/// By what the pod that comes after another one is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lineage {
    /// It has the same name.
    Name,
    /// It has the same controller.
    Controller,
    /// It has the same controller and the same node.
    Node,
}

/// The identity of a pod.
pub fn identity(pod: &HeldPod) -> LedgerIdentity {
    let meta = &pod.metadata;
    let controller = controller_of(meta);
    let own_name = || meta.name.clone().unwrap_or_default();
    let (ledger_name, lineage) = match controller {
        None => (own_name(), Lineage::Name),
        Some(controller) if controller.kind == "StatefulSet" => (own_name(), Lineage::Name),
        Some(controller) => match name_of_daemon(controller, pod) {
            Some(name) => (name, Lineage::Node),
            None => (own_name(), Lineage::Controller),
        },
    };
    let owner = controller.map(|controller| OwnerReference {
        controller: None,
        block_owner_deletion: None,
        ..controller.clone()
    });
    LedgerIdentity { ledger_name, owner, lineage }
}

/// `agent.node-1`, for a pod of a DaemonSet that is on a node; none when that is too long for a
/// name.
fn name_of_daemon(controller: &OwnerReference, pod: &HeldPod) -> Option<String> {
    let node = pod.node_name()?;
    let name = format!("{}.{node}", controller.name);
    (controller.kind == "DaemonSet" && name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// The ledger that a pod without one takes over, if there is one: of the ledgers without a living
/// pod, the oldest goes to the oldest pod that was made after the ledger's last decision, and so
/// on. `pods` are all living pods of the controller that have no ledger, `ledgers` those of the
/// controller whose pod lives no more.
pub fn heir_of<'a>(
    pod: &HeldPod,
    pods: impl Iterator<Item = &'a HeldPod>,
    ledgers: impl Iterator<Item = &'a RestartLedger>,
) -> Option<&'a RestartLedger> {
    let mut left: Vec<&RestartLedger> = ledgers.collect();
    left.sort_by_key(|ledger| (born(&ledger.metadata), ledger.metadata.name.as_deref()));
    let mut heirs: Vec<&HeldPod> = pods.collect();
    heirs.sort_by_key(|pod| (born(&pod.metadata), pod.metadata.name.as_deref()));
    let mut taken: BTreeSet<Option<&str>> = BTreeSet::new();
    for heir in heirs {
        let mut free = left.iter().filter(|l| !taken.contains(&l.metadata.name.as_deref()));
        let Some(ledger) = free.find(|ledger| may_inherit(heir, ledger)) else {
            continue;
        };
        if heir.metadata.uid == pod.metadata.uid {
            return Some(ledger);
        }
        taken.insert(ledger.metadata.name.as_deref());
    }
    None
}

/// Whether a pod may take a ledger over, when no other one does: it was made after the ledger's
/// last decision.
pub fn may_inherit(pod: &HeldPod, ledger: &RestartLedger) -> bool {
    last_word(ledger) <= born(&pod.metadata)
}

/// The node of a ledger that goes from pod to pod of a DaemonSet's node.
pub fn node_of<'a>(owner: &OwnerReference, ledger: &'a RestartLedger) -> Option<&'a str> {
    let name = ledger.metadata.name.as_deref().filter(|_| owner.kind == "DaemonSet")?;
    name.strip_prefix(owner.name.as_str())?.strip_prefix('.')
}

fn born(meta: &ObjectMeta) -> Tick {
    meta.creation_timestamp.as_ref().map_or(Tick::ZERO, Tick::from)
}

/// The second of the ledger's last decision about its pod, which lived then. Creations are told in
/// whole seconds.
fn last_word(ledger: &RestartLedger) -> Tick {
    let last = ledger.last_decided().unwrap_or(Tick::ZERO);
    last.whole_second()
}

impl LedgerIdentity {
    /// How long after its last decision the ledger of a pod that is gone is worth keeping: the
    /// window, after which its attempts would not count any more.
    pub fn outlives_pod_by(policy: &LadderPolicy) -> TickDuration {
        policy.window
    }
}

#[cfg(test)]
mod tests;
