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

    /// A value as JSON, no larger than the body of a request may be. Each part counts: two lists
    /// may share what they hold.
    pub(super) fn as_json(&mut self, value: &CelValue<'a>) -> Result<Value, EvalError> {
        let mut json = JsonWriter {
            evaluation: self,
            values_left: JSON_VALUES_MAX,
            bytes_left: cost::REQUEST_BYTES_MAX as usize,
        };
        json.value(value, None)
    }
}

/// The most values of what a mutation makes, as of a body.
const JSON_VALUES_MAX: usize = 125_000;

struct JsonWriter<'e, 'a> {
    evaluation: &'e mut Evaluation<'a>,
    values_left: usize,
    bytes_left: usize,
}

impl<'a> JsonWriter<'_, 'a> {
    fn text(&mut self, text: &str) -> Result<String, EvalError> {
        let left = self.bytes_left.checked_sub(text.len());
        self.bytes_left = left.ok_or_else(too_large)?;
        Ok(text.to_owned())
    }

    /// A value that stands where an object of the type `place` is expected.
    fn value(&mut self, value: &CelValue<'a>, place: Option<&str>) -> Result<Value, EvalError> {
        self.values_left = self.values_left.checked_sub(1).ok_or_else(too_large)?;
        self.evaluation.charge_new_values(1)?;
        Ok(match value {
            CelValue::Null => Value::Null,
            CelValue::Bool(flag) => (*flag).into(),
            CelValue::Int(int) => (*int).into(),
            CelValue::Uint(uint) => (*uint).into(),
            CelValue::Double(double) => (*double).into(),
            CelValue::Text(text) => self.text(text)?.into(),
            CelValue::Bytes(bytes) => {
                let left = self.bytes_left.checked_sub(bytes.len().saturating_mul(2));
                self.bytes_left = left.ok_or_else(too_large)?;
                BASE64_STANDARD.encode(bytes).into()
            }
            CelValue::Duration(_)
            | CelValue::Timestamp(_)
            | CelValue::Quantity(_)
            | CelValue::Ip(_)
            | CelValue::Cidr(..) => value.shown().into(),
            CelValue::List(list) => {
                let mut items = Vec::new();
                for at in 0..list.len() {
                    if let Some(item) = list.get(at) {
                        items.push(self.value(&item, place)?);
                    }
                }
                items.into()
            }
            CelValue::Map(map) => self.object(map, |_| None)?,
            CelValue::Message(message) => self.message(message, place)?,
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

    fn message(
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
        self.object(&message.fields, |field| {
            (name != JSON_PATCH).then(|| format!("{name}.{field}"))
        })
    }

    /// An object. `place` gives the types of its fields by their names.
    fn object(
        &mut self,
        map: &CelMap<'a>,
        place: impl Fn(&str) -> Option<String>,
    ) -> Result<Value, EvalError> {
        let mut fields = Map::new();
        for key in map.keys() {
            let CelValue::Text(name) = &key else {
                let problem =
                    format!("a key of an object must be a string, not {}", key.type_name());
                return Err(EvalError::new(problem));
            };
            self.evaluation.charge_lookup(&CelValue::Map(map.clone()), &key)?;
            let Some(value) = map.get(&key) else { continue };
            let value = self.value(&value, place(name).as_deref())?;
            let name = self.text(name)?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

fn too_large() -> EvalError {
    EvalError::new("the object that the expression makes is too large")
}

/// Whether an expression spells `authorizer.requestResource`, which is one name.
pub(super) fn is_request_resource(operand: &IdedExpr, field: &str) -> bool {
    field == "requestResource" && matches!(&operand.expr, Expr::Ident(name) if name == "authorizer")
}

/// The name under which `authorizer.requestResource` is known.
pub(super) const REQUEST_RESOURCE: &str = "authorizer.requestResource";
