//! Every error that a client sees: a `Status` object in the words of the Kubernetes API server, so
//! that people, tools and search engines recognise it.

use std::collections::BTreeSet;

use http::StatusCode;
use rekindle_kinds::registry::KindEntry;
use rekindle_types::term::TERM_OVER;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use rekindle_types::validation::quoted;
use serde::{Deserialize, Serialize};

/// The most errors that one answer tells of; of the others it tells how many there are. Upstream
/// tells of all. What repairs its manifest by them needs the first, and a body of the largest size
/// can hold some hundred thousand.
const ERRORS_TOLD_MAX: usize = 100;

/// Bytes of the text of one error.
const ERROR_BYTES_MAX: usize = 4_096;

/// Bytes of the text of one error, where there are few: some show a whole schema.
const LONG_ERROR_BYTES_MAX: usize = 65_536;
const FEW_ERRORS: usize = 16;

/// The `Status` object of meta/v1, as far as the server fills it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always `Status`.
    pub kind: String,
    /// Always `v1`.
    pub api_version: String,
    /// Always empty here.
    pub metadata: StatusListMeta,
    /// `Success` or `Failure`.
    pub status: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs, for example `NotFound`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusErrorDetails>,
    /// The HTTP status code; 0, which is left out, in the answer to a deletion.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: u16,
}

const fn is_zero(code: &u16) -> bool {
    *code == 0
}

/// `{}` in JSON, with room for the token of an expired list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusListMeta {
    /// A token to go on with after a list expired.
    #[serde(default, rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// What a `Status` is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusErrorDetails {
    /// The object's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource, or the kind of an invalid object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The single mistakes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<FieldCause>,
    /// Seconds after which a new attempt makes sense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldCause {
    /// For programs, for example `FieldValueRequired`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// A request that failed. Boxed, because it travels through every `Result` of the machinery.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.message)]
pub struct ApiError(Box<Status>, Vec<String>);

impl ApiError {
    fn new(code: StatusCode, reason: &str, message: impl Into<String>) -> Self {
        Self(
            Box::new(Status {
                kind: "Status".to_owned(),
                api_version: "v1".to_owned(),
                metadata: StatusListMeta::default(),
                status: "Failure".to_owned(),
                message: message.into(),
                reason: reason.to_owned(),
                details: None,
                code: code.as_u16(),
            }),
            Vec::new(),
        )
    }

    /// The same, with Warning headers that the request deserves all the same.
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.1.extend(warnings);
        self
    }

    /// The same, for a client that waits in vain.
    #[must_use]
    pub fn without_retry(mut self) -> Self {
        if let Some(details) = &mut self.0.details {
            details.retry_after_seconds = None;
        }
        self
    }

    /// The same, with a warning before all others.
    #[must_use]
    pub fn with_first_warning(mut self, warning: String) -> Self {
        self.1.insert(0, warning);
        self
    }

    /// What goes into Warning headers.
    pub fn warnings(&self) -> &[String] {
        &self.1
    }

    fn about(mut self, entry: &KindEntry, name: &str) -> Self {
        self.0.details = Some(StatusErrorDetails {
            name: name.to_owned(),
            group: entry.group.to_string(),
            kind: entry.plural.to_string(),
            ..StatusErrorDetails::default()
        });
        self
    }

    /// 409: an apply would change what others own.
    pub fn apply_conflict(message: String, causes: Vec<FieldCause>) -> Self {
        let mut error = Self::new(StatusCode::CONFLICT, "Conflict", message);
        error.0.details = Some(StatusErrorDetails { causes, ..StatusErrorDetails::default() });
        error
    }

    /// 500 with nothing but a message: what upstream answers where it has no reason of its own.
    pub fn without_reason(message: String) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// The same with one more cause.
    pub fn with_cause(mut self, cause: FieldCause) -> Self {
        self.0.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// The `Status` that the client gets.
    pub fn status(&self) -> &Status {
        &self.0
    }

    /// Its HTTP status code.
    pub fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401: the client did not say who it is, or not credibly.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 403: an object may not be touched that way.
    pub fn forbidden(entry: &KindEntry, name: &str, why: &str) -> Self {
        let name = named(name);
        let message = format!("{} {name:?} is forbidden: {why}", entry.resource());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(entry, name)
    }

    /// A policy refuses the request: the message stands in the causes, too, as upstream puts it.
    pub fn denied(
        entry: &KindEntry,
        name: &str,
        (code, reason): (StatusCode, &str),
        why: &str,
    ) -> Self {
        let name = named(name);
        let message = format!("{} {name:?} is forbidden: {why}", entry.resource());
        let cause = FieldCause { message: why.to_owned(), ..FieldCause::default() };
        Self::new(code, reason, message).about(entry, name).with_cause(cause)
    }

    /// 403 with this reason: a policy cannot change the object. Each message is complete and a
    /// cause of its own. The first one counts.
    pub fn denied_in_words(
        entry: &KindEntry,
        name: &str,
        reason: &str,
        messages: Vec<String>,
    ) -> Self {
        let first = messages.first().cloned().unwrap_or_default();
        let error = Self::new(StatusCode::FORBIDDEN, reason, first).about(entry, name);
        let causes = messages.into_iter();
        let causes = causes.map(|message| FieldCause { message, ..FieldCause::default() });
        causes.fold(error, Self::with_cause)
    }

    /// Another server refuses the request, with this code, reason and details. `message` is
    /// complete.
    pub fn refused_elsewhere(
        code: u16,
        reason: &str,
        message: String,
        details: Option<StatusErrorDetails>,
    ) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST);
        let mut error = Self::new(code, reason, message);
        error.0.details = details;
        error
    }

    /// 504: the request took longer than it may.
    pub fn timed_out(message: &str) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {message}"))
    }

    /// 403: this user may not do that. `message` is complete.
    pub fn not_allowed(group: &str, resource: &str, name: &str, message: String) -> Self {
        let mut error = Self::new(StatusCode::FORBIDDEN, "Forbidden", message);
        error.0.details = Some(StatusErrorDetails {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: resource.to_owned(),
            ..StatusErrorDetails::default()
        });
        error
    }

    /// 404: no such object.
    pub fn not_found(entry: &KindEntry, name: &str) -> Self {
        let message = format!("{} {name:?} not found", entry.resource());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(entry, name)
    }

    /// 404: no such object, of a kind that is named by its resource only, for example
    /// `roles.rbac.authorization.k8s.io`.
    pub fn absent(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{resource}.{group} {name:?} not found");
        let mut error = Self::new(StatusCode::NOT_FOUND, "NotFound", message);
        error.0.details = Some(StatusErrorDetails {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: resource.to_owned(),
            ..StatusErrorDetails::default()
        });
        error
    }

    /// 404: no such path.
    pub fn no_such_path() -> Self {
        let mut error = Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        );
        error.0.details = Some(StatusErrorDetails::default());
        error
    }

    /// 422: these options of the request make no sense. `kind` is for example `ListOptions`.
    pub fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        Self::invalid_kind("meta.k8s.io", kind, "", errors)
    }

    /// 405: the resource does not know that method.
    pub fn method_not_allowed() -> Self {
        Self::method_not_allowed_because(
            "the server does not allow this method on the requested resource",
        )
    }

    /// 405, for another reason.
    pub fn method_not_allowed_because(why: &str) -> Self {
        let mut error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", why);
        error.0.details = Some(StatusErrorDetails::default());
        error
    }

    /// 406: the client accepts none of the media types that are `available`.
    pub fn not_acceptable(available: &str) -> Self {
        let mut error = Self::not_acceptable_form(format!(
            "406: Not Acceptable\n\nAvailable representations: {available}"
        ));
        error.0.details = Some(StatusErrorDetails::default());
        error
    }

    /// 406: the media type is served, but not this form of it.
    pub fn not_acceptable_form(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 409: an object of that name is there.
    pub fn already_exists(entry: &KindEntry, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", entry.resource());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(entry, name)
    }

    /// 409: an object of that name is there, and is being deleted.
    pub fn still_exists(entry: &KindEntry, name: &str) -> Self {
        let mut error = Self::already_exists(entry, name);
        error.0.message.insert_str(0, "object is being deleted: ");
        error
    }

    /// 409: the object is not the one that a precondition of its deletion names.
    pub fn unmet_precondition(entry: &KindEntry, name: &str, why: &str) -> Self {
        // a view is refused in the name of what is stored
        let entry = entry.home();
        let kind = entry.group_kind();
        let message = format!("Operation cannot be fulfilled on {kind} {name:?}: {why}");
        let mut error = Self::new(StatusCode::CONFLICT, "Conflict", message).about(entry, name);
        error.0.details.get_or_insert_default().kind = entry.kind.to_string();
        error
    }

    /// 409: the subresource cannot do that to the object as it is.
    pub fn conflict_of_subresource(
        entry: &KindEntry,
        subresource: &str,
        name: &str,
        why: &str,
    ) -> Self {
        let resource = format!("{}/{subresource}", entry.plural);
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        let mut error = Self::new(StatusCode::CONFLICT, "Conflict", message).about(entry, name);
        error.0.details.get_or_insert_default().kind = resource;
        error
    }

    /// 409: the object is not as the client thinks.
    pub fn conflict(entry: &KindEntry, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", entry.resource());
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(entry, name)
    }

    /// 409: somebody else changed the object since the client read it.
    pub fn modified(entry: &KindEntry, name: &str) -> Self {
        Self::conflict(
            entry,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409: the leader that writes does not lead any more.
    pub fn term_over(why: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", why).with_cause(FieldCause {
            reason: TERM_OVER.to_owned(),
            message: why.to_owned(),
            field: String::new(),
        })
    }

    /// 410: the revision that a list or watch asks for is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 410 for a continue token, with one to go on inconsistently.
    pub fn expired_continue(token: String) -> Self {
        let mut error = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
             results. Continuing with the provided token results in an inconsistent list - objects that were created, \
             modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        error.0.metadata.continue_token = token;
        error
    }

    /// 413: the body is beyond the limit.
    pub fn too_large(limit_bytes: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit_bytes}"),
        )
    }

    /// 413: what was asked for is too much.
    pub fn too_large_because(why: &str) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: {why}"),
        )
    }

    /// 415: a body of that type is not understood.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// 415: a patch of that type is not understood.
    pub fn unsupported_patch_type(message: impl Into<String>) -> Self {
        let mut error = Self::unsupported_media_type(message);
        error.0.details = Some(StatusErrorDetails::default());
        error
    }

    /// 422: the object is wrong in these fields.
    pub fn invalid(entry: &KindEntry, name: &str, errors: &[FieldError]) -> Self {
        let home = entry.home();
        Self::invalid_named(&home.group_kind(), &home.group, &home.kind, name, errors)
    }

    /// 422: an update that must say which version of the object it replaces.
    pub fn unconditional_update(entry: &KindEntry, name: &str) -> Self {
        let error = FieldError {
            field: "metadata.resourceVersion".to_owned(),
            problem: FieldProblem::Invalid("0".to_owned()),
            detail: "must be specified for an update".to_owned(),
        };
        Self::invalid_named(&entry.resource(), &entry.group, &entry.plural, name, &[error])
    }

    /// 422: an object of a kind without an entry of its own is wrong in these fields.
    pub fn invalid_kind(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let group_kind = match group {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        };
        Self::invalid_named(&group_kind, group, kind, name, errors)
    }

    /// 422: a patch is wrong; it has no kind and no name of its own.
    pub fn invalid_patch(error: &FieldError) -> Self {
        Self::invalid_named("", "", "", "", std::slice::from_ref(error))
    }

    fn invalid_named(
        group_kind: &str,
        group: &str,
        kind: &str,
        name: &str,
        errors: &[FieldError],
    ) -> Self {
        let (told, others) = errors.split_at(errors.len().min(ERRORS_TOLD_MAX));
        let bytes_max =
            if errors.len() <= FEW_ERRORS { LONG_ERROR_BYTES_MAX } else { ERROR_BYTES_MAX };
        let beginning = |text: String| beginning(text, bytes_max);
        let mut known: BTreeSet<String> = BTreeSet::new();
        let all = told.iter().map(|error| beginning(error.to_string()));
        let mut messages: Vec<String> =
            all.filter(|message| known.insert(message.clone())).collect();
        if !others.is_empty() {
            messages.push(format!("and {} more errors", others.len()));
        }
        let message = match messages.as_slice() {
            [one] => format!("{group_kind} {} is invalid: {one}", quoted(name)),
            many => format!("{group_kind} {} is invalid: [{}]", quoted(name), many.join(", ")),
        };
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        let causes = told.iter().map(|error| FieldCause {
            reason: error.cause_reason().to_owned(),
            message: beginning(error.body()),
            field: beginning(error.field.clone()),
        });
        error.0.details = Some(StatusErrorDetails {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: causes.collect(),
            ..StatusErrorDetails::default()
        });
        error
    }

    /// 422: a patch that was understood but does not fit the object, for example a failed `test`.
    /// Upstream says only the first half.
    pub fn unprocessable_patch(why: &str) -> Self {
        let mut error = Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!("the server rejected our request due to an error in our request: {why}"),
        );
        error.0.details = Some(StatusErrorDetails::default());
        error
    }

    /// 429: try again after so many seconds.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        error.0.details = Some(StatusErrorDetails {
            retry_after_seconds: Some(retry_after_seconds),
            ..StatusErrorDetails::default()
        });
        error
    }

    /// 429: not as things are, and nobody knows when they will be otherwise.
    pub fn refused_for_now(message: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        error.0.details = Some(StatusErrorDetails::default());
        error
    }

    /// 500 without a reason: what upstream answers where it returns a plain error.
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 500: it is our fault, or the disk's.
    pub fn internal(what: impl std::fmt::Display) -> Self {
        let mut error = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {what}"),
        );
        let cause = FieldCause { message: what.to_string(), ..FieldCause::default() };
        error.0.details =
            Some(StatusErrorDetails { causes: vec![cause], ..StatusErrorDetails::default() });
        error
    }

    /// 503: not now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// 507: the disk is full. Reads go on, and writes do again when there is space.
    pub fn insufficient_storage(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "InsufficientStorage", message)
    }

    /// 504: the revision asked for lies in the future.
    pub fn too_large_revision(asked: u64, newest: u64) -> Self {
        let mut error = Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {newest}"),
        );
        let cause = FieldCause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        error.0.details = Some(StatusErrorDetails {
            causes: vec![cause],
            retry_after_seconds: Some(1),
            ..StatusErrorDetails::default()
        });
        error
    }
}

impl Status {
    /// The answer to a deletion that took effect at once.
    pub fn deleted(entry: &KindEntry, name: &str, uid: &str) -> Self {
        Self {
            kind: "Status".to_owned(),
            api_version: "v1".to_owned(),
            metadata: StatusListMeta::default(),
            status: "Success".to_owned(),
            message: String::new(),
            reason: String::new(),
            details: Some(StatusErrorDetails {
                name: name.to_owned(),
                group: entry.group.to_string(),
                kind: entry.plural.to_string(),
                uid: uid.to_owned(),
                ..StatusErrorDetails::default()
            }),
            code: 0,
        }
    }

    /// The answer to a binding.
    pub fn created() -> Self {
        Self {
            kind: "Status".to_owned(),
            api_version: "v1".to_owned(),
            metadata: StatusListMeta::default(),
            status: "Success".to_owned(),
            message: String::new(),
            reason: String::new(),
            details: None,
            code: 201,
        }
    }

    /// As JSON text.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a Status has text keys only")
    }

    /// The `Status` that an answer of this API holds; none when it holds something else.
    pub fn of_answer(body: &[u8]) -> Option<Self> {
        // as `to_json` begins: no other answer is read to its end for this
        let may_be_status = body.starts_with(br#"{"kind":"Status","#);
        may_be_status.then(|| serde_json::from_slice(body).ok()).flatten()
    }
}

/// As much of a text as an answer tells.
fn beginning(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push_str("...");
    }
    text
}

impl From<rekindle_store::StoreError> for ApiError {
    /// What is left of a store's error when the machinery has dealt with conflicts: the disk,
    /// overload, the end.
    fn from(error: rekindle_store::StoreError) -> Self {
        use rekindle_store::{DiskError, StoreError};
        match &error {
            StoreError::Overloaded { .. } => Self::too_many_requests(error.to_string(), 1),
            StoreError::Closed => Self::unavailable(error.to_string()),
            StoreError::TooLarge { limit_bytes, .. } => Self::too_large(*limit_bytes),
            StoreError::NoRoom { .. } => Self::insufficient_storage(error.to_string()),
            StoreError::Compacted { asked, oldest } => {
                Self::expired(format!("too old resource version: {asked} ({oldest})"))
            }
            StoreError::Future { asked, newest } => Self::too_large_revision(asked.0, newest.0),
            StoreError::Disk { source: source @ DiskError::Full { .. } } => {
                Self::insufficient_storage(format!("{error}: {source}"))
            }
            StoreError::Disk { source } | StoreError::Open { source } => {
                Self::internal(format!("{error}: {source}"))
            }
            StoreError::AlreadyExists { .. }
            | StoreError::NotFound { .. }
            | StoreError::Conflict { .. }
            | StoreError::RolledBack
            | StoreError::Locked { .. } => Self::internal(&error),
        }
    }
}
/// What admission calls an object in its errors: one that has no name has this one, as upstream.
fn named(name: &str) -> &str {
    if name.is_empty() { "Unknown" } else { name }
}
