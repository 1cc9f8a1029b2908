//! `/openapi/v3`: an index, and one document per group version.
//!
//! A document is large and asked for rarely (clients keep it under the hash in its address), so it
//! is built when asked for and not kept; only the hashes are.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use http::{StatusCode, header};
use rekindle_kinds::openapi;
use rekindle_kinds::registry::Registry;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::group_versions::{GroupVersion, VersionResources};
use crate::outcome::ApiAnswer;
use crate::request::{ApiRequest, RequestOptions, accept};
use crate::status::ApiError;

#[derive(Debug, Default)]
pub(super) struct OpenApi {
    /// The hashes of the documents of built-in kinds, by path (`api/v1`).
    built_in: OnceLock<BTreeMap<String, String>>,
}

impl OpenApi {
    /// The index. Documents of other servers are in it as these say.
    pub(super) fn index(&self, registry: &Registry, all: &[GroupVersion]) -> ApiAnswer {
        let versions = registry.group_versions().into_iter();
        let mut paths: Map<String, Value> = versions
            .map(|(group, version)| {
                let (path, hash) = (path(group, version), self.hash_of(registry, group, version));
                let url = format!("/openapi/v3/{path}?hash={hash}");
                (path, json!({"serverRelativeURL": url}))
            })
            .collect();
        for known in all {
            let VersionResources::Elsewhere(served) = &known.resources else { continue };
            let path = path(&known.group, &known.version);
            match served.discovery.as_ref().and_then(|discovery| discovery.openapi_hash()) {
                Some(hash) => {
                    let url = match hash {
                        "" => format!("/openapi/v3/{path}"),
                        hash => format!("/openapi/v3/{path}?hash={hash}"),
                    };
                    paths.insert(path, json!({"serverRelativeURL": url}));
                }
                None => {
                    paths.remove(&path);
                }
            }
        }
        super::json(&json!({"paths": paths}))
    }

    pub(super) fn document(
        &self,
        registry: &Registry,
        group: &str,
        version: &str,
        request: &ApiRequest,
    ) -> Result<ApiAnswer, ApiError> {
        accept::check_json(&request.accept)?;
        if !registry.group_versions().contains(&(group, version)) {
            return Err(ApiError::no_such_path());
        }
        let mut answer = super::json(&openapi::document(registry, group, version));
        let wanted = RequestOptions::parse(&request.query);
        let hash = self.hash_of(registry, group, version);
        if wanted.get("hash") == Some(hash.as_str()) {
            answer
                .headers
                .push((header::CACHE_CONTROL, "public, immutable, max-age=31536000".to_owned()));
        }
        answer.headers.push((header::ETAG, format!("\"{hash}\"")));
        debug_assert_eq!(answer.code, StatusCode::OK);
        Ok(answer)
    }

    /// The hash of a document. Where definitions have a part in it, it is a hash of these and of
    /// the version of this program: there may be thousands of such documents, and each of them
    /// changes.
    fn hash_of(&self, registry: &Registry, group: &str, version: &str) -> String {
        let of_version = registry.in_group(group).filter(|entry| entry.version == version);
        let sources: Vec<String> =
            of_version.filter_map(|entry| entry.codec.schema_source()).collect();
        if !sources.is_empty() {
            return hash(&[PROGRAM_VERSION, &sources.join("\n")].concat());
        }
        let built_in = self.built_in.get_or_init(|| {
            let built_in = rekindle_kinds::all();
            let hash = |(group, version)| {
                let document = openapi::document(&built_in, group, version).to_string();
                (path(group, version), hash(&document))
            };
            built_in.group_versions().into_iter().map(hash).collect()
        });
        built_in.get(&path(group, version)).cloned().unwrap_or_default()
    }
}

/// A client keeps a document for a year under its hash, and another program may make another one.
const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02X}")).collect()
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}
