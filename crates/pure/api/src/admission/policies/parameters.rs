//! The parameters of a policy: the objects that a binding names.

use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef};
use rekindle_kinds::registry::{KindEntry, ResourceScope};
use rekindle_kinds::validation::{selector, text};
use rekindle_store::{RangeQuery, StoredObject};
use rekindle_structural_schema::PolicyWork;
use serde_json::Value;

use crate::admission::reviewed_request::ReviewedRequest;
use crate::custom::VersionCodec;
use crate::keys;
use crate::managed_fields::remove_entries;
use crate::selectors::labels_of;
use crate::shared::ApiShared;

/// The parameters with which a policy runs: one run for each.
pub(super) enum PolicyParameters {
    /// The policy has none.
    None,
    /// The binding names none.
    Null,
    /// These objects.
    Stored(Arc<KindEntry>, Vec<Arc<StoredObject>>),
}

/// The parameters that a binding names. Reading them counts.
pub(super) fn of_binding(
    request: &ReviewedRequest<'_>,
    (kind, reference): (Option<&ParamKind>, Option<&ParamRef>),
    work: &PolicyWork,
) -> Result<PolicyParameters, String> {
    let Some(kind) = kind else { return Ok(PolicyParameters::None) };
    let Some(reference) = reference else { return Ok(PolicyParameters::Null) };
    let api = request.call.api;
    let entry = entry_of(api, kind).ok_or_else(|| no_such_kind(kind))?;
    let namespace = namespace_of(request, &entry, reference)?;
    let name = text(reference.name.as_ref());
    let found = if name.is_empty() {
        selected(api, &entry, (namespace, reference), work)?
    } else {
        let stored = api.store.get(&keys::object(&entry, namespace, name));
        stored.into_iter().collect()
    };
    let is_other = |stored: &Arc<StoredObject>| {
        VersionCodec::of_converted(&entry).is_some_and(|codec| !codec.is_of(&stored.value))
    };
    if found.iter().any(is_other) {
        return Err(format!(
            "a param of {} is stored in another version, and webhooks do not convert params: name \
             the version that they are stored in",
            entry.kind
        ));
    }
    if found.is_empty() {
        return match text(reference.parameter_not_found_action.as_ref()) {
            "Allow" => Ok(PolicyParameters::Stored(entry, Vec::new())),
            _ => {
                Err("no params found for policy binding with `Deny` parameterNotFoundAction"
                    .to_owned())
            }
        };
    }
    Ok(PolicyParameters::Stored(entry, found))
}

/// What is said of a kind that is not served.
pub(super) fn no_such_kind(kind: &ParamKind) -> String {
    format!(
        "failed to find resource referenced by paramKind: '{}, Kind={}'",
        shown_version(text(kind.api_version.as_ref())),
        text(kind.kind.as_ref())
    )
}

/// `/v1`, or `apps/v1`: as Go shows a group and a version.
fn shown_version(api_version: &str) -> String {
    if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") }
}

/// The kind of the parameters.
pub(super) fn entry_of(api: &ApiShared, kind: &ParamKind) -> Option<Arc<KindEntry>> {
    let api_version = text(kind.api_version.as_ref());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = text(kind.kind.as_ref());
    let mut built_in = api.registry.in_group(group);
    if let Some(entry) = built_in.find(|entry| entry.version == version && entry.kind == kind) {
        return Some(Arc::clone(entry));
    }
    let custom = api.custom.all(api).into_iter().flat_map(|custom| custom.served());
    custom
        .into_iter()
        .find(|entry| entry.group == group && entry.version == version && entry.kind == kind)
}

fn namespace_of<'n>(
    request: &'n ReviewedRequest<'_>,
    entry: &KindEntry,
    reference: &'n ParamRef,
) -> Result<&'n str, String> {
    let given = text(reference.namespace.as_ref());
    match entry.scope {
        ResourceScope::Cluster if given.is_empty() => Ok(""),
        ResourceScope::Cluster => Err("paramRef.namespace must not be provided for a \
                                       cluster-scoped `paramKind`"
            .to_owned()),
        ResourceScope::Namespaced if !given.is_empty() => Ok(given),
        ResourceScope::Namespaced => match request.namespace_name() {
            "" => Err("cannot use namespaced paramRef in policy binding that matches \
                       cluster-scoped resources"
                .to_owned()),
            namespace => Ok(namespace),
        },
    }
}

fn selected(
    api: &ApiShared,
    entry: &KindEntry,
    (namespace, reference): (&str, &ParamRef),
    work: &PolicyWork,
) -> Result<Vec<Arc<StoredObject>>, String> {
    let prefix = keys::collection(entry, namespace);
    let page = api.store.range(&RangeQuery { prefix, ..RangeQuery::default() });
    let objects = page.map_err(|error| error.to_string())?.objects;
    let Some(wanted) = &reference.selector else { return Ok(objects) };
    let mut found = Vec::new();
    for stored in objects {
        work.charge_bytes(stored.value.len()).map_err(|failure| failure.0)?;
        let is_wanted = selector::matches(wanted, Some(&labels_of(&stored.value)));
        found.extend(is_wanted.then_some(stored));
    }
    Ok(found)
}

/// A parameter as expressions see it.
pub(super) fn value_of(
    entry: &KindEntry,
    stored: &Bytes,
    work: &PolicyWork,
) -> Result<Value, String> {
    work.charge_bytes(stored.len()).map_err(|failure| failure.0)?;
    let shown = entry.codec.shown(stored).map_err(|error| error.to_string())?;
    let mut value = serde_json::from_slice(&shown).map_err(|error| error.to_string())?;
    remove_entries(&mut value);
    Ok(value)
}
