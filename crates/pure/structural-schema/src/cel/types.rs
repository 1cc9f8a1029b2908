//! Types of expressions, and of the fields that a schema declares (apiserver `cel/common`).

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{authorizer::AccessStep, cost::REQUEST_BYTES_MAX, names};
use crate::{
    AdditionalFields, SchemaType, StructuralSchema,
    formats::StringFormat,
    value_rules::{ValueFormat, ValueRules},
};

/// The type of an expression. Types that hold elements carry how many there may be.
#[derive(Clone, Debug)]
pub(crate) enum CelType {
    Any(u64),
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text(u64),
    Bytes(u64),
    Duration(u64),
    Timestamp(u64),
    List(Arc<CelType>, u64),
    Map(Arc<CelType>, Arc<CelType>, u64),
    Object(Arc<BTreeMap<String, CelType>>),
    Optional(Arc<CelType>),
    TypeName,
    Quantity,
    Url,
    Ip,
    Cidr,
    Semver,
    Format,
    /// An object that an expression makes by the name of its type.
    Message(Arc<str>),
    /// A step of a question to the authorizer.
    Authorization(AccessStep),
    /// A type of a signature that stands for any type, the same each time.
    Param(char),
}

/// No limit is known.
pub(crate) const UNBOUNDED: u64 = u64::MAX;

impl CelType {
    pub(crate) const ANY: Self = Self::Any(UNBOUNDED);

    pub(crate) fn text() -> Self {
        Self::Text(UNBOUNDED)
    }

    pub(crate) fn is_any(&self) -> bool {
        matches!(self, Self::Any(_))
    }

    /// How many elements or characters a value of the type has at most.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Any(size)
            | Self::Text(size)
            | Self::Bytes(size)
            | Self::Duration(size)
            | Self::Timestamp(size)
            | Self::List(_, size)
            | Self::Map(_, _, size) => *size,
            Self::Optional(inner) => inner.size(),
            Self::Bool
            | Self::Int
            | Self::Uint
            | Self::Double
            | Self::Object(_)
            | Self::Message(_)
            | Self::Authorization(_) => 0,
            Self::Null
            | Self::TypeName
            | Self::Quantity
            | Self::Url
            | Self::Ip
            | Self::Cidr
            | Self::Semver
            | Self::Format => 1,
            Self::Param(_) => UNBOUNDED,
        }
    }

    /// The same type with another size.
    pub(crate) fn with_size(self, size: u64) -> Self {
        match self {
            Self::Any(_) => Self::Any(size),
            Self::Text(_) => Self::Text(size),
            Self::Bytes(_) => Self::Bytes(size),
            Self::List(item, _) => Self::List(item, size),
            Self::Map(key, value, _) => Self::Map(key, value, size),
            other => other,
        }
    }

    /// How many lists, maps and optional values a type nests. Objects are compared by the names of
    /// their fields, so what they hold does not count.
    pub(crate) fn depth(&self) -> usize {
        let (mut depth, mut inner) = (0, self);
        while let Self::List(next, _) | Self::Map(_, next, _) | Self::Optional(next) = inner {
            (depth, inner) = (depth + 1, next);
        }
        depth
    }

    /// Whether values of a type can be keys. They nest nothing, so that a type nests in one way
    /// only: what walks over it is done after as many steps as it is deep.
    pub(crate) fn can_be_key(&self) -> bool {
        self.depth() == 0 && !matches!(self, Self::Object(_) | Self::Message(_))
    }

    /// Whether a value of one type can stand where the other is expected.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any(_), _) | (_, Self::Any(_)) => true,
            (Self::List(a, _), Self::List(b, _)) | (Self::Optional(a), Self::Optional(b)) => {
                a.is_like(b)
            }
            (Self::Map(a, b, _), Self::Map(c, d, _)) => a.is_like(c) && b.is_like(d),
            (Self::Null, other) | (other, Self::Null) => matches!(
                other,
                Self::Null
                    | Self::Object(_)
                    | Self::Message(_)
                    | Self::Duration(_)
                    | Self::Timestamp(_)
                    | Self::Optional(_)
            ),
            (Self::Object(a), Self::Object(b)) => a.keys().eq(b.keys()),
            (Self::Message(a), Self::Message(b)) => a == b,
            (Self::Authorization(a), Self::Authorization(b)) => a == b,
            (Self::Param(a), Self::Param(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// The type of a value that has one of two types.
    pub(crate) fn or(self, other: Self) -> Self {
        if !self.is_like(&other) || other.is_any() && !self.is_any() {
            return Self::ANY;
        }
        let size = self.size().max(other.size());
        match (self, other) {
            (Self::List(a, _), Self::List(b, _)) => {
                Self::List(Arc::new(a.as_ref().clone().or(b.as_ref().clone())), size)
            }
            (kept, _) => kept.with_size(size),
        }
    }
}

impl fmt::Display for CelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(_) => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text(_) => f.write_str("string"),
            Self::Bytes(_) => f.write_str("bytes"),
            Self::Duration(_) => f.write_str("duration"),
            Self::Timestamp(_) => f.write_str("timestamp"),
            Self::List(item, _) => write!(f, "list({item})"),
            Self::Map(key, value, _) => write!(f, "map({key}, {value})"),
            Self::Object(_) => f.write_str("object"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::TypeName => f.write_str("type"),
            Self::Quantity => f.write_str("kubernetes.Quantity"),
            Self::Url => f.write_str("kubernetes.URL"),
            Self::Ip => f.write_str("net.IP"),
            Self::Cidr => f.write_str("net.CIDR"),
            Self::Semver => f.write_str("kubernetes.Semver"),
            Self::Format => f.write_str("kubernetes.NamedFormat"),
            Self::Message(name) => f.write_str(name),
            Self::Authorization(step) => f.write_str(step.type_name()),
            Self::Param(name) => write!(f, "{name}"),
        }
    }
}

/// A declared type, and how small its JSON can be.
pub(crate) struct Declared {
    pub(crate) cel_type: CelType,
    pub(crate) bytes_min: u64,
}

impl Declared {
    fn new(cel_type: CelType, bytes_min: u64) -> Option<Self> {
        Some(Self { cel_type, bytes_min })
    }

    /// How often a value can be in one request.
    pub(crate) fn count_max(&self) -> u64 {
        REQUEST_BYTES_MAX / self.bytes_min.saturating_add(1)
    }
}

fn limit(limit: i64) -> u64 {
    u64::try_from(limit).unwrap_or_default()
}

/// What a schema declares to rules; nothing if rules cannot see such values.
pub(crate) fn declare(schema: &StructuralSchema, is_resource: bool) -> Option<Declared> {
    let rules = schema.values.as_deref();
    let text_max =
        |rules: Option<&ValueRules>| rules?.max_length.map(|max| limit(max).saturating_mul(4));
    let longest = REQUEST_BYTES_MAX - 2;
    if schema.is_int_or_string {
        return Declared::new(CelType::Any(text_max(rules).unwrap_or(longest)), 1);
    }
    match schema.value_type? {
        SchemaType::Array => {
            let items = schema.items.as_deref()?;
            let item = declare(items, items.is_embedded_resource)?;
            let max = rules.and_then(|rules| rules.max_items).map(limit);
            let max = max.unwrap_or(longest / item.bytes_min.saturating_add(1));
            Declared::new(CelType::List(Arc::new(item.cel_type), max), 2)
        }
        SchemaType::Object => {
            if let Some(AdditionalFields::Schema(values)) = schema.additional.as_deref() {
                let value = declare(values, values.is_embedded_resource)?;
                let max = rules.and_then(|rules| rules.max_properties).map(limit);
                let max = max.unwrap_or(longest / value.bytes_min.saturating_add(6));
                // upstream takes keys for empty when it estimates
                let key = Arc::new(CelType::Text(0));
                return Declared::new(CelType::Map(key, Arc::new(value.cel_type), max), 2);
            }
            Some(declare_object(schema, is_resource))
        }
        SchemaType::Boolean => Declared::new(CelType::Bool, 4),
        SchemaType::Integer => Declared::new(CelType::Int, 1),
        SchemaType::Number => Declared::new(CelType::Double, 1),
        SchemaType::String => match rules.and_then(|rules| rules.format.as_ref()) {
            Some(ValueFormat::Text(StringFormat::Byte, _)) => {
                let max = rules.and_then(|rules| rules.max_length).map_or(longest, limit);
                Declared::new(CelType::Bytes(max), 2)
            }
            Some(ValueFormat::Text(StringFormat::Duration, _)) => {
                Declared::new(CelType::Duration(32), 3)
            }
            Some(ValueFormat::Text(StringFormat::Date, _)) => {
                Declared::new(CelType::Timestamp(12), 12)
            }
            Some(ValueFormat::Text(StringFormat::DateTime, name)) if &**name == "date-time" => {
                Declared::new(CelType::Timestamp(32), 21)
            }
            _ => {
                let allowed = rules.map(|rules| &rules.allowed).filter(|all| !all.is_empty());
                let longest_allowed = allowed.map(|allowed| {
                    let lengths = allowed.iter().filter_map(|value| value.as_str().map(str::len));
                    lengths.max().unwrap_or_default() as u64
                });
                let max = text_max(rules).or(longest_allowed).unwrap_or(longest);
                Declared::new(CelType::Text(max), 2)
            }
        },
    }
}

fn declare_object(schema: &StructuralSchema, is_resource: bool) -> Declared {
    let required = schema.values.as_ref().map_or(&[][..], |rules| &rules.required);
    let mut fields = BTreeMap::new();
    let mut bytes_min = 2;
    for (name, property) in &schema.properties {
        let Some(field) = declare(property, property.is_embedded_resource) else { continue };
        if required.contains(name) && property.default.is_none() {
            let named = field.bytes_min.saturating_add(name.len() as u64 + 4);
            bytes_min = named.saturating_add(bytes_min);
        }
        if let Some(name) = names::escape(name) {
            fields.insert(name, field.cel_type);
        }
    }
    if is_resource {
        let metadata = schema.properties.get("metadata");
        let named = |field: &str, max: u64| {
            let property = metadata.and_then(|metadata| metadata.properties.get(field));
            let own = property.and_then(|property| property.values.as_ref()?.max_length);
            (field.to_owned(), CelType::Text(own.map_or(max, |own| limit(own).min(max)) * 4))
        };
        let metadata = BTreeMap::from([named("name", 253), named("generateName", 252)]);
        fields.insert("metadata".to_owned(), CelType::Object(Arc::new(metadata)));
        for name in ["apiVersion", "kind"] {
            fields.insert(name.to_owned(), CelType::Text(REQUEST_BYTES_MAX - 2));
        }
    }
    Declared { cel_type: CelType::Object(Arc::new(fields)), bytes_min }
}
