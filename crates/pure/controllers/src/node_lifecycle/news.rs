//! Events about nodes that come and go, in the words of upstream's node lifecycle controller.
//!
//! Upstream says `RegisteredNode` of every node whenever the controller starts, as it knows none
//! then. Here it is said of a node that is new: controllers that start, or take over, find the
//! others registered, and nobody has to read that once more.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick, TickDuration};

use super::silence::NAME;
use crate::events::{EventNote, EventSubject};
use crate::{ClusterView, ControllerKey, ObjectChange, ResourceKind, ViewObject, WritePlan};

/// How long a node is new. It may have registered before the controllers ran, or while others led.
const NEW: TickDuration = TickDuration::from_secs(60);

pub(crate) fn affected(change: &ObjectChange, keys: &mut BTreeSet<ControllerKey>) {
    let (before, after) = (uid(change.before.as_ref()), uid(change.after.as_ref()));
    if before == after {
        return;
    }
    let name = &change.id.name.name;
    keys.extend(
        before
            .into_iter()
            .chain(after)
            .map(|uid| ControllerKey::NodeNews { name: name.clone(), uid }),
    );
}

fn uid(object: Option<&ViewObject>) -> Option<String> {
    let Some(ViewObject::Node(node)) = object else { return None };
    Some(node.metadata.uid.clone().unwrap_or_default())
}

/// Says that the node of this UID came or went. It is looked at once for each of the two, and never
/// again by itself.
pub(crate) fn reconcile(view: &ClusterView, name: &str, uid: &str, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let present = view.node(name).filter(|node| node.metadata.uid.as_deref() == Some(uid));
    let (reason, message) = match present {
        Some(node) if is_new(node, now) => {
            (event::REGISTERED_NODE, format!("Registered Node {name} in Controller"))
        }
        Some(_) => return plan,
        None => (event::REMOVING_NODE, format!("Removing Node {name} from Controller")),
    };
    let about = EventSubject {
        api_version: ResourceKind::Node.api_version(),
        kind: ResourceKind::Node.info().kind,
        namespace: String::new(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    };
    let severity = EventSeverity::Normal;
    plan.notes.push(EventNote { about, severity, reason, message, component: NAME, kind: None });
    plan
}

fn is_new(node: &Node, now: Tick) -> bool {
    let created = node.metadata.creation_timestamp.as_ref();
    created.is_none_or(|created| now.since(Tick::from(created)) <= NEW)
}
