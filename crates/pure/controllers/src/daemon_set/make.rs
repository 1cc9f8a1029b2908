//! New pods of a DaemonSet, and the events about what is made and deleted.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    self, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::HeldPod;
use rekindle_types::reasons::event;
use rekindle_types::revisions::{self, HASH_LABEL};
use rekindle_types::{EventSeverity, taints};

use super::COMPONENT;
use crate::events::EventNote;
use crate::plan::{DependentPolicy, PlannedWrite, WriteNotes, WriteOperation};
use crate::{ClusterView, ResourceKind, ViewObject, names, owners};

/// The label that holds how often the template had been changed.
const TEMPLATE_GENERATION: &str = "pod-template-generation";
/// The annotation of the set that says how often the template was changed.
const SET_TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// What every daemon bears: trouble of its node, which it may be there to look after, and a cordon
/// [documentation of DaemonSets, "Taints and tolerations"].
const TOLERATED: [(&str, &str); 6] = [
    (taints::NOT_READY, taints::NO_EXECUTE),
    (taints::UNREACHABLE, taints::NO_EXECUTE),
    (taints::DISK_PRESSURE, taints::NO_SCHEDULE),
    (taints::MEMORY_PRESSURE, taints::NO_SCHEDULE),
    (taints::PID_PRESSURE, taints::NO_SCHEDULE),
    (taints::UNSCHEDULABLE, taints::NO_SCHEDULE),
];
/// What a daemon on the node's network bears besides: it may be there to set that up.
const NETWORK: (&str, &str) = (taints::NETWORK_UNAVAILABLE, taints::NO_SCHEDULE);

/// A pod of the set that is of no node yet: the template with what every daemon tolerates.
pub(super) fn model(set: &DaemonSet) -> v1::Pod {
    let mut spec = set.spec.template.spec.clone().unwrap_or_default();
    let network = (spec.host_network == Some(true)).then_some(NETWORK);
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        // one of the template that is the same but for a limit would come first, and count
        let is_same =
            |own: &Toleration| Toleration { toleration_seconds: None, ..own.clone() } == toleration;
        match tolerations.iter_mut().find(|own| is_same(own)) {
            Some(own) => *own = toleration,
            None => tolerations.push(toleration),
        }
    }
    v1::Pod { spec: Some(spec), ..v1::Pod::default() }
}

/// The creation of a pod for a node.
pub(super) fn creation(
    view: &ClusterView,
    set: &Arc<DaemonSet>,
    hash: &str,
    node: &str,
) -> PlannedWrite {
    let name = free_name(view, set, node);
    let from = set.spec.template.metadata.clone().unwrap_or_default();
    let mut labels = from.labels.unwrap_or_default();
    labels.insert(HASH_LABEL.to_owned(), hash.to_owned());
    let annotations = set.metadata.annotations.as_ref();
    if let Some(generation) = annotations.and_then(|all| all.get(SET_TEMPLATE_GENERATION)) {
        labels.insert(TEMPLATE_GENERATION.to_owned(), generation.clone());
    }
    let mut pod = model(set);
    bind_to(&mut pod, node);
    pod.metadata = ObjectMeta {
        generate_name: set.metadata.name.as_ref().map(|name| format!("{name}-")),
        name: Some(name.clone()),
        namespace: set.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: from.annotations,
        finalizers: from.finalizers,
        owner_references: Some(vec![owners::controller_reference(
            ResourceKind::DaemonSet,
            &set.metadata,
        )]),
        ..ObjectMeta::default()
    };
    let report = report(
        set,
        (event::SUCCESSFUL_CREATE, format!("Created pod: {name}")),
        (event::FAILED_CREATE, "Error creating: "),
    );
    PlannedWrite { write: WriteOperation::Create(pod.into()), report: Some(report) }
}

/// The deletion of a pod.
pub(super) fn deletion(set: &Arc<DaemonSet>, pod: &Arc<HeldPod>) -> PlannedWrite {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let report = report(
        set,
        ("SuccessfulDelete", format!("Deleted pod: {name}")),
        ("FailedDelete", "Error deleting: "),
    );
    let write = WriteOperation::delete(&ViewObject::Pod(pod.clone()), DependentPolicy::Default);
    PlannedWrite { write, report: Some(report) }
}

/// The hash that a pod is marked with, or empty.
pub(super) fn hash_of(pod: &HeldPod) -> &str {
    revisions::hash_of(pod.metadata.labels.as_ref())
}

/// The first name of the node's own series that is neither taken nor was lately.
fn free_name(view: &ClusterView, set: &DaemonSet, node: &str) -> String {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let stem = format!("{}-", names::base(set.metadata.name.as_deref().unwrap_or_default()));
    let mut names = names::free(view, &set.metadata, stem, format!("{uid}/{node}"));
    names.next().expect("there are more names than pods")
}

/// In place of whatever node affinity the template requires: the node was chosen by that already.
fn bind_to(pod: &mut v1::Pod, node: &str) {
    let by_name = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![by_name]), ..Default::default() };
    let spec = pod.spec.get_or_insert_default();
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
}

fn report(
    set: &Arc<DaemonSet>,
    (done, said): (&'static str, String),
    (failed, why): (&'static str, &str),
) -> WriteNotes {
    let about = ViewObject::DaemonSet(set.clone());
    WriteNotes::new(
        EventNote::new(&about, EventSeverity::Normal, done, said, COMPONENT),
        EventNote::new(&about, EventSeverity::Warning, failed, why, COMPONENT),
    )
}
