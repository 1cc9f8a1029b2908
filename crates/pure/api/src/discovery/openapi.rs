//! `/openapi/v3`: an index, and one document per group version.
//!
//! A document is large and asked for rarely (clients keep it under the hash in its address), so it
//! is built when asked for and not kept; only the hashes are.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use http::{StatusCode, header};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::kinds;
use crate::openapi;
use crate::outcome::ApiAnswer;
use crate::registry::Registry;
use crate::request::{ApiRequest, Representation, RequestOptions, accept};
use crate::status::ApiError;

#[derive(Debug, Default)]
pub(super) struct OpenApi {
    /// The hashes of the documents of built-in kinds, by path (`api/v1`).
    built_in: OnceLock<BTreeMap<String, String>>,
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
        let hashes = self.hashes(registry);
        let hash = hashes.get(&path(group, version));
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

    /// The hash of each document. That of a document with kinds of definitions is a hash of the
    /// definitions: there may be thousands of these documents, and each of them changes.
    fn hashes(&self, registry: &Registry) -> BTreeMap<String, String> {
        let built_in = self.built_in.get_or_init(|| {
            let built_in = kinds::all();
            let hash = |(group, version)| {
                let document = openapi::document(&built_in, group, version).to_string();
                (path(group, version), hash(&document))
            };
            built_in.group_versions().into_iter().map(hash).collect()
        });
        let mut hashes = built_in.clone();
        for (group, version) in registry.group_versions() {
            let of_version = registry.in_group(group).filter(|entry| entry.version == version);
            let sources: Vec<String> =
                of_version.filter_map(|entry| entry.codec.schema_source()).collect();
            if !sources.is_empty() {
                hashes.insert(path(group, version), hash(&sources.join("\n")));
            }
        }
        hashes
    }
}

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02X}")).collect()
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}
