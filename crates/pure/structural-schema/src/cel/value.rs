//! Values of expressions. What comes from an object is borrowed, and converted when it is read.

use std::{cmp::Ordering, net::IpAddr, ops::Deref, rc::Rc, sync::LazyLock};

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use rekindle_types::{Quantity, go_float};
use serde_json::{Map, Value, json};

use super::{authorizer::AccessQuestion, names, semver::CelSemver};
use crate::{
    AdditionalFields, ListIdentity, SchemaType, StructuralSchema,
    formats::{StringFormat, parse_date, parse_date_time, parse_duration},
    shown::{GoNumber, json as json_text},
    value_rules::ValueFormat,
};

/// The schema of `metadata` as rules see it.
static METADATA: LazyLock<StructuralSchema> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"name": text, "generateName": text}});
    StructuralSchema::compile(&schema).expect("the schema is a constant")
});
static TEXT: LazyLock<StructuralSchema> = LazyLock::new(|| {
    StructuralSchema::compile(&json!({"type": "string"})).expect("the schema is a constant")
});

/// A value of an expression.
#[derive(Clone, Debug)]
pub(super) enum CelValue<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(CelText<'a>),
    Bytes(Rc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(CelList<'a>),
    Map(CelMap<'a>),
    Optional(Option<Rc<CelValue<'a>>>),
    TypeName(&'static str),
    Quantity(Quantity),
    Url(Rc<str>),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Semver(Rc<CelSemver>),
    Format(&'static str),
    Message(CelMessage<'a>),
    Authorization(Rc<AccessQuestion>),
    /// The result so far of a macro, one item of which failed.
    Failure(Rc<str>),
}

/// A text of an object or the expression, or one that the expression made. A copy is cheap.
#[derive(Clone, Debug)]
pub(super) enum CelText<'a> {
    Borrowed(&'a str),
    Made(Rc<str>),
}

impl Deref for CelText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Made(text) => text,
        }
    }
}

/// What an expression put together, and how deep it nests.
#[derive(Clone, Debug)]
pub(super) struct MadeParts<T> {
    pub(super) parts: Vec<T>,
    depth: usize,
}

impl<'a> MadeParts<CelValue<'a>> {
    pub(super) fn push(&mut self, item: CelValue<'a>) {
        self.depth = self.depth.max(1 + item.depth());
        self.parts.push(item);
    }
}

/// A list of an object, or one that the expression made.
#[derive(Clone, Debug)]
pub(super) enum CelList<'a> {
    Json(&'a [Value], Option<&'a StructuralSchema>),
    Made(Rc<MadeParts<CelValue<'a>>>),
}

/// An object or a map of an object, or one that the expression made.
#[derive(Clone, Debug)]
pub(super) enum CelMap<'a> {
    Json {
        fields: &'a Map<String, Value>,
        /// None when nothing is known of the object but its JSON.
        schema: Option<&'a StructuralSchema>,
        is_resource: bool,
    },
    Made(Rc<MadeParts<(CelValue<'a>, CelValue<'a>)>>),
}

/// An object that the expression made, with the name of its type.
#[derive(Clone, Debug)]
pub(super) struct CelMessage<'a> {
    pub(super) type_name: &'a str,
    pub(super) fields: CelMap<'a>,
}

impl<'a> CelList<'a> {
    pub(super) fn made(items: Vec<CelValue<'a>>) -> Self {
        let depth = 1 + items.iter().map(CelValue::depth).max().unwrap_or_default();
        Self::Made(Rc::new(MadeParts { parts: items, depth }))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Json(items, _) => items.len(),
            Self::Made(made) => made.parts.len(),
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<CelValue<'a>> {
        match self {
            Self::Json(items, schema) => {
                let of_item = match schema {
                    Some(schema) => Some(schema.items.as_deref()?),
                    None => None,
                };
                items.get(at).map(|item| of_field(item, of_item))
            }
            Self::Made(made) => made.parts.get(at).cloned(),
        }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = CelValue<'a>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

impl CelList<'_> {
    /// What identifies an item of an object's list.
    pub(super) fn identity(&self) -> &ListIdentity {
        match self {
            Self::Json(_, Some(schema)) => &schema.list_identity,
            Self::Json(_, None) | Self::Made(_) => &ListIdentity::Atomic,
        }
    }

    /// Whether two lists hold the same. The order does not count in sets and maps.
    fn equals(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if let (Self::Json(a, _), Self::Json(b, _)) = (self, other)
            && *self.identity() != ListIdentity::Atomic
        {
            let sorted = |items: &[Value]| {
                let mut texts: Vec<String> = items.iter().map(json_text).collect();
                texts.sort_unstable();
                texts
            };
            return sorted(a) == sorted(b);
        }
        self.iter().zip(other.iter()).all(|(a, b)| a.equals(&b))
    }
}

impl<'a> CelMap<'a> {
    /// A map of entries that have different keys.
    pub(super) fn made(entries: Vec<(CelValue<'a>, CelValue<'a>)>) -> Self {
        let depth = 1 + entries.iter().map(|(_, value)| value.depth()).max().unwrap_or_default();
        Self::Made(Rc::new(MadeParts { parts: entries, depth }))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Json { fields, .. } => fields.len(),
            Self::Made(made) => made.parts.len(),
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &CelValue<'_>) -> Option<CelValue<'a>> {
        match (self, key) {
            (_, CelValue::Text(name)) => self.field(name),
            (Self::Json { .. }, _) => None,
            (Self::Made(made), key) => {
                let entry = made.parts.iter().find(|(known, _)| known.equals(key));
                entry.map(|(_, value)| value.clone())
            }
        }
    }

    /// The value of a field by the name that rules use, or of a key that is a text.
    pub(super) fn field(&self, name: &str) -> Option<CelValue<'a>> {
        match self {
            Self::Json { fields, schema, is_resource } => {
                field(fields, *schema, *is_resource, name)
            }
            Self::Made(made) => {
                let is_named =
                    |key: &CelValue<'_>| matches!(key, CelValue::Text(t) if **t == *name);
                made.parts.iter().find(|(key, _)| is_named(key)).map(|(_, value)| value.clone())
            }
        }
    }

    /// The keys, in their order.
    pub(super) fn keys(&self) -> Vec<CelValue<'a>> {
        match self {
            Self::Json { fields, .. } => {
                fields.keys().map(|name| CelValue::Text(CelText::Borrowed(name))).collect()
            }
            Self::Made(made) => made.parts.iter().map(|(key, _)| key.clone()).collect(),
        }
    }

    /// The keys with their values, as far as rules can see them.
    pub(super) fn entries(&self) -> Vec<(CelValue<'a>, CelValue<'a>)> {
        match self {
            Self::Json { .. } => {
                let keys = self.keys().into_iter();
                keys.filter_map(|key| self.get(&key).map(|value| (key, value))).collect()
            }
            Self::Made(made) => made.parts.clone(),
        }
    }

    /// Whether two maps hold the same. Keys are looked for where that is cheap.
    fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Json { fields: a, .. }, Self::Json { fields: b, .. }) => a == b,
            (Self::Json { .. }, Self::Made(_)) => other.equals(self),
            (Self::Made(made), other) => {
                made.parts.len() == other.len()
                    && made
                        .parts
                        .iter()
                        .all(|(key, value)| other.get(key).is_some_and(|found| found.equals(value)))
            }
        }
    }
}

fn field<'a>(
    fields: &'a Map<String, Value>,
    schema: Option<&'a StructuralSchema>,
    is_resource: bool,
    name: &str,
) -> Option<CelValue<'a>> {
    let Some(schema) = schema else {
        return fields.get(name).map(|value| of_field(value, None));
    };
    if let Some(AdditionalFields::Schema(of_value)) = schema.additional.as_deref() {
        return fields.get(name).map(|value| of_field(value, Some(of_value)));
    }
    let name = names::unescape(name);
    let value = fields.get(&name)?;
    match name.as_str() {
        "metadata" if is_resource => Some(of_field(value, Some(&METADATA))),
        "apiVersion" | "kind" if is_resource => Some(of_field(value, Some(&TEXT))),
        _ => {
            let schema = schema.properties.get(name.as_str())?;
            Some(of_field(value, Some(schema)))
        }
    }
}

fn of_field<'a>(value: &'a Value, schema: Option<&'a StructuralSchema>) -> CelValue<'a> {
    from_json(value, schema, schema.is_some_and(|schema| schema.is_embedded_resource))
}

/// A value of an object, with the type that its schema gives it, or else its JSON.
pub(super) fn from_json<'a>(
    value: &'a Value,
    schema: Option<&'a StructuralSchema>,
    is_resource: bool,
) -> CelValue<'a> {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => {
            match (GoNumber::from_json(number), schema.and_then(|schema| schema.value_type)) {
                (GoNumber::Int(int), Some(SchemaType::Number)) => CelValue::Double(int as f64),
                (GoNumber::Int(int), _) => CelValue::Int(int),
                (GoNumber::Float(float), Some(SchemaType::Integer)) => CelValue::Int(float as i64),
                (GoNumber::Float(float), _) => CelValue::Double(float),
            }
        }
        Value::String(text) => match schema {
            Some(schema) => from_text(text, schema),
            None => CelValue::Text(CelText::Borrowed(text)),
        },
        Value::Array(items) => CelValue::List(CelList::Json(items, schema)),
        Value::Object(fields) => CelValue::Map(CelMap::Json { fields, schema, is_resource }),
    }
}

fn from_text<'a>(text: &'a str, schema: &StructuralSchema) -> CelValue<'a> {
    let plain = || CelValue::Text(CelText::Borrowed(text));
    let format = schema.values.as_ref().and_then(|rules| rules.format.as_ref());
    let Some(ValueFormat::Text(format, name)) = format.filter(|_| !schema.is_int_or_string) else {
        return plain();
    };
    match format {
        StringFormat::Duration => parse_duration(text).map_or_else(plain, CelValue::Duration),
        StringFormat::DateTime if &**name == "date-time" => {
            parse_date_time(text).map_or_else(plain, CelValue::Timestamp)
        }
        StringFormat::Date => parse_date(text)
            .and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok())
            .map_or_else(plain, |zoned| CelValue::Timestamp(zoned.timestamp())),
        StringFormat::Byte => {
            BASE64_STANDARD.decode(text).map_or_else(|_| plain(), |b| CelValue::Bytes(b.into()))
        }
        _ => plain(),
    }
}

impl<'a> CelValue<'a> {
    pub(super) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(CelText::Made(text.into()))
    }

    /// How deep what the expression made nests. What an object holds counts as flat.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::List(CelList::Made(made)) => made.depth,
            Self::Map(CelMap::Made(made))
            | Self::Message(CelMessage { fields: CelMap::Made(made), .. }) => made.depth,
            Self::Optional(Some(inner)) => 1 + inner.depth(),
            _ => 0,
        }
    }

    /// How large a value is for the cost of what is done with it.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Text(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(inner)) => inner.size(),
            Self::Ip(IpAddr::V4(_)) | Self::Cidr(IpAddr::V4(_), _) => 4,
            Self::Ip(IpAddr::V6(_)) | Self::Cidr(IpAddr::V6(_), _) => 16,
            _ => 1,
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::TypeName(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Message(_) => "object",
            Self::Authorization(question) => question.step.type_name(),
            Self::Failure(_) => "error",
        }
    }

    /// Whether two values are the same. Numbers are compared by value, whatever their type.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => **a == **b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::TypeName(a), Self::TypeName(b)) | (Self::Format(a), Self::Format(b)) => a == b,
            (Self::Quantity(a), Self::Quantity(b)) => quantity_order(*a, *b).is_eq(),
            (Self::Url(a), Self::Url(b)) => a == b,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a, n), Self::Cidr(b, m)) => a == b && n == m,
            (Self::Semver(a), Self::Semver(b)) => a.compare(b) == Ordering::Equal,
            (Self::Message(a), Self::Message(b)) => {
                a.type_name == b.type_name
                    && Self::Map(a.fields.clone()).equals(&Self::Map(b.fields.clone()))
            }
            (Self::Authorization(a), Self::Authorization(b)) => a == b,
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => a.equals(b),
                _ => false,
            },
            (Self::List(a), Self::List(b)) => a.equals(b),
            (Self::Map(a), Self::Map(b)) => a.equals(b),
            _ => self.number_order(other) == Some(Ordering::Equal),
        }
    }

    /// The order of two values, if they have one.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Text(a), Self::Text(b)) => Some(str::cmp(a, b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            _ => self.number_order(other),
        }
    }

    fn number_order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Double(_), _) | (_, Self::Double(_)) => {
                self.as_f64()?.partial_cmp(&other.as_f64()?)
            }
            _ => Some(self.as_i128()?.cmp(&other.as_i128()?)),
        }
    }

    fn as_i128(&self) -> Option<i128> {
        match self {
            Self::Int(int) => Some((*int).into()),
            Self::Uint(uint) => Some((*uint).into()),
            _ => None,
        }
    }

    fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(int) => Some(*int as f64),
            Self::Uint(uint) => Some(*uint as f64),
            Self::Double(double) => Some(*double),
            _ => None,
        }
    }

    /// The value as errors and `%s` show it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(flag) => flag.to_string(),
            Self::Int(int) => int.to_string(),
            Self::Uint(uint) => uint.to_string(),
            Self::Double(double) => go_float(*double),
            Self::Text(text) => text.to_string(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Duration(nanos) => format!("{}s", *nanos as f64 / 1e9),
            Self::Timestamp(moment) => moment.to_string(),
            Self::List(list) => {
                let items: Vec<String> = list.iter().map(|item| item.quoted()).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Map(map) => {
                let entries = map.entries().into_iter();
                let entries: Vec<String> = entries
                    .map(|(key, value)| format!("{}:{}", key.quoted(), value.quoted()))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            Self::Ip(ip) => ip.to_string(),
            Self::Cidr(ip, bits) => format!("{ip}/{bits}"),
            Self::Url(url) => url.to_string(),
            Self::TypeName(name) | Self::Format(name) => (*name).to_owned(),
            Self::Optional(None) => "optional.none()".to_owned(),
            Self::Optional(Some(inner)) => format!("optional({})", inner.shown()),
            Self::Quantity(quantity) => quantity.to_string(),
            Self::Semver(version) => version.to_string(),
            Self::Message(message) => message.type_name.to_owned(),
            Self::Authorization(question) => question.step.type_name().to_owned(),
            Self::Failure(problem) => problem.to_string(),
        }
    }

    fn quoted(&self) -> String {
        match self {
            Self::Text(text) => format!("{:?}", &**text),
            other => other.shown(),
        }
    }
}

/// The order of two quantities by their amounts, however they are written.
pub(super) fn quantity_order(a: Quantity, b: Quantity) -> Ordering {
    a.exceeds(b).cmp(&b.exceeds(a))
}
