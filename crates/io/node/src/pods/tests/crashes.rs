//! Promise P1: kill -9 of the agent at any moment; nothing dies, nothing is started twice, and it
//! converges again.
//!
//! Each scenario is run once for every boundary of a runtime call: the agent stops there for ever,
//! is dropped, and another one takes over on the same disk, API and machine.

use std::time::Duration;

use rekindle_types::ExitStatus;
use rekindle_types::v1alpha1::Rung;

use super::{pod_with_scratch, shown};
use crate::agent::NodeHandle;
use crate::service_rules::{PodRoutes, RouteRequest};
use crate::testing::{World, container, pod, restart};

/// More boundaries than any scenario has.
const BOUNDARIES_MAX: u32 = 200;

/// A pod of two containers that runs, and the agent that runs it.
async fn running_pod() -> (World, NodeHandle) {
    let world = World::new();
    world.api.create("pods", &pod_with_scratch("web", vec![container("app"), container("side")]));
    let agent = world.agent().await;
    world.until_running("web").await;
    (world, agent)
}

/// Waits until the agent died at its boundary, or the scenario is over without; answers which.
async fn died(world: &World, mut over: impl FnMut(&World) -> bool) -> bool {
    let mut checked = false;
    world
        .machine
        .until("crash or end", |machine| {
            checked = machine.crashed();
            checked || over(world)
        })
        .await;
    checked
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_a_pod_is_set_up_starts_every_container_once() {
    for boundary in 1..BOUNDARIES_MAX {
        let world = World::new();
        world
            .api
            .create("pods", &pod_with_scratch("web", vec![container("app"), container("side")]));
        world.machine.crash_in(boundary);
        let agent = world.agent().await;
        let running = |world: &World| world.machine.running().len() == 2;
        let crashed = died(&world, running).await;
        world.crash(agent);
        world.machine.no_more_crashes();
        let _next = world.agent().await;
        world.until_running("web").await;
        let calls = world.machine.calls();
        assert_eq!(world.machine.starts("app"), 1, "boundary {boundary}: {calls:?}");
        assert_eq!(world.machine.starts("side"), 1, "boundary {boundary}: {calls:?}");
        assert_eq!(world.machine.sandboxes().len(), 1, "boundary {boundary}: {calls:?}");
        assert_eq!(shown(&world, "web", "app")["restartCount"], 0);
        if !crashed {
            assert!(boundary > 8, "the scenario has more boundaries than {boundary}");
            return;
        }
    }
    panic!("the scenario never ended without a crash");
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_a_container_is_restarted_counts_every_start() {
    for boundary in 1..BOUNDARIES_MAX {
        let (world, agent) = running_pod().await;
        world.machine.crash_in(boundary);
        world.machine.end("app", ExitStatus::Code { code: 1 });
        let crashed = died(&world, |world| world.machine.starts("app") == 2).await;
        world.crash(agent);
        world.machine.no_more_crashes();
        let _next = world.agent().await;
        world.api.until("shown", |_| shown(&world, "web", "app")["restartCount"] == 1).await;
        world.until_running("web").await;
        let calls = world.machine.calls();
        assert_eq!(world.machine.starts("app"), 2, "boundary {boundary}: {calls:?}");
        assert_eq!(world.machine.starts("side"), 1, "boundary {boundary}: {calls:?}");
        if !crashed {
            return;
        }
    }
    panic!("the scenario never ended without a crash");
}

#[tokio::test(start_paused = true)]
async fn a_crash_during_a_whole_pod_restart_does_it_once() {
    for boundary in 1..BOUNDARIES_MAX {
        let (world, agent) = running_pod().await;
        world.machine.crash_in(boundary);
        world.api.create("podrestarts", &restart("again", "web", Rung::Pod));
        let crashed = died(&world, |world| world.machine.count("remove sandbox") == 1).await;
        world.crash(agent);
        world.machine.no_more_crashes();
        let _next = world.agent().await;
        world
            .api
            .until("done", |api| {
                api.get("podrestarts", "again").unwrap()["status"]["phase"] == "Succeeded"
            })
            .await;
        world.machine.until("one sandbox", |machine| machine.sandboxes().len() == 1).await;
        let calls = world.machine.calls();
        assert_eq!(world.machine.running(), ["app#1", "side#1"], "boundary {boundary}: {calls:?}");
        assert_eq!(world.machine.starts("app"), 2, "boundary {boundary}: {calls:?}");
        assert_eq!(world.machine.starts("side"), 2, "boundary {boundary}: {calls:?}");
        assert_eq!(world.machine.count("sandbox"), 2, "boundary {boundary}: {calls:?}");
        if !crashed {
            return;
        }
    }
    panic!("the scenario never ended without a crash");
}

#[tokio::test(start_paused = true)]
async fn a_crash_during_a_deletion_leaves_nothing() {
    for boundary in 1..BOUNDARIES_MAX {
        let (world, agent) = running_pod().await;
        world.machine.crash_in(boundary);
        world.api.delete_pod("web", 30);
        let crashed = died(&world, |world| world.machine.sandboxes().is_empty()).await;
        world.crash(agent);
        world.machine.no_more_crashes();
        let next = world.agent().await;
        world.api.until("gone", |api| api.get("pods", "web").is_none()).await;
        assert!(world.machine.sandboxes().is_empty(), "boundary {boundary}");
        assert!(world.network.attached().is_empty(), "boundary {boundary}");
        assert!(world.folder.mounts().is_empty(), "boundary {boundary}");
        next.stop(crate::agent::AgentStopMode::EndPods).await;
        if !crashed {
            return;
        }
    }
    panic!("the scenario never ended without a crash");
}

/// Its runtime knows who was asked, so that the journal need not be marked before each signal.
#[tokio::test(start_paused = true)]
async fn each_container_is_asked_to_end_once_wherever_the_agent_dies() {
    for boundary in 1..BOUNDARIES_MAX {
        let (world, agent) = running_pod().await;
        ["app", "side"].into_iter().for_each(|name| world.machine.stubborn(name));
        world.machine.crash_in(boundary);
        world.api.delete_pod("web", 30);
        let crashed = died(&world, |world| world.machine.sandboxes().is_empty()).await;
        world.crash(agent);
        world.machine.no_more_crashes();
        let _next = world.agent().await;
        world.api.until("gone", |api| api.get("pods", "web").is_none()).await;
        let asked = ["app", "side"].map(|name| world.machine.count(&format!("signal {name}")));
        assert_eq!(asked, [1, 1], "boundary {boundary}: {:?}", world.machine.calls());
        if !crashed {
            return;
        }
    }
    panic!("the scenario never ended without a crash");
}

#[tokio::test(start_paused = true)]
async fn an_agent_restart_restarts_nothing() {
    let (world, agent) = running_pod().await;
    let before = shown(&world, "web", "app");
    let calls = world.machine.calls();
    world.crash(agent);
    let next = world.agent().await;
    world.api.modify(
        "pods",
        "web",
        &serde_json::json!({ "metadata": { "labels": { "seen": "yes" } } }),
    );
    world.machine.end("side", ExitStatus::Code { code: 1 });
    world.api.until("side restarted", |_| shown(&world, "web", "side")["restartCount"] == 1).await;
    assert_eq!(shown(&world, "web", "app"), before, "ids, times, counts and readiness stay");
    assert_eq!(world.machine.calls()[..calls.len()], calls);
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_died_while_no_agent_ran_is_seen() {
    let (world, agent) = running_pod().await;
    world.crash(agent);
    world.machine.end("app", ExitStatus::OomKilled);
    let _next = world.agent().await;
    world.api.until("restarted", |_| shown(&world, "web", "app")["restartCount"] == 1).await;
    assert_eq!(shown(&world, "web", "app")["lastState"]["terminated"]["reason"], "OOMKilled");
    assert_eq!(world.machine.starts("side"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_vanished_while_no_agent_ran_is_ended_gracefully() {
    let (world, agent) = running_pod().await;
    world.crash(agent);
    world.api.remove("pods", "web");
    let _next = world.agent().await;
    world.machine.until("gone", |machine| machine.sandboxes().is_empty()).await;
    assert_eq!(world.machine.count("signal app"), 1);
    assert_eq!(world.machine.count("kill"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_nobody_knows_goes_only_after_the_api_has_answered() {
    let (world, agent) = running_pod().await;
    world.crash(agent);
    // neither the API nor the disk knows the pod
    world.api.remove("pods", "web");
    let uids = std::fs::read_dir(world.folder.join("data/node/pods")).unwrap();
    for uid in uids.flatten() {
        std::fs::remove_file(uid.path().join("pod.json")).unwrap();
    }
    world.api.fail_next("GET pods", 3);
    let _next = world.agent().await;
    world.api.until("asked in vain", |api| api.requests("GET pods") >= 3).await;
    assert_eq!(world.machine.sandboxes().len(), 1, "nothing is removed on a failed list");
    world.machine.until("gone", |machine| machine.sandboxes().is_empty()).await;
    tokio::time::timeout(Duration::from_secs(3600), async {
        while !world.network.attached().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

/// Rules that cannot be written hold all of them up once, and not each in its turn.
#[tokio::test(start_paused = true)]
async fn sandboxes_that_nobody_knows_give_their_host_ports_back_together_and_before_they_go() {
    let (world, agent) = running_pod().await;
    world.api.create("pods", &pod_with_scratch("db", vec![container("store")]));
    world.until_running("db").await;
    world.crash(agent);
    for name in ["web", "db"] {
        world.api.remove("pods", name);
    }
    for uid in std::fs::read_dir(world.folder.join("data/node/pods")).unwrap().flatten() {
        std::fs::remove_file(uid.path().join("pod.json")).unwrap();
    }
    let (routes, mut requests) = PodRoutes::new();
    let _next = world.agent_with(|config| config.routes = routes).await;
    let mut asked = Vec::new();
    while asked.len() < 2 {
        if let Some(RouteRequest::ClosePorts(sandbox, done)) = requests.recv().await {
            asked.push((sandbox, done));
        }
    }
    assert_eq!(world.machine.sandboxes().len(), 2, "{asked:?}");
    drop(asked);
    world.machine.until("gone", |machine| machine.sandboxes().is_empty()).await;
}

/// `kubectl delete --force`: the object is gone at once, and the node still ends the pod and cleans
/// up.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_forced_out_of_the_api_is_ended_and_cleaned_up() {
    let (world, _agent) = running_pod().await;
    world.api.delete_pod("web", 0);
    world.machine.until("gone", |machine| machine.sandboxes().is_empty()).await;
    let logs = world.folder.join("logs/default_web_uid-web-0");
    // looked at with each renewal of the node's lease
    world.api.until("clean", |_| world.folder.mounts().is_empty() && !logs.exists()).await;
    assert_eq!(world.machine.count("signal app"), 1);
}

/// Kubernetes' documentation promises such a pod a small grace period (the kubelet gives it all of
/// its own: kubernetes#110507). Its successor, which a StatefulSet makes at once, is not to find it
/// running.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_forced_out_of_the_api_does_not_get_all_of_its_grace() {
    for before in [None, Some(30)] {
        let (world, _agent) = running_pod().await;
        world.machine.stubborn("app");
        if let Some(grace) = before {
            world.api.delete_pod("web", grace);
            world.machine.until("signalled", |machine| machine.count("signal app") == 1).await;
        }
        let forced_at = tokio::time::Instant::now();
        world.api.remove("pods", "web");
        world.machine.until("gone", |machine| machine.sandboxes().is_empty()).await;
        assert_eq!(world.machine.count("signal app"), 1);
        assert!(forced_at.elapsed() < Duration::from_secs(3), "{:?}", forced_at.elapsed());
    }
}

/// The same name with a new UID is another pod, also while the old one still ends.
#[tokio::test(start_paused = true)]
async fn a_pod_re_created_under_its_name_gets_a_sandbox_of_its_own() {
    let (world, _agent) = running_pod().await;
    world.machine.stubborn("app");
    let first = world.machine.sandboxes();
    world.api.remove("pods", "web");
    world.api.create("pods", &pod_with_scratch("web", vec![container("next")]));
    world.until_running("web").await;
    assert_eq!(world.machine.running(), ["app#0", "next#0"], "the old one still has its grace");
    assert_eq!(shown(&world, "web", "next")["restartCount"], 0);
    world.machine.until("old one gone", |machine| machine.running() == ["next#0"]).await;
    world.machine.until("its sandbox, too", |machine| machine.sandboxes().len() == 1).await;
    assert_ne!(world.machine.sandboxes(), first);
    assert_eq!(world.api.get("pods", "web").unwrap()["spec"]["containers"][0]["name"], "next");
}

/// One that withdrew a pod and died would keep it out of the rules for good.
#[tokio::test(start_paused = true)]
async fn each_agent_leaves_endpoints_to_slices_before_it_says_more() {
    let world = World::new();
    world.api.create("pods", &pod("web", vec![container("app")]));
    for _ in 0..2 {
        let (routes, mut requests) = PodRoutes::new();
        let agent = world.agent_with(|config| config.routes = routes).await;
        let first = requests.recv().await;
        assert!(matches!(first, Some(RouteRequest::Leave(_))), "{first:?}");
        world.until_running("web").await;
        world.crash(agent);
    }
}
