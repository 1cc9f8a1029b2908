//! A pod's ordinary life.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    ConfigMapEnvSource, Container, EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector,
};
use rekindle_types::ExitStatus;
use serde_json::json;

use super::{events, pod_with_scratch, scratch_of_app, shown};
use crate::agent::AgentStopMode;
use crate::testing::{World, container, pod, with_volumes};

#[tokio::test(start_paused = true)]
async fn a_pod_is_run_and_shown() {
    let world = World::new();
    world.api.create("pods", &pod("web", vec![container("app"), container("side")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let status = world.status("web");
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["podIP"], "10.88.0.1");
    assert_eq!(status["hostIP"], "10.88.0.254");
    let app = shown(&world, "web", "app");
    assert_eq!(app["restartCount"], 0);
    assert!(app["containerID"].as_str().unwrap().starts_with("rekindle://"));
    assert_eq!(world.machine.running(), ["app#0", "side#0"]);
}

/// Telling of the end would stand in the way of the start that follows at once.
#[tokio::test(start_paused = true)]
async fn a_container_that_is_started_again_at_once_is_shown_when_it_runs() {
    let world = World::new();
    let looks_for_its_image =
        Container { image_pull_policy: Some("Always".to_owned()), ..container("app") };
    world.api.create("pods", &pod("web", vec![looks_for_its_image]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let seen = world.api.history("pods", "web").len();
    world.machine.starts_in("app", Duration::from_millis(3));
    world.machine.end("app", ExitStatus::Code { code: 1 });
    world.api.until("shown", |_| shown(&world, "web", "app")["restartCount"] == 1).await;
    let states: Vec<String> = world.api.history("pods", "web")[seen..]
        .iter()
        .map(|pod| pod["status"]["containerStatuses"][0]["state"].to_string())
        .collect();
    assert!(states.iter().all(|state| state.starts_with("{\"running\"")), "{states:?}");
}

#[tokio::test(start_paused = true)]
async fn containers_are_told_of_the_services_in_their_namespace_unless_they_do_not_want_to() {
    let world = World::new();
    let service = |name: &str, namespace: &str, address: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "clusterIP": address, "ports": [{ "port": 80 }] },
        })
    };
    world.api.create("services", &service("db", "default", "10.96.0.5"));
    world.api.create("services", &service("far", "elsewhere", "10.96.0.6"));
    let mut silent = pod("silent", vec![container("quiet")]);
    silent.spec.as_mut().unwrap().enable_service_links = Some(false);
    world.api.create("pods", &silent);
    world.api.create("pods", &pod("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    world.until_running("silent").await;
    let host = |container: &str, name: &str| {
        let env = world.machine.spec(container).env;
        env.into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    };
    assert_eq!(host("app", "DB_SERVICE_HOST").as_deref(), Some("10.96.0.5"));
    assert_eq!(host("app", "FAR_SERVICE_HOST"), None);
    assert_eq!(host("quiet", "DB_SERVICE_HOST"), None);

    world.api.create("services", &service("new", "default", "10.96.0.7"));
    world.api.remove("services", "db");
    world.machine.end("app", ExitStatus::Code { code: 1 });
    world.api.until("again", |_| shown(&world, "web", "app")["restartCount"] == 1).await;
    world.until_running("web").await;
    assert_eq!(host("app", "NEW_SERVICE_HOST").as_deref(), Some("10.96.0.7"));
    assert_eq!(host("app", "DB_SERVICE_HOST"), None);
}

#[tokio::test(start_paused = true)]
async fn the_agent_mounts_hosts_hostname_and_resolver() {
    let world = World::new();
    world.api.create("pods", &pod("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let spec = world.machine.spec("app");
    let source = |destination: &str| {
        let of = |mount: &&rekindle_runtime::Mount| {
            mount.destination == std::path::Path::new(destination)
        };
        spec.mounts.iter().find(of).unwrap().source.host_path().unwrap().to_owned()
    };
    let hosts = std::fs::read_to_string(source("/etc/hosts")).unwrap();
    assert!(hosts.contains("10.88.0.1\tweb\n"), "{hosts}");
    assert_eq!(std::fs::read_to_string(source("/etc/hostname")).unwrap(), "web\n");
    assert!(source("/etc/resolv.conf").exists());
    assert!(source("/dev/termination-log").exists());
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ends_is_started_again_with_its_last_words_kept() {
    let world = World::new();
    world.api.create("pods", &pod("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let spec = world.machine.spec("app");
    let last_words = spec.mounts.iter().find(|m| m.destination.ends_with("termination-log"));
    let last_words = last_words.unwrap().source.host_path().unwrap();
    std::fs::write(last_words, "the database is gone").unwrap();
    world.machine.end("app", ExitStatus::Code { code: 3 });
    world.api.until("restarted", |_| shown(&world, "web", "app")["restartCount"] == 1).await;
    world.until_running("web").await;
    let last = shown(&world, "web", "app")["lastState"]["terminated"].clone();
    assert_eq!(last["exitCode"], 3);
    assert_eq!(last["message"], "the database is gone");
    assert_eq!(world.machine.starts("app"), 2);
}

/// The kubelet's waits: 0, 10, 20, 40, … s; see kubernetes-facts, "Container restart and backoff".
#[tokio::test(start_paused = true)]
async fn a_crashing_container_backs_off() {
    let world = World::new();
    world.machine.ends_at_once("app", 1);
    world.api.create("pods", &pod("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.machine.until("five starts", |machine| machine.starts("app") == 5).await;
    let passed = world.clock.now().since(rekindle_types::Tick::from_secs(1_760_000_000));
    assert!((70..72).contains(&passed.as_secs()), "0 + 10 + 20 + 40 s, not {} s", passed.as_secs());
    world
        .api
        .until("shown", |_| {
            shown(&world, "web", "app")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        })
        .await;
    world.api.until("told", |_| !events(&world, "BackOff").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_ends_gracefully_and_leaves_nothing() {
    let world = World::new();
    world.api.create("pods", &pod_with_scratch("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    assert!(!world.folder.mounts().is_empty());
    world.api.delete_pod("web", 30);
    world.api.until("gone", |api| api.get("pods", "web").is_none()).await;
    assert_eq!(world.machine.count("signal app"), 1);
    assert_eq!(world.machine.count("kill"), 0);
    assert!(world.machine.sandboxes().is_empty());
    assert!(world.network.attached().is_empty());
    assert_eq!(world.folder.mounts(), Vec::<std::path::PathBuf>::new());
    let last = world.api.history("pods", "web").pop().unwrap();
    assert_eq!(last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_stubborn_container_is_killed_when_the_grace_is_over() {
    let world = World::new();
    world.machine.stubborn("app");
    world.api.create("pods", &pod("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let before = world.clock.now();
    world.api.delete_pod("web", 7);
    world.api.until("gone", |api| api.get("pods", "web").is_none()).await;
    assert_eq!(world.clock.now().since(before).as_secs(), 7);
    assert_eq!(world.machine.count("kill app"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_environment_comes_from_the_pod_and_a_config_map() {
    let world = World::new();
    let mut app = container("app");
    app.env_from = Some(vec![EnvFromSource {
        config_map_ref: Some(ConfigMapEnvSource { name: "settings".to_owned(), optional: None }),
        ..EnvFromSource::default()
    }]);
    app.env = Some(vec![EnvVar {
        name: "IP".to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: "status.podIP".to_owned(),
                api_version: None,
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }]);
    world.api.create("pods", &pod("web", vec![app]));
    let _agent = world.agent().await;
    let waiting = |world: &World| shown(world, "web", "app")["state"]["waiting"].clone();
    world.api.until("held", |_| waiting(&world)["reason"] == "CreateContainerConfigError").await;
    assert_eq!(waiting(&world)["message"], "configmap \"settings\" not found");
    world.api.create(
        "configmaps",
        &json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "settings", "namespace": "default" }, "data": { "MODE": "fast" } }),
    );
    world.until_running("web").await;
    let env = world.machine.spec("app").env;
    let expected = [("MODE", "fast"), ("IP", "10.88.0.1")];
    assert_eq!(env, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

/// The kubelet makes the folder with the container's config (`makeMounts`).
#[tokio::test(start_paused = true)]
async fn a_sub_path_that_leads_out_of_its_volume_is_a_config_error_that_names_the_mount() {
    let world = World::new();
    let volume = world.folder.join("volume");
    std::fs::create_dir(&volume).unwrap();
    std::os::unix::fs::symlink("/", volume.join("esc")).unwrap();
    let source = json!([{"name": "l", "hostPath": {"path": volume}}]);
    let mut web = with_volumes(pod("web", vec![container("app")]), source);
    let mounts = &mut web.spec.as_mut().unwrap().containers[0].volume_mounts;
    mounts.as_mut().unwrap()[0].sub_path = Some("esc/etc".to_owned());
    world.api.create("pods", &web);
    let _agent = world.agent().await;
    let waiting = || shown(&world, "web", "app")["state"]["waiting"].clone();
    let is_told =
        || waiting()["message"].as_str().is_some_and(|message| message.contains("subPath"));
    world.api.until("held", |_| is_told()).await;
    assert_eq!(waiting()["reason"], "CreateContainerConfigError");
    assert_eq!(
        waiting()["message"],
        "failed to create subPath directory for volumeMount \"l\" of container \"app\": subPath \"esc/etc\": it leads out of the volume"
    );
    // tried again: what stands there is the volume's own by then
    std::fs::remove_file(volume.join("esc")).unwrap();
    world.until_running("web").await;
    assert!(volume.join("esc/etc").is_dir());
}

/// [kubelet: `verifyRunAsNonRoot`]
#[tokio::test(start_paused = true)]
async fn an_image_that_would_run_as_root_against_run_as_non_root_is_told_in_the_kubelets_words() {
    let world = World::new();
    let mut web = pod("web", vec![container("app")]);
    let context = json!({"runAsNonRoot": true});
    web.spec.as_mut().unwrap().security_context = serde_json::from_value(context).unwrap();
    world.api.create("pods", &web);
    let _agent = world.agent().await;
    let waiting = || shown(&world, "web", "app")["state"]["waiting"].clone();
    let is_held = || waiting()["reason"] == "CreateContainerConfigError";
    world.api.until("held", |_| is_held()).await;
    let uid = world.api.get("pods", "web").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(
        waiting()["message"],
        json!(format!(
            "container has runAsNonRoot and image will run as root (pod: \"web_default({uid})\", container: app)"
        ))
    );
}

#[tokio::test(start_paused = true)]
async fn what_ended_with_a_stop_whose_agent_was_killed_is_no_finished_work() {
    let world = World::new();
    let mut web = pod("web", vec![container("app"), container("slow")]);
    web.spec.as_mut().unwrap().restart_policy = Some("OnFailure".to_owned());
    world.api.create("pods", &web);
    let agent = world.agent().await;
    world.until_running("web").await;
    world.machine.stubborn("slow");
    tokio::select! {
        () = agent.stop(AgentStopMode::EndPods) => panic!("a container that does not obey has ended"),
        () = world.machine.until("app ends", |machine| machine.running() == ["slow#0"]) => {}
    }
    world.machine.disconnect();
    world.api.disconnect();
    let _next = world.agent().await;
    world.machine.until("runs again", |machine| machine.running() == ["app#1", "slow#0"]).await;
    let last = || shown(&world, "web", "app")["lastState"]["terminated"].clone();
    world.api.until("shown", |_| last()["exitCode"] == 0).await;
    assert_eq!(shown(&world, "web", "app")["restartCount"], 1);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stops_can_end_its_pods_and_the_next_one_brings_them_back() {
    let world = World::new();
    world.api.create("pods", &pod_with_scratch("web", vec![container("app")]));
    let agent = world.agent().await;
    world.until_running("web").await;
    let scratch = scratch_of_app(&world);
    std::fs::write(scratch.join("kept"), "kept").unwrap();
    agent.stop(AgentStopMode::EndPods).await;
    assert!(world.machine.sandboxes().is_empty());
    assert_eq!(world.machine.count("signal app"), 1);
    assert!(world.folder.mounts().is_empty());
    assert_eq!(world.status("web")["phase"], "Running", "the pod is not over");
    let _next = world.agent().await;
    world.machine.until("runs again", |machine| machine.running() == ["app#1"]).await;
    world.api.until("shown", |_| shown(&world, "web", "app")["restartCount"] == 1).await;
    let last = shown(&world, "web", "app")["lastState"]["terminated"].clone();
    assert_eq!((&last["exitCode"], &last["reason"]), (&json!(0), &json!("Completed")), "{last}");
    assert_eq!(std::fs::read_to_string(scratch.join("kept")).unwrap(), "kept");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_ended_stays_until_it_is_deleted() {
    let world = World::new();
    world.machine.ends_at_once("app", 0);
    let mut job = pod("job", vec![container("app")]);
    job.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    world.api.create("pods", &job);
    let agent = world.agent().await;
    world.api.until("over", |_| world.status("job")["phase"] == "Succeeded").await;
    world.machine.until("cleaned up", |machine| machine.sandboxes().is_empty()).await;
    world.crash(agent);
    let _next = world.agent().await;
    world.api.delete_pod("job", 0);
    world.api.until("gone", |api| api.get("pods", "job").is_none()).await;
    assert_eq!(world.machine.starts("app"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written_is_written_later() {
    let world = World::new();
    world.api.fail_next("PATCH pods/status", 5);
    world.api.create("pods", &pod("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
}

/// The status carries the whole list of conditions: what others wrote must survive it.
#[tokio::test(start_paused = true)]
async fn conditions_of_others_are_kept() {
    let world = World::new();
    world.api.create("pods", &pod("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let mut conditions = world.status("web")["conditions"].as_array().unwrap().clone();
    conditions.push(json!({ "type": "example.com/gate", "status": "True" }));
    world.api.modify("pods", "web", &json!({ "status": { "conditions": conditions } }));
    world.machine.end("app", ExitStatus::Code { code: 1 });
    world.api.until("restarted", |_| shown(&world, "web", "app")["restartCount"] == 1).await;
    let conditions = world.status("web")["conditions"].to_string();
    assert!(conditions.contains("example.com/gate"), "{conditions}");
}

/// KEP-4960: lifecycle.stopSignal wins over the image's.
#[tokio::test(start_paused = true)]
async fn a_container_gets_the_stop_signal_of_its_spec() {
    let world = World::new();
    let mut app = container("app");
    app.lifecycle = Some(k8s_openapi::api::core::v1::Lifecycle {
        stop_signal: Some("SIGUSR1".to_owned()),
        ..Default::default()
    });
    world.api.create("pods", &pod("web", vec![app]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    world.api.delete_pod("web", 30);
    world.api.until("gone", |api| api.get("pods", "web").is_none()).await;
    assert_eq!(world.machine.count("signal app Number(10)"), 1);
}

/// A data folder may be reached through a link; what is beneath it is still opened without
/// following any.
#[tokio::test(start_paused = true)]
async fn folders_may_lie_behind_a_link() {
    let world = World::new();
    std::fs::create_dir(world.folder.join("real")).unwrap();
    std::os::unix::fs::symlink(world.folder.join("real"), world.folder.join("data")).unwrap();
    std::os::unix::fs::symlink(world.folder.join("real"), world.folder.join("logs")).unwrap();
    world.api.create("pods", &pod_with_scratch("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    world.api.create(
        "podrestarts",
        &crate::testing::restart("again", "web", rekindle_types::v1alpha1::Rung::Pod),
    );
    world.api.until("restarted", |_| shown(&world, "web", "app")["restartCount"] == 1).await;
    world.until_running("web").await;
    world.api.delete_pod("web", 5);
    world.api.until("gone", |api| api.get("pods", "web").is_none()).await;
    assert_eq!(world.folder.mounts(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test(start_paused = true)]
async fn projected_files_follow_labels_and_config_maps_while_the_pod_runs() {
    let world = World::new();
    world.api.create(
        "configmaps",
        &json!({ "metadata": { "name": "settings", "namespace": "default" }, "data": { "a": "1" } }),
    );
    let mut web = pod("web", vec![container("app")]);
    web.metadata.labels = Some([("tier".to_owned(), "one".to_owned())].into());
    let volumes = json!([
        { "name": "cfg", "configMap": { "name": "settings" } },
        { "name": "info", "downwardAPI": { "items": [{ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }] } },
    ]);
    let web = with_volumes(web, volumes);
    let uid = world.api.create("pods", &web)["metadata"]["uid"].as_str().unwrap().to_owned();
    let _agent = world.agent().await;
    world.until_running("web").await;
    let read = |file: &str| {
        std::fs::read_to_string(world.folder.join(&format!("data/node/pods/{uid}/volumes/{file}")))
            .unwrap()
    };
    assert_eq!((read("cfg/a"), read("info/labels")), ("1".to_owned(), "tier=\"one\"".to_owned()));
    world.api.modify("configmaps", "settings", &json!({ "data": { "a": "2" } }));
    world.api.modify("pods", "web", &json!({ "metadata": { "labels": { "tier": "two" } } }));
    let is_new = || read("cfg/a") == "2" && read("info/labels") == "tier=\"two\"";
    // looked at with each renewal of the node's lease
    world.api.until("both files are new", |_| is_new()).await;
    assert_eq!(world.machine.starts("app"), 1, "an update restarts nothing");
}

/// The kubelet sets up each volume for itself, and so a pod's token does not end with a ConfigMap
/// that somebody has deleted.
#[tokio::test(start_paused = true)]
async fn a_config_map_that_is_deleted_holds_up_no_other_volume_and_is_told() {
    let world = World::new();
    for name in ["gone", "kept"] {
        let metadata = json!({ "name": name, "namespace": "default" });
        world.api.create("configmaps", &json!({ "metadata": metadata, "data": { "a": "1" } }));
    }
    let web = pod("web", vec![container("app")]);
    let token = json!({ "serviceAccountToken": { "path": "token", "expirationSeconds": 600 } });
    let volumes = json!([
        { "name": "first", "configMap": { "name": "gone" } },
        { "name": "second", "configMap": { "name": "kept" } },
        { "name": "last", "projected": { "sources": [token] } },
    ]);
    let web = with_volumes(web, volumes);
    let uid = world.api.create("pods", &web)["metadata"]["uid"].as_str().unwrap().to_owned();
    let agent = world.agent().await;
    world.until_running("web").await;
    let read = |file: &str| {
        let volumes = format!("data/node/pods/{uid}/volumes/{file}");
        std::fs::read_to_string(world.folder.join(&volumes)).unwrap()
    };
    world.api.remove("configmaps", "gone");
    world.api.until("the event", |_| !events(&world, "FailedMount").is_empty()).await;
    world.api.modify("configmaps", "kept", &json!({ "data": { "a": "2" } }));
    world.lease_renewals(48).await;
    world
        .api
        .until("the others are new", |_| read("second/a") == "2" && read("last/token") == "token-2")
        .await;
    assert_eq!(read("first/a"), "1", "what was there stays");
    assert_eq!(
        events(&world, "FailedMount"),
        ["MountVolume.SetUp failed for volume \"first\" : configmap \"gone\" not found"]
    );
    agent.stop(AgentStopMode::EndPods).await;
}

/// A disk that is full: no attempt is begun whose number is not kept, and the pod goes on when
/// there is room.
#[tokio::test(start_paused = true)]
async fn nothing_is_started_while_the_journal_cannot_be_written() {
    let world = World::new();
    let obstacle = world.folder.join("data/node/pods/uid-web-0/journal.new");
    std::fs::create_dir_all(&obstacle).unwrap();
    world.api.create("pods", &pod("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.lease_renewals(6).await;
    assert_eq!(world.machine.starts("app"), 0);
    std::fs::remove_dir(&obstacle).unwrap();
    world.until_running("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_one_pods_action_is_retried_and_no_other_pod_notices() {
    let world = World::new();
    world.machine.panics_at_create("app");
    world.api.create("pods", &pod("web", vec![container("app")]));
    world.api.create("pods", &pod("db", vec![container("db")]));
    let _agent = world.agent().await;
    world.until_running("db").await;
    world.until_running("web").await;
    assert_eq!(world.machine.starts("app"), 1);
    assert_eq!(world.machine.starts("db"), 1);
}

/// A finalizer holds the object after the pod is over: it is not taken up again, however often the
/// object changes.
#[tokio::test(start_paused = true)]
async fn a_pod_held_by_a_finalizer_is_over_all_the_same() {
    let world = World::new();
    let mut web = pod("web", vec![container("app")]);
    web.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    world.api.create("pods", &web);
    let _agent = world.agent().await;
    world.until_running("web").await;
    world.api.delete_pod("web", 30);
    world.api.until("asked to go", |api| api.requests("DELETE pods") == 1).await;
    for n in 0..10 {
        world.api.modify(
            "pods",
            "web",
            &json!({ "metadata": { "labels": { "n": n.to_string() } } }),
        );
        world.lease_renewals(6).await;
    }
    assert_eq!(world.api.requests("DELETE pods"), 1);
    assert_eq!(world.machine.starts("app"), 1);
    world.api.modify("pods", "web", &json!({ "metadata": { "finalizers": null } }));
    world.api.remove("pods", "web");
}
