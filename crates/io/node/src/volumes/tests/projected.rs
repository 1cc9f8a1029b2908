//! configMap, secret, downwardAPI and projected volumes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{EmptyDirContents, Volumes};
use crate::tokens::TokenWish;

/// What a reader sees: path, mode and content of every visible file.
fn seen(volume: &Path) -> BTreeMap<String, (u32, String)> {
    fn walk(root: &Path, beneath: PathBuf, found: &mut BTreeMap<String, (u32, String)>) {
        for entry in fs::read_dir(root.join(&beneath)).unwrap().flatten() {
            let name = beneath.join(entry.file_name());
            if name.to_str().unwrap().starts_with("..") {
                continue;
            }
            let metadata = fs::metadata(root.join(&name)).unwrap();
            if metadata.is_dir() {
                walk(root, name, found);
            } else {
                let text = fs::read_to_string(root.join(&name)).unwrap();
                found.insert(name.to_str().unwrap().to_owned(), (metadata.mode() & 0o777, text));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(volume, PathBuf::new(), &mut found);
    found
}

fn files<const N: usize>(files: [(&str, u32, &str); N]) -> BTreeMap<String, (u32, String)> {
    files.into_iter().map(|(name, mode, text)| (name.to_owned(), (mode, text.to_owned()))).collect()
}

#[test]
fn a_config_map_appears_as_files_and_follows_its_changes() {
    let mut volumes =
        Volumes::new(json!([{ "name": "cfg", "configMap": { "name": "settings" } }]), json!({}));
    volumes.config_map(json!({ "a": "1", "b": "2" }));
    volumes.mount().unwrap();
    let path = volumes.path("cfg");
    assert_eq!(seen(&path), files([("a", 0o644, "1"), ("b", 0o644, "2")]));
    let version = fs::read_link(path.join("..data")).unwrap();
    volumes.update();
    assert_eq!(
        fs::read_link(path.join("..data")).unwrap(),
        version,
        "nothing changed, nothing written"
    );
    volumes.config_map(json!({ "b": "3", "c": "4" }));
    volumes.update();
    assert_eq!(seen(&path), files([("b", 0o644, "3"), ("c", 0o644, "4")]));
    assert_eq!(fs::read_link(path.join("b")).unwrap(), Path::new("..data/b"));
    let hidden = fs::read_dir(&path)
        .unwrap()
        .flatten()
        .filter(|e| e.file_name().to_str().unwrap().starts_with(".."));
    assert_eq!(hidden.count(), 2, "..data and one version: the old one is gone");
}

/// Whoever has opened a folder of the old version reads it to the end: the swap is one rename.
#[test]
fn a_reader_sees_the_old_or_the_new_content_never_both() {
    let mut volumes =
        Volumes::new(json!([{ "name": "cfg", "configMap": { "name": "settings" } }]), json!({}));
    volumes.config_map(json!({ "a": "0", "b": "0" }));
    volumes.mount().unwrap();
    let path = volumes.path("cfg");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0_u32;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let Ok(data) = fs::canonicalize(path.join("..data")) else { continue };
                let both = (fs::read_to_string(data.join("a")), fs::read_to_string(data.join("b")));
                // a version that is being removed may be half gone, but what is read belongs
                // together
                if let (Ok(a), Ok(b)) = both {
                    assert_eq!(a, b);
                    reads += 1;
                }
            }
            reads
        });
        for n in 1..200 {
            volumes.config_map(json!({ "a": n.to_string(), "b": n.to_string() }));
            volumes.update();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "199");
}

#[test]
fn a_version_that_a_crash_left_half_written_is_written_again() {
    let mut volumes =
        Volumes::new(json!([{ "name": "cfg", "configMap": { "name": "settings" } }]), json!({}));
    volumes.config_map(json!({ "a": "1" }));
    volumes.mount().unwrap();
    let path = volumes.path("cfg");
    fs::create_dir(path.join("..v2")).unwrap();
    fs::write(path.join("..v2/a"), "half").unwrap();
    std::os::unix::fs::symlink("..v2", path.join("..data_tmp")).unwrap();
    volumes.config_map(json!({ "a": "2" }));
    volumes.update();
    assert_eq!(seen(&path), files([("a", 0o644, "2")]));
}

#[test]
fn items_modes_and_groups() {
    let mut volumes = Volumes::new(
        json!([{ "name": "key", "secret": { "secretName": "keys", "defaultMode": 0o400,
            "items": [{ "key": "tls", "path": "deep/er/tls.pem" }, { "key": "id", "path": "id", "mode": 0o600 }] } }]),
        json!({ "securityContext": { "fsGroup": 4711 } }),
    );
    volumes.secret(json!({ "tls": "cGVt", "id": "aWQ=", "other": "bm8=" }));
    volumes.mount().unwrap();
    let path = volumes.path("key");
    assert_eq!(seen(&path), files([("deep/er/tls.pem", 0o440, "pem"), ("id", 0o640, "id")]));
    assert_eq!(fs::metadata(path.join("id")).unwrap().gid(), 4711);
    assert_eq!(fs::read_link(path.join("deep")).unwrap(), Path::new("..data/deep"));
    assert!(volumes.folder.mounts().contains(&path), "a secret is never on disk");
    volumes.end(EmptyDirContents::Discard);
    assert!(volumes.folder.mounts().is_empty());
}

#[test]
fn a_projected_volume_brings_its_sources_together() {
    let mut volumes = Volumes::new(
        json!([{ "name": "all", "projected": { "defaultMode": 0o440, "sources": [
            { "configMap": { "name": "settings", "items": [{ "key": "a", "path": "cfg/a" }] } },
            { "secret": { "name": "keys" } },
            { "downwardAPI": { "items": [
                { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } },
                { "path": "limit", "resourceFieldRef": { "containerName": "app", "resource": "limits.memory", "divisor": "1Mi" } },
            ] } },
            { "configMap": { "name": "absent", "optional": true } },
        ] } }]),
        json!({}),
    );
    volumes.config_map(json!({ "a": "1" }));
    volumes.secret(json!({ "token": "dA==" }));
    volumes.mount().unwrap();
    let expected = files([
        ("cfg/a", 0o440, "1"),
        ("labels", 0o440, "app=\"web\""),
        ("limit", 0o440, "8"),
        ("token", 0o440, "t"),
    ]);
    assert_eq!(seen(&volumes.path("all")), expected);
}

/// The item's user comes before the volume's, a token's own before both, and the volume's before
/// the pod's.
#[test]
fn files_belong_to_whom_the_item_or_the_volume_names() {
    let keys =
        json!([{ "key": "a", "path": "mine", "user": 4712 }, { "key": "b", "path": "x/usual" }]);
    let name = json!({ "fieldPath": "metadata.name" });
    let fields = json!([{ "path": "pod", "fieldRef": name, "user": 0 }, { "path": "name", "fieldRef": name }]);
    let token = json!({ "path": "token", "expirationSeconds": 600 });
    let own = json!({ "path": "own", "expirationSeconds": 601, "user": 4713 });
    let mut volumes = Volumes::new(
        json!([
            { "name": "cfg", "configMap": { "name": "settings", "defaultUser": 4711, "items": keys } },
            { "name": "key", "secret": { "secretName": "keys", "defaultMode": 0o400, "defaultUser": 4711 } },
            { "name": "info", "downwardAPI": { "defaultUser": 4711, "items": fields } },
            { "name": "all", "projected": { "defaultUser": 4711, "sources": [
                { "configMap": { "name": "settings", "items": keys } }, { "downwardAPI": { "items": fields } },
                { "secret": { "name": "keys" } }, { "serviceAccountToken": token }, { "serviceAccountToken": own },
            ] } },
        ]),
        json!({ "securityContext": { "runAsUser": 4719, "fsGroup": 4720 } }),
    );
    volumes.config_map(json!({ "a": "1", "b": "2" }));
    volumes.secret(json!({ "tls": "cGVt" }));
    let wish = |source| TokenWish::from_source(&serde_json::from_value(source).unwrap());
    let tokens = [token, own].map(|source| (wish(source), Ok("t0k3n".to_owned())));
    volumes.objects.set_tokens(tokens.into());
    volumes.mount().unwrap();
    for (file, owner, mode) in [
        ("cfg/mine", 4712, 0o644),
        ("cfg/x/usual", 4711, 0o644),
        ("key/tls", 4711, 0o440),
        ("info/pod", 0, 0o644),
        ("info/name", 4711, 0o644),
        ("all/mine", 4712, 0o644),
        ("all/x/usual", 4711, 0o644),
        ("all/pod", 0, 0o644),
        ("all/name", 4711, 0o644),
        ("all/tls", 4711, 0o644),
        ("all/token", 4711, 0o640),
        ("all/own", 4713, 0o640),
    ] {
        let (volume, path) = file.split_once('/').unwrap();
        let found = fs::metadata(volumes.path(volume).join(path)).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (owner, 4720, mode), "{file}");
    }
    let folder = fs::metadata(volumes.path("cfg").join("x")).unwrap();
    assert_eq!((folder.uid(), folder.gid()), (0, 4720), "folders are nobody's");
    let version = || fs::read_link(volumes.path("all").join("..data")).unwrap();
    let before = version();
    volumes.update();
    assert_eq!(version(), before, "nothing to write");
}

/// Who owns a token, and who may read it: as the kubelet decides it from the users that the pod's
/// containers run as.
#[test]
fn a_token_is_for_the_pods_own_user_where_that_is_known() {
    // (the pod's security context, that of its container, the source's own user, mode, owner,
    // group)
    for (of_pod, of_app, user, mode, owner, group) in [
        (json!({}), json!({}), json!(null), 0o644, 0, 0),
        (json!({ "runAsUser": 4711 }), json!({}), json!(null), 0o600, 4711, 0),
        (json!({ "runAsUser": 4711 }), json!({ "runAsUser": 4712 }), json!(null), 0o600, 4712, 0),
        (json!({ "fsGroup": 4713 }), json!({}), json!(null), 0o640, 0, 4713),
        (json!({ "runAsUser": 4711, "fsGroup": 4713 }), json!({}), json!(null), 0o640, 4711, 4713),
        (json!({ "runAsUser": 4711 }), json!({}), json!(4714), 0o600, 4714, 0),
    ] {
        let source = json!({ "path": "token", "expirationSeconds": 600, "user": user });
        let mut volumes = Volumes::new(
            json!([{ "name": "id", "projected": { "sources": [{ "serviceAccountToken": source }] } }]),
            json!({ "securityContext": of_pod }),
        );
        let spec = volumes.pod.spec.as_mut().unwrap();
        spec.containers[0].security_context = serde_json::from_value(of_app.clone()).unwrap();
        let wish = TokenWish::from_source(&serde_json::from_value(source).unwrap());
        volumes.objects.set_tokens([(wish, Ok("t0k3n".to_owned()))].into());
        volumes.mount().unwrap();
        let path = volumes.path("id");
        let case = format!("{of_pod} {of_app} {user}");
        assert_eq!(seen(&path), files([("token", mode, "t0k3n")]), "{case}");
        let metadata = fs::metadata(path.join("token")).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (owner, group), "{case}");
        assert!(volumes.folder.mounts().contains(&path), "a token is never on disk");
        let version = fs::read_link(path.join("..data")).unwrap();
        volumes.update();
        assert_eq!(fs::read_link(path.join("..data")).unwrap(), version, "nothing to write");
    }
}

#[test]
fn what_is_missing_is_named_as_the_kubelet_names_it() {
    let fails = |volume: serde_json::Value| {
        let mut named = volume;
        named["name"] = json!("v");
        let mut volumes = Volumes::new(json!([named]), json!({}));
        volumes.config_map(json!({ "a": "1" }));
        volumes.secret(json!({ "a": "MQ==" }));
        let error = volumes.mount().unwrap_err();
        assert!(!volumes.folder.mounts().contains(&volumes.path("v")), "no mount is left behind");
        error.strip_prefix("MountVolume.SetUp failed for volume \"v\" : ").unwrap().to_owned()
    };
    let no_key = json!([{ "key": "no", "path": "p" }]);
    for (volume, expected) in [
        (json!({ "configMap": { "name": "absent" } }), "configmap \"absent\" not found"),
        (json!({ "secret": { "secretName": "absent" } }), "secret \"absent\" not found"),
        (
            json!({ "configMap": { "name": "settings", "items": no_key } }),
            "configmap references non-existent config key: no",
        ),
        (
            json!({ "secret": { "secretName": "keys", "items": no_key } }),
            "references non-existent secret key: no",
        ),
        (
            json!({ "configMap": { "name": "settings", "items": [{ "key": "a", "path": "../../etc/x" }] } }),
            "invalid path \"../../etc/x\": it must be relative, without \"..\" and not begin with \"..\"",
        ),
        (
            json!({ "configMap": { "name": "settings", "items": [{ "key": "a", "path": "..data" }] } }),
            "invalid path \"..data\": it must be relative, without \"..\" and not begin with \"..\"",
        ),
        (
            json!({ "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } }),
            "failed to fetch token: none was given",
        ),
        (
            json!({ "downwardAPI": { "items": [{ "path": "p", "fieldRef": { "fieldPath": "spec.no" } }] } }),
            "unsupported fieldPath: spec.no",
        ),
    ] {
        assert_eq!(fails(volume), expected);
    }
}

/// The API refuses them, but what is in the store may be older than the rule.
#[test]
fn a_number_that_is_no_user_id_is_nobodys() {
    for user in [-1_i64, 2_147_483_648, 4_294_967_295, 4_294_967_296] {
        let mut volumes = Volumes::new(
            json!([{ "name": "cfg", "configMap": { "name": "settings", "defaultUser": user } }]),
            json!({}),
        );
        volumes.config_map(json!({ "a": "1" }));
        volumes.mount().unwrap();
        assert_eq!(fs::metadata(volumes.path("cfg").join("a")).unwrap().uid(), 0, "{user}");
    }
}
