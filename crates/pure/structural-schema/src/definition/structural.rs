//! The rules that make a schema structural (apiextensions-apiserver `schema/validation.go`).

use rekindle_types::validation::{FieldError, field_error::FieldProblem};
use serde_json::{Value, json};

use crate::{
    error_list::ErrorList,
    go_regex,
    schema_node::{Additional, SchemaNode, is_zero},
};

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeLevel {
    Root,
    Item,
    Field,
}

/// Keywords that a schema with them is not even read as structural for. The walk reports them.
const UNSUPPORTED: [&str; 7] = [
    "id",
    "$schema",
    "$ref",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
];

/// Whether a schema can be read as a structural one.
pub(super) fn is_convertible(node: SchemaNode<'_>) -> bool {
    let is_plain = UNSUPPORTED.iter().all(|keyword| node.get(keyword).is_none_or(is_zero));
    let has_item_list = node.get("items").is_some_and(Value::is_array);
    let preserves = node.get("x-kubernetes-preserve-unknown-fields");
    let additional = match node.additional() {
        Additional::Schema(schema) => Some(schema),
        Additional::Unsaid | Additional::Allowed(_) => None,
    };
    is_plain
        && !has_item_list
        && preserves != Some(&Value::Bool(false))
        && node.properties().all(|(_, schema)| is_convertible(schema))
        && ["items", "not"].into_iter().filter_map(|k| node.child(k)).all(is_convertible)
        && ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|k| node.schemas(k)).all(is_convertible)
        && additional.is_none_or(is_convertible)
}

/// Everything that keeps a schema from being structural, sorted by text as upstream sorts it.
pub(super) fn check(root: SchemaNode<'_>, path: &str) -> Vec<FieldError> {
    let mut check = StructuralCheck { errors: ErrorList::default() };
    check.invariants(root, NodeLevel::Root, path);
    check.completeness(root, path);
    let mut errors = check.errors.into_vec();
    errors.sort_by_cached_key(FieldError::to_string);
    errors
}

struct StructuralCheck {
    errors: ErrorList,
}

impl StructuralCheck {
    fn forbid(&mut self, path: &str, keyword: &str, detail: &str) {
        self.errors.push(FieldError::forbidden(format!("{path}.{keyword}"), detail));
    }

    fn require(&mut self, path: &str, keyword: &str, detail: &str) {
        self.errors.push(FieldError::required(format!("{path}.{keyword}"), detail));
    }

    fn refuse(&mut self, path: &str, keyword: &str, value: &str, detail: &str) {
        self.errors.push(FieldError::invalid(format!("{path}.{keyword}"), value, detail));
    }

    fn invariants(&mut self, node: SchemaNode<'_>, level: NodeLevel, path: &str) {
        if self.errors.is_full() {
            return;
        }
        let type_name = node.type_name();
        match node.child("items") {
            Some(items) => self.invariants(items, NodeLevel::Item, &format!("{path}.items")),
            None if type_name == "array" => self.require(path, "items", "must be specified"),
            None => {}
        }
        for (name, schema) in node.properties() {
            let place = format!("{path}.properties[{name}]");
            self.invariants(schema, NodeLevel::Field, &place);
        }
        let additional = node.additional();
        let has_additional = !matches!(additional, Additional::Unsaid);
        if has_additional && level == NodeLevel::Root {
            self.forbid(path, "additionalProperties", "must not be used at the root");
        }
        if let Additional::Schema(schema) = additional {
            self.invariants(schema, NodeLevel::Field, &format!("{path}.additionalProperties"));
        }
        self.extensions(node, path);
        self.value_validation(
            node,
            has_int_or_string_any_of(node),
            is_int_or_string_all_of(node),
            path,
        );
        self.type_of_node(node, level, path);
        if node.is_embedded_resource() && has_additional {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            self.forbid(path, "additionalProperties", detail);
        }
        if level == NodeLevel::Root && !type_name.is_empty() && type_name != "object" {
            self.refuse(path, "type", type_name, "must be object at the root");
        }
        self.meta_fields(node, level, path);
        let needs_properties = node.is_embedded_resource() && !node.preserves_unknown_fields();
        if needs_properties && !node.has_properties() {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            self.require(path, "properties", detail);
        }
    }

    fn extensions(&mut self, node: SchemaNode<'_>, path: &str) {
        if !node.is_int_or_string() {
            return;
        }
        for keyword in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if node.is_set(keyword) {
                self.errors.push(FieldError {
                    field: format!("{path}.{keyword}"),
                    problem: FieldProblem::Invalid("true".to_owned()),
                    detail: "must be false if x-kubernetes-int-or-string is true".to_owned(),
                });
            }
        }
    }

    fn type_of_node(&mut self, node: SchemaNode<'_>, level: NodeLevel, path: &str) {
        let type_name = node.type_name();
        if node.is_embedded_resource() && type_name != "object" {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            match type_name {
                "" => self.require(path, "type", detail),
                other => self.refuse(path, "type", other, detail),
            }
        } else if type_name.is_empty()
            && !node.is_int_or_string()
            && !node.preserves_unknown_fields()
        {
            let detail = match level {
                NodeLevel::Root => "must not be empty at the root",
                NodeLevel::Item => "must not be empty for specified array items",
                NodeLevel::Field => "must not be empty for specified object fields",
            };
            self.require(path, "type", detail);
        }
    }

    fn meta_fields(&mut self, node: SchemaNode<'_>, level: NodeLevel, path: &str) {
        let is_resource = level == NodeLevel::Root || node.is_embedded_resource();
        for name in ["kind", "apiVersion"] {
            let type_name = node.property(name).map(SchemaNode::type_name);
            if let Some(other) = type_name.filter(|name| is_resource && *name != "string") {
                self.refuse(path, &format!("properties[{name}].type"), other, "must be string");
            }
        }
        let Some(metadata) = node.property("metadata") else { return };
        if is_resource && metadata.type_name() != "object" {
            let detail = "must be object";
            self.refuse(path, "properties[metadata].type", metadata.type_name(), detail);
        }
        let says_more = metadata.keywords().any(|(keyword, value)| match keyword {
            "type" | "default" => false,
            "properties" => {
                metadata.properties().any(|(name, _)| !matches!(name, "name" | "generateName"))
            }
            _ => !is_zero(value),
        });
        if level == NodeLevel::Root && says_more {
            let detail = "must not specify anything other than name and generateName, but metadata \
                          is implicitly specified";
            self.forbid(path, "properties[metadata]", detail);
        }
    }

    /// Checks the junctors and the pattern of a node.
    fn value_validation(
        &mut self,
        node: SchemaNode<'_>,
        skip_any_of: bool,
        skip_first_all_of: bool,
        path: &str,
    ) {
        if !skip_any_of {
            for (at, schema) in node.schemas("anyOf").enumerate() {
                self.nested(schema, false, &format!("{path}.anyOf[{at}]"));
            }
        }
        for (at, schema) in node.schemas("allOf").enumerate() {
            self.nested(schema, skip_first_all_of && at == 0, &format!("{path}.allOf[{at}]"));
        }
        for (at, schema) in node.schemas("oneOf").enumerate() {
            self.nested(schema, false, &format!("{path}.oneOf[{at}]"));
        }
        if let Some(schema) = node.child("not") {
            self.nested(schema, false, &format!("{path}.not"));
        }
        let pattern = node.text("pattern");
        if let Err(problem) = go_regex::compile(pattern) {
            let detail = format!("must be a valid regular expression, but isn't: {problem}");
            self.refuse(path, "pattern", pattern, &detail);
        }
    }

    /// Checks a schema below a junctor: it may restrict values, but not say what there is.
    fn nested(&mut self, node: SchemaNode<'_>, skip_any_of: bool, path: &str) {
        if self.errors.is_full() {
            return;
        }
        self.value_validation(node, skip_any_of, false, path);
        if let Some(items) = node.child("items") {
            self.nested(items, false, &format!("{path}.items"));
        }
        for (name, schema) in node.properties() {
            self.nested(schema, false, &format!("{path}.properties[{name}]"));
        }
        for (keyword, what) in [
            ("type", "empty"),
            ("additionalProperties", "undefined"),
            ("default", "undefined"),
            ("title", "empty"),
            ("description", "empty"),
            ("nullable", "false"),
            ("x-kubernetes-preserve-unknown-fields", "false"),
            ("x-kubernetes-embedded-resource", "false"),
            ("x-kubernetes-int-or-string", "false"),
            ("x-kubernetes-list-map-keys", "empty"),
            ("x-kubernetes-list-type", "undefined"),
            ("x-kubernetes-map-type", "undefined"),
            ("x-kubernetes-validations", "empty"),
        ] {
            let is_said = match (keyword, node.get(keyword)) {
                (_, None) => false,
                ("default", Some(_)) => true,
                ("additionalProperties", Some(value)) => *value != Value::Bool(false),
                (_, Some(value)) => !is_zero(value),
            };
            if is_said {
                self.forbid(path, keyword, &format!("must be {what} to be structural"));
            }
        }
        if node.property("metadata").is_some() {
            let detail = "must not be specified in a nested context";
            self.forbid(path, "properties[metadata]", detail);
        }
    }

    /// Each field that a junctor of the root speaks of is also specified outside of junctors.
    /// Upstream does not ask this of nodes below the root.
    fn completeness(&mut self, root: SchemaNode<'_>, path: &str) {
        self.complete_junctors(root, root, path, path);
    }

    fn complete_junctors(
        &mut self,
        from: SchemaNode<'_>,
        structural: SchemaNode<'_>,
        from_path: &str,
        path: &str,
    ) {
        if let Some(schema) = from.child("not") {
            self.complete(schema, Some(structural), &format!("{from_path}.not"), path);
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for (at, schema) in from.schemas(keyword).enumerate() {
                let place = format!("{from_path}.{keyword}[{at}]");
                self.complete(schema, Some(structural), &place, path);
            }
        }
    }

    fn complete(
        &mut self,
        nested: SchemaNode<'_>,
        structural: Option<SchemaNode<'_>>,
        nested_path: &str,
        path: &str,
    ) {
        let Some(structural) = structural else {
            let detail = format!("because it is defined in {nested_path}");
            self.errors.push(FieldError::required(path, detail));
            return;
        };
        self.complete_junctors(nested, structural, nested_path, path);
        if let Some(items) = nested.child("items") {
            let place = format!("{nested_path}.items");
            self.complete(items, structural.child("items"), &place, &format!("{path}.items"));
        }
        for (name, schema) in nested.properties() {
            let place = format!("{nested_path}.properties[{name}]");
            let path = format!("{path}.properties[{name}]");
            self.complete(schema, structural.property(name), &place, &path);
        }
    }
}

/// `anyOf: [{type: integer}, {type: string}]`: the one place where a junctor may name types.
fn has_int_or_string_any_of(node: SchemaNode<'_>) -> bool {
    node.get("anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

fn is_int_or_string_all_of(node: SchemaNode<'_>) -> bool {
    node.schemas("allOf").next().is_some_and(has_int_or_string_any_of)
}
