//! The JSON documents of images, as far as they are needed: OCI index, manifest and config,
//! docker's manifest.json. Names are those of the OCI image specification 1.1 and of `docker save`.
//! Unknown fields are somebody else's.

use std::collections::BTreeMap;

use rekindle_types::null_as_default;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ImageConfig;

pub(super) const INDEX_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// Points to a blob.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    /// Bytes of the blob.
    pub(super) size: Option<u64>,
    pub(super) platform: Option<Platform>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) annotations: BTreeMap<String, String>,
}

/// What machine something is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Platform {
    #[serde(default)]
    pub(super) os: String,
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) variant: String,
}

/// `index.json`, an image index or a docker manifest list.
#[derive(Debug, Deserialize)]
pub(super) struct IndexDocument {
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) manifests: Vec<Descriptor>,
}

/// An image manifest.
#[derive(Debug, Deserialize)]
pub(super) struct ManifestDocument {
    pub(super) config: Descriptor,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) layers: Vec<Descriptor>,
}

/// One image of docker's `manifest.json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DockerImage {
    pub(super) config: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) repo_tags: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) layers: Vec<String>,
}

/// An image's config.
#[derive(Debug, Deserialize)]
pub(super) struct ConfigDocument {
    #[serde(flatten)]
    pub(super) platform: Platform,
    #[serde(default, deserialize_with = "null_as_default")]
    config: ProcessDocument,
    pub(super) rootfs: RootfsDocument,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ProcessDocument {
    #[serde(deserialize_with = "null_as_default")]
    user: String,
    #[serde(deserialize_with = "null_as_default")]
    env: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    entrypoint: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    cmd: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    working_dir: String,
    stop_signal: Option<String>,
    /// Folders; what is said of each is always empty.
    #[serde(deserialize_with = "null_as_default")]
    volumes: BTreeMap<String, serde::de::IgnoredAny>,
}

/// The layers' digests, unpacked, bottom first.
#[derive(Debug, Deserialize)]
pub(super) struct RootfsDocument {
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) diff_ids: Vec<String>,
}

impl Platform {
    /// The one that images must be for here.
    pub(super) fn here() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "riscv64" => "riscv64",
            other => other,
        };
        Self {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            variant: String::new(),
        }
    }

    /// Whether something for this platform runs on `machine`. A baseline variant does, an unset
    /// one, too.
    pub(super) fn runs_on(&self, machine: &Self) -> bool {
        let baseline = match self.architecture.as_str() {
            "amd64" => "v1",
            "arm64" => "v8",
            _ => "",
        };
        self.os == machine.os
            && self.architecture == machine.architecture
            && (self.variant.is_empty() || self.variant == baseline)
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match self.variant.as_str() {
            "" => Ok(()),
            variant => write!(f, "/{variant}"),
        }
    }
}

impl ConfigDocument {
    /// What it says about the process.
    pub(super) fn process(&self) -> ImageConfig {
        let said = &self.config;
        let pair = |entry: &String| match entry.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (entry.clone(), String::new()),
        };
        let working_dir = match said.working_dir.as_str() {
            "" => "/".to_owned(),
            dir => dir.to_owned(),
        };
        ImageConfig {
            entrypoint: said.entrypoint.clone(),
            cmd: said.cmd.clone(),
            env: said.env.iter().map(pair).collect(),
            working_dir,
            user: said.user.clone(),
            stop_signal: said.stop_signal.clone().filter(|signal| !signal.is_empty()),
            volumes: said.volumes.keys().cloned().collect(),
        }
    }
}

/// Reads a document; the error names it.
pub(super) fn read<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_of_docker_with_nulls_reads_as_an_empty_one() {
        let config: ConfigDocument = read(
            "config",
            br#"{"architecture":"amd64","os":"linux","config":{"Env":["A=b=c","D"],"Cmd":null,"Entrypoint":["/x"],
            "WorkingDir":"","User":"1:2","StopSignal":"SIGQUIT","Labels":null,"Volumes":{"/data":{},"/cache":{}}},"rootfs":{"type":"layers","diff_ids":null}}"#,
        )
        .unwrap();
        let process = config.process();
        assert_eq!(process.env, [("A".into(), "b=c".into()), ("D".into(), String::new())]);
        assert_eq!((process.entrypoint, process.cmd), (vec!["/x".to_owned()], vec![]));
        assert_eq!((process.working_dir.as_str(), process.user.as_str()), ("/", "1:2"));
        assert_eq!(process.stop_signal.as_deref(), Some("SIGQUIT"));
        assert_eq!(process.volumes, ["/cache", "/data"]);
        assert!(config.rootfs.diff_ids.is_empty());
    }

    #[test]
    fn variants_beyond_the_baseline_are_not_taken() {
        let platform = |os: &str, architecture: &str, variant: &str| Platform {
            os: os.into(),
            architecture: architecture.into(),
            variant: variant.into(),
        };
        let arm = platform("linux", "arm64", "");
        let cases = [
            (platform("linux", "arm64", ""), true),
            (platform("linux", "arm64", "v8"), true),
            (platform("linux", "arm64", "v9"), false),
            (platform("linux", "amd64", ""), false),
            (platform("windows", "arm64", ""), false),
            (platform("unknown", "unknown", ""), false),
        ];
        for (platform, expected) in cases {
            assert_eq!(platform.runs_on(&arm), expected, "{platform}");
        }
    }
}
