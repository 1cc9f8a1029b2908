//! What somebody wants to do, and how a refusal reads. Who may do what is decided in
//! [`crate::auth::rbac`].

use rekindle_kinds::identity::ClientIdentity;

use crate::status::ApiError;

/// How requests are decided about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Members of `system:masters` may do everything; others what roles and bindings give them.
    #[default]
    Rbac,
    /// Everybody may do everything: for tests and the simulator.
    AlwaysAllow,
}

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessAttributes<'a> {
    /// Something with a resource.
    Resource {
        /// `get`, `list`, …
        verb: &'a str,
        /// The group.
        group: &'a str,
        /// The plural resource.
        resource: &'a str,
        /// The subresource; may be empty.
        subresource: &'a str,
        /// The namespace; empty at cluster scope.
        namespace: &'a str,
        /// The name; may be empty.
        name: &'a str,
    },
    /// Something with a path that is no resource.
    Path {
        /// `get`, …
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationDecision {
    /// It may be done.
    Allow,
    /// It may not.
    Deny,
}

impl AccessAttributes<'_> {
    /// The error of somebody who may not: 401 without an identity, else 403.
    pub fn refusal(&self, who: &ClientIdentity) -> ApiError {
        match who {
            ClientIdentity::Anonymous => ApiError::unauthorized(),
            ClientIdentity::User(_) => denied(who, self),
        }
    }
}

/// What `system:public-info-viewer` may see upstream, which our anonymous clients may too, whatever
/// roles say.
pub(crate) fn is_public(what: &AccessAttributes<'_>) -> bool {
    let AccessAttributes::Path { path, .. } = what else { return false };
    ["/healthz", "/livez", "/readyz"].iter().any(|public| {
        path.strip_prefix(public).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }) || *path == "/version"
}

fn denied(who: &ClientIdentity, what: &AccessAttributes<'_>) -> ApiError {
    let user = who.name();
    match what {
        AccessAttributes::Path { verb, path } => {
            let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
            ApiError::not_allowed("", "", "", message)
        }
        AccessAttributes::Resource { verb, group, resource, subresource, namespace, name } => {
            let full = if group.is_empty() {
                (*resource).to_owned()
            } else {
                format!("{resource}.{group}")
            };
            let about = if name.is_empty() { full } else { format!("{full} {name:?}") };
            let what = if subresource.is_empty() {
                (*resource).to_owned()
            } else {
                format!("{resource}/{subresource}")
            };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {namespace:?}")
            };
            let message = format!(
                "{about} is forbidden: User {user:?} cannot {verb} resource {what:?} in API group {group:?} {place}"
            );
            ApiError::not_allowed(group, resource, name, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use rekindle_kinds::identity::UserInfo;

    use super::*;

    fn pods<'a>(name: &'a str, namespace: &'a str) -> AccessAttributes<'a> {
        AccessAttributes::Resource {
            verb: "get",
            group: "",
            resource: "pods",
            subresource: "log",
            namespace,
            name,
        }
    }

    #[test]
    fn a_refusal_reads_as_upstream() {
        let bob = ClientIdentity::User(UserInfo::new("bob", []));
        for (what, message) in [
            (
                pods("web", "shop"),
                "pods \"web\" is forbidden: User \"bob\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"shop\"",
            ),
            (
                AccessAttributes::Resource {
                    verb: "list",
                    group: "apps",
                    resource: "deployments",
                    subresource: "",
                    namespace: "",
                    name: "",
                },
                "deployments.apps is forbidden: User \"bob\" cannot list resource \"deployments\" in API group \"apps\" at the cluster scope",
            ),
            (
                AccessAttributes::Path { verb: "get", path: "/metrics" },
                "forbidden: User \"bob\" cannot get path \"/metrics\"",
            ),
        ] {
            let error = what.refusal(&bob);
            assert_eq!((error.to_string().as_str(), error.code().as_u16()), (message, 403));
        }
        assert_eq!(pods("web", "shop").refusal(&ClientIdentity::Anonymous).code().as_u16(), 401);
    }

    #[test]
    fn health_and_version_are_public_and_nothing_else() {
        let path = |path| AccessAttributes::Path { verb: "get", path };
        for public in ["/healthz", "/livez", "/readyz", "/readyz/ping", "/version"] {
            assert!(is_public(&path(public)), "{public}");
        }
        for private in ["/", "/api", "/apis", "/openapi/v3", "/healthzz", "/versions"] {
            assert!(!is_public(&path(private)), "{private}");
        }
        assert!(!is_public(&pods("a", "b")));
    }
}
