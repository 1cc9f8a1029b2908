//! `rekindle image load`: an image in each of the three forms, made here, is loaded beside a running engine and run.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::{Engine, rekindle, text};

/// An image whose program is this machine's `cat`, with the libraries that it needs, and a file to print.
struct Image {
    layer: Vec<u8>,
    config: Vec<u8>,
}

impl Image {
    fn new(greeting: &str) -> Self {
        let mut layer = tar::Builder::new(Vec::new());
        for path in cat_and_its_libraries() {
            let mut file = std::fs::File::open(&path).unwrap();
            layer.append_file(path.strip_prefix("/").unwrap(), &mut file).unwrap();
        }
        let layer = {
            append(&mut layer, "greeting", greeting.as_bytes());
            layer.into_inner().unwrap()
        };
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": {"Entrypoint": ["/usr/bin/cat"], "Cmd": ["/greeting"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        });
        Self { layer, config: config.to_string().into_bytes() }
    }

    /// An OCI layout; the layer is compressed.
    fn write_layout(&self, folder: &Path, name: &str) {
        let mut compressed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        compressed.write_all(&self.layer).unwrap();
        let compressed = compressed.finish().unwrap();
        let blobs = folder.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).unwrap();
        let put = |media_type: &str, bytes: &[u8]| -> Value {
            let digest = digest(bytes);
            std::fs::write(blobs.join(digest.strip_prefix("sha256:").unwrap()), bytes).unwrap();
            json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": put("application/vnd.oci.image.config.v1+json", &self.config),
            "layers": [put("application/vnd.oci.image.layer.v1.tar+gzip", &compressed)],
        });
        let mut entry =
            put("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes());
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": name});
        let index = json!({"schemaVersion": 2, "manifests": [entry]});
        std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
        std::fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).unwrap();
    }

    /// What `docker save` writes.
    fn write_docker_archive(&self, file: &Path, name: &str) {
        let mut archive = tar::Builder::new(std::fs::File::create(file).unwrap());
        let manifest =
            json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["one/layer.tar"]}]);
        append(&mut archive, "config.json", &self.config);
        append(&mut archive, "one/layer.tar", &self.layer);
        append(&mut archive, "manifest.json", manifest.to_string().as_bytes());
        archive.finish().unwrap();
    }
}

fn append(archive: &mut tar::Builder<impl Write>, name: &str, bytes: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, bytes).unwrap();
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn cat_and_its_libraries() -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg("/usr/bin/cat").output().unwrap();
    let listed = text(&listed.stdout);
    // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)` and `/lib64/ld-linux-x86-64.so.2 (0x…)`
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    std::iter::once("/usr/bin/cat").chain(libraries).map(PathBuf::from).collect()
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
    Image::new("hello from a layout").write_layout(&layout, "example.test/layout:1");
    let archived = folder.path().join("archived");
    Image::new("hello from an archive").write_layout(&archived, "example.test/archive:1");
    let archive = folder.path().join("archive.tar");
    let mut tar = tar::Builder::new(std::fs::File::create(&archive).unwrap());
    tar.append_dir_all("", &archived).unwrap();
    tar.finish().unwrap();
    let docker = folder.path().join("docker.tar");
    Image::new("hello from docker").write_docker_archive(&docker, "example.test/docker:1");

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
