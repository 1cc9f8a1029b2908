//! What the server tells of itself: groups, resources, version, health, OpenAPI.

pub(crate) mod aggregated;
mod classic;
mod gnostic;
mod group_versions;
mod health;
mod openapi;
mod swagger;
mod version;

pub(crate) use version::MINOR;

use std::cell::LazyCell;

use group_versions::{GroupVersion, group_versions};
use http::{Method, StatusCode};
use rekindle_kinds::registry::{KindOrigin, Registry};

use crate::api_services::listed_api_service::listed;
use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::request::accept::{self, DiscoveryForm, HandlerTypes};
use crate::request::{ApiRequest, ResourcePath};
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
        self.answer(api, &parts, request).map(RequestOutcome::from)
    }

    fn answer(
        &self,
        api: &ApiShared,
        parts: &[&str],
        request: &ApiRequest,
    ) -> Result<ApiAnswer, ApiError> {
        let registry = &LazyCell::new(|| api.custom.served(api));
        let all = &LazyCell::new(|| group_versions(registry, listed(api)));
        match parts {
            ["api" | "apis", ..] => kinds(&request.accept, parts, (registry, all)),
            [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] => {
                health::answer(api, endpoint, check, &request.query)
            }
            ["version"] => {
                accept::check_handler(&request.accept, HandlerTypes::Json)?;
                Ok(ApiAnswer::json(StatusCode::OK, version::json()))
            }
            ["openapi", "v2"] => Ok(swagger::document(registry, &request.accept)),
            ["openapi", "v3"] => Ok(self.openapi.index(registry, all)),
            ["openapi", "v3", "api", version] => {
                self.openapi.document(registry, "", version, request)
            }
            ["openapi", "v3", "apis", group, version] => {
                self.openapi.document(registry, group, version, request)
            }
            [".well-known", "openid-configuration"] => api.tokens.configuration(),
            ["openid", "v1", "jwks"] => api.tokens.key_set(),
            [] => Ok(classic::paths(all)),
            _ => Ok(no_page()),
        }
    }
}

/// The kinds that are served, at `/api` and `/apis` and below them. A group that has handlers of
/// its own refuses media types as those of objects do; what is made of definitions has none.
fn kinds(
    accept: &str,
    parts: &[&str],
    (registry, all): (&Registry, &[GroupVersion]),
) -> Result<ApiAnswer, ApiError> {
    let has_handler = match parts {
        ["api"] | ["api", "v1"] => true,
        ["apis", group, version] => {
            let mut of_group = registry.in_group(group).filter(|entry| entry.version == *version);
            of_group.any(|entry| entry.origin == KindOrigin::BuiltIn)
        }
        _ => false,
    };
    if has_handler {
        accept::check_handler(accept, HandlerTypes::Objects)?;
    }
    let answer = match parts {
        ["api"] | ["apis"] => return all_kinds(accept, parts, all),
        ["api", "v1"] => classic::resources(all, "", "v1")?,
        ["apis", group] => classic::group(all, group),
        ["apis", group, version] => classic::resources(all, group, version)?,
        ["api", ..] => return Err(ApiError::no_such_path()),
        _ => no_page(),
    };
    if answer.code != StatusCode::OK {
        return Ok(answer);
    }
    Ok(answer.encoded(accept::negotiate_encoding(accept)?))
}

/// `/api` or `/apis`, in the form that the client likes best.
fn all_kinds(accept: &str, parts: &[&str], all: &[GroupVersion]) -> Result<ApiAnswer, ApiError> {
    let (form, encoding) = accept::negotiate_discovery(accept)?;
    let answer = match (form, parts) {
        (DiscoveryForm::Classic, ["api"]) => classic::core_versions(),
        (DiscoveryForm::Classic, _) => classic::groups(all),
        (DiscoveryForm::Aggregated, ["api"]) => aggregated::core(all),
        (DiscoveryForm::Aggregated, _) => aggregated::groups(all),
    };
    Ok(answer.encoded(encoding))
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

fn json(value: &serde_json::Value) -> ApiAnswer {
    ApiAnswer::json(StatusCode::OK, value.to_string())
}
