//! What a new pod takes over from its ServiceAccount: the secrets to pull with, unless it names its own. Source: Kubernetes
//! documentation, "Configure Service Accounts for Pods", "Add ImagePullSecrets to a service account".

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};

use crate::call::{Call, decode_stored};
use crate::keys;
use crate::kinds::pod::is_mirror;
use crate::registry::AnyObject;
use crate::status::ApiError;
use crate::validation::{items, text};

/// The account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// Completes a pod that is being created. An account that does not exist gives nothing.
pub(crate) fn complete_new(call: &Call<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    if !call.entry.group.is_empty() || call.entry.kind != "Pod" {
        return Ok(());
    }
    let Some(pod) = object.as_any_mut().downcast_mut::<Pod>() else { return Ok(()) };
    if is_mirror(pod) {
        return Ok(()); // it shows what a node runs already
    }
    let Some(spec) = &mut pod.spec else { return Ok(()) };
    if !items(spec.image_pull_secrets.as_ref()).is_empty() {
        return Ok(());
    }
    let Some(accounts) = call.api.registry.find("", "v1", "serviceaccounts") else {
        return Ok(());
    };
    let name = match text(spec.service_account_name.as_ref()) {
        "" => DEFAULT_ACCOUNT,
        name => name,
    };
    let key = keys::object(accounts, &call.path.namespace, name);
    let Some(stored) = call.api.store.newest(&key) else { return Ok(()) };
    let mut account = decode_stored(accounts, &stored)?;
    if let Some(account) = account.as_any_mut().downcast_mut::<ServiceAccount>() {
        spec.image_pull_secrets = account.image_pull_secrets.take();
    }
    Ok(())
}
