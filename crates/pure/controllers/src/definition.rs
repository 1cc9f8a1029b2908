//! Kinds that CustomResourceDefinitions describe, as far as controllers care: their names, so that
//! their objects can be collected as garbage and deleted with their namespace.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::ResourceScope;
use rekindle_types::definition::is_established;

use crate::kind::{KindInfo, ViewDetail};

/// A kind that a definition describes. Equal names are equal kinds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomKind(&'static CustomKindNames);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct CustomKindNames {
    group: String,
    version: String,
    plural: String,
    kind: String,
    is_namespaced: bool,
}

impl CustomKindNames {
    /// The names for the life of the process: identities of objects are copied far too often to own
    /// them, and there are as few as there ever were definitions.
    fn keep(self) -> CustomKind {
        static KEPT: Mutex<BTreeSet<&'static CustomKindNames>> = Mutex::new(BTreeSet::new());
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(&self) {
            return CustomKind(known);
        }
        let names = Box::leak(Box::new(self));
        kept.insert(names);
        CustomKind(names)
    }
}

impl CustomKind {
    /// Its names. The view holds the metadata of its objects.
    pub const fn info(self) -> KindInfo {
        KindInfo {
            kind: self.0.kind.as_str(),
            group: self.0.group.as_str(),
            version: self.0.version.as_str(),
            plural: self.0.plural.as_str(),
            scope: match self.0.is_namespaced {
                true => ResourceScope::Namespaced,
                false => ResourceScope::Cluster,
            },
            held: ViewDetail::Metadata,
        }
    }
}

impl fmt::Debug for CustomKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.plural, self.0.group)
    }
}

/// A CustomResourceDefinition as the view holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldDefinition {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// The kind, once it is served.
    pub kind: Option<CustomKind>,
}

impl From<&CustomResourceDefinition> for HeldDefinition {
    fn from(definition: &CustomResourceDefinition) -> Self {
        // any version shows the same metadata; the stored one is there the longest
        let served = || definition.spec.versions.iter().filter(|version| version.served);
        let version = served().find(|version| version.storage).or_else(|| served().next());
        let kind = version.filter(|_| is_established(definition)).map(|version| {
            let names = CustomKindNames {
                group: definition.spec.group.clone(),
                version: version.name.clone(),
                plural: definition.spec.names.plural.clone(),
                kind: definition.spec.names.kind.clone(),
                is_namespaced: definition.spec.scope != "Cluster",
            };
            names.keep()
        });
        let metadata = ObjectMeta { managed_fields: None, ..definition.metadata.clone() };
        Self { metadata, kind }
    }
}

impl From<CustomResourceDefinition> for HeldDefinition {
    fn from(definition: CustomResourceDefinition) -> Self {
        Self::from(&definition)
    }
}
