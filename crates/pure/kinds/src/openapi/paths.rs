//! `paths`: which operations a resource and its subresources have.

use serde_json::{Map, Value, json};

use super::{
    BINDING, DELETE_OPTIONS, EVICTION, PATCH, RESOURCE_LIST, SCALE, STATUS, TOKEN_REQUEST,
    list_schema, parameters, reference,
};
use crate::registry::{KindEntry, KindOrigin, ResourceScope, Subresource};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
/// The formats of patches that every kind has.
const PATCH_TYPES: [&str; 2] = ["application/json-patch+json", "application/merge-patch+json"];
/// That of the built-in kinds. kubectl sends it where it stands here.
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// The paths of all kinds of a group version.
pub(super) fn paths_of_group(
    kinds: &[&KindEntry],
    group: &str,
    version: &str,
) -> Map<String, Value> {
    let mut paths = Map::new();
    let root = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let discovery = json!({
        "get": {
            "description": "get available resources",
            "operationId": format!("get{}APIResources", title(group, version)),
            "tags": [tag(group, version)],
            "responses": answers(&[200], RESOURCE_LIST),
        }
    });
    paths.insert(format!("{root}/"), discovery);
    for entry in kinds {
        PathResource::new(entry).add_to(&mut paths, &root);
    }
    paths
}

/// A kind as its paths are made.
struct PathResource<'a> {
    entry: &'a KindEntry,
    schema: String,
}

/// What an operation is about, for its marks.
#[derive(Clone, Copy)]
struct OperationSubject<'a> {
    schema: &'a str,
    gvk: [&'a str; 3],
    /// Of a subresource, in title case: `Status`.
    suffix: &'a str,
}

impl<'a> PathResource<'a> {
    fn new(entry: &'a KindEntry) -> Self {
        Self { entry, schema: entry.codec.schema_name().into_owned() }
    }

    fn subject(&self) -> OperationSubject<'_> {
        let entry = self.entry;
        OperationSubject {
            schema: &self.schema,
            gvk: [&entry.group, &entry.version, &entry.kind],
            suffix: "",
        }
    }

    fn add_to(&self, paths: &mut Map<String, Value>, root: &str) {
        let plural = &self.entry.plural;
        let (base, mut common) = match self.entry.scope {
            ResourceScope::Cluster => (format!("{root}/{plural}"), vec![parameters::pretty()]),
            ResourceScope::Namespaced => {
                let mut everywhere = vec![parameters::pretty()];
                everywhere.extend(parameters::list());
                let list = json!({
                    "get": self.list_operation("ForAllNamespaces"),
                    "parameters": everywhere,
                });
                paths.insert(format!("{root}/{plural}"), list);
                let common = vec![parameters::namespace(), parameters::pretty()];
                (format!("{root}/namespaces/{{namespace}}/{plural}"), common)
            }
        };
        paths.insert(base.clone(), self.collection(&common));
        common.insert(0, parameters::name(&self.entry.kind));
        let item = format!("{base}/{{name}}");
        paths.insert(item.clone(), self.item(&common));
        for subresource in &self.entry.subresources {
            let (name, operations) = self.subresource(*subresource, &common);
            paths.insert(format!("{item}/{name}"), operations);
        }
    }

    fn list_operation(&self, suffix: &str) -> Value {
        let subject = OperationSubject { schema: &list_schema(&self.schema), ..self.subject() };
        let subject = OperationSubject { suffix, ..subject };
        self.operation(
            "list",
            &subject,
            "list or watch objects of kind",
            json!({
                "responses": answers(&[200], subject.schema),
            }),
        )
    }

    fn collection(&self, common: &[Value]) -> Value {
        let subject = self.subject();
        let mut list = self.list_operation("");
        list["parameters"] = Value::Array(parameters::list());
        let create = self.operation(
            "post",
            &subject,
            "create a",
            json!({
                "parameters": parameters::write(),
                "requestBody": body(self.schema.as_str()),
                "responses": answers(&[200, 201, 202], &self.schema),
            }),
        );
        let mut operations = json!({"get": list, "post": create, "parameters": common});
        if self.entry.has_deletable_collections() {
            operations["delete"] = self.delete_collection();
        }
        operations
    }

    fn delete_collection(&self) -> Value {
        let mut parameters = parameters::list();
        parameters.extend(parameters::delete());
        self.operation(
            "deletecollection",
            &self.subject(),
            "delete collection of",
            json!({
                "parameters": parameters,
                "requestBody": body(DELETE_OPTIONS),
                "responses": answers(&[200], STATUS),
            }),
        )
    }

    fn item(&self, common: &[Value]) -> Value {
        let subject = self.subject();
        let mut operations = self.get_put_patch(&subject);
        operations["delete"] = self.operation(
            "delete",
            &subject,
            "delete a",
            json!({
                "parameters": parameters::delete(),
                "requestBody": body(DELETE_OPTIONS),
                "responses": answers(&[200, 202], STATUS),
            }),
        );
        operations["parameters"] = json!(common);
        operations
    }

    fn get_put_patch(&self, subject: &OperationSubject<'_>) -> Value {
        let mut patch_parameters = parameters::write();
        patch_parameters.push(parameters::force());
        let strategic = match self.entry.origin {
            KindOrigin::BuiltIn => Some(STRATEGIC_MERGE_PATCH),
            KindOrigin::Definition => None,
        };
        let patch_content: Map<String, Value> = PATCH_TYPES
            .into_iter()
            .chain(strategic)
            .map(|format| (format.to_owned(), json!({"schema": reference(PATCH)})))
            .collect();
        json!({
            "get": self.operation("get", subject, "read the specified", json!({
                "responses": answers(&[200], subject.schema),
            })),
            "put": self.operation("put", subject, "replace the specified", json!({
                "parameters": parameters::write(),
                "requestBody": body(subject.schema),
                "responses": answers(&[200, 201], subject.schema),
            })),
            "patch": self.operation("patch", subject, "partially update the specified", json!({
                "parameters": patch_parameters,
                "requestBody": {"required": true, "content": patch_content},
                "responses": answers(&[200, 201], subject.schema),
            })),
        })
    }

    fn subresource(&self, subresource: Subresource, common: &[Value]) -> (&'static str, Value) {
        let name = subresource.name();
        let suffix = capitalized(name);
        let own = OperationSubject { suffix: &suffix, ..self.subject() };
        let of = |schema, gvk| OperationSubject { schema, gvk, ..own };
        let mut operations = match subresource {
            Subresource::Status
            | Subresource::Resize
            | Subresource::EphemeralContainers
            | Subresource::Approval => self.get_put_patch(&own),
            Subresource::Scale => self.get_put_patch(&of(SCALE, ["autoscaling", "v1", "Scale"])),
            Subresource::Binding => self.create_only(name, &of(BINDING, ["", "v1", "Binding"])),
            Subresource::Eviction => {
                self.create_only(name, &of(EVICTION, ["policy", "v1", "Eviction"]))
            }
            Subresource::Token => {
                let gvk = ["authentication.k8s.io", "v1", "TokenRequest"];
                self.create_only(name, &of(TOKEN_REQUEST, gvk))
            }
            Subresource::Log => self.log(&own),
            Subresource::Exec => self.connect("PodExecOptions", &own, name, parameters::exec()),
            Subresource::Attach => {
                self.connect("PodAttachOptions", &own, name, parameters::attach())
            }
            Subresource::PortForward => {
                self.connect("PodPortForwardOptions", &own, name, parameters::port_forward())
            }
            Subresource::Proxy => self.proxy(&own),
            Subresource::NodeProxy => self.node_proxy(&own),
            Subresource::Finalize => self.finalize(&own),
        };
        let own_parameters = operations["parameters"].as_array().cloned().unwrap_or_default();
        operations["parameters"] = json!([common, &own_parameters].concat());
        (name, operations)
    }

    /// A subresource to which objects of another kind are posted.
    fn create_only(&self, name: &str, subject: &OperationSubject<'_>) -> Value {
        let own = json!({
            "parameters": parameters::write(),
            "requestBody": body(subject.schema),
            "responses": answers(&[200, 201, 202], subject.schema),
        });
        json!({"post": self.operation("post", subject, &format!("create {name} of a"), own)})
    }

    fn log(&self, own: &OperationSubject<'_>) -> Value {
        let text = json!({"text/plain": {"schema": {"type": "string"}}});
        let read = json!({
            "parameters": parameters::log(),
            "responses": {"200": {"description": "OK", "content": text}},
        });
        json!({"get": self.operation("get", own, "read log of the specified", read)})
    }

    fn finalize(&self, own: &OperationSubject<'_>) -> Value {
        let replace = json!({
            "parameters": parameters::write(),
            "requestBody": body(own.schema),
            "responses": answers(&[200, 201], own.schema),
        });
        json!({"put": self.operation("put", own, "replace finalize of the specified", replace)})
    }

    /// What a pod answers, whatever the method.
    fn proxy(&self, own: &OperationSubject<'_>) -> Value {
        let kind = format!("{}ProxyOptions", self.entry.kind);
        let subject = OperationSubject { gvk: ["", "v1", &kind], ..*own };
        let methods = ["delete", "get", "head", "options", "patch", "post", "put"];
        let operations = methods.map(|method| self.connect_by(method, &subject, "proxy"));
        Value::Object(methods.map(str::to_owned).into_iter().zip(operations).collect())
    }

    /// What the node itself answers.
    fn node_proxy(&self, own: &OperationSubject<'_>) -> Value {
        let subject = OperationSubject { gvk: ["", "v1", "NodeProxyOptions"], ..*own };
        let text = json!({"*/*": {"schema": {"type": "string"}}});
        let responses = json!({"200": {"description": "OK", "content": text}});
        let what = "connect GET requests to proxy of";
        json!({"get": self.operation("connect", &subject, what, json!({"responses": responses}))})
    }

    /// A subresource that both methods upgrade the connection for.
    fn connect(
        &self,
        kind: &str,
        own: &OperationSubject<'_>,
        name: &str,
        parameters: Vec<Value>,
    ) -> Value {
        let subject = OperationSubject { gvk: ["", "v1", kind], ..*own };
        let operation = |method| self.connect_by(method, &subject, name);
        json!({"get": operation("get"), "post": operation("post"), "parameters": parameters})
    }

    /// A request by this method, which the node or a pod answers.
    fn connect_by(&self, method: &str, subject: &OperationSubject<'_>, name: &str) -> Value {
        let text = json!({"*/*": {"schema": {"type": "string"}}});
        let responses = json!({"200": {"description": "OK", "content": text}});
        let what = format!("connect {} requests to {name} of", method.to_uppercase());
        let mut operation =
            self.operation("connect", subject, &what, json!({"responses": responses}));
        let title = title(&self.entry.group, &self.entry.version);
        let (method, entry, suffix) = (capitalized(method), &self.entry.kind, subject.suffix);
        operation["operationId"] =
            format!("connect{title}{method}Namespaced{entry}{suffix}").into();
        operation
    }

    /// An operation with its marks, beside what is its own.
    fn operation(
        &self,
        action: &str,
        subject: &OperationSubject<'_>,
        what: &str,
        own: Value,
    ) -> Value {
        let entry = self.entry;
        let verb = match action {
            "get" => "read",
            "post" => "create",
            "put" => "replace",
            "deletecollection" => "deleteCollection",
            other => other,
        };
        let scope = match entry.scope {
            ResourceScope::Namespaced if subject.suffix != "ForAllNamespaces" => "Namespaced",
            ResourceScope::Namespaced | ResourceScope::Cluster => "",
        };
        let title = title(&entry.group, &entry.version);
        let [group, version, kind] = subject.gvk;
        let mut operation = json!({
            "description": format!("{what} {}", entry.kind),
            "operationId": format!("{verb}{title}{scope}{}{}", entry.kind, subject.suffix),
            "tags": [tag(&entry.group, &entry.version)],
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
        });
        if let (Some(operation), Value::Object(own)) = (operation.as_object_mut(), own) {
            operation.extend(own);
        }
        operation
    }
}

fn body(schema: &str) -> Value {
    json!({"content": {
        JSON: {"schema": reference(schema)},
        YAML: {"schema": reference(schema)},
    }})
}

fn answers(codes: &[u16], schema: &str) -> Value {
    let mut responses = Map::new();
    for code in codes {
        let description = match code {
            201 => "Created",
            202 => "Accepted",
            _ => "OK",
        };
        let content = json!({JSON: {"schema": reference(schema)}});
        let answer = json!({"description": description, "content": content});
        responses.insert(code.to_string(), answer);
    }
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    Value::Object(responses)
}

/// `CoreV1`, `AppsV1`, `RekindleDevV1alpha1`: a group version inside an operation's id.
fn title(group: &str, version: &str) -> String {
    let group = match group {
        "" => "core",
        group => group.strip_suffix(".k8s.io").unwrap_or(group),
    };
    group.split('.').chain([version]).map(capitalized).collect()
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

/// `core_v1`.
fn tag(group: &str, version: &str) -> String {
    let group = match group {
        "" => "core",
        group => group.strip_suffix(".k8s.io").unwrap_or(group),
    };
    format!("{}_{version}", group.replace('.', ""))
}
