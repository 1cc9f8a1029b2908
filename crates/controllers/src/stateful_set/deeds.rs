//! What is made and deleted for a StatefulSet, with the events about it.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;

use super::{COMPONENT, identity};
use crate::Object;
use crate::events::{Note, Severity};
use crate::plan::{Propagation, Report, Step, Write};

/// The creation of an object, with the events that upstream makes of it; `what` is `Pod web-0`.
pub(super) fn creation(set: &Arc<StatefulSet>, object: Object, what: &str) -> Step {
    Step { write: Write::Create(object), report: Some(report(set, Deed::Create, what)) }
}

/// The deletion of a pod, with its events.
pub(super) fn deletion(set: &Arc<StatefulSet>, pod: &Arc<Pod>) -> Step {
    let what = format!("Pod {}", pod.metadata.name.as_deref().unwrap_or_default());
    let write = Write::delete(&Object::Pod(pod.clone()), Propagation::Default);
    Step { write, report: Some(report(set, Deed::Delete, &what)) }
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Create,
    Delete,
}

fn report(set: &Arc<StatefulSet>, deed: Deed, what: &str) -> Report {
    let about = Object::StatefulSet(set.clone());
    let (verb, succeeded, failed) = match deed {
        Deed::Create => ("create", "SuccessfulCreate", "FailedCreate"),
        Deed::Delete => ("delete", "SuccessfulDelete", "FailedDelete"),
    };
    let text = format!("{verb} {what} in StatefulSet {}", identity::set_name(set));
    Report {
        success: Note::new(
            &about,
            Severity::Normal,
            succeeded,
            format!("{text} successful"),
            COMPONENT,
        ),
        failure: Note::new(
            &about,
            Severity::Warning,
            failed,
            format!("{text} failed error: "),
            COMPONENT,
        ),
    }
}
