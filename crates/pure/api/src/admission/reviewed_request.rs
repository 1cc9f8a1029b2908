//! A request as policies and webhooks see it.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{MatchResources, NamedRuleWithOperations};
use k8s_openapi::api::core::v1::Namespace;
use rekindle_kinds::admission_policy::GROUP;
use rekindle_kinds::admission_policy::match_resources::{ANY, matches_equivalent};
use rekindle_kinds::identity::ClientIdentity;
use rekindle_kinds::registry::{AnyObject, KindEntry, ResourceScope};
use rekindle_kinds::validation::{items, selector};
use rekindle_structural_schema::AccessQuery;
use rekindle_types::ObjectJson;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::request_bodies::RequestBody;
use crate::call::ApiCall;
use crate::decode;
use crate::keys;
use crate::managed_fields::remove_entries;
use crate::request::options::DryRun;
use crate::status::ApiError;

/// Kinds that no policy and no webhook looks at: they must stay mendable.
const EXEMPT: [&str; 6] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
];

const NAMESPACES: &str = "namespaces";

/// What a request does, in the words of policies and webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Whether no policy and no webhook looks at objects of the kind.
pub(super) fn is_exempt(entry: &KindEntry) -> bool {
    entry.group == GROUP && EXEMPT.contains(&&*entry.plural)
}

/// What a request is about.
#[derive(Clone, Copy)]
enum RequestSubject<'r> {
    /// An object that is written. Without a new one it is a deletion.
    Object { new: Option<&'r dyn AnyObject>, old: Option<&'r dyn AnyObject> },
    /// What the request asks for; no object of the resource is written.
    Body(&'r RequestBody),
}

/// A request about one object. What policies may look at is made when the first one does.
pub(super) struct ReviewedRequest<'r> {
    pub(super) call: &'r ApiCall<'r>,
    subject: RequestSubject<'r>,
    values: OnceCell<RequestValues>,
    namespace: OnceCell<Option<Arc<Namespace>>>,
}

/// What the expressions of policies see.
pub(super) struct RequestValues {
    pub(super) object: Value,
    pub(super) old_object: Value,
    pub(super) request: Value,
    pub(super) namespace: Value,
    /// The question whether the request is allowed, up to the verb.
    pub(super) question: AccessQuery,
}

impl<'r> ReviewedRequest<'r> {
    /// None for kinds that no policy and no webhook looks at. Without a new object it is a
    /// deletion.
    pub(super) fn new(
        call: &'r ApiCall<'r>,
        new: Option<&'r dyn AnyObject>,
        old: Option<&'r dyn AnyObject>,
    ) -> Option<Self> {
        let subject = RequestSubject::Object { new, old };
        (!is_exempt(call.entry)).then(|| Self::about(call, subject))
    }

    /// A request that writes no object of its resource.
    pub(super) fn of_body(call: &'r ApiCall<'r>, body: &'r RequestBody) -> Self {
        Self::about(call, RequestSubject::Body(body))
    }

    fn about(call: &'r ApiCall<'r>, subject: RequestSubject<'r>) -> Self {
        Self { call, subject, values: OnceCell::new(), namespace: OnceCell::new() }
    }

    fn operation(&self) -> Operation {
        match self.subject {
            RequestSubject::Object { new: None, .. } => Operation::Delete,
            RequestSubject::Object { new: Some(_), old: Some(_) } => Operation::Update,
            RequestSubject::Object { new: Some(_), old: None } => Operation::Create,
            RequestSubject::Body(body) => body.operation,
        }
    }

    /// The object that is written: the new one, if there is one.
    fn object(&self) -> Option<&'r dyn AnyObject> {
        match self.subject {
            RequestSubject::Object { new, old } => new.or(old),
            RequestSubject::Body(_) => None,
        }
    }

    /// The name of the object; that of a new one may not be known yet.
    pub(super) fn name(&self) -> &str {
        let named = self.object().and_then(|object| object.meta().name.as_deref());
        named.filter(|name| !name.is_empty()).unwrap_or(&self.call.path.name)
    }

    /// The namespace of the object; empty at cluster scope.
    pub(super) fn namespace_name(&self) -> &str {
        let entry: &KindEntry = self.call.entry;
        match entry.scope {
            ResourceScope::Cluster => "",
            ResourceScope::Namespaced => {
                let own = self.object().and_then(|object| object.meta().namespace.as_deref());
                own.unwrap_or(&self.call.path.namespace)
            }
        }
    }

    fn is_of_namespaces(&self) -> bool {
        self.call.entry.group_and_plural() == ("", NAMESPACES)
    }

    /// Whether what has this `matchResources` is for the request.
    pub(super) fn is_matched(&self, matched: &MatchResources) -> Result<bool, ApiError> {
        let applies = |rule: &NamedRuleWithOperations| self.is_of_rule(rule, matched);
        if items(matched.exclude_resource_rules.as_ref()).iter().any(applies) {
            return Ok(false);
        }
        let rules = items(matched.resource_rules.as_ref());
        // without rules, the namespace and the object decide
        if !rules.is_empty() && !rules.iter().any(applies) {
            return Ok(false);
        }
        Ok(self.has_matched_labels(matched) && self.is_in_matched_namespace(matched)?)
    }

    fn is_of_rule(&self, rule: &NamedRuleWithOperations, matched: &MatchResources) -> bool {
        let entry: &KindEntry = self.call.entry;
        let has = |list: &Option<Vec<String>>, wanted: &str| {
            items(list.as_ref()).iter().any(|item| item == ANY || item == wanted)
        };
        let names = items(rule.resource_names.as_ref());
        let is_of_form = |group: &str, version: &str| {
            has(&rule.api_groups, group) && has(&rule.api_versions, version)
        };
        let is_form_matched = || {
            is_of_form(&entry.group, &entry.version)
                || matches_equivalent(matched) && self.has_form(is_of_form)
        };
        has(&rule.operations, self.operation().name())
            && self.is_of_resource(items(rule.resources.as_ref()))
            && (names.is_empty() || names.iter().any(|name| name == self.name()))
            && self.is_of_scope(rule.scope.as_deref().unwrap_or(ANY))
            && is_form_matched()
    }

    /// Whether one of the groups and versions is meant that the stored object is served in. Events
    /// have two groups.
    fn has_form(&self, is_meant: impl Fn(&str, &str) -> bool) -> bool {
        let entry: &KindEntry = self.call.entry;
        let api = self.call.api;
        let home = entry.home().group_and_plural();
        let mut built_in =
            api.registry.kinds().filter(|other| other.home().group_and_plural() == home);
        let custom = || api.custom.versions_of(api, &entry.group, &entry.plural);
        built_in.any(|form| is_meant(&form.group, &form.version))
            || custom().iter().any(|version| is_meant(&entry.group, version))
    }

    fn is_of_resource(&self, resources: &[String]) -> bool {
        let (plural, subresource) = (&*self.call.entry.plural, &*self.call.path.subresource);
        resources.iter().any(|resource| {
            let (main, sub) = resource.split_once('/').unwrap_or((resource, ""));
            (main == ANY || main == plural) && (sub == ANY || sub == subresource)
        })
    }

    fn is_of_scope(&self, scope: &str) -> bool {
        let is_cluster = self.namespace_name().is_empty();
        match scope {
            "Cluster" => is_cluster,
            "Namespaced" => !is_cluster,
            _ => true,
        }
    }

    fn has_matched_labels(&self, matched: &MatchResources) -> bool {
        let Some(wanted) = matched.object_selector.as_ref().filter(|s| !selector::is_empty(s))
        else {
            return true;
        };
        match self.subject {
            RequestSubject::Object { new, old } => [new, old]
                .into_iter()
                .flatten()
                .any(|object| selector::matches(wanted, object.meta().labels.as_ref())),
            // the options of a connection have no labels, and are not selected by any
            RequestSubject::Body(body) => body.value.get("metadata").is_some_and(|metadata| {
                let labels = metadata.get("labels").and_then(|labels| {
                    serde_json::from_value::<BTreeMap<String, String>>(labels.clone()).ok()
                });
                selector::matches(wanted, labels.as_ref())
            }),
        }
    }

    fn is_in_matched_namespace(&self, matched: &MatchResources) -> Result<bool, ApiError> {
        let Some(wanted) = matched.namespace_selector.as_ref().filter(|s| !selector::is_empty(s))
        else {
            return Ok(true);
        };
        if self.is_of_namespaces() {
            let labels = self.object().and_then(|object| object.meta().labels.as_ref());
            return Ok(selector::matches(wanted, labels));
        }
        if self.namespace_name().is_empty() {
            return Ok(true);
        }
        let namespace = self.namespace()?;
        let labels = namespace.as_ref().and_then(|namespace| namespace.metadata.labels.as_ref());
        Ok(selector::matches(wanted, labels))
    }

    /// The namespace of the object.
    fn namespace(&self) -> Result<Option<Arc<Namespace>>, ApiError> {
        if let Some(known) = self.namespace.get() {
            return Ok(known.clone());
        }
        let (api, name) = (self.call.api, self.namespace_name());
        let mut found = None;
        if let Some(entry) = api.registry.find("", "v1", NAMESPACES).filter(|_| !name.is_empty())
            && let Some(stored) = api.store.newest(&keys::object(entry, "", name))
        {
            found = api.read_as::<Namespace>(entry, &stored)?;
        }
        Ok(self.namespace.get_or_init(|| found).clone())
    }

    /// The new object and the old one, as webhooks see them: in the version of the request.
    pub(super) fn shown_objects(&self) -> Result<[Box<RawValue>; 2], ApiError> {
        let codec = &self.call.entry.codec;
        let raw = |text: Vec<u8>| {
            let text = String::from_utf8(text).map_err(ApiError::internal)?;
            RawValue::from_string(text).map_err(ApiError::internal)
        };
        let shown = |object: Option<&dyn AnyObject>| match object {
            Some(object) => {
                raw(codec.shown(&object.to_json().into()).map_err(ApiError::internal)?.into())
            }
            None => raw(b"null".to_vec()),
        };
        Ok(match self.subject {
            RequestSubject::Object { new, old } => [shown(new)?, shown(old)?],
            RequestSubject::Body(body) => [raw(body.value.to_string().into())?, shown(None)?],
        })
    }

    /// What expressions see.
    pub(super) fn values(&self) -> Result<&RequestValues, ApiError> {
        if let Some(known) = self.values.get() {
            return Ok(known);
        }
        let shown = |object: Option<&dyn AnyObject>| object.map_or(Value::Null, visible);
        let (object, old_object) = match self.subject {
            RequestSubject::Object { new, old } => (shown(new), shown(old)),
            RequestSubject::Body(body) => (body.value.clone(), Value::Null),
        };
        let values = RequestValues {
            object,
            old_object,
            request: Value::Object(self.admission_request()),
            namespace: match self.namespace()? {
                Some(namespace) => namespace_value(&namespace),
                None => Value::Null,
            },
            question: AccessQuery {
                group: self.call.entry.group.to_string(),
                resource: self.call.entry.plural.to_string(),
                subresource: self.call.path.subresource.clone(),
                namespace: self.namespace_name().to_owned(),
                name: self.name().to_owned(),
                ..AccessQuery::default()
            },
        };
        Ok(self.values.get_or_init(|| values))
    }

    /// `request`: an AdmissionRequest without its objects. Empty fields are left out, as upstream
    /// leaves them out.
    pub(super) fn admission_request(&self) -> Map<String, Value> {
        let (call, entry): (_, &KindEntry) = (self.call, self.call.entry);
        let kind = match self.subject {
            RequestSubject::Object { .. } => {
                json!({"group": entry.group, "version": entry.version, "kind": entry.kind})
            }
            RequestSubject::Body(RequestBody { kind, .. }) => {
                let (group, version) =
                    kind.api_version.split_once('/').unwrap_or(("", kind.api_version));
                json!({"group": group, "version": version, "kind": kind.kind})
            }
        };
        let resource =
            json!({"group": entry.group, "version": entry.version, "resource": entry.plural});
        // that of a namespace is its own name
        let namespace = if self.is_of_namespaces() { self.name() } else { self.namespace_name() };
        let mut request = Map::new();
        let mut set = |name: &str, value: Value| {
            request.insert(name.to_owned(), value);
        };
        set("kind", kind.clone());
        set("requestKind", kind);
        set("resource", resource.clone());
        set("requestResource", resource);
        set("operation", self.operation().name().into());
        set("userInfo", user_value(&call.request.identity));
        set("dryRun", (call.options.dry_run == DryRun::All).into());
        set("options", self.options());
        for (name, text) in [
            ("subResource", &*call.path.subresource),
            ("requestSubResource", &*call.path.subresource),
            ("name", self.name()),
            ("namespace", namespace),
        ] {
            if !text.is_empty() {
                set(name, text.into());
            }
        }
        request
    }

    /// The options that the client gave, as far as they were understood.
    fn options(&self) -> Value {
        let call = self.call;
        let (mut options, kind) = match self.operation() {
            Operation::Connect => return Value::Null,
            Operation::Delete => (delete_options(call), "DeleteOptions"),
            operation @ (Operation::Create | Operation::Update) => {
                let mut options = Map::new();
                for name in ["fieldManager", "fieldValidation"] {
                    if let Some(given) = call.options.get(name).filter(|given| !given.is_empty()) {
                        options.insert(name.to_owned(), given.into());
                    }
                }
                if call.options.dry_run == DryRun::All {
                    options.insert("dryRun".to_owned(), json!(["All"]));
                }
                let is_new = operation == Operation::Create;
                (options, if is_new { "CreateOptions" } else { "UpdateOptions" })
            }
        };
        options.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
        options.insert("kind".to_owned(), kind.into());
        Value::Object(options)
    }
}

/// From the body, which was checked; without one, from the query.
fn delete_options(call: &ApiCall<'_>) -> Map<String, Value> {
    let given = match &*call.request.body {
        [] => serde_json::to_value(call.options.delete_options()).ok(),
        body => {
            let format = decode::body_format(&call.request.content_type).ok();
            format.and_then(|format| Some(decode::read(format, body).ok()?.value))
        }
    };
    match given {
        Some(Value::Object(options)) => options,
        Some(_) | None => Map::new(),
    }
}

/// An object as policies see it: who owns its fields is not shown.
pub(super) fn visible(object: &dyn AnyObject) -> Value {
    let mut value = object.to_value();
    remove_entries(&mut value);
    value
}

/// What policies may see of a namespace.
fn namespace_value(namespace: &Namespace) -> Value {
    let whole = ObjectJson::to_value(namespace);
    let part = |from: &Value, names: &[&str]| -> Value {
        let known = names.iter().filter_map(|name| Some(((*name).to_owned(), from.get(*name)?)));
        Value::Object(known.map(|(name, value)| (name, value.clone())).collect())
    };
    let mut metadata = part(
        &whole["metadata"],
        &[
            "name",
            "generateName",
            "labels",
            "annotations",
            "creationTimestamp",
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "generation",
            "resourceVersion",
            "finalizers",
        ],
    );
    if let Some(uid) = whole["metadata"].get("uid") {
        metadata["UID"] = uid.clone(); // upstream's name
    }
    json!({
        "metadata": metadata,
        "spec": part(&whole["spec"], &["finalizers"]),
        "status": part(&whole["status"], &["phase"]),
    })
}

fn user_value(identity: &ClientIdentity) -> Value {
    let mut user = Map::new();
    let ClientIdentity::User(info) = identity else {
        user.insert("username".to_owned(), identity.name().into());
        return Value::Object(user);
    };
    user.insert("username".to_owned(), info.name.as_str().into());
    if let Some(uid) = &info.uid {
        user.insert("uid".to_owned(), uid.as_str().into());
    }
    if !info.groups.is_empty() {
        user.insert("groups".to_owned(), json!(info.groups));
    }
    if !info.extra.is_empty() {
        let extra: BTreeMap<&str, &Vec<String>> =
            info.extra.iter().map(|(name, values)| (name.as_str(), values)).collect();
        user.insert("extra".to_owned(), json!(extra));
    }
    Value::Object(user)
}
