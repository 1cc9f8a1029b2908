//! New pods of a StatefulSet.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::revisions::HASH_LABEL;

use super::{claims, identity};
use crate::{ResourceKind, owners};

/// The pod of an ordinal, after a template.
pub(super) fn pod(
    set: &StatefulSet,
    ordinal: i32,
    template: PodTemplateSpec,
    revision: &str,
) -> Pod {
    let name = identity::pod_name(set, ordinal);
    let from = template.metadata.unwrap_or_default();
    let mut labels = from.labels.unwrap_or_default();
    labels.insert(identity::POD_NAME.to_owned(), name.clone());
    labels.insert(identity::POD_INDEX.to_owned(), ordinal.to_string());
    labels.insert(HASH_LABEL.to_owned(), revision.to_owned());
    let mut spec = template.spec.unwrap_or_default();
    spec.hostname = Some(name.clone());
    spec.subdomain = set.spec.service_name.clone().filter(|service| !service.is_empty());
    for claim in claims::templates(set) {
        let template = claims::template_name(claim);
        let volumes = spec.volumes.get_or_insert_default();
        volumes.retain(|volume| volume.name != template);
        volumes.push(Volume {
            name: template.to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claims::name(set, claim, ordinal),
                read_only: None,
            }),
            ..Volume::default()
        });
    }
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", identity::set_name(set))),
            name: Some(name),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: from.annotations,
            finalizers: from.finalizers,
            owner_references: Some(vec![owners::controller_reference(
                ResourceKind::StatefulSet,
                &set.metadata,
            )]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}
