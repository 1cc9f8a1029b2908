//! What stands in a configMap, secret, projected or downwardAPI volume: pure, from the objects to
//! names, bytes, modes and owners.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, ConfigMapProjection, ConfigMapVolumeSource,
    DownwardAPIVolumeFile, KeyToPath, Pod, ProjectedVolumeSource, SecretProjection,
    SecretVolumeSource, ServiceAccountTokenProjection, Volume, VolumeProjection,
};

use super::trust_anchors;
use crate::container_spec::{SpecError, common_user, find_container, fs_group};
use crate::env::{
    Allocatable, FieldRefError, PodFacts, ResourceError, downward_field, resource_value,
};
use crate::objects::{FetchedObjects, ObjectRef};
use crate::tokens::{NoToken, TokenWish};

/// Files without a mode of their own.
const DEFAULT_MODE: i32 = 0o644;
/// A token that belongs to somebody.
const PRIVATE_MODE: i32 = 0o600;
/// Bytes of one volume at most. A single ConfigMap or Secret holds 1 MiB.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Files of one volume at most.
const FILES_MAX: usize = 20_000;

/// Files by their path in the volume.
pub(crate) type Payload = BTreeMap<String, PayloadFile>;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PayloadFile {
    /// Its content.
    pub data: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
    /// Whom it belongs to; root when none is named.
    pub owner: Option<u32>,
}

/// Why a volume's content cannot be put together. The texts are the kubelet's where it has them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PayloadError {
    /// The object is absent.
    #[error("{0} not found")]
    NotFound(ObjectRef),
    /// The ConfigMap has no such key.
    #[error("configmap references non-existent config key: {0}")]
    NoConfigKey(String),
    /// The Secret has no such key.
    #[error("references non-existent secret key: {0}")]
    NoSecretKey(String),
    /// No ClusterTrustBundle of the signer has these labels.
    #[error("combination of signerName and labelSelector matched zero ClusterTrustBundles")]
    NoTrustBundle,
    /// A path that would lead out of the volume.
    #[error("invalid path {0:?}: it must be relative, without \"..\" and not begin with \"..\"")]
    Path(String),
    /// The API gave no token.
    #[error(transparent)]
    Token(#[from] NoToken),
    /// A source that this version cannot provide.
    #[error("projected source {0} is not supported by this version")]
    Source(&'static str),
    /// A field of the downward API.
    #[error(transparent)]
    Field(#[from] FieldRefError),
    /// A resource of the downward API.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// A container that is named and not there.
    #[error(transparent)]
    Container(#[from] SpecError),
    /// Too much for a volume that the agent writes.
    #[error("the volume would hold more than {limit} {what}")]
    TooBig {
        /// How much is allowed.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
}

/// A file's mode and owner as its volume and its item ask for them.
#[derive(Clone, Copy, Debug)]
struct FileAttributes {
    mode: Option<i32>,
    user: Option<i64>,
}

impl FileAttributes {
    /// What an item says comes before what its volume says.
    fn of_item(self, mode: Option<i32>, user: Option<i64>) -> Self {
        Self { mode: mode.or(self.mode), user: user.or(self.user) }
    }

    fn mode(self) -> u32 {
        u32::try_from(self.mode.unwrap_or(DEFAULT_MODE)).unwrap_or(0o644) & 0o777
    }

    /// The API's validation keeps out what is no user id: they end where an `i32` does.
    fn owner(self) -> Option<u32> {
        let user = self.user.and_then(|user| i32::try_from(user).ok())?;
        u32::try_from(user).ok()
    }
}

/// What a payload is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayloadInputs<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What is not in its spec.
    pub facts: &'a PodFacts,
    /// The node's amounts.
    pub allocatable: &'a Allocatable,
    /// The objects that it refers to.
    pub objects: &'a FetchedObjects,
}

/// The files of a volume; `None` when it is not of a kind that the agent writes.
pub(crate) fn payload(
    inputs: PayloadInputs<'_>,
    volume: &Volume,
) -> Result<Option<Payload>, PayloadError> {
    let mut files = Payload::new();
    if let Some(source) = &volume.config_map {
        let usual = FileAttributes { mode: source.default_mode, user: source.default_user };
        add_config_map(inputs, &from_config_map(source), usual, &mut files)?;
    } else if let Some(source) = &volume.secret {
        let usual = FileAttributes { mode: source.default_mode, user: source.default_user };
        add_secret(inputs, &from_secret(source), usual, &mut files)?;
    } else if let Some(source) = &volume.downward_api {
        let usual = FileAttributes { mode: source.default_mode, user: source.default_user };
        add_downward(inputs, source.items.as_ref(), usual, &mut files)?;
    } else if let Some(source) = &volume.projected {
        add_projected(inputs, source, &mut files)?;
    } else {
        return Ok(None);
    }
    check_size(&files)?;
    Ok(Some(files))
}

fn check_size(files: &Payload) -> Result<(), PayloadError> {
    if files.len() > FILES_MAX {
        return Err(PayloadError::TooBig { limit: FILES_MAX, what: "files" });
    }
    if files.values().map(|file| file.data.len()).sum::<usize>() > BYTES_MAX {
        return Err(PayloadError::TooBig { limit: BYTES_MAX, what: "bytes" });
    }
    Ok(())
}

fn from_config_map(source: &ConfigMapVolumeSource) -> ConfigMapProjection {
    ConfigMapProjection {
        name: source.name.clone(),
        items: source.items.clone(),
        optional: source.optional,
    }
}

fn from_secret(source: &SecretVolumeSource) -> SecretProjection {
    SecretProjection {
        name: source.secret_name.clone().unwrap_or_default(),
        items: source.items.clone(),
        optional: source.optional,
    }
}

fn add_projected(
    inputs: PayloadInputs<'_>,
    volume: &ProjectedVolumeSource,
    files: &mut Payload,
) -> Result<(), PayloadError> {
    let usual = FileAttributes { mode: volume.default_mode, user: volume.default_user };
    for source in volume.sources.iter().flatten() {
        let VolumeProjection {
            config_map,
            secret,
            downward_api,
            service_account_token,
            cluster_trust_bundle,
            pod_certificate,
        } = source;
        if let Some(source) = config_map {
            add_config_map(inputs, source, usual, files)?;
        }
        if let Some(source) = secret {
            add_secret(inputs, source, usual, files)?;
        }
        if let Some(source) = downward_api {
            add_downward(inputs, source.items.as_ref(), usual, files)?;
        }
        if let Some(source) = service_account_token {
            add_token(inputs, source, usual, files)?;
        }
        if pod_certificate.is_some() {
            return Err(PayloadError::Source("podCertificate"));
        }
        if let Some(source) = cluster_trust_bundle {
            add_trust_bundle(inputs, source, usual, files)?;
        }
    }
    Ok(())
}

fn add_config_map(
    inputs: PayloadInputs<'_>,
    source: &ConfigMapProjection,
    usual: FileAttributes,
    files: &mut Payload,
) -> Result<(), PayloadError> {
    let optional = source.optional == Some(true);
    let reference = ObjectRef::config_map(namespace(inputs.pod), &source.name);
    let Some(map) = inputs.objects.config_map(&reference) else {
        return if optional { Ok(()) } else { Err(PayloadError::NotFound(reference)) };
    };
    let text = map.data.iter().flatten().map(|(key, value)| (key.as_str(), value.as_bytes()));
    let binary =
        map.binary_data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice()));
    let content: BTreeMap<&str, &[u8]> = text.chain(binary).collect();
    add_keys(&content, source.items.as_ref(), optional, usual, files, PayloadError::NoConfigKey)
}

fn add_secret(
    inputs: PayloadInputs<'_>,
    source: &SecretProjection,
    usual: FileAttributes,
    files: &mut Payload,
) -> Result<(), PayloadError> {
    let optional = source.optional == Some(true);
    let reference = ObjectRef::secret(namespace(inputs.pod), &source.name);
    let Some(secret) = inputs.objects.secret(&reference) else {
        return if optional { Ok(()) } else { Err(PayloadError::NotFound(reference)) };
    };
    let content: BTreeMap<&str, &[u8]> = secret
        .data
        .iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.0.as_slice()))
        .collect();
    add_keys(&content, source.items.as_ref(), optional, usual, files, PayloadError::NoSecretKey)
}

/// All keys, or those that `items` names, each at its path.
fn add_keys(
    content: &BTreeMap<&str, &[u8]>,
    items: Option<&Vec<KeyToPath>>,
    optional: bool,
    usual: FileAttributes,
    files: &mut Payload,
    missing: fn(String) -> PayloadError,
) -> Result<(), PayloadError> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        for (key, data) in content {
            add_file(key, data.to_vec(), usual, files)?;
        }
        return Ok(());
    };
    for item in items {
        match content.get(item.key.as_str()) {
            Some(data) => {
                let attributes = usual.of_item(item.mode, item.user);
                add_file(&item.path, data.to_vec(), attributes, files)?;
            }
            None if optional => {}
            None => return Err(missing(item.key.clone())),
        }
    }
    Ok(())
}

fn add_downward(
    inputs: PayloadInputs<'_>,
    items: Option<&Vec<DownwardAPIVolumeFile>>,
    usual: FileAttributes,
    files: &mut Payload,
) -> Result<(), PayloadError> {
    for item in items.into_iter().flatten() {
        let text = if let Some(field) = &item.field_ref {
            downward_field(inputs.pod, inputs.facts, &field.field_path)?
        } else if let Some(selector) = &item.resource_field_ref {
            let name = selector.container_name.as_deref().unwrap_or_default();
            let allocatable = inputs.allocatable.within(inputs.pod);
            resource_value(&*find_container(inputs.pod, name)?, selector, &allocatable)?
        } else {
            continue; // refused by the API's validation
        };
        let attributes = usual.of_item(item.mode, item.user);
        add_file(&item.path, text.into_bytes(), attributes, files)?;
    }
    Ok(())
}

/// A token is for the pod's processes alone where they are known to have a user or group of their
/// own, as with the kubelet.
fn add_token(
    inputs: PayloadInputs<'_>,
    source: &ServiceAccountTokenProjection,
    usual: FileAttributes,
    files: &mut Payload,
) -> Result<(), PayloadError> {
    let token = inputs.objects.token(&TokenWish::from_source(source))?;
    let mut attributes = usual.of_item(None, source.user);
    if attributes.owner().is_none() {
        attributes.user = common_user(inputs.pod)?.map(i64::from);
    }
    if attributes.owner().is_some() || fs_group(inputs.pod)?.is_some() {
        attributes.mode = Some(PRIVATE_MODE);
    }
    add_file(&source.path, token.as_bytes().to_vec(), attributes, files)
}

/// The certificates of all bundles that are meant, each once.
fn add_trust_bundle(
    inputs: PayloadInputs<'_>,
    source: &ClusterTrustBundleProjection,
    usual: FileAttributes,
    files: &mut Payload,
) -> Result<(), PayloadError> {
    let reference = ObjectRef::trust_bundles(source);
    let bundles = inputs.objects.trust_bundles(&reference).iter();
    let meant: Vec<_> = bundles.filter(|bundle| trust_anchors::is_meant(source, bundle)).collect();
    if meant.is_empty() && source.optional != Some(true) {
        return Err(match source.name {
            Some(_) => PayloadError::NotFound(reference),
            None => PayloadError::NoTrustBundle,
        });
    }
    let texts = meant.iter().map(|bundle| bundle.spec.trust_bundle.as_str());
    let attributes = usual.of_item(None, source.user);
    add_file(&source.path, trust_anchors::joined(texts).into_bytes(), attributes, files)
}

fn add_file(
    path: &str,
    data: Vec<u8>,
    attributes: FileAttributes,
    files: &mut Payload,
) -> Result<(), PayloadError> {
    let (mode, owner) = (attributes.mode(), attributes.owner());
    files.insert(checked_path(path)?, PayloadFile { data, mode, owner });
    Ok(())
}

/// Relative, plain, and never one of the names that the swap itself uses.
fn checked_path(path: &str) -> Result<String, PayloadError> {
    let refused = || PayloadError::Path(path.to_owned());
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str().ok_or_else(refused)?),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(refused());
            }
        }
    }
    if parts.first().is_none_or(|first| first.starts_with("..")) {
        return Err(refused());
    }
    Ok(parts.join("/"))
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}
