//! What the server tells of itself: groups, resources, version, health, OpenAPI.

mod aggregated;
mod classic;
mod health;
mod openapi;
mod swagger;
mod version;

pub(crate) use version::MINOR;

use std::borrow::Cow;
use std::cell::LazyCell;
use std::cmp::Ordering;

use http::{Method, StatusCode};

use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::registry::{KindEntry, Registry, Subresource};
use crate::request::{ApiRequest, ResourcePath, accept};
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
        // these are served by a router that knows no HEAD
        let is_routed = matches!(parts.first(), Some(&("api" | "apis" | "version")));
        if request.method == Method::HEAD && is_routed {
            return Err(ApiError::method_not_allowed());
        }
        if parts == ["metrics"] {
            return Ok(RequestOutcome::Metrics);
        }
        if parts == [BACKUP] {
            return Ok(RequestOutcome::Backup);
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
        let registry = &LazyCell::new(|| api.custom.served(api));
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
            ["api", ..] => Err(ApiError::no_such_path()),
            _ => Ok(no_page()),
        }
    }
}

/// The path of [`RequestOutcome::Backup`].
const BACKUP: &str = "backup";

/// Whether this is the path of backups, which show every object.
pub(crate) fn is_backup(path: &str) -> bool {
    path.trim_matches('/') == BACKUP
}

/// Whether the answer at a path is made of all kinds that are served: the index of paths, discovery
/// and OpenAPI.
pub(crate) fn lists_kinds(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next();
    matches!(first, Some("" | "api" | "apis" | "openapi"))
}

/// The answer where no resource is served. As upstream, a group of the server's own says so in an
/// object, and any other place as a page.
pub(crate) fn nothing_served(
    api: &ApiShared,
    path: &ResourcePath,
) -> Result<RequestOutcome, ApiError> {
    match api.registry.in_group(&path.group).next() {
        Some(_) => Err(ApiError::no_such_path()),
        None => Ok(no_page().into()),
    }
}

/// The answer to a path with a slash too many, which names nothing upstream.
pub(crate) fn misspelt(
    api: &ApiShared,
    text: &str,
    path: &ResourcePath,
) -> Result<RequestOutcome, ApiError> {
    match text.starts_with("//") {
        true => Ok(no_page().into()),
        false => nothing_served(api, path),
    }
}

/// The answer where nothing is served.
fn no_page() -> ApiAnswer {
    ApiAnswer::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// One group version with its resources: what both forms of discovery show.
struct GroupVersion {
    group: Cow<'static, str>,
    version: Cow<'static, str>,
    resources: Vec<DiscoveryResource>,
}

/// One resource, or a subresource.
struct DiscoveryResource {
    /// `pods`, or the name of a subresource.
    name: Cow<'static, str>,
    kind: DiscoveryKind,
    scope: crate::registry::ResourceScope,
    singular: Cow<'static, str>,
    verbs: &'static [&'static str],
    short_names: Vec<Cow<'static, str>>,
    categories: Vec<Cow<'static, str>>,
    subresources: Vec<DiscoveryResource>,
}

/// What kind of object an answer holds.
struct DiscoveryKind {
    group: Cow<'static, str>,
    version: Cow<'static, str>,
    kind: Cow<'static, str>,
}

impl DiscoveryKind {
    const fn new(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
        }
    }

    fn of_entry(entry: &KindEntry) -> Self {
        let (group, version, kind) = (&entry.group, &entry.version, &entry.kind);
        Self { group: group.clone(), version: version.clone(), kind: kind.clone() }
    }
}

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Everything that is served, the core group first, then by name.
fn group_versions(registry: &Registry) -> Vec<GroupVersion> {
    let mut all: Vec<GroupVersion> = registry
        .group_versions()
        .into_iter()
        .map(|(group, version)| GroupVersion {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            resources: registry
                .in_group(group)
                .filter(|entry| entry.version == version)
                .map(|entry| resource(entry))
                .collect(),
        })
        .collect();
    for review in &reviews::REVIEWS {
        let resource = review_resource(review);
        let is_of_version = |known: &&mut GroupVersion| {
            known.group == review.group && known.version == reviews::VERSION
        };
        match all.iter_mut().find(is_of_version) {
            Some(known) => known.resources.push(resource),
            None => all.push(GroupVersion {
                group: review.group.into(),
                version: reviews::VERSION.into(),
                resources: vec![resource],
            }),
        }
    }
    let metrics = metrics_group();
    let mut known = all.iter_mut();
    match known.find(|known| known.group == metrics.group && known.version == metrics.version) {
        Some(known) => known.resources.extend(metrics.resources),
        None => all.push(metrics),
    }
    all.sort_by(|a, b| a.group.cmp(&b.group).then_with(|| by_maturity(&a.version, &b.version)));
    all
}

/// Versions as upstream orders them: stable ones first, then beta, then alpha, each from the newest
/// to the oldest; then all other names.
fn by_maturity(a: &str, b: &str) -> Ordering {
    let rank = |version: &str| -> Option<(u32, u32, u32)> {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, rest) = rest.split_at(end);
        let major = major.parse().ok()?;
        let minor = |digits: &str| digits.parse().ok();
        match rest {
            "" => Some((2, major, 0)),
            rest if rest.starts_with("beta") => Some((1, major, minor(&rest[4..])?)),
            rest if rest.starts_with("alpha") => Some((0, major, minor(&rest[5..])?)),
            _ => None,
        }
    };
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// What is used now, which is asked of the nodes and never stored.
fn metrics_group() -> GroupVersion {
    let (group, version) = (resource_metrics::GROUP, resource_metrics::VERSION);
    let resource = |metrics: &resource_metrics::MetricsKind| DiscoveryResource {
        name: metrics.plural.into(),
        kind: DiscoveryKind::new(group, version, metrics.kind),
        scope: metrics.scope,
        singular: "".into(),
        verbs: &["get", "list"],
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
    };
    let resources = resource_metrics::KINDS.iter().map(resource).collect();
    GroupVersion { group: group.into(), version: version.into(), resources }
}

fn resource(entry: &KindEntry) -> DiscoveryResource {
    DiscoveryResource {
        name: entry.plural.clone(),
        kind: DiscoveryKind::of_entry(entry),
        scope: entry.scope,
        singular: entry.singular.clone(),
        verbs: ALL_VERBS,
        short_names: entry.short_names.clone(),
        categories: entry.categories.clone(),
        subresources: entry.subresources.iter().map(|sub| subresource(entry, *sub)).collect(),
    }
}

/// What a proxy passes on, in the words of authorization.
const PROXY_VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];

fn subresource(entry: &KindEntry, sub: Subresource) -> DiscoveryResource {
    let own = DiscoveryKind::of_entry(entry);
    let options = |kind| DiscoveryKind::new("", "v1", kind);
    let (kind, verbs): (DiscoveryKind, &[&str]) = match sub {
        Subresource::Status
        | Subresource::Resize
        | Subresource::EphemeralContainers
        | Subresource::Approval => (own, &["get", "patch", "update"]),
        Subresource::Scale => {
            (DiscoveryKind::new("autoscaling", "v1", "Scale"), &["get", "patch", "update"])
        }
        Subresource::Binding => (DiscoveryKind::new("", "v1", "Binding"), &["create"]),
        Subresource::Eviction => (DiscoveryKind::new("policy", "v1", "Eviction"), &["create"]),
        Subresource::Log => (own, &["get"]),
        Subresource::Exec => (options("PodExecOptions"), &["create", "get"]),
        Subresource::Attach => (options("PodAttachOptions"), &["create", "get"]),
        Subresource::PortForward => (options("PodPortForwardOptions"), &["create", "get"]),
        Subresource::Finalize => (own, &["update"]),
        Subresource::Token => {
            (DiscoveryKind::new("authentication.k8s.io", "v1", "TokenRequest"), &["create"])
        }
        Subresource::Proxy if entry.kind == "Pod" => (options("PodProxyOptions"), PROXY_VERBS),
        Subresource::Proxy => (options("ServiceProxyOptions"), PROXY_VERBS),
        Subresource::NodeProxy => (options("NodeProxyOptions"), &["get"]),
    };
    DiscoveryResource {
        name: sub.name().into(),
        kind,
        scope: entry.scope,
        singular: "".into(),
        verbs,
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
    }
}

fn review_resource(review: &reviews::ReviewKind) -> DiscoveryResource {
    DiscoveryResource {
        name: review.plural.into(),
        kind: DiscoveryKind::new(review.group, reviews::VERSION, review.kind),
        scope: review.scope,
        singular: review.singular.into(),
        verbs: &["create"],
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
    }
}

fn json(value: &serde_json::Value) -> ApiAnswer {
    ApiAnswer::json(StatusCode::OK, value.to_string())
}
