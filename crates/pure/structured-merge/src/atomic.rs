//! Which lists and objects a value sets as a whole.

use serde_json::Value;

use crate::schema::{ListMergeRule, MapGranularity, TypeForm, TypedSchema};

impl TypedSchema<'_> {
    /// The paths of the lists and objects in a value that do not merge, such as `.spec.args`.
    pub fn atomic_values(self, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        self.find_atomic(value, "", &mut found);
        found
    }

    fn find_atomic(self, value: &Value, path: &str, found: &mut Vec<String>) {
        match (self.form(Some(value)), value) {
            (TypeForm::List(list), Value::Array(items)) => match list.rule {
                ListMergeRule::Atomic => found.push(path.to_owned()),
                ListMergeRule::Set | ListMergeRule::Map(_) => {
                    for (index, item) in items.iter().enumerate() {
                        let path = format!("{path}[{index}]");
                        self.with(list.items).find_atomic(item, &path, found);
                    }
                }
            },
            (TypeForm::Map(map), Value::Object(fields)) => match map.granularity {
                MapGranularity::Atomic => found.push(path.to_owned()),
                MapGranularity::Granular => {
                    for (name, value) in fields {
                        let Some(id) = map.field(name) else { continue };
                        self.with(id).find_atomic(value, &format!("{path}.{name}"), found);
                    }
                }
            },
            (TypeForm::Scalar(_) | TypeForm::List(_) | TypeForm::Map(_), _) => {}
        }
    }
}
