//! The node with the real API, runtime, network and file system: real processes in real namespaces.
//! Needs root.
#![allow(missing_docs, clippy::disallowed_methods, reason = "tests drive real processes")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod engine;

use std::fs;

use futures::StreamExt;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use rekindle_types::PodUid;
use rekindle_types::log_options::{ContainerRun, LogOptions};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase};
use serde_json::json;

use engine::{Engine, PATIENCE, all_run, containers, shell};

fn uid(pod: &k8s_openapi::api::core::v1::Pod) -> PodUid {
    PodUid(pod.metadata.uid.clone().unwrap())
}

async fn log(
    engine: &Engine,
    pod: &k8s_openapi::api::core::v1::Pod,
    options: LogOptions,
) -> String {
    let stream = engine.node().logs().read(&uid(pod), "app", options).await.unwrap();
    let chunks: Vec<_> = stream.map(|chunk| chunk.unwrap()).collect().await;
    String::from_utf8(chunks.concat()).unwrap()
}

#[tokio::test]
async fn a_pod_sees_its_volumes_environment_and_names_and_ends_gracefully() {
    let engine = Engine::start().await;
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::default_namespaced(engine.client.clone());
    let map = serde_json::from_value(
        json!({ "metadata": { "name": "settings" }, "data": { "mode": "fast" } }),
    )
    .unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let script = "trap 'echo ended >> /data/out; exit 0' TERM; \
        echo \"$MODE $IP $(hostname) $(cat /cfg/mode)\"; echo works > /data/out; grep -c $IP /etc/hosts; \
        echo no > /cfg/mode || echo read-only; while :; do sleep 0.05; done";
    let mut app = shell("app", script);
    app["env"] = json!([
        { "name": "MODE", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "mode" } } },
        { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
    ]);
    app["volumeMounts"] =
        json!([{ "name": "data", "mountPath": "/data" }, { "name": "cfg", "mountPath": "/cfg" }]);
    let spec = json!({ "containers": [app], "volumes": [
        { "name": "data", "emptyDir": {} }, { "name": "cfg", "configMap": { "name": "settings" } } ] });
    engine.create("web", spec).await;
    let pod = engine.until("web", "running", |pod| all_run(pod, 0)).await;
    let ip = pod.status.as_ref().unwrap().pod_ip.clone().unwrap();
    let follow = LogOptions { follow: true, ..LogOptions::default() };
    let mut stream = engine.node().logs().read(&uid(&pod), "app", follow).await.unwrap();
    let mut text = String::new();
    while !text.contains("read-only") {
        text.push_str(std::str::from_utf8(&stream.next().await.unwrap().unwrap()).unwrap());
    }
    assert!(text.starts_with(&format!("fast {ip} web fast\n1\n")), "{text}");
    let data = engine.path(&format!("node/pods/{}/volumes/data/out", uid(&pod).0));
    assert_eq!(fs::read_to_string(&data).unwrap(), "works\n");
    let held = fs::File::open(&data).unwrap();
    engine.pods().delete("web", &DeleteParams::default()).await.unwrap();
    let uid_of_pod = uid(&pod).0;
    let gone = await_condition(engine.pods(), "web", conditions::is_deleted(&uid_of_pod));
    tokio::time::timeout(PATIENCE, gone).await.unwrap().unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut &held, &mut said).unwrap();
    assert_eq!(said, "works\nended\n", "it was asked to end, and could say so");
    assert!(!engine.path(&format!("node/pods/{}", uid(&pod).0)).exists());
    engine.end().await;
}

#[tokio::test]
async fn a_crash_is_seen_with_its_last_words_and_log() {
    let engine = Engine::start().await;
    let script = "echo run; if [ -e /data/second ]; then exec sleep 1000; fi; touch /data/second; \
        echo 'the database is gone' > /dev/termination-log; exit 7";
    let mut app = shell("app", script);
    app["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    engine
        .create(
            "web",
            json!({ "containers": [app], "volumes": [{ "name": "data", "emptyDir": {} }], "terminationGracePeriodSeconds": 0 }),
        )
        .await;
    let pod = engine.until("web", "restarted", |pod| all_run(pod, 1)).await;
    let status = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    let last = status.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((last.exit_code, last.message.as_deref()), (7, Some("the database is gone\n")));
    let previous = LogOptions { run: ContainerRun::Previous, ..LogOptions::default() };
    assert_eq!(log(&engine, &pod, previous).await, "run\n");
    engine.end().await;
}

/// Promise P1 with real processes: the same containers, not only the same counts.
#[tokio::test]
async fn an_agent_that_dies_leaves_its_pods_and_the_next_one_takes_them_up() {
    let mut engine = Engine::start().await;
    let spec = json!({ "containers": [shell("app", "exec sleep 1000"), shell("side", "exec sleep 1000")], "terminationGracePeriodSeconds": 0 });
    engine.create("web", spec).await;
    let before = engine.until("web", "running", |pod| all_run(pod, 0)).await;
    engine.crash_node().await;
    engine.start_node().await;
    let ids = |pod: &k8s_openapi::api::core::v1::Pod| {
        let statuses = pod.status.as_ref().unwrap().container_statuses.clone().unwrap();
        statuses.into_iter().map(|status| (status.container_id, status.state)).collect::<Vec<_>>()
    };
    let labels = json!({ "metadata": { "labels": { "seen": "yes" } } });
    let patch = kube::api::Patch::Merge(labels);
    engine.pods().patch("web", &kube::api::PatchParams::default(), &patch).await.unwrap();
    let after = engine.until("web", "running", |pod| all_run(pod, 0)).await;
    assert_eq!(ids(&before), ids(&after));
    engine.end().await;
}

#[tokio::test]
async fn a_poisoned_pod_is_healed_by_a_whole_pod_restart() {
    let engine = Engine::start().await;
    let script = "if [ -e /data/poison ]; then exit 1; fi; touch /data/poison; exec sleep 1000";
    let mut app = shell("app", script);
    app["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    let spec = json!({ "containers": [app, shell("side", "exec sleep 1000")], "volumes": [{ "name": "data", "emptyDir": {} }], "terminationGracePeriodSeconds": 0 });
    engine.create("web", spec).await;
    let before = engine.until("web", "running", |pod| all_run(pod, 0)).await;
    let restarts: Api<PodRestart> = Api::default_namespaced(engine.client.clone());
    let restart = serde_json::from_value(json!({
        "metadata": { "name": "again" }, "spec": { "podName": "web", "rung": "Pod", "gracePeriodSeconds": 1 } }))
    .unwrap();
    restarts.create(&PostParams::default(), &restart).await.unwrap();
    let after = engine.until("web", "restarted", |pod| all_run(pod, 1)).await;
    assert_eq!(before.metadata.uid, after.metadata.uid);
    let done = |restart: Option<&PodRestart>| {
        let phase = restart.and_then(|restart| restart.status.as_ref()?.phase);
        phase == Some(PodRestartPhase::Succeeded)
    };
    let told = await_condition(restarts, "again", done);
    tokio::time::timeout(PATIENCE, told).await.unwrap().unwrap();
    assert_eq!(containers(&after).len(), 2);
    engine.end().await;
}

/// What a pod with users of its own says of them, as soon as it has said all.
async fn told_of_users(engine: &Engine, pod: &k8s_openapi::api::core::v1::Pod) -> String {
    let follow = LogOptions { follow: true, ..LogOptions::default() };
    let mut stream = engine.node().logs().read(&uid(pod), "app", follow).await.unwrap();
    let told = async {
        let mut text = String::new();
        while !text.contains("that is all\n") {
            text.push_str(std::str::from_utf8(&stream.next().await.unwrap().unwrap()).unwrap());
        }
        text
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap()
}

#[tokio::test]
async fn users_of_a_pods_own_have_its_volumes_and_stay_the_same_in_every_sandbox() {
    use std::os::unix::fs::MetadataExt;

    let mut engine = Engine::start().await;
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::default_namespaced(engine.client.clone());
    let map = serde_json::from_value(
        json!({ "metadata": { "name": "settings" }, "data": { "mode": "fast" } }),
    )
    .unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let script = "tr -s ' ' < /proc/self/uid_map; echo $$$$ $(hostname) $(cat /cfg/mode); grep -c $IP /etc/hosts; \
        cd /data; touch made /memory/made; chown 5:6 made; id -u; id -G; \
        stat -Lc %u:%g /data made /memory/made /cfg/mode /etc/hosts; (echo 1 > /proc/sys/kernel/panic) 2> /dev/null || echo not written; \
        mount -t tmpfs x /mnt 2> /dev/null || echo not allowed; echo last > /dev/termination-log; echo that is all; exec sleep 1000";
    let mut app = shell("app", script);
    app["env"] = json!([
        { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
    ]);
    app["securityContext"] = json!({ "procMount": "Unmasked" });
    app["livenessProbe"] = json!({ "exec": { "command": ["test", "-e", "/data/made"] } });
    app["volumeMounts"] = json!([
        { "name": "data", "mountPath": "/data" }, { "name": "memory", "mountPath": "/memory" },
        { "name": "cfg", "mountPath": "/cfg" } ]);
    let spec = json!({ "hostUsers": false, "terminationGracePeriodSeconds": 0, "containers": [app],
        "securityContext": { "fsGroup": 2000 }, "volumes": [
            { "name": "data", "emptyDir": {} }, { "name": "memory", "emptyDir": { "medium": "Memory" } },
            { "name": "cfg", "configMap": { "name": "settings" } } ] });
    engine.create("web", spec).await;
    let pod = engine.until("web", "running", |pod| all_run(pod, 0)).await;
    let first = told_of_users(&engine, &pod).await;
    let expected = " 0 1073741824 65536\n1 web fast\n1\n0\n0 2000\n\
        0:2000\n5:6\n0:2000\n0:2000\n0:0\nnot written\nnot allowed\nthat is all\n";
    assert_eq!(first, expected);
    let folder = engine.path(&format!("node/pods/{}", uid(&pod).0));
    let made = fs::metadata(folder.join("volumes/data/made")).unwrap();
    assert_eq!((made.uid(), made.gid()), (5, 6), "the disk knows them by the ids inside");

    engine.crash_node().await;
    engine.start_node().await;
    let restarts: Api<PodRestart> = Api::default_namespaced(engine.client.clone());
    let restart = serde_json::from_value(json!({
        "metadata": { "name": "again" }, "spec": { "podName": "web", "rung": "Pod", "gracePeriodSeconds": 0 } }))
    .unwrap();
    restarts.create(&PostParams::default(), &restart).await.unwrap();
    let pod = engine.until("web", "restarted", |pod| all_run(pod, 1)).await;
    assert_eq!(told_of_users(&engine, &pod).await, first);
    engine.pods().delete("web", &DeleteParams::default()).await.unwrap();
    let uid_of_pod = uid(&pod).0;
    let gone = await_condition(engine.pods(), "web", conditions::is_deleted(&uid_of_pod));
    tokio::time::timeout(PATIENCE, gone).await.unwrap().unwrap();
    engine.end().await;
}
