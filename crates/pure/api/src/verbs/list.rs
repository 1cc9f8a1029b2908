//! list: a collection at one revision, in pages.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use rekindle_kinds::registry::ResourceScope;
use rekindle_store::{ObjectKey, RangeQuery, Revision, StoreError, StoredObject};
use serde::{Deserialize, Serialize};

use crate::call::ApiCall;
use crate::custom::ObjectConversion;
use crate::custom::VersionCodec;
use crate::outcome::{ListAnswer, RequestOutcome};
use crate::represent::{ListMeta, ObjectRenderer};
use crate::request::options::RevisionMatch;
use crate::request::{AnswerEncoding, Representation};
use crate::selectors::Selection;
use crate::status::ApiError;
use crate::{expiry, keys, revision};

/// Where the next page begins, as a client hands it back.
#[derive(Debug, Serialize, Deserialize)]
struct ContinueToken {
    v: String,
    /// The revision of the first page; -1: whatever is newest.
    rv: i64,
    /// The last key of the page before.
    start: String,
}

const CONTINUE_VERSION: &str = "meta.k8s.io/v1";

pub(crate) fn list(call: &ApiCall<'_>) -> Result<RequestOutcome, ApiError> {
    let selection = Selection::parse(call.entry, &call.options)?;
    let page = page(call, &selection, call.form()?)?;
    // upstream looks at the form of a list when it has the list
    let (entry, form, now) = (call.entry, call.list_form()?, call.request.now);
    let renderer = ObjectRenderer { entry, form, now };
    let meta = page.meta()?;
    if call.answer_form()?.encoding == AnswerEncoding::Protobuf
        && let Some(pieces) = renderer.protobuf_list(&meta, &page.objects)?
    {
        return Ok(RequestOutcome::List(Box::new(ListAnswer::protobuf(pieces))));
    }
    let pieces = renderer.list(&meta, page.objects)?;
    Ok(RequestOutcome::List(Box::new(ListAnswer::json(pieces))))
}

/// The page of a list that the options ask for, its objects as they are stored.
pub(super) fn stored_page(call: &ApiCall<'_>, selection: &Selection) -> Result<ListPage, ApiError> {
    page_of(call, selection, |objects| only_selected(call, selection, objects))
}

/// Those of some stored objects that are selected. They are converted only to look into them.
pub(super) fn only_selected(
    call: &ApiCall<'_>,
    selection: &Selection,
    objects: Vec<Arc<StoredObject>>,
) -> Result<Vec<Arc<StoredObject>>, ApiError> {
    let selects = |object: &StoredObject| selection.selects(call.entry, object);
    if !selection.looks_into_objects() || VersionCodec::of_converted(call.entry).is_none() {
        return Ok(objects.into_iter().filter(|object| selects(object)).collect());
    }
    let shown = ObjectConversion::of_call(call).objects(call.entry, objects.clone())?;
    let all = objects.into_iter().zip(shown);
    Ok(all.filter(|(_, shown)| selects(shown)).map(|(object, _)| object).collect())
}

/// Reads everything that may be selected.
pub(super) fn query(call: &ApiCall<'_>, selection: &Selection) -> RangeQuery {
    let query = RangeQuery { prefix: prefix(call, selection), ..RangeQuery::default() };
    match VersionCodec::of_converted(call.entry) {
        // a webhook may give an object other labels than its stored text has
        Some(_) => query,
        None => RangeQuery { terms: selection.terms(), ..query },
    }
}

/// What all keys that may be selected begin with.
pub(super) fn prefix(call: &ApiCall<'_>, selection: &Selection) -> String {
    let namespace = if call.path.namespace.is_empty() {
        selection.exact_namespace().unwrap_or_default()
    } else {
        &call.path.namespace
    };
    let collection = keys::collection(call.entry, namespace);
    match selection.exact_name() {
        Some(name) if !namespace.is_empty() || call.entry.scope == ResourceScope::Cluster => {
            format!("{collection}{name}")
        }
        Some(_) | None => collection,
    }
}

/// One page of a list.
pub(super) struct ListPage {
    /// What is selected.
    pub(super) objects: Vec<Arc<StoredObject>>,
    revision: Revision,
    more_after: Option<ObjectKey>,
    remaining: Option<usize>,
}

impl ListPage {
    /// What the list says beside its objects.
    pub(super) fn meta(&self) -> Result<ListMeta, ApiError> {
        let mut meta = ListMeta::complete(self.revision);
        if let Some(last) = &self.more_after {
            meta.continue_token = token(self.revision, last.as_str())?;
            meta.remaining_item_count = self.remaining;
        }
        Ok(meta)
    }
}

fn page(
    call: &ApiCall<'_>,
    selection: &Selection,
    form: Representation,
) -> Result<ListPage, ApiError> {
    page_of(call, selection, |objects| {
        let mut shown = call.all_shown(form, objects)?;
        shown.retain(|object| selection.selects(call.entry, object));
        Ok(shown)
    })
}

/// The objects that a page may have. Upstream keeps no Events in memory.
fn limit(call: &ApiCall<'_>) -> Option<usize> {
    let has_one_page = call.options.has_one_page() && !expiry::expires(call.entry);
    call.options.limit.filter(|_| !has_one_page)
}

fn page_of(
    call: &ApiCall<'_>,
    selection: &Selection,
    only_selected: impl Fn(Vec<Arc<StoredObject>>) -> Result<Vec<Arc<StoredObject>>, ApiError>,
) -> Result<ListPage, ApiError> {
    let (at, mut start_after, inconsistent) = start(call, selection)?;
    let limit = limit(call);
    let mut objects: Vec<Arc<StoredObject>> = Vec::new();
    let mut at = at;
    loop {
        let wanted = limit.map(|limit| limit - objects.len());
        let query = RangeQuery {
            start_after: start_after.clone(),
            limit: wanted,
            at,
            ..query(call, selection)
        };
        let range = call
            .api
            .store
            .range(&query)
            .map_err(|error| expired_page(error, start_after.as_ref(), &inconsistent))?;
        let (revision, remaining) = (range.revision, range.remaining);
        at = Some(revision);
        start_after = range.objects.last().map(|object| object.key.clone());
        objects.extend(only_selected(range.objects)?);
        let full = limit.is_some_and(|limit| objects.len() >= limit);
        if remaining == 0 || full {
            let more_after = start_after.filter(|_| remaining > 0);
            let remaining = selection.is_everything().then_some(remaining);
            return Ok(ListPage { objects, revision, more_after, remaining });
        }
    }
}

/// Whether a page continues a list that was promised to be consistent.
enum Consistency {
    /// It is the first page, or continues inconsistently.
    Unpromised,
    /// It continues at a revision.
    Promised,
}

/// The revision to read at, and the key to start after.
fn start(
    call: &ApiCall<'_>,
    selection: &Selection,
) -> Result<(Option<Revision>, Option<ObjectKey>, Consistency), ApiError> {
    let options = &call.options;
    let newest = call.api.store.revision();
    if !options.continue_token.is_empty() {
        let token = parse_token(&options.continue_token)?;
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let start = Some(ObjectKey::from(token.start));
        return Ok(match u64::try_from(token.rv) {
            Ok(revision) => (Some(Revision(revision)), start, Consistency::Promised),
            Err(_) => (None, start, Consistency::Unpromised),
        });
    }
    revision::parse(&options.resource_version)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let is_deletion = call.request.method == Method::DELETE;
    let is_one = is_deletion && selection.exact_name().is_some();
    let is_exact = match options.resource_version_match {
        Some(RevisionMatch::Exact) => true,
        Some(RevisionMatch::NotOlderThan) => false,
        // Upstream: without a match, a limit makes the revision exact. A deletion of many has one.
        None => {
            let has_limit = options.limit.is_some() || is_deletion && !is_one;
            has_limit && options.resource_version != "0"
        }
    };
    let asked = revision::check_reached(newest, &options.resource_version).map_err(|error| {
        // to wait for a revision makes sense where upstream serves from memory
        let is_in_memory = !is_exact && !is_one && !expiry::expires(call.entry);
        if is_in_memory { error } else { error.without_retry() }
    })?;
    Ok((asked.filter(|_| is_exact), None, Consistency::Unpromised))
}

fn expired_page(
    error: StoreError,
    start: Option<&ObjectKey>,
    consistency: &Consistency,
) -> ApiError {
    match (&error, consistency, start) {
        (StoreError::Compacted { .. }, Consistency::Promised, Some(start)) => {
            match encode_token(&ContinueToken {
                v: CONTINUE_VERSION.to_owned(),
                rv: -1,
                start: start.to_string(),
            }) {
                Ok(token) => ApiError::expired_continue(token),
                Err(error) => error,
            }
        }
        (StoreError::Compacted { .. }, _, _) => {
            ApiError::expired("The resourceVersion for the provided list is too old.")
        }
        _ => error.into(),
    }
}

fn token(revision: Revision, last: &str) -> Result<String, ApiError> {
    let rv = i64::try_from(revision.0).map_err(ApiError::internal)?;
    encode_token(&ContinueToken { v: CONTINUE_VERSION.to_owned(), rv, start: last.to_owned() })
}

fn encode_token(token: &ContinueToken) -> Result<String, ApiError> {
    Ok(URL_SAFE_NO_PAD.encode(serde_json::to_vec(token).map_err(ApiError::internal)?))
}

fn parse_token(text: &str) -> Result<ContinueToken, ApiError> {
    let invalid = || ApiError::bad_request(format!("continue key is not valid: {text:?}"));
    let json = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| invalid())?;
    let token: ContinueToken = serde_json::from_slice(&json).map_err(|_| invalid())?;
    if token.v == CONTINUE_VERSION { Ok(token) } else { Err(invalid()) }
}
