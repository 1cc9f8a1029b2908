//! What the status of a CustomResourceDefinition says.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Whether a definition once got all the names that it asked for: its kind is served from then on.
pub fn is_established(definition: &CustomResourceDefinition) -> bool {
    let status = definition.status.as_ref();
    let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Established" && condition.status == "True")
}
