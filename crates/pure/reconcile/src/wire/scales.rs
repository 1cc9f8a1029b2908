//! The request for the scale of a custom resource, and what its answer says.

use http::Request;
use k8s_openapi::api::autoscaling::v1::Scale;
use rekindle_controllers::ObjectId;
use rekindle_controllers::readings::{ScaleReading, WorkloadScale};
use rekindle_types::label_query::LabelSelector;

use super::paths::path;
use super::requests::WriteRequestError;

/// Asks for the scale of an object.
///
/// # Errors
/// When the object has no place in the API.
pub fn scale_request(id: &ObjectId) -> Result<Request<Vec<u8>>, WriteRequestError> {
    Ok(Request::get(path(id, "/scale")?).body(Vec::new())?)
}

/// What the answer says.
pub fn scale_of_success(text: &[u8]) -> ScaleReading {
    let scale: Scale =
        serde_json::from_slice(text).map_err(|error| format!("read the answer: {error}"))?;
    let status = scale.status.unwrap_or_default();
    let selector = LabelSelector::parse(status.selector.as_deref().unwrap_or_default())
        .map_err(|why| format!("read the selector: {why}"))?;
    Ok(WorkloadScale {
        uid: scale.metadata.uid.unwrap_or_default(),
        resource_version: scale.metadata.resource_version.unwrap_or_default(),
        wanted: scale.spec.and_then(|spec| spec.replicas).unwrap_or_default(),
        observed: status.replicas,
        selector: match selector.is_everything() {
            true => None,
            false => Some(selector.to_object()?),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_scale_is_read_with_the_pods_that_it_selects() {
        let scale = |selector: &str| {
            let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
                "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7"},
                "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": selector}});
            scale_of_success(scale.to_string().as_bytes())
        };
        let read = scale("app=web").unwrap();
        assert_eq!((read.uid.as_str(), read.resource_version.as_str()), ("u1", "7"));
        assert_eq!((read.wanted, read.observed), (3, 2));
        assert_eq!(json!(read.selector), json!({"matchLabels": {"app": "web"}}));
        assert_eq!(scale("").unwrap().selector, None);
        assert!(scale("app in").unwrap_err().starts_with("read the selector: "));
    }
}
