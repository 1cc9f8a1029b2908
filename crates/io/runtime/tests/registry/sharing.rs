//! Several pulls at once, and pulls that nobody waits for any more.

use std::sync::{Arc, Mutex};

use rekindle_runtime::image::registry::{Keyring, LayerState};

use crate::World;
use crate::fake::{End, FakeRegistry, Reply, digest};
use crate::images::{push, tar_of};

#[tokio::test]
async fn pulls_of_one_image_at_the_same_time_are_one() {
    let (world, registry) = (World::new(), FakeRegistry::start().await);
    let layer = tar_of(&[("f", b"1")]);
    push(&registry, "app", "v1", std::slice::from_ref(&layer));
    let image = registry.image("app:v1");
    let (a, b, c) = tokio::join!(world.pull(&image), world.pull(&image), world.pull(&image));
    assert_eq!(a.unwrap(), b.unwrap());
    assert!(c.is_ok());
    assert_eq!(registry.times("GET", "/manifests/"), 1);
    assert_eq!(registry.times("GET", &digest(&layer)), 1);
}

#[tokio::test]
async fn a_pull_goes_on_for_those_who_still_wait_and_ends_with_the_last() {
    let silent = FakeRegistry::with_rule(|_| Some(Reply::new(200, "").ending(End::Silence))).await;
    let world = World::new();
    let image = silent.image("app:v1");
    let mut first = Box::pin(world.pull(&image));
    let mut second = Box::pin(world.pull(&image));
    assert!(futures::poll!(&mut first).is_pending());
    assert!(futures::poll!(&mut second).is_pending());
    tokio::select! {
        _ = &mut first => unreachable!("the registry says nothing"),
        _ = &mut second => unreachable!("the registry says nothing"),
        () = silent.until_asked(1) => {}
    }
    drop(first);
    assert!(futures::poll!(&mut second).is_pending());
    assert_eq!(silent.asked().len(), 1);
    drop(second);
    // the next one begins anew instead of joining what nobody drives any more
    let mut third = Box::pin(world.pull(&image));
    tokio::select! {
        _ = &mut third => unreachable!("the registry says nothing"),
        () = silent.until_asked(2) => {}
    }
    drop(third);
    world.assert_empty();
}

#[tokio::test]
async fn layers_tell_how_far_they_are() {
    let (world, registry) = (World::new(), FakeRegistry::start().await);
    let (here, new) = (tar_of(&[("f", b"1")]), tar_of(&[("g", b"22")]));
    push(&registry, "base", "v1", std::slice::from_ref(&here));
    push(&registry, "app", "v1", &[here.clone(), new.clone()]);
    world.pull(&registry.image("base:v1")).await.unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = {
        let told = told.clone();
        move |progress| told.lock().unwrap().push(progress)
    };
    let image = registry.image("app:v1");
    world.puller.pull_watched(&image, &Keyring::new(), listener).await.unwrap();
    let told = told.lock().unwrap();
    let states = |layer: &[u8]| -> Vec<LayerState> {
        let name = digest(layer);
        told.iter()
            .filter(|progress| progress.layer == name)
            .map(|progress| progress.state)
            .collect()
    };
    assert_eq!(states(&here), [LayerState::AlreadyHere]);
    let size = new.len() as u64;
    assert!(told.iter().all(|progress| progress.size_bytes > 0));
    assert_eq!(
        states(&new),
        [
            LayerState::Waiting,
            LayerState::Coming { bytes: size },
            LayerState::Unpacking,
            LayerState::Done
        ]
    );
}

#[tokio::test]
async fn a_layer_removed_while_others_come_is_fetched_after_all() {
    let (here, new) = (tar_of(&[("f", b"1")]), tar_of(&[("g", b"22")]));
    let world = Arc::new(World::new());
    let store = world.store.clone();
    let (wanted, base) = (digest(&new), Arc::new(Mutex::new(String::new())));
    let victim = base.clone();
    let registry = FakeRegistry::with_rule(move |asked| {
        if asked.is("GET", &wanted) && asked.before == 0 {
            store
                .remove(
                    &victim.lock().unwrap(),
                    rekindle_runtime::image::ImageRemoval::OfUnused,
                    || Ok(Default::default()),
                )
                .unwrap();
        }
        None
    })
    .await;
    *base.lock().unwrap() = registry.image("base:v1");
    push(&registry, "base", "v1", std::slice::from_ref(&here));
    push(&registry, "app", "v1", &[here.clone(), new]);
    world.pull(&registry.image("base:v1")).await.unwrap();
    world.pull(&registry.image("app:v1")).await.unwrap();
    assert_eq!(world.file(&registry.image("app:v1"), "f").as_deref(), Some("1"));
    assert_eq!(registry.times("GET", &digest(&here)), 2);
}
