//! Which ledger is a pod's: its own, or the one it takes over from a pod that went before it. Pure,
//! as the controllers are.

use std::sync::Arc;

use rekindle_controllers::{
    ClusterView, NamespacedName, ObjectChange, ResourceKind, ViewObject, owners, pods,
};
use rekindle_ladder::{LedgerIdentity, LedgerRegister, Lineage, heir_of, identity};
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::RestartLedger;

/// Where a pod's history is written.
pub(crate) struct PodLedger<'a> {
    /// The ledger's name.
    pub(crate) name: NamespacedName,
    /// Whose it is.
    pub(crate) identity: LedgerIdentity,
    /// The ledger as it stands, if there is one.
    pub(crate) ledger: Option<&'a Arc<RestartLedger>>,
}

/// The place of a pod's history.
pub(crate) fn place_of<'a>(view: &'a ClusterView, pod: &'a HeldPod) -> PodLedger<'a> {
    let identity = identity(pod);
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let by_name = NamespacedName::new(namespace, identity.ledger_name.as_str());
    let named = view.restart_ledger(&by_name).filter(|ledger| !ledger.is_of_group());
    match identity.lineage {
        Lineage::Name => PodLedger { name: by_name, identity, ledger: named },
        // With a surge two pods of a node live side by side: the later one has a ledger of its own.
        Lineage::Node => {
            let is_anothers =
                |ledger: &&Arc<RestartLedger>| !is_of(ledger, pod) && has_living_pod(view, ledger);
            let second = second_name(namespace, pod);
            let own = view.restart_ledger(&second);
            let name = if own.is_some() || named.is_some_and(|l| is_anothers(&l)) {
                second
            } else {
                by_name
            };
            PodLedger { ledger: view.restart_ledger(&name), name, identity }
        }
        Lineage::Controller => {
            let own = named.filter(|ledger| is_of(ledger, pod)).or_else(|| inherited(view, pod));
            let name = match (own, named) {
                (Some(ledger), _) => NamespacedName::from_meta(&ledger.metadata),
                (None, None) => by_name,
                // an earlier pod had the name, and a later one has its ledger
                (None, Some(_)) => second_name(namespace, pod),
            };
            PodLedger { ledger: view.restart_ledger(&name), name, identity }
        }
    }
}

/// The names of the ledgers that speak of the pod of this name now.
pub(crate) fn ledgers_of_pod<'a>(
    register: &'a LedgerRegister,
    pod: &'a NamespacedName,
) -> impl Iterator<Item = NamespacedName> + 'a {
    let names = register.ledgers_of(&pod.namespace, &pod.name);
    names.map(|name| NamespacedName::new(pod.namespace.as_str(), name))
}

/// Takes a change of a ledger or a request into the register.
pub(crate) fn register(register: &mut LedgerRegister, change: &ObjectChange) {
    let NamespacedName { namespace, name } = &change.id.name;
    match (change.id.kind, &change.after) {
        (_, Some(ViewObject::RestartLedger(ledger))) => register.put_ledger(ledger),
        (_, Some(ViewObject::PodRestart(restart))) => register.put_restart(restart),
        (ResourceKind::RestartLedger, None) => register.remove_ledger(namespace, name),
        (ResourceKind::PodRestart, None) => register.remove_restart(namespace, name),
        (_, Some(_) | None) => {}
    }
}

/// True when the pod that the ledger speaks of is there.
pub(crate) fn has_pod(view: &ClusterView, ledger: &RestartLedger) -> bool {
    pod_of(view, ledger).is_some()
}

/// True when it is there and is not going.
fn has_living_pod(view: &ClusterView, ledger: &RestartLedger) -> bool {
    pod_of(view, ledger).is_some_and(|pod| pods::is_active(pod))
}

fn pod_of<'a>(view: &'a ClusterView, ledger: &RestartLedger) -> Option<&'a Arc<HeldPod>> {
    let namespace = ledger.metadata.namespace.as_deref().unwrap_or_default();
    let pod = view.pod(&NamespacedName::new(namespace, ledger.spec.pod_name.as_str()));
    pod.filter(|pod| is_of(ledger, pod))
}

/// The pods that may take a ledger over now that this pod is going: those of its controller.
pub(crate) fn heirs_of<'a>(
    view: &'a ClusterView,
    pod: &'a HeldPod,
) -> impl Iterator<Item = NamespacedName> + 'a {
    let controller = owners::controller_of(&pod.metadata).filter(|_| !pods::is_active(pod));
    let left_one = controller.filter(|controller| {
        view.dependents_of(&controller.uid, ResourceKind::RestartLedger)
            .any(|object| matches!(object, ViewObject::RestartLedger(ledger) if is_of(ledger, pod)))
    });
    left_one
        .into_iter()
        .flat_map(|controller| view.pods_of(&controller.uid))
        .map(|pod| NamespacedName::from_meta(&pod.metadata))
}

/// A ledger of the same controller that is this pod's already, or becomes it.
fn inherited<'a>(view: &'a ClusterView, pod: &'a HeldPod) -> Option<&'a Arc<RestartLedger>> {
    let controller = owners::controller_of(&pod.metadata)?;
    let ledgers: Vec<&Arc<RestartLedger>> = view
        .dependents_of(&controller.uid, ResourceKind::RestartLedger)
        .filter_map(|object| match object {
            ViewObject::RestartLedger(ledger) if !ledger.is_of_group() => Some(ledger),
            _ => None,
        })
        .collect();
    if let Some(own) = ledgers.iter().find(|ledger| is_of(ledger, pod)) {
        return Some(own);
    }
    let orphans = ledgers.iter().filter(|ledger| !has_living_pod(view, ledger));
    let heirs = view
        .pods_of(&controller.uid)
        .filter(|heir| pods::is_active(heir) && !ledgers.iter().any(|ledger| is_of(ledger, heir)));
    let name = heir_of(pod, heirs.map(Arc::as_ref), orphans.map(|ledger| ledger.as_ref()))?
        .metadata
        .name
        .as_ref();
    ledgers.iter().find(|ledger| ledger.metadata.name.as_ref() == name).copied()
}

fn is_of(ledger: &RestartLedger, pod: &HeldPod) -> bool {
    Some(&ledger.spec.pod_uid) == pod.metadata.uid.as_ref()
}

/// Not the name of any pod of that controller: their suffixes have five letters.
fn second_name(namespace: &str, pod: &HeldPod) -> NamespacedName {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let suffix = rekindle_controllers::names::short_hash(&[uid]);
    NamespacedName::new(namespace, format!("{name}-{suffix}"))
}
