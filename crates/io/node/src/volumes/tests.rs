//! On real folders and tmpfs mounts.

mod hostile;
mod projected;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use rekindle_runtime::MountSource;
use rekindle_types::{ContainerAttempt, PodRef, PodUid};
use serde_json::{Value, json};

use super::{
    EmptyDirContents, VolumeInputs, mount_volumes, refresh_empty_dirs, unmount_volumes,
    update_payloads, volume_paths,
};
use crate::env::{Allocatable, PodFacts};
use crate::layout::{NodeDirs, PodDirs};
use crate::objects::{FetchedObjects, ObjectRef, ReferencedObject};
use crate::testing::TestFolder;

/// One pod's volumes on a disk of its own.
struct Volumes {
    folder: TestFolder,
    dirs: PodDirs,
    pod: Pod,
    allocatable: Allocatable,
    objects: FetchedObjects,
}

impl Volumes {
    /// Of a pod with these volumes, which its container mounts; `spec` is what else its spec says.
    fn new(volumes: Value, spec: Value) -> Self {
        let folder = TestFolder::new();
        let pod_ref =
            PodRef { namespace: "shop".into(), name: "web".into(), uid: PodUid("u-1".into()) };
        let dirs = NodeDirs::new(&folder.join("data"), &folder.join("logs")).pod(&pod_ref);
        let mut spec = spec;
        let names = volumes.as_array().unwrap().iter().map(|volume| &volume["name"]);
        let mounts: Vec<Value> =
            names.map(|name| json!({ "name": name, "mountPath": "/mnt" })).collect();
        spec["volumes"] = volumes;
        let limits = json!({ "limits": { "memory": "8Mi" } });
        spec["containers"] =
            json!([{ "name": "app", "resources": limits, "volumeMounts": mounts }]);
        let pod = json!({ "metadata": { "name": "web", "namespace": "shop", "labels": { "app": "web" } }, "spec": spec });
        Self {
            folder,
            dirs,
            pod: serde_json::from_value(pod).unwrap(),
            allocatable: Allocatable::default(),
            objects: FetchedObjects::default(),
        }
    }

    fn config_map(&mut self, data: Value) {
        let map: ConfigMap =
            serde_json::from_value(json!({ "metadata": {}, "data": data })).unwrap();
        self.objects.insert(
            ObjectRef::config_map("shop", "settings"),
            ReferencedObject::ConfigMap(Arc::new(map)),
        );
    }

    fn secret(&mut self, data: Value) {
        let secret: Secret =
            serde_json::from_value(json!({ "metadata": {}, "data": data })).unwrap();
        self.objects
            .insert(ObjectRef::secret("shop", "keys"), ReferencedObject::Secret(Arc::new(secret)));
    }

    fn with<T>(&self, work: impl FnOnce(VolumeInputs<'_>) -> T) -> T {
        let facts = PodFacts::default();
        work(VolumeInputs {
            dirs: &self.dirs,
            pod: &self.pod,
            facts: &facts,
            allocatable: &self.allocatable,
            objects: &self.objects,
        })
    }

    fn mount(&self) -> Result<(), String> {
        self.with(|inputs| mount_volumes(inputs).map_err(|error| error.to_string()))
    }

    fn update(&self) {
        self.with(|inputs| update_payloads(inputs).unwrap());
    }

    fn refresh(&self) {
        refresh_empty_dirs(&self.dirs, &self.pod, &self.allocatable).unwrap();
        super::sweep(self.dirs.trash());
    }

    fn end(&self, contents: EmptyDirContents) {
        unmount_volumes(&self.dirs, contents).unwrap();
        super::sweep(self.dirs.trash());
    }

    /// Nothing mounts them any more.
    fn unused(mut self) -> Self {
        self.pod.spec.as_mut().unwrap().containers[0].volume_mounts = None;
        self
    }

    fn path(&self, volume: &str) -> PathBuf {
        match &volume_paths(&self.dirs, &self.pod)[volume].source {
            MountSource::Host(path) => path.clone(),
            MountSource::Image(image) => panic!("{volume} is image {image}"),
        }
    }
}

#[test]
fn an_empty_dir_keeps_its_content_until_it_is_refreshed() {
    let volumes = Volumes::new(json!([{ "name": "scratch", "emptyDir": {} }]), json!({}));
    volumes.mount().unwrap();
    let path = volumes.path("scratch");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
    fs::write(path.join("file"), "kept").unwrap();
    volumes.mount().unwrap();
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "kept");
    volumes.refresh();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
    assert_eq!(fs::read_dir(volumes.dirs.trash()).unwrap().count(), 0);
}

/// Kubelet, `desiredStateOfWorldPopulator.processPodVolumes`: what is wrong with it keeps nobody
/// from starting.
#[test]
fn a_volume_that_no_container_mounts_is_left_alone() {
    let folder = TestFolder::new();
    let at = folder.join("made").to_str().unwrap().to_owned();
    for source in [
        json!({ "configMap": { "name": "absent" } }),
        json!({ "secret": { "secretName": "absent" } }),
        json!({ "projected": { "sources": [{ "secret": { "name": "absent" } }] } }),
        json!({ "hostPath": { "path": "/absent", "type": "Directory" } }),
        json!({ "hostPath": { "path": at, "type": "DirectoryOrCreate" } }),
        json!({ "persistentVolumeClaim": { "claimName": "absent" } }),
        json!({ "emptyDir": {} }),
        json!({ "emptyDir": { "medium": "Memory" } }),
    ] {
        let mut volume = source.clone();
        volume["name"] = json!("spare");
        let volumes = Volumes::new(json!([volume]), json!({})).unused();
        for _ in 0..2 {
            assert_eq!(volumes.mount(), Ok(()), "{source}");
            volumes.update();
            assert!(!volumes.dirs.volumes().join("spare").exists(), "{source}");
            volumes.refresh();
        }
        volumes.end(EmptyDirContents::Discard);
    }
    assert!(!folder.join("made").exists());
}

/// Kubelet, `emptyDir.SetUpAt`: it is made ready once. An agent that starts again finds what
/// containers have made of it.
#[test]
fn what_containers_have_done_to_the_permissions_of_an_empty_dir_stays() {
    for (medium, group) in [("", None), ("", Some(4711)), ("Memory", None), ("Memory", Some(4711))]
    {
        let volumes = Volumes::new(
            json!([{ "name": "scratch", "emptyDir": { "medium": medium } }]),
            json!({ "securityContext": { "fsGroup": group } }),
        );
        volumes.mount().unwrap();
        let path = volumes.path("scratch");
        std::os::unix::fs::chown(&path, Some(70), Some(71)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        volumes.mount().unwrap();
        let found = fs::metadata(&path).unwrap();
        let is = (found.uid(), found.gid(), found.mode() & 0o7777);
        assert_eq!(is, (70, 71, 0o700), "{medium:?} {group:?}");
        volumes.end(EmptyDirContents::Discard);
    }
}

/// The agent was killed when it had made the folder, and not yet given it its permissions.
#[test]
fn an_empty_dir_that_was_not_finished_is_finished() {
    let volumes = Volumes::new(json!([{ "name": "scratch", "emptyDir": {} }]), json!({}));
    let unfinished = volumes.dirs.volumes().join(".scratch.new");
    fs::create_dir_all(&unfinished).unwrap();
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o700)).unwrap();
    volumes.mount().unwrap();
    assert_eq!(fs::metadata(volumes.path("scratch")).unwrap().mode() & 0o7777, 0o777);
    assert!(!unfinished.exists());
}

#[test]
fn an_empty_dir_belongs_to_the_fs_group() {
    let volumes = Volumes::new(
        json!([{ "name": "scratch", "emptyDir": {} }]),
        json!({ "securityContext": { "fsGroup": 4711 } }),
    );
    for _ in 0..2 {
        volumes.mount().unwrap();
        let metadata = fs::metadata(volumes.path("scratch")).unwrap();
        assert_eq!((metadata.gid(), metadata.mode() & 0o7777), (4711, 0o2777));
        volumes.refresh();
    }
}

#[test]
fn an_empty_dir_has_the_mode_that_is_asked_for_and_its_group_may_write_all_the_same() {
    for (medium, group, expected) in [
        ("", None, 0o1750),
        ("Memory", None, 0o1750),
        ("", Some(4711), 0o3770),
        ("Memory", Some(4711), 0o3770),
    ] {
        let volumes = Volumes::new(
            json!([{ "name": "scratch", "emptyDir": { "mode": 0o1750, "medium": medium } }]),
            json!({ "securityContext": { "fsGroup": group } }),
        );
        for _ in 0..2 {
            volumes.mount().unwrap();
            let metadata = fs::metadata(volumes.path("scratch")).unwrap();
            assert_eq!(metadata.mode() & 0o7777, expected, "{medium:?}, group {group:?}");
            assert_eq!(metadata.gid(), group.unwrap_or_default(), "{medium:?}");
            volumes.refresh();
        }
        volumes.end(EmptyDirContents::Discard);
    }
}

#[test]
fn a_memory_volume_is_a_tmpfs_of_its_size_and_refreshed_whole() {
    let volumes = Volumes::new(
        json!([
            { "name": "small", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } },
            { "name": "pod-limit", "emptyDir": { "medium": "Memory" } },
        ]),
        json!({}),
    );
    volumes.mount().unwrap();
    let size = |name: &str| {
        let found = rustix::fs::statvfs(volumes.path(name)).unwrap();
        found.f_blocks * found.f_frsize
    };
    assert_eq!(size("small"), 1024 * 1024);
    assert_eq!(size("pod-limit"), 8 * 1024 * 1024);
    let path = volumes.path("small");
    fs::write(path.join("file"), "x").unwrap();
    assert!(
        fs::write(path.join("large"), vec![0; 2 * 1024 * 1024]).is_err(),
        "no more than its size"
    );
    volumes.mount().unwrap();
    assert!(path.join("file").exists());
    volumes.refresh();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    assert_eq!(size("small"), 1024 * 1024);
    volumes.end(EmptyDirContents::Discard);
    assert!(volumes.folder.mounts().is_empty());
    assert!(!volumes.dirs.volumes().exists());
}

#[test]
fn a_node_that_stops_keeps_folders_and_unmounts_everything() {
    let volumes = Volumes::new(
        json!([{ "name": "scratch", "emptyDir": {} }, { "name": "mem", "emptyDir": { "medium": "Memory" } }]),
        json!({}),
    );
    volumes.mount().unwrap();
    fs::write(volumes.path("scratch").join("file"), "kept").unwrap();
    volumes.end(EmptyDirContents::Keep);
    assert!(volumes.folder.mounts().is_empty());
    volumes.mount().unwrap();
    assert_eq!(fs::read_to_string(volumes.path("scratch").join("file")).unwrap(), "kept");
}

/// KEP-1967. The pod's limit is 8Mi.
#[test]
fn a_memory_volume_is_no_larger_than_the_memory_that_the_pod_can_have() {
    for (of_node, size_limit, expected) in [
        ("4Mi", json!(null), 4),
        ("16Mi", json!(null), 8),
        ("4Mi", json!("2Mi"), 2),
        ("4Mi", json!("6Mi"), 4),
    ] {
        let source = json!({ "medium": "Memory", "sizeLimit": size_limit });
        let mut volumes = Volumes::new(json!([{ "name": "mem", "emptyDir": source }]), json!({}));
        let memory = ("memory".to_owned(), of_node.parse().unwrap());
        volumes.allocatable.resources = [memory].into();
        volumes.mount().unwrap();
        for _ in 0..2 {
            let found = rustix::fs::statvfs(volumes.path("mem")).unwrap();
            assert_eq!(found.f_blocks * found.f_frsize, expected << 20, "{of_node} {size_limit}");
            volumes.refresh();
        }
    }
}

#[test]
fn what_a_pod_writes_to_the_agents_files_is_capped() {
    let volumes = Volumes::new(json!([]), json!({}));
    volumes.mount().unwrap();
    let hosts = volumes.dirs.files().join("hosts");
    assert!(fs::write(&hosts, vec![b'x'; 3 * 1024 * 1024]).is_err());
    assert!(fs::metadata(&hosts).unwrap().len() <= 1024 * 1024);
}

#[test]
fn what_stands_at_termination_message_paths_stays_with_the_node_and_goes_with_the_pod() {
    let volumes = Volumes::new(json!([]), json!({}));
    volumes.mount().unwrap();
    let message = volumes.dirs.termination_log("app", ContainerAttempt(0));
    fs::create_dir_all(message.parent().unwrap()).unwrap();
    fs::write(&message, "last words").unwrap();
    volumes.end(EmptyDirContents::Keep);
    assert!(message.exists());
    volumes.end(EmptyDirContents::Discard);
    assert!(!volumes.dirs.messages().exists());
    assert_eq!(fs::read_dir(volumes.dirs.trash()).unwrap().count(), 0);
}

#[test]
fn host_paths_are_checked_against_their_type() {
    let folder = TestFolder::new();
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("file"), "").unwrap();
    let socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    assert!(fs::metadata(at("socket")).unwrap().file_type().is_socket());
    let check = |path: &str, kind: &str| {
        let volume = json!([{ "name": "host", "hostPath": { "path": path, "type": kind } }]);
        let volumes = Volumes::new(volume, json!({}));
        let answer = volumes.mount();
        assert_eq!(volumes.path("host").to_str().unwrap(), path);
        answer.err()
    };
    for (path, kind) in [
        (at("dir"), ""),
        (at("missing/folder"), ""),
        (at("dir"), "Directory"),
        (at("dir"), "DirectoryOrCreate"),
        (at("new/deep"), "DirectoryOrCreate"),
        (at("file"), "File"),
        (at("file"), "FileOrCreate"),
        (at("new/file"), "FileOrCreate"),
        (at("socket"), "Socket"),
        ("/dev/null".to_owned(), "CharDevice"),
    ] {
        assert_eq!(check(&path, kind), None, "{path} {kind}");
    }
    drop(socket);
    for made in [at("new/deep"), at("missing/folder")] {
        let made = fs::metadata(made).unwrap();
        assert!(made.is_dir());
        assert_eq!(made.permissions().mode() & 0o777, 0o755);
    }
    assert_eq!(fs::metadata(at("new/file")).unwrap().permissions().mode() & 0o777, 0o644);
    for (path, kind, expected) in [
        (at("file"), "Directory", "a directory"),
        (at("absent"), "Directory", "a directory"),
        (at("dir"), "File", "a file"),
        (at("file"), "DirectoryOrCreate", "a directory"),
        (at("dir"), "FileOrCreate", "a file"),
        (at("file"), "Socket", "a socket file"),
        (at("file"), "CharDevice", "a character device"),
        (at("file"), "BlockDevice", "a block device"),
    ] {
        let message = format!(
            "MountVolume.SetUp failed for volume \"host\" : hostPath type check failed: {path} is not {expected}"
        );
        assert_eq!(check(&path, kind), Some(message));
    }
    assert!(check("relative", "").unwrap().contains("must be an absolute path"));
    assert!(check("/tmp/../etc", "").unwrap().contains("must be an absolute path"));
}

#[test]
fn a_volume_of_a_storage_system_names_the_driver_that_is_missing() {
    let volumes = Volumes::new(
        json!([{ "name": "share", "iscsi": { "targetPortal": "s", "iqn": "iqn.2026-12.example:a", "lun": 0 } }]),
        json!({}),
    );
    let error = volumes.mount().unwrap_err();
    assert_eq!(
        error,
        "MountVolume.SetUp failed for volume \"share\" : no driver of this node mounts volumes of type iscsi"
    );
}
