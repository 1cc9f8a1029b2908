//! Validates one value and what is below it.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::{
    numbers::{NumberCheck, is_json_integer},
    outcome::{Reporter, ValueOutcome},
    unchanged::{OldItems, OldValue, is_unchanged},
    value_path::ValuePath,
};
use crate::{
    AdditionalFields, SchemaType, StructuralSchema,
    shown::{GoNumber, shown},
    value_rules::{ValueFormat, ValueRules},
};

/// How often a value may be held against a schema, for one object. Each alternative counts.
const CHECKS_MAX: usize = 5_000_000;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// Of an object.
    Content,
    /// The default of a field.
    Default,
}

pub(super) struct Validator<'a> {
    pub(super) reporter: Reporter<'a>,
    kind: ValueKind,
    checks_left: Cell<usize>,
}

impl<'a> Validator<'a> {
    pub(super) fn new(prefix: &'a str, kind: ValueKind) -> Self {
        Self { reporter: Reporter { prefix }, kind, checks_left: Cell::new(CHECKS_MAX) }
    }

    /// Whether the object would take too long: then it is refused.
    pub(super) fn is_exhausted(&self) -> bool {
        self.checks_left.get() == 0
    }

    /// Validates a value. What is wrong, but was there before, does not count.
    pub(super) fn value(
        &self,
        schema: &StructuralSchema,
        value: &Value,
        old: OldValue<'_>,
        path: &ValuePath<'_>,
    ) -> ValueOutcome {
        let outcome = self.all_of_value(schema, value, old, path);
        let is_kept =
            !outcome.is_valid() && old.get().is_some_and(|old| is_unchanged(schema, value, old));
        if is_kept {
            return ValueOutcome { checks: outcome.checks, ..ValueOutcome::default() };
        }
        outcome
    }

    fn all_of_value(
        &self,
        schema: &StructuralSchema,
        value: &Value,
        old: OldValue<'_>,
        path: &ValuePath<'_>,
    ) -> ValueOutcome {
        let rules = schema.values.as_deref();
        let mut outcome = ValueOutcome::default();
        if self.is_exhausted() {
            return outcome;
        }
        self.checks_left.update(|left| left - 1);
        if value.is_null() {
            self.value_type(schema, value, path, &mut outcome);
            self.allowed(rules, value, path, &mut outcome);
            return outcome;
        }
        if self.has_type_check(schema) {
            self.value_type(schema, value, path, &mut outcome);
            outcome.checks += 1;
        }
        if let Some(rules) = rules {
            outcome.merge(self.junctors(rules, value, path));
        }
        outcome.checks += 1 + usize::from(rules.is_none());
        match value {
            Value::String(text) => {
                if let Some(rules) = rules {
                    self.text(rules, value, text, path, &mut outcome);
                }
                outcome.checks += 1;
            }
            Value::Number(number) => {
                let number = GoNumber::from_json(number);
                let check = NumberCheck { reporter: &self.reporter, path, schema, value, number };
                outcome.merge(check.run(rules));
                outcome.checks += 1;
            }
            Value::Array(items) => {
                self.items(schema, items, old, path, &mut outcome);
                outcome.checks += 2;
            }
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        self.allowed(rules, value, path, &mut outcome);
        outcome.checks += 1;
        if let Value::Object(fields) = value {
            self.fields(schema, fields, old, path, &mut outcome);
            outcome.checks += 1;
        }
        outcome.checks += 1;
        outcome
    }

    /// Upstream gives integers or texts no type when it looks at defaults.
    fn is_default_of_any(&self, schema: &StructuralSchema) -> bool {
        schema.is_int_or_string && self.kind == ValueKind::Default
    }

    fn has_type_check(&self, schema: &StructuralSchema) -> bool {
        let has_format = schema.values.as_ref().is_some_and(|rules| rules.format.is_some());
        schema.value_type.is_some() || schema.is_int_or_string || has_format
    }

    fn value_type(
        &self,
        schema: &StructuralSchema,
        value: &Value,
        path: &ValuePath<'_>,
        outcome: &mut ValueOutcome,
    ) {
        let expected: &[SchemaType] = match (schema.is_int_or_string, &schema.value_type) {
            (true, _) => &[SchemaType::Integer, SchemaType::String],
            (false, Some(known)) => std::slice::from_ref(known),
            (false, None) => &[],
        };
        let names = || expected.iter().map(|known| known.name()).collect::<Vec<_>>().join(",");
        let found = match value {
            Value::Null => {
                if !expected.is_empty() && !schema.is_nullable && !self.is_default_of_any(schema) {
                    outcome.add(self.reporter.wrong_type(path, &names(), "null"));
                } else {
                    outcome.checks += 1;
                }
                return;
            }
            Value::Bool(_) => SchemaType::Boolean,
            Value::String(_) => SchemaType::String,
            Value::Array(_) => SchemaType::Array,
            Value::Object(_) => SchemaType::Object,
            Value::Number(number) => match GoNumber::from_json(number) {
                GoNumber::Int(_) => SchemaType::Integer,
                GoNumber::Float(float)
                    if is_json_integer(float) && expected.contains(&SchemaType::Integer) =>
                {
                    SchemaType::Integer
                }
                GoNumber::Float(_) => SchemaType::Number,
            },
        };
        let is_numeric =
            |known: &SchemaType| matches!(known, SchemaType::Integer | SchemaType::Number);
        let format = schema.values.as_ref().and_then(|rules| rules.format.as_ref());
        let is_whole_number =
            found == SchemaType::Integer && expected.contains(&SchemaType::Number);
        if expected.contains(&found) || is_whole_number || self.is_default_of_any(schema) {
            outcome.checks += 1;
            return;
        }
        let is_text_or_list = matches!(found, SchemaType::String | SchemaType::Array);
        match format {
            Some(format) if !is_text_or_list => {
                let found = match found {
                    SchemaType::Integer => "int64",
                    SchemaType::Number => "float64",
                    SchemaType::Array
                    | SchemaType::Boolean
                    | SchemaType::Object
                    | SchemaType::String => "",
                };
                outcome.add(self.reporter.wrong_type(path, format.name(), found));
            }
            // upstream lets a list pass for a text with a format
            Some(_) if !expected.iter().any(is_numeric) => outcome.checks += 1,
            Some(_) | None => {
                outcome.add(self.reporter.wrong_type(path, &names(), found.name()));
            }
        }
    }

    fn junctors(&self, rules: &ValueRules, value: &Value, path: &ValuePath<'_>) -> ValueOutcome {
        let mut all = ValueOutcome { checks: 1, ..ValueOutcome::default() };
        let validate = |schema: &StructuralSchema| {
            self.all_of_value(schema, value, OldValue::Uncorrelated, path)
        };
        if !rules.any_of.is_empty() {
            let (valid, best) = alternatives(rules.any_of.iter().map(validate), 1);
            if valid == 0 {
                let name = path.text();
                let rule = format!("{name:?} must validate at least one schema (anyOf)");
                all.add(self.reporter.of_whole(rule));
            }
            all.merge(best);
        }
        if !rules.one_of.is_empty() {
            let (valid, best) = alternatives(rules.one_of.iter().map(validate), usize::MAX);
            if valid != 1 {
                let name = path.text();
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    valid => format!("Found {valid} valid alternatives"),
                };
                let rule =
                    format!("{name:?} must validate one and only one schema (oneOf). {found}");
                all.add(self.reporter.of_whole(rule));
            }
            if valid <= 1 {
                all.merge(best);
            }
        }
        let mut valid = 0;
        for outcome in rules.all_of.iter().map(validate) {
            valid += usize::from(outcome.is_valid());
            all.merge(outcome);
        }
        if valid != rules.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let name = path.text();
            let rule = format!("{name:?} must validate all the schemas (allOf){none}");
            all.add(self.reporter.of_whole(rule));
        }
        if rules.not.as_ref().is_some_and(|not| validate(not).is_valid()) {
            let rule = format!("{:?} must not validate the schema (not)", path.text());
            all.add(self.reporter.of_whole(rule));
        }
        all
    }

    fn text(
        &self,
        rules: &ValueRules,
        value: &Value,
        text: &str,
        path: &ValuePath<'_>,
        outcome: &mut ValueOutcome,
    ) {
        let length = text.chars().count();
        if let Some(max) = rules.max_length.filter(|max| exceeds(length, *max)) {
            outcome.add(self.reporter.too_long(path, max));
        } else if let Some(min) = rules.min_length.filter(|min| falls_short(length, *min)) {
            let rule = format!("should be at least {min} chars long");
            outcome.add(self.reporter.broken(path, value, &rule));
        } else if let Some(pattern) = &rules.pattern {
            let source = &pattern.pattern;
            let rule = match pattern.get() {
                Ok(regex) if regex.is_match(text) => None,
                Ok(_) => Some(format!("should match '{source}'")),
                Err(problem) => {
                    Some(format!("should match '{source}, but pattern is invalid: {problem}'"))
                }
            };
            if let Some(rule) = rule {
                outcome.add(self.reporter.broken(path, value, &rule));
            }
        }
        if let Some(ValueFormat::Text(format, name)) = &rules.format {
            outcome.checks += 1;
            if !format.is_met_by(text) {
                outcome.add(self.reporter.wrong_type(path, name, text));
            }
        }
    }

    fn items(
        &self,
        schema: &StructuralSchema,
        items: &[Value],
        old: OldValue<'_>,
        path: &ValuePath<'_>,
        outcome: &mut ValueOutcome,
    ) {
        if let Some(of_item) = &schema.items {
            let old_items = OldItems::new(schema, old.get());
            for (at, item) in items.iter().enumerate() {
                if outcome.errors.is_full() || self.is_exhausted() {
                    return;
                }
                let old = old_items.get(item).map_or(OldValue::Uncorrelated, OldValue::Inner);
                outcome.merge(self.value(of_item, item, old, &ValuePath::Index(path, at)));
            }
        }
        let Some(rules) = schema.values.as_deref() else { return };
        if let Some(min) = rules.min_items.filter(|min| falls_short(items.len(), *min)) {
            let rule = format!("should have at least {min} items");
            outcome.add(self.reporter.broken(path, &items.len().into(), &rule));
        }
        if let Some(max) = rules.max_items.filter(|max| exceeds(items.len(), *max)) {
            outcome.add(self.reporter.too_many(path, items.len(), max));
        }
    }

    fn allowed(
        &self,
        rules: Option<&ValueRules>,
        value: &Value,
        path: &ValuePath<'_>,
        outcome: &mut ValueOutcome,
    ) {
        let Some(rules) = rules.filter(|rules| !rules.allowed.is_empty()) else { return };
        // upstream converts the value to the Go type of the allowed one
        let is_same = |allowed: &Value| match (allowed, value) {
            (Value::Null, _) => false,
            (Value::Number(allowed), Value::Number(value)) => {
                match (GoNumber::from_json(allowed), GoNumber::from_json(value)) {
                    (GoNumber::Int(allowed), value) => allowed == value.as_i64(),
                    (GoNumber::Float(allowed), value) => allowed == value.as_f64(),
                }
            }
            _ => allowed == value,
        };
        if !rules.allowed.iter().any(is_same) {
            outcome.add(self.reporter.not_supported(path, value, &rules.allowed));
        }
    }

    fn fields(
        &self,
        schema: &StructuralSchema,
        fields: &Map<String, Value>,
        old: OldValue<'_>,
        path: &ValuePath<'_>,
        outcome: &mut ValueOutcome,
    ) {
        let rules = schema.values.as_deref();
        if let Some(rules) = rules {
            let count = fields.len();
            if let Some(min) = rules.min_properties.filter(|min| falls_short(count, *min)) {
                let rule = format!("should have at least {min} properties");
                outcome.add(self.reporter.broken(path, &count.into(), &rule));
            }
            if let Some(max) = rules.max_properties.filter(|max| exceeds(count, *max)) {
                outcome.add(self.reporter.too_many(path, count, max));
            }
        }
        let unknown =
            || fields.iter().filter(|(name, _)| !schema.properties.contains_key(name.as_str()));
        match schema.additional.as_deref() {
            Some(AdditionalFields::Forbidden) => {
                for (name, _) in unknown() {
                    if outcome.errors.is_full() {
                        return;
                    }
                    let place = ValuePath::Field(path, name);
                    let detail = format!("{} in body is a forbidden property", place.text());
                    let shown_name = shown(&Value::String(name.clone()));
                    outcome.add(self.reporter.invalid(path, shown_name, detail));
                }
            }
            Some(AdditionalFields::Schema(of_field)) => {
                for (name, field) in unknown() {
                    if outcome.errors.is_full() || self.is_exhausted() {
                        return;
                    }
                    let place = ValuePath::Entry(path, name);
                    outcome.merge(self.value(of_field, field, old.field(name), &place));
                }
            }
            Some(AdditionalFields::Any) | None => {}
        }
        for (name, of_field) in &schema.properties {
            if outcome.errors.is_full() {
                return;
            }
            if let Some(field) = fields.get(&**name) {
                let place = ValuePath::Field(path, name);
                outcome.merge(self.value(of_field, field, old.field(name), &place));
            }
        }
        for name in rules.map_or(&[][..], |rules| &rules.required) {
            if !fields.contains_key(&**name) {
                outcome.add(self.reporter.required(&ValuePath::Field(path, name)));
            }
        }
    }
}

/// How many alternatives are valid, and the one that explains best. Looking ends with `enough`.
fn alternatives(
    outcomes: impl Iterator<Item = ValueOutcome>,
    enough: usize,
) -> (usize, ValueOutcome) {
    let mut valid = 0;
    let mut best: Option<ValueOutcome> = None;
    for outcome in outcomes {
        if outcome.is_valid() {
            valid += 1;
            if valid == 1 {
                best = Some(outcome);
            }
            if valid >= enough {
                break;
            }
        } else if valid == 0 && best.as_ref().is_none_or(|best| outcome.checks > best.checks) {
            best = Some(outcome);
        }
    }
    (valid, best.unwrap_or_default())
}

fn exceeds(count: usize, max: i64) -> bool {
    i64::try_from(count).is_ok_and(|count| count > max)
}

fn falls_short(count: usize, min: i64) -> bool {
    i64::try_from(count).is_ok_and(|count| count < min)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn alternatives_are_tried_only_so_often_for_one_object() {
        let alternatives = vec![json!({"maximum": 0}); 50];
        let items = json!({"type": "integer", "anyOf": alternatives});
        let schema = json!({"type": "array", "items": items});
        let schema = StructuralSchema::compile(&schema).unwrap();
        let is_exhausted = |checks: usize| {
            let validator = Validator {
                reporter: Reporter { prefix: "" },
                kind: ValueKind::Content,
                checks_left: Cell::new(checks),
            };
            let value = json!([1, 2, 3]);
            validator.value(&schema, &value, OldValue::Uncorrelated, &ValuePath::Root);
            validator.is_exhausted()
        };
        assert!(!is_exhausted(3 * 51 + 2));
        assert!(is_exhausted(3 * 51 + 1));
    }
}
