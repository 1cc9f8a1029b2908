//! What a kind must say of itself to be served: its names, its defaults, what makes it valid, how a
//! table shows it.
//!
//! Adding a kind is an `impl ApiKind` of a few declarative lines in `kinds/` and one line in the
//! registry. Everything else (create, list, watch, patch, tables, discovery, OpenAPI) is the same
//! code for every kind.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ListableResource, Metadata};
pub use rekindle_types::ResourceScope;
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{ObjectJson, Tick};
use schemars::JsonSchema;
use serde_json::Value;

use super::strategy::Strategies;
use crate::identity::ClientIdentity;
use crate::registry::object_meta::FinalizerRule;
use crate::validation::names::{self, NameRule};

/// One served kind. Implemented for k8s-openapi's types and for ours.
pub trait ApiKind:
    Metadata<Ty = ObjectMeta>
    + ListableResource
    + ObjectJson
    + JsonSchema
    + Clone
    + PartialEq
    + Send
    + Sync
    + 'static
{
    /// Names beside those k8s-openapi knows (group, version, kind, list kind, plural).
    const NAMES: ResourceNames;
    /// The subresources it serves.
    const SUBRESOURCES: &'static [Subresource] = &[];
    /// How updates through subresources change it.
    const STRATEGIES: Strategies<Self> = Strategies::NONE;
    /// How `metadata.name` must look.
    const NAME_RULE: NameRule = NameRule::DnsSubdomain;
    /// Whether an update makes an object that is not there, as upstream for some kinds.
    const CREATES_ON_UPDATE: bool = false;
    /// Whether field selectors may ask for `metadata.namespace`; upstream also where there is none.
    const HAS_NAMESPACE_SELECTOR: bool = true;
    /// What a name of it becomes a part of, as a Warning says of a new one that is no DNS label.
    const NAME_IS_IN: Option<&'static str> = None;
    /// The warning for who uses it, if its version is deprecated.
    const DEPRECATION: Option<&'static str> = None;
    /// Whether a replacement must say which version it replaces, as upstream for some kinds.
    const NEEDS_VERSION_ON_UPDATE: bool = false;
    /// How the names of its finalizers must look.
    const FINALIZERS: FinalizerRule = FinalizerRule::Qualified;
    /// What the kind checks of the metadata of a changed object, and whether of a new one.
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdateAndObject;
    /// The columns of its server-side table, after which `row` orders its cells.
    const COLUMNS: &'static [TableColumn];

    /// Fills what the user left out, as the API server does. Runs on every create, update and
    /// patch, and must be idempotent.
    fn set_defaults(&mut self) {}

    /// Before a create: drop what a user may not set (status), set `generation`. `ctx` gives time
    /// and identity.
    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {}

    /// After `prepare_for_create`, once the object has its UID and its name, which may be a
    /// generated one: what follows from the two.
    fn prepare_named(&mut self) {}

    /// Before an update of the main resource: keep what only the status subresource may change
    /// (`status`), raise `metadata.generation` when the spec changed.
    fn prepare_for_update(&mut self, _old: &Self, _ctx: &RequestContext<'_>) {}

    /// The status, of a kind that has much else which an update through `/status` keeps as it is: a
    /// patch of nothing but metadata and status is applied to these two. What the patch replaces
    /// may be left out. None when the kind has nothing large to leave out.
    fn status_alone(&self, _is_replaced: &dyn Fn(&str) -> bool) -> Option<Value> {
        None
    }

    /// The fields of the object itself that are printed as null where they are absent, as upstream
    /// prints them. None, too, when they are there.
    fn nulls(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Lists inside `spec` that upstream prints where they are absent, too. The writer that fills
    /// one owns its entries, and not the list itself.
    const ALWAYS_SHOWN: &'static [&'static str] = &[];

    /// The object as upstream sees it when it notes who owns which field, which is before it is
    /// prepared. As JSON; the defaults are set.
    fn tracked_value(&self) -> Value {
        self.to_value()
    }

    /// Everything wrong with an object, metadata aside (the machinery checks that). All of it at
    /// once, not the first only.
    fn validate(&self) -> Vec<FieldError> {
        Vec::new()
    }

    /// What a new object may not have, beside what `validate` says; what a later change may bring.
    fn validate_new(&self) -> Vec<FieldError> {
        Vec::new()
    }

    /// Everything wrong with a new object, in upstream's order where a rule for new objects stands
    /// between the others.
    fn validate_created(&self) -> Vec<FieldError> {
        let mut errors = self.validate();
        errors.extend(self.validate_new());
        errors
    }

    /// Whether upstream compares an object with what it was before it looks at the object itself.
    const IS_COMPARED_FIRST: bool = false;

    /// Everything wrong with the change from `old`; immutable fields belong here. `validate` has
    /// run as well.
    fn validate_update(&self, _old: &Self) -> Vec<FieldError> {
        Vec::new()
    }

    /// What was accepted but deserves a Warning header: fields that are not enforced yet (also in
    /// docs/compatibility.md), deprecated or surprising settings.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// The same of a changed object.
    fn warnings_of_change(&self, _old: &Self) -> Vec<String> {
        self.warnings()
    }

    /// The same of a new object only.
    fn warnings_of_new(&self) -> Vec<String> {
        let Some(whole) = Self::NAME_IS_IN else { return Vec::new() };
        let name = self.metadata().name.as_deref().unwrap_or_default();
        names::host_name_warning(name, whole).into_iter().collect()
    }

    /// The same of what the preparation of a new object takes over into other fields. A client
    /// learns of it even if the object is refused then.
    fn warnings_of_preparation(&self) -> Vec<String> {
        Vec::new()
    }

    /// Values for field selectors beyond metadata.name and metadata.namespace, by path
    /// (`spec.nodeName`, `status.phase`, …).
    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The field paths that `selectable_fields` gives, for the error text on any other.
    const SELECTABLE_FIELDS: &'static [&'static str] = &[];

    /// An annotation that stands for a field of the spec: upstream does not show it with the
    /// metadata alone.
    const SPEC_ANNOTATION: Option<&'static str> = None;

    /// Seconds of grace a delete without options gives: 0 deletes at once. A Pod on a node answers
    /// its own terminationGracePeriodSeconds.
    fn deletion_grace_period_seconds(&self) -> i64 {
        0
    }

    /// The cells of its row in a table, in the order of `COLUMNS`.
    fn row(&self, now: Tick) -> Vec<TableCell>;
}

/// What the names of workloads become a part of.
pub(crate) const POD_NAMES: &str = "Pod names and hostnames";

/// Who asks, and when.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext<'a> {
    /// The time of the request.
    pub now: Tick,
    /// Who asks.
    pub identity: &'a ClientIdentity,
}

/// The names that discovery shows.
#[derive(Clone, Copy, Debug)]
pub struct ResourceNames {
    /// `pod`.
    pub singular: &'static str,
    /// `po`.
    pub short_names: &'static [&'static str],
    /// `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub scope: ResourceScope,
}

/// A subresource; each has one handler in the machinery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// `/status`: get, update, patch.
    Status,
    /// `/scale` (autoscaling/v1 Scale): get, update, patch.
    Scale,
    /// `/binding` of a Pod: create.
    Binding,
    /// `/eviction` of a Pod (policy/v1 Eviction): create.
    Eviction,
    /// `/log` of a Pod: get, answered by the node.
    Log,
    /// `/exec` of a Pod: get and create, which both ask for an upgrade of the connection; answered
    /// by the node.
    Exec,
    /// `/attach` of a Pod: the same.
    Attach,
    /// `/portforward` of a Pod: the same.
    PortForward,
    /// `/finalize` of a Namespace: update.
    Finalize,
    /// `/token` of a ServiceAccount: create.
    Token,
    /// `/resize` of a Pod: get, update, patch.
    Resize,
    /// `/ephemeralcontainers` of a Pod: get, update, patch.
    EphemeralContainers,
    /// `/approval` of a CertificateSigningRequest: get, update, patch.
    Approval,
    /// `/proxy/…` of a Pod or a Service: any method, answered by the pod.
    Proxy,
    /// `/proxy/…` of a Node: get, answered by the node.
    NodeProxy,
}

/// What a kind checks of the metadata of a changed object, upstream. That of a new one is checked
/// by all kinds but those that leave their metadata to the machinery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataChecks {
    /// The change.
    OfUpdate,
    /// The change, and the object as if it were new.
    OfUpdateAndObject,
    /// The object as if it were new. The machinery checks the change.
    OfObject,
    /// None. The machinery checks the change, and a new object only when nothing else is wrong.
    OfMachinery,
}

/// One column of a server-side table (meta.k8s.io/v1 TableColumnDefinition).
#[derive(Clone, Debug)]
pub struct TableColumn {
    /// The heading in title case, as kubectl shows it in capitals.
    pub name: Cow<'static, str>,
    /// `string`, `integer`, `boolean` or `date`.
    pub type_: Cow<'static, str>,
    /// `name` for the name column, else empty.
    pub format: Cow<'static, str>,
    /// What it means.
    pub description: Cow<'static, str>,
    /// 0: always shown; 1 and more: only with `-o wide`.
    pub priority: i32,
}

/// One cell of a table row.
#[derive(Clone, Debug, PartialEq)]
pub enum TableCell {
    /// A text; also ages, already formatted.
    Text(String),
    /// A number.
    Int(i64),
    /// Any value.
    Json(Value),
}
