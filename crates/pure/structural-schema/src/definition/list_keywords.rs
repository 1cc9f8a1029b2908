//! Combinations of `x-kubernetes-list-type`, its keys and `x-kubernetes-map-type`.

use std::collections::BTreeSet;

use rekindle_types::validation::{FieldError, field_error::FieldProblem};
use serde_json::Value;

use crate::{
    error_list::ErrorList,
    internal_form::{InternalField, internal_form},
    schema_node::SchemaNode,
    shown::shown,
};

const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";

/// Reports what is wrong with these keywords in one node.
pub(super) fn check(node: SchemaNode<'_>, path: &str, errors: &mut ErrorList) {
    let mut check = ListCheck { node, path, errors };
    let list_type = node.get(LIST_TYPE).and_then(Value::as_str);
    if let Some(map_type) = node.get(MAP_TYPE).and_then(Value::as_str) {
        check.type_must_be("object", MAP_TYPE);
        if !matches!(map_type, "atomic" | "granular") {
            check.unsupported(MAP_TYPE, map_type, &["atomic", "granular"]);
        }
    }
    if let Some(list_type) = list_type {
        if node.type_name() != "array" {
            check.type_must_be("array", LIST_TYPE);
        } else if list_type == "set" {
            check.items_of_set();
        }
        if !matches!(list_type, "atomic" | "set" | "map") {
            check.unsupported(LIST_TYPE, list_type, &["atomic", "set", "map"]);
        }
    }
    if !node.list(LIST_KEYS).is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => check.add(FieldError::required(check.field(LIST_TYPE), detail)),
            Some(other) => check.add(FieldError::invalid(check.field(LIST_TYPE), other, detail)),
        }
    }
    if list_type == Some("map") {
        check.keys_of_map();
    }
    if let Some(list_type @ ("set" | "map")) = list_type {
        check.items_have_keys(list_type);
    }
}

struct ListCheck<'a, 'e> {
    node: SchemaNode<'a>,
    path: &'a str,
    errors: &'e mut ErrorList,
}

impl ListCheck<'_, '_> {
    fn add(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    fn field(&self, keyword: &str) -> String {
        format!("{}.{keyword}", self.path)
    }

    fn unsupported(&mut self, keyword: &str, value: &str, allowed: &[&str]) {
        self.add(FieldError::not_supported(self.field(keyword), value, allowed));
    }

    fn type_must_be(&mut self, expected: &str, keyword: &str) {
        let detail = format!("must be {expected} if {keyword} is specified");
        match self.node.type_name() {
            "" => self.add(FieldError::required(self.field("type"), detail)),
            other if other != expected => {
                self.add(FieldError::invalid(self.field("type"), other, detail));
            }
            _ => {}
        }
    }

    /// Items of a set are compared as a whole, so they are merged as a whole.
    fn items_of_set(&mut self) {
        let Some(items) = self.node.child("items") else { return };
        let (keyword, is_atomic) = match items.type_name() {
            "array" => (LIST_TYPE, matches!(items.text(LIST_TYPE), "" | "atomic")),
            "object" => (MAP_TYPE, items.text(MAP_TYPE) == "atomic"),
            _ => return,
        };
        if !is_atomic {
            self.add(FieldError {
                field: self.field(&format!("items.{keyword}")),
                problem: FieldProblem::Invalid(shown(items.get(LIST_TYPE).unwrap_or(&Value::Null))),
                detail: "must be atomic as item of a list with x-kubernetes-list-type=set".into(),
            });
        }
    }

    fn keys_of_map(&mut self) {
        let keys = self.node.list(LIST_KEYS);
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            self.add(FieldError::required(self.field(LIST_KEYS), detail));
        }
        let Some(items) = self.node.get("items") else {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            self.add(FieldError::required(self.field("items"), detail));
            return;
        };
        let Some(items) = SchemaNode::new(items) else {
            self.add(FieldError {
                field: self.field("items"),
                problem: FieldProblem::Invalid(internal_form(InternalField::SchemaOrList, items)),
                detail: "must only have a single schema if x-kubernetes-list-type is map".into(),
            });
            return;
        };
        if items.type_name() != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            let field = self.field("items.type");
            self.add(FieldError::invalid(field, items.type_name(), detail));
            return;
        }
        let node = self.node;
        let refused = |field: String, detail: &str| FieldError {
            field,
            problem: FieldProblem::Invalid(node.get(LIST_KEYS).map(shown).unwrap_or_default()),
            detail: detail.to_owned(),
        };
        let mut seen = BTreeSet::new();
        for key in keys.iter().filter_map(Value::as_str) {
            if self.errors.is_full() {
                return;
            }
            match items.property(key).map(SchemaNode::type_name) {
                Some("array" | "object") => {
                    let field = self.field(&format!("items.properties[{key}].type"));
                    let detail =
                        "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.add(FieldError::invalid(field, items.type_name(), detail));
                }
                Some(_) => {}
                None => {
                    let detail = "entries must all be names of item properties";
                    self.add(refused(self.field(LIST_KEYS), detail));
                }
            }
            if !seen.insert(key) {
                let detail = "must not contain duplicate entries";
                self.add(refused(self.field(LIST_KEYS), detail));
            }
        }
    }

    /// Items that keys identify are never null, and have their keys.
    fn items_have_keys(&mut self, list_type: &str) {
        let Some(items) = self.node.child("items") else { return };
        if items.is_set("nullable") {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.add(FieldError::forbidden(self.field("items.nullable"), detail));
        }
        if list_type != "map" {
            return;
        }
        let required: BTreeSet<&str> = items.texts("required").collect();
        for key in self.node.texts(LIST_KEYS) {
            let Some(property) = items.property(key) else { continue };
            let in_keys = "this property is in x-kubernetes-list-map-keys, so it";
            let place = format!("items.properties[{key}]");
            if !required.contains(key) && property.get("default").is_none() {
                let detail = format!("{in_keys} must have a default or be a required property");
                self.add(FieldError::required(self.field(&format!("{place}.default")), detail));
            }
            if property.is_set("nullable") {
                let detail = format!("{in_keys} cannot be nullable");
                self.add(FieldError::forbidden(self.field(&format!("{place}.nullable")), detail));
            }
        }
    }
}
