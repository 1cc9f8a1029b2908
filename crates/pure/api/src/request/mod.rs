//! A request as the machinery sees it: who asks what of which resource. No HTTP types but the
//! method; no IO.

pub mod accept;
pub mod attributes;
pub mod option_mistakes;
pub mod options;
pub mod path;

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use rekindle_kinds::identity::ClientIdentity;
use rekindle_types::Tick;

use crate::audit_notes::AuditNotes;

pub use accept::{AnswerEncoding, IncludeObject, MetaVersion, MetadataShape, Representation};
pub use options::RequestOptions;
pub use path::{PathTarget, ResourcePath};

/// One request, its body read.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// The HTTP method.
    pub method: Method,
    /// The path, for example `/api/v1/namespaces/default/pods`.
    pub path: String,
    /// What follows the `?`; empty when there is none.
    pub query: String,
    /// The `Accept` header; empty when there is none.
    pub accept: String,
    /// The `Content-Type` header; empty when there is none.
    pub content_type: String,
    /// The `User-Agent` header; empty when there is none.
    pub user_agent: String,
    /// The body; the front has cut it off beyond [`crate::decode::BODY_BYTES_MAX`].
    pub body: Bytes,
    /// Who asks.
    pub identity: ClientIdentity,
    /// When.
    pub now: Tick,
    /// What the audit log wants to know of its handling; none without such a log.
    pub notes: Option<Arc<AuditNotes>>,
}

/// What a request asks for, as its first line says: enough to decide whether it is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine<'r> {
    /// The HTTP method.
    pub method: &'r Method,
    /// The path, for example `/api/v1/namespaces/default/pods`.
    pub path: &'r str,
    /// What follows the `?`; empty when there is none.
    pub query: &'r str,
}

/// What a request does, in the words of authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVerb {
    /// Reads one object.
    Get,
    /// Reads many.
    List,
    /// Follows changes.
    Watch,
    /// Makes a new object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes an object in part.
    Patch,
    /// Removes an object.
    Delete,
    /// Removes many.
    DeleteCollection,
}

impl RequestVerb {
    /// As RBAC and error texts spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// What the method does to the target; none when it does nothing there.
    pub fn from_request(
        method: &Method,
        path: &ResourcePath,
        options: &RequestOptions,
    ) -> Option<Self> {
        let named = !path.name.is_empty();
        match *method {
            Method::GET if path.is_watch => Some(Self::Watch),
            _ if path.is_watch => None,
            Method::GET if named => Some(Self::Get),
            Method::GET if options.watch => Some(Self::Watch),
            Method::GET => Some(Self::List),
            Method::POST => Some(Self::Create),
            Method::PUT if named => Some(Self::Update),
            Method::PATCH if named => Some(Self::Patch),
            Method::DELETE if named => Some(Self::Delete),
            Method::DELETE => Some(Self::DeleteCollection),
            _ => None,
        }
    }
}
