//! The roles and bindings that every cluster has: made when they are missing, and completed at each
//! start with what they have lost or never had, unless their owner said `autoupdate: "false"`.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role};
use rekindle_kinds::rbac::GROUP;
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_kinds::validation::items;
use rekindle_store::{PendingWrite, StoreError, WritePrecondition};
use rekindle_types::Tick;

use super::aggregation;
use crate::auth::rbac::defaults::{self, AUTO_UPDATE};
use crate::auth::rbac::missing;
use crate::resource_quotas::put_own;
use crate::shared::ApiShared;
use crate::stored::decode_stored;
use crate::{keys, object_meta};

/// Makes and completes them.
pub(crate) fn bootstrap(api: &ApiShared, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let mut pending = Vec::new();
    if let Some(entry) = api.registry.find(GROUP, "v1", "clusterroles") {
        let mut roles = defaults::cluster_roles();
        aggregation::settle(&mut roles);
        for role in roles {
            pending.extend(keep(api, entry, role, now, complete_role)?);
        }
    }
    if let Some(entry) = api.registry.find(GROUP, "v1", "roles") {
        for role in defaults::roles() {
            pending.extend(keep(api, entry, role, now, complete_namespaced_role)?);
        }
    }
    if let Some(entry) = api.registry.find(GROUP, "v1", "clusterrolebindings") {
        for binding in defaults::cluster_role_bindings() {
            pending.extend(keep(api, entry, binding, now, complete_binding)?);
        }
    }
    Ok(pending)
}

/// Makes the object, or lets `complete` bring the one that is there to what it should have.
fn keep<K: AnyObject + Clone>(
    api: &ApiShared,
    entry: &KindEntry,
    wanted: K,
    now: Tick,
    complete: fn(&mut K, &K),
) -> Result<Vec<PendingWrite>, StoreError> {
    let namespace = wanted.meta().namespace.clone().unwrap_or_default();
    let key = keys::object(entry, &namespace, object_meta::name(&wanted));
    let Some(stored) = api.store.newest(&key) else {
        let mut object = wanted;
        object_meta::prepare_new(object.meta_mut(), api.new_uid(), now);
        return put_own(api, entry, (&key, WritePrecondition::Absent, &object), None, now);
    };
    // An object that cannot be read is not overwritten: whoever put it there may want it back.
    let Ok(mut object) = decode_stored(entry, &stored) else { return Ok(Vec::new()) };
    let before = object.boxed_clone();
    let annotations = object.meta().annotations.as_ref();
    let keeps = annotations.and_then(|all| all.get(AUTO_UPDATE)).is_some_and(|on| on == "true");
    if let Some(object) = object.as_any_mut().downcast_mut::<K>().filter(|_| keeps) {
        complete(object, &wanted);
    }
    if object.same_as(before.as_ref()) {
        return Ok(Vec::new());
    }
    let write = (key.as_str(), WritePrecondition::Revision(stored.revision), object.as_ref());
    put_own(api, entry, write, Some(before.as_ref()), now)
}

fn complete_role(role: &mut ClusterRole, wanted: &ClusterRole) {
    let labels = wanted.metadata.labels.clone().unwrap_or_default();
    role.metadata.labels.get_or_insert_default().extend(labels);
    if wanted.aggregation_rule.is_some() {
        role.aggregation_rule.clone_from(&wanted.aggregation_rule);
        return; // its rules follow from others'
    }
    complete_rules(&mut role.rules, wanted.rules.as_ref());
}

fn complete_namespaced_role(role: &mut Role, wanted: &Role) {
    complete_rules(&mut role.rules, wanted.rules.as_ref());
}

/// A role that has grown too large to be compared is left as it is.
fn complete_rules(rules: &mut Option<Vec<PolicyRule>>, wanted: Option<&Vec<PolicyRule>>) {
    let lost = missing(items(rules.as_ref()), items(wanted)).unwrap_or_default();
    rules.get_or_insert_default().extend(lost);
}

fn complete_binding(binding: &mut ClusterRoleBinding, wanted: &ClusterRoleBinding) {
    for subject in items(wanted.subjects.as_ref()) {
        let subjects = binding.subjects.get_or_insert_default();
        if !subjects.contains(subject) {
            subjects.push(subject.clone());
        }
    }
}
