//! Images to be pulled.

use serde_json::{Value, json};

use crate::fake::{FakeRegistry, digest};

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// A tar with these files.
pub fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Bytes that do not compress.
pub fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

pub fn config(architecture: &str, layers: &[Vec<u8>]) -> String {
    json!({
        "architecture": architecture, "os": "linux",
        "config": { "Cmd": ["/bin/true"], "Env": ["A=b"] },
        "rootfs": { "type": "layers", "diff_ids": layers.iter().map(|l| digest(l)).collect::<Vec<_>>() },
    })
    .to_string()
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(bytes), "size": bytes.len() })
}

pub fn manifest(config: &str, layers: &[Vec<u8>]) -> String {
    let layers: Vec<Value> = layers.iter().map(|layer| descriptor(LAYER, layer)).collect();
    let config = descriptor(CONFIG, config.as_bytes());
    json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers })
        .to_string()
}

/// The architecture that tests run on, as images name it.
pub fn here() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Puts an image of plain layers there; answers its manifest's digest.
pub fn push(registry: &FakeRegistry, repository: &str, tag: &str, layers: &[Vec<u8>]) -> String {
    push_for(registry, repository, tag, here(), layers)
}

pub fn push_for(
    registry: &FakeRegistry,
    repository: &str,
    tag: &str,
    architecture: &str,
    layers: &[Vec<u8>],
) -> String {
    let config = config(architecture, layers);
    registry.add_blob(config.as_bytes());
    for layer in layers {
        registry.add_blob(layer);
    }
    registry.add_manifest(repository, tag, MANIFEST, &manifest(&config, layers))
}

/// Puts an index of these manifests (digest, operating system, architecture) there; answers its
/// digest.
pub fn push_index(
    registry: &FakeRegistry,
    repository: &str,
    tag: &str,
    images: &[(&str, &str, &str)],
) -> String {
    let manifests: Vec<Value> = images
        .iter()
        .map(|(digest, os, architecture)| {
            json!({ "mediaType": MANIFEST, "digest": digest, "size": 1,
                    "platform": { "os": os, "architecture": architecture } })
        })
        .collect();
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
    registry.add_manifest(repository, tag, INDEX, &index.to_string())
}
