//! Which requests may take long, decided before they are handled. The front does these apart from
//! all others.

use std::sync::Arc;

use http::Method;

use crate::api::Api;
use crate::custom::DEFINITIONS;
use crate::discovery;
use crate::keys;
use crate::registry::KindEntry;
use crate::request::path::PROXY;
use crate::request::{ApiRequest, PathTarget, RequestOptions, ResourcePath};

/// A body beyond this is heavy: most objects of users have less than 16 KiB.
const BODY_BYTES: usize = 64 * 1024;
/// A list of more objects is heavy. A light request lists no more inside either.
pub(crate) const LIGHT_LIST_OBJECTS: usize = 250;

/// Definitions that discovery shows at once.
const LIGHT_DEFINITIONS: usize = 50;

impl Api {
    /// Whether handling the request may take long: patches, large bodies, long lists, deletions of
    /// many, and quotas. Handling a backup is none of it: the front makes it.
    pub fn is_heavy(&self, request: &ApiRequest) -> bool {
        if request.body.len() > BODY_BYTES || request.method == Method::PATCH {
            return true;
        }
        let path = match PathTarget::parse(&request.path) {
            PathTarget::Resource(path) => path,
            PathTarget::Other(path) => {
                return discovery::lists_kinds(&path)
                    && self.store().has_more_than(DEFINITIONS, LIGHT_DEFINITIONS);
            }
        };
        if path.subresource == PROXY {
            // a Service is resolved by the slices of its namespace
            let slices = self.registry().find("discovery.k8s.io", "v1", "endpointslices");
            return path.resource == "services" && self.has_many(slices, &path.namespace);
        }
        match request.method {
            Method::GET | Method::HEAD => self.is_long_list(&path, &request.query),
            // the objects of a definition go with it
            Method::DELETE => path.name.is_empty() || path.resource == "customresourcedefinitions",
            // it is counted over its namespace
            Method::POST | Method::PUT => {
                path.group.is_empty() && path.resource == "resourcequotas"
            }
            _ => false,
        }
    }

    fn is_long_list(&self, path: &ResourcePath, query: &str) -> bool {
        if !path.name.is_empty() {
            return false;
        }
        let is_watch = RequestOptions::parse(query).is_ok_and(|options| options.watch);
        let entry = self.kind(path).filter(|_| !is_watch);
        self.has_many(entry.as_ref(), &path.namespace)
    }

    fn has_many(&self, entry: Option<&Arc<KindEntry>>, namespace: &str) -> bool {
        let collection = entry.map(|entry| keys::collection(entry, namespace));
        collection.is_some_and(|prefix| self.store().has_more_than(&prefix, LIGHT_LIST_OBJECTS))
    }
}
