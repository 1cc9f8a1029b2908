//! Images that a node has already count for it [kube-scheduler, ImageLocality].

use std::collections::BTreeMap;

use rekindle_types::held::{HeldPod, HeldVolumeSource};

use super::candidate::{NodeCandidate, SCORE_MAX};
use crate::cluster::{ClusterIndex, ImageNodes};

/// Images that are smaller do not count.
const COUNTS_FROM_BYTES: i64 = 23 << 20;
/// An image counts up to this size.
const COUNTS_TO_BYTES: i64 = 1000 << 20;

/// 0..=100 for each candidate, or nothing when all have the same. An image that is on few of all
/// nodes counts less, so that not every pod goes to the one node that has it.
pub(super) fn scores(
    cluster: &ClusterIndex,
    pod: &HeldPod,
    candidates: &[NodeCandidate<'_>],
) -> Option<Vec<i64>> {
    let images = images(pod);
    let known = || {
        let of_image = |(image, times): (&&str, &i64)| {
            Some((cluster.images().nodes_with(&with_tag(image))?, *times))
        };
        images.iter().filter_map(of_image)
    };
    let node_count = cluster.node_count();
    let is_everywhere =
        |nodes: &ImageNodes| nodes.count() == node_count && nodes.common_bytes().is_some();
    if known().all(|(nodes, _)| is_everywhere(nodes)) {
        return None;
    }
    let mut bytes = vec![0i64; candidates.len()];
    for (nodes, times) in known() {
        let worth = |size: i64| {
            size.saturating_mul(count(nodes.count()) * times) / count(node_count.max(1))
        };
        for (candidate, sum) in candidates.iter().zip(&mut bytes) {
            *sum = sum.saturating_add(nodes.bytes_on(candidate.host.name).map_or(0, worth));
        }
    }
    let most = COUNTS_TO_BYTES * images.values().sum::<i64>();
    let score = |sum: i64| {
        SCORE_MAX * (sum.clamp(COUNTS_FROM_BYTES, most) - COUNTS_FROM_BYTES)
            / (most - COUNTS_FROM_BYTES)
    };
    Some(bytes.into_iter().map(score).collect())
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The images of its containers and volumes, and how often each is used.
fn images(pod: &HeldPod) -> BTreeMap<&str, i64> {
    let mut images = BTreeMap::new();
    let Some(spec) = &pod.spec else { return images };
    let containers = spec.init_containers.iter().chain(&*spec.containers);
    let of_containers = containers.filter_map(|container| container.image.as_deref());
    let of_volumes = spec.volumes.iter().filter_map(|volume| match &volume.source {
        HeldVolumeSource::Image(reference) => reference.as_deref(),
        HeldVolumeSource::Claim(_) | HeldVolumeSource::Ephemeral(_) | HeldVolumeSource::Disk => {
            None
        }
    });
    for image in of_containers.chain(of_volumes) {
        *images.entry(image).or_insert(0) += 1;
    }
    images
}

/// The name as a node's status has it.
fn with_tag(image: &str) -> String {
    let has_tag = image.rfind(':') > image.rfind('/');
    if has_tag { image.to_owned() } else { format!("{image}:latest") }
}
