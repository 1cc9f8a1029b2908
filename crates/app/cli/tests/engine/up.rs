//! `rekindle up` as a user has it: in the background, on a terminal, with manifests from wherever
//! they come.
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use rekindle_testkit::{Engine, TestTerminal, text};

fn config_map(name: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{a: b}}}}\n")
}

#[test]
fn in_the_background_it_returns_when_the_manifests_are_applied_and_down_ends_it() {
    let mut engine = Engine::prepare();
    let manifest = engine.data_dir().join("app.yaml");
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: one, image: localhost/demo, args: [signal]}]}}";
    std::fs::write(&manifest, pod).unwrap();
    let up = engine
        .up_command(&["--detach", "-f", manifest.to_str().unwrap()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = text(&up.stdout);
    assert!(up.status.success(), "{printed}{}", text(&up.stderr));
    assert!(printed.contains("export KUBECONFIG="), "{printed}");
    assert!(printed.contains("pod/web created"), "{printed}");
    engine.wait_ready("web");

    let status = engine.rekindle(&["status"]);
    let shown = text(&status.stdout);
    assert!(status.status.success(), "{shown}{}", text(&status.stderr));
    for part in ["engine  v1.37", "node    node-1 Ready", "web", "Running"] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }

    let again = engine.up_command(&["--detach"]).stdin(Stdio::null()).output().unwrap();
    assert!(!again.status.success());
    assert!(text(&again.stderr).contains("is held by another engine"), "{}", text(&again.stderr));

    let down = engine.rekindle(&["down"]);
    assert!(
        down.status.success() && text(&down.stdout).contains("ended"),
        "{}",
        text(&down.stdout)
    );
    let status = engine.rekindle(&["status"]);
    assert!(!status.status.success());
    assert!(
        text(&status.stderr).contains("rekindle up"),
        "it says what to do: {}",
        text(&status.stderr)
    );
    engine.launch(&[]); // so that the folder can be asked for what was kept
    engine.wait_ready("web");
}

#[test]
fn a_start_in_the_background_returns_when_its_node_is_ready() {
    let engine = Engine::prepare();
    let up = engine.up_command(&["--detach"]).stdin(Stdio::null()).output().unwrap();
    assert!(up.status.success(), "{}", text(&up.stderr));
    let ready = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
    assert_eq!(engine.kubectl(&["get", "node", "node-1", "-o", ready]), "True");
    assert!(engine.rekindle(&["down"]).status.success());
}

#[test]
fn what_an_engine_keeps_is_closed_to_other_users() {
    let engine = Engine::prepare();
    let closed = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o077 == 0;
    std::fs::set_permissions(engine.data_dir(), Permissions::from_mode(0o755)).unwrap();
    let up = engine.up_command(&["--detach"]).stdin(Stdio::null()).output().unwrap();
    assert!(up.status.success(), "{}", text(&up.stderr));
    engine.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: one, image: localhost/demo, args: [signal]}]}}",
    );
    engine.wait_ready("web");

    assert!(closed(engine.data_dir()), "the data directory");
    let id = std::fs::read_to_string(engine.data_dir().join("engine-id")).unwrap();
    assert!(closed(&Path::new("/run/rekindle").join(id)), "the folder of sockets");
    // the folder keeps all below it from others; what holds keys or objects is closed by itself,
    // too
    for name in ["pki", "kubeconfig", "store.redb", "engine.log", "engine.json", "static-pods"] {
        assert!(closed(&engine.data_dir().join(name)), "{name}");
    }
    for key in std::fs::read_dir(engine.data_dir().join("pki")).unwrap() {
        let key = key.unwrap().path();
        assert!(closed(&key) || key.extension().is_some_and(|it| it == "crt"), "{}", key.display());
    }
    assert!(engine.rekindle(&["down"]).status.success());
}

#[test]
fn manifests_come_from_standard_input_several_files_and_folders() {
    let mut engine = Engine::prepare();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.yaml"), config_map("from-a-folder")).unwrap();
    std::fs::write(folder.path().join("two.yml"), config_map("from-a-folder-too")).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "no manifest").unwrap();
    let file = folder.path().join("single.manifest");
    std::fs::write(
        &file,
        config_map("from-a-file") + "---\n" + &config_map("and-its-second-document"),
    )
    .unwrap();
    let folder_name = folder.path().to_str().unwrap();
    let mut up = engine
        .up_command(&[
            "--detach",
            "-f",
            "-",
            "-f",
            folder_name,
            "--filename",
            file.to_str().unwrap(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    up.stdin.take().unwrap().write_all(config_map("from-standard-input").as_bytes()).unwrap();
    let up = up.wait_with_output().unwrap();
    assert!(up.status.success(), "{}", text(&up.stdout));
    for name in [
        "from-standard-input",
        "from-a-folder",
        "from-a-folder-too",
        "from-a-file",
        "and-its-second-document",
    ] {
        assert_eq!(engine.get(&format!("configmap/{name}"))["data"]["a"], "b");
    }
    assert!(engine.rekindle(&["down"]).status.success());
    engine.launch(&["-f", folder_name]);
    assert_eq!(engine.get("configmap/from-a-folder")["data"]["a"], "b");
}

#[test]
fn a_manifest_that_is_refused_ends_the_engine_in_front_and_names_the_object() {
    let engine = Engine::prepare();
    let manifest = engine.data_dir().join("bad.yaml");
    std::fs::write(
        &manifest,
        "{apiVersion: v1, kind: Pod, metadata: {name: bad}, spec: {containers: []}}",
    )
    .unwrap();
    let up = engine
        .up_command(&["-f", manifest.to_str().unwrap()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!up.status.success());
    let error = text(&up.stderr);
    assert!(
        error.contains("apply pod/bad") && error.contains("spec.containers: Required value"),
        "{error}"
    );
}

const CRASHING: &str = "
apiVersion: v1
kind: Pod
metadata: {name: crashing}
spec:
  containers:
  - {name: one, image: localhost/demo, args: [crash, --after, 0s]}
---
apiVersion: v1
kind: Pod
metadata: {name: steady}
spec:
  containers:
  - {name: one, image: localhost/demo, args: [signal]}
---
apiVersion: rekindle.dev/v1alpha1
kind: RestartLadder
metadata: {name: all}
spec:
  selector: {matchExpressions: [{key: nobody, operator: DoesNotExist}]}
  rungs: [{rung: Container, attempts: 3}, {rung: Pod, attempts: 2}]
";

#[test]
fn on_a_terminal_a_table_is_kept_up_to_date_until_ctrl_c() {
    let engine = Engine::prepare();
    let manifest = engine.data_dir().join("app.yaml");
    std::fs::write(&manifest, CRASHING).unwrap();
    let mut terminal =
        TestTerminal::run(&engine.up_command(&["-f", manifest.to_str().unwrap()]), 160, 24);

    // the pods' rows, the countdown and the reason, and each once: drawn over, not appended. What
    // comes in parts (a pod's status before its ladder's reason, half a table before the other
    // half) is waited for.
    let once = |screen: &str| {
        ["POD ", "\n crashing ", "\n steady "].iter().all(|text| screen.matches(text).count() == 1)
    };
    terminal.wait_for("table with both rows, a countdown and why", |screen| {
        once(screen)
            && ["Running", "CrashLoopBackOff", "in ", "exit "].iter().all(|t| screen.contains(t))
    });

    terminal.resize(110, 12);
    let screen = terminal.wait_for("narrower table", once);
    // the countdown goes on in the new size, over what stands
    terminal.wait_for("next second", |next| once(next) && next != screen);

    terminal.press_ctrl_c();
    let (ended, screen) = terminal.wait_for_end();
    assert!(ended.success(), "{ended}: {screen}");
    assert!(screen.contains("ending the pods"), "{screen}");
}
