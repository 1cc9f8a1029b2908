//! Plays what schemas decide in recorded conversations with kube-apiserver 1.36: which definitions
//! are refused and why, what an object becomes, and which objects are refused.

#![allow(clippy::unwrap_used, reason = "a broken record fails the test")]

use std::collections::BTreeMap;

use rekindle_structural_schema::{DefinitionSchema, StructuralSchema, check_definition_schema};
use rekindle_types::validation::FieldError;
use serde_json::Value;

const CONVERSATIONS: &str = include_str!("../../api/tests/requests/conversations/crd.json");
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SCHEMA_PATH: &str = "spec.validation.openAPIV3Schema";

/// A cause of a refusal: field, message, reason.
type Cause = (String, String, String);

fn causes_of(errors: &[FieldError]) -> Vec<Cause> {
    let cause =
        |error: &FieldError| (error.field.clone(), error.body(), error.cause_reason().to_owned());
    errors.iter().map(cause).collect()
}

fn recorded_causes(step: &Value) -> Option<Vec<Cause>> {
    let causes = step["expect"]["body"]["details"]["causes"].as_array()?;
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    Some(causes.iter().map(|c| (text(c, "field"), text(c, "message"), text(c, "reason"))).collect())
}

fn merge(into: &mut Value, patch: &Value) {
    let (Value::Object(fields), Value::Object(changes)) = (&mut *into, patch) else {
        *into = patch.clone();
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

/// What one conversation has built up.
#[derive(Default)]
struct Played {
    schema: Option<StructuralSchema>,
    has_status: bool,
    objects: BTreeMap<String, Value>,
    compared: usize,
}

impl Played {
    fn step(&mut self, name: &str, step: &Value) {
        let (method, path) = (step["method"].as_str().unwrap(), step["path"].as_str().unwrap());
        let is_object_body = step["body"].is_object();
        let path = path.split('?').next().unwrap();
        if path == DEFINITIONS && method == "POST" && is_object_body {
            self.definition(name, step);
        } else if path.starts_with(DEFINITIONS) && method == "PATCH" {
            if let Some(schema) = step["body"].pointer("/spec/versions/0/schema/openAPIV3Schema") {
                self.schema = Some(StructuralSchema::compile(schema).unwrap());
            }
        } else if path.contains("/kites") && is_object_body && !path.ends_with("/scale") {
            self.object(name, step, method, path);
        }
    }

    fn definition(&mut self, name: &str, step: &Value) {
        let spec = &step["body"]["spec"];
        let Some(schema) = spec.pointer("/versions/0/schema/openAPIV3Schema") else { return };
        let has_status = spec.pointer("/versions/0/subresources/status").is_some();
        let found =
            check_definition_schema(&DefinitionSchema { schema, path: SCHEMA_PATH, has_status });
        match (step["expect"]["status"].as_u64(), recorded_causes(step)) {
            (Some(422), Some(causes)) => {
                let causes: Vec<Cause> =
                    causes.into_iter().filter(|(f, _, _)| f.starts_with(SCHEMA_PATH)).collect();
                assert_eq!(causes_of(&found), causes, "{name}: {schema}");
            }
            (Some(422), None) => assert!(!found.is_empty(), "{name}: {schema}"),
            _ => assert_eq!(causes_of(&found), [], "{name}: {schema}"),
        }
        self.compared += 1;
        self.has_status = has_status;
        self.schema = StructuralSchema::compile(schema).ok();
    }

    fn object(&mut self, name: &str, step: &Value, method: &str, path: &str) {
        let Some(schema) = &self.schema else { return };
        let body = &step["body"];
        let status = step["expect"]["status"].as_u64().unwrap();
        let is_status = path.ends_with("/status");
        let key = body["metadata"]["name"].as_str().map_or_else(
            || path.trim_end_matches("/status").rsplit('/').next().unwrap().to_owned(),
            str::to_owned,
        );
        let (mut new, old) = match (method, step["type"].as_str()) {
            ("POST", _) => (body.clone(), None),
            ("PATCH", None | Some("application/merge-patch+json")) => {
                let Some(old) = self.objects.get(&key) else { return };
                let mut new = old.clone();
                merge(&mut new, body);
                (new, Some(old.clone()))
            }
            _ => return,
        };
        if let Some(fields) = new.as_object_mut()
            && self.has_status
            && method == "POST"
        {
            fields.remove("status");
        }
        if schema.coerce_embedded(&mut new).is_err() {
            assert_eq!(status, 400, "{name}: {body}");
            return;
        }
        schema.prune_resource(&mut new);
        schema.fill_defaults(&mut new);
        let errors = match &old {
            Some(old) if is_status => schema.validate_status(&new, old),
            _ => schema.validate(&new, old.as_ref()),
        };
        match (status, recorded_causes(step)) {
            (422, Some(causes)) => {
                let is_ours = |(field, _, _): &Cause| {
                    ["spec", "status", "<nil>"].iter().any(|ours| field.starts_with(ours))
                };
                if causes.iter().all(is_ours) {
                    assert_eq!(causes_of(&errors), causes, "{name}: {body}");
                    self.compared += 1;
                }
            }
            (200 | 201, _) => {
                assert_eq!(causes_of(&errors), [], "{name}: {body}");
                let answer = &step["expect"]["body"]["spec"];
                if !answer.to_string().contains("<time>") {
                    assert_eq!(&new["spec"], answer, "{name}: {body}");
                }
                self.compared += 1;
                self.objects.insert(key, new);
            }
            _ => {}
        }
    }
}

#[test]
fn schemas_decide_as_upstream_recorded_it() {
    let conversations: Value = serde_json::from_str(CONVERSATIONS).unwrap();
    let mut compared = 0;
    for conversation in conversations.as_array().unwrap() {
        let name = conversation["name"].as_str().unwrap();
        let mut played = Played::default();
        for step in conversation["steps"].as_array().unwrap() {
            played.step(name, step);
        }
        compared += played.compared;
    }
    assert!(compared >= 100, "only {compared} steps were compared");
}
