//! The folders: made once, moved away whole, never from under a pod, and never outside.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::folder::LocalPathFolders;

struct Place {
    folder: tempfile::TempDir,
    folders: LocalPathFolders,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().canonicalize().unwrap();
    let folders = LocalPathFolders::new(at.join("local-path"), at.join("pods"), at.join("trash"));
    std::fs::create_dir(at.join("pods")).unwrap();
    Place { folder, folders }
}

#[test]
fn a_folder_is_made_once_and_keeps_what_it_holds() {
    let place = place();
    let path = place.folders.make("pvc-1").unwrap();
    std::fs::write(path.join("data"), "kept").unwrap();
    assert_eq!(place.folders.make("pvc-1").unwrap(), path);
    assert_eq!(std::fs::read_to_string(path.join("data")).unwrap(), "kept");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o777, 0o700));
}

#[test]
fn names_that_lead_elsewhere_are_no_volumes() {
    let place = place();
    for name in ["", ".", "..", "../pods", "/etc", "a/b", "a/"] {
        assert!(place.folders.path(name).is_none(), "{name:?}");
        assert!(place.folders.make(name).is_err(), "{name:?}");
    }
}

#[test]
fn a_link_in_the_place_of_a_folder_is_not_followed() {
    let place = place();
    place.folders.make("pvc-1").unwrap();
    let outside = place.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, place.folder.path().join("local-path/pvc-2")).unwrap();
    assert!(place.folders.make("pvc-2").is_err());
    place.folders.discard("pvc-2").unwrap();
    assert!(outside.exists());
}

#[test]
fn a_folder_goes_only_when_no_pod_has_it() {
    let place = place();
    let path = place.folders.make("pvc-1").unwrap();
    let volumes = place.folder.path().join("pods/uid/volumes");
    std::fs::create_dir_all(&volumes).unwrap();
    symlink(&path, volumes.join("data")).unwrap();
    assert!(place.folders.discard("pvc-1").is_err());
    assert!(path.exists());
    std::fs::remove_file(volumes.join("data")).unwrap();
    place.folders.discard("pvc-1").unwrap();
    place.folders.discard("pvc-1").unwrap();
    assert!(!path.exists());
}
