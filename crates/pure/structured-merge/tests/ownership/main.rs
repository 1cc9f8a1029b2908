//! What holds of every apply and update.
#![allow(clippy::unwrap_used, reason = "tests")]

mod cases;
mod properties;

use rekindle_structured_merge::{
    AbsentField, AppliedObject, FieldConflicts, FieldOperation, FieldOwner, FieldOwners, FieldSet,
    KeyField, ListMergeRule, ListType, MapField, MapGranularity, MapType, MergeSchema, MergeType,
    OwnershipChange, ScalarType, TypeId, TypedSchema,
};
use serde_json::Value;

/// A kind with a field of each sort: texts `a` and `b`, the map `labels`, the set `tags`, the list
/// `items` by `name` and `port` (80 unless it says so), the list `whole` and the object `unit`,
/// which are one value.
pub(crate) struct TestKind {
    schema: MergeSchema,
    root: TypeId,
}

impl TestKind {
    pub(crate) fn new() -> Self {
        let mut schema = MergeSchema::new();
        let text = schema.add(MergeType::Scalar(ScalarType::Text));
        let number = schema.add(MergeType::Scalar(ScalarType::Number));
        let labels = schema.add(MergeType::Map(MapType {
            fields: Vec::new(),
            others: Some(text),
            granularity: MapGranularity::Granular,
        }));
        let item =
            object(&mut schema, &[("name", text), ("port", number), ("x", text), ("y", text)]);
        let keys = [("name", None), ("port", Some(80.into()))]
            .map(|(name, default)| KeyField { name: name.into(), default });
        let mut list = |items, rule| schema.add(MergeType::List(ListType { items, rule }));
        let items = list(item, ListMergeRule::Map(keys.to_vec()));
        let tags = list(text, ListMergeRule::Set);
        let whole = list(text, ListMergeRule::Atomic);
        let unit = schema.add(MergeType::Map(MapType {
            fields: Vec::new(),
            others: Some(text),
            granularity: MapGranularity::Atomic,
        }));
        let spec = object(
            &mut schema,
            &[
                ("a", text),
                ("b", text),
                ("labels", labels),
                ("tags", tags),
                ("items", items),
                ("whole", whole),
                ("unit", unit),
            ],
        );
        let root = object(&mut schema, &[("spec", spec)]);
        Self { schema, root }
    }

    pub(crate) fn typed(&self) -> TypedSchema<'_> {
        self.schema.typed(self.root)
    }
}

fn object(schema: &mut MergeSchema, fields: &[(&'static str, TypeId)]) -> TypeId {
    let field = |(name, field_type): &(&'static str, TypeId)| MapField {
        name: (*name).into(),
        field_type: *field_type,
        absent: AbsentField::Missing,
    };
    schema.add(MergeType::Map(MapType {
        fields: fields.iter().map(field).collect(),
        others: None,
        granularity: MapGranularity::Granular,
    }))
}

/// An object, and who owns it.
pub(crate) struct TestObject {
    kind: TestKind,
    pub(crate) object: Value,
    pub(crate) owners: FieldOwners,
    pub(crate) now_seconds: i64,
}

pub(crate) fn owner(manager: &str, operation: FieldOperation) -> FieldOwner {
    let api_version = if operation == FieldOperation::Apply { "" } else { "v1" };
    FieldOwner {
        manager: manager.to_owned(),
        operation,
        api_version: api_version.to_owned(),
        subresource: String::new(),
    }
}

impl TestObject {
    pub(crate) fn new() -> Self {
        Self {
            kind: TestKind::new(),
            object: serde_json::json!({}),
            owners: FieldOwners::default(),
            now_seconds: 1,
        }
    }

    pub(crate) fn schema(&self) -> TypedSchema<'_> {
        self.kind.typed()
    }

    fn change<'a>(&'a self, owner: &'a FieldOwner, ignored: &'a FieldSet) -> OwnershipChange<'a> {
        let (schema, now_seconds) = (self.schema(), self.now_seconds);
        OwnershipChange {
            schema,
            owner,
            api_version: "v1",
            ignored,
            now_seconds: Some(now_seconds),
        }
    }

    pub(crate) fn apply(&mut self, manager: &str, config: &Value) -> Result<(), FieldConflicts> {
        self.apply_with(manager, config, false)
    }

    pub(crate) fn force(&mut self, manager: &str, config: &Value) {
        self.apply_with(manager, config, true).unwrap();
    }

    fn apply_with(
        &mut self,
        manager: &str,
        config: &Value,
        is_forced: bool,
    ) -> Result<(), FieldConflicts> {
        let (owner, ignored) = (owner(manager, FieldOperation::Apply), FieldSet::default());
        let change = self.change(&owner, &ignored);
        let AppliedObject { object, owners } =
            change.apply(&self.object, config, &self.owners, is_forced)?;
        (self.object, self.owners) = (object, owners);
        Ok(())
    }

    pub(crate) fn update(&mut self, manager: &str, object: Value) {
        let (owner, ignored) = (owner(manager, FieldOperation::Update), FieldSet::default());
        let owners = self.owners.clone();
        self.owners = self.change(&owner, &ignored).update(&self.object, &object, owners);
        self.object = object;
    }

    pub(crate) fn fields(&self, manager: &str, operation: FieldOperation) -> FieldSet {
        let owned = self.owners.get(&owner(manager, operation));
        owned.map(|owned| owned.fields.clone()).unwrap_or_default()
    }
}
