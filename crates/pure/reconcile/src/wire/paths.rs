//! Where the API has objects.

use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use rekindle_types::validation::names;
use rekindle_types::{ResourceScope, path_segment};

/// Where objects of the kind of `id` are created and listed.
///
/// # Errors
/// When the kind lives in namespaces and `id` names none, or the other way round.
pub fn collection(id: &ObjectId) -> Result<String, PathError> {
    let info = id.kind.info();
    let root = if info.group.is_empty() {
        format!("/api/{}", info.version)
    } else {
        format!("/apis/{}/{}", info.group, info.version)
    };
    let namespace = id.name.namespace.as_str();
    match info.scope {
        ResourceScope::Namespaced if is_segment(namespace) => {
            let namespace = path_segment::escape(namespace);
            Ok(format!("{root}/namespaces/{namespace}/{}", info.plural))
        }
        ResourceScope::Cluster if namespace.is_empty() => Ok(format!("{root}/{}", info.plural)),
        ResourceScope::Namespaced | ResourceScope::Cluster => {
            Err(PathError::Namespace { kind: id.kind, name: id.name.clone() })
        }
    }
}

/// An object that cannot be asked for. A request for it would be one for something else: without a
/// name, for all objects of the kind; without a namespace, for one that no namespace has, which is
/// always found to be absent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Its name cannot stand in a path.
    #[error("ask for {kind} {:?}: that is no name of an object", name.to_string())]
    Name {
        /// The kind.
        kind: ResourceKind,
        /// What it is called.
        name: NamespacedName,
    },
    /// It has no namespace and its kind lives in one, or the other way round.
    #[error("ask for {kind} {:?}: that is no namespace for an object of its kind", name.to_string())]
    Namespace {
        /// The kind.
        kind: ResourceKind,
        /// What it is called.
        name: NamespacedName,
    },
}

/// The path of an object, followed by that of a subresource (`/status`).
///
/// # Errors
/// When the object has no name, or one that is more or less than a segment of a path, or a
/// namespace that is not one for its kind.
pub fn path(id: &ObjectId, subresource: &str) -> Result<String, PathError> {
    let name = id.name.name.as_str();
    if !is_segment(name) {
        return Err(PathError::Name { kind: id.kind, name: id.name.clone() });
    }
    Ok(format!("{}/{}{subresource}", collection(id)?, path_segment::escape(name)))
}

/// True for a text that is one segment of a path, no more and no less.
fn is_segment(text: &str) -> bool {
    !text.is_empty() && names::path_segment(text).is_empty()
}
