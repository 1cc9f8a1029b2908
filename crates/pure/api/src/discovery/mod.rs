//! What the server tells of itself: groups, resources, version, health, OpenAPI.

mod aggregated;
mod classic;
mod health;
mod openapi;
mod swagger;
mod version;

pub(crate) use version::MINOR;

use http::{Method, StatusCode};

use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::registry::{KindEntry, Registry, Subresource};
use crate::request::{ApiRequest, accept};
use crate::resource_metrics;
use crate::reviews;
use crate::shared::ApiShared;
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
        api: &ApiShared,
        path: &str,
        request: &ApiRequest,
    ) -> Result<RequestOutcome, ApiError> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return Err(ApiError::method_not_allowed());
        }
        if parts == ["metrics"] {
            return Ok(RequestOutcome::Metrics);
        }
        let answer = self.answer(api, &parts, request)?;
        Ok(answer.into())
    }

    fn answer(
        &self,
        api: &ApiShared,
        parts: &[&str],
        request: &ApiRequest,
    ) -> Result<ApiAnswer, ApiError> {
        let registry = &api.registry;
        let aggregated = accept::wants_aggregated_discovery(&request.accept);
        match parts {
            [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] => {
                health::answer(api, endpoint, check, &request.query)
            }
            ["version"] => Ok(ApiAnswer::json(StatusCode::OK, version::json())),
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
            _ => Ok(ApiAnswer::text(StatusCode::NOT_FOUND, "404 page not found\n")),
        }
    }
}

/// One group version with its resources: what both forms of discovery show.
struct GroupVersion {
    group: &'static str,
    version: &'static str,
    resources: Vec<DiscoveryResource>,
}

/// One resource, or a subresource.
struct DiscoveryResource {
    /// `pods`, or the name of a subresource.
    name: &'static str,
    kind: DiscoveryKind,
    scope: crate::registry::ResourceScope,
    singular: &'static str,
    verbs: &'static [&'static str],
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    subresources: Vec<DiscoveryResource>,
}

/// What kind of object an answer holds.
struct DiscoveryKind {
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
    let resource = |metrics: &resource_metrics::MetricsKind| DiscoveryResource {
        name: metrics.plural,
        kind: DiscoveryKind { group, version, kind: metrics.kind },
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

fn resource(entry: &KindEntry) -> DiscoveryResource {
    DiscoveryResource {
        name: entry.plural,
        kind: DiscoveryKind { group: entry.group, version: entry.version, kind: entry.kind },
        scope: entry.scope,
        singular: entry.singular,
        verbs: ALL_VERBS,
        short_names: entry.short_names,
        categories: entry.categories,
        subresources: entry.subresources.iter().map(|sub| subresource(entry, *sub)).collect(),
    }
}

/// What a proxy passes on, in the words of authorization.
const PROXY_VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];

fn subresource(entry: &KindEntry, sub: Subresource) -> DiscoveryResource {
    let own = DiscoveryKind { group: entry.group, version: entry.version, kind: entry.kind };
    let options = |kind| DiscoveryKind { group: "", version: "v1", kind };
    let (kind, verbs): (DiscoveryKind, &[&str]) = match sub {
        Subresource::Status | Subresource::Resize | Subresource::EphemeralContainers => {
            (own, &["get", "patch", "update"])
        }
        Subresource::Scale => (
            DiscoveryKind { group: "autoscaling", version: "v1", kind: "Scale" },
            &["get", "patch", "update"],
        ),
        Subresource::Binding => {
            (DiscoveryKind { group: "", version: "v1", kind: "Binding" }, &["create"])
        }
        Subresource::Eviction => {
            (DiscoveryKind { group: "policy", version: "v1", kind: "Eviction" }, &["create"])
        }
        Subresource::Log => (own, &["get"]),
        Subresource::Exec => (options("PodExecOptions"), &["create", "get"]),
        Subresource::Attach => (options("PodAttachOptions"), &["create", "get"]),
        Subresource::PortForward => (options("PodPortForwardOptions"), &["create", "get"]),
        Subresource::Finalize => (own, &["update"]),
        Subresource::Token => (
            DiscoveryKind { group: "authentication.k8s.io", version: "v1", kind: "TokenRequest" },
            &["create"],
        ),
        Subresource::Proxy if entry.kind == "Pod" => (options("PodProxyOptions"), PROXY_VERBS),
        Subresource::Proxy => (options("ServiceProxyOptions"), PROXY_VERBS),
        Subresource::NodeProxy => (options("NodeProxyOptions"), &["get"]),
    };
    DiscoveryResource {
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

fn review_resource(review: &reviews::ReviewKind) -> DiscoveryResource {
    DiscoveryResource {
        name: review.plural,
        kind: DiscoveryKind { group: review.group, version: reviews::VERSION, kind: review.kind },
        scope: review.scope,
        singular: review.singular,
        verbs: &["create"],
        short_names: &[],
        categories: &[],
        subresources: Vec::new(),
    }
}

fn json(value: &serde_json::Value) -> ApiAnswer {
    ApiAnswer::json(StatusCode::OK, value.to_string())
}
