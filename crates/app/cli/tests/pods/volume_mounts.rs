//! What may be asked of mounts, and images as volumes, on real containers.
use std::fs;
use std::path::{Path, PathBuf};

use rekindle_testkit::archive::TestImage;
use rekindle_testkit::{Engine, process, text};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use serde_json::json;

const REASON: &str = ".status.containerStatuses[0].state.waiting.reason";

/// A folder of the host that is a shared mount of its own, as `/` is on most machines; it goes away
/// with the test.
struct Shared {
    folder: tempfile::TempDir,
}

impl Shared {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("rekindle-test-shared-").tempdir().unwrap();
        rustix::mount::mount_bind(folder.path(), folder.path()).unwrap();
        rustix::mount::mount_change(folder.path(), MountPropagationFlags::SHARED).unwrap();
        for name in ["early", "late", "own"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let shared = Self { folder };
        shared.mount("early");
        shared
    }

    /// Mounts something on a folder in it, with a file to see it by.
    fn mount(&self, name: &str) {
        let at = self.folder.path().join(name);
        rustix::mount::mount("tmpfs", &at, "tmpfs", MountFlags::empty(), None).unwrap();
        fs::write(at.join("here"), name).unwrap();
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for name in ["early", "late", "own", ""] {
            let _ = rustix::mount::unmount(self.folder.path().join(name), UnmountFlags::DETACH);
        }
    }
}

fn pod(name: &str, container: &str, volume: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{automountServiceAccountToken: false, terminationGracePeriodSeconds: 0, containers: \
         [{{name: one, image: localhost/host, command: [sleep, '1000000'], {container}}}], volumes: [{{name: v, {volume}}}]}}}}"
    )
}

/// What a command in the container prints, however it ends.
fn exec(engine: &Engine, pod: &str, script: &str) -> String {
    engine.kubectl(&["exec", pod, "--", "sh", "-c", &format!("({script}) 2>&1; true")])
}

fn restart(engine: &Engine, pod: &str, rung: &str) {
    let output = engine.rekindle(&["restart", &format!("pod/{pod}"), "--rung", rung, "--wait"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    engine.wait_ready(pod);
}

#[test]
fn mounts_made_later_are_seen_where_that_was_asked_for() {
    let (engine, shared) = (Engine::start(), Shared::new());
    let volume = format!("hostPath: {{path: '{}', type: Directory}}", shared.path().display());
    let mount = |options: &str| format!("volumeMounts: [{{name: v, mountPath: /v{options}}}]");
    engine.apply(&pod("private", &mount(""), &volume));
    engine.apply(&pod("follows", &mount(", mountPropagation: HostToContainer"), &volume));
    let both = mount(", mountPropagation: Bidirectional") + ", securityContext: {privileged: true}";
    engine.apply(&pod("both", &both, &volume));
    for name in ["private", "follows", "both"] {
        engine.wait_ready(name);
        assert_eq!(exec(&engine, name, "cat /v/early/here"), "early", "{name}");
    }

    shared.mount("late");
    assert_eq!(exec(&engine, "follows", "cat /v/late/here"), "late");
    assert_eq!(exec(&engine, "both", "cat /v/late/here"), "late");
    assert!(exec(&engine, "private", "cat /v/late/here").contains("No such file"));

    exec(&engine, "both", "mount -t tmpfs own /v/own && echo own > /v/own/here");
    let seen = shared.path().join("own/here");
    assert_eq!(fs::read_to_string(&seen).unwrap(), "own\n");
    assert_eq!(exec(&engine, "follows", "cat /v/own/here"), "own\n");
    for rung in ["container", "pod"] {
        restart(&engine, "follows", rung);
        restart(&engine, "private", rung);
        assert_eq!(exec(&engine, "follows", "cat /v/own/here"), "own\n", "{rung}");
    }

    // a mount that has no ties could not pass anything on
    let alone = tempfile::Builder::new().prefix("rekindle-test-").tempdir().unwrap();
    rustix::mount::mount_bind(alone.path(), alone.path()).unwrap();
    rustix::mount::mount_change(alone.path(), MountPropagationFlags::PRIVATE).unwrap();
    let volume = format!("hostPath: {{path: '{}'}}", alone.path().display());
    engine.apply(&pod("alone", &mount(", mountPropagation: HostToContainer"), &volume));
    engine.wait_for("pod/alone", REASON, "CreateContainerError");
    rustix::mount::unmount(alone.path(), UnmountFlags::DETACH).unwrap();
    let status = engine.get("pod/alone")["status"]["containerStatuses"][0].clone();
    let message = status["state"]["waiting"]["message"].as_str().unwrap();
    assert!(message.ends_with("but it is not a shared or slave mount"), "{message}");
}

#[test]
fn a_read_only_mount_reaches_as_far_as_was_asked_for() {
    let (engine, shared) = (Engine::start(), Shared::new());
    let volume = format!("hostPath: {{path: '{}'}}", shared.path().display());
    let container = "volumeMounts: [{name: v, mountPath: /flat, readOnly: true}, {name: v, mountPath: /deep, readOnly: true, recursiveReadOnly: IfPossible}, {name: v, mountPath: /inert, bindMountOptions: [noexec, nosuid]}]";
    engine.apply(&pod("look", container, &volume));
    engine.wait_ready("look");
    for rung in ["container", "pod"] {
        let touch = |path: &str| exec(&engine, "look", &format!("touch {path} && echo done"));
        assert!(touch("/flat/x").contains("Read-only"), "before {rung}");
        assert_eq!(touch("/flat/early/x"), "done\n", "what is mounted beneath it is not");
        assert!(
            touch("/deep/x").contains("Read-only") && touch("/deep/early/x").contains("Read-only")
        );
        let script = "cp /bin/true /inert/true; /inert/true || echo refused";
        assert!(exec(&engine, "look", script).contains("ermission denied"));
        assert!(exec(&engine, "look", "grep ' /inert ' /proc/self/mountinfo").contains("nosuid"));
        restart(&engine, "look", rung);
    }
    let mounts = engine.get("pod/look")["status"]["containerStatuses"][0]["volumeMounts"].clone();
    let expected = json!([
        {"name": "v", "mountPath": "/flat", "readOnly": true, "recursiveReadOnly": "Disabled"},
        {"name": "v", "mountPath": "/deep", "readOnly": true, "recursiveReadOnly": "Enabled"},
        {"name": "v", "mountPath": "/inert"},
    ]);
    assert_eq!(mounts, expected);
}

fn load(engine: &Engine, name: &str, program: Option<&str>, files: &[(&str, &str)], user: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("image.tar");
    let config = json!({"Entrypoint": program.map(|program| vec![program]), "User": user});
    TestImage::new(program, files, &config).write_docker_archive(&file, name);
    let output = engine.rekindle(&["image", "load", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn an_image_is_a_volume_that_cannot_be_written_or_executed_and_stays_while_it_is_used() {
    let engine = Engine::start();
    let name = "localhost/model:7";
    let files = [("weights/a", "layer"), ("readme", "read me")];
    load(&engine, name, Some("/usr/bin/cat"), &files, "");
    let mounts = "volumeMounts: [{name: v, mountPath: /model}, {name: v, mountPath: /w, subPath: weights}, {name: v, mountPath: /one, subPath: readme}]";
    let applied = engine.try_kubectl(
        &["apply", "-f", "-"],
        &pod("uses", mounts, &format!("image: {{reference: '{name}'}}")),
    );
    assert!(applied.status.success() && applied.stderr.is_empty(), "{applied:?}");
    engine.wait_ready("uses");
    assert_eq!(engine.get("pod/uses")["spec"]["volumes"][0]["image"]["pullPolicy"], "IfNotPresent");
    for rung in ["container", "containers", "pod"] {
        assert_eq!(exec(&engine, "uses", "cat /model/weights/a /w/a /one"), "layerlayerread me");
        assert!(exec(&engine, "uses", "touch /model/x").contains("Read-only"), "before {rung}");
        assert!(exec(&engine, "uses", "/model/usr/bin/cat /one").contains("ermission denied"));
        restart(&engine, "uses", rung);
    }
    let present = format!("Container image \"{name}\" already present");
    engine.wait_for_event("uses", "Pulled", &present);
    let removed = engine.rekindle(&["image", "rm", name]);
    assert!(!removed.status.success(), "it is in use: {}", text(&removed.stdout));

    // what cannot be had is the container's problem, by its own name
    let gone = "image: {reference: '127.0.0.1:1/none:1'}";
    engine.apply(&pod("waits", "volumeMounts: [{name: v, mountPath: /m}]", gone));
    engine.wait_for("pod/waits", REASON, "ImagePullBackOff");
    engine.wait_for_event("waits", "Failed", "Failed to pull image \"127.0.0.1:1/none:1\"");
    // one that is not mounted is not fetched
    engine.apply(&pod("idle", "env: []", gone));
    engine.wait_ready("idle");
    // the host's own root is no volume, and a path that is not in the image is none either
    for (pod_name, image, sub_path, reason, expected) in [
        ("host", "localhost/host", "x", "CreateContainerConfigError", "cannot be a volume"),
        (
            "absent",
            name,
            "none",
            "CreateContainerError",
            "subPath \"none\" of image localhost/model:7: no such file",
        ),
    ] {
        let mount = format!("volumeMounts: [{{name: v, mountPath: /m, subPath: {sub_path}}}]");
        engine.apply(&pod(pod_name, &mount, &format!("image: {{reference: '{image}'}}")));
        engine.wait_for(&format!("pod/{pod_name}"), REASON, reason);
        let status =
            engine.get(&format!("pod/{pod_name}"))["status"]["containerStatuses"][0].clone();
        let message = status["state"]["waiting"]["message"].as_str().unwrap();
        assert!(message.to_lowercase().contains(&expected.to_lowercase()), "{message}");
    }
}

#[test]
fn groups_of_the_images_files_are_left_out_when_the_pod_says_so_and_the_status_tells() {
    let engine = Engine::start();
    let files = [
        ("etc/passwd", "app:x:4711:4712::/:/bin/false\n"),
        ("etc/group", "app:x:4712:\nmore:x:4713:app\n"),
    ];
    load(&engine, "example.test/app:1", Some("/usr/bin/cat"), &files, "app");
    for (name, policy, groups) in [
        ("merge", "Merge", [4712, 4713, 5000].as_slice()),
        ("strict", "Strict", [4712, 5000].as_slice()),
    ] {
        let mark = format!("{}-{name}", engine.data_dir().display());
        engine.apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{terminationGracePeriodSeconds: 0, \
             securityContext: {{supplementalGroups: [5000], supplementalGroupsPolicy: {policy}}}, containers: \
             [{{name: one, image: 'example.test/app:1', stdin: true, env: [{{name: REKINDLE_TEST_PROBE, value: '{mark}'}}]}}]}}}}"
        ));
        engine.wait_ready(name);
        for rung in ["container", "pod"] {
            let facts = process::facts(process::find("REKINDLE_TEST_PROBE", &mark).unwrap());
            let numbers: String = groups.iter().map(|group| format!("{group} ")).collect();
            assert!(facts.contains(&format!("Groups:\t{numbers}\n")), "{name}: {facts}");
            let status =
                engine.get(&format!("pod/{name}"))["status"]["containerStatuses"][0].clone();
            let expected =
                json!({"linux": {"uid": 4711, "gid": 4712, "supplementalGroups": groups}});
            assert_eq!(status["user"], expected, "{name}");
            restart(&engine, name, rung);
        }
    }
    let node = engine.get("node/node-1")["status"].clone();
    assert_eq!(node["features"], json!({"supplementalGroupsPolicy": true}));
    assert_eq!(node["runtimeHandlers"][0]["features"]["recursiveReadOnlyMounts"], true);
}
