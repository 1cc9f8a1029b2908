//! A real registry on loopback (Debian's docker-registry), and a small client that pushes to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::Engine;

/// The user name of the one login of a private registry.
pub const USERNAME: &str = "me";
/// Its password.
pub const PASSWORD: &str = "let me in";
/// Both in base64, as a Basic header carries them.
const BASIC: &str = "bWU6bGV0IG1lIGlu";
/// The password as bcrypt keeps it.
const HTPASSWD: &str = "me:$2b$04$4h11DhtP1yVKuog7.2YNXOslbsFReggmSUUBqy83vkrFQUZU0iE0G\n";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Who may pull and push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryAccess {
    /// Without a login.
    Everybody,
    /// With the one login.
    WithPassword,
}

/// A running registry; it ends with the test.
pub struct LoopbackRegistry {
    child: Child,
    _dir: tempfile::TempDir,
    access: RegistryAccess,
    /// `127.0.0.1:port`.
    pub address: String,
}

impl LoopbackRegistry {
    /// Starts one with nothing in it.
    pub fn start(access: RegistryAccess) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("rekindle-test-registry-")
            .tempdir()
            .expect("a temporary folder");
        let password_file = dir.path().join("htpasswd");
        std::fs::write(&password_file, HTPASSWD).expect("write the passwords");
        let mut config = json!({
            "version": 0.1,
            "storage": { "filesystem": { "rootdirectory": dir.path().join("data") } },
            "http": { "addr": "127.0.0.1:0", "secret": "x" },
        });
        if access == RegistryAccess::WithPassword {
            config["auth"] = json!({ "htpasswd": { "realm": "test", "path": password_file } });
        }
        let file = dir.path().join("config.yml");
        std::fs::write(&file, config.to_string()).expect("write the configuration");
        let mut child = Command::new(program())
            .arg("serve")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the registry");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = loop {
            let line = lines.next().expect("the registry ended").expect("its output");
            if let Some((_, rest)) = line.split_once("listening on ") {
                break rest.split('"').next().expect("a part").to_owned();
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, _dir: dir, access, address }
    }

    /// The name of an image in it.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// What `docker login` would leave behind.
    pub fn docker_config(&self) -> String {
        json!({ "auths": { &self.address: { "auth": BASIC } } }).to_string()
    }

    /// Makes the secret `logins`, which pods can name to pull with.
    pub fn give_logins_to(&self, engine: &Engine) {
        engine.kubectl(&[
            "create",
            "secret",
            "docker-registry",
            "logins",
            &format!("--docker-server={}", self.address),
            &format!("--docker-username={USERNAME}"),
            &format!("--docker-password={PASSWORD}"),
        ]);
    }

    /// Pushes an index with an image for this machine that runs a shell script, beside one for
    /// another machine. Answers the image's bytes, unpacked.
    pub fn push(&self, repository: &str, tag: &str, script: &str) -> usize {
        let layer = shell_layer();
        let mut manifests = Vec::new();
        for architecture in ["s390x", here()] {
            let config = json!({
                "architecture": architecture, "os": "linux",
                "config": { "Entrypoint": ["/bin/sh", "-c"], "Cmd": [script] },
                "rootfs": { "type": "layers", "diff_ids": [digest(&layer.tar)] },
            })
            .to_string();
            let config_type = "application/vnd.oci.image.config.v1+json";
            let layer_type = "application/vnd.oci.image.layer.v1.tar+gzip";
            let manifest = json!({
                "schemaVersion": 2, "mediaType": MANIFEST,
                "config": self.push_blob(repository, config_type, config.as_bytes()),
                "layers": [self.push_blob(repository, layer_type, &layer.gzip)],
            })
            .to_string();
            let name = digest(manifest.as_bytes());
            self.push_manifest(repository, &name, MANIFEST, &manifest);
            manifests.push(json!({
                "mediaType": MANIFEST, "digest": name, "size": manifest.len(),
                "platform": { "os": "linux", "architecture": architecture },
            }));
        }
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
        self.push_manifest(repository, tag, INDEX, &index.to_string());
        layer.tar.len()
    }

    /// Answers the blob's descriptor.
    fn push_blob(&self, repository: &str, media_type: &str, bytes: &[u8]) -> Value {
        let begun = self.request("POST", &format!("/v2/{repository}/blobs/uploads/"), "", &[]);
        let location = begun
            .lines()
            .find_map(|line| line.strip_prefix("Location: "))
            .unwrap_or_else(|| panic!("no place to upload to: {begun}"));
        let path = location.strip_prefix(&format!("http://{}", self.address)).unwrap_or(location);
        let name = digest(bytes);
        let path = format!("{path}&digest={name}");
        let put = self.request("PUT", &path, "application/octet-stream", bytes);
        assert!(put.starts_with("HTTP/1.1 201"), "{put}");
        json!({ "mediaType": media_type, "digest": name, "size": bytes.len() })
    }

    fn push_manifest(&self, repository: &str, name: &str, media_type: &str, text: &str) {
        let path = format!("/v2/{repository}/manifests/{name}");
        let put = self.request("PUT", &path, media_type, text.as_bytes());
        assert!(put.starts_with("HTTP/1.1 201"), "{put}");
    }

    /// The head of the answer.
    fn request(&self, method: &str, path: &str, media_type: &str, body: &[u8]) -> String {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n",
            self.address,
            body.len()
        );
        if !media_type.is_empty() {
            head.push_str(&format!("Content-Type: {media_type}\r\n"));
        }
        if self.access == RegistryAccess::WithPassword {
            head.push_str(&format!("Authorization: Basic {BASIC}\r\n"));
        }
        head.push_str("\r\n");
        let mut stream = TcpStream::connect(&self.address).expect("connect to the registry");
        stream.write_all(&[head.as_bytes(), body].concat()).expect("write to the registry");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("read from the registry");
        String::from_utf8_lossy(&answer).replace("\r\n", "\n")
    }
}

impl Drop for LoopbackRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> PathBuf {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../target/tools/docker-registry/usr/bin/docker-registry");
    let given = std::env::var_os("REKINDLE_TEST_REGISTRY").map(PathBuf::from);
    let installed = PathBuf::from("/usr/bin/docker-registry");
    given
        .into_iter()
        .chain([fetched, installed])
        .find(|path| path.exists())
        .expect("no registry for the tests: run them with `cargo xtask test`")
}

struct PackedLayer {
    tar: Vec<u8>,
    gzip: Vec<u8>,
}

/// A root with a shell in it: the machine's static busybox.
pub(crate) fn shell_tar() -> Vec<u8> {
    let busybox = std::fs::read("/bin/busybox")
        .expect("no busybox for the tests: run them with `cargo xtask test`");
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(busybox.len() as u64);
    header.set_mode(0o755);
    builder.append_data(&mut header, "bin/busybox", &busybox[..]).expect("pack into memory");
    for name in ["sh", "sleep", "echo"] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder
            .append_link(&mut header, format!("bin/{name}"), "busybox")
            .expect("pack into memory");
    }
    builder.into_inner().expect("pack into memory")
}

fn shell_layer() -> PackedLayer {
    let tar = shell_tar();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&tar).expect("pack into memory");
    PackedLayer { gzip: encoder.finish().expect("pack into memory"), tar }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn here() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
