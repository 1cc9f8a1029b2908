//! What a user may do. So far: members of `system:masters`, which our own components are in, may do everything; others may
//! look at discovery, health and version, and ask what they may do.

use super::user::{Identity, MASTERS};
use crate::status::ApiError;

/// Decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorizer {
    /// `system:masters` only.
    #[default]
    Masters,
    /// Everybody may do everything: for tests and the simulator.
    AlwaysAllow,
}

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
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
pub enum Decision {
    /// It may be done.
    Allow,
    /// It may not.
    Deny,
}

impl Authorizer {
    /// Whether `who` may do `what`.
    pub fn decide(self, who: &Identity, what: &Attributes<'_>) -> Decision {
        let allowed = match self {
            Self::AlwaysAllow => true,
            Self::Masters => match who {
                Identity::Anonymous => is_public(what),
                Identity::User(user) => user.is_in(MASTERS) || is_for_all_users(what),
            },
        };
        if allowed { Decision::Allow } else { Decision::Deny }
    }

    /// [`Authorizer::decide`], with the error that a client gets: 401 without an identity, else 403.
    pub fn check(self, who: &Identity, what: &Attributes<'_>) -> Result<(), ApiError> {
        match (self.decide(who, what), who) {
            (Decision::Allow, _) => Ok(()),
            (Decision::Deny, Identity::Anonymous) => Err(ApiError::unauthorized()),
            (Decision::Deny, Identity::User(_)) => Err(denied(who, what)),
        }
    }
}

/// What `system:public-info-viewer` may see upstream, which our anonymous clients may too.
fn is_public(what: &Attributes<'_>) -> bool {
    let Attributes::Path { path, .. } = what else { return false };
    ["/healthz", "/livez", "/readyz"].iter().any(|public| {
        path.strip_prefix(public).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }) || *path == "/version"
}

/// What every user may do upstream: discover, and ask about themselves (`system:discovery`, `system:basic-user`).
fn is_for_all_users(what: &Attributes<'_>) -> bool {
    match what {
        Attributes::Path { path, .. } => {
            is_public(what)
                || *path == "/"
                || ["/api", "/apis", "/openapi"].iter().any(|start| path.starts_with(start))
        }
        Attributes::Resource { verb, group, resource, .. } => {
            *verb == "create"
                && matches!(
                    (*group, *resource),
                    (
                        "authorization.k8s.io",
                        "selfsubjectaccessreviews" | "selfsubjectrulesreviews"
                    ) | ("authentication.k8s.io", "selfsubjectreviews")
                )
        }
    }
}

fn denied(who: &Identity, what: &Attributes<'_>) -> ApiError {
    let user = who.name();
    match what {
        Attributes::Path { verb, path } => {
            let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
            ApiError::not_allowed("", "", "", message)
        }
        Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
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
    use super::*;
    use crate::auth::UserInfo;

    fn pods<'a>(name: &'a str, namespace: &'a str) -> Attributes<'a> {
        Attributes::Resource {
            verb: "get",
            group: "",
            resource: "pods",
            subresource: "log",
            namespace,
            name,
        }
    }

    #[test]
    fn only_masters_may_touch_objects_and_the_refusal_reads_as_upstream() {
        let admin = Identity::User(UserInfo::internal("admin"));
        let bob = Identity::User(UserInfo::new("bob", []));
        assert_eq!(Authorizer::Masters.check(&admin, &pods("web", "shop")), Ok(()));
        for (what, message) in [
            (
                pods("web", "shop"),
                "pods \"web\" is forbidden: User \"bob\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"shop\"",
            ),
            (
                Attributes::Resource {
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
                Attributes::Path { verb: "get", path: "/metrics" },
                "forbidden: User \"bob\" cannot get path \"/metrics\"",
            ),
        ] {
            let error = Authorizer::Masters.check(&bob, &what).unwrap_err();
            assert_eq!((error.to_string().as_str(), error.code().as_u16()), (message, 403));
        }
    }

    #[test]
    fn nobody_sees_health_and_version_and_nothing_else() {
        let path = |path| Attributes::Path { verb: "get", path };
        for public in ["/healthz", "/livez", "/readyz", "/readyz/ping", "/version"] {
            assert_eq!(
                Authorizer::Masters.check(&Identity::Anonymous, &path(public)),
                Ok(()),
                "{public}"
            );
        }
        for private in ["/", "/api", "/apis", "/openapi/v3", "/healthzz", "/versions"] {
            let error =
                Authorizer::Masters.check(&Identity::Anonymous, &path(private)).unwrap_err();
            assert_eq!(error.code().as_u16(), 401, "{private}");
        }
        let error = Authorizer::Masters.check(&Identity::Anonymous, &pods("a", "b")).unwrap_err();
        assert_eq!(error.code().as_u16(), 401);
    }
}
