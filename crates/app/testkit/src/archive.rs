//! Images made by a test: programs of this machine with the libraries that they need, and further
//! files.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// An image of one layer.
pub struct TestImage {
    layer: Vec<u8>,
    config: Vec<u8>,
}

impl TestImage {
    /// With this program and these files in it; `config` is what the image says of its process.
    pub fn new(program: Option<&str>, files: &[(&str, &str)], config: &Value) -> Self {
        let mut layer = tar::Builder::new(Vec::new());
        for path in program.into_iter().flat_map(with_libraries) {
            let mut file = std::fs::File::open(&path).expect("open a program");
            layer
                .append_file(path.strip_prefix("/").expect("absolute"), &mut file)
                .expect("pack a program");
        }
        for (name, content) in files {
            append(&mut layer, name, content.as_bytes());
        }
        let layer = layer.into_inner().expect("pack the layer");
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        });
        Self { layer, config: config.to_string().into_bytes() }
    }

    /// An OCI layout; the layer is compressed.
    pub fn write_layout(&self, folder: &Path, name: &str) {
        let mut compressed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        compressed.write_all(&self.layer).expect("compress");
        let compressed = compressed.finish().expect("compress");
        let blobs = folder.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).expect("make folders");
        let put = |media_type: &str, bytes: &[u8]| -> Value {
            let digest = digest(bytes);
            let name = digest.strip_prefix("sha256:").expect("its own");
            std::fs::write(blobs.join(name), bytes).expect("write a blob");
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
        std::fs::write(folder.join("index.json"), index.to_string()).expect("write the index");
        std::fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#)
            .expect("write the layout's version");
    }

    /// What `docker save` writes.
    pub fn write_docker_archive(&self, file: &Path, name: &str) {
        let mut archive = tar::Builder::new(std::fs::File::create(file).expect("make the file"));
        let manifest =
            json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["one/layer.tar"]}]);
        append(&mut archive, "config.json", &self.config);
        append(&mut archive, "one/layer.tar", &self.layer);
        append(&mut archive, "manifest.json", manifest.to_string().as_bytes());
        archive.finish().expect("write the archive");
    }
}

fn append(archive: &mut tar::Builder<impl Write>, name: &str, bytes: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, bytes).expect("pack a file");
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn with_libraries(program: &str) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().expect("run ldd");
    let listed = crate::text(&listed.stdout);
    // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)` and `/lib64/ld-linux-x86-64.so.2 (0x…)`
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    std::iter::once(program).chain(libraries).map(PathBuf::from).collect()
}
