//! From a manifest to the pod that the node runs, and to the mirror that the API shows. Pure.

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rekindle_types::pod_annotations::MIRROR;
use rekindle_types::{PodUid, taints};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::objects::pod_references;

/// Where a pod comes from: `file` for a static one.
const SOURCE: &str = "kubernetes.io/config.source";
/// The UID of the static pod, which is made from its manifest.
const HASH: &str = "kubernetes.io/config.hash";
/// The namespace of a manifest that names none.
const NAMESPACE_DEFAULT: &str = "default";
/// Hexadecimal digits of a UID that is made from a manifest.
const UID_DIGITS: usize = 32;

/// Whether it is a pod of the node's own manifests.
pub(crate) fn is_static(pod: &Pod) -> bool {
    let source = pod.metadata.annotations.as_ref().and_then(|all| all.get(SOURCE));
    source.is_some_and(|source| source != "api")
}

/// Why a file is no static pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StaticPodError {
    /// It cannot be read.
    #[error("read the file: {0}")]
    Read(String),
    /// Somebody but root may have written it, and what stands in it runs as root.
    #[error("{0}")]
    Writable(String),
    /// It is no manifest.
    #[error("{0}")]
    Syntax(String),
    /// It holds none, or several.
    #[error("a static pod's file holds one object, this one {0}")]
    Count(usize),
    /// It is something else.
    #[error("a static pod is a Pod of v1, this is {0}")]
    Kind(String),
    /// It has no name.
    #[error("metadata.name: required value")]
    Name,
    /// It refers to what only the API has.
    #[error("{0}: a static pod may not refer to other objects of the API")]
    Reference(String),
    /// The API does not take it.
    #[error("{0}")]
    Refused(String),
    /// Another file has a pod of that name.
    #[error("pod {name} is in file {first} already")]
    Twice {
        /// Namespace and name.
        name: String,
        /// The file that counts.
        first: String,
    },
}

/// A manifest, with what a static pod has beyond it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StaticPodManifest {
    /// Made from node, file and text: another text is another pod.
    pub(crate) uid: PodUid,
    /// The pod's namespace.
    pub(crate) namespace: String,
    /// The pod's name, with the node's at its end.
    pub(crate) name: String,
    /// The object to be completed with the API's defaults.
    object: Value,
}

impl StaticPodManifest {
    /// Reads the text of `file` for this node.
    pub(crate) fn read(text: &str, file: &Path, node: &str) -> Result<Self, StaticPodError> {
        let objects = rekindle_manifest::objects(text)
            .map_err(|error| StaticPodError::Syntax(error.to_string()))?;
        let count = objects.len();
        let mut objects = objects.into_iter().map(Value::Object);
        let (Some(mut object), None) = (objects.next(), objects.next()) else {
            return Err(StaticPodError::Count(count));
        };
        let text_of = |name: &str| object[name].as_str().unwrap_or("nothing").to_owned();
        if (object["apiVersion"].as_str(), object["kind"].as_str()) != (Some("v1"), Some("Pod")) {
            let kind = format!("{} of {}", text_of("kind"), text_of("apiVersion"));
            return Err(StaticPodError::Kind(kind));
        }
        let uid = uid(&object, file, node);
        let name = match object["metadata"]["name"].as_str() {
            Some(name) if !name.is_empty() => format!("{name}-{}", node.to_lowercase()),
            Some(_) | None => return Err(StaticPodError::Name),
        };
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(NAMESPACE_DEFAULT);
        let namespace = namespace.to_owned();
        object["metadata"]["namespace"] = json!(namespace);
        let annotations = &mut object["metadata"]["annotations"];
        if annotations.is_null() {
            *annotations = Value::Object(Map::new());
        }
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(SOURCE.to_owned(), json!("file"));
            annotations.insert(HASH.to_owned(), json!(uid.0));
            annotations.insert(MIRROR.to_owned(), json!(uid.0));
        }
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.insert("nodeName".to_owned(), json!(node));
        }
        Ok(Self { uid, namespace, name, object })
    }

    /// What the API is asked to try to create, so that it says what it thinks of it and fills in
    /// its defaults. Under a name of its own, as the mirror may stand already.
    pub(crate) fn trial(&self) -> Value {
        let mut object = self.object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("name");
            metadata.insert("generateName".to_owned(), json!(format!("{}-", self.name)));
        }
        object
    }

    /// The static pod, from the API's answer to the trial.
    pub(crate) fn complete(&self, answer: Pod) -> Result<Pod, StaticPodError> {
        let mut pod = answer;
        refuse_references(&pod)?;
        let metadata = &mut pod.metadata;
        metadata.name = Some(self.name.clone());
        metadata.namespace = Some(self.namespace.clone());
        metadata.uid = Some(self.uid.0.clone());
        metadata.generate_name = None;
        metadata.resource_version = None;
        metadata.managed_fields = None;
        if let Some(annotations) = &mut metadata.annotations {
            annotations.remove(MIRROR);
        }
        if let Some(spec) = &mut pod.spec {
            tolerate_everything(spec);
        }
        Ok(pod)
    }
}

/// The mirror of a static pod, to be created.
pub(crate) fn mirror_of(pod: &Pod, node: Option<OwnerReference>) -> Pod {
    let mut mirror = pod.clone();
    let uid = mirror.metadata.uid.take().unwrap_or_default();
    mirror.metadata.creation_timestamp = None;
    mirror.metadata.owner_references = node.map(|node| vec![node]);
    mirror.metadata.annotations.get_or_insert_default().insert(MIRROR.to_owned(), uid);
    mirror.status = None;
    mirror
}

/// A pod of the API is none of this node's own, whatever its annotations say: it would not be
/// evicted.
pub(crate) fn disown(pod: &mut Pod) {
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.remove(SOURCE);
    }
}

/// The UID of the static pod that a mirror shows.
pub(crate) fn hash_of_mirror(pod: &Pod) -> Option<&str> {
    Some(pod.metadata.annotations.as_ref()?.get(MIRROR)?.as_str())
}

/// A taint does not end a static pod: nobody could place it elsewhere
/// (`pkg/kubelet/config/common.go`).
fn tolerate_everything(spec: &mut k8s_openapi::api::core::v1::PodSpec) {
    let everything = k8s_openapi::api::core::v1::Toleration {
        effect: Some(taints::NO_EXECUTE.to_owned()),
        operator: Some("Exists".to_owned()),
        ..Default::default()
    };
    let tolerations = spec.tolerations.get_or_insert_default();
    if !tolerations.contains(&everything) {
        tolerations.push(everything);
    }
}

fn refuse_references(pod: &Pod) -> Result<(), StaticPodError> {
    let refused = |what: String| Err(StaticPodError::Reference(what));
    if let Some(reference) = pod_references(pod).first() {
        return refused(reference.to_string());
    }
    let Some(spec) = &pod.spec else { return Ok(()) };
    let account = spec.service_account_name.as_deref().unwrap_or_default();
    if !account.is_empty() {
        return refused(format!("spec.serviceAccountName: {account:?}"));
    }
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() {
            return refused(format!("spec.volumes[{index}]: a persistent volume claim"));
        }
        let sources = volume.projected.iter().flat_map(|volume| volume.sources.iter().flatten());
        if sources.into_iter().any(|source| source.service_account_token.is_some()) {
            return refused(format!("spec.volumes[{index}].projected: a service account token"));
        }
    }
    Ok(())
}

fn uid(object: &Value, file: &Path, node: &str) -> PodUid {
    let mut digest = Sha256::new();
    for part in [node.as_bytes(), file.as_os_str().as_encoded_bytes()] {
        digest.update(part);
        digest.update([0]);
    }
    digest.update(object.to_string());
    let mut uid = String::with_capacity(UID_DIGITS);
    for byte in digest.finalize().iter().take(UID_DIGITS / 2) {
        uid.push_str(&format!("{byte:02x}"));
    }
    PodUid(uid)
}
