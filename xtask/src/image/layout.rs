//! An OCI image layout as one archive: blobs by their digests, and an index that names them
//! (image-spec of the Open Container Initiative, 1.1).

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::layer;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const PARTS: &str = "application/vnd.cyclonedx+json";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// The image of one architecture.
pub(super) struct Image<'a> {
    pub(super) architecture: &'a str,
    /// A tar archive, not compressed.
    pub(super) layer: Vec<u8>,
    pub(super) labels: Vec<(&'static str, String)>,
    /// A document of CycloneDX.
    pub(super) parts: &'a [u8],
}

/// What the archive will hold.
pub(super) struct Layout {
    name: String,
    /// By file names within the archive.
    blobs: BTreeMap<String, Vec<u8>>,
    images: Vec<Value>,
    parts: Vec<Value>,
}

impl Layout {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), blobs: BTreeMap::new(), images: vec![], parts: vec![] }
    }

    /// Adds an image, and its parts as an artifact that refers to it.
    pub(super) fn add(&mut self, image: &Image<'_>) -> io::Result<()> {
        let labels: BTreeMap<_, _> =
            image.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let config = json!({
            "architecture": image.architecture, "os": "linux",
            "config": {
                "User": layer::USER, "Entrypoint": ["/rekindle"], "WorkingDir": "/",
                "Labels": labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [digest(&image.layer)]},
        });
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&image.layer)?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": self.put(CONFIG, config.to_string().into_bytes()),
            "layers": [self.put(LAYER, gzip.finish()?)],
            "annotations": labels,
        });
        let subject = self.put(MANIFEST, manifest.to_string().into_bytes());
        let artifact = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": PARTS,
            "config": self.put(EMPTY, b"{}".to_vec()),
            "layers": [self.put(PARTS, image.parts.to_vec())],
            "subject": subject,
        });
        let mut artifact = self.put(MANIFEST, artifact.to_string().into_bytes());
        artifact["artifactType"] = json!(PARTS);
        self.parts.push(artifact);
        let mut entry = subject;
        entry["platform"] = json!({"architecture": image.architecture, "os": "linux"});
        self.images.push(entry);
        Ok(())
    }

    /// The layout as a tar archive. The image of one architecture is named itself, that of several
    /// by an index of them.
    pub(super) fn archive(mut self) -> io::Result<Vec<u8>> {
        let mut images = std::mem::take(&mut self.images);
        let mut named = if images.len() == 1 {
            images.remove(0)
        } else {
            let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": images});
            self.put(INDEX, index.to_string().into_bytes())
        };
        let tag = self.name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        named["annotations"] = json!({
            "io.containerd.image.name": self.name, "org.opencontainers.image.ref.name": tag,
        });
        let manifests: Vec<Value> = std::iter::once(named).chain(self.parts).collect();
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        let mut archive = tar::Builder::new(Vec::new());
        for folder in ["blobs/", "blobs/sha256/"] {
            layer::append(&mut archive, folder, tar::EntryType::Directory, 0o755, &[])?;
        }
        self.blobs.insert("index.json".to_owned(), index.to_string().into_bytes());
        self.blobs.insert("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
        for (path, content) in &self.blobs {
            layer::append(&mut archive, path, tar::EntryType::Regular, 0o644, content)?;
        }
        archive.into_inner()
    }

    /// Keeps a blob, and describes it.
    fn put(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = digest(&bytes);
        let descriptor = json!({"mediaType": media_type, "digest": digest, "size": bytes.len()});
        self.blobs.insert(format!("blobs/{}", digest.replace(':', "/")), bytes);
        descriptor
    }
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn image<'a>(architecture: &'a str, layer: &[u8]) -> Image<'a> {
        let labels = vec![("org.opencontainers.image.title", "rekindle".to_owned())];
        Image { architecture, layer: layer.to_vec(), labels, parts: b"{}" }
    }

    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().expect("an archive").map(|entry| {
            let mut entry = entry.expect("an entry");
            let mut content = Vec::new();
            entry.read_to_end(&mut content).expect("its content");
            (entry.path().expect("its path").display().to_string(), content)
        });
        entries.collect()
    }

    fn at(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().expect("a digest");
        let content = files[&format!("blobs/{}", digest.replace(':', "/"))].clone();
        assert_eq!(super::digest(&content), digest);
        assert_eq!(descriptor["size"], content.len());
        content
    }

    fn document(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Value {
        serde_json::from_slice(&at(files, descriptor)).expect("JSON")
    }

    #[test]
    fn each_blob_is_found_by_its_digest_and_the_parts_name_their_image() {
        let mut layout = Layout::new("localhost/rekindle:1");
        let layer = layer::pack(b"program", b"authorities").expect("memory takes it");
        layout.add(&image("amd64", &layer)).expect("memory takes it");
        let files = files(&layout.archive().expect("memory takes it"));
        let index: Value = serde_json::from_slice(&files["index.json"]).expect("JSON");
        let named = &index["manifests"][0];
        assert_eq!(named["annotations"]["io.containerd.image.name"], "localhost/rekindle:1");
        assert_eq!(named["annotations"]["org.opencontainers.image.ref.name"], "1");
        let manifest = document(&files, named);
        let config = document(&files, &manifest["config"]);
        assert_eq!(config["config"]["User"], "65532:65532", "the operator needs no root");
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(at(&files, &manifest["layers"][0]).as_slice())
            .read_to_end(&mut unpacked)
            .expect("gzip");
        assert_eq!(config["rootfs"]["diff_ids"][0], super::digest(&unpacked));
        assert_eq!(self::files(&unpacked)["rekindle"], b"program");
        let artifact = document(&files, &index["manifests"][1]);
        assert_eq!(artifact["subject"]["digest"], named["digest"]);
        assert_eq!(at(&files, &artifact["layers"][0]), b"{}");
    }

    #[test]
    fn two_architectures_have_one_name() {
        let mut layout = Layout::new("localhost/rekindle:1");
        for (architecture, layer) in [("amd64", b"a"), ("arm64", b"b")] {
            layout.add(&image(architecture, layer)).expect("memory takes it");
        }
        let files = files(&layout.archive().expect("memory takes it"));
        let index: Value = serde_json::from_slice(&files["index.json"]).expect("JSON");
        let images = document(&files, &index["manifests"][0]);
        let architectures: Vec<&Value> = images["manifests"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|entry| &entry["platform"]["architecture"])
            .collect();
        assert_eq!(architectures, ["amd64", "arm64"]);
    }
}
