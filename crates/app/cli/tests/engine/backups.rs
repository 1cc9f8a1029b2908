//! `rekindle backup`, `restore` and `store check`: one moment of a store that goes on, what a
//! restored engine makes of it, and what becomes of damaged files.
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use rekindle_redb_disk::RedbDisk;
use rekindle_store::backup::{BackupDecoder, BackupEncoder, BackupFile, BackupHeader, BackupPart};
use rekindle_store::{Disk, Revision, StoredObject};
use rekindle_testkit::{Engine, PATIENCE, kubectl_path, process, rekindle, text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;

/// What a backup file has.
struct Decoded {
    header: BackupHeader,
    files: Vec<BackupFile>,
    objects: BTreeMap<String, StoredObject>,
}

#[track_caller]
fn decode(bytes: &[u8]) -> Decoded {
    let mut decoder = BackupDecoder::default();
    decoder.push(bytes);
    let (mut header, mut files, mut objects) = (None, Vec::new(), BTreeMap::new());
    while let Some(part) = decoder.next_part().unwrap() {
        match part {
            BackupPart::Header(found) => header = Some(found),
            BackupPart::File(file) => files.push(file),
            BackupPart::Object(object) => {
                objects.insert(object.key.as_str().to_owned(), object);
            }
        }
    }
    decoder.finish().unwrap();
    Decoded { header: header.unwrap(), files, objects }
}

impl Decoded {
    fn json(&self, key: &str) -> Value {
        serde_json::from_slice(&self.objects[key].value).unwrap()
    }

    /// Each object with the revision of its last write, which names its content.
    fn versions(&self) -> BTreeSet<(String, String)> {
        let version =
            |(key, object): (&String, &StoredObject)| (key.clone(), object.revision.to_string());
        self.objects.iter().map(version).collect()
    }
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// What a command that must fail has printed.
#[track_caller]
fn fails(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn run(arguments: &[&str], data_dir: &Path) -> Output {
    rekindle().args(arguments).arg("--data-dir").arg(data_dir).output().unwrap()
}

const MAPS: usize = 40;

/// Every map says the same, and they are written in the order of their names: whatever one moment
/// sees, the ones before are at most one round ahead of those behind.
fn maps(round: usize) -> String {
    let map = |number| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{number:02}}}\ndata: {{round: '{round}'}}\n---\n"
        )
    };
    (0..MAPS).map(map).collect()
}

fn rounds(backup: &Decoded) -> Vec<usize> {
    let round = |number| {
        let map = backup.json(&format!("/configmaps/default/map-{number:02}"));
        map["data"]["round"].as_str().unwrap().parse().unwrap()
    };
    (0..MAPS).map(round).collect()
}

const OBJECTS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: one, image: localhost/demo, args: [signal]}]}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {word: swordfish}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
";
const WIDGET: &str = "
apiVersion: example.com/v1
kind: Widget
metadata: {name: large}
spec: {size: 7}
";

/// Where a kind is listed, and what the keys of its objects begin with.
fn lists(engine: &Engine) -> Vec<(String, String)> {
    let named = engine.kubectl(&["api-resources", "--verbs=list", "-o", "name"]);
    // the same objects in another version, and what is asked of the nodes
    let stored = |name: &&str| *name != "events.events.k8s.io" && !name.ends_with("metrics.k8s.io");
    named.lines().filter(stored).map(|name| (path_of(engine, name), format!("/{name}/"))).collect()
}

fn path_of(engine: &Engine, name: &str) -> String {
    let Some((plural, group)) = name.split_once('.') else { return format!("/api/v1/{name}") };
    let known = engine.kubectl(&["get", "--raw", &format!("/apis/{group}")]);
    let known: Value = serde_json::from_str(&known).unwrap();
    let version = known["preferredVersion"]["groupVersion"].as_str().unwrap();
    format!("/apis/{version}/{plural}")
}

/// What every list of the API shows at exactly this revision.
fn listed_at(engine: &Engine, revision: Revision) -> BTreeSet<(String, String)> {
    let mut all = BTreeSet::new();
    for (path, prefix) in lists(engine) {
        let exact = format!("{path}?resourceVersion={revision}&resourceVersionMatch=Exact");
        let list: Value = serde_json::from_str(&engine.kubectl(&["get", "--raw", &exact])).unwrap();
        for item in list["items"].as_array().unwrap() {
            let meta = &item["metadata"];
            let name = meta["name"].as_str().unwrap();
            let namespace = meta["namespace"].as_str().map(|n| format!("{n}/"));
            let key = format!("{prefix}{}{name}", namespace.unwrap_or_default());
            all.insert((key, meta["resourceVersion"].as_str().unwrap().to_owned()));
        }
    }
    all
}

/// Backups while a writer goes on; answers the path of the last one.
fn back_up_under_writes(engine: &Engine, folder: &Path) -> PathBuf {
    let is_enough = AtomicBool::new(false);
    let (written, rounds_written) = mpsc::channel();
    std::thread::scope(|scope| {
        let is_enough = &is_enough;
        scope.spawn(move || {
            for round in 1_usize.. {
                engine.apply(&maps(round));
                let is_heard = written.send(round).is_ok();
                if !is_heard || is_enough.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        // goes with this closure, so that a failure here ends the writer
        let rounds_written = rounds_written;
        let mut file = PathBuf::new();
        let mut before = 0;
        for number in 0..3 {
            // the writer has gone on since the last backup
            let written = rounds_written.iter().find(|round| *round > before).unwrap();
            file = folder.join(format!("{number}.backup"));
            succeeds(&engine.rekindle(&["backup", file.to_str().unwrap()]));
            let rounds = rounds(&decode(&std::fs::read(&file).unwrap()));
            assert!(rounds.is_sorted_by(|a, b| a >= b), "of several moments: {rounds:?}");
            assert!(rounds[0] - rounds[MAPS - 1] <= 1, "of several moments: {rounds:?}");
            assert!(rounds[MAPS - 1] >= written, "what was acknowledged is missing: {rounds:?}");
            before = rounds[0];
        }
        is_enough.store(true, Ordering::Relaxed);
        file
    })
}

/// Who a token belongs to, for a client that knows the engine by this CA alone.
fn who_is(api: &str, ca: &Path, token: &str) -> String {
    let output = Command::new(kubectl_path())
        .args(["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])
        .args(["--kubeconfig", "/dev/null", "--server", api, "--token", token])
        .arg("--certificate-authority")
        .arg(ca)
        .output()
        .unwrap();
    succeeds(&output)
}

#[test]
fn a_backup_under_writes_is_one_moment_and_another_directory_goes_on_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = Engine::start();
    engine.apply(OBJECTS);
    engine.kubectl(&["wait", "crd/widgets.example.com", "--for=condition=Established"]);
    engine.apply(WIDGET);
    engine.wait_ready("web");
    let token = engine.kubectl(&["create", "token", "default"]);
    let pod = engine.get("pod/web");

    let file = back_up_under_writes(&engine, folder.path());
    let backup = decode(&std::fs::read(&file).unwrap());
    let revision = backup.header.revision;
    assert_eq!(backup.versions(), listed_at(&engine, revision), "all objects of that revision");
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    let file = file.to_str().unwrap();
    let known = std::fs::read(file).unwrap();
    assert!(fails(&engine.rekindle(&["backup", file])).contains("--force to replace it"));
    assert!(std::fs::read(file).unwrap() == known, "it is left as it was");
    let refused = fails(&engine.rekindle(&["restore", file, "--force"]));
    assert!(
        refused.contains(&format!("held by another engine (pid {})", engine.pid())),
        "{refused}"
    );
    let refused = fails(&engine.rekindle(&["store", "check"]));
    assert!(refused.contains(&format!("engine {} runs on", engine.pid())), "{refused}");
    let through_api = folder.path().join("through-api");
    let through_api = through_api.to_str().unwrap();
    let kubeconfig = engine.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let summary = succeeds(&run(
        &["backup", through_api, "--kubeconfig", kubeconfig, "-o", "json"],
        folder.path(),
    ));
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["keys"], serde_json::json!([]));
    let ca = folder.path().join("ca.crt");
    std::fs::copy(engine.data_dir().join("pki/ca.crt"), &ca).unwrap();
    engine.kill();

    // the engine is gone: what it had acknowledged is backed up from its disk
    let newest = succeeds_bytes(&engine.rekindle(&["backup", "-"]));
    let newest = decode(&newest);
    assert!(newest.header.revision > revision);
    assert_eq!(newest.files, backup.files);
    succeeds(&engine.rekindle(&["store", "check"]));

    let mut restored = Engine::prepare();
    let last = revision_of(&restored.rekindle(&["restore", file, "-o", "json"]));
    assert!(last > newest.header.revision.0, "{last}");
    let copy = decode(&succeeds_bytes(&restored.rekindle(&["backup", "-"])));
    assert_eq!((copy.header.revision, copy.files), (Revision(last), backup.files.clone()));
    assert!(copy.objects == backup.objects, "the same objects, byte by byte");
    restored.launch(&[]);

    let word = restored.get("secret/password");
    assert_eq!(word["data"]["word"], "c3dvcmRmaXNo");
    assert_eq!(restored.get("widget/large")["spec"]["size"], 7);
    assert_eq!(who_is(&restored.api, &ca, &token), "system:serviceaccount:default:default");
    // the pod has no containers here yet: they are started, and it stays the pod that it was
    restored.wait_for("pod/web", ".status.containerStatuses[0].restartCount", "1");
    restored.wait_ready("web");
    assert_eq!(restored.get("pod/web")["metadata"]["uid"], pod["metadata"]["uid"]);
    for old in [revision, newest.header.revision] {
        let watch = format!("/api/v1/configmaps?watch=1&timeoutSeconds=5&resourceVersion={old}");
        let event: Value =
            serde_json::from_str(&restored.kubectl(&["get", "--raw", &watch])).unwrap();
        assert_eq!(event["object"]["code"], 410, "{event}");
    }
    restored.kubectl(&["annotate", "configmap/map-00", "a=b"]);
    let version = restored.get("configmap/map-00")["metadata"]["resourceVersion"].clone();
    assert!(version.as_str().unwrap().parse::<u64>().unwrap() > last, "{version}");
}

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
         spec: {{containers: [{{name: one, image: localhost/demo, args: [signal], env: [{{name: MARK, value: {}}}]}}]}}\n",
        mark(name)
    )
}

/// Tells a pod's process from all others of the machine.
fn mark(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// The store goes back, the machine does not: containers of pods that are in the backup run on, and
/// those of pods that came later are ended.
#[test]
fn a_restore_in_place_keeps_the_containers_of_its_pods_and_ends_all_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    let file = file.to_str().unwrap();
    let mut engine = Engine::start();
    engine.apply(&pod("early"));
    engine.wait_ready("early");
    let early = engine.get("pod/early");
    succeeds(&engine.rekindle(&["backup", file]));
    engine.apply(&pod("late"));
    engine.wait_ready("late");
    let late = process::find("MARK", &mark("late")).expect("it runs");
    let late = Pid::from_raw(i32::try_from(late).unwrap()).unwrap();
    let late = pidfd_open(late, PidfdFlags::empty()).unwrap();
    engine.kill();
    let before = succeeds_bytes(&engine.rekindle(&["backup", "-"]));
    let before = decode(&before).header.revision;

    let output = succeeds(&engine.rekindle(&["restore", file, "--force"]));
    let (_, revision) = output.lines().next().unwrap().rsplit_once(' ').unwrap();
    assert!(
        output.contains("; revisions go on above ") && revision.parse::<u64>().unwrap() > before.0
    );
    engine.launch(&[]);
    engine.wait_ready("early");
    let status = |pod: &Value| pod["status"]["containerStatuses"][0].clone();
    let now = status(&engine.get("pod/early"));
    for field in ["containerID", "restartCount", "state"] {
        assert_eq!(now[field], status(&early)[field], "{field}");
    }
    engine.kubectl_fails(&["get", "pod/late"], "");
    let patience = Timespec::try_from(PATIENCE).unwrap();
    let ended = poll(&mut [PollFd::new(&late, PollFlags::IN)], Some(&patience)).unwrap();
    assert_eq!(ended, 1, "the container without a pod is ended");
}

#[track_caller]
fn succeeds_bytes(output: &Output) -> Vec<u8> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    output.stdout.clone()
}

/// A ConfigMap as it is stored.
fn map(name: &str, revision: u64) -> StoredObject {
    let value = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": revision.to_string()},
    });
    let key = format!("/configmaps/default/{name}");
    StoredObject::new(key, Revision(revision), value.to_string())
}

/// The keys of an engine, which all say this.
fn keys(text: &str) -> [(&'static str, &str); 3] {
    [("pki/ca.crt", text), ("pki/ca.key", text), ("pki/sa.key", text)]
}

/// Where revisions go on, as a restore says in JSON.
#[track_caller]
fn revision_of(restored: &Output) -> u64 {
    let summary: Value = serde_json::from_str(&succeeds(restored)).unwrap();
    summary["revision"].as_u64().unwrap()
}

/// Writes a backup of these objects, which ascend by their keys.
fn craft(file: &Path, revision: u64, objects: &[StoredObject], files: &[(&str, &str)]) {
    let header = BackupHeader {
        revision: Revision(revision),
        created_at_micros: 1_700_000_000_000_000,
        files: u32::try_from(files.len()).unwrap(),
        objects: objects.len() as u64,
    };
    let mut encoder = BackupEncoder::new(&header);
    for (name, content) in files {
        let content = content.as_bytes().to_vec().into();
        encoder.file(&BackupFile { name: (*name).to_owned(), content }).unwrap();
    }
    objects.iter().for_each(|object| encoder.object(object).unwrap());
    std::fs::write(file, encoder.finish()).unwrap();
}

/// Every file below a folder with its content.
fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            let content = std::fs::read(&path).unwrap();
            files.insert(path, content);
        }
    }
    // the lock names the process that held it last
    files.retain(|path, _| !path.ends_with("engine.lock"));
    files
}

#[test]
fn a_damaged_backup_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data_dir) = (folder.path().join("good"), folder.path().join("data"));
    craft(&file, 9, &[map("a", 4), map("b", 7)], &keys("key"));
    let good = std::fs::read(&file).unwrap();
    let good_name = file.to_str().unwrap();
    succeeds(&run(&["restore", good_name], &data_dir));
    let before = files_below(&data_dir);
    assert_eq!(before[&data_dir.join("pki/ca.key")], b"key");

    let damaged = folder.path().join("damaged");
    let damaged_name = damaged.to_str().unwrap();
    let mut cases: Vec<(Vec<u8>, &str)> = vec![
        (good[..good.len() - 1].to_vec(), "the backup is cut off"),
        (good[..40].to_vec(), "the backup is cut off"),
        (Vec::new(), "the backup is cut off"),
        ([&good[..], b"\n"].concat(), "1 bytes follow its checksum"),
        (b"{}".to_vec(), "this is no backup of rekindle"),
    ];
    for at in [50, good.len() - 40, good.len() - 1] {
        let mut flipped = good.clone();
        flipped[at] ^= 1;
        cases.push((flipped, "damaged"));
    }
    for (bytes, problem) in cases {
        std::fs::write(&damaged, bytes).unwrap();
        for arguments in [
            &["restore", damaged_name, "--force"][..],
            &["store", "check", "--backup", damaged_name],
        ] {
            let output = fails(&run(arguments, &data_dir));
            assert!(output.contains(problem) && output.contains(damaged_name), "{output}");
        }
        let fresh = folder.path().join("fresh");
        fails(&run(&["restore", damaged_name], &fresh));
        assert!(!fresh.exists(), "nothing is made of it");
    }
    // whole, and yet nothing that an engine has written
    craft(&damaged, 9, &[map("a", 4), map("b", 4)], &[]);
    let output = fails(&run(&["restore", damaged_name, "--force"], &data_dir));
    assert!(output.contains("has revision 4, as \"/configmaps/default/a\" has"), "{output}");
    for (files, problem) in [
        (&[("../../etc/passwd", "root")][..], "file \"../../etc/passwd\" is no key"),
        (&keys("half")[1..], "pki/ca.crt is missing beside the other keys"),
    ] {
        craft(&damaged, 9, &[], files);
        let output = fails(&run(&["restore", damaged_name, "--force"], &data_dir));
        assert!(output.contains(problem), "{output}");
        let checked = run(&["store", "check", "--backup", damaged_name], &data_dir);
        assert_eq!(checked.status.code(), Some(1));
        assert!(text(&checked.stdout).contains(problem), "{}", text(&checked.stdout));
    }
    craft(&damaged, u64::MAX, &[], &[]);
    let output = fails(&run(&["restore", damaged_name, "--force"], &data_dir));
    assert!(output.contains("it is of revision 18446744073709551615"), "{output}");
    assert!(files_below(&data_dir) == before, "the store is as it was");
}

#[test]
fn what_a_restore_replaces_is_kept_and_revisions_go_on_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data_dir) = (folder.path().join("backup"), folder.path().join("data"));
    let file_name = file.to_str().unwrap();
    craft(&file, 9, &[map("a", 4)], &keys("old"));
    let first = revision_of(&run(&["restore", file_name, "-o", "json"], &data_dir));
    let before = files_below(&data_dir);

    craft(&file, 20, &[map("b", 7)], &keys("new"));
    let refused = fails(&run(&["restore", file_name], &data_dir));
    assert!(refused.contains("store.redb is there already"), "{refused}");
    assert!(files_below(&data_dir) == before, "it is as it was");

    let summary = succeeds(&run(&["restore", file_name, "--force", "-o", "json"], &data_dir));
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["backupRevision"], 20);
    let second = summary["revision"].as_u64().unwrap();
    assert!(second > first, "{second} and {first}");
    let kept: Vec<PathBuf> = serde_json::from_value(summary["keptAside"].clone()).unwrap();
    let was = |name: &str| before.iter().find(|(path, _)| path.ends_with(name)).unwrap().1.clone();
    let kept: Vec<Vec<u8>> = kept.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(kept == [was("sa.key"), was("ca.key"), was("ca.crt"), was("store.redb")]);
    assert_eq!(std::fs::read(data_dir.join("pki/sa.key")).unwrap(), b"new");
    let found = decode(&succeeds_bytes(&run(&["backup", "-", "--without-keys"], &data_dir)));
    assert_eq!(found.header.revision, Revision(second));
    assert_eq!(found.files, []);
    assert_eq!(found.versions(), decode(&std::fs::read(&file).unwrap()).versions());
}

/// What was written after the first restore is lost, and yet its revisions are not given again.
#[test]
fn a_backup_that_is_restored_twice_goes_on_at_other_revisions() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data_dir) = (folder.path().join("backup"), folder.path().join("data"));
    craft(&file, 9, &[map("a", 4)], &[]);
    let arguments = ["restore", file.to_str().unwrap(), "--force", "-o", "json"];
    let first = revision_of(&run(&arguments, &data_dir));
    std::fs::remove_dir_all(&data_dir).unwrap();
    let second = revision_of(&run(&arguments, &data_dir));
    assert!(second > first, "{second} and {first}");
    std::fs::write(data_dir.join("store.redb"), "damaged").unwrap();
    let third = run(&arguments, &data_dir);
    assert!(text(&third.stderr).contains("the store that was there cannot be read"));
    assert!(revision_of(&third) > second);
}

#[test]
fn a_store_that_another_process_has_open_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data_dir) = (folder.path().join("backup"), folder.path().join("data"));
    craft(&file, 9, &[map("a", 4)], &[]);
    let arguments = ["restore", file.to_str().unwrap(), "--force"];
    succeeds(&run(&arguments, &data_dir));
    let mut other = RedbDisk::new(data_dir.join("store.redb"));
    let content = other.load().unwrap();
    let output = fails(&run(&arguments, &data_dir));
    assert!(output.contains("store.redb\" is held by another process"), "{output}");
    drop(other);
    assert_eq!(RedbDisk::new(data_dir.join("store.redb")).load().unwrap(), content);
}

/// The command where `file` is a mount of its own, for this command alone: it gets no second name,
/// and cannot be replaced.
fn with_mounted_file(file: &Path, arguments: &[&str], data_dir: &Path) -> Output {
    Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount --bind \"$1\" \"$1\" && shift && exec \"$@\"", "sh"])
        .arg(file)
        .arg(rekindle().get_program())
        .args(arguments)
        .arg("--data-dir")
        .arg(data_dir)
        .output()
        .unwrap()
}

/// A failure between the keys and the store, as an interruption there would be.
#[test]
fn an_interrupted_restore_keeps_engines_out_until_it_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data_dir) = (folder.path().join("backup"), folder.path().join("data"));
    let file_name = file.to_str().unwrap();
    craft(&file, 9, &[map("a", 4)], &keys("old"));
    succeeds(&run(&["restore", file_name], &data_dir));
    let range_file = data_dir.join("service-cidr");
    std::fs::write(&range_file, "10.97.0.0/16").unwrap();
    let before = files_below(&data_dir);

    let range = serde_json::json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes", "resourceVersion": "5"},
        "spec": {"cidrs": ["10.96.0.0/16"]},
    });
    let key = "/servicecidrs.networking.k8s.io/kubernetes";
    let range = StoredObject::new(key, Revision(5), range.to_string());
    craft(&file, 20, &[map("b", 7), range], &keys("new"));
    let output =
        fails(&with_mounted_file(&range_file, &["restore", file_name, "--force"], &data_dir));
    assert!(output.contains("the restore is unfinished"), "{output}");
    let kept = files_below(&data_dir).into_keys().filter(|path| !before.contains_key(path));
    let (asides, others): (Vec<_>, Vec<_>) =
        kept.partition(|path| path.to_string_lossy().contains(".before-restore-"));
    assert_eq!(asides.len(), 5);
    assert!(asides.iter().all(|aside| output.contains(aside.to_str().unwrap())), "{output}");
    assert_eq!(others, [data_dir.join("restore-unfinished")], "nothing half written is left");
    let store = data_dir.join("store.redb");
    assert!(std::fs::read(&store).unwrap() == before[&store], "the store is the last");

    for arguments in [&["up", "--listen", "127.0.0.1:0"][..], &["backup", "-"]] {
        let output = fails(&run(arguments, &data_dir));
        assert!(output.contains("was interrupted: repeat it"), "{output}");
    }
    let repeated = run(&["restore", file_name, "--force"], &data_dir);
    let output = succeeds(&repeated);
    let kept: BTreeSet<_> =
        output.lines().filter_map(|line| line.strip_prefix("kept ")).map(PathBuf::from).collect();
    assert_eq!(kept, asides.into_iter().collect(), "nothing is kept a second time");
    let note = text(&repeated.stderr);
    assert!(note.contains("the range of Services is 10.96.0.0/16"), "{note}");
    assert_eq!(std::fs::read(&range_file).unwrap(), b"10.96.0.0/16");
    assert!(!data_dir.join("restore-unfinished").exists());
    let found = decode(&succeeds_bytes(&run(&["backup", "-"], &data_dir)));
    assert_eq!(found.versions(), decode(&std::fs::read(&file).unwrap()).versions());
    assert_eq!(found.files[1].content, "new");
}

/// A backup of it would be whole, with a right checksum.
#[test]
fn a_damaged_store_is_not_backed_up_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data_dir) = (folder.path().join("backup"), folder.path().join("data"));
    let file_name = file.to_str().unwrap();
    craft(&file, 9, &[map("a", 4)], &[]);
    succeeds(&run(&["restore", file_name], &data_dir));
    let (good, store) = (std::fs::read(&file).unwrap(), data_dir.join("store.redb"));
    let mut flipped = std::fs::read(&store).unwrap();
    let at = find(&flipped, b"\"resourceVersion\":\"4\"").expect("the object is in the file");
    flipped[at] ^= 1;
    for damaged in [flipped, Vec::new(), b"no store".to_vec()] {
        std::fs::write(&store, &damaged).unwrap();
        let output = fails(&run(&["backup", file_name, "--force"], &data_dir));
        assert!(output.contains("is damaged"), "{output}");
        assert!(std::fs::read(&store).unwrap() == damaged, "a backup changes nothing");
        assert!(std::fs::read(&file).unwrap() == good, "the last good backup stays");
    }
}

#[test]
fn a_check_tells_a_line_for_each_problem_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data_dir) = (folder.path().join("backup"), folder.path().join("data"));
    let missing = fails(&run(&["store", "check"], &data_dir));
    assert!(missing.contains("store.redb"), "{missing}");
    assert!(!data_dir.exists(), "a check makes nothing");

    let moved = StoredObject { key: "/configmaps/default/z".into(), ..map("moved", 8) };
    let broken = StoredObject { value: "{\"kind\":".into(), ..map("y", 9) };
    let objects = [map("a", 4), broken, moved];
    craft(&file, 9, &objects, &[]);
    let revision = revision_of(&run(&["restore", file.to_str().unwrap(), "-o", "json"], &data_dir));
    let before = files_below(&data_dir);
    let checked = run(&["store", "check"], &data_dir);
    assert_eq!(checked.status.code(), Some(1));
    let store = data_dir.join("store.redb");
    let expected = format!(
        "/configmaps/default/y cannot be read: EOF while parsing a value at line 1 column 8\n\
         /configmaps/default/z is named \"default/moved\"\n\
         {}: 3 objects at revision {revision}, 2 problems\n",
        store.display()
    );
    assert_eq!(text(&checked.stdout), expected);
    let of_backup =
        run(&["store", "check", "--backup", file.to_str().unwrap(), "-o", "json"], &data_dir);
    assert_eq!(of_backup.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&of_backup.stdout).unwrap();
    assert_eq!(report["createdAt"], "2023-11-14T22:13:20Z");
    assert_eq!(report["problems"][1]["key"], "/configmaps/default/z");
    assert!(files_below(&data_dir) == before);

    let mut whole = before[&store].clone();
    let at = find(&whole, b"\"resourceVersion\":\"4\"").expect("the object is in the file");
    whole[at] ^= 1;
    std::fs::write(&store, &whole).unwrap();
    let checked = run(&["store", "check"], &data_dir);
    assert_eq!(checked.status.code(), Some(1));
    let lines: Vec<String> = text(&checked.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("store.redb: its pages are damaged"), "{lines:?}");
    assert_eq!(text(&checked.stderr), "", "no panic is shown");
    assert!(std::fs::read(&store).unwrap() == whole, "nothing is repaired");
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
