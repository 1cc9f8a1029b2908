//! A kind without its type: what the machinery holds so that one code path serves every kind.

use std::any::Any;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_structured_merge::TypedSchema;
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{ObjectJson, Tick};
use serde_json::{Value, json};

use super::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceScope, Subresource, TableCell, TableColumn,
};
use super::strategy::ObjectPart;
use super::{DecodeError, metadata};
use crate::registry::object_meta::{FinalizerRule, MetadataRules};
use crate::registry::{builtin_types, managed_entries};
use crate::validation::names::NameRule;

/// An object of some served kind. Implemented for every [`ApiKind`]; the methods are the kind's
/// own.
pub trait AnyObject: Send + Sync + 'static {
    /// Its metadata.
    fn meta(&self) -> &ObjectMeta;
    /// Its metadata, to be changed.
    fn meta_mut(&mut self) -> &mut ObjectMeta;
    /// See [`ApiKind::set_defaults`].
    fn set_defaults(&mut self);
    /// See [`ApiKind::prepare_for_create`].
    fn prepare_for_create(&mut self, ctx: &RequestContext<'_>);
    /// See [`ApiKind::prepare_named`].
    fn prepare_named(&mut self);
    /// Before an update of a part. See [`ApiKind::prepare_for_update`] and
    /// [`ApiKind::STRATEGIES`]. `old` must be of the same kind.
    fn prepare_update(&mut self, part: ObjectPart, old: &dyn AnyObject, ctx: &RequestContext<'_>);
    /// See [`ApiKind::validate`].
    fn validate(&self) -> Vec<FieldError>;
    /// See [`ApiKind::validate_created`].
    fn validate_created(&self) -> Vec<FieldError>;
    /// Everything wrong with an update of a part. See [`ApiKind::validate_update`] and
    /// [`ApiKind::STRATEGIES`]. `old` must be of the same kind.
    fn validate_change(&self, part: ObjectPart, old: &dyn AnyObject) -> Vec<FieldError>;
    /// See [`ApiKind::IS_COMPARED_FIRST`].
    fn is_compared_first(&self) -> bool {
        false
    }
    /// See [`ApiKind::warnings`].
    fn warnings(&self) -> Vec<String>;
    /// See [`ApiKind::warnings_of_change`]. `old` must be of the same kind.
    fn warnings_of_change(&self, _old: &dyn AnyObject) -> Vec<String> {
        self.warnings()
    }
    /// See [`ApiKind::warnings_of_new`].
    fn warnings_of_new(&self) -> Vec<String> {
        Vec::new()
    }
    /// See [`ApiKind::warnings_of_preparation`].
    fn warnings_of_preparation(&self) -> Vec<String> {
        Vec::new()
    }
    /// See [`ApiKind::selectable_fields`].
    fn selectable_fields(&self) -> Vec<(Cow<'static, str>, String)>;
    /// See [`ApiKind::deletion_grace_period_seconds`].
    fn deletion_grace_period_seconds(&self) -> i64;
    /// See [`ApiKind::row`].
    fn row(&self, now: Tick) -> Vec<TableCell>;
    /// As JSON text with `apiVersion` and `kind`, as it is stored.
    fn to_json(&self) -> Vec<u8>;
    /// As a JSON tree, in the version of its entry.
    fn to_value(&self) -> Value;
    /// The fields that upstream sees in this object before anyone has set them: its owners own
    /// nothing of that. `tracked` is [`Self::tracked_value`].
    fn blank_value(&self, _tracked: &Value) -> Value {
        json!({})
    }
    /// Whether an update of this part leaves all of the metadata as it is.
    fn keeps_metadata(&self, _part: ObjectPart) -> bool {
        false
    }
    /// See [`ApiKind::tracked_value`].
    fn tracked_value(&self) -> Value {
        self.to_value()
    }
    /// The same of what a patch of metadata and status is applied to: this metadata and the status,
    /// or the whole object; the fields of status that are replaced may be missing. See
    /// [`ApiKind::status_alone`].
    fn to_status_value(&self, metadata: &ObjectMeta, is_replaced: &dyn Fn(&str) -> bool) -> Value;
    /// Whether both are the same kind with the same content.
    fn same_as(&self, other: &dyn AnyObject) -> bool;
    /// Becomes a copy of `other`, which must be of the same kind.
    fn become_like(&mut self, other: &dyn AnyObject);
    /// A copy.
    fn boxed_clone(&self) -> Box<dyn AnyObject>;
    /// The same object as its own kind: other versions of a kind are views of what is stored.
    fn into_stored_form(self: Box<Self>) -> Box<dyn AnyObject>;
    /// For a look at the type behind it.
    fn as_any(&self) -> &dyn Any;
    /// For a change to the type behind it.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// For sharing the type behind it.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

fn same_kind<K: ApiKind>(object: &dyn AnyObject) -> &K {
    object.as_any().downcast_ref().expect("old and new object come from the same registry entry")
}

impl<K: ApiKind> AnyObject for K {
    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata_mut()
    }
    fn set_defaults(&mut self) {
        metadata::drop_empty(self.metadata_mut());
        ApiKind::set_defaults(self);
    }
    fn prepare_for_create(&mut self, ctx: &RequestContext<'_>) {
        ApiKind::prepare_for_create(self, ctx);
    }
    fn prepare_named(&mut self) {
        ApiKind::prepare_named(self);
    }
    fn prepare_update(&mut self, part: ObjectPart, old: &dyn AnyObject, ctx: &RequestContext<'_>) {
        match part {
            ObjectPart::Main => self.prepare_for_update(same_kind(old), ctx),
            ObjectPart::Status
            | ObjectPart::Finalize
            | ObjectPart::Resize
            | ObjectPart::EphemeralContainers
            | ObjectPart::Approval => {
                K::STRATEGIES.prepare(part, self, same_kind(old), ctx);
            }
        }
    }
    fn validate(&self) -> Vec<FieldError> {
        ApiKind::validate(self)
    }
    fn validate_created(&self) -> Vec<FieldError> {
        ApiKind::validate_created(self)
    }
    fn validate_change(&self, part: ObjectPart, old: &dyn AnyObject) -> Vec<FieldError> {
        match part {
            ObjectPart::Main => self.validate_update(same_kind(old)),
            ObjectPart::Status
            | ObjectPart::Finalize
            | ObjectPart::Resize
            | ObjectPart::EphemeralContainers
            | ObjectPart::Approval => K::STRATEGIES.validate(part, self, same_kind(old)),
        }
    }
    fn is_compared_first(&self) -> bool {
        K::IS_COMPARED_FIRST
    }
    fn warnings_of_change(&self, old: &dyn AnyObject) -> Vec<String> {
        ApiKind::warnings_of_change(self, same_kind(old))
    }
    fn warnings(&self) -> Vec<String> {
        ApiKind::warnings(self)
    }
    fn warnings_of_new(&self) -> Vec<String> {
        ApiKind::warnings_of_new(self)
    }
    fn warnings_of_preparation(&self) -> Vec<String> {
        ApiKind::warnings_of_preparation(self)
    }
    fn selectable_fields(&self) -> Vec<(Cow<'static, str>, String)> {
        let fields = ApiKind::selectable_fields(self).into_iter();
        fields.map(|(path, value)| (path.into(), value)).collect()
    }
    fn deletion_grace_period_seconds(&self) -> i64 {
        ApiKind::deletion_grace_period_seconds(self)
    }
    fn blank_value(&self, tracked: &Value) -> Value {
        let mut blank = json!({});
        for field in self.nulls() {
            blank[field] = Value::Null;
        }
        for list in K::ALWAYS_SHOWN {
            let is_filled = tracked["spec"][*list].is_array();
            blank["spec"][*list] = if is_filled { json!([]) } else { Value::Null };
        }
        blank
    }
    fn keeps_metadata(&self, part: ObjectPart) -> bool {
        K::STRATEGIES.keeps_metadata(part)
    }
    fn tracked_value(&self) -> Value {
        let mut value = ApiKind::tracked_value(self);
        for field in self.nulls() {
            value[field] = Value::Null;
        }
        value
    }
    fn row(&self, now: Tick) -> Vec<TableCell> {
        ApiKind::row(self, now)
    }
    fn to_json(&self) -> Vec<u8> {
        with_nulls(ObjectJson::to_json(self), &self.nulls())
    }
    fn to_value(&self) -> Value {
        ObjectJson::to_value(self)
    }
    fn to_status_value(&self, metadata: &ObjectMeta, is_replaced: &dyn Fn(&str) -> bool) -> Value {
        let Some(status) = self.status_alone(is_replaced) else {
            return ObjectJson::to_value(self);
        };
        let mut value =
            json!({"apiVersion": K::API_VERSION, "kind": K::KIND, "metadata": metadata.to_value()});
        if !status.is_null() {
            value["status"] = status;
        }
        value
    }
    fn same_as(&self, other: &dyn AnyObject) -> bool {
        other.as_any().downcast_ref::<K>() == Some(self)
    }
    fn become_like(&mut self, other: &dyn AnyObject) {
        self.clone_from(same_kind(other));
    }
    fn boxed_clone(&self) -> Box<dyn AnyObject> {
        Box::new(self.clone())
    }
    fn into_stored_form(self: Box<Self>) -> Box<dyn AnyObject> {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// The text of an object with these fields, which it lacks.
pub(super) fn with_nulls(mut text: Vec<u8>, fields: &[&str]) -> Vec<u8> {
    if !fields.is_empty() && text.pop() == Some(b'}') {
        for field in fields {
            text.extend_from_slice(format!(",\"{field}\":null").as_bytes());
        }
        text.push(b'}');
    }
    text
}

/// How objects of a kind are read, and how they look: the part of a kind that differs between
/// those that are Rust types and those that a CustomResourceDefinition describes.
///
/// [`Any`], so that who makes a codec finds it again.
pub trait KindCodec: Any + Send + Sync {
    /// Reads an object strictly; see `decode` of the API.
    ///
    /// # Errors
    /// A field has a value of the wrong type.
    fn decode(&self, value: &Value) -> Result<ParsedObject, DecodeError>;

    /// Reads an object that this registry wrote.
    ///
    /// # Errors
    /// The text is no object of this kind.
    fn decode_stored(&self, json: &[u8]) -> Result<Box<dyn AnyObject>, serde_json::Error>;

    /// Adds its schema, and those that it refers to, for OpenAPI.
    fn add_schema(&self, generator: &mut schemars::SchemaGenerator);

    /// Its schema, where that is published as it stands.
    fn published_schema(&self) -> Option<Value>;

    /// What its schema is made of: another schema has another source. None of a built-in kind.
    fn schema_source(&self) -> Option<String>;

    /// The name of its schema, for example `io.k8s.api.core.v1.Pod`.
    fn schema_name(&self) -> Cow<'static, str>;

    /// How its objects merge in server-side apply.
    fn merge_schema(&self) -> TypedSchema<'_>;

    /// A stored text as clients of this version get it.
    ///
    /// # Errors
    /// The text is no object of this kind.
    fn shown(&self, stored: &Bytes) -> Result<Bytes, serde_json::Error>;

    /// Whether a stored text is in the version that objects are stored in now.
    fn is_stored_form(&self, _stored: &[u8]) -> bool {
        true
    }
}

/// One served kind: its names and how to read its objects.
#[derive(Clone)]
pub struct KindEntry {
    /// The group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The version.
    pub version: Cow<'static, str>,
    /// `v1`, or `apps/v1`.
    pub api_version: Cow<'static, str>,
    /// `Pod`.
    pub kind: Cow<'static, str>,
    /// `PodList`.
    pub list_kind: Cow<'static, str>,
    /// `pods`.
    pub plural: Cow<'static, str>,
    /// `pod`.
    pub singular: Cow<'static, str>,
    /// `po`.
    pub short_names: Vec<Cow<'static, str>>,
    /// `all`.
    pub categories: Vec<Cow<'static, str>>,
    /// Whether objects live in a namespace.
    pub scope: ResourceScope,
    /// The subresources.
    pub subresources: Vec<Subresource>,
    /// How names must look.
    pub name_rule: NameRule,
    /// See [`ApiKind::CREATES_ON_UPDATE`].
    pub creates_on_update: bool,
    /// See [`ApiKind::METADATA_CHECKS`].
    pub metadata_checks: MetadataChecks,
    /// How the names of finalizers must look.
    pub finalizers: FinalizerRule,
    /// Whether field selectors may ask for `metadata.namespace`.
    pub has_namespace_selector: bool,
    /// Whether a replacement must say which version it replaces.
    pub needs_version_on_update: bool,
    /// The columns of a table.
    pub columns: Cow<'static, [TableColumn]>,
    /// What field selectors may ask for, beyond metadata.name and metadata.namespace.
    pub selectable_fields: Vec<Cow<'static, str>>,
    /// See [`ApiKind::SPEC_ANNOTATION`].
    pub spec_annotation: Option<&'static str>,
    /// Who describes it.
    pub origin: KindOrigin,
    /// For Warning headers, of a version that is deprecated.
    pub deprecation: Option<Cow<'static, str>>,
    /// How its objects are read.
    pub codec: Arc<dyn KindCodec>,
    /// The entry in which its objects are stored, if that is another one.
    pub home: Option<Arc<KindEntry>>,
}

/// Who describes a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindOrigin {
    /// This program: its objects are Rust types.
    BuiltIn,
    /// A CustomResourceDefinition.
    Definition,
}

/// An object as read, with what the kind does not know.
pub struct ParsedObject {
    /// The object.
    pub object: Box<dyn AnyObject>,
    /// The paths of fields that the kind does not have, in reading order.
    pub unknown_fields: Vec<String>,
}

impl KindEntry {
    /// The entry of a kind.
    pub fn new<K: ApiKind>() -> Self {
        const {
            assert!(
                K::STRATEGIES.are_of(K::SUBRESOURCES),
                "each subresource that changes the object needs its strategy"
            );
        }
        let names = |names: &'static [&'static str]| names.iter().copied().map(Cow::from).collect();
        Self {
            group: K::GROUP.into(),
            version: K::VERSION.into(),
            api_version: K::API_VERSION.into(),
            kind: K::KIND.into(),
            list_kind: K::LIST_KIND.into(),
            plural: K::URL_PATH_SEGMENT.into(),
            singular: K::NAMES.singular.into(),
            short_names: names(K::NAMES.short_names),
            categories: names(K::NAMES.categories),
            scope: K::NAMES.scope,
            subresources: K::SUBRESOURCES.to_vec(),
            name_rule: K::NAME_RULE,
            creates_on_update: K::CREATES_ON_UPDATE,
            finalizers: K::FINALIZERS,
            has_namespace_selector: K::HAS_NAMESPACE_SELECTOR,
            needs_version_on_update: K::NEEDS_VERSION_ON_UPDATE,
            metadata_checks: K::METADATA_CHECKS,
            columns: K::COLUMNS.into(),
            selectable_fields: names(K::SELECTABLE_FIELDS),
            spec_annotation: K::SPEC_ANNOTATION,
            origin: KindOrigin::BuiltIn,
            deprecation: K::DEPRECATION.map(Cow::Borrowed),
            codec: Arc::new(TypeCodec::<K>(PhantomData)),
            home: None,
        }
    }

    /// How the metadata of its objects must look.
    pub fn metadata_rules(&self) -> MetadataRules {
        MetadataRules {
            name: self.name_rule,
            scope: self.scope,
            finalizers: self.finalizers,
            checks: self.metadata_checks,
        }
    }

    /// The group and the kind.
    pub fn group_and_kind(&self) -> (&str, &str) {
        (&self.group, &self.kind)
    }

    /// The group and the plural name.
    pub fn group_and_plural(&self) -> (&str, &str) {
        (&self.group, &self.plural)
    }

    /// Whether all objects of it, or of one namespace, can be deleted at once.
    pub fn has_deletable_collections(&self) -> bool {
        self.group_and_plural() != ("", "namespaces")
    }

    /// `pods`, or `deployments.apps`: the resource as error texts name it.
    pub fn resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone().into_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// `Pod`, or `Deployment.apps`: the kind as error texts name it.
    pub fn group_kind(&self) -> String {
        if self.group.is_empty() {
            self.kind.clone().into_owned()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }
}

impl Subresource {
    /// Its path segment.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Log => "log",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
            Self::Finalize => "finalize",
            Self::Token => "token",
            Self::Resize => "resize",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Approval => "approval",
            Self::Proxy | Self::NodeProxy => "proxy",
        }
    }
}

impl std::fmt::Debug for KindEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.api_version, self.kind)
    }
}

/// The codec of a Rust type.
struct TypeCodec<K>(PhantomData<fn() -> K>);

impl<K: ApiKind> KindCodec for TypeCodec<K> {
    fn decode(&self, value: &Value) -> Result<ParsedObject, DecodeError> {
        let (object, unknown_fields) = K::from_value_strictly(value)?;
        Ok(ParsedObject { object: Box::new(object), unknown_fields })
    }

    fn decode_stored(&self, json: &[u8]) -> Result<Box<dyn AnyObject>, serde_json::Error> {
        let mut object = K::from_json(json)?;
        managed_entries::compact(object.metadata_mut());
        Ok(Box::new(object))
    }

    fn add_schema(&self, generator: &mut schemars::SchemaGenerator) {
        generator.subschema_for::<K>();
    }

    fn published_schema(&self) -> Option<Value> {
        None
    }

    fn schema_source(&self) -> Option<String> {
        None
    }

    fn schema_name(&self) -> Cow<'static, str> {
        K::schema_name()
    }

    fn merge_schema(&self) -> TypedSchema<'_> {
        builtin_types::of_schema(&K::schema_name())
    }

    /// The version that is stored is shown as it is.
    fn shown(&self, stored: &Bytes) -> Result<Bytes, serde_json::Error> {
        Ok(stored.clone())
    }
}
