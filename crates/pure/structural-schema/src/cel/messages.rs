//! Objects that expressions make by name: `Object{…}`, which is applied, and `JSONPatch{…}`.
//! (apiserver `admission/plugin/policy/mutating`)

use base64::{Engine, prelude::BASE64_STANDARD};
use cel::common::ast::{EntryExpr, Expr, IdedExpr, StructExpr};
use serde_json::{Map, Value};

use super::{
    check::{Checked, Checker},
    cost,
    eval::{EvalError, EvalResult, Evaluation},
    types::CelType,
    value::{CelMap, CelMessage, CelText, CelValue},
};

/// The type of what is applied. Its parts are `Object.spec`, `Object.spec.template` and so on.
pub(super) const OBJECT: &str = "Object";
/// The type of one operation of a JSON patch.
pub(super) const JSON_PATCH: &str = "JSONPatch";

/// The type of the variables that a policy composes.
pub(super) const COMPOSED: &str = "kubernetes.variables";

/// Whether a type can be made by its name.
fn is_message(name: &str) -> bool {
    let part = name.strip_prefix(OBJECT);
    name == JSON_PATCH || part.is_some_and(|part| part.is_empty() || part.starts_with('.'))
}

/// The type of a field of a message; none if it has no such field.
pub(super) fn field_type(message: &str, field: &str) -> Option<CelType> {
    match (message, field) {
        (JSON_PATCH, "op" | "path" | "from") => Some(CelType::text()),
        (JSON_PATCH, "value") => Some(CelType::ANY),
        (JSON_PATCH, _) => None,
        _ => Some(CelType::ANY),
    }
}

impl Checker<'_> {
    pub(super) fn message(&mut self, id: u64, message: &StructExpr) -> Checked {
        let name = message.type_name.as_str();
        if !self.has_messages || !is_message(name) {
            let problem = format!("undeclared reference to '{name}' (in container '')");
            return self.problem(id, problem);
        }
        let mut cost = cost::NEW_MAP;
        for entry in &message.entries {
            let EntryExpr::StructField(field) = &entry.expr else {
                return self.problem(id, "an object has fields only");
            };
            let value = self.expression(&field.value);
            cost = cost.saturating_add(value.cost);
            let given = match (field.optional, value.cel_type) {
                (true, CelType::Optional(inner)) => inner.as_ref().clone(),
                (_, other) => other,
            };
            match field_type(name, &field.field) {
                None => {
                    self.problem(entry.id, format!("undefined field '{}'", field.field));
                }
                Some(expected) if !expected.is_like(&given) => {
                    let problem = format!(
                        "expected type of field '{}' is '{expected}' but provided type is \
                         '{given}'",
                        field.field
                    );
                    self.problem(entry.id, problem);
                }
                Some(_) => {}
            }
        }
        Checked::new(CelType::Message(name.into()), cost)
    }
}

impl<'a> Evaluation<'a> {
    pub(super) fn message(&mut self, message: &'a StructExpr) -> EvalResult<'a> {
        let mut fields: Vec<(CelValue<'a>, CelValue<'a>)> = Vec::new();
        for entry in &message.entries {
            let EntryExpr::StructField(field) = &entry.expr else {
                return Err(EvalError::no_overload());
            };
            let name = CelValue::Text(CelText::Borrowed(&field.field));
            match (self.run(&field.value)?, field.optional) {
                (CelValue::Optional(inner), true) => {
                    fields.extend(inner.map(|inner| (name, inner.as_ref().clone())));
                }
                (value, _) => fields.push((name, value)),
            }
        }
        self.charge(cost::NEW_MAP)?;
        Ok(CelValue::Message(CelMessage {
            type_name: &message.type_name,
            fields: CelMap::made(fields),
        }))
    }

    /// A value as JSON. Each part counts: two lists may share what they hold.
    pub(super) fn as_json(&mut self, value: &CelValue<'a>) -> Result<Value, EvalError> {
        self.json_at(value, None)
    }

    /// The same of a value that stands where an object of the type `place` is expected.
    fn json_at(&mut self, value: &CelValue<'a>, place: Option<&str>) -> Result<Value, EvalError> {
        self.charge_work(1)?;
        Ok(match value {
            CelValue::Null => Value::Null,
            CelValue::Bool(flag) => (*flag).into(),
            CelValue::Int(int) => (*int).into(),
            CelValue::Uint(uint) => (*uint).into(),
            CelValue::Double(double) => (*double).into(),
            CelValue::Text(text) => {
                self.charge_text_made(text.len())?;
                (**text).into()
            }
            CelValue::Bytes(bytes) => {
                self.charge_text_made(bytes.len())?;
                BASE64_STANDARD.encode(bytes).into()
            }
            CelValue::Duration(_)
            | CelValue::Timestamp(_)
            | CelValue::Quantity(_)
            | CelValue::Ip(_)
            | CelValue::Cidr(..) => value.shown().into(),
            CelValue::List(list) => {
                let items = list.iter().map(|item| self.json_at(&item, place));
                items.collect::<Result<Vec<_>, _>>()?.into()
            }
            CelValue::Map(map) => self.json_of_map(map)?,
            CelValue::Message(message) => self.json_of_message(message, place)?,
            CelValue::Optional(_)
            | CelValue::TypeName(_)
            | CelValue::Url(_)
            | CelValue::Semver(_)
            | CelValue::Format(_)
            | CelValue::Authorization(_)
            | CelValue::Failure(_) => {
                let problem = format!("type conversion error from '{}' to JSON", value.type_name());
                return Err(EvalError::new(problem));
            }
        })
    }

    fn json_of_map(&mut self, map: &CelMap<'a>) -> Result<Value, EvalError> {
        let mut fields = Map::new();
        self.charge_work(map.len())?;
        for (key, value) in map.entries() {
            let CelValue::Text(name) = &key else {
                let problem =
                    format!("a key of an object must be a string, not {}", key.type_name());
                return Err(EvalError::new(problem));
            };
            let value = self.json_at(&value, None)?;
            fields.insert(name.to_string(), value);
        }
        Ok(Value::Object(fields))
    }

    fn json_of_message(
        &mut self,
        message: &CelMessage<'a>,
        place: Option<&str>,
    ) -> Result<Value, EvalError> {
        let name = message.type_name;
        if let Some(place) = place.filter(|place| *place != name) {
            return Err(EvalError::new(format!(
                "unexpected type name {name:?}, expected {place:?}, which matches field name path \
                 from root Object type"
            )));
        }
        let mut fields = Map::new();
        for (field, value) in message.fields.entries() {
            let field = field.shown();
            let below = format!("{name}.{field}");
            let place = (name != JSON_PATCH).then_some(below.as_str());
            let value = self.json_at(&value, place)?;
            fields.insert(field, value);
        }
        Ok(Value::Object(fields))
    }
}

/// Whether an expression spells `authorizer.requestResource`, which is one name.
pub(super) fn is_request_resource(operand: &IdedExpr, field: &str) -> bool {
    field == "requestResource" && matches!(&operand.expr, Expr::Ident(name) if name == "authorizer")
}

/// The name under which `authorizer.requestResource` is known.
pub(super) const REQUEST_RESOURCE: &str = "authorizer.requestResource";
