//! Which fields a value sets.

use serde_json::{Map, Value};

use crate::field_set::{FieldSet, Membership};
use crate::list_index::ListIndex;
use crate::path_element::PathElement;
use crate::schema::{ListMergeRule, MapGranularity, TypeForm, TypedSchema};

impl TypedSchema<'_> {
    /// The set of every leaf and every list item that a value mentions.
    pub fn field_set(self, value: &Value) -> FieldSet {
        self.mentioned(value).1
    }

    /// Whether the value itself is a leaf, and what it mentions below.
    fn mentioned(self, value: &Value) -> (Membership, FieldSet) {
        let mut below = FieldSet::default();
        match self.form(Some(value)) {
            TypeForm::Scalar(_) => return (Membership::Member, below),
            TypeForm::List(list) => match (&list.rule, value) {
                (ListMergeRule::Atomic, _) => return (Membership::Member, below),
                (ListMergeRule::Set | ListMergeRule::Map(_), Value::Array(items)) => {
                    let index = ListIndex::new(list, items);
                    for step in index.distinct() {
                        let found = match index.items(step).as_slice() {
                            [item] => self.with(list.items).mentioned(item).1,
                            _ => FieldSet::default(),
                        };
                        below.attach(|| step.clone(), Membership::Member, found);
                    }
                }
                (ListMergeRule::Set | ListMergeRule::Map(_), _) => {}
            },
            TypeForm::Map(map) => match (map.granularity, value) {
                (MapGranularity::Atomic, _) => return (Membership::Member, below),
                (MapGranularity::Granular, Value::Object(fields)) => {
                    for (name, value) in fields {
                        let Some(id) = map.field(name) else { continue };
                        let (mut itself, found) = self.with(id).mentioned(value);
                        let is_empty =
                            value.is_null() || value.as_object().is_some_and(Map::is_empty);
                        if is_empty || map.declared(name).is_none() {
                            itself = Membership::Member;
                        }
                        below.attach(|| PathElement::field(name), itself, found);
                    }
                }
                (MapGranularity::Granular, _) => {}
            },
        }
        (Membership::Outside, below)
    }
}
