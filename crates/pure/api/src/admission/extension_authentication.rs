//! The ConfigMap by which other API servers know who asks them: the CA of users, and the CA of the
//! proxy that may name a user in headers.
//!
//! Source: upstream's `clusterauthenticationtrust` controller.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_store::{PendingWrite, StoreError, WritePrecondition};
use rekindle_types::Tick;

use super::namespaces::make_of;
use crate::call::ApiCall;
use crate::keys;
use crate::resource_quotas::put_own;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// Its namespace.
const NAMESPACE: &str = "kube-system";
/// Its name.
const NAME: &str = "extension-apiserver-authentication";

/// The name in the certificate of the proxy. Other certificates of its CA name no user.
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// What other servers trust: what the proxy writes into headers, if it has a CA.
fn data(api: &ApiShared) -> BTreeMap<String, String> {
    let mut data = BTreeMap::from([("client-ca-file".to_owned(), api.ca_bundle.clone())]);
    if let Some(ca) = api.front_proxy_ca() {
        let lists = [
            ("requestheader-allowed-names", FRONT_PROXY_CLIENT),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            ("requestheader-group-headers", "X-Remote-Group"),
            ("requestheader-uid-headers", "X-Remote-Uid"),
            ("requestheader-username-headers", "X-Remote-User"),
        ];
        let lists = lists.map(|(key, one)| (key.to_owned(), format!("[{one:?}]")));
        data.extend(lists);
        data.insert("requestheader-client-ca-file".to_owned(), ca.to_owned());
    }
    data
}

/// Gives it the content that it must have. A change by hand is undone in the same write; upstream's
/// controller undoes it shortly after.
pub(super) fn fill(call: &ApiCall<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    put_right(call.api, object);
    Ok(())
}

fn put_right(api: &ApiShared, object: &mut dyn AnyObject) {
    let Some(map) = object.as_any_mut().downcast_mut::<ConfigMap>() else { return };
    let meta = &map.metadata;
    if (meta.namespace.as_deref(), meta.name.as_deref()) == (Some(NAMESPACE), Some(NAME)) {
        map.data.get_or_insert_default().extend(data(api));
    }
}

/// Makes it, or brings the one that is there up to date.
pub(crate) fn bootstrap(api: &ApiShared, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let Some(entry) = entry(api) else { return Ok(Vec::new()) };
    let key = keys::object(entry, NAMESPACE, NAME);
    let Some(stored) = api.store.newest(&key) else { return make(api, entry, now) };
    // one that cannot be read is not overwritten
    let Ok(old) = api.read(entry, &stored) else { return Ok(Vec::new()) };
    let mut object = old.boxed_clone();
    put_right(api, object.as_mut());
    if object.same_as(old.as_ref()) {
        return Ok(Vec::new());
    }
    let write = (key.as_str(), WritePrecondition::Revision(stored.revision), object.as_ref());
    put_own(api, entry, write, Some(old.as_ref()), now)
}

/// Makes it again when it was removed.
pub(super) fn restore(
    call: &ApiCall<'_>,
    namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    let is_config_map = call.entry.group_and_plural() == ("", "configmaps");
    match entry(call.api) {
        Some(entry) if is_config_map && (namespace, name) == (NAMESPACE, NAME) => {
            Ok(make(call.api, entry, call.request.now)?)
        }
        Some(_) | None => Ok(Vec::new()),
    }
}

fn entry(api: &ApiShared) -> Option<&KindEntry> {
    api.registry.find("", "v1", "configmaps").map(AsRef::as_ref)
}

fn make(api: &ApiShared, entry: &KindEntry, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
        data: Some(data(api)),
        ..ConfigMap::default()
    };
    make_of(api, entry, NAMESPACE, Box::new(map), now)
}
