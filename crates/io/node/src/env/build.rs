//! Building the list of variables.

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapEnvSource, Container, EnvFromSource, EnvVar, EnvVarSource, Pod, Secret,
    SecretEnvSource,
};

use super::expansion::expand;
use super::field_ref::{FieldRefError, PodFacts, downward_field};
use super::files::{EnvFiles, FileKeyError};
use super::resource_ref::{Allocatable, ResourceError, resource_value};
use super::service_variables::{Variables, api_variables};
use crate::objects::{FetchedObjects, ObjectRef};

/// What a container's environment is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvInputs<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The container.
    pub container: &'a Container,
    /// What is not in the pod's spec.
    pub facts: &'a PodFacts,
    /// The node's own amounts.
    pub allocatable: &'a Allocatable,
    /// The ConfigMaps and Secrets that the container refers to.
    pub objects: &'a FetchedObjects,
    /// The files in the pod's volumes that it refers to.
    pub files: &'a EnvFiles,
    /// Of the Services in the pod's namespace.
    pub services: &'a Variables,
}

/// The variables in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    /// Names and values; each name once.
    pub variables: Variables,
    /// Keys of envFrom sources that cannot name a variable and were left out, for an event.
    pub skipped: Vec<String>,
}

/// Why a container's environment cannot be made: `CreateContainerConfigError`. The texts are the
/// kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvError {
    /// A ConfigMap or Secret is absent.
    #[error("{0} not found")]
    NotFound(ObjectRef),
    /// It is there but has no such key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoSuchKey {
        /// ConfigMap or Secret.
        kind: &'static str,
        /// Whose.
        namespace: String,
        /// Which.
        name: String,
        /// The key.
        key: String,
    },
    /// A Secret's value is not text.
    #[error("env {name:?}: the value of key {key:?} is not valid UTF-8")]
    NotText {
        /// The variable.
        name: String,
        /// The key.
        key: String,
    },
    /// A field that the downward API does not offer.
    #[error(transparent)]
    Field(#[from] FieldRefError),
    /// A resource amount.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// A file in a volume.
    #[error(transparent)]
    File(#[from] FileKeyError),
    /// A kind of source that this version cannot read.
    #[error("env {0:?}: valueFrom names no source that is supported")]
    NoSource(String),
}

/// The address of the API, then Services, envFrom and env: a later entry of the same name wins, and
/// a value may refer to what stands before it.
pub(crate) fn build_environment(inputs: EnvInputs<'_>) -> Result<Environment, EnvError> {
    let mut environment = Environment::default();
    for (name, value) in inputs.facts.api.into_iter().flat_map(api_variables) {
        environment.set(&name, value);
    }
    for (name, value) in inputs.services {
        environment.set(name, value.clone());
    }
    for source in inputs.container.env_from.iter().flatten() {
        add_all_keys(inputs, source, &mut environment)?;
    }
    for variable in inputs.container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (_, Some(source)) => match value_from(inputs, variable, source)? {
                Some(value) => value,
                None => continue, // optional and absent: the variable is not set
            },
            (value, None) => {
                expand(value.as_deref().unwrap_or_default(), |name| environment.get(name))
            }
        };
        environment.set(&variable.name, value);
    }
    Ok(environment)
}

impl Environment {
    fn get(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn set(&mut self, name: &str, value: String) {
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some(entry) => entry.1 = value,
            None => self.variables.push((name.to_owned(), value)),
        }
    }
}

fn add_all_keys(
    inputs: EnvInputs<'_>,
    source: &EnvFromSource,
    environment: &mut Environment,
) -> Result<(), EnvError> {
    let prefix = source.prefix.as_deref().unwrap_or_default();
    let mut add = |key: &str, value: String| {
        let name = format!("{prefix}{key}");
        if is_variable_name(&name) {
            environment.set(&name, value);
        } else {
            environment.skipped.push(name);
        }
    };
    if let Some(source) = &source.config_map_ref
        && let Some(map) = config_map(inputs, &source.name, is_optional_map(source))?
    {
        for (key, value) in map.data.iter().flatten() {
            add(key, value.clone());
        }
    }
    if let Some(source) = &source.secret_ref
        && let Some(secret) = secret(inputs, &source.name, is_optional_secret(source))?
    {
        for (key, value) in secret.data.iter().flatten() {
            // as the kubelet, which takes the bytes as they are; here a variable is text
            add(key, String::from_utf8_lossy(&value.0).into_owned());
        }
    }
    Ok(())
}

fn is_optional_map(source: &ConfigMapEnvSource) -> SourcePresence {
    SourcePresence::from_optional(source.optional)
}

fn is_optional_secret(source: &SecretEnvSource) -> SourcePresence {
    SourcePresence::from_optional(source.optional)
}

/// Whether a source must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourcePresence {
    Required,
    Optional,
}

impl SourcePresence {
    fn from_optional(optional: Option<bool>) -> Self {
        if optional == Some(true) { SourcePresence::Optional } else { SourcePresence::Required }
    }
}

fn value_from(
    inputs: EnvInputs<'_>,
    variable: &EnvVar,
    source: &EnvVarSource,
) -> Result<Option<String>, EnvError> {
    if let Some(field) = &source.field_ref {
        return Ok(Some(downward_field(inputs.pod, inputs.facts, &field.field_path)?));
    }
    if let Some(selector) = &source.resource_field_ref {
        let container = named_container(inputs, selector.container_name.as_deref())?;
        let allocatable = inputs.allocatable.within(inputs.pod);
        return Ok(Some(resource_value(container, selector, &allocatable)?));
    }
    if let Some(selector) = &source.config_map_key_ref {
        let presence = SourcePresence::from_optional(selector.optional);
        let Some(map) = config_map(inputs, &selector.name, presence)? else { return Ok(None) };
        let value = map.data.as_ref().and_then(|data| data.get(&selector.key)).cloned();
        return required(value, presence, || {
            no_key(inputs, "ConfigMap", &selector.name, &selector.key)
        });
    }
    if let Some(selector) = &source.secret_key_ref {
        let presence = SourcePresence::from_optional(selector.optional);
        let Some(secret) = secret(inputs, &selector.name, presence)? else { return Ok(None) };
        let Some(bytes) = secret.data.as_ref().and_then(|data| data.get(&selector.key)) else {
            return required(None, presence, || {
                no_key(inputs, "Secret", &selector.name, &selector.key)
            });
        };
        let text = std::str::from_utf8(&bytes.0).map_err(|_| EnvError::NotText {
            name: variable.name.clone(),
            key: selector.key.clone(),
        })?;
        return Ok(Some(text.to_owned()));
    }
    if let Some(selector) = &source.file_key_ref {
        return Ok(inputs.files.value(selector)?);
    }
    Err(EnvError::NoSource(variable.name.clone()))
}

fn required(
    value: Option<String>,
    presence: SourcePresence,
    error: impl FnOnce() -> EnvError,
) -> Result<Option<String>, EnvError> {
    match (value, presence) {
        (Some(value), _) => Ok(Some(value)),
        (None, SourcePresence::Optional) => Ok(None),
        (None, SourcePresence::Required) => Err(error()),
    }
}

fn no_key(inputs: EnvInputs<'_>, kind: &'static str, name: &str, key: &str) -> EnvError {
    EnvError::NoSuchKey {
        kind,
        namespace: namespace(inputs.pod).to_owned(),
        name: name.to_owned(),
        key: key.to_owned(),
    }
}

fn named_container<'a>(
    inputs: EnvInputs<'a>,
    name: Option<&str>,
) -> Result<&'a Container, ResourceError> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(inputs.container) };
    let spec = inputs.pod.spec.as_ref();
    spec.iter()
        .flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()))
        .find(|container| container.name == name)
        .ok_or_else(|| ResourceError::NoSuchContainer(name.to_owned()))
}

fn config_map<'a>(
    inputs: EnvInputs<'a>,
    name: &str,
    presence: SourcePresence,
) -> Result<Option<&'a ConfigMap>, EnvError> {
    let reference = ObjectRef::config_map(namespace(inputs.pod), name);
    match (inputs.objects.config_map(&reference), presence) {
        (Some(found), _) => Ok(Some(found)),
        (None, SourcePresence::Optional) => Ok(None),
        (None, SourcePresence::Required) => Err(EnvError::NotFound(reference)),
    }
}

fn secret<'a>(
    inputs: EnvInputs<'a>,
    name: &str,
    presence: SourcePresence,
) -> Result<Option<&'a Secret>, EnvError> {
    let reference = ObjectRef::secret(namespace(inputs.pod), name);
    match (inputs.objects.secret(&reference), presence) {
        (Some(found), _) => Ok(Some(found)),
        (None, SourcePresence::Optional) => Ok(None),
        (None, SourcePresence::Required) => Err(EnvError::NotFound(reference)),
    }
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

/// Printable ASCII without `=`: what Kubernetes accepts since relaxed validation of variable names
/// (KEP-4369).
fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}
