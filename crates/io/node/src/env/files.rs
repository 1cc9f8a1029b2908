//! The files that a container's `fileKeyRef`s name, read from the pod's emptyDirs before its
//! environment is made.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, FileKeySelector, Pod};
use rekindle_runtime::MountSource;

use super::env_file::{EnvFileError, value_in};
use crate::container_spec::VolumePath;
use crate::volumes::read_file_beneath;

/// The most that is read of one file, bytes: what a ConfigMap may hold. The kubelet limits the
/// lines, not the file, and names and values no more than those of other sources (the limits of
/// KEP-3721's alpha stage are gone).
const MAX_FILE: u64 = 1 << 20;

/// Why a variable cannot be taken from a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileKeyError {
    /// There is no such volume, or it is no emptyDir.
    #[error("cannot find the emptyDir volume {0:?} referenced by FileKeyRef")]
    NoVolume(String),
    /// The file is there and cannot be read, or it is absent and must be there.
    #[error("couldn't read env file {path:?} of volume {volume:?}: {reason}")]
    Unreadable {
        /// The volume's name.
        volume: String,
        /// The path in it.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// It does not have the form of such a file.
    #[error("couldn't parse env file {path:?} of volume {volume:?}: {source}")]
    Malformed {
        /// The volume's name.
        volume: String,
        /// The path in it.
        path: String,
        /// What is wrong.
        source: EnvFileError,
    },
    /// The file does not name the variable, or gives it no value: the kubelet does not tell these
    /// apart.
    #[error("environment variable key {key:?} not found in file {path:?}")]
    NoSuchKey {
        /// The variable's name in the file.
        key: String,
        /// The path in the volume.
        path: String,
    },
}

/// What was found at each path of each volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct EnvFiles {
    files: BTreeMap<(String, String), EnvFileContent>,
}

#[derive(Clone, Debug)]
enum EnvFileContent {
    Text(String),
    Absent,
    Unreadable(String),
}

impl EnvFiles {
    /// Reads what the container's variables name. What cannot be read is told when it is asked for.
    pub(crate) fn read(
        pod: &Pod,
        container: &Container,
        volumes: &BTreeMap<String, VolumePath>,
    ) -> Self {
        let mut files = BTreeMap::new();
        let sources = container.env.iter().flatten().filter_map(|env| env.value_from.as_ref());
        for selector in sources.filter_map(|source| source.file_key_ref.as_ref()) {
            let Some(folder) = empty_dir(pod, volumes, &selector.volume_name) else { continue };
            let place = (selector.volume_name.clone(), selector.path.clone());
            files.entry(place).or_insert_with(|| EnvFileContent::at(folder, &selector.path));
        }
        Self { files }
    }

    /// The value of one variable; none if its file or its name in there is absent and that is
    /// allowed.
    pub(super) fn value(&self, selector: &FileKeySelector) -> Result<Option<String>, FileKeyError> {
        let FileKeySelector { key, path, volume_name, optional } = selector;
        let required = *optional != Some(true);
        let unreadable = |reason: &str| FileKeyError::Unreadable {
            volume: volume_name.clone(),
            path: path.clone(),
            reason: reason.to_owned(),
        };
        let text = match self.files.get(&(volume_name.clone(), path.clone())) {
            Some(EnvFileContent::Text(text)) => text,
            Some(EnvFileContent::Absent) if required => {
                return Err(unreadable("it does not exist"));
            }
            Some(EnvFileContent::Absent) => return Ok(None),
            Some(EnvFileContent::Unreadable(reason)) => return Err(unreadable(reason)),
            None => return Err(FileKeyError::NoVolume(volume_name.clone())),
        };
        let value = value_in(text, key).map_err(|source| FileKeyError::Malformed {
            volume: volume_name.clone(),
            path: path.clone(),
            source,
        })?;
        match value.filter(|value| !value.is_empty()) {
            Some(value) => Ok(Some(value)),
            None if required => {
                Err(FileKeyError::NoSuchKey { key: key.clone(), path: path.clone() })
            }
            None => Ok(None),
        }
    }
}

impl EnvFileContent {
    fn at(folder: &Path, path: &str) -> Self {
        match read_file_beneath(folder, Path::new(path), MAX_FILE) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Self::Text(text),
                Err(_) => Self::Unreadable("it is not valid UTF-8".to_owned()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Absent,
            Err(error) => Self::Unreadable(error.to_string()),
        }
    }
}

/// Where an emptyDir stands. Volumes of other kinds are not looked into, whatever the API let
/// through.
fn empty_dir<'a>(
    pod: &Pod,
    volumes: &'a BTreeMap<String, VolumePath>,
    name: &str,
) -> Option<&'a Path> {
    let declared = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    declared.into_iter().find(|volume| volume.name == name && volume.empty_dir.is_some())?;
    match &volumes.get(name)?.source {
        MountSource::Host(path) => Some(path),
        MountSource::Image(_) => None,
    }
}
