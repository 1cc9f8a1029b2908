//! Registries that fail, stall and break off.

use std::time::Duration;

use crate::World;
use crate::fake::{End, FakeRegistry, Reply, digest};
use crate::images::{noise, push, tar_of};

/// A layer that comes in more than one piece.
fn large_layer() -> Vec<u8> {
    tar_of(&[("f", &noise(300_000))])
}

#[tokio::test]
async fn an_unknown_tag_is_not_found_and_not_asked_for_twice() {
    let (world, registry) = (World::new(), FakeRegistry::start().await);
    let error = world.fails(&registry.image("app:v1")).await;
    assert!(error.ends_with("not found"), "{error}");
    assert_eq!(registry.asked(), ["GET /v2/app/manifests/v1"]);
}

#[tokio::test]
async fn errors_of_the_server_are_waited_out() {
    for status in [500, 502, 503, 429] {
        let world = World::new();
        let registry = FakeRegistry::with_rule(move |asked| {
            (asked.before < 2).then(|| Reply::new(status, ""))
        })
        .await;
        push(&registry, "app", "v1", &[tar_of(&[("f", b"1")])]);
        world.pull(&registry.image("app:v1")).await.unwrap();
        assert_eq!(registry.times("GET", "/manifests/"), 3);
    }
}

#[tokio::test]
async fn an_error_that_stays_ends_the_pull_with_its_text() {
    let body = r#"{"errors":[{"code":"UNKNOWN","message":"the disk is on fire"}]}"#;
    let cases = [(500, 4), (418, 1)];
    for (status, tries) in cases {
        let world = World::new();
        let registry = FakeRegistry::with_rule(move |_| Some(Reply::new(status, body))).await;
        let error = world.fails(&registry.image("app:v1")).await;
        assert!(error.contains(&format!("answered {status}")), "{error}");
        assert!(error.contains("the disk is on fire"), "{error}");
        assert_eq!(registry.asked().len(), tries);
    }
}

#[tokio::test]
async fn a_long_pause_that_the_registry_asks_for_is_left_to_the_caller() {
    let world = World::new();
    let rule = |_: &_| Some(Reply::new(429, "").with("retry-after", "3600"));
    let registry = FakeRegistry::with_rule(rule).await;
    assert!(world.fails(&registry.image("app:v1")).await.contains("answered 429"));
    assert_eq!(registry.asked().len(), 1);
}

#[tokio::test]
async fn a_layer_that_breaks_off_goes_on_where_it_broke() {
    let layer = large_layer();
    let name = digest(&layer);
    let (wanted, bytes) = (name.clone(), layer.clone());
    let registry = FakeRegistry::with_rule(move |asked| {
        let first = asked.is("GET", &wanted) && asked.before == 0;
        first.then(|| Reply::new(200, bytes.clone()).ending(End::CutAfter(100_000)))
    })
    .await;
    push(&registry, "app", "v1", &[layer]);
    let world = World::new();
    world.pull(&registry.image("app:v1")).await.unwrap();
    let requests = registry.requests();
    let ranges: Vec<&str> =
        requests.iter().filter(|r| r.is("GET", &name)).map(|r| r.header("range")).collect();
    assert_eq!(ranges, ["", "bytes=100000-"]);
}

#[tokio::test]
async fn a_registry_without_ranges_sends_a_broken_layer_anew() {
    let layer = large_layer();
    let (name, bytes) = (digest(&layer), layer.clone());
    let wanted = name.clone();
    let registry = FakeRegistry::with_rule(move |asked| {
        let end = if asked.before == 0 { End::CutAfter(100_000) } else { End::Whole };
        asked.is("GET", &wanted).then(|| Reply::new(200, bytes.clone()).ending(end))
    })
    .await;
    push(&registry, "app", "v1", &[layer]);
    let world = World::new();
    world.pull(&registry.image("app:v1")).await.unwrap();
    assert_eq!(registry.times("GET", &name), 2);
}

#[tokio::test]
async fn a_layer_that_always_breaks_off_fails_and_leaves_nothing() {
    let layer = large_layer();
    let (name, bytes) = (digest(&layer), layer.clone());
    let wanted = name.clone();
    let registry = FakeRegistry::with_rule(move |asked| {
        let reply = || Reply::new(200, bytes.clone()).ending(End::CutAfter(1000));
        asked.is("GET", &wanted).then(reply)
    })
    .await;
    push(&registry, "app", "v1", &[tar_of(&[("small", b"1")]), layer]);
    let world = World::new();
    let error = world.fails(&registry.image("app:v1")).await;
    assert!(error.contains("broke off after 1000 of"), "{error}");
    assert_eq!(registry.times("GET", &name), 4);
    world.assert_empty();
}

#[tokio::test]
async fn a_layer_of_another_length_than_the_manifest_says_is_refused() {
    let layer = large_layer();
    for change in [-1_i32, 1] {
        let (name, mut bytes) = (digest(&layer), layer.clone());
        match change {
            1 => bytes.push(0),
            _ => drop(bytes.pop()),
        }
        let registry = FakeRegistry::with_rule(move |asked| {
            asked.is("GET", &name).then(|| Reply::new(200, bytes.clone()))
        })
        .await;
        push(&registry, "app", "v1", std::slice::from_ref(&layer));
        let world = World::new();
        let error = world.fails(&registry.image("app:v1")).await;
        let reason = if change == 1 { "more comes than" } else { "the answer is too short" };
        assert!(error.contains(reason), "{error}");
        world.assert_empty();
    }
}

#[tokio::test]
async fn a_registry_that_hangs_is_given_up_after_its_time() {
    let layer = large_layer();
    for end in [End::Silence, End::HangAfter(1000)] {
        let (name, bytes) = (digest(&layer), layer.clone());
        let registry = FakeRegistry::with_rule(move |asked| {
            asked.is("GET", &name).then(|| Reply::new(200, bytes.clone()).ending(end))
        })
        .await;
        push(&registry, "app", "v1", std::slice::from_ref(&layer));
        let world = World::with(|settings| {
            settings.answer_timeout = Duration::from_millis(300);
            settings.stall_timeout = Duration::from_millis(300);
            settings.attempts_max = 2;
        });
        let error = world.fails(&registry.image("app:v1")).await;
        assert!(error.contains("within 0.3 s"), "{error}");
        world.assert_empty();
    }
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_told_by_its_address() {
    // an address that is held, so that no other test gets it, and at which nobody listens
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = held.local_addr().unwrap();
    let error = World::new().fails(&format!("{free}/app:v1")).await;
    assert!(error.contains(&format!("ask {free}")) && error.contains("refused"), "{error}");
}
