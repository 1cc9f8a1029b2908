//! The merge schema of the built-in kinds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use rekindle_structured_merge::{
    AbsentField, KeyField, ListMergeRule, ListType, MapField, MapGranularity, MapType, MergeSchema,
    MergeType, ScalarType, TypeId, TypedSchema,
};
use serde_json::Value;

const TABLE: &str = include_str!("builtin_types.txt");

static BUILTIN: LazyLock<BuiltinTypes> = LazyLock::new(BuiltinTypes::read);

/// What a table line can refer to that every object has.
const OBJECT_META: &str = "apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// How objects of the schema with this name merge. One that the table lacks has known metadata,
/// and the rest merges by what it looks like.
pub fn of_schema(name: &str) -> TypedSchema<'static> {
    BUILTIN.get(name.strip_prefix("io.k8s.").unwrap_or(name))
}

/// How objects of the schema with this name merge, if the table has it.
pub(crate) fn map_of_schema(name: &str) -> Option<&'static MapType> {
    let id = BUILTIN.by_name.get(name.strip_prefix("io.k8s.").unwrap_or(name))?;
    match BUILTIN.schema.get(*id) {
        MergeType::Map(map) => Some(map),
        MergeType::Scalar(_) | MergeType::List(_) | MergeType::Anything(_) => None,
    }
}

/// How a field of one of them merges.
pub(crate) fn merge_type(id: TypeId) -> &'static MergeType {
    BUILTIN.schema.get(id)
}

/// Whether a type is that of a schema: so it merges as it does everywhere.
pub(crate) fn is_of_schema(id: TypeId) -> bool {
    BUILTIN.by_name.values().any(|named| *named == id)
}

/// How an autoscaling/v1 Scale merges.
pub fn of_scale() -> TypedSchema<'static> {
    BUILTIN.get("api.autoscaling.v1.Scale")
}

/// A schema with the types of metadata, and that of an object's own: for kinds that are described
/// elsewhere.
pub fn with_metadata() -> (MergeSchema, TypeId) {
    let reader = TableReader::read(|name| name.starts_with(OF_METADATA));
    let metadata = reader.named(OBJECT_META);
    (reader.schema, metadata)
}

/// What the names of the types begin with that metadata is made of.
const OF_METADATA: &str = "apimachinery.pkg.apis.meta.v1.";

struct BuiltinTypes {
    schema: MergeSchema,
    by_name: BTreeMap<&'static str, TypeId>,
    unknown: TypeId,
}

impl BuiltinTypes {
    fn get(&'static self, name: &str) -> TypedSchema<'static> {
        self.schema.typed(self.by_name.get(name).copied().unwrap_or(self.unknown))
    }

    fn read() -> Self {
        let mut reader = TableReader::read(|_| true);
        let metadata = reader.named(OBJECT_META);
        let unknown = MapType {
            fields: vec![MapField {
                name: Cow::Borrowed("metadata"),
                field_type: metadata,
                absent: AbsentField::EmptyObject,
            }],
            others: Some(MergeSchema::ANY_DEDUCED),
            granularity: MapGranularity::Granular,
        };
        let unknown = reader.schema.add(MergeType::Map(unknown));
        Self { schema: reader.schema, by_name: reader.by_name, unknown }
    }
}

struct TableReader {
    schema: MergeSchema,
    /// Texts, numbers, truth values, any of them.
    scalars: [TypeId; 4],
    by_name: BTreeMap<&'static str, TypeId>,
}

/// The lines of the table, by the name of their type.
type TableLines = BTreeMap<&'static str, &'static str>;

impl TableReader {
    /// Reads the lines of these types.
    fn read(is_wanted: impl Fn(&str) -> bool) -> Self {
        let lines = || {
            let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
            lines.filter(|line| is_wanted(line.split(' ').next().unwrap_or_default()))
        };
        let mut schema = MergeSchema::new();
        let scalars = [ScalarType::Text, ScalarType::Number, ScalarType::Boolean, ScalarType::Any]
            .map(|scalar| schema.add(MergeType::Scalar(scalar)));
        let mut reader = TableReader { schema, scalars, by_name: BTreeMap::new() };
        for line in lines() {
            let name = line.split(' ').next().unwrap_or_default();
            let id = reader.schema.add(MergeType::Anything(MapGranularity::Atomic));
            reader.by_name.insert(name, id);
        }
        let content: BTreeMap<_, _> = lines().filter_map(|line| line.split_once(' ')).collect();
        for (name, text) in &content {
            let map = reader.map(text, &content);
            reader.schema.define(reader.by_name[name], MergeType::Map(map));
        }
        reader
    }

    fn named(&self, name: &str) -> TypeId {
        *self.by_name.get(name).unwrap_or_else(|| panic!("the table has the type {name}"))
    }

    /// The object type that a line describes.
    fn map(&mut self, text: &'static str, lines: &TableLines) -> MapType {
        let mut map =
            MapType { fields: Vec::new(), others: None, granularity: MapGranularity::Granular };
        for word in text.split(' ') {
            let Some((name, value)) = word.split_once('=') else {
                map.granularity = MapGranularity::Atomic;
                continue;
            };
            let (value, absent) = match value.split_once('~') {
                Some((value, "{}")) => (value, AbsentField::EmptyObject),
                Some((value, "null")) => (value, AbsentField::Null),
                // the default of a key, which the list reads
                Some((value, _)) => (value, AbsentField::Missing),
                None => (value, AbsentField::Missing),
            };
            let field_type = self.value(value, lines);
            match name {
                "*" => map.others = Some(field_type),
                name => map.fields.push(MapField { name: Cow::Borrowed(name), field_type, absent }),
            }
        }
        map
    }

    fn value(&mut self, text: &'static str, lines: &TableLines) -> TypeId {
        let granular = |granularity| {
            move |others| {
                MergeType::Map(MapType { fields: Vec::new(), others: Some(others), granularity })
            }
        };
        match text {
            "s" => self.scalars[0],
            "n" => self.scalars[1],
            "b" => self.scalars[2],
            "u" => self.scalars[3],
            "?" => MergeSchema::ANY_DEDUCED,
            "!" => MergeSchema::ANY_ATOMIC,
            _ => {
                if let Some(name) = text.strip_prefix('@') {
                    return self.named(name);
                }
                if let Some(name) = text.strip_prefix("!@") {
                    return self.with_granularity(name, MapGranularity::Atomic, lines);
                }
                if let Some(name) = text.strip_prefix("%@") {
                    return self.with_granularity(name, MapGranularity::Granular, lines);
                }
                if let Some(rest) = text.strip_prefix("{}") {
                    let others = self.value(rest, lines);
                    return self.schema.add(granular(MapGranularity::Granular)(others));
                }
                if let Some(rest) = text.strip_prefix("{!}") {
                    let others = self.value(rest, lines);
                    return self.schema.add(granular(MapGranularity::Atomic)(others));
                }
                self.list(text, lines)
            }
        }
    }

    /// A type whose use here merges otherwise than the type itself.
    fn with_granularity(
        &mut self,
        name: &'static str,
        granularity: MapGranularity,
        lines: &TableLines,
    ) -> TypeId {
        let map = self.map(lines[name], lines);
        self.schema.add(MergeType::Map(MapType { granularity, ..map }))
    }

    fn list(&mut self, text: &'static str, lines: &TableLines) -> TypeId {
        let (rule, items) = text
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
            .unwrap_or_else(|| panic!("the table has no value {text}"));
        let rule = match rule {
            "" => ListMergeRule::Atomic,
            "=" => ListMergeRule::Set,
            keys => {
                let line = items.strip_prefix('@').map_or("", |name| lines[name]);
                let key =
                    |name| KeyField { name: Cow::Borrowed(name), default: key_default(line, name) };
                ListMergeRule::Map(keys.split(',').map(key).collect())
            }
        };
        let items = self.value(items, lines);
        self.schema.add(MergeType::List(ListType { items, rule }))
    }
}

/// The default that the line of a type says for one of its fields.
fn key_default(line: &str, field: &str) -> Option<Value> {
    let mut words = line.split(' ').filter_map(|word| word.split_once('='));
    let (_, value) = words.find(|(name, _)| *name == field)?;
    serde_json::from_str(value.split_once('~')?.1).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_is_sorted_and_can_be_read() {
        let names: Vec<_> = TABLE
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split(' ').next().unwrap_or_default())
            .collect();
        assert!(names.is_sorted());
        let services = BUILTIN.get("api.core.v1.Service");
        let service = json!({"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}});
        assert_eq!(
            services.field_set(&service).to_json(),
            r#"{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:selector":{}}}"#
        );
    }

    #[test]
    fn every_kind_that_is_served_has_its_line() {
        for entry in crate::all().kinds() {
            let name = entry.codec.schema_name();
            let name = name.strip_prefix("io.k8s.").unwrap_or(&name);
            assert!(BUILTIN.by_name.contains_key(name), "{name}");
        }
    }
}
