//! Metadata as it is kept.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Makes what is empty absent: to the API the two are the same, and so none is a change of the
/// other.
pub fn drop_empty(meta: &mut ObjectMeta) {
    meta.labels = meta.labels.take().filter(|labels| !labels.is_empty());
    meta.annotations = meta.annotations.take().filter(|annotations| !annotations.is_empty());
    meta.finalizers = meta.finalizers.take().filter(|finalizers| !finalizers.is_empty());
    meta.owner_references = meta.owner_references.take().filter(|owners| !owners.is_empty());
}
