//! What is fetched, what is not, and what is refused.

use rekindle_runtime::ImageOrigin;

use crate::World;
use crate::fake::{FakeRegistry, digest};
use crate::images::{INDEX, MANIFEST, config, here, manifest, push, push_for, push_index, tar_of};

#[tokio::test]
async fn an_image_is_pulled_by_tag_and_shown_with_its_digest() {
    let (world, registry) = (World::new(), FakeRegistry::start().await);
    let layers = [tar_of(&[("a", b"1"), ("b", b"1")]), tar_of(&[("b", b"2")])];
    let manifest = push(&registry, "team/app", "v1", &layers);
    let image = registry.image("team/app:v1");
    let info = world.pull(&image).await.unwrap();
    assert_eq!(info.reference, image);
    assert_eq!(info.origin, ImageOrigin::Registry);
    assert_eq!(info.size_bytes, layers.iter().map(|layer| layer.len() as u64).sum::<u64>());
    assert_eq!(world.file(&image, "a").as_deref(), Some("1"));
    assert_eq!(world.file(&image, "b").as_deref(), Some("2"), "the upper layer wins");
    let by_digest = registry.image(&format!("team/app@{manifest}"));
    assert_eq!(world.store.info(&by_digest).unwrap().unwrap().id, info.id);
}

#[tokio::test]
async fn an_index_gives_this_machines_image() {
    let (world, registry) = (World::new(), FakeRegistry::start().await);
    let mine = push(&registry, "app", "mine", &[tar_of(&[("f", b"mine")])]);
    let other = push_for(&registry, "app", "other", "s390x", &[tar_of(&[("f", b"other")])]);
    let index = push_index(
        &registry,
        "app",
        "v1",
        &[(&other, "linux", "s390x"), (&other, "windows", here()), (&mine, "linux", here())],
    );
    let image = registry.image("app:v1");
    world.pull(&image).await.unwrap();
    assert_eq!(world.file(&image, "f").as_deref(), Some("mine"));
    for digest in [&index, &mine] {
        let name = registry.image(&format!("app@{digest}"));
        assert!(world.store.resolve(&name).unwrap().is_some(), "it is known by {digest}");
    }
    push_index(
        &registry,
        "app",
        "v2",
        &[(&other, "linux", "s390x"), (&other, "unknown", "unknown")],
    );
    let error = world.fails(&registry.image("app:v2")).await;
    assert!(error.ends_with("only for linux/s390x"), "{error}");
}

#[tokio::test]
async fn layers_that_are_here_are_not_fetched_again() {
    let (world, registry) = (World::new(), FakeRegistry::start().await);
    let (base, one, two) =
        (tar_of(&[("base", b"x")]), tar_of(&[("n", b"1")]), tar_of(&[("n", b"2")]));
    push(&registry, "app", "v1", &[base.clone(), one]);
    push(&registry, "other", "v2", &[base.clone(), two.clone(), base.clone()]);
    world.pull(&registry.image("app:v1")).await.unwrap();
    world.pull(&registry.image("other:v2")).await.unwrap();
    assert_eq!(registry.times("GET", &digest(&base)), 1);
    assert_eq!(registry.times("GET", &digest(&two)), 1);
    assert_eq!(world.file(&registry.image("other:v2"), "n").as_deref(), Some("2"));
}

#[tokio::test]
async fn a_tag_that_stands_for_the_same_image_costs_one_question() {
    let (world, registry) = (World::new(), FakeRegistry::start().await);
    push(&registry, "app", "v1", &[tar_of(&[("f", b"1")])]);
    let image = registry.image("app:v1");
    let first = world.pull(&image).await.unwrap();
    let before = registry.asked().len();
    assert_eq!(world.pull(&image).await.unwrap(), first);
    assert_eq!(registry.asked()[before..], ["HEAD /v2/app/manifests/v1".to_owned()]);
}

#[tokio::test]
async fn a_tag_that_moved_is_followed() {
    let (world, registry) = (World::new(), FakeRegistry::start().await);
    let image = registry.image("app:v1");
    let old = push(&registry, "app", "v1", &[tar_of(&[("f", b"old")])]);
    world.pull(&image).await.unwrap();
    push(&registry, "app", "v1", &[tar_of(&[("f", b"new")])]);
    world.pull(&image).await.unwrap();
    assert_eq!(world.file(&image, "f").as_deref(), Some("new"));
    // and back again, to what is here under its digest: without fetching anything
    let text = manifest(&config(here(), &[tar_of(&[("f", b"old")])]), &[tar_of(&[("f", b"old")])]);
    assert_eq!(registry.add_manifest("app", "v1", MANIFEST, &text), old);
    let before = registry.asked().len();
    world.pull(&image).await.unwrap();
    assert_eq!(world.file(&image, "f").as_deref(), Some("old"));
    assert_eq!(registry.asked().len(), before + 1);
}

#[tokio::test]
async fn a_digest_is_proven_and_decides_over_the_tag() {
    let (world, registry) = (World::new(), FakeRegistry::start().await);
    let wanted = push(&registry, "app", "v1", &[tar_of(&[("f", b"1")])]);
    push(&registry, "app", "v1", &[tar_of(&[("f", b"moved")])]);
    let image = registry.image(&format!("app:v1@{wanted}"));
    world.pull(&image).await.unwrap();
    assert_eq!(world.file(&image, "f").as_deref(), Some("1"));
    assert!(world.store.resolve(&registry.image("app:v1")).unwrap().is_none(), "not the tag");

    let world = World::new();
    let forged =
        manifest(&config(here(), &[tar_of(&[("f", b"evil")])]), &[tar_of(&[("f", b"evil")])]);
    registry.forge_manifest(&format!("app/{wanted}"), MANIFEST, &forged);
    let error = world.fails(&registry.image(&format!("app@{wanted}"))).await;
    assert!(error.contains("damaged or forged"), "{error}");
    world.assert_empty();
}

#[tokio::test]
async fn a_config_or_a_layer_with_another_digest_is_refused() {
    let layer = tar_of(&[("f", b"good")]);
    for forged_part in ["config", "layer"] {
        let (world, registry) = (World::new(), FakeRegistry::start().await);
        push(&registry, "app", "v1", &[tar_of(&[("other", b"x")]), layer.clone()]);
        let both = [tar_of(&[("other", b"x")]), layer.clone()];
        let (digest, forged) = match forged_part {
            "config" => {
                let config = config(here(), &both);
                (digest(config.as_bytes()), config.replace("/bin/true", "/bin/evil").into_bytes())
            }
            _ => (digest(&layer), tar_of(&[("f", b"evil")])),
        };
        registry.forge_blob(&digest, &forged);
        let error = world.fails(&registry.image("app:v1")).await;
        assert!(error.contains(forged_part) && error.contains("damaged or forged"), "{error}");
        world.assert_empty();
    }
}

#[tokio::test]
async fn a_layer_that_unpacks_to_something_else_than_the_config_says_is_refused() {
    let (world, registry) = (World::new(), FakeRegistry::start().await);
    let (said, sent) = (tar_of(&[("f", b"said")]), tar_of(&[("f", b"sent")]));
    let config = config(here(), &[said]);
    registry.add_blob(config.as_bytes());
    registry.add_blob(&sent);
    registry.add_manifest("app", "v1", MANIFEST, &manifest(&config, &[sent]));
    let error = world.fails(&registry.image("app:v1")).await;
    assert!(error.contains("but the config says"), "{error}");
    world.assert_empty();
}

#[tokio::test]
async fn a_layer_with_a_link_out_of_it_writes_nothing_outside() {
    let (world, registry) = (World::new(), FakeRegistry::start().await);
    let outside = tempfile::tempdir().unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder.append_link(&mut header, "out", outside.path()).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_size(4);
    header.set_mode(0o644);
    builder.append_data(&mut header, "out/evil", &b"evil"[..]).unwrap();
    push(&registry, "app", "v1", &[builder.into_inner().unwrap()]);
    // the unpacker may refuse it or keep it inside; outside stays as it is
    let pulled = world.pull(&registry.image("app:v1")).await;
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0, "{pulled:?}");
}

#[tokio::test]
async fn manifests_that_are_not_what_they_say_are_refused() {
    let layers = [tar_of(&[("f", b"1")])];
    let good = manifest(&config(here(), &layers), &layers);
    let both = good.replacen('{', r#"{"manifests":[],"#, 1);
    let unsaid = both.replace(&format!("\"mediaType\":\"{MANIFEST}\","), "");
    let no_size = good.replace("\"size\":", "\"volume\":");
    let schema1 = r#"{"schemaVersion":1,"fsLayers":[]}"#.to_owned();
    let itself = r#"{"schemaVersion":2,"manifests":[]}"#.to_owned();
    let odd = good.replace("sha256:", "sha1:");
    let cases = [
        (INDEX, good.clone(), "it is sent as"),
        (MANIFEST, both, "both an index and a manifest"),
        (INDEX, unsaid, "both an index and a manifest"),
        (MANIFEST, no_size, "has no size"),
        (MANIFEST, odd, "no sha256 digest"),
        ("application/vnd.docker.distribution.manifest.v1+json", schema1, "schema 1"),
        (INDEX, itself, "it lists no image"),
        (MANIFEST, "<html>".to_owned(), "expected value"),
        (MANIFEST, "{}".to_owned(), "no image manifest"),
    ];
    for (media_type, text, reason) in cases {
        let (world, registry) = (World::new(), FakeRegistry::start().await);
        push(&registry, "app", "good", &layers);
        registry.add_manifest("app", "v1", media_type, &text);
        let error = world.fails(&registry.image("app:v1")).await;
        assert!(error.contains(reason), "{text}: {error}");
        world.assert_empty();
    }
}

#[tokio::test]
async fn what_is_larger_than_its_limit_is_not_taken() {
    let layers = [tar_of(&[("f", &[b'x'; 5000])])];
    type Change = fn(&mut rekindle_runtime::image::registry::RegistrySettings);
    let cases: [(Change, &str); 3] = [
        (|s| s.manifest_max_bytes = 100, "more than 100 bytes"),
        (|s| s.config_max_bytes = 50, "more than 50 bytes"),
        (|s| s.layer_max_bytes = 4000, "4000 is the limit"),
    ];
    for (change, reason) in cases {
        let (world, registry) = (World::with(change), FakeRegistry::start().await);
        push(&registry, "app", "v1", &layers);
        let error = world.fails(&registry.image("app:v1")).await;
        assert!(error.contains(reason), "{error}");
        assert_eq!(registry.times("GET", &digest(&layers[0])), 0, "no layer was asked for");
        world.assert_empty();
    }
}

#[tokio::test]
async fn names_of_this_machine_and_ids_are_asked_of_no_registry() {
    let world = World::new();
    let error = world.fails("localhost/app:v1").await;
    assert!(error.contains("rekindle image load"), "{error}");
    let error = world.fails(&format!("sha256:{}", "0".repeat(64))).await;
    assert!(error.ends_with("not present"), "{error}");
    assert!(world.fails("Not a name").await.contains("lower-case"));
}
