//! What is made and deleted for a StatefulSet, with the events about it.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::{COMPONENT, identity};
use crate::Object;
use crate::events::{Note, Severity};
use crate::plan::{Propagation, Report, Step, Write};

/// The creation of a pod, with the events that upstream makes of it.
pub(super) fn creation(set: &Arc<StatefulSet>, pod: Pod) -> Step {
    let what = format!("create Pod {}", pod.metadata.name.as_deref().unwrap_or_default());
    let text = Text { done: format!("{what} in"), tried: format!("{what} in"), end: "successful" };
    Step { write: Write::Create(pod.into()), report: Some(report(set, Deed::Create, text)) }
}

/// The creation of a claim for a pod, with its events, which upstream words in another way.
pub(super) fn claim_creation(
    set: &Arc<StatefulSet>,
    claim: PersistentVolumeClaim,
    pod: &str,
) -> Step {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let text = Text {
        done: format!("create Claim {name} Pod {pod} in"),
        tried: format!("create Claim {name} for Pod {pod} in"),
        end: "success",
    };
    Step { write: Write::Create(claim.into()), report: Some(report(set, Deed::Create, text)) }
}

/// The deletion of a pod, with its events.
pub(super) fn deletion(set: &Arc<StatefulSet>, pod: &Arc<Pod>) -> Step {
    let what = format!("delete Pod {}", pod.metadata.name.as_deref().unwrap_or_default());
    let text = Text { done: format!("{what} in"), tried: format!("{what} in"), end: "successful" };
    let write = Write::delete(&Object::Pod(pod.clone()), Propagation::Default);
    Step { write, report: Some(report(set, Deed::Delete, text)) }
}

/// What the events say around the name of the set.
struct Text {
    /// Before it, of what succeeded.
    done: String,
    /// Before it, of what failed.
    tried: String,
    /// Behind it, of what succeeded.
    end: &'static str,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Create,
    Delete,
}

fn report(set: &Arc<StatefulSet>, deed: Deed, text: Text) -> Report {
    let about = Object::StatefulSet(set.clone());
    let name = identity::set_name(set);
    let Text { done, tried, end } = text;
    let (succeeded, failed) = match deed {
        Deed::Create => ("SuccessfulCreate", "FailedCreate"),
        Deed::Delete => ("SuccessfulDelete", "FailedDelete"),
    };
    let success = format!("{done} StatefulSet {name} {end}");
    let failure = format!("{tried} StatefulSet {name} failed error: ");
    Report {
        success: vec![Note::new(&about, Severity::Normal, succeeded, success, COMPONENT)],
        failure: Note::new(&about, Severity::Warning, failed, failure, COMPONENT),
    }
}
