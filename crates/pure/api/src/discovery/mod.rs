//! What the server tells of itself: groups, resources, version, health, OpenAPI.

mod aggregated;
mod classic;
mod group_versions;
mod health;
mod openapi;
mod swagger;
mod version;

pub(crate) use version::MINOR;

use std::cell::LazyCell;

use group_versions::group_versions;
use http::{Method, StatusCode};

use crate::api_services::listed_api_service::listed;
use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::request::{ApiRequest, ResourcePath, accept};
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
        let all = &LazyCell::new(|| group_versions(registry, listed(api)));
        let aggregated = accept::wants_aggregated_discovery(&request.accept);
        match parts {
            [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] => {
                health::answer(api, endpoint, check, &request.query)
            }
            ["version"] => Ok(ApiAnswer::json(StatusCode::OK, version::json())),
            ["api"] if aggregated => Ok(aggregated::core(all)),
            ["apis"] if aggregated => Ok(aggregated::groups(all)),
            ["api"] => Ok(classic::core_versions()),
            ["apis"] => Ok(classic::groups(all)),
            ["api", "v1"] => classic::resources(all, "", "v1"),
            ["apis", group] => Ok(classic::group(all, group)),
            ["apis", group, version] => classic::resources(all, group, version),
            ["openapi", "v2"] => Ok(swagger::document(&request.accept)),
            ["openapi", "v3"] => Ok(self.openapi.index(registry, all)),
            ["openapi", "v3", "api", version] => {
                self.openapi.document(registry, "", version, request)
            }
            ["openapi", "v3", "apis", group, version] => {
                self.openapi.document(registry, group, version, request)
            }
            [".well-known", "openid-configuration"] => api.tokens.configuration(),
            ["openid", "v1", "jwks"] => api.tokens.keys(),
            [] => Ok(classic::paths(all)),
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

fn json(value: &serde_json::Value) -> ApiAnswer {
    ApiAnswer::json(StatusCode::OK, value.to_string())
}
