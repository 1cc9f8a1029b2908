//! What a pod may have left in its volumes. The host must stay untouched; see reliability, "Hostile
//! input".

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{EmptyDirContents, Volumes};
use crate::volumes::{ensure_sub_path, read_file_beneath, remove_tree};

/// A file of the host that must still be there at the end.
fn host_file(volumes: &Volumes) -> PathBuf {
    let host = volumes.folder.join("host");
    fs::create_dir_all(host.join("etc")).unwrap();
    fs::write(host.join("etc/passwd"), "root").unwrap();
    host.join("etc/passwd")
}

fn scratch() -> (Volumes, PathBuf, PathBuf) {
    let volumes = Volumes::new(json!([{ "name": "scratch", "emptyDir": {} }]), json!({}));
    volumes.mount().unwrap();
    let (host, path) = (host_file(&volumes), volumes.path("scratch"));
    (volumes, path, host)
}

#[test]
fn links_to_the_host_are_removed_and_not_followed() {
    let (volumes, path, host) = scratch();
    let etc = host.parent().unwrap();
    symlink(etc, path.join("etc")).unwrap();
    symlink(&host, path.join("passwd")).unwrap();
    symlink("/", path.join("root")).unwrap();
    fs::create_dir_all(path.join("deep/er")).unwrap();
    symlink(etc, path.join("deep/er/etc")).unwrap();
    fs::hard_link(&host, path.join("hard")).unwrap();
    volumes.refresh();
    assert_eq!(fs::read_to_string(&host).unwrap(), "root");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    symlink(etc, path.join("again")).unwrap();
    volumes.end(EmptyDirContents::Discard);
    assert_eq!(fs::read_to_string(&host).unwrap(), "root");
    assert!(!volumes.dirs.volumes().exists());
}

/// The volume's own folder replaced by a link: nothing behind it is touched, and its permissions
/// are not changed.
#[test]
fn a_link_in_place_of_the_volume_is_not_followed() {
    let (volumes, path, host) = scratch();
    let etc = host.parent().unwrap();
    fs::remove_dir(&path).unwrap();
    symlink(etc, &path).unwrap();
    assert!(volumes.mount().is_err());
    volumes.refresh();
    assert!(fs::symlink_metadata(&path).unwrap().is_dir());
    assert_eq!(fs::read_to_string(&host).unwrap(), "root");
    remove_tree(&path).unwrap();
    symlink(etc, &path).unwrap();
    volumes.end(EmptyDirContents::Discard);
    assert_eq!(fs::read_to_string(&host).unwrap(), "root");
}

#[test]
fn a_mount_inside_is_not_crossed() {
    let (volumes, path, host) = scratch();
    fs::create_dir(path.join("mnt")).unwrap();
    rustix::mount::mount_bind(host.parent().unwrap(), path.join("mnt")).unwrap();
    volumes.refresh();
    assert_eq!(fs::read_to_string(&host).unwrap(), "root", "the bind mount's content stays");
}

#[test]
fn very_deep_folders_are_removed_with_few_open_files() {
    let (volumes, path, _) = scratch();
    // deeper than PATH_MAX: made step by step, each relative to the one before
    let mut at = fs::File::open(&path).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&at, "directory", rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
        at = rustix::fs::openat(&at, "directory", flags, rustix::fs::Mode::empty()).unwrap().into();
    }
    drop(at);
    volumes.refresh();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    assert_eq!(fs::read_dir(volumes.dirs.trash()).unwrap().count(), 0);
}

#[test]
fn a_sub_path_is_made_beneath_its_volume_and_links_lead_nowhere_else() {
    let (volumes, path, host) = scratch();
    ensure_sub_path(&path, Path::new("a/b")).unwrap();
    assert!(path.join("a/b").is_dir());
    ensure_sub_path(&path, Path::new("a/b")).unwrap();
    symlink(host.parent().unwrap().parent().unwrap(), path.join("out")).unwrap();
    symlink("../../../../../..", path.join("up")).unwrap();
    symlink("a", path.join("inside")).unwrap();
    assert!(ensure_sub_path(&path, Path::new("out/new")).is_err());
    assert!(ensure_sub_path(&path, Path::new("up/new")).is_err());
    assert!(!volumes.folder.join("host/new").exists());
    ensure_sub_path(&path, Path::new("inside/c")).unwrap();
    assert!(path.join("a/c").is_dir());
}

#[test]
fn a_file_is_read_beneath_its_volume_only_and_nothing_but_a_file_is_opened() {
    let (_volumes, path, host) = scratch();
    let read = |name: &str| read_file_beneath(&path, Path::new(name), 8);
    let kind = |name: &str| read(name).unwrap_err().kind();
    fs::create_dir(path.join("d")).unwrap();
    fs::write(path.join("d/full"), "12345678").unwrap();
    fs::write(path.join("more"), "123456789").unwrap();
    symlink("d/full", path.join("inside")).unwrap();
    symlink("/d/full", path.join("rooted")).unwrap();
    symlink(&host, path.join("host")).unwrap();
    symlink("../../../../../../../../etc/passwd", path.join("up")).unwrap();
    symlink("/proc/self/environ", path.join("process")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, path.join("fifo"), fifo, mode, 0).unwrap();
    for name in ["d/full", "inside", "rooted"] {
        assert_eq!(read(name).unwrap(), b"12345678", "{name}");
    }
    for name in ["host", "up", "process", "absent"] {
        assert_eq!(kind(name), std::io::ErrorKind::NotFound, "{name}");
    }
    assert_eq!(kind("more"), std::io::ErrorKind::FileTooLarge);
    for name in ["fifo", "d"] {
        assert_eq!(kind(name), std::io::ErrorKind::InvalidInput, "{name}");
    }
}

#[test]
fn removing_what_is_absent_is_success() {
    let (volumes, _, _) = scratch();
    remove_tree(&volumes.folder.join("absent")).unwrap();
}

/// What a pod that may write to its projected files (a privileged one) makes of them is replaced,
/// and nothing behind it is written to or deleted.
#[test]
fn links_in_place_of_projected_files_are_replaced() {
    let config = json!([{ "name": "cfg", "configMap": { "name": "settings" } }]);
    let mut volumes = Volumes::new(config, json!({}));
    volumes.config_map(json!({ "passwd": "1" }));
    volumes.mount().unwrap();
    let (path, host) = (volumes.path("cfg"), host_file(&volumes));
    let etc = host.parent().unwrap();
    let links = ["..data", "passwd", "..v1", "..v2", "..v3", "..data_tmp", "mine"];
    for (round, target) in [etc, host.as_path()].into_iter().enumerate() {
        for link in links {
            remove_tree(&path.join(link)).unwrap();
            symlink(target, path.join(link)).unwrap();
        }
        let content = format!("new {round}");
        volumes.config_map(json!({ "passwd": content }));
        volumes.update();
        assert_eq!(fs::read_to_string(path.join("passwd")).unwrap(), content);
        assert!(fs::read_link(path.join("..data")).unwrap().starts_with("..v1"));
        assert_eq!(fs::read_to_string(&host).unwrap(), "root");
        assert_eq!(fs::read_dir(etc).unwrap().count(), 1);
    }
    volumes.end(EmptyDirContents::Discard);
    assert_eq!(fs::read_to_string(&host).unwrap(), "root");
}
