//! Restarts that a PodRestart asks for.

use std::path::Path;

use k8s_openapi::api::core::v1::Container;
use rekindle_types::v1alpha1::Rung;
use serde_json::json;

use super::{pod_with_scratch, scratch_of_app, shown};
use crate::agent::NodeHandle;
use crate::testing::{FakeApi, World, container, pod, restart};

#[tokio::test(start_paused = true)]
async fn a_whole_pod_restart_makes_sandbox_address_and_empty_dir_new() {
    let world = World::new();
    world.api.create("pods", &pod_with_scratch("web", vec![container("app"), container("side")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let uid = world.api.get("pods", "web").unwrap()["metadata"]["uid"].clone();
    let scratch = scratch_of_app(&world);
    std::fs::write(scratch.join("poison"), "bad").unwrap();
    world.api.create("podrestarts", &restart("again", "web", Rung::Pod));
    world
        .api
        .until("done", |api| {
            api.get("podrestarts", "again").unwrap()["status"]["phase"] == "Succeeded"
        })
        .await;
    world.until_running("web").await;
    assert!(!scratch.join("poison").exists());
    assert_eq!(world.machine.running(), ["app#1", "side#1"]);
    assert_eq!(world.status("web")["podIP"], "10.88.0.2");
    assert_eq!(world.api.get("pods", "web").unwrap()["metadata"]["uid"], uid);
    assert_eq!(shown(&world, "web", "app")["restartCount"], 1);
    world.machine.until("old sandbox gone", |machine| machine.sandboxes().len() == 1).await;
    let phases: Vec<String> = world
        .api
        .history("podrestarts", "again")
        .iter()
        .map(|object| object["status"]["phase"].as_str().unwrap_or("none").to_owned())
        .collect();
    assert_eq!(
        phases,
        ["none", "Succeeded"],
        "that it runs is told of a restart that takes longer"
    );
    let status = &world.api.get("podrestarts", "again").unwrap()["status"];
    assert!(status["startedAt"].is_string() && status["finishedAt"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_restart_for_another_uid_is_left_to_the_controllers() {
    let world = World::new();
    world.api.create("pods", &pod("web", vec![container("app")]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    let mut other = restart("other", "web", Rung::Pod);
    other.spec.pod_uid = Some("another".to_owned());
    world.api.create("podrestarts", &other);
    world.api.create("podrestarts", &restart("this", "web", Rung::Container));
    world
        .api
        .until("done", |api| {
            api.get("podrestarts", "this").unwrap()["status"]["phase"] == "Succeeded"
        })
        .await;
    assert!(world.api.get("podrestarts", "other").unwrap()["status"].is_null());
    assert_eq!(world.machine.count("sandbox"), 1);
    assert_eq!(world.machine.starts("app"), 2);
}

/// Waits until a further request of the same pod is done: those before it were seen.
async fn until_restarted(world: &World, name: &str, rung: Rung) {
    world.api.create("podrestarts", &restart(name, "web", rung));
    let phase = |api: &FakeApi| api.get("podrestarts", name).unwrap()["status"]["phase"].clone();
    world.api.until("done", |api| phase(api) == "Succeeded").await;
}

/// As a StatefulSet makes it.
#[tokio::test(start_paused = true)]
async fn a_restart_that_was_begun_is_not_done_to_the_next_pod_of_that_name() {
    let world = World::new();
    world.machine.stubborn("app");
    world.api.create("pods", &pod("web", vec![container("app")]));
    let agent = world.agent().await;
    world.until_running("web").await;
    let first = world.api.get("pods", "web").unwrap()["metadata"]["uid"].clone();
    world.api.create("podrestarts", &restart("again", "web", Rung::Pod));
    let again = |api: &FakeApi| api.get("podrestarts", "again").unwrap()["status"].clone();
    world.api.until("begun", |api| again(api)["phase"] == "Running").await;
    assert_eq!(again(&world.api)["podUID"], first);
    world.crash(agent);

    made_again(&world);
    world.api.fail_next("GET podrestarts", 2); // it runs before they are seen
    let _agent = world.agent().await;
    world.until_running("web").await;
    until_restarted(&world, "this", Rung::Container).await;
    assert_eq!(world.machine.starts("app"), 3, "one of each pod, and one that was asked for");
    assert_eq!(world.machine.count("sandbox"), 2);
    world.api.until("over with its pod", |api| again(api)["phase"] == "Failed").await;
    assert_eq!(again(&world.api)["podUID"], first);
}

#[tokio::test(start_paused = true)]
async fn a_restart_whose_beginning_could_not_be_written_is_not_done_to_the_next_pod_either() {
    let world = World::new();
    let (_agent, first) = begun_and_not_written(&world).await;

    made_again(&world);
    world.until_running("web").await;
    world.machine.until("the first is over", |machine| machine.sandboxes().len() == 1).await;
    world.api.fail_next("PATCH podrestarts", 0);
    until_restarted(&world, "this", Rung::Container).await;
    assert_eq!(world.machine.starts("app"), 3, "one of each pod, and one that was asked for");
    let again = |api: &FakeApi| api.get("podrestarts", "again").unwrap()["status"].clone();
    world.api.until("told", |api| again(api)["phase"] == "Failed").await;
    assert_eq!(again(&world.api)["podUID"], first);
}

/// The pod is deleted and another one has its name.
fn made_again(world: &World) {
    world.api.remove("pods", "web");
    world.api.create("pods", &pod("web", vec![container("app")]));
}

/// A restart of a pod that takes its time has begun, and nothing that is said of it can be written.
/// The UID of the pod.
async fn begun_and_not_written(world: &World) -> (NodeHandle, serde_json::Value) {
    world.machine.stubborn("app");
    world.api.create("pods", &pod("web", vec![container("app")]));
    let agent = world.agent().await;
    world.until_running("web").await;
    let first = world.api.get("pods", "web").unwrap()["metadata"]["uid"].clone();
    world.api.fail_next("PATCH podrestarts", 1000);
    world.api.create("podrestarts", &restart("again", "web", Rung::Pod));
    world.machine.until("begun", |machine| machine.count("signal app") == 1).await;
    (agent, first)
}

/// The agent dies between beginning it and the first report: nothing but the journal of the first
/// pod says who has it.
async fn begun_and_told_nobody(world: &World) -> serde_json::Value {
    let (agent, first) = begun_and_not_written(world).await;
    world.crash(agent);
    assert!(world.api.get("podrestarts", "again").unwrap()["status"].is_null());
    world.api.fail_next("PATCH podrestarts", 0);

    made_again(world);
    first
}

/// What came of the request that only a journal knew of.
async fn until_over_with_its_pod(world: &World, first: &serde_json::Value) {
    until_restarted(world, "this", Rung::Container).await;
    assert_eq!(world.machine.starts("app"), 3, "one of each pod, and one that was asked for");
    let again = |api: &FakeApi| api.get("podrestarts", "again").unwrap()["status"].clone();
    world.api.until("told", |api| again(api)["phase"] == "Failed").await;
    assert_eq!(again(&world.api)["podUID"], *first);
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_an_agent_began_and_told_nobody_of_is_not_done_to_the_next_pod() {
    let world = World::new();
    let first = begun_and_told_nobody(&world).await;
    let _agent = world.agent().await;
    world.until_running("web").await;
    until_over_with_its_pod(&world, &first).await;
}

#[tokio::test(start_paused = true)]
async fn it_is_told_also_when_it_is_seen_after_its_pod_is_over() {
    let world = World::new();
    let first = begun_and_told_nobody(&world).await;
    world.api.fail_next("GET podrestarts", 8); // longer than the pod takes to end
    let _agent = world.agent().await;
    world.until_running("web").await;
    world.machine.until("the first is over", |machine| machine.sandboxes().len() == 1).await;
    until_over_with_its_pod(&world, &first).await;
}

/// The next agent has the journal until what came of the request stands in the API.
#[tokio::test(start_paused = true)]
async fn it_is_told_also_when_an_agent_dies_after_its_pod_was_over() {
    let world = World::new();
    let (agent, first) = begun_and_not_written(&world).await;
    made_again(&world);
    world.until_running("web").await;
    world.machine.until("the first is over", |machine| machine.sandboxes().len() == 1).await;
    let told = world.api.requests("PATCH podrestarts");
    world.api.until("tried again", |api| api.requests("PATCH podrestarts") > told + 2).await;
    world.crash(agent);
    assert!(world.api.get("podrestarts", "again").unwrap()["status"].is_null());
    world.api.fail_next("PATCH podrestarts", 0);

    let _agent = world.agent().await;
    until_over_with_its_pod(&world, &first).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_a_pod_that_has_ended_is_refused() {
    let world = World::new();
    world.machine.ends_at_once("app", 0);
    let mut job = pod("job", vec![container("app")]);
    job.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    world.api.create("pods", &job);
    let _agent = world.agent().await;
    world.api.until("over", |_| world.status("job")["phase"] == "Succeeded").await;
    world.api.create("podrestarts", &restart("again", "job", Rung::Pod));
    world
        .api
        .until("refused", |api| {
            api.get("podrestarts", "again").unwrap()["status"]["phase"] == "Refused"
        })
        .await;
    let message = world.api.get("podrestarts", "again").unwrap()["status"]["message"].clone();
    assert_eq!(message, json!("pod default/job has finished (phase Succeeded)"));
}

/// A disk that is full: the grace begins when the container can be asked. A pod that is over is
/// ended all the same.
#[tokio::test(start_paused = true)]
async fn a_restart_while_the_journal_cannot_be_written_gives_the_whole_grace_when_it_can() {
    let world = World::new();
    world.machine.stubborn("app");
    for name in ["web", "other"] {
        world.api.create("pods", &pod(name, vec![container("app")]));
    }
    let agent = world.agent().await;
    world.until_running("web").await;
    world.until_running("other").await;
    world.crash(agent);
    // an agent begins its journals anew, which is impossible then
    let obstacles = ["uid-web-0", "uid-other-1"]
        .map(|uid| world.folder.join(&format!("data/node/pods/{uid}/journal.new")));
    obstacles.iter().for_each(|obstacle| std::fs::create_dir_all(obstacle).unwrap());
    let _agent = world.agent().await;
    let mut again = restart("again", "web", Rung::Containers);
    again.spec.grace_period_seconds = Some(7);
    world.api.create("podrestarts", &again);
    world.lease_renewals(6).await;
    assert_eq!(world.machine.count("signal app"), 0);

    world.api.delete_pod("other", 7);
    world.machine.until("killed", |machine| machine.count("kill app") == 1).await;
    assert_eq!(world.machine.count("signal app"), 1);
    assert_eq!(world.machine.sandboxes().len(), 2, "how it ended is not forgotten");

    obstacles.iter().for_each(|obstacle| std::fs::remove_dir(obstacle).unwrap());
    world.machine.until("asked to end", |machine| machine.count("signal app") == 2).await;
    let before = world.clock.now();
    world.machine.until("killed", |machine| machine.count("kill app") == 2).await;
    assert_eq!(world.clock.now().since(before).as_secs(), 7);
    world.until_running("web").await;
    world.api.until("gone", |api| api.get("pods", "other").is_none()).await;
}

/// What stands at terminationMessagePath and /etc/hosts may be written by the container as it
/// likes.
#[tokio::test(start_paused = true)]
async fn a_container_that_fills_its_files_keeps_neither_its_pod_nor_another_container_from_restarting()
 {
    let world = World::new();
    let mut app = container("app");
    app.termination_message_path = Some("/dev/termination-log".to_owned());
    let side = Container { name: "side".to_owned(), ..app.clone() };
    world.api.create("pods", &pod("web", vec![app, side]));
    let mut agent = world.agent().await;
    for (round, rung) in [Rung::Container, Rung::Pod, Rung::Pod].into_iter().enumerate() {
        world.until_running("web").await;
        let of = |name: &str, place: &str| {
            let mounts = world.machine.spec(name).mounts;
            let file = mounts.iter().find(|mount| mount.destination == Path::new(place));
            file.unwrap().source.host_path().unwrap().to_owned()
        };
        let full = vec![b'x'; 2 << 20];
        let log = of("app", "/dev/termination-log");
        std::fs::write(&log, [&full[..], b"last words"].concat()).unwrap();
        assert!(std::fs::write(of("app", "/etc/hosts"), &full).is_err(), "it is kept small");
        std::fs::write(of("side", "/dev/termination-log"), "of the side").unwrap();
        world.crash(agent);
        agent = world.agent().await;

        let name = format!("again{round}");
        world.api.create("podrestarts", &restart(&name, "web", rung));
        let phase =
            |api: &FakeApi| api.get("podrestarts", &name).unwrap()["status"]["phase"].clone();
        world.api.until("done", |api| phase(api) == "Succeeded").await;
        world.until_running("web").await;
        let message = |name: &str| {
            let status = shown(&world, "web", name);
            status["lastState"]["terminated"]["message"].as_str().unwrap_or_default().to_owned()
        };
        assert!(message("app").ends_with("xlast words"), "{rung:?}");
        assert_eq!(message("side"), "of the side", "{rung:?}");
        if rung == Rung::Pod {
            let hosts = std::fs::read_to_string(of("app", "/etc/hosts")).unwrap();
            assert!(hosts.contains("web"), "{hosts}");
        }
    }
}
