//! What a merge needs to know of a type: where its lists and objects merge, and where they are one
//! value.

use std::borrow::Cow;

use serde_json::Value;

use crate::path_element::PathElement;

/// The types of one or more kinds. Types refer to each other by number, so a type may hold itself.
///
/// A custom resource's structural schema becomes such types bottom up: `x-kubernetes-list-type` and
/// `x-kubernetes-list-map-keys` give a [`ListMergeRule`], `x-kubernetes-map-type` a
/// [`MapGranularity`], and `x-kubernetes-preserve-unknown-fields` makes
/// [`MergeSchema::ANY_DEDUCED`] the type of what is not declared.
#[derive(Clone, Debug)]
pub struct MergeSchema {
    types: Vec<MergeType>,
    anything: [(ListType, MapType); 2],
}

/// The number of a type in its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeId(u32);

/// How values of a type merge.
#[derive(Clone, Debug, PartialEq)]
pub enum MergeType {
    /// A text, a number, a truth value.
    Scalar(ScalarType),
    /// A list.
    List(ListType),
    /// An object: a struct with declared fields, a map, or both.
    Map(MapType),
    /// Any JSON at all; objects in it merge as said, lists do not merge.
    Anything(MapGranularity),
}

/// Which scalars a type allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarType {
    /// A text.
    Text,
    /// A number.
    Number,
    /// A truth value.
    Boolean,
    /// Any of them: quantities, and ports by number or name.
    Any,
}

/// A list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListType {
    /// The type of its items.
    pub items: TypeId,
    /// How it merges.
    pub rule: ListMergeRule,
}

/// How a list merges (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq)]
pub enum ListMergeRule {
    /// It is one value.
    Atomic,
    /// Its items are scalars, each at most once.
    Set,
    /// Its items are objects; those with the same keys are the same item.
    Map(Vec<KeyField>),
}

/// A field that tells the items of a list apart.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyField {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its value where an item does not say.
    pub default: Option<Value>,
}

/// An object.
#[derive(Clone, Debug, PartialEq)]
pub struct MapType {
    /// The declared fields, sorted by name.
    pub fields: Vec<MapField>,
    /// The type of every other field; none is allowed without it.
    pub others: Option<TypeId>,
    /// How it merges.
    pub granularity: MapGranularity,
}

/// A declared field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct MapField {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its type.
    pub field_type: TypeId,
    /// What it is where an object does not say.
    pub absent: AbsentField,
}

/// What a field is to a comparison while the object around it does not say. Ownership follows Go's
/// types upstream: a field that Go always writes is not added by the one who first sets something
/// in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsentField {
    /// Not there.
    Missing,
    /// An empty object: a struct that is held by value.
    EmptyObject,
    /// Null: a list that is always written.
    Null,
}

/// How an object merges (`x-kubernetes-map-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapGranularity {
    /// Field by field.
    Granular,
    /// It is one value.
    Atomic,
}

impl Default for MergeSchema {
    fn default() -> Self {
        Self::new()
    }
}

impl MergeSchema {
    /// Any JSON, as one value.
    pub const ANY_ATOMIC: TypeId = TypeId(0);
    /// Any JSON: objects merge field by field, lists are one value. What upstream assumes where
    /// nothing is declared.
    pub const ANY_DEDUCED: TypeId = TypeId(1);

    /// A schema with [`MergeSchema::ANY_ATOMIC`] and [`MergeSchema::ANY_DEDUCED`].
    pub fn new() -> Self {
        let (atomic, granular) = (MapGranularity::Atomic, MapGranularity::Granular);
        let of_anything = |others, granularity| {
            let list = ListType { items: Self::ANY_ATOMIC, rule: ListMergeRule::Atomic };
            (list, MapType { fields: Vec::new(), others: Some(others), granularity })
        };
        Self {
            types: vec![MergeType::Anything(atomic), MergeType::Anything(granular)],
            anything: [
                of_anything(Self::ANY_ATOMIC, atomic),
                of_anything(Self::ANY_DEDUCED, granular),
            ],
        }
    }

    /// Adds a type. What it refers to may be defined later, with [`MergeSchema::define`].
    pub fn add(&mut self, merge_type: MergeType) -> TypeId {
        let id =
            TypeId(u32::try_from(self.types.len()).expect("a schema has less than 2^32 types"));
        self.types.push(merge_type);
        self.define(id, self.types[id.0 as usize].clone());
        id
    }

    /// Gives a type its content.
    pub fn define(&mut self, id: TypeId, mut merge_type: MergeType) {
        if let MergeType::Map(map) = &mut merge_type {
            map.fields.sort_by(|a, b| a.name.cmp(&b.name));
        }
        self.types[id.0 as usize] = merge_type;
    }

    /// A type by its number.
    pub fn get(&self, id: TypeId) -> &MergeType {
        &self.types[id.0 as usize]
    }

    /// One of its types, to work with.
    pub fn typed(&self, id: TypeId) -> TypedSchema<'_> {
        TypedSchema { schema: self, id }
    }
}

/// A type in its schema.
#[derive(Clone, Copy, Debug)]
pub struct TypedSchema<'s> {
    schema: &'s MergeSchema,
    id: TypeId,
}

/// The form that a type has for a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TypeForm<'s> {
    Scalar(ScalarType),
    List(&'s ListType),
    Map(&'s MapType),
}

impl<'s> TypedSchema<'s> {
    /// Another type of the same schema.
    pub(crate) fn with(self, id: TypeId) -> Self {
        Self { id, ..self }
    }

    /// The form for this value. A value that fits no form of the type gets the type's first one,
    /// and validation says so.
    pub(crate) fn form(self, value: Option<&Value>) -> TypeForm<'s> {
        match self.schema.get(self.id) {
            MergeType::Scalar(scalar) => TypeForm::Scalar(*scalar),
            MergeType::List(list) => TypeForm::List(list),
            MergeType::Map(map) => TypeForm::Map(map),
            MergeType::Anything(granularity) => {
                let (list, map) = match granularity {
                    MapGranularity::Atomic => &self.schema.anything[0],
                    MapGranularity::Granular => &self.schema.anything[1],
                };
                match value {
                    Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                        TypeForm::Scalar(ScalarType::Any)
                    }
                    Some(Value::Array(_)) => TypeForm::List(list),
                    Some(Value::Object(_) | Value::Null) | None => TypeForm::Map(map),
                }
            }
        }
    }

    /// Whether the type is an object that declares this field.
    pub(crate) fn declares(self, field: &str) -> bool {
        match self.form(None) {
            TypeForm::Map(map) => map.declared(field).is_some(),
            TypeForm::Scalar(_) | TypeForm::List(_) => false,
        }
    }

    /// The type at a step below this one.
    pub(crate) fn at(self, step: &PathElement) -> Self {
        let found = match (self.schema.get(self.id), step.field_name()) {
            (MergeType::Map(map), Some(field)) => map.field(field),
            (MergeType::List(list), None) => Some(list.items),
            (MergeType::Anything(_), Some(_)) => Some(self.id),
            (MergeType::Scalar(_) | MergeType::List(_) | MergeType::Map(_), _)
            | (MergeType::Anything(_), None) => None,
        };
        self.with(found.unwrap_or(MergeSchema::ANY_ATOMIC))
    }
}

impl MapType {
    /// The type of a declared field.
    pub(crate) fn declared(&self, name: &str) -> Option<&MapField> {
        let found = self.fields.binary_search_by(|field| field.name.as_ref().cmp(name));
        found.ok().map(|at| &self.fields[at])
    }

    /// The type of any field.
    pub(crate) fn field(&self, name: &str) -> Option<TypeId> {
        self.declared(name).map(|field| field.field_type).or(self.others)
    }
}
