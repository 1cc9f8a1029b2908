//! The table of fields, read once.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The table; its first lines say what it means.
const TABLE: &str = include_str!("fields.txt");

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageField {
    /// Its name in JSON.
    pub(crate) name: &'static str,
    /// The type of its value: `string`, `int`, …, a special message, or a message of the table (its
    /// name has dots).
    pub(crate) type_: &'static str,
    /// Where that message stands in the table.
    message: Option<usize>,
    pub(crate) kind: FieldOccurrence,
    pub(crate) zero: ZeroMeaning,
}

/// How often a field occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldOccurrence {
    One,
    List,
    Map,
    /// Once, and its fields belong to the message around it.
    Embedded,
}

/// What a zero means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZeroMeaning {
    /// A value like any other.
    IsValue,
    /// That nothing was given.
    IsAbsent,
}

/// The groups that have messages, and the packages of these.
const PACKAGES: [(&str, &str); 23] = [
    ("", "core"),
    ("admissionregistration.k8s.io", "admissionregistration"),
    ("apiextensions.k8s.io", "apiextensions"),
    ("apiregistration.k8s.io", "apiregistration"),
    ("apps", "apps"),
    ("authentication.k8s.io", "authentication"),
    ("authorization.k8s.io", "authorization"),
    ("autoscaling", "autoscaling"),
    ("batch", "batch"),
    ("certificates.k8s.io", "certificates"),
    ("coordination.k8s.io", "coordination"),
    ("discovery.k8s.io", "discovery"),
    ("events.k8s.io", "events"),
    ("flowcontrol.apiserver.k8s.io", "flowcontrol"),
    ("meta.k8s.io", "meta"),
    ("networking.k8s.io", "networking"),
    ("node.k8s.io", "node"),
    ("policy", "policy"),
    ("rbac.authorization.k8s.io", "rbac"),
    ("resource.k8s.io", "resource"),
    ("scheduling.k8s.io", "scheduling"),
    ("storage.k8s.io", "storage"),
    ("storagemigration.k8s.io", "storagemigration"),
];

struct Table {
    messages: Vec<Message>,
    /// Where each message stands in that list.
    by_name: BTreeMap<&'static str, usize>,
}

/// The fields of a message.
#[derive(Debug)]
pub(super) struct Message {
    /// Its name, as `apps.v1.Deployment`.
    pub(super) name: &'static str,
    pub(super) by_number: BTreeMap<u64, MessageField>,
    by_name: BTreeMap<&'static str, MessageField>,
    /// Fields of which no number is known.
    pub(super) unnumbered: Vec<&'static str>,
}

impl Table {
    fn get(&self, message: &str) -> Option<&Message> {
        self.by_name.get(message).map(|place| &self.messages[*place])
    }
}

fn table() -> &'static Table {
    static PARSED: OnceLock<Table> = OnceLock::new();
    PARSED.get_or_init(|| {
        let lines = || TABLE.lines().filter(|line| !line.starts_with('#'));
        let names = lines().filter(|line| !line.starts_with(' '));
        let by_name = names.enumerate().map(|(place, name)| (name, place)).collect();
        let mut table = Table { messages: Vec::new(), by_name };
        for line in lines() {
            match (line.strip_prefix(' '), table.messages.last_mut()) {
                (None, _) => table.messages.push(Message {
                    name: line,
                    by_number: BTreeMap::new(),
                    by_name: BTreeMap::new(),
                    unnumbered: Vec::new(),
                }),
                (Some(line), Some(message)) if line.starts_with("- ") => {
                    message.unnumbered.push(&line[2..]);
                }
                (Some(line), message) => {
                    let (number, field) = parse(line, &table.by_name)
                        .expect("the table is well formed: a test reads all of it");
                    let message = message.expect("a message stands above its fields");
                    message.by_number.insert(number, field);
                }
            }
        }
        let names: Vec<_> =
            table.messages.iter().map(|message| names_of(&table, message)).collect();
        for (message, by_name) in table.messages.iter_mut().zip(names) {
            message.by_name = by_name;
        }
        table
    })
}

/// A message's own fields go before those of what is embedded.
fn names_of(table: &Table, message: &Message) -> BTreeMap<&'static str, MessageField> {
    let mut names = BTreeMap::new();
    let fields = message.by_number.values();
    for field in fields.clone().filter(|field| field.kind == FieldOccurrence::Embedded) {
        names.extend(field.message.into_iter().flat_map(|at| names_of(table, &table.messages[at])));
    }
    let own = fields.filter(|field| field.kind != FieldOccurrence::Embedded);
    names.extend(own.map(|field| (field.name, *field)));
    names
}

/// `3 command *string`.
fn parse(
    line: &'static str,
    messages: &BTreeMap<&'static str, usize>,
) -> Option<(u64, MessageField)> {
    let mut words = line.splitn(3, ' ');
    let number = words.next()?.parse().ok()?;
    let name = words.next()?;
    let type_ = words.next()?;
    let (kind, type_) = if name == "^" {
        (FieldOccurrence::Embedded, type_)
    } else if let Some(type_) = type_.strip_prefix("map ") {
        (FieldOccurrence::Map, type_)
    } else if let Some(type_) = type_.strip_prefix('*') {
        (FieldOccurrence::List, type_)
    } else {
        (FieldOccurrence::One, type_)
    };
    let (type_, zero) = match type_.strip_suffix('?') {
        Some(type_) => (type_, ZeroMeaning::IsAbsent),
        None => (type_, ZeroMeaning::IsValue),
    };
    let message = messages.get(type_).copied();
    Some((number, MessageField { name, type_, message, kind, zero }))
}

/// A field of a message of the table.
pub(super) fn field(message: &str, number: u64) -> Option<&'static MessageField> {
    table().get(message)?.by_number.get(&number)
}

/// A message of the table.
pub(super) fn message(name: &str) -> Option<&'static Message> {
    table().get(name)
}

impl MessageField {
    /// The message that its value is, if it is one.
    pub(super) fn message(&self) -> Option<&'static Message> {
        self.message.map(|place| &table().messages[place])
    }
}

/// The fields of a message by their names in JSON, with those of what is embedded in it.
pub(crate) fn by_name(message: &str) -> Option<&'static BTreeMap<&'static str, MessageField>> {
    table().get(message).map(|message| &message.by_name)
}

/// The message of a kind: `apps.v1.Deployment` for Deployment in apps/v1.
pub(crate) fn message_of(api_version: &str, kind: &str) -> Option<&'static str> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    match (kind, api_version) {
        // options are sent in the group of the objects that they are about
        ("DeleteOptions", _) | ("Status", "v1") => known(&format!("meta.v1.{kind}")),
        _ => known(&format!("{}.{version}.{kind}", package_of(group)?)),
    }
}

fn known(message: &str) -> Option<&'static str> {
    table().get(message).map(|message| message.name)
}

/// The package of a group's messages. By the whole name: a custom kind may be a Deployment in
/// `apps.example.org/v1`.
fn package_of(group: &str) -> Option<&'static str> {
    let of_group = PACKAGES.iter().find(|(known, _)| *known == group);
    of_group.map(|(_, package)| *package)
}

/// The fields that every list has.
pub(super) const LIST_METADATA: u64 = 1;
pub(super) const LIST_ITEMS: u64 = 2;
/// The message of a list's metadata.
pub(super) const LIST_META: &str = "meta.v1.ListMeta";

/// The message of a schema, the only one that may be within itself.
pub(super) const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

/// What may stand in a schema's place, by the name of its type in the table. Each is a message of
/// two fields, of which one is the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaOr {
    /// Whether anything may stand there.
    Bool,
    /// Schemas, one for each place in a list.
    List,
    /// Names of fields.
    Strings,
}

impl SchemaOr {
    /// The one with this name.
    pub(super) fn find(type_: &str) -> Option<Self> {
        match type_ {
            "SchemaOrBool" => Some(Self::Bool),
            "SchemaOrList" => Some(Self::List),
            "SchemaOrStrings" => Some(Self::Strings),
            _ => None,
        }
    }

    /// The number of the field with the schema.
    pub(super) fn schema(self) -> u64 {
        match self {
            Self::Bool => 2,
            Self::List | Self::Strings => 1,
        }
    }

    /// The number of the other field.
    pub(super) fn other(self) -> u64 {
        match self {
            Self::Bool => 1,
            Self::List | Self::Strings => 2,
        }
    }
}

/// The message of the items of a list, which has no message of its own in the table.
pub(super) fn item_message(api_version: &str, kind: &str) -> Option<&'static str> {
    message_of(api_version, kind.strip_suffix("List")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_in_the_table_is_known() {
        const SIMPLE: [&str; 12] = [
            "string",
            "int",
            "bool",
            "bytes",
            "double",
            "Time",
            "MicroTime",
            "Quantity",
            "IntOrString",
            "Json",
            "RawExtension",
            "StringList",
        ];
        for message in &table().messages {
            for field in message.by_number.values() {
                let known = SIMPLE.contains(&field.type_)
                    || field.type_ == "FieldsV1"
                    || SchemaOr::find(field.type_).is_some()
                    || field.message().is_some_and(|message| message.name == field.type_);
                assert!(known, "{}: {field:?}", message.name);
            }
        }
        assert!(table().messages.len() > 150);
    }

    /// So what is written nests as deep as the object, and what is read has a limit.
    #[test]
    fn no_message_but_that_of_a_schema_is_within_itself() {
        fn follow(message: &'static Message, way: &mut Vec<&'static str>) {
            assert!(!way.contains(&message.name), "{way:?} leads back to {}", message.name);
            way.push(message.name);
            let inner = message.by_number.values().filter_map(MessageField::message);
            for inner in inner.filter(|inner| inner.name != SCHEMA) {
                follow(inner, way);
            }
            way.pop();
        }
        for message in &table().messages {
            follow(message, &mut Vec::new());
        }
    }

    #[test]
    fn every_message_is_in_the_package_of_a_group() {
        for message in table().by_name.keys() {
            let package = message.split('.').next().unwrap();
            assert!(PACKAGES.iter().any(|(_, known)| *known == package), "{message}");
        }
    }

    #[test]
    fn a_custom_kind_with_the_name_of_a_built_in_one_has_no_message() {
        assert_eq!(message_of("apps/v1", "Deployment"), Some("apps.v1.Deployment"));
        for (api_version, kind) in [
            ("apps.example.org/v1", "Deployment"),
            ("batch.tutorial.kubebuilder.io/v1", "CronJob"),
            ("core/v1", "Pod"),
            ("meta/v1", "Status"),
            ("example.org/v1", "Status"),
        ] {
            assert_eq!(message_of(api_version, kind), None, "{kind} in {api_version}");
            assert_eq!(item_message(api_version, &format!("{kind}List")), None);
        }
        assert_eq!(message_of("example.org/v1", "DeleteOptions"), Some("meta.v1.DeleteOptions"));
    }

    #[test]
    fn every_served_built_in_kind_is_in_the_table() {
        for entry in rekindle_kinds::all().kinds().filter(|entry| entry.group != "rekindle.dev") {
            assert!(message_of(&entry.api_version, &entry.kind).is_some(), "{entry:?}");
        }
    }

    /// The message of a schema in OpenAPI: `core.v1.Pod` for `io.k8s.api.core.v1.Pod`.
    fn message_of_schema(name: &str) -> Option<&'static Message> {
        let parts: Vec<_> = name.rsplitn(4, '.').take(3).collect();
        let [name, version, package] = parts.as_slice() else { return None };
        message(&format!("{package}.{version}.{name}"))
    }

    #[test]
    fn every_field_of_a_served_kind_is_in_the_table() {
        let registry = rekindle_kinds::all();
        let mut seen = 0;
        for (group, _) in PACKAGES {
            let versions = registry.in_group(group).map(|entry| entry.version.clone());
            for version in versions.collect::<std::collections::BTreeSet<_>>() {
                let document = rekindle_kinds::openapi::document(&registry, group, &version);
                for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
                    let fields = schema["properties"].as_object();
                    let Some((message, fields)) = message_of_schema(name).zip(fields) else {
                        continue;
                    };
                    seen += 1;
                    for field in fields.keys() {
                        let known = message.by_name.contains_key(&**field)
                            || message.unnumbered.contains(&&**field)
                            || matches!(&**field, "apiVersion" | "kind");
                        assert!(known, "{field} of {}", message.name);
                    }
                }
            }
        }
        assert!(seen > 500, "{seen}");
    }
}
