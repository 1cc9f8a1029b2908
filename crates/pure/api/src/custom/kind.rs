//! What a definition says of its kind: names, versions, whether it is served.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionVersion,
};
use rekindle_kinds::registry::object_meta::FinalizerRule;
use rekindle_kinds::registry::resource::MetadataChecks;
use rekindle_kinds::registry::{KindEntry, KindOrigin, ResourceScope, Subresource};
use rekindle_kinds::validation::names::NameRule;
use rekindle_kinds::validation::text;
use rekindle_store::StoredObject;
use rekindle_types::definition::is_established;

use super::version::{DefinedVersions, VersionCodec};
use super::{columns, definitions_entry};
use crate::shared::ApiShared;

/// The finalizer that keeps a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A kind as its definition describes it.
pub(crate) struct CustomKind {
    pub(crate) group: String,
    /// The names that it asks for.
    pub(crate) wanted: CustomResourceDefinitionNames,
    /// The names that it has.
    pub(crate) accepted: CustomResourceDefinitionNames,
    pub(crate) scope: ResourceScope,
    is_established: bool,
    has_conflict: bool,
    is_going: bool,
    versions: Vec<KindVersion>,
}

struct KindVersion {
    entry: Arc<KindEntry>,
    is_served: bool,
    is_stored: bool,
}

/// Whether objects of this group and plural name are those of a built-in kind.
pub(super) fn is_place_of_server(api: &ApiShared, group: &str, plural: &str) -> bool {
    api.registry.find_resource(group, plural).is_some()
}

impl CustomKind {
    /// Of a definition as stored; none when it cannot be read.
    pub(super) fn read(api: &ApiShared, stored: &Arc<StoredObject>) -> Option<Self> {
        let entry = definitions_entry(api)?;
        let object = entry.codec.decode_stored(&stored.value).ok()?;
        let definition = object.as_any().downcast_ref::<CustomResourceDefinition>()?;
        let status = definition.status.as_ref();
        let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
        let is_free =
            !is_place_of_server(api, &definition.spec.group, &definition.spec.names.plural);
        let mut kind = Self {
            group: definition.spec.group.clone(),
            wanted: definition.spec.names.clone(),
            accepted: status.and_then(|s| s.accepted_names.clone()).unwrap_or_default(),
            scope: match definition.spec.scope.as_str() {
                "Cluster" => ResourceScope::Cluster,
                _ => ResourceScope::Namespaced,
            },
            is_established: is_free && is_established(definition),
            has_conflict: conditions.any(|c| c.type_ == "NamesAccepted" && c.status != "True"),
            is_going: definition.metadata.deletion_timestamp.is_some(),
            versions: Vec::new(),
        };
        let spec = &definition.spec;
        let versions = DefinedVersions::new(Arc::clone(stored), spec);
        for (index, version) in spec.versions.iter().enumerate() {
            let codec = VersionCodec::new(&versions, index);
            let entry = Arc::new(kind.entry(version, codec));
            let (is_served, is_stored) = (version.served, version.storage);
            kind.versions.push(KindVersion { entry, is_served, is_stored });
        }
        Some(kind)
    }

    /// The kind in this version, when it is served.
    pub(super) fn version(&self, version: &str) -> Option<Arc<KindEntry>> {
        self.served().into_iter().find(|entry| entry.version == version)
    }

    /// The kind in this version, served or not.
    pub(super) fn any_version(&self, version: &str) -> Option<Arc<KindEntry>> {
        let found = self.versions.iter().find(|one| one.entry.version == version);
        found.map(|one| Arc::clone(&one.entry))
    }

    /// The kind in each version that is served.
    pub(crate) fn served(&self) -> Vec<Arc<KindEntry>> {
        let versions = self.versions.iter().filter(|one| self.is_established && one.is_served);
        versions.map(|one| Arc::clone(&one.entry)).collect()
    }

    /// Whether it asks for names that it does not have, or its status does not say that it has
    /// them.
    pub(crate) fn waits_for_names(&self) -> bool {
        !self.is_established || self.has_conflict || self.wanted != self.accepted
    }

    /// Whether its definition was deleted, and waits for its objects.
    pub(crate) const fn is_going(&self) -> bool {
        self.is_going
    }

    /// Its objects, with writes that are on their way. A definition that asks for the place of a
    /// kind of this server has none: those that are there are not its own.
    pub(crate) fn objects(&self, api: &ApiShared) -> Vec<Arc<StoredObject>> {
        let prefix = self.prefix_of_objects(api);
        prefix.map_or_else(Vec::new, |prefix| api.store.newest_below(&prefix).0)
    }

    /// Whether it has any. None is read.
    pub(super) fn has_objects(&self, api: &ApiShared) -> bool {
        self.prefix_of_objects(api).is_some_and(|prefix| api.store.has_newest_below(&prefix))
    }

    fn prefix_of_objects(&self, api: &ApiShared) -> Option<String> {
        (!is_place_of_server(api, &self.group, &self.wanted.plural))
            .then(|| ["/", &self.place_of_objects(), "/"].concat())
    }

    /// The first part of the keys of its objects: `widgets.example.com`.
    pub(crate) fn place_of_objects(&self) -> String {
        [&self.wanted.plural, ".", &self.group].concat()
    }

    /// The version that objects are stored in, served or not: what is read and written by another
    /// one loses the fields that only this one has.
    pub(crate) fn storage_version(&self) -> Option<&Arc<KindEntry>> {
        self.versions.iter().find(|one| one.is_stored).map(|one| &one.entry)
    }

    fn entry(&self, version: &CustomResourceDefinitionVersion, codec: VersionCodec) -> KindEntry {
        let names = &self.accepted;
        let owned = |text: &str| Cow::Owned(text.to_owned());
        let all = |names: &Option<Vec<String>>| names.iter().flatten().map(|n| owned(n)).collect();
        let api_version = format!("{}/{}", self.group, version.name);
        let mut subresources = Vec::new();
        if let Some(served) = &version.subresources {
            subresources.extend(served.status.as_ref().map(|_| Subresource::Status));
            subresources.extend(served.scale.as_ref().map(|_| Subresource::Scale));
        }
        let deprecation = match (version.deprecated, &version.deprecation_warning) {
            (Some(true), Some(warning)) => Some(warning.clone()),
            (Some(true), None) => Some(format!("{api_version} {} is deprecated", names.kind)),
            (Some(false) | None, _) => None,
        };
        let selectable = version.selectable_fields.iter().flatten();
        let selectable = selectable.map(|field| owned(field.json_path.trim_start_matches('.')));
        KindEntry {
            group: Cow::Owned(self.group.clone()),
            version: owned(&version.name),
            kind: owned(&names.kind),
            list_kind: owned(text(names.list_kind.as_ref())),
            plural: owned(&names.plural),
            singular: owned(text(names.singular.as_ref())),
            short_names: all(&names.short_names),
            categories: all(&names.categories),
            scope: self.scope,
            subresources,
            name_rule: NameRule::DnsSubdomain,
            creates_on_update: false,
            metadata_checks: MetadataChecks::OfUpdateAndObject,
            finalizers: FinalizerRule::Any,
            has_namespace_selector: self.scope == ResourceScope::Namespaced,
            needs_version_on_update: true,
            columns: columns::of_version(version).into(),
            selectable_fields: selectable.collect(),
            spec_annotation: None,
            origin: KindOrigin::Definition,
            deprecation: deprecation.map(Cow::Owned),
            codec: Arc::new(codec),
            home: None,
            api_version: api_version.into(),
        }
    }
}
