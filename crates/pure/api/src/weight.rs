//! Which requests may take long, decided before they are handled. The front does these apart from
//! all others.

use http::Method;

use crate::api::Api;
use crate::keys;
use crate::request::{ApiRequest, PathTarget, RequestOptions};

/// A body beyond this is heavy: most objects of users have less than 16 KiB.
const BODY_BYTES: usize = 64 * 1024;
/// A list of more objects is heavy. A light request lists no more inside either.
pub(crate) const LIGHT_LIST_OBJECTS: usize = 250;

impl Api {
    /// Whether handling the request may take long: patches, large bodies, long lists and deletions
    /// of many.
    pub fn is_heavy(&self, request: &ApiRequest) -> bool {
        if request.body.len() > BODY_BYTES || request.method == Method::PATCH {
            return true;
        }
        match request.method {
            Method::GET | Method::HEAD => self.is_long_list(request),
            Method::DELETE => {
                matches!(PathTarget::parse(&request.path), PathTarget::Resource(path) if path.name.is_empty())
            }
            _ => false,
        }
    }

    fn is_long_list(&self, request: &ApiRequest) -> bool {
        let PathTarget::Resource(path) = PathTarget::parse(&request.path) else { return false };
        if !path.name.is_empty() {
            return false;
        }
        let is_watch = RequestOptions::parse(&request.query).is_ok_and(|options| options.watch);
        let entry = self.registry().find(&path.group, &path.version, &path.resource);
        let Some(entry) = entry.filter(|_| !is_watch) else { return false };
        self.store().has_more_than(&keys::collection(entry, &path.namespace), LIGHT_LIST_OBJECTS)
    }
}
