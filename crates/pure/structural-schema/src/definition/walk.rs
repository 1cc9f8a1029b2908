//! Walks over every node of a schema, below junctors too, and checks what OpenAPI v3 and the
//! extensions of Kubernetes allow in it.

use rekindle_types::validation::{FieldError, field_error::FieldProblem};
use serde_json::Value;

use super::{list_keywords, rule_checks::RuleChecks, rule_texts};
use crate::{
    AdditionalFields, SchemaType, StructuralSchema,
    error_list::ErrorList,
    schema_node::{Additional, SchemaNode, is_zero},
};

/// Everything that the walk finds: what is wrong with the schema, then with its rules. `compiled`
/// is there if the schema is structural: only then rules are compiled.
pub(super) fn check(
    root: SchemaNode<'_>,
    path: &str,
    compiled: Option<&StructuralSchema>,
) -> Vec<FieldError> {
    let mut walk = Walk { errors: ErrorList::default(), rules: RuleChecks::default() };
    let rules = compiled.map(|node| RulePlace { node, count_max: Some(1) });
    walk.node(
        root,
        &SchemaPlace { path: path.to_owned(), is_root: true, rules, ..SchemaPlace::default() },
    );
    walk.errors.extend(walk.rules.finish(path));
    walk.errors.into_vec()
}

/// A node with rules that can be compiled, and how often its values can be in an object.
#[derive(Clone, Copy)]
pub(super) struct RulePlace<'a> {
    pub(super) node: &'a StructuralSchema,
    /// Nothing if there is no limit.
    pub(super) count_max: Option<u64>,
}

impl<'a> RulePlace<'a> {
    /// The place of a node below.
    fn child(self, node: Option<&'a StructuralSchema>) -> Option<Self> {
        let rules = self.node.values.as_deref();
        let limit = |limit: Option<i64>| limit.map(|max| u64::try_from(max).unwrap_or_default());
        let each = match self.node.value_type {
            Some(SchemaType::Object) if self.node.additional.is_some() => {
                limit(rules.and_then(|rules| rules.max_properties))
            }
            Some(SchemaType::Array) => limit(rules.and_then(|rules| rules.max_items)),
            Some(_) | None => Some(1),
        };
        let count_max = self.count_max.zip(each).map(|(count, each)| count.saturating_mul(each));
        Some(Self { node: node?, count_max })
    }
}

/// Where a node stands, and what follows from it.
#[derive(Clone, Default)]
pub(super) struct SchemaPlace<'a> {
    pub(super) path: String,
    pub(super) is_root: bool,
    is_in_metadata: bool,
    /// Why no defaults are allowed here.
    defaults_forbidden: Option<String>,
    /// The list above with items that have no old values.
    pub(super) uncorrelated_below: Option<String>,
    /// Where rules are compiled; not below junctors.
    pub(super) rules: Option<RulePlace<'a>>,
}

impl<'a> SchemaPlace<'a> {
    fn child(&self, part: &str, node: Option<&'a StructuralSchema>) -> Self {
        Self {
            path: format!("{}.{part}", self.path),
            is_root: false,
            rules: self.rules.and_then(|rules| rules.child(node)),
            ..self.clone()
        }
    }

    fn compiled(&self) -> Option<&'a StructuralSchema> {
        self.rules.map(|rules| rules.node)
    }
}

struct Walk {
    errors: ErrorList,
    rules: RuleChecks,
}

impl Walk {
    fn forbid(&mut self, place: &SchemaPlace<'_>, keyword: &str, detail: &str) {
        self.errors.push(FieldError::forbidden(format!("{}.{keyword}", place.path), detail));
    }

    fn node(&mut self, node: SchemaNode<'_>, place: &SchemaPlace<'_>) {
        if self.errors.is_full() {
            return;
        }
        let errors_before = self.errors.len();
        self.supported(node, place);
        if node.is_set("uniqueItems") {
            let detail =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(place, "uniqueItems", detail);
        }
        self.fields(node, place);
        if let Some(schema) = node.child("not") {
            self.node(schema, &place.child("not", None));
        }
        for keyword in ["allOf", "oneOf", "anyOf"] {
            for (at, schema) in node.schemas(keyword).enumerate() {
                self.node(schema, &place.child(&format!("{keyword}[{at}]"), None));
            }
        }
        let definitions = node.get("definitions").and_then(Value::as_object);
        for (name, schema) in definitions.into_iter().flatten() {
            if let Some(schema) = SchemaNode::new(schema) {
                self.node(schema, &place.child(&format!("definitions[{name}]"), None));
            }
        }
        if let Some(items) = node.child("items") {
            let compiled = place.compiled().and_then(|node| node.items.as_deref());
            let mut child = place.child("items", compiled);
            if node.text("x-kubernetes-list-type") != "map" {
                child.uncorrelated_below.get_or_insert_with(|| place.path.clone());
            }
            self.node(items, &child);
        }
        for (at, schema) in node.schemas("items").enumerate() {
            self.node(schema, &place.child(&format!("items[{at}]"), None));
        }
        if node.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            self.errors.push(FieldError {
                field: format!("{}.x-kubernetes-preserve-unknown-fields", place.path),
                problem: FieldProblem::Invalid("false".to_owned()),
                detail: "must be true or undefined".to_owned(),
            });
        }
        list_keywords::check(node, &place.path, &mut self.errors);
        rule_texts::check(node, &place.path, &mut self.errors);
        // rules of a node with a broken schema, here or below, are not compiled
        if self.errors.len() == errors_before {
            self.rules.node(node, place);
        }
    }

    fn fields(&mut self, node: SchemaNode<'_>, place: &SchemaPlace<'_>) {
        let is_said = match node.additional() {
            Additional::Unsaid | Additional::Allowed(true) => false,
            Additional::Allowed(false) | Additional::Schema(_) => true,
        };
        if is_said && node.has_properties() {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.forbid(place, "additionalProperties", detail);
        }
        if let Additional::Schema(schema) = node.additional() {
            let compiled = place.compiled().and_then(|node| node.additional.as_deref());
            let compiled = compiled.and_then(AdditionalFields::schema);
            let mut child = place.child("additionalProperties", compiled);
            if place.is_in_metadata {
                let reason = "inside additionalProperties applying to object metadata";
                child.defaults_forbidden = Some(reason.to_owned());
            }
            self.node(schema, &child);
        }
        let is_resource = place.is_root || node.is_embedded_resource();
        for (name, schema) in node.properties() {
            let compiled = place.compiled().and_then(|node| node.properties.get(name));
            let mut child = place.child(&format!("properties[{name}]"), compiled);
            if is_resource && matches!(name, "metadata" | "kind" | "apiVersion") {
                child.is_in_metadata = true;
                if place.is_root {
                    child.defaults_forbidden = Some(format!("in top-level {name}"));
                }
            }
            self.node(schema, &child);
        }
    }

    /// Reports keywords that are not supported, or not here.
    fn supported(&mut self, node: SchemaNode<'_>, place: &SchemaPlace<'_>) {
        let type_name = node.type_name();
        if !type_name.is_empty() && SchemaType::parse(type_name).is_none() {
            let field = format!("{}.type", place.path);
            let known = SchemaType::ALL.map(SchemaType::name);
            self.errors.push(FieldError::not_supported(field, type_name, &known));
        }
        if let (Some(_), Some(reason)) = (node.get("default"), &place.defaults_forbidden) {
            self.forbid(place, "default", &format!("must not be set {reason}"));
        }
        for keyword in
            ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"]
        {
            let is_said = match (keyword, node.get(keyword)) {
                (_, None) => false,
                ("id" | "patternProperties" | "definitions", Some(value)) => !is_zero(value),
                (_, Some(_)) => true,
            };
            if is_said {
                self.forbid(place, keyword, &format!("{keyword} is not supported"));
            }
        }
        if type_name == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            self.forbid(place, "type", detail);
        }
        if node.get("items").and_then(Value::as_array).is_some_and(|items| !items.is_empty()) {
            self.forbid(place, "items", "items must be a schema object and not an array");
        }
        if place.is_in_metadata && node.is_embedded_resource() {
            let detail = "must not be used inside of resource meta";
            self.forbid(place, "x-kubernetes-embedded-resource", detail);
        }
    }
}
