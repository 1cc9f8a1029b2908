//! The task that keeps a node's images: it lists them for the Node's status, and removes the
//! longest unused when their disk fills. It decides nothing itself ([`collect`](super::collect)).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ContainerImage;
use rekindle_runtime::{ImageOnDisk, Runtime, RuntimeError};
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, TickDuration};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::collect::{ImageGcPlan, ImageGcPolicy, ImageRecords};
use crate::context::NodeContext;
use crate::network::PodNetwork;

/// Between two looks at the images, as the kubelet's image cache.
const LOOK_PERIOD: Duration = Duration::from_secs(30);
/// From one collection to the next, as the kubelet's.
const COLLECTION_PERIOD: TickDuration = TickDuration::from_secs(300);
/// Images and names of each in the Node's status, as the kubelet's `nodeStatusMaxImages`.
const STATUS_IMAGES_MAX: usize = 50;
const STATUS_NAMES_MAX: usize = 5;

/// The running task; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ImageKeeper {
    task: JoinHandle<()>,
}

/// What follows a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImageKeeperStep {
    Wait,
    /// Images go when their disk fills.
    Collect,
    /// All go that nobody uses: the node lacks disk.
    RemoveUnused,
}

impl ImageKeeper {
    /// Starts it. `shown` gets the list for the Node's status whenever it changes.
    pub(crate) fn start<R: Runtime, N: PodNetwork>(
        node: Arc<NodeContext<R, N>>,
        policy: ImageGcPolicy,
        shown: watch::Sender<Vec<ContainerImage>>,
    ) -> Self {
        Self { task: tokio::spawn(run(node, policy, shown)) }
    }
}

impl ImageKeeper {
    /// Stops it; nothing of the node is held any more when this returns.
    pub(crate) async fn stop(&mut self) {
        self.task.abort();
        // it was told to end, so that it ended early is no news
        let _aborted = (&mut self.task).await;
    }
}

impl Drop for ImageKeeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run<R: Runtime, N: PodNetwork>(
    node: Arc<NodeContext<R, N>>,
    policy: ImageGcPolicy,
    shown: watch::Sender<Vec<ContainerImage>>,
) {
    let mut records = ImageRecords::default();
    // not at once: what the node's pods use is not known yet
    let mut collected_at = node.clock.now();
    loop {
        let now = node.clock.now();
        let wanted = node.images.take_wanted();
        let then = if !wanted.is_empty() {
            ImageKeeperStep::RemoveUnused
        } else if now.since(collected_at) >= COLLECTION_PERIOD {
            ImageKeeperStep::Collect
        } else {
            ImageKeeperStep::Wait
        };
        if then == ImageKeeperStep::Collect {
            collected_at = now;
        }
        if let Err(error) = look(&node, &policy, &mut records, &shown, then).await {
            tracing::warn!(
                node = node.name,
                error = error.chain(),
                "failed to collect unused images"
            );
        }
        drop(wanted);
        tokio::select! {
            () = tokio::time::sleep(LOOK_PERIOD) => {}
            () = node.images.pulled() => {}
        }
    }
}

async fn look<R: Runtime, N: PodNetwork>(
    node: &NodeContext<R, N>,
    policy: &ImageGcPolicy,
    records: &mut ImageRecords,
    shown: &watch::Sender<Vec<ContainerImage>>,
    then: ImageKeeperStep,
) -> Result<(), RuntimeError> {
    let images = node.runtime.images().await?;
    let now = node.clock.now();
    records.observe(now, &images, &node.images.take_uses());
    let list = status_images(&images);
    shown.send_if_modified(|known| {
        let changed = *known != list;
        *known = list;
        changed
    });
    match then {
        ImageKeeperStep::Wait => {}
        ImageKeeperStep::Collect => {
            let disk = node.runtime.image_file_system().await?;
            let plan = records.plan(now, policy, disk, &images);
            let freed_bytes = remove(node, &images, &plan).await;
            complain(node, &plan, freed_bytes);
        }
        ImageKeeperStep::RemoveUnused => {
            let disk = node.runtime.image_file_system().await?;
            let plan = records.plan(now, &policy.with_nothing_kept(), disk, &images);
            // pods are evicted next: whoever looks for the reason finds the images that stay
            if remove(node, &images, &plan).await == 0
                && let Some(told) = plan.pinned.told()
            {
                tell_of_full_disk(node, told);
            }
        }
    }
    Ok(())
}

/// Answers the bytes that are had back.
async fn remove<R: Runtime, N: PodNetwork>(
    node: &NodeContext<R, N>,
    images: &[ImageOnDisk],
    plan: &ImageGcPlan,
) -> u64 {
    let mut freed_bytes = 0_u64;
    for id in &plan.remove {
        match node.runtime.remove_image(id).await {
            Ok(()) => {
                let size = images.iter().find(|image| image.id == *id).map_or(0, |i| i.size_bytes);
                freed_bytes = freed_bytes.saturating_add(size);
                tracing::info!(
                    node = node.name,
                    image = id,
                    size,
                    "an unused image is removed: the disk is full"
                );
            }
            // a container was made from it meanwhile, or the disk does not let go: the next
            // collection sees
            Err(error) => {
                tracing::warn!(
                    node = node.name,
                    image = id,
                    error = error.chain(),
                    "failed to remove an image"
                );
            }
        }
    }
    freed_bytes
}

/// Says that less could be removed than was wanted, if so, and which images are kept nevertheless.
fn complain<R, N>(node: &NodeContext<R, N>, plan: &ImageGcPlan, freed_bytes: u64) {
    let wanted = plan.wanted_bytes;
    if freed_bytes < wanted {
        let pinned = plan.pinned.told().map(|told| format!(" {told}")).unwrap_or_default();
        let message = format!(
            "Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only found \
             {freed_bytes} bytes eligible to free.{pinned}"
        );
        tell_of_full_disk(node, message);
    }
}

fn tell_of_full_disk<R, N>(node: &NodeContext<R, N>, message: String) {
    let about = node.object_reference();
    node.recorder.record(about, EventSeverity::Warning, event::FREE_DISK_SPACE_FAILED, message);
}

/// The largest images, each with some of its names.
fn status_images(images: &[ImageOnDisk]) -> Vec<ContainerImage> {
    let mut images: Vec<&ImageOnDisk> = images.iter().collect();
    images.sort_by(|a, b| (b.size_bytes, &a.names).cmp(&(a.size_bytes, &b.names)));
    let shown = |image: &ImageOnDisk| ContainerImage {
        names: Some(image.names.iter().take(STATUS_NAMES_MAX).cloned().collect()),
        size_bytes: Some(i64::try_from(image.size_bytes).unwrap_or(i64::MAX)),
    };
    images.into_iter().take(STATUS_IMAGES_MAX).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use rekindle_runtime::ImageUse;

    use super::*;

    #[test]
    fn the_nodes_status_names_the_fifty_largest_images_with_five_names_each() {
        let image = |number: u64| ImageOnDisk {
            id: format!("sha256:{number}"),
            names: (0..8).map(|name| format!("r.test/{number}:{name}")).collect(),
            size_bytes: number,
            usage: ImageUse::Unused,
        };
        let list = status_images(&(0..60).map(image).collect::<Vec<_>>());
        assert_eq!(list.len(), 50);
        assert_eq!(list[0].size_bytes, Some(59));
        assert_eq!(list[49].size_bytes, Some(10));
        assert_eq!(list[0].names.as_ref().unwrap().len(), 5);
    }
}
