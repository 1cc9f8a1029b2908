//! Which ReplicaSet a Deployment's pod template belongs to.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::revisions::TEMPLATE_HASH_LABEL;

/// True when the ReplicaSet was made from this template.
pub(super) fn has_template(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let own = set.spec.template.as_ref();
    own.is_some_and(|own| own.spec == template.spec && without_hash(own) == without_hash(template))
}

/// The template's metadata without the hash.
fn without_hash(template: &PodTemplateSpec) -> ObjectMeta {
    let mut meta = template.metadata.clone().unwrap_or_default();
    let labels = meta.labels.get_or_insert_default();
    labels.remove(TEMPLATE_HASH_LABEL);
    meta
}
