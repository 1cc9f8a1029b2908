//! Ladders of scope Group: which pods are one group, and where its history is written. Pure, as the
//! controllers are.
//!
//! A group is the pods of one workload that one ladder selects. The workload is the controller's
//! controller, else the controller. Pods without a controller are one group together. The group is
//! named `LADDER/KIND/NAME` or `LADDER/pods`, which no pod can be called. Ledgers, requests and
//! work go by that name as they go by the name of a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rekindle_controllers::{
    ClusterView, NamespacedName, ObjectChange, ResourceKind, ViewObject, owners, pods,
};
use rekindle_ladder::{LadderGroup, LadderPolicy, LedgerIdentity, Lineage, select};
use rekindle_types::digest::fold;
use rekindle_types::held::HeldPod;
use rekindle_types::name_stem::name_stem;
use rekindle_types::v1alpha1::{LadderScope, RestartLadder, RestartLedger, RestartWorkload};

use crate::ledgers::PodLedger;
use crate::policies;
use crate::restart_context::RestartContext;

/// Bytes of a workload's name in the name of the ledger: the rest tells groups apart.
const STEM_BYTES_MAX: usize = 200;

/// The pods of a workload, and the ladder that decides for them as one.
pub(crate) struct WorkloadGroup<'a> {
    /// The ladder.
    pub(crate) policy: LadderPolicy,
    /// The pods, which run or are on their way to.
    pub(crate) pods: Vec<&'a Arc<HeldPod>>,
    /// What the ladder decides for.
    pub(crate) subject: LadderGroup<'a>,
    /// The UID of the workload; of pods without a controller that of the ladder.
    pub(crate) uid: String,
    /// The workload, if the pods have one.
    pub(crate) root: Option<OwnerReference>,
}

/// The group of this name, if it has pods.
pub(crate) fn group_of<'a>(
    context: &RestartContext<'a>,
    name: &NamespacedName,
) -> Option<WorkloadGroup<'a>> {
    let view = context.view;
    let ladder = ladder_of(view, name)?;
    let mut policy = None;
    let mut workloads: BTreeMap<Option<&str>, Vec<&Arc<HeldPod>>> = BTreeMap::new();
    for pod in selected(view, ladder) {
        if workload_name(view, ladder, pod) != name.name || !pods::is_active(pod) {
            continue;
        }
        let own = policies::policy_of_pod(context, pod).ok().flatten();
        let own = own.filter(|own| own.uid == ladder.metadata.uid);
        let Some(own) = own.filter(|own| own.scope == LadderScope::Group) else { continue };
        policy = Some(own);
        let root = owners::root_of(view, &pod.metadata).map(|root| root.uid.as_str());
        workloads.entry(root).or_default().push(pod);
    }
    // a workload was deleted and made again under its name: the group is the new one's
    let pods = workloads.into_values().max_by_key(|pods| pods.iter().map(|pod| born(pod)).max())?;
    let root = owners::root_of(view, &pods.first()?.metadata).cloned();
    let ladder_uid = ladder.metadata.uid.clone().unwrap_or_default();
    let uid = root.as_ref().map_or(ladder_uid, |root| root.uid.clone());
    let uid_of_root = root.as_ref().map(|root| root.uid.clone());
    let workload = RestartWorkload { name: name.name.clone(), uid: uid_of_root };
    let subject = LadderGroup::new(
        workload,
        &uid,
        stem_of(&name.name),
        ladder.spec.selector.clone(),
        pods.iter().copied().map(Arc::as_ref),
    );
    Some(WorkloadGroup { policy: policy?, pods, subject, uid, root })
}

/// The group that a pod is of, if its ladder decides for groups.
pub(crate) fn group_name_of(view: &ClusterView, pod: &HeldPod) -> Option<NamespacedName> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let ladder = select(policies::ladders(view, namespace), pod)?;
    match ladder.spec.scope() {
        LadderScope::Pod => return None,
        LadderScope::Group => {}
    }
    Some(NamespacedName::new(namespace, workload_name(view, ladder, pod)))
}

/// The ladder that the name of a group begins with; none of the name of a pod.
pub(crate) fn ladder_of<'a>(
    view: &'a ClusterView,
    group: &NamespacedName,
) -> Option<&'a Arc<RestartLadder>> {
    let (ladder, _) = group.name.split_once('/')?;
    view.restart_ladder(&NamespacedName::new(group.namespace.as_str(), ladder))
}

/// True of the name of a group.
pub(crate) fn is_group(name: &NamespacedName) -> bool {
    name.name.contains('/')
}

/// The groups of a ladder that change with it: those that have pods, and those that have a ledger.
pub(crate) fn groups_of_ladder(view: &ClusterView, ladder: &RestartLadder) -> Vec<NamespacedName> {
    let namespace = ladder.metadata.namespace.as_deref().unwrap_or_default();
    let name = ladder.metadata.name.as_deref().unwrap_or_default();
    let ledgers = view.in_namespace(ResourceKind::RestartLedger, namespace);
    let known = ledgers.filter_map(|object| match object {
        ViewObject::RestartLedger(ledger)
            if ledger.is_of_group() && ledger.spec.ladder_name == name =>
        {
            Some(NamespacedName::new(namespace, ledger.spec.pod_name.as_str()))
        }
        _ => None,
    });
    let there = selected(view, ladder).filter_map(|pod| group_name_of(view, pod));
    known.chain(there).collect()
}

/// Whether a group has pods that its ledger is kept for.
pub(crate) fn has_pods(context: &RestartContext<'_>, ledger: &RestartLedger) -> bool {
    let namespace = ledger.metadata.namespace.as_deref().unwrap_or_default();
    let name = NamespacedName::new(namespace, ledger.spec.pod_name.as_str());
    group_of(context, &name).is_some_and(|group| group.uid == ledger.spec.pod_uid)
}

/// The ledger of the group that has lost a pod by this change.
pub(crate) fn ledger_of_lost_pod(
    view: &ClusterView,
    change: &ObjectChange,
) -> Option<NamespacedName> {
    let ViewObject::Pod(pod) = change.latest() else { return None };
    let group = group_name_of(view, pod).filter(|_| change.is_removal())?;
    Some(ledger_name(&group))
}

/// Where the history of a group is written.
pub(crate) fn place_of<'a>(
    view: &'a ClusterView,
    name: &NamespacedName,
    root: Option<OwnerReference>,
) -> PodLedger<'a> {
    let name = ledger_name(name);
    let owner =
        root.map(|root| OwnerReference { controller: None, block_owner_deletion: None, ..root });
    let ledger_name = name.name.clone();
    let identity = LedgerIdentity { ledger_name, owner, lineage: Lineage::Name };
    let ledger = view.restart_ledger(&name).filter(|ledger| ledger.is_of_group());
    PodLedger { name, identity, ledger }
}

/// `train-group-1a2b3c`: the last part is of the group's whole name.
fn ledger_name(group: &NamespacedName) -> NamespacedName {
    let stem = stem_of(&group.name);
    let stem = name_stem(&stem, STEM_BYTES_MAX);
    let name = format!("{stem}-group-{:06x}", fold(&group.name));
    NamespacedName::new(group.namespace.as_str(), name)
}

/// `LADDER-NAME`, or `LADDER` of pods without a controller.
fn stem_of(group: &str) -> String {
    let mut parts = group.splitn(3, '/');
    let ladder = parts.next().unwrap_or_default();
    match parts.nth(1) {
        Some(name) => format!("{ladder}-{name}"),
        None => ladder.to_owned(),
    }
}

fn workload_name(view: &ClusterView, ladder: &RestartLadder, pod: &HeldPod) -> String {
    let ladder = ladder.metadata.name.as_deref().unwrap_or_default();
    match owners::root_of(view, &pod.metadata) {
        Some(root) => format!("{ladder}/{}/{}", root.kind.to_lowercase(), root.name),
        None => format!("{ladder}/pods"),
    }
}

fn selected<'a>(
    view: &'a ClusterView,
    ladder: &'a RestartLadder,
) -> impl Iterator<Item = &'a Arc<HeldPod>> {
    let namespace = ladder.metadata.namespace.as_deref().unwrap_or_default();
    let pods = view.in_namespace(ResourceKind::Pod, namespace).filter_map(|object| match object {
        ViewObject::Pod(pod) => Some(pod),
        _ => None,
    });
    pods.filter(|pod| ladder.selects(pod.metadata.labels.as_ref()))
}

fn born(pod: &HeldPod) -> Option<rekindle_types::Tick> {
    pod.metadata.creation_timestamp.as_ref().map(rekindle_types::Tick::from)
}
