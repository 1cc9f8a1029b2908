//! Objects made at random from the kinds' own schemas: whatever can be read goes through
//! defaulting, validation, warnings and the table without a panic, and defaulting twice is
//! defaulting once.

use std::sync::LazyLock;

use proptest::prelude::*;
use rekindle_types::Tick;
use serde_json::{Map, Value, json};

use crate::identity::ClientIdentity;
use crate::openapi;
use crate::registry::{ObjectPart, Registry, RequestContext};

/// Texts that rules are made for, and texts that no rule expects.
const TEXTS: &[&str] = &[
    "",
    " ",
    "a",
    "web",
    "web-0",
    "A_b",
    "a/b",
    "a/b/c",
    "../..",
    "/abs",
    "..",
    "-",
    ".",
    "a.b",
    "é",
    "\u{0}",
    "1",
    "0",
    "-1",
    "100m",
    "1Gi",
    "1e400",
    "1e-400",
    "9e999999999999",
    "10m",
    "0s",
    "25%",
    "%",
    "Always",
    "Never",
    "OnFailure",
    "None",
    "ClientIP",
    "Exists",
    "In",
    "Gt",
    "NoExecute",
    "Memory",
    "Localhost",
    "Recreate",
    "Pod",
    "RollingUpdate",
    "metadata.labels['a']",
    "metadata.labels['",
    "status.podIP",
    "limits.cpu",
    "v1",
    "10.0.0.1",
    "::1",
    "kubernetes.io/tls",
    "CAP_SYS_ADMIN",
    "Bidirectional",
    "a@b@c",
    ":",
    "a:b:c",
    "latest",
];

const NUMBERS: &[i64] = &[
    0,
    1,
    -1,
    2,
    30,
    80,
    511,
    512,
    65535,
    65536,
    2_147_483_647,
    -2_147_483_648,
    i64::MAX,
    i64::MIN,
];

static DOCUMENTS: LazyLock<(Registry, Vec<Value>)> = LazyLock::new(|| {
    let registry = crate::all();
    let versions = registry.group_versions();
    let documents =
        versions.into_iter().map(|(group, v)| openapi::document(&registry, group, v)).collect();
    (registry, documents)
});

/// A small generator of numbers (xorshift), seeded by proptest.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.roll(list.len())]
    }
}

fn value(schema: &Value, schemas: &Value, depth: usize, dice: &mut Dice) -> Value {
    let target = schema.pointer("/allOf/0/$ref").or_else(|| schema.get("$ref"));
    if let Some(target) = target.and_then(Value::as_str) {
        let name = target.rsplit('/').next().unwrap();
        // what may be one of two things says nothing of either
        if name.ends_with(".JSONSchemaPropsOrBool") {
            return json!(dice.roll(2) == 0);
        }
        if name.ends_with(".JSONSchemaPropsOrArray") || name.ends_with("OrStringArray") {
            return json!([]);
        }
        return value(&schemas[name], schemas, depth, dice);
    }
    if let Some(variants) = schema.get("enum").and_then(Value::as_array) {
        return dice.pick(variants).clone();
    }
    if schema.get("format") == Some(&json!("date-time")) {
        return json!("2026-11-21T12:00:00.123456Z");
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => object(schema, schemas, depth, dice),
        Some("array") => {
            let length = if depth == 0 { 0 } else { dice.roll(4) };
            (0..length).map(|_| value(&schema["items"], schemas, depth - 1, dice)).collect()
        }
        Some("integer" | "number") => number(schema, dice),
        Some("boolean") => json!(dice.roll(2) == 0),
        Some("string") if schema.get("format") == Some(&json!("byte")) => json!("AAE="),
        Some(_) => json!(dice.pick(TEXTS)),
        None if dice.roll(2) == 0 => json!(dice.pick(NUMBERS) % 65_537),
        None => json!(dice.pick(TEXTS)),
    }
}

fn number(schema: &Value, dice: &mut Dice) -> Value {
    let bound = |name| schema.get(name).and_then(Value::as_f64).map(|bound| bound as i64);
    let mut number = *dice.pick(NUMBERS);
    if schema.get("format") == Some(&json!("int32")) {
        number = number.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
    }
    number = number.max(bound("minimum").unwrap_or(i64::MIN));
    json!(number.min(bound("maximum").unwrap_or(i64::MAX)))
}

fn object(schema: &Value, schemas: &Value, depth: usize, dice: &mut Dice) -> Value {
    let mut object = Map::new();
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    // An object inside another one has its own names of group and kind, and no others can be read.
    let is_whole = schema["properties"]["metadata"].is_object();
    for (name, property) in
        schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        if is_whole && matches!(name.as_str(), "apiVersion" | "kind") {
            continue;
        }
        let needed = required.contains(&json!(name));
        if needed || (depth > 0 && dice.roll(3) == 0) {
            let depth = depth.saturating_sub(1);
            object.insert(name.clone(), value(property, schemas, depth, dice));
        }
    }
    if let Some(entry) = schema.get("additionalProperties").filter(|_| depth > 0) {
        for _ in 0..dice.roll(3) {
            object.insert((*dice.pick(TEXTS)).to_owned(), value(entry, schemas, depth - 1, dice));
        }
    }
    Value::Object(object)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn whatever_can_be_read_is_handled(seed in 1u64.., kind in 0usize..64) {
        let (registry, documents) = &*DOCUMENTS;
        let kinds: Vec<_> = registry.kinds().collect();
        let entry = kinds[kind % kinds.len()];
        let name = entry.codec.schema_name();
        let schemas = documents
            .iter()
            .map(|document| &document["components"]["schemas"])
            .find(|schemas| schemas.get(name.as_ref()).is_some())
            .expect("every kind is in the document of its group version");
        let mut dice = Dice(seed);
        let mut random = value(&schemas[name.as_ref()], schemas, 7, &mut dice);
        random["apiVersion"] = json!(entry.api_version);
        random["kind"] = json!(entry.kind);
        let decoded = entry.codec.decode(&random);
        prop_assert!(decoded.is_ok(), "{} of {random}", decoded.err().unwrap());
        let mut object = decoded.unwrap().object;
        let now = Tick::from_secs(1_795_262_400);
        let ctx = RequestContext { now, identity: &ClientIdentity::Anonymous };
        object.set_defaults();
        let once = object.to_value();
        object.set_defaults();
        prop_assert_eq!(object.to_value(), once);
        let _ = object.validate();
        let _ = object.warnings();
        prop_assert_eq!(object.row(ctx.now).len(), entry.columns.len());
        let _ = object.deletion_grace_period_seconds();
        let names: Vec<_> = object.selectable_fields().into_iter().map(|(name, _)| name).collect();
        prop_assert_eq!(&names, &entry.selectable_fields);

        object.prepare_for_create(&ctx);
        let mut same = object.boxed_clone();
        same.prepare_update(ObjectPart::Main, object.as_ref(), &ctx);
        prop_assert_eq!(same.meta().generation, object.meta().generation);
        let _ = same.validate_change(ObjectPart::Main, object.as_ref());
        same.prepare_update(ObjectPart::Status, object.as_ref(), &ctx);
        prop_assert_eq!(same.meta().generation, object.meta().generation);
    }
}
