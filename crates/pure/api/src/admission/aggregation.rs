//! Cluster roles that are made of others: those whose labels the `aggregationRule` selects. The
//! rules are written into the role, so that whoever looks at it sees them, and are brought up to
//! date when any cluster role changes. They belong to this part of the server, as upstream: who
//! applies other rules to such a role has a conflict.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use rekindle_kinds::rbac::GROUP;
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_kinds::validation::{items, selector, text};
use rekindle_store::{RangeQuery, StoreError, StoreWatch, WritePrecondition};
use rekindle_types::Tick;
use serde_json::json;

use crate::call::put;
use crate::keys;
use crate::managed_fields::entries_after_own_apply;
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::stored::decode_stored;

/// Who owns the rules of aggregated roles, as upstream calls it.
const FIELD_MANAGER: &str = "clusterrole-aggregation-controller";

/// The changes of cluster roles from now on; none when they are not served.
pub(crate) fn watch(api: &ApiShared) -> Result<Option<StoreWatch>, StoreError> {
    let Some(entry) = roles(api) else { return Ok(None) };
    api.store.watch(&keys::collection(entry, ""), api.store.revision()).map(Some)
}

fn roles(api: &ApiShared) -> Option<&Arc<KindEntry>> {
    api.registry.find(GROUP, "v1", "clusterroles")
}

/// Brings every aggregated role that is stored up to date.
pub(crate) fn aggregate(api: &ApiShared, now: Tick) -> Result<(), ApiError> {
    let Some(entry) = roles(api) else { return Ok(()) };
    let query = RangeQuery { prefix: keys::collection(entry, ""), ..RangeQuery::default() };
    let stored = api.store.range(&query)?.objects;
    let mut roles = Vec::with_capacity(stored.len());
    for object in &stored {
        let decoded = decode_stored(entry, object)?;
        roles.extend(decoded.as_any().downcast_ref::<ClusterRole>().cloned());
    }
    for (object, role) in stored.iter().zip(&roles) {
        let Some(rules) = rules_of(role, &roles) else { continue };
        if items(role.rules.as_ref()) == rules {
            continue;
        }
        let mut filled = role.clone();
        let config = json!({"apiVersion": entry.api_version, "kind": entry.kind, "rules": rules});
        filled.metadata.managed_fields =
            entries_after_own_apply(entry, role, (FIELD_MANAGER, &config), now);
        filled.rules = Some(rules);
        let filled: Box<dyn AnyObject> = Box::new(filled);
        match put(api, object.key.as_str(), WritePrecondition::Revision(object.revision), filled) {
            // Nobody waits for it: it is no answer to a request, and it will be seen when it is
            // durable.
            Ok(pending) => drop(pending),
            // changed meanwhile: that change brings us here again
            Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Fills the rules of the aggregated roles among these, from these alone.
pub(super) fn settle(roles: &mut [ClusterRole]) {
    // A role may be made of one that is made of others: each round brings the rules up one level.
    for _ in 0..roles.len() {
        let filled: Vec<Option<Vec<PolicyRule>>> =
            roles.iter().map(|role| rules_of(role, roles)).collect();
        let mut changed = false;
        for (role, rules) in roles.iter_mut().zip(filled) {
            if rules.is_some() && role.rules != rules {
                role.rules = rules;
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// All that a rule says, to tell rules apart.
fn words(rule: &PolicyRule) -> [Option<&Vec<String>>; 5] {
    let PolicyRule { api_groups, non_resource_urls, resource_names, resources, verbs } = rule;
    [
        api_groups.as_ref(),
        non_resource_urls.as_ref(),
        resource_names.as_ref(),
        resources.as_ref(),
        Some(verbs),
    ]
}

/// What an aggregated role consists of, each rule once, in the order of the roles' names; none when
/// the role is a plain one.
fn rules_of(role: &ClusterRole, all: &[ClusterRole]) -> Option<Vec<PolicyRule>> {
    let aggregation = role.aggregation_rule.as_ref()?;
    let mut parts: Vec<&ClusterRole> = all
        .iter()
        .filter(|part| part.metadata.name != role.metadata.name)
        .filter(|part| {
            let selectors = items(aggregation.cluster_role_selectors.as_ref());
            selectors.iter().any(|one| selector::matches(one, part.metadata.labels.as_ref()))
        })
        .collect();
    parts.sort_by_key(|part| text(part.metadata.name.as_ref()));
    let mut known = BTreeSet::new();
    let all = parts.into_iter().flat_map(|part| items(part.rules.as_ref()));
    Some(all.filter(|rule| known.insert(words(rule))).cloned().collect())
}
