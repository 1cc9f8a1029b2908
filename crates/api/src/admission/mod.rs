//! What is decided about a write by looking beyond the object itself.

pub(crate) mod aggregation;
pub(crate) mod default_roles;
pub(crate) mod disruption_budgets;
mod escalation;
mod ladders;
pub(crate) mod namespaces;
pub(crate) mod node_restriction;
pub(crate) mod pod_security;
pub(crate) mod priority;
pub(crate) mod runtime_classes;
pub(crate) mod service_accounts;
pub(crate) mod storage_classes;
pub(crate) mod tolerations;

use rekindle_store::Pending;

use crate::call::Call;
use crate::kinds::ladder_annotations;
use crate::registry::{AnyObject, KindEntry};
use crate::shared::Shared;
use crate::status::ApiError;

/// Fills what depends on the final name, and puts right what must be so whoever writes it. Runs on
/// every create and update, and is idempotent.
pub(crate) fn complete(api: &Shared, entry: &KindEntry, object: &mut dyn AnyObject) {
    if namespaces::is_namespace(entry) {
        namespaces::complete(object);
    }
    namespaces::settle_bundle(api, object);
}

/// What deserves a Warning header because of other objects, beside what the kind itself says.
pub(crate) fn warnings(call: &Call<'_>, object: &dyn AnyObject) -> Vec<String> {
    let mut warnings: Vec<String> = disruption_budgets::warning(call, object).into_iter().collect();
    if call.entry.kind != "Pod" {
        warnings.extend(ladder_annotations::misplaced(object));
    }
    warnings.extend(ladders::warnings(call, object));
    warnings
}

/// Refuses what this writer may not write although the verb is allowed. `old` is what it replaces.
pub(crate) fn check_write(
    call: &Call<'_>,
    new: &dyn AnyObject,
    old: Option<&dyn AnyObject>,
) -> Result<(), ApiError> {
    escalation::check(call, new, old)
}

/// Makes what comes with a new object.
pub(crate) fn after_create(call: &Call<'_>, name: &str) -> Result<Vec<Pending>, ApiError> {
    if namespaces::is_namespace(call.entry) {
        return Ok(namespaces::furnish(call.api, name, call.request.now)?);
    }
    Ok(Vec::new())
}

/// Makes what has to be there in spite of a removal.
pub(crate) fn after_remove(
    call: &Call<'_>,
    namespace: &str,
    name: &str,
) -> Result<Vec<Pending>, ApiError> {
    if namespaces::is_furniture(call.entry, name) {
        return Ok(namespaces::refurnish(call.api, namespace, call.request.now)?);
    }
    Ok(Vec::new())
}

/// Refuses to delete what must stay.
pub(crate) fn check_delete(entry: &KindEntry, name: &str) -> Result<(), ApiError> {
    if namespaces::is_namespace(entry) && namespaces::IMMORTAL.contains(&name) {
        return Err(ApiError::forbidden(entry, name, "this namespace may not be deleted"));
    }
    if priority::is_system_class(entry, name) {
        let why = "this is a system priority class and cannot be deleted";
        return Err(ApiError::forbidden(entry, name, why));
    }
    Ok(())
}
