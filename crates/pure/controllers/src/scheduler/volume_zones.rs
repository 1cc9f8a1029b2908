//! Zones and regions of volumes: a volume that is labelled with some is used from nodes of one of
//! them [kube-scheduler, VolumeZone].

use k8s_openapi::api::core::v1::{Node, PersistentVolume};

use rekindle_types::labels::{REGION, ZONE};

use super::affinity::label;

/// Labels of a volume, and what a node may be labelled with instead.
const LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    (ZONE, ZONE),
    (REGION, REGION),
];
/// Between the zones of a volume that is in several.
const DELIMITER: &str = "__";

/// True when the volume's labels say so, or the node has none of these: then there is one zone.
pub(super) fn reach(volume: &PersistentVolume, node: &Node) -> bool {
    if LABELS.iter().all(|(key, _)| label(node, key).is_none()) {
        return true;
    }
    let labels = volume.metadata.labels.as_ref();
    LABELS.iter().all(|(key, stable)| {
        let zones = labels.and_then(|labels| labels.get(*key)).and_then(|text| zones(text));
        let own = label(node, key).or_else(|| label(node, stable));
        zones.is_none_or(|zones| own.is_some_and(|own| zones.contains(&own)))
    })
}

/// The zones in a label; a text with an empty one says nothing.
fn zones(text: &str) -> Option<Vec<&str>> {
    let zones: Vec<&str> = text.split(DELIMITER).map(str::trim).collect();
    (!zones.contains(&"")).then_some(zones)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn labelled(labels: &[(&str, &str)]) -> ObjectMeta {
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }
    }

    #[test]
    fn a_volume_is_reached_from_its_zones_and_regions() {
        let beta = "failure-domain.beta.kubernetes.io/zone";
        // (labels of the volume, of the node, whether they go together)
        for (volume, node, expected) in [
            (&[(ZONE, "a")][..], &[(ZONE, "a")][..], true),
            (&[(ZONE, "a")], &[(ZONE, "b")], false),
            (&[(ZONE, "a__b")], &[(ZONE, "b")], true),
            (&[(ZONE, "a__")], &[(ZONE, "b")], true),
            (&[(ZONE, "a")], &[], true),
            (&[(ZONE, "a")], &[("zone", "b")], true),
            (&[(ZONE, "a")], &[(REGION, "west")], false),
            (&[], &[(ZONE, "a")], true),
            (&[(ZONE, "a"), (REGION, "west")], &[(ZONE, "a"), (REGION, "west")], true),
            (&[(ZONE, "a"), (REGION, "west")], &[(ZONE, "a"), (REGION, "east")], false),
            (&[(beta, "a")], &[(ZONE, "a")], true),
            (&[(beta, "a")], &[(beta, "b"), (ZONE, "a")], false),
            (&[(ZONE, "a")], &[(beta, "a")], false),
        ] {
            let pv = PersistentVolume { metadata: labelled(volume), ..Default::default() };
            let at = Node { metadata: labelled(node), ..Default::default() };
            assert_eq!(reach(&pv, &at), expected, "{volume:?} {node:?}");
        }
    }
}
