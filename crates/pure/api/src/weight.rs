//! How much work a request is, estimated before it is handled. The front does heavy requests apart
//! from all others, and gives wide ones more seats.

use std::sync::Arc;

use http::Method;
use rekindle_kinds::registry::KindEntry;

use crate::api::Api;
use crate::custom::DEFINITIONS;
use crate::discovery;
use crate::keys;
use crate::request::path::PROXY;
use crate::request::{ApiRequest, PathTarget, RequestOptions, ResourcePath};

/// A body beyond this is heavy: most objects of users have less than 16 KiB.
const BODY_BYTES: usize = 64 * 1024;
/// A list of more objects is heavy. A light request lists no more inside either.
pub(crate) const LIGHT_LIST_OBJECTS: usize = 250;

/// Objects of a list that one seat is for, and the seats of a list at most, as upstream.
const OBJECTS_OF_SEAT: usize = 100;
const SEATS_MAX: usize = 10;

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

    /// The seats that a list or a watch needs: by the objects that it looks at. A watch that
    /// begins with no list of them needs one.
    pub(crate) fn width(&self, path: &ResourcePath, options: &RequestOptions) -> u32 {
        let is_list =
            !(options.watch || path.is_watch) || options.send_initial_events == Some(true);
        if !is_list || !path.name.is_empty() {
            return 1;
        }
        let Some(entry) = self.kind(path) else { return 1 };
        let looked_at_all = [&options.label_selector, &options.field_selector];
        let looked_at_max = match options.limit.filter(|_| !options.has_one_page()) {
            Some(limit) if looked_at_all.iter().all(|selector| selector.is_empty()) => limit,
            Some(_) | None => usize::MAX,
        };
        let objects = looked_at_max.min(OBJECTS_OF_SEAT * SEATS_MAX);
        let objects = self.store().count_up_to(&keys::collection(&entry, &path.namespace), objects);
        let seats = objects.div_ceil(OBJECTS_OF_SEAT).clamp(1, SEATS_MAX);
        u32::try_from(seats).unwrap_or(1)
    }

    fn is_long_list(&self, path: &ResourcePath, query: &str) -> bool {
        if !path.name.is_empty() {
            return false;
        }
        let is_watch = RequestOptions::parse(query).watch;
        let entry = self.kind(path).filter(|_| !is_watch);
        self.has_many(entry.as_ref(), &path.namespace)
    }

    fn has_many(&self, entry: Option<&Arc<KindEntry>>, namespace: &str) -> bool {
        let collection = entry.map(|entry| keys::collection(entry, namespace));
        collection.is_some_and(|prefix| self.store().has_more_than(&prefix, LIGHT_LIST_OBJECTS))
    }
}
