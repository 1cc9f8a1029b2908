//! What the server tells of itself: groups, resources, version, health, OpenAPI.

mod aggregated;
mod classic;
mod health;
mod openapi;
mod swagger;
mod version;

pub(crate) use version::MINOR;

use http::{Method, StatusCode};

use crate::outcome::{Answer, Outcome};
use crate::registry::{KindEntry, Registry, Subresource};
use crate::request::{Request, accept};
use crate::resource_metrics;
use crate::reviews;
use crate::shared::Shared;
use crate::status::ApiError;

/// Serves every path that is no resource.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    openapi: openapi::OpenApi,
}

impl Discovery {
    /// Answers a request for `path` (without a trailing slash).
    pub(crate) fn serve(
        &self,
        api: &Shared,
        path: &str,
        request: &Request,
    ) -> Result<Outcome, ApiError> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return Err(ApiError::method_not_allowed());
        }
        if parts == ["metrics"] {
            return Ok(Outcome::Metrics);
        }
        let answer = self.answer(api, &parts, request)?;
        Ok(answer.into())
    }

    fn answer(&self, api: &Shared, parts: &[&str], request: &Request) -> Result<Answer, ApiError> {
        let registry = &api.registry;
        let aggregated = accept::wants_aggregated_discovery(&request.accept);
        match parts {
            [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] => {
                health::answer(api, endpoint, check, &request.query)
            }
            ["version"] => Ok(Answer::json(StatusCode::OK, version::json())),
            ["api"] if aggregated => aggregated::core(registry),
            ["apis"] if aggregated => aggregated::groups(registry),
            ["api"] => classic::core_versions(),
            ["apis"] => classic::groups(registry),
            ["api", "v1"] => classic::resources(registry, "", "v1"),
            ["apis", group] => classic::group(registry, group),
            ["apis", group, version] => classic::resources(registry, group, version),
            ["openapi", "v2"] => Ok(swagger::document(&request.accept)),
            ["openapi", "v3"] => self.openapi.index(registry),
            ["openapi", "v3", "api", version] => {
                self.openapi.document(registry, "", version, request)
            }
            ["openapi", "v3", "apis", group, version] => {
                self.openapi.document(registry, group, version, request)
            }
            [".well-known", "openid-configuration"] => api.tokens.configuration(),
            ["openid", "v1", "jwks"] => api.tokens.keys(),
            [] => classic::paths(registry),
            _ => Ok(Answer::text(StatusCode::NOT_FOUND, "404 page not found\n")),
        }
    }
}

/// One group version with its resources: what both forms of discovery show.
struct GroupVersion {
    group: &'static str,
    version: &'static str,
    resources: Vec<Resource>,
}

/// One resource, or a subresource.
struct Resource {
    /// `pods`, or the name of a subresource.
    name: &'static str,
    kind: Kind,
    scope: crate::registry::Scope,
    singular: &'static str,
    verbs: &'static [&'static str],
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    subresources: Vec<Resource>,
}

/// What kind of object an answer holds.
struct Kind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
}

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Everything that is served, the core group first, then by name.
fn group_versions(registry: &Registry) -> Vec<GroupVersion> {
    let mut all: Vec<GroupVersion> = registry
        .group_versions()
        .into_iter()
        .map(|(group, version)| GroupVersion {
            group,
            version,
            resources: registry
                .in_group(group)
                .filter(|entry| entry.version == version)
                .map(resource)
                .collect(),
        })
        .collect();
    for review in &reviews::REVIEWS {
        let resource = review_resource(review);
        match all.iter_mut().find(|known| known.group == review.group) {
            Some(known) => known.resources.push(resource),
            None => all.push(GroupVersion {
                group: review.group,
                version: reviews::VERSION,
                resources: vec![resource],
            }),
        }
    }
    all.push(metrics_group());
    all.sort_by_key(|known| (known.group, known.version));
    all
}

/// What is used now, which is asked of the nodes and never stored.
fn metrics_group() -> GroupVersion {
    let (group, version) = (resource_metrics::GROUP, resource_metrics::VERSION);
    let resource = |metrics: &resource_metrics::MetricsKind| Resource {
        name: metrics.plural,
        kind: Kind { group, version, kind: metrics.kind },
        scope: metrics.scope,
        singular: "",
        verbs: &["get", "list"],
        short_names: &[],
        categories: &[],
        subresources: Vec::new(),
    };
    let resources = resource_metrics::KINDS.iter().map(resource).collect();
    GroupVersion { group, version, resources }
}

fn resource(entry: &KindEntry) -> Resource {
    Resource {
        name: entry.plural,
        kind: Kind { group: entry.group, version: entry.version, kind: entry.kind },
        scope: entry.scope,
        singular: entry.singular,
        verbs: ALL_VERBS,
        short_names: entry.short_names,
        categories: entry.categories,
        subresources: entry.subresources.iter().map(|sub| subresource(entry, *sub)).collect(),
    }
}

fn subresource(entry: &KindEntry, sub: Subresource) -> Resource {
    let own = Kind { group: entry.group, version: entry.version, kind: entry.kind };
    let options = |kind| Kind { group: "", version: "v1", kind };
    let (kind, verbs): (Kind, &[&str]) = match sub {
        Subresource::Status | Subresource::Resize | Subresource::EphemeralContainers => {
            (own, &["get", "patch", "update"])
        }
        Subresource::Scale => (
            Kind { group: "autoscaling", version: "v1", kind: "Scale" },
            &["get", "patch", "update"],
        ),
        Subresource::Binding => (Kind { group: "", version: "v1", kind: "Binding" }, &["create"]),
        Subresource::Eviction => {
            (Kind { group: "policy", version: "v1", kind: "Eviction" }, &["create"])
        }
        Subresource::Log => (own, &["get"]),
        Subresource::Exec => (options("PodExecOptions"), &["create", "get"]),
        Subresource::Attach => (options("PodAttachOptions"), &["create", "get"]),
        Subresource::PortForward => (options("PodPortForwardOptions"), &["create", "get"]),
        Subresource::Finalize => (own, &["update"]),
        Subresource::Token => (
            Kind { group: "authentication.k8s.io", version: "v1", kind: "TokenRequest" },
            &["create"],
        ),
        Subresource::NodeProxy => (options("NodeProxyOptions"), &["get"]),
    };
    Resource {
        name: sub.name(),
        kind,
        scope: entry.scope,
        singular: "",
        verbs,
        short_names: &[],
        categories: &[],
        subresources: Vec::new(),
    }
}

fn review_resource(review: &reviews::Review) -> Resource {
    Resource {
        name: review.plural,
        kind: Kind { group: review.group, version: reviews::VERSION, kind: review.kind },
        scope: review.scope,
        singular: review.singular,
        verbs: &["create"],
        short_names: &[],
        categories: &[],
        subresources: Vec::new(),
    }
}

fn json(value: &serde_json::Value) -> Answer {
    Answer::json(StatusCode::OK, value.to_string())
}
