//! What a policy decides about: who asks what.

use k8s_openapi::api::authentication::v1::UserInfo;
use serde::Serialize;

/// A request in the words of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditSubject {
    /// The user who was authenticated, before impersonation; none when that failed.
    pub user: Option<UserInfo>,
    /// `get`, `list` and so on. For a path that is no resource: the method in small letters.
    pub verb: String,
    /// The path of the URI.
    pub path: String,
    /// What the request is about; none for a path that is no resource.
    pub object: Option<AuditObjectReference>,
}

impl AuditSubject {
    /// Whether the answer goes on for as long as the client wants: events then tell of its start.
    pub fn is_long_running(&self) -> bool {
        const SUBRESOURCES: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];
        self.object.as_ref().is_some_and(|object| {
            self.verb == "watch" || SUBRESOURCES.contains(&object.subresource.as_str())
        })
    }
}

/// What a request is about. Empty parts are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditObjectReference {
    /// The plural resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The UID that the body of the request names.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The version of the object that the body of the request names.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}
