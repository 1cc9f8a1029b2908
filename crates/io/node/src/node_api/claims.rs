//! The file systems that volumes behind claims lie on. They may be of disks that do not answer:
//! whoever asks waits for a while, and one thread only waits longer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Volume;
use rekindle_metrics::{MetricKind, Text};
use rekindle_types::pods::claim_name;
use rekindle_types::{PodRef, Tick};
use tokio::sync::Mutex;

use crate::layout::NodeDirs;
use crate::pods::PodIndex;
use crate::usage::{FileSystemUsage, file_system};
use crate::volumes::linked;

/// As long as an answer waits for the disks.
const WAIT: Duration = Duration::from_secs(2);

/// A volume of a pod that stands behind a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimUsage {
    pub(super) pod: PodRef,
    /// Its name in the pod.
    pub(super) volume: String,
    pub(super) claim: String,
    /// What it lies on, which others may lie on, too.
    pub(super) file_system: FileSystemUsage,
}

/// Looks at these file systems, one look at a time.
#[derive(Debug, Default)]
pub(super) struct ClaimReader {
    turn: Arc<Mutex<()>>,
}

/// A volume before it is looked at.
struct ClaimLink {
    pod: PodRef,
    volume: String,
    claim: String,
    link: PathBuf,
}

impl ClaimReader {
    /// Every claimed volume of the pods that are here; none when a disk does not answer.
    pub(super) async fn take(
        &self,
        index: &PodIndex,
        dirs: &NodeDirs,
        now: Tick,
    ) -> Vec<ClaimUsage> {
        let places = places(index, dirs);
        if places.is_empty() {
            return Vec::new();
        }
        let turn = self.turn.clone();
        let look = async {
            let turn = turn.lock_owned().await;
            let looked = tokio::task::spawn_blocking(move || {
                let _until_done = turn;
                places.into_iter().filter_map(|place| usage_of(place, now)).collect()
            });
            looked.await.unwrap_or_default()
        };
        tokio::time::timeout(WAIT, look).await.unwrap_or_else(|_elapsed| {
            tracing::warn!("failed to read the usage of claimed volumes in time");
            Vec::new()
        })
    }
}

fn places(index: &PodIndex, dirs: &NodeDirs) -> Vec<ClaimLink> {
    let mut places = Vec::new();
    for view in index.all() {
        let (pod, folder) = (view.pod.borrow().clone(), dirs.pod(&view.pod_ref).volumes());
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        places.extend(volumes.filter_map(|volume: &Volume| {
            Some(ClaimLink {
                pod: view.pod_ref.clone(),
                volume: volume.name.clone(),
                claim: claim_name(&view.pod_ref.name, volume)?,
                link: folder.join(&volume.name),
            })
        }));
    }
    places
}

/// `None` while the pod has no link to it.
fn usage_of(place: ClaimLink, now: Tick) -> Option<ClaimUsage> {
    let ClaimLink { pod, volume, claim, link } = place;
    let file_system = file_system(&linked(&link)?, now).ok()?;
    Some(ClaimUsage { pod, volume, claim, file_system })
}

/// `kubelet_volume_stats_*`, each claim once.
pub(super) fn write(text: &mut Text, claims: &[ClaimUsage]) {
    type Figure = fn(&FileSystemUsage) -> u64;
    let families: [(&'static str, &str, Figure); 6] = [
        (
            "kubelet_volume_stats_available_bytes",
            "Number of available bytes in the volume",
            |found| found.available_bytes,
        ),
        ("kubelet_volume_stats_capacity_bytes", "Capacity in bytes of the volume", |found| {
            found.capacity_bytes
        }),
        ("kubelet_volume_stats_inodes", "Maximum number of inodes in the volume", |found| {
            found.inodes
        }),
        ("kubelet_volume_stats_inodes_free", "Number of free inodes in the volume", |found| {
            found.inodes_free
        }),
        ("kubelet_volume_stats_inodes_used", "Number of used inodes in the volume", |found| {
            found.inodes_used()
        }),
        ("kubelet_volume_stats_used_bytes", "Number of used bytes in the volume", |found| {
            found.used_bytes
        }),
    ];
    let named = |found: &ClaimUsage| (found.pod.namespace.clone(), found.claim.clone());
    let once: BTreeMap<_, _> =
        claims.iter().map(|found| (named(found), found.file_system)).collect();
    for (name, help, figure) in families {
        text.family(name, MetricKind::Gauge, help);
        for ((namespace, claim), found) in &once {
            let labels =
                [("namespace", namespace.as_str()), ("persistentvolumeclaim", claim.as_str())];
            text.sample(&labels, figure(found) as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use k8s_openapi::api::core::v1::Pod;
    use rekindle_types::PodUid;
    use serde_json::json;
    use tokio::sync::watch;

    use super::*;
    use crate::pods::PodView;
    use crate::testing::TestFolder;

    #[tokio::test]
    async fn a_claim_shows_the_file_system_that_its_volume_lies_on() {
        let folder = TestFolder::new();
        let dirs = NodeDirs::new(&folder.join("data"), &folder.join("logs"));
        let index = PodIndex::default();
        let volumes = json!([
            { "name": "data", "persistentVolumeClaim": { "claimName": "shop-data" } },
            { "name": "own", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
            { "name": "later", "persistentVolumeClaim": { "claimName": "pending" } },
            { "name": "scratch", "emptyDir": {} },
        ]);
        for name in ["web-0", "web-1"] {
            let uid = PodUid(format!("u-{name}"));
            let pod_ref = PodRef { namespace: "shop".into(), name: name.into(), uid };
            let pod = json!({ "metadata": {}, "spec": { "containers": [], "volumes": volumes } });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let links = dirs.pod(&pod_ref).volumes();
            std::fs::create_dir_all(&links).unwrap();
            for volume in ["data", "own"] {
                symlink(folder.join(""), links.join(volume)).unwrap();
            }
            let (_, pod) = watch::channel(Arc::new(pod));
            let (_, status) = watch::channel(Arc::default());
            index.insert(PodView { pod_ref, pod, status });
        }
        let found = ClaimReader::default().take(&index, &dirs, Tick::from_secs(1)).await;
        let named: Vec<_> =
            found.iter().map(|found| (found.volume.as_str(), found.claim.as_str())).collect();
        let expected = [
            ("data", "shop-data"),
            ("own", "web-0-own"),
            ("data", "shop-data"),
            ("own", "web-1-own"),
        ];
        assert_eq!(named, expected);
        let shown = super::super::summary::claimed_volume(&found[1]);
        assert_eq!(shown["pvcRef"], json!({ "name": "web-0-own", "namespace": "shop" }));
        let mut text = Text::default();
        write(&mut text, &found);
        let text = text.into_string();
        let capacity = found[0].file_system.capacity_bytes;
        let line = format!(
            "kubelet_volume_stats_capacity_bytes{{namespace=\"shop\",persistentvolumeclaim=\"shop-data\"}} {capacity}"
        );
        assert!(capacity > 0);
        assert_eq!(text.lines().filter(|found| **found == line).count(), 1, "{line}: {text}");
    }
}
