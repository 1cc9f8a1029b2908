//! Which images go when the disk fills: pure. As the kubelet's image manager does it (its flags
//! `--image-gc-high-threshold`, `--image-gc-low-threshold`, `--minimum-image-ttl-duration`).

use std::collections::BTreeMap;

use rekindle_runtime::{ImageFileSystem, ImageOnDisk, ImageUse};
use rekindle_types::{Tick, TickDuration};

/// When images are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageGcPolicy {
    /// Percent of the images' file system from which on images are removed.
    pub high_threshold_percent: u64,
    /// Percent down to which they are.
    pub low_threshold_percent: u64,
    /// An image is not removed before it was here for so long, nor so soon after a pod asked for
    /// it.
    pub min_age: TickDuration,
}

impl Default for ImageGcPolicy {
    fn default() -> Self {
        Self {
            high_threshold_percent: 85,
            low_threshold_percent: 80,
            min_age: TickDuration::from_secs(120),
        }
    }
}

impl ImageGcPolicy {
    /// All goes that may go, however much room there is.
    pub(crate) const fn with_nothing_kept(self) -> Self {
        Self { high_threshold_percent: 0, low_threshold_percent: 0, ..self }
    }
}

/// What is remembered of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ImageRecord {
    first_seen: Tick,
    last_used: Tick,
}

/// Since when images are here, and when they were used last.
#[derive(Clone, Debug, Default)]
pub(crate) struct ImageRecords {
    images: BTreeMap<String, ImageRecord>,
    /// Whether images were looked at before: what the first look finds may have been here for long.
    looked: bool,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageGcPlan {
    /// Bytes that are to be freed; 0 while the disk is not full.
    pub(crate) wanted_bytes: u64,
    /// Ids of the images to remove, in this order.
    pub(crate) remove: Vec<String>,
    /// Bytes of these.
    pub(crate) eligible_bytes: u64,
    /// What would go if it had not been loaded by hand.
    pub(crate) pinned: PinnedImages,
}

/// Images that nothing uses, and that stay all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PinnedImages {
    /// How many.
    pub(crate) count: usize,
    /// Bytes of them all.
    pub(crate) bytes: u64,
}

impl PinnedImages {
    fn among(images: &[ImageOnDisk]) -> Self {
        let pinned = images.iter().filter(|image| image.usage == ImageUse::Pinned);
        pinned.fold(Self::default(), |all, image| Self {
            count: all.count + 1,
            bytes: all.bytes.saturating_add(image.size_bytes),
        })
    }

    /// What is told when the disk stays full, if they are a reason.
    pub(crate) fn told(self) -> Option<String> {
        let Self { count, bytes } = self;
        (count > 0).then(|| {
            format!(
                "{count} unused images of {bytes} bytes were loaded by hand and are kept, as no registry may have them: \
                 remove them with `rekindle image rm`, or load them with --evictable."
            )
        })
    }
}

impl ImageRecords {
    /// Takes note of the images that are here now, and of the uses that pods told since.
    pub(crate) fn observe(
        &mut self,
        now: Tick,
        images: &[ImageOnDisk],
        uses: &BTreeMap<String, Tick>,
    ) {
        let first_seen = if self.looked { now } else { Tick::default() };
        self.looked = true;
        let mut known = BTreeMap::new();
        for image in images {
            let new = ImageRecord { first_seen, last_used: Tick::default() };
            let mut record = self.images.get(&image.id).copied().unwrap_or(new);
            if let Some(used) = uses.get(&image.id) {
                record.last_used = record.last_used.max(*used);
            }
            match image.usage {
                ImageUse::ByContainers => record.last_used = now,
                ImageUse::BuiltIn | ImageUse::Pinned | ImageUse::Unused => {}
            }
            known.insert(image.id.clone(), record);
        }
        self.images = known;
    }

    /// The images that must go: the one that was unused for longest first, of equal ones the one
    /// that came first. None that is in use, built in, or too young.
    pub(crate) fn plan(
        &self,
        now: Tick,
        policy: &ImageGcPolicy,
        disk: ImageFileSystem,
        images: &[ImageOnDisk],
    ) -> ImageGcPlan {
        let wanted_bytes = wanted(policy, disk);
        let mut candidates: Vec<(&ImageRecord, &ImageOnDisk)> = images
            .iter()
            .filter_map(|image| Some((self.images.get(&image.id)?, image)))
            .filter(|(record, image)| may_go(now, policy, record, image))
            .collect();
        candidates.sort_by_key(|(record, image)| (record.last_used, record.first_seen, &image.id));
        let pinned = PinnedImages::among(images);
        let mut plan = ImageGcPlan { wanted_bytes, pinned, ..ImageGcPlan::default() };
        for (_, image) in candidates {
            if plan.eligible_bytes >= wanted_bytes {
                break;
            }
            plan.eligible_bytes = plan.eligible_bytes.saturating_add(image.size_bytes);
            plan.remove.push(image.id.clone());
        }
        plan
    }
}

/// Bytes to free so that the low threshold is kept; 0 below the high one.
fn wanted(policy: &ImageGcPolicy, disk: ImageFileSystem) -> u64 {
    let ImageFileSystem { capacity_bytes, available_bytes, .. } = disk;
    if capacity_bytes == 0 || available_bytes > capacity_bytes {
        return 0; // nothing that can be reckoned with
    }
    let percent = |percent: u64| {
        let bytes = u128::from(capacity_bytes) * u128::from(percent.min(100)) / 100;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    };
    let used_bytes = capacity_bytes - available_bytes;
    if used_bytes < percent(policy.high_threshold_percent) {
        return 0;
    }
    used_bytes.saturating_sub(percent(policy.low_threshold_percent))
}

fn may_go(now: Tick, policy: &ImageGcPolicy, record: &ImageRecord, image: &ImageOnDisk) -> bool {
    let unused = match image.usage {
        ImageUse::Unused => true,
        ImageUse::ByContainers | ImageUse::BuiltIn | ImageUse::Pinned => false,
    };
    unused
        && now.since(record.first_seen) >= policy.min_age
        && now.since(record.last_used) >= policy.min_age
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1 << 30;

    fn image(id: &str, gigabytes: u64, usage: ImageUse) -> ImageOnDisk {
        ImageOnDisk { id: id.to_owned(), names: Vec::new(), size_bytes: gigabytes * GB, usage }
    }

    fn file_system(capacity_bytes: u64, available_bytes: u64) -> ImageFileSystem {
        let used_bytes = capacity_bytes.saturating_sub(available_bytes);
        ImageFileSystem { capacity_bytes, available_bytes, used_bytes, inodes: 0, inodes_free: 0 }
    }

    fn disk(used_percent: u64) -> ImageFileSystem {
        file_system(100 * GB, (100 - used_percent) * GB)
    }

    fn at(seconds: u64) -> Tick {
        Tick::from_secs(1_000_000 + seconds)
    }

    fn removed(
        records: &ImageRecords,
        now: Tick,
        used_percent: u64,
        images: &[ImageOnDisk],
    ) -> Vec<String> {
        records.plan(now, &ImageGcPolicy::default(), disk(used_percent), images).remove
    }

    #[test]
    fn nothing_goes_below_the_high_threshold_and_enough_goes_above_it() {
        let images: Vec<ImageOnDisk> =
            (0..9).map(|n| image(&n.to_string(), 2, ImageUse::Unused)).collect();
        let mut records = ImageRecords::default();
        records.observe(at(0), &images, &BTreeMap::new());
        // down to 80 %: at 85 % that is 5 GB, 3 images of 2 GB
        for (percent, count) in [(0, 0), (84, 0), (85, 3), (90, 5), (100, 9)] {
            assert_eq!(removed(&records, at(0), percent, &images).len(), count, "{percent} %");
        }
    }

    #[test]
    fn the_longest_unused_goes_first_and_what_is_used_stays() {
        let mut images = vec![
            image("old", 1, ImageUse::ByContainers),
            image("older", 1, ImageUse::ByContainers),
            image("used", 1, ImageUse::ByContainers),
            image("never", 1, ImageUse::Unused),
            image("builtin", 1, ImageUse::BuiltIn),
        ];
        let mut records = ImageRecords::default();
        records.observe(at(0), &images, &BTreeMap::new());
        images[1].usage = ImageUse::Unused;
        records.observe(at(60), &images, &BTreeMap::new());
        images[0].usage = ImageUse::Unused;
        records.observe(at(300), &images, &BTreeMap::new());
        assert_eq!(removed(&records, at(300), 100, &images), ["never", "older", "old"]);
        assert_eq!(removed(&records, at(300), 86, &images).len(), 3, "and no more can go");
    }

    /// No registry may have it: a machine without one could not get it back.
    #[test]
    fn what_was_loaded_by_hand_stays_and_is_told_of() {
        let images = [image("loaded", 30, ImageUse::Pinned), image("pulled", 1, ImageUse::Unused)];
        let mut records = ImageRecords::default();
        records.observe(at(0), &images, &BTreeMap::new());
        let policy = ImageGcPolicy::default().with_nothing_kept();
        let plan = records.plan(at(300), &policy, disk(100), &images);
        assert_eq!(plan.remove, ["pulled"]);
        assert_eq!(plan.pinned, PinnedImages { count: 1, bytes: 30 * GB });
        let told = plan.pinned.told().unwrap();
        assert!(told.starts_with("1 unused images of 32212254720 bytes were loaded"), "{told}");
        assert_eq!(PinnedImages::default().told(), None);
    }

    #[test]
    fn young_images_and_those_a_pod_has_just_asked_for_stay() {
        let mut images = vec![image("here", 1, ImageUse::Unused)];
        let mut records = ImageRecords::default();
        records.observe(at(0), &images, &BTreeMap::new());
        images.push(image("new", 1, ImageUse::Unused));
        records.observe(at(10), &images, &BTreeMap::new());
        assert_eq!(removed(&records, at(10), 100, &images), ["here"], "no one knows how old it is");
        assert_eq!(removed(&records, at(129), 100, &images), ["here"]);
        assert_eq!(removed(&records, at(130), 100, &images), ["here", "new"]);
        records.observe(at(131), &images, &BTreeMap::from([("here".to_owned(), at(130))]));
        assert_eq!(removed(&records, at(249), 100, &images), ["new"]);
        assert_eq!(removed(&records, at(250), 100, &images), ["new", "here"]);
    }

    #[test]
    fn an_image_that_comes_back_is_young_again() {
        let images = [image("a", 1, ImageUse::Unused)];
        let mut records = ImageRecords::default();
        records.observe(at(0), &images, &BTreeMap::new());
        records.observe(at(300), &[], &BTreeMap::new());
        records.observe(at(600), &images, &BTreeMap::new());
        assert_eq!(removed(&records, at(601), 100, &images), Vec::<String>::new());
    }

    #[test]
    fn a_disk_that_says_nonsense_removes_nothing() {
        let images = [image("a", 1, ImageUse::Unused)];
        let mut records = ImageRecords::default();
        records.observe(at(0), &images, &BTreeMap::new());
        for (capacity_bytes, available_bytes) in [(0, 0), (10, 20)] {
            let disk = file_system(capacity_bytes, available_bytes);
            let plan = records.plan(at(300), &ImageGcPolicy::default(), disk, &images);
            assert_eq!(plan, ImageGcPlan::default());
        }
    }
}
