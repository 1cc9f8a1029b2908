//! Images of pods: pulled with their secrets, bounded, ended with their pod, and removed when the
//! disk fills.

use k8s_openapi::api::core::v1::{LocalObjectReference, Pod};
use rekindle_runtime::ImageUse;
use rekindle_types::v1alpha1::Rung;
use serde_json::json;

use crate::testing::{FakeApi, World, container, pod, restart};

fn pod_of(name: &str, image: &str) -> Pod {
    let mut app = container("app");
    app.image = Some(image.to_owned());
    pod(name, vec![app])
}

/// The messages of all events about a pod.
fn told(world: &World, pod: &str) -> Vec<String> {
    let events = world.api.list("events").into_iter();
    let about = events.filter(|event| event["involvedObject"]["name"] == json!(pod));
    about.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

fn with_secrets(mut pod: Pod, names: &[&str]) -> Pod {
    let secret = |name: &&str| LocalObjectReference { name: (*name).to_owned() };
    let secrets = names.iter().map(secret).collect();
    pod.spec.as_mut().unwrap().image_pull_secrets = Some(secrets);
    pod
}

fn secret(name: &str, config: &str) -> serde_json::Value {
    json!({
        "metadata": { "name": name, "namespace": "default" }, "type": "kubernetes.io/dockerconfigjson",
        "data": { ".dockerconfigjson": config },
    })
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_missing_is_pulled_with_the_pods_secrets() {
    let world = World::new();
    // {"auths":{"r.test":{"username":"me","password":"x"}}}
    let config = "eyJhdXRocyI6eyJyLnRlc3QiOnsidXNlcm5hbWUiOiJtZSIsInBhc3N3b3JkIjoieCJ9fX0=";
    world.api.create("secrets", &secret("logins", config));
    world.api.create("pods", &with_secrets(pod_of("web", "r.test/app:1"), &["logins", "missing"]));
    let _agent = world.agent().await;
    world.until_running("web").await;
    assert_eq!(world.machine.images().pulls, [("r.test/app:1".to_owned(), 1)]);
    world.api.until("all events", |_| told(&world, "web").len() >= 5).await;
    let told = told(&world, "web").join("\n");
    for text in [
        "Pulling image \"r.test/app:1\"",
        "Successfully pulled image \"r.test/app:1\" in 0s (0s including waiting). Image size: 1 bytes.",
        "Unable to retrieve some image pull secrets (missing); attempting to pull the image may not succeed.",
    ] {
        assert!(told.contains(text), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn always_asks_the_registry_but_never_for_an_image_of_this_machine() {
    let world = World::new();
    for (name, image) in [("web", "r.test/app:1"), ("host", "localhost/host")] {
        let mut pod = pod_of(name, image);
        pod.spec.as_mut().unwrap().containers[0].image_pull_policy = Some("Always".to_owned());
        world.api.create("pods", &pod);
    }
    world.machine.images().add("r.test/app:1", 1, ImageUse::Unused);
    let _agent = world.agent().await;
    world.until_running("web").await;
    world.until_running("host").await;
    assert_eq!(world.machine.images().pulls, [("r.test/app:1".to_owned(), 0)]);
    world.api.until("all events", |_| told(&world, "host").len() >= 3).await;
    let told = told(&world, "host").join("\n");
    assert!(told.contains("already present") && !told.contains("Pulling"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_fails_backs_off_and_names_the_cause() {
    let world = World::new();
    world.api.create("pods", &pod_of("web", "r.test/unknown"));
    let _agent = world.agent().await;
    let waiting = |world: &World| {
        world.status("web")["containerStatuses"][0]["state"]["waiting"]["reason"].clone()
    };
    world.api.until("backs off", |_| waiting(&world) == "ImagePullBackOff").await;
    world.machine.until("is tried again", |machine| machine.images().pulls.len() >= 3).await;
    let told = told(&world, "web").join("\n");
    assert!(told.contains("Failed to pull image \"r.test/unknown\": not found"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn an_image_that_two_containers_name_in_different_ways_is_one_image() {
    let world = World::new();
    let mut web = pod_of("web", "r.test/unknown");
    let mut other = container("other");
    other.image = Some("r.test/unknown:latest".to_owned());
    web.spec.as_mut().unwrap().containers.push(other);
    world.api.create("pods", &web);
    let _agent = world.agent().await;
    let both_wait = |world: &World| {
        let statuses = world.status("web")["containerStatuses"].clone();
        let reason = |place: usize| &statuses[place]["state"]["waiting"]["reason"];
        (0..2).all(|place| reason(place) == "ImagePullBackOff")
    };
    world.api.until("both are held", |_| both_wait(&world)).await;
    assert_eq!(world.machine.images().pulls.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_images_are_pulled_at_a_time() {
    let world = World::new();
    world.machine.images().held = true;
    let names: Vec<String> = (0..8).map(|number| format!("web-{number}")).collect();
    for name in &names {
        world.api.create("pods", &pod_of(name, &format!("r.test/{name}")));
    }
    let _agent = world.agent().await;
    world.machine.until("pulls begin", |machine| machine.images().under_way == 3).await;
    world.machine.images().held = false;
    world.machine.notify();
    for name in &names {
        world.until_running(name).await;
    }
    let images = world.machine.images();
    assert_eq!((images.most_under_way, images.pulls.len()), (3, 8));
}

#[tokio::test(start_paused = true)]
async fn a_pull_ends_with_its_pod() {
    let world = World::new();
    world.machine.images().held = true;
    world.api.create("pods", &pod_of("web", "r.test/app:1"));
    let _agent = world.agent().await;
    world.machine.until("a pull begins", |machine| machine.images().under_way == 1).await;
    world.api.delete_pod("web", 0);
    world.machine.until("it ends", |machine| machine.images().under_way == 0).await;
    world.api.until("the pod is gone", |api| api.get("pods", "web").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn the_node_lists_its_images_and_removes_the_unused_when_the_disk_fills() {
    let world = World::new();
    for (name, size, usage) in [
        ("r.test/unused", 60, ImageUse::Unused),
        ("r.test/used", 30, ImageUse::ByContainers),
        ("localhost/host", 0, ImageUse::BuiltIn),
    ] {
        world.machine.images().add(name, size, usage);
    }
    let _agent = world.agent().await;
    let listed = |world: &World| -> Vec<String> {
        let node = world.api.get("nodes", "node-a").unwrap_or_default();
        let images = node["status"]["images"].as_array().cloned().unwrap_or_default();
        images.iter().map(|image| image["names"][0].as_str().unwrap().to_owned()).collect()
    };
    let all = ["r.test/unused", "r.test/used", "localhost/host"];
    world.api.until("the node lists its images", |_| listed(&world) == all).await;
    world.machine.images().disk.available_bytes = 150;
    world.machine.until("the unused goes", |machine| machine.images().here.len() == 2).await;
    world.api.until("the list is shorter", |_| listed(&world) == all[1..]).await;
}

/// No registry may have what was loaded by hand, so it stays, and the node says so.
#[tokio::test(start_paused = true)]
async fn a_pinned_image_stays_on_a_full_disk_and_is_named_as_a_reason() {
    let world = World::new();
    for (name, usage) in
        [("example.test/loaded", ImageUse::Pinned), ("r.test/pulled", ImageUse::Unused)]
    {
        world.machine.images().add(name, 60, usage);
    }
    let _agent = world.agent().await;
    world.machine.images().disk.available_bytes = 10;
    world.machine.until("the pulled one goes", |machine| machine.images().here.len() == 1).await;
    let told = |api: &FakeApi| {
        api.list("events").iter().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["reason"] == "FreeDiskSpaceFailed"
                && message.contains("1 unused images of 60 bytes were loaded by hand")
        })
    };
    world.api.until("the node tells why", told).await;
    assert!(world.machine.images().here.contains_key("example.test/loaded"));
}

/// A restart that cannot start again what it ends would take a healthy pod down.
#[tokio::test(start_paused = true)]
async fn a_restart_whose_image_is_gone_fails_and_leaves_the_containers_running() {
    let world = World::new();
    world.machine.images().add("r.test/unknown:1", 1, ImageUse::Unused);
    let mut pod = pod_of("web", "r.test/unknown:1");
    for policy in ["Never", "IfNotPresent"] {
        pod.metadata.name = Some(policy.to_lowercase());
        pod.spec.as_mut().unwrap().containers[0].image_pull_policy = Some(policy.to_owned());
        world.api.create("pods", &pod);
    }
    let _agent = world.agent().await;
    for name in ["never", "ifnotpresent"] {
        world.until_running(name).await;
    }
    world.machine.images().here.clear();
    let running = world.machine.running();
    for (name, rung) in
        [("never", Rung::Pod), ("ifnotpresent", Rung::Containers), ("never", Rung::Container)]
    {
        let asked = format!("{name}-{rung}").to_lowercase();
        world.api.create("podrestarts", &restart(&asked, name, rung));
        let failed =
            |api: &FakeApi| api.get("podrestarts", &asked).unwrap()["status"]["phase"] == "Failed";
        world.api.until("the restart fails", failed).await;
        let status = world.api.get("podrestarts", &asked).unwrap()["status"].clone();
        let message = status["message"].as_str().unwrap();
        let expected = "not restarted, and nothing was ended: image r.test/unknown:1 of container ";
        assert!(message.starts_with(expected), "{message}");
        assert!(status["startedAt"].is_null(), "{status}");
        assert_eq!(world.machine.running(), running);
    }
    // it is there again, and so is the restart
    world.machine.images().add("r.test/unknown:1", 1, ImageUse::Unused);
    world.api.create("podrestarts", &restart("again", "never", Rung::Pod));
    let done =
        |api: &FakeApi| api.get("podrestarts", "again").unwrap()["status"]["phase"] == "Succeeded";
    world.api.until("the restart succeeds", done).await;
}
