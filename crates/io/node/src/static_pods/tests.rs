//! Static pods: what a manifest becomes, and how they live on a node.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::v1alpha1::Rung;
use serde_json::{Value, json};

use super::manifest::{StaticPodError, StaticPodManifest};
use crate::config::NodeConfig;
use crate::testing::{World, container, pod, restart};
use crate::{AgentStopMode, ShutdownPolicy};

const FILE: &str = "/etc/kubernetes/manifests/web.yaml";

fn manifest(text: &str) -> Result<StaticPodManifest, StaticPodError> {
    StaticPodManifest::read(text, Path::new(FILE), "Node-A")
}

fn complete(text: &str) -> Result<Pod, StaticPodError> {
    let manifest = manifest(text)?;
    let answer = serde_json::from_value(manifest.trial()).unwrap();
    manifest.complete(answer)
}

fn text_of(image: &str) -> String {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "containers": [{
                "name": "app", "image": image, "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
            }],
        },
    });
    pod.to_string()
}

#[test]
fn a_static_pod_is_named_after_its_node_and_known_by_its_text() {
    let pod = complete(&text_of("present")).unwrap();
    assert_eq!(pod.metadata.name.as_deref(), Some("web-node-a"));
    assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("Node-A"));
    let annotations = pod.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["kubernetes.io/config.source"], "file");
    assert_eq!(Some(&annotations["kubernetes.io/config.hash"]), pod.metadata.uid.as_ref());
    assert!(!annotations.contains_key("kubernetes.io/config.mirror"), "it is the pod itself");
    let uid = |text: &str, file: &str, node: &str| {
        StaticPodManifest::read(text, Path::new(file), node).unwrap().uid
    };
    let text = text_of("present");
    assert_eq!(uid(&text, FILE, "a"), uid(&text, FILE, "a"));
    assert_ne!(uid(&text, FILE, "a"), uid(&text_of("other"), FILE, "a"));
    assert_ne!(uid(&text, FILE, "a"), uid(&text, "/other.yaml", "a"));
    assert_ne!(uid(&text, FILE, "a"), uid(&text, FILE, "b"));
}

#[test]
fn what_is_no_static_pod_is_named() {
    let spec = |spec: &str| {
        format!("{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{{spec}}}}}")
    };
    let container = "containers: [{name: a, image: b}]";
    let volume = |source: &str| spec(&format!("{container}, volumes: [{{name: v, {source}}}]"));
    let cases = [
        ("", "holds one object, this one 0"),
        ("kind: Pod\n---\nkind: Pod", "this one 2"),
        ("{apiVersion: apps/v1, kind: Deployment}", "this is Deployment of apps/v1"),
        ("{apiVersion: v1, kind: Pod, metadata: {}}", "metadata.name: required value"),
        ("a: [", ""),
        (&volume("secret: {secretName: s}"), "secret \"s\": a static pod may not refer"),
        (&volume("configMap: {name: c}"), "configmap \"c\""),
        (&volume("persistentVolumeClaim: {claimName: c}"), "spec.volumes[0]: a persistent volume"),
        (
            &volume("projected: {sources: [{serviceAccountToken: {path: t}}]}"),
            "a service account token",
        ),
        (&spec(&format!("{container}, serviceAccountName: s")), "spec.serviceAccountName: \"s\""),
    ];
    for (text, expected) in cases {
        let error = complete(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

/// A node with a folder of static pods.
fn world() -> (World, PathBuf) {
    let world = World::new();
    let folder = world.folder.join("static-pods");
    fs::create_dir(&folder).unwrap();
    (world, folder)
}

/// As `mv` would put it there.
fn put(folder: &Path, name: &str, text: &str) {
    let hidden = folder.join(format!(".{name}"));
    fs::write(&hidden, text).unwrap();
    fs::rename(hidden, folder.join(name)).unwrap();
}

fn mirror(world: &World) -> Option<Value> {
    world.api.get("pods", "web-node-a")
}

fn hash(mirror: &Value) -> Value {
    mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"].clone()
}

#[tokio::test]
async fn a_file_becomes_a_pod_with_a_mirror_and_goes_with_it() {
    let (world, folder) = world();
    put(&folder, "web.yaml", &text_of("present"));
    let _agent = world.agent().await;
    world.until_running("web-node-a").await;
    let shown = mirror(&world).unwrap();
    assert_eq!(shown["metadata"]["ownerReferences"][0]["kind"], "Node");
    assert_ne!(shown["metadata"]["uid"], hash(&shown), "the mirror is another object");
    fs::remove_file(folder.join("web.yaml")).unwrap();
    world.api.until("the mirror is gone", |_| mirror(&world).is_none()).await;
    assert!(world.machine.running().is_empty());
}

#[tokio::test]
async fn a_mirror_that_is_deleted_comes_back_and_nothing_is_restarted() {
    let (world, folder) = world();
    put(&folder, "web.yaml", &text_of("present"));
    let _agent = world.agent().await;
    world.until_running("web-node-a").await;
    let before = mirror(&world).unwrap()["metadata"]["uid"].clone();
    world.api.delete_pod("web-node-a", 30);
    let is_another = |mirror: &Value| mirror["metadata"]["uid"] != before;
    world.api.until("a new mirror", |_| mirror(&world).is_some_and(|m| is_another(&m))).await;
    world.until_running("web-node-a").await;
    assert_eq!(world.machine.starts("app"), 1);
}

/// kubectl asks for the deleted object, then lists by its name and waits for the end of what it
/// finds: a mirror that came back at once kept it waiting for ever.
#[tokio::test(start_paused = true)]
async fn the_name_of_a_deleted_mirror_stays_free_for_a_second() {
    let (world, folder) = world();
    put(&folder, "web.yaml", &text_of("present"));
    let _agent = world.agent().await;
    world.until_running("web-node-a").await;
    for grace in [30, 0] {
        world.api.delete_pod("web-node-a", grace);
        world.api.until("the mirror is gone", |_| mirror(&world).is_none()).await;
        let gone = tokio::time::Instant::now();
        world.api.until("another mirror", |_| mirror(&world).is_some()).await;
        assert!(gone.elapsed() >= Duration::from_secs(1), "after {:?}", gone.elapsed());
    }
    assert_eq!(world.machine.starts("app"), 1);
}

#[tokio::test]
async fn an_edited_file_is_another_pod_and_a_broken_one_changes_nothing() {
    let (world, folder) = world();
    put(&folder, "web.yaml", &text_of("present"));
    let _agent = world.agent().await;
    world.until_running("web-node-a").await;
    let before = hash(&mirror(&world).unwrap());
    put(&folder, "web.yaml", "kind: [");
    let tells = |event: &Value| event["reason"] == "InvalidStaticPod";
    world.api.until("it is told", |api| api.list("events").iter().any(tells)).await;
    assert_eq!(world.machine.running(), ["app#0"]);
    let edited = text_of("present")
        .replace("\"terminationGracePeriodSeconds\":30", "\"terminationGracePeriodSeconds\":5");
    put(&folder, "web.yaml", &edited);
    let is_new = |mirror: &Value| hash(mirror) != before;
    world.api.until("another mirror", |_| mirror(&world).is_some_and(|m| is_new(&m))).await;
    world.until_running("web-node-a").await;
    assert_eq!(world.machine.starts("app"), 2);
}

/// The kubelet reads its folder every 20 s.
#[tokio::test(start_paused = true)]
async fn a_link_is_followed_to_what_it_leads_to_now() {
    let (world, folder) = world();
    let elsewhere = world.folder.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    put(&elsewhere, "web.yaml", &text_of("present"));
    std::os::unix::fs::symlink(elsewhere.join("web.yaml"), folder.join("web.yaml")).unwrap();
    let _agent = world.agent().await;
    world.until_running("web-node-a").await;
    let before = hash(&mirror(&world).unwrap());
    let edited = text_of("present")
        .replace("\"terminationGracePeriodSeconds\":30", "\"terminationGracePeriodSeconds\":5");
    put(&elsewhere, "web.yaml", &edited);
    let is_new = |mirror: &Value| hash(mirror) != before;
    world.api.until("another mirror", |_| mirror(&world).is_some_and(|m| is_new(&m))).await;
    world.until_running("web-node-a").await;
    assert_eq!(world.machine.starts("app"), 2);
}

#[tokio::test]
async fn a_killed_agent_restarts_no_static_pod() {
    let (world, folder) = world();
    put(&folder, "web.yaml", &text_of("present"));
    let agent = world.agent().await;
    world.until_running("web-node-a").await;
    let before = mirror(&world).unwrap()["metadata"]["uid"].clone();
    world.crash(agent);
    let agent = world.agent().await;
    world.api.create("podrestarts", &restart("again", "web-node-a", Rung::Container));
    world
        .api
        .until("restarted", |api| {
            api.get("podrestarts", "again").unwrap()["status"]["phase"] == "Succeeded"
        })
        .await;
    assert_eq!(world.machine.starts("app"), 2, "once by the file, once on request");
    assert_eq!(mirror(&world).unwrap()["metadata"]["uid"], before);
    agent.stop(AgentStopMode::EndPods).await;
    assert!(world.machine.running().is_empty());
    assert!(mirror(&world).is_some(), "it comes back with the node");
}

/// Nothing is to be waited for: the task that reads the folder ends with the agent.
#[tokio::test(start_paused = true)]
async fn an_agent_that_is_stopped_before_its_static_pods_are_known_ends_all_pods() {
    let (world, folder) = world();
    world.api.create("pods", &pod("db", vec![container("db-app")]));
    let agent = world.agent().await;
    world.until_running("db").await;
    world.crash(agent);
    put(&folder, "web.yaml", &text_of("present"));
    world.api.fail_next("POST pods", 1000); // the API judges no manifest
    let agent = world.agent().await;
    agent.stop(AgentStopMode::EndPods).await;
    assert!(world.machine.running().is_empty());
    assert!(world.machine.sandboxes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_that_a_shutdown_ended_runs_again_with_its_node() {
    let (world, folder) = world();
    put(&folder, "web.yaml", &text_of("present"));
    let shutdown = |config: &mut NodeConfig| config.shutdown = ShutdownPolicy::of_periods(30, 10);
    let agent = world.agent_with(shutdown).await;
    world.until_running("web-node-a").await;
    agent.stop(AgentStopMode::EndPods).await;
    // as the mirror stands if it was written before the agent was gone
    let disrupted =
        json!({"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"});
    let ended =
        json!({"status": {"phase": "Failed", "reason": "Terminated", "conditions": [disrupted]}});
    world.api.modify("pods", "web-node-a", &ended);
    let _next = world.agent_with(shutdown).await;
    world
        .api
        .until("it runs again", |_| {
            let status = mirror(&world).map(|mirror| mirror["status"].clone()).unwrap_or_default();
            status["phase"] == "Running" && status["reason"].is_null()
        })
        .await;
    assert_eq!(world.machine.running(), ["app#0"]);
    assert_eq!(world.machine.starts("app"), 2);
    let conditions = mirror(&world).unwrap()["status"]["conditions"].clone();
    let is_disrupted = |condition: &Value| condition["type"] == "DisruptionTarget";
    assert!(!conditions.as_array().unwrap().iter().any(is_disrupted), "{conditions}");
}

/// The API server cannot end a static pod (kubernetes/kubernetes#126343).
#[tokio::test]
async fn a_mirror_that_somebody_declares_failed_ends_no_static_pod_whose_agent_starts() {
    let (world, folder) = world();
    put(&folder, "web.yaml", &text_of("present"));
    let agent = world.agent().await;
    world.until_running("web-node-a").await;
    world.crash(agent);
    let failed =
        json!({"status": {"phase": "Failed", "reason": "LadderExhausted", "message": "over"}});
    world.api.modify("pods", "web-node-a", &failed);
    let _next = world.agent().await;
    world
        .api
        .until("its node says how it is", |_| {
            let status = mirror(&world).map(|mirror| mirror["status"].clone()).unwrap_or_default();
            status["phase"] == "Running" && status["reason"].is_null()
        })
        .await;
    assert_eq!(world.machine.running(), ["app#0"]);
}

#[tokio::test]
async fn a_static_pod_that_has_ended_stays_so_when_its_agent_starts() {
    let (world, folder) = world();
    put(&folder, "web.yaml", &text_of("present").replace("Always", "Never"));
    world.machine.ends_at_once("app", 1);
    let agent = world.agent().await;
    let has_failed = || mirror(&world).is_some_and(|mirror| mirror["status"]["phase"] == "Failed");
    world.api.until("it has ended", |_| has_failed()).await;
    world.crash(agent);
    let _next = world.agent().await;
    world.api.create("podrestarts", &restart("again", "web-node-a", Rung::Container));
    let refused = |restart: Value| restart["status"]["phase"] == "Refused";
    world.api.until("refused", |api| api.get("podrestarts", "again").is_some_and(refused)).await;
    assert!(has_failed());
    assert_eq!(world.machine.starts("app"), 1);
}

#[tokio::test]
async fn a_mirror_without_a_file_is_deleted() {
    let (world, folder) = world();
    let mut stray = crate::testing::pod("stray", vec![crate::testing::container("app")]);
    let annotations = stray.metadata.annotations.get_or_insert_default();
    annotations.insert("kubernetes.io/config.mirror".to_owned(), "0123".to_owned());
    world.api.create("pods", &stray);
    let _agent = world.agent().await;
    world.api.until("it is gone", |api| api.get("pods", "stray").is_none()).await;
    assert_eq!(world.machine.count("sandbox"), 0);
    drop(folder);
}

#[tokio::test]
async fn a_file_that_others_may_write_is_refused() {
    let (world, folder) = world();
    put(&folder, "web.yaml", &text_of("present"));
    fs::set_permissions(folder.join("web.yaml"), fs::Permissions::from_mode(0o666)).unwrap();
    let _agent = world.agent().await;
    let tells = |event: &Value| {
        event["message"].as_str().unwrap_or_default().contains("others may write to it (mode 0666)")
    };
    world.api.until("it is told", |api| api.list("events").iter().any(tells)).await;
    assert!(mirror(&world).is_none());
    fs::set_permissions(folder.join("web.yaml"), fs::Permissions::from_mode(0o600)).unwrap();
    world.until_running("web-node-a").await;
}
