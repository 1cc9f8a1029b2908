//! What is made and deleted for a StatefulSet, with the events about it.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{self, PersistentVolumeClaim};
use rekindle_types::EventSeverity;
use rekindle_types::held::HeldPod;
use rekindle_types::reasons::event;

use super::{COMPONENT, identity};
use crate::ViewObject;
use crate::events::EventNote;
use crate::plan::{DependentPolicy, PlannedWrite, WriteNotes, WriteOperation};

/// The creation of a pod, with the events that upstream makes of it.
pub(super) fn creation(set: &Arc<StatefulSet>, pod: v1::Pod) -> PlannedWrite {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let what = format!("create Pod {name} in StatefulSet {}", identity::set_name(set));
    let report = report(
        set,
        (event::SUCCESSFUL_CREATE, format!("{what} successful")),
        (event::FAILED_CREATE, format!("{what} failed error: ")),
    );
    PlannedWrite { write: WriteOperation::Create(pod.into()), report: Some(report) }
}

/// The creation of a claim for a pod, with its events, which upstream words in another way.
pub(super) fn claim_creation(
    set: &Arc<StatefulSet>,
    claim: PersistentVolumeClaim,
    pod: &str,
) -> PlannedWrite {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let owner = identity::set_name(set);
    let report = report(
        set,
        (
            event::SUCCESSFUL_CREATE,
            format!("create Claim {name} Pod {pod} in StatefulSet {owner} success"),
        ),
        (
            event::FAILED_CREATE,
            format!("create Claim {name} for Pod {pod} in StatefulSet {owner} failed error: "),
        ),
    );
    PlannedWrite { write: WriteOperation::Create(claim.into()), report: Some(report) }
}

/// The deletion of a pod, with its events.
pub(super) fn deletion(set: &Arc<StatefulSet>, pod: &Arc<HeldPod>) -> PlannedWrite {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let what = format!("delete Pod {name} in StatefulSet {}", identity::set_name(set));
    let report = report(
        set,
        ("SuccessfulDelete", format!("{what} successful")),
        ("FailedDelete", format!("{what} failed error: ")),
    );
    let write = WriteOperation::delete(&ViewObject::Pod(pod.clone()), DependentPolicy::Default);
    PlannedWrite { write, report: Some(report) }
}

fn report(
    set: &Arc<StatefulSet>,
    (done, said): (&'static str, String),
    (failed, why): (&'static str, String),
) -> WriteNotes {
    let about = ViewObject::StatefulSet(set.clone());
    WriteNotes::new(
        EventNote::new(&about, EventSeverity::Normal, done, said, COMPONENT),
        EventNote::new(&about, EventSeverity::Warning, failed, why, COMPONENT),
    )
}
