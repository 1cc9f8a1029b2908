//! Images from a real registry: pods that pull with their secrets, and the `rekindle image`
//! commands.

use std::cmp::Reverse;

use rekindle_testkit::archive::TestImage;
use rekindle_testkit::registry::{LoopbackRegistry, PASSWORD, RegistryAccess};
use rekindle_testkit::{Engine, TIMEOUT, rekindle, text};
use serde_json::Value;

const SCRIPT: &str = "echo from the registry; exec sleep 1000";

fn pod(name: &str, image: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n{more}  \
         containers: [{{name: app, image: '{image}'}}]\n"
    )
}

fn events(engine: &Engine, pod: &str) -> String {
    engine.kubectl(&["events", "--for", &format!("pod/{pod}")])
}

#[test]
fn a_pod_runs_an_image_of_a_private_registry_with_its_pull_secret() {
    let (engine, registry) =
        (Engine::start(), LoopbackRegistry::start(RegistryAccess::WithPassword));
    registry.push("team/app", "v1", SCRIPT);
    registry.push("team/other", "v1", SCRIPT);
    let image = registry.image("team/app:v1");

    // without the secret there is no way, and the reason is told
    engine.apply(&pod("denied", &image, ""));
    engine.wait_for(
        "pod/denied",
        ".status.containerStatuses[0].state.waiting.reason",
        "ImagePullBackOff",
    );
    engine.wait_for_event("denied", "Failed", "access denied");
    engine.wait_for_event("denied", "Failed", "Error: ErrImagePull");
    engine.wait_for_event("denied", "BackOff", "Back-off pulling image");

    registry.give_logins_to(&engine);
    let warned = engine.apply(&pod("app", &image, "  imagePullSecrets: [{name: logins}]\n"));
    assert!(!warned.contains("Warning"), "{warned}");
    engine.wait_ready("app");
    assert_eq!(engine.first_lines(&["app"], 1), ["from the registry"]);
    engine.wait_for_event("app", "Pulling", &format!("Pulling image \"{image}\""));
    let pulled = format!("Successfully pulled image \"{image}\" in ");
    engine.wait_for_event("app", "Pulled", &pulled);
    let told = events(&engine, "app");
    assert!(!told.contains(PASSWORD), "{told}");

    // the secret of its ServiceAccount serves a pod that names none
    let patch = r#"{"imagePullSecrets": [{"name": "logins"}]}"#;
    engine.kubectl(&["patch", "serviceaccount", "default", "-p", patch]);
    engine.apply(&pod("by-account", &registry.image("team/other:v1"), ""));
    engine.wait_ready("by-account");
    let spec = &engine.get("pod/by-account")["spec"];
    assert_eq!(spec["imagePullSecrets"][0]["name"], "logins");
}

#[test]
fn the_pull_policy_decides_whether_the_registry_is_asked() {
    let engine = Engine::start();
    let registry = LoopbackRegistry::start(RegistryAccess::Everybody);
    let size = registry.push("app", "v1", SCRIPT);
    let image = registry.image("app:v1");
    engine.apply(&pod("first", &image, ""));
    engine.wait_ready("first");
    drop(registry);

    // here already: nobody is asked
    engine.apply(&pod("second", &image, ""));
    engine.wait_ready("second");
    engine.wait_for_event("second", "Pulled", "already present on machine");
    // Always means asking, and nobody answers any more
    let always = pod("third", &image, "").replace("app, ", "app, imagePullPolicy: Always, ");
    engine.apply(&always);
    let reason = ".status.containerStatuses[0].state.waiting.reason";
    engine.wait_for("pod/third", reason, "ImagePullBackOff");
    engine.wait_for_event("third", "Failed", "refused");
    // the built-in images have no registry, whatever the policy says
    let built_in = pod("host", "localhost/host", "")
        .replace("app, ", "app, imagePullPolicy: Always, command: [sleep, '1000'], ");
    engine.apply(&built_in);
    engine.wait_ready("host");
    engine.wait_for_event("host", "Pulled", "already present");
    let told = events(&engine, "host");
    assert!(!told.contains("Pulling"), "{told}");

    // the largest first
    let is_shown = |shown: &Value| {
        let names = shown["names"].as_array().unwrap();
        shown["sizeBytes"] == size && names.iter().any(|name| *name == image)
    };
    let node = engine.until_one("node/node-1", |node| {
        node["status"]["images"].as_array().is_some_and(|images| images.iter().any(is_shown))
    });
    let images = node["status"]["images"].as_array().unwrap();
    assert!(images.is_sorted_by_key(|image| Reverse(image["sizeBytes"].as_u64())), "{images:?}");
}

#[test]
fn images_are_pulled_listed_and_removed_by_hand() {
    let registry = LoopbackRegistry::start(RegistryAccess::WithPassword);
    registry.push("app", "v1", SCRIPT);
    let image = registry.image("app:v1");
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        rekindle().args(arguments).arg("--data-dir").arg(dir.path()).output().unwrap()
    };
    let denied = run(&["image", "pull", &image]);
    assert!(!denied.status.success());
    assert!(text(&denied.stderr).contains("access denied"), "{}", text(&denied.stderr));

    let logins = dir.path().join("logins.json");
    std::fs::write(&logins, registry.docker_config()).unwrap();
    let pulled = run(&["image", "pull", &image, "--auth-file", logins.to_str().unwrap()]);
    assert!(pulled.status.success(), "{}", text(&pulled.stderr));
    assert!(text(&pulled.stdout).starts_with(&format!("pulled {image} (sha256:")));
    assert!(text(&pulled.stderr).contains(": fetched "), "a line for each layer's step");

    assert!(text(&run(&["image", "list"]).stdout).contains(&image));
    assert!(run(&["image", "rm", &image]).status.success());
    assert!(!text(&run(&["image", "list"]).stdout).contains(&image));
    assert!(text(&run(&["image", "rm", &image]).stderr).contains("is not present"));
}

#[test]
fn an_image_that_a_container_was_made_from_is_not_removed() {
    let (engine, registry) = (Engine::start(), LoopbackRegistry::start(RegistryAccess::Everybody));
    registry.push("app", "v1", SCRIPT);
    let image = registry.image("app:v1");
    engine.apply(&pod("app", &image, ""));
    engine.wait_ready("app");
    let refused = engine.rekindle(&["image", "rm", &image]);
    let told = text(&refused.stderr);
    assert!(told.contains("is used by containers of pod default/app"), "{told}");
    assert!(told.contains("--force"), "{told}");
    // by force its name goes, and what runs goes on
    let forced = engine.rekindle(&["image", "rm", "--force", &image]);
    assert!(forced.status.success(), "{}", text(&forced.stderr));
    assert!(!text(&engine.rekindle(&["image", "list"]).stdout).contains(&image));
    engine.kubectl(&["exec", "app", "--", "/bin/sh", "-c", "true"]);
    engine.kubectl(&["delete", "pod", "app", TIMEOUT]);
    let absent = engine.rekindle(&["image", "rm", &image]);
    assert!(text(&absent.stderr).contains("is not present"), "{}", text(&absent.stderr));
}

/// A machine that nobody may look at through an image says so, and what to do.
#[test]
fn an_engine_without_the_host_image_refuses_it_by_name() {
    let engine = Engine::start_with(&["--host-image=off"]);
    engine.apply(&pod("looks", "localhost/host", ""));
    engine.wait_for_event("looks", "Failed", "the engine was started with --host-image=off");
    let waiting = ".status.containerStatuses[0].state.waiting.reason";
    engine.wait_for("pod/looks", waiting, "ImagePullBackOff");
}

/// What no registry may have is pinned, and stays so for whoever looks later.
#[test]
fn a_loaded_image_is_listed_as_pinned_unless_it_may_go() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("docker.tar");
    let config = serde_json::json!({"Entrypoint": ["/usr/bin/cat"]});
    let image = TestImage::new(None, &[("greeting", "hello")], &config);
    image.write_docker_archive(&archive, "example.test/app:1");
    let run = |arguments: &[&str]| {
        let output = rekindle().args(arguments).arg("--data-dir").arg(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let archive = archive.to_str().unwrap();
    for (flags, pinned) in [(&[][..], "yes"), (&["--evictable"], "no")] {
        run(&[&["image", "load", archive], flags].concat());
        let list = run(&["image", "list"]);
        let line = list.lines().find(|line| line.contains("example.test/app:1")).unwrap();
        assert!(line.trim_end().ends_with(pinned), "{line}");
    }
}
