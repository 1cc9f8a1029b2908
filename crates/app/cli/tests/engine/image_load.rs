//! `rekindle image load`: an image in each of the three forms, made here, is loaded beside a
//! running engine and run.
use std::path::Path;

use rekindle_testkit::archive::TestImage;
use rekindle_testkit::{Engine, rekindle, text};
use serde_json::json;

/// An image whose program is this machine's `cat`, and a file to print.
fn image(greeting: &str) -> TestImage {
    let config = json!({"Entrypoint": ["/usr/bin/cat"], "Cmd": ["/greeting"]});
    TestImage::new(Some("/usr/bin/cat"), &[("greeting", greeting)], &config)
}

#[track_caller]
fn load(engine: &Engine, file: &Path) -> String {
    let output = engine.rekindle(&["image", "load", file.to_str().unwrap()]);
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}{}", text(&output.stderr));
    printed
}

#[test]
fn layouts_archives_and_docker_archives_are_loaded_beside_the_engine_and_run() {
    let engine = Engine::start();
    let folder = tempfile::tempdir().unwrap();

    let layout = folder.path().join("layout");
    image("hello from a layout").write_layout(&layout, "example.test/layout:1");
    let archived = folder.path().join("archived");
    image("hello from an archive").write_layout(&archived, "example.test/archive:1");
    let archive = folder.path().join("archive.tar");
    let mut tar = tar::Builder::new(std::fs::File::create(&archive).unwrap());
    tar.append_dir_all("", &archived).unwrap();
    tar.finish().unwrap();
    let docker = folder.path().join("docker.tar");
    image("hello from docker").write_docker_archive(&docker, "example.test/docker:1");

    let cases = [
        ("layout", &layout, "hello from a layout"),
        ("archive", &archive, "hello from an archive"),
        ("docker", &docker, "hello from docker"),
    ];
    for (name, file, greeting) in cases {
        let image = format!("example.test/{name}:1");
        assert_eq!(load(&engine, file), format!("loaded {image}\n"));
        engine.apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{restartPolicy: Never, containers: \
             [{{name: one, image: '{image}'}}]}}}}"
        ));
        engine.wait_for(&format!("pod/{name}"), ".status.phase", "Succeeded");
        assert_eq!(engine.kubectl(&["logs", name]), greeting);
    }
    let listed = text(&engine.rekindle(&["image", "list"]).stdout);
    for (name, _, _) in cases {
        assert!(listed.contains(&format!("example.test/{name}:1")), "{listed}");
    }
}

#[test]
fn what_is_no_image_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "no image at all").unwrap();
    for path in [file.as_path(), folder.path(), Path::new("/nowhere/image.tar")] {
        let mut command = rekindle();
        command.args(["image", "load"]).arg(path).arg("--data-dir").arg(folder.path().join("data"));
        let output = command.output().unwrap();
        let error = text(&output.stderr);
        assert!(!output.status.success());
        assert!(error.starts_with(&format!("rekindle: load {}", path.display())), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
