//! `/openapi/v3`: an index, and one document per group version.
//!
//! A document is large and asked for rarely (clients keep it under the hash in its address), so it
//! is built when asked for and not kept; only the hashes are.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use http::{StatusCode, header};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::openapi;
use crate::outcome::ApiAnswer;
use crate::registry::Registry;
use crate::request::{ApiRequest, Representation, RequestOptions, accept};
use crate::status::ApiError;

#[derive(Debug, Default)]
pub(super) struct OpenApi {
    /// The hash of each document, by path (`api/v1`).
    hashes: OnceLock<BTreeMap<String, String>>,
}

impl OpenApi {
    pub(super) fn index(&self, registry: &Registry) -> Result<ApiAnswer, ApiError> {
        let paths: Map<String, Value> = self
            .hashes(registry)
            .iter()
            .map(|(path, hash)| {
                let url = format!("/openapi/v3/{path}?hash={hash}");
                (path.clone(), json!({"serverRelativeURL": url}))
            })
            .collect();
        Ok(super::json(&json!({"paths": paths})))
    }

    pub(super) fn document(
        &self,
        registry: &Registry,
        group: &str,
        version: &str,
        request: &ApiRequest,
    ) -> Result<ApiAnswer, ApiError> {
        if accept::negotiate(&request.accept, "")? != Representation::Objects {
            return Err(ApiError::not_acceptable());
        }
        if !registry.group_versions().contains(&(group, version)) {
            return Err(ApiError::no_such_path());
        }
        let mut answer = super::json(&openapi::document(registry, group, version));
        let wanted = RequestOptions::parse(&request.query)?;
        let hash = self.hashes(registry).get(&path(group, version));
        if wanted.get("hash").is_some() && wanted.get("hash") == hash.map(String::as_str) {
            answer
                .headers
                .push((header::CACHE_CONTROL, "public, immutable, max-age=31536000".to_owned()));
        }
        if let Some(hash) = hash {
            answer.headers.push((header::ETAG, format!("\"{hash}\"")));
        }
        debug_assert_eq!(answer.code, StatusCode::OK);
        Ok(answer)
    }

    fn hashes(&self, registry: &Registry) -> &BTreeMap<String, String> {
        self.hashes.get_or_init(|| {
            registry
                .group_versions()
                .into_iter()
                .map(|(group, version)| {
                    let document = openapi::document(registry, group, version).to_string();
                    let digest = Sha256::digest(document.as_bytes());
                    let hash: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
                    (path(group, version), hash)
                })
                .collect()
        })
    }
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}
