//! The kinds of the view, in kube's words.

use kube::core::ApiResource;
use rekindle_controllers::ResourceKind;

/// Where objects of a kind are.
pub(crate) fn api_resource(kind: ResourceKind) -> ApiResource {
    let info = kind.info();
    let api_version = match info.group {
        "" => info.version.to_owned(),
        group => format!("{group}/{}", info.version),
    };
    ApiResource {
        group: info.group.to_owned(),
        version: info.version.to_owned(),
        api_version,
        kind: info.kind.to_owned(),
        plural: info.plural.to_owned(),
    }
}
