//! Which images containers were made from, as the records on disk say: true for every process that
//! looks.

use std::fs;
use std::io;
use std::path::Path;

use super::records::SandboxRecords;
use crate::runtime::ImagesInUse;

/// The images of all containers, and of the volumes that they mount, that stand beneath the
/// runtime's data folder, running or not. A folder that is not there holds none.
pub fn images_in_use(data_dir: &Path) -> io::Result<ImagesInUse> {
    match in_use(&data_dir.join("sandboxes")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ImagesInUse::new()),
        found => found,
    }
}

pub(super) fn in_use(sandboxes: &Path) -> io::Result<ImagesInUse> {
    let mut found = ImagesInUse::new();
    for sandbox in fs::read_dir(sandboxes)? {
        // one that has just been moved to the trash has no records any more
        let records = SandboxRecords::read(&sandbox?.path());
        for record in records.containers.into_values() {
            for image in record.volume_images.into_iter().chain([record.image_id]) {
                found.entry(image).or_default().insert(record.key.sandbox.pod.clone());
            }
        }
    }
    Ok(found)
}

/// Adds those of another runtime.
pub fn join_in_use(all: &mut ImagesInUse, more: ImagesInUse) {
    for (image, pods) in more {
        all.entry(image).or_default().extend(pods);
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::{RecordFile, RecordLine, SlotRecord};
    use super::*;

    #[test]
    fn images_of_all_standing_containers_are_in_use() {
        let dir = tempfile::tempdir().unwrap();
        assert!(images_in_use(dir.path()).unwrap().is_empty(), "nothing was ever run");
        for (sandbox, slot, image) in [("a", "web-0", "sha256:1"), ("b", "db-3", "sha256:2")] {
            let folder = dir.path().join("sandboxes").join(sandbox);
            fs::create_dir_all(&folder).unwrap();
            let pod = serde_json::json!({ "namespace": "n", "name": "p", "uid": "u" });
            let key = serde_json::json!({ "sandbox": { "pod": pod, "attempt": 0 }, "name": "c", "attempt": 0 });
            let record = serde_json::json!({
                "key": key, "id": "x", "image_id": image, "stop_signal": 15, "root": null,
                "volume_images": if sandbox == "b" { vec!["sha256:3"] } else { Vec::new() },
            });
            let record: SlotRecord = serde_json::from_value(record).unwrap();
            let records = RecordFile::open(&folder).unwrap();
            for slot in [slot, "gone-0"] {
                let image_id = if slot == "gone-0" { "sha256:gone" } else { image };
                let volume_images = match slot {
                    "gone-0" => vec!["sha256:gone".to_owned()],
                    _ => record.volume_images.clone(),
                };
                let image_id = image_id.to_owned();
                let record = SlotRecord { image_id, volume_images, ..record.clone() };
                records.add(&RecordLine::Made { slot: slot.to_owned(), record }).unwrap();
            }
            records.add(&RecordLine::Gone { slot: "gone-0".to_owned() }).unwrap();
        }
        let found = images_in_use(dir.path()).unwrap();
        assert!(found.keys().eq(["sha256:1", "sha256:2", "sha256:3"]), "{found:?}");
        assert_eq!(found["sha256:1"].first().unwrap().name, "p");
    }
}
