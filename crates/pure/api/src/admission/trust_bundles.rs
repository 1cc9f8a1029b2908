//! ClusterTrustBundles: who may speak for a signer, and the bundle with the CA of this server.
//!
//! Sources: upstream's admission plugin ClusterTrustBundleAttest, and its controller
//! `clustertrustbundlepublisher`.

use k8s_openapi::api::certificates::v1::{ClusterTrustBundle, ClusterTrustBundleSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_kinds::certificate_signing_request::GROUP;
use rekindle_kinds::cluster_trust_bundle::signer_prefix;
use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_kinds::validation::text;
use rekindle_store::{PendingWrite, RangeQuery, StoreError};
use rekindle_types::Tick;
use sha2::{Digest, Sha256};

use super::ObjectWrite;
use super::certificates::may;
use super::namespaces::make_of;
use crate::call::{ApiCall, remove};
use crate::keys;
use crate::selectors::names_of_key;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// The signer of the certificates with which API servers answer.
const SERVING: &str = "kubernetes.io/kube-apiserver-serving";
/// As much of the hash of a bundle as its name shows, bytes.
const HASH_BYTES: usize = 12;

/// Checks that the writer of a signer's bundle may speak for the signer.
pub(super) fn check_attest(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let Some(bundle) = write.new.as_any().downcast_ref::<ClusterTrustBundle>() else {
        return Ok(());
    };
    let old = write.old.and_then(|old| old.as_any().downcast_ref::<ClusterTrustBundle>());
    let signer = text(bundle.spec.signer_name.as_ref());
    if signer.is_empty() || old.is_some_and(|old| is_same_but_for_ends(bundle, old)) {
        return Ok(());
    }
    let (call, name) = (write.call, text(bundle.metadata.name.as_ref()));
    if !may(call, "attest", signer)? {
        let why = format!("user not permitted to attest for signerName {signer:?}");
        return Err(ApiError::forbidden(call.entry, name, &why));
    }
    if signer == SERVING && name != published_name(call.api) {
        let why = format!("bundles of {SERVING} are published by the API server alone");
        return Err(ApiError::forbidden(call.entry, name, &why));
    }
    Ok(())
}

/// Whether nothing changes but what decides when the object goes: garbage collectors write that.
fn is_same_but_for_ends(new: &ClusterTrustBundle, old: &ClusterTrustBundle) -> bool {
    let mut expected = old.clone();
    let meta = &mut expected.metadata;
    meta.owner_references.clone_from(&new.metadata.owner_references);
    meta.finalizers.clone_from(&new.metadata.finalizers);
    meta.managed_fields.clone_from(&new.metadata.managed_fields);
    expected == *new
}

/// Gives the published bundle the CA that it must have. A change by hand is undone in the same
/// write; upstream's controller undoes it shortly after.
pub(super) fn fill(call: &ApiCall<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    let Some(bundle) = object.as_any_mut().downcast_mut::<ClusterTrustBundle>() else {
        return Ok(());
    };
    if text(bundle.metadata.name.as_ref()) == published_name(call.api) {
        bundle.spec = published(call.api);
    }
    Ok(())
}

/// Makes the bundle of today's CA, and removes those of earlier ones.
pub(crate) fn bootstrap(api: &ApiShared, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let Some(entry) = entry(api) else { return Ok(Vec::new()) };
    let today = published_name(api);
    let prefix = signer_prefix(SERVING);
    let mut pending = Vec::new();
    let query = RangeQuery { prefix: keys::collection(entry, ""), ..RangeQuery::default() };
    for stored in api.store.range(&query)?.objects {
        let (_, name) = names_of_key(entry, stored.key.as_str());
        if name.starts_with(&prefix) && name != today {
            pending.extend(remove(api, entry, &stored, now)?);
        }
    }
    pending.extend(make(api, entry, now)?);
    Ok(pending)
}

/// Makes the published bundle again when it was removed.
pub(super) fn restore(
    call: &ApiCall<'_>,
    _namespace: &str,
    name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    let is_bundle = call.entry.group_and_plural() == (GROUP, "clustertrustbundles");
    if is_bundle && name == published_name(call.api) {
        return Ok(make(call.api, call.entry, call.request.now)?);
    }
    Ok(Vec::new())
}

fn entry(api: &ApiShared) -> Option<&KindEntry> {
    api.registry.find(GROUP, "v1", "clustertrustbundles").map(AsRef::as_ref)
}

fn make(api: &ApiShared, entry: &KindEntry, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let bundle = ClusterTrustBundle {
        metadata: ObjectMeta { name: Some(published_name(api)), ..ObjectMeta::default() },
        spec: published(api),
    };
    make_of(api, entry, "", Box::new(bundle), now)
}

fn published(api: &ApiShared) -> ClusterTrustBundleSpec {
    ClusterTrustBundleSpec {
        signer_name: Some(SERVING.to_owned()),
        trust_bundle: api.ca_bundle.clone(),
    }
}

/// The name says which CA it is, as upstream's.
fn published_name(api: &ApiShared) -> String {
    let hash = Sha256::digest(api.ca_bundle.as_bytes());
    let hash: String = hash.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
    signer_prefix(SERVING) + &hash
}
