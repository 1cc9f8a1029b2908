//! How a status is written to the API: a merge patch of everything that the node owns in it.
//!
//! The patch is conditional on the resourceVersion that was seen last, because it carries the whole list of conditions: one
//! that somebody else owns (DisruptionTarget, a readiness gate) is taken over from the object as seen.

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use serde_json::{Map, Value, json};

use crate::conditions::owns_condition;

/// Status fields that the node owns: one that the core leaves out is removed from the API.
const OWNED: [&str; 12] = [
    "containerStatuses",
    "hostIP",
    "hostIPs",
    "initContainerStatuses",
    "message",
    "observedGeneration",
    "phase",
    "podIP",
    "podIPs",
    "qosClass",
    "reason",
    "startTime",
];

/// What a status is written on: the object as it was last seen in the API.
#[derive(Clone, Debug, Default)]
pub struct StatusWrite {
    /// Its version; without one the write is not conditional.
    pub resource_version: Option<String>,
    conditions: Vec<PodCondition>,
}

impl StatusWrite {
    /// On this object.
    pub fn on(pod: &Pod) -> Self {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone());
        Self {
            resource_version: pod.metadata.resource_version.clone(),
            conditions: conditions.unwrap_or_default(),
        }
    }

    /// The merge patch for the subresource `status` of the pod with this UID.
    pub fn patch(&self, uid: &str, status: &PodStatus) -> Value {
        let mut fields = match serde_json::to_value(status) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) | Err(_) => Map::new(), // a PodStatus is an object
        };
        for name in OWNED {
            fields.entry(name).or_insert(Value::Null);
        }
        let own = status.conditions.iter().flatten();
        let foreign = self.conditions.iter().filter(|seen| {
            let written = status.conditions.iter().flatten().any(|own| own.type_ == seen.type_);
            !written && !owns_condition(&seen.type_)
        });
        let conditions: Vec<&PodCondition> = own.chain(foreign).collect();
        fields.insert("conditions".to_owned(), json!(conditions));
        let mut metadata = Map::new();
        metadata.insert("uid".to_owned(), json!(uid));
        if let Some(version) = &self.resource_version {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        json!({ "metadata": metadata, "status": fields })
    }
}
