//! Which items of a list are the same item of another list.

use serde_json::Value;

use crate::path_element::PathElement;
use crate::schema::{ListMergeRule, ListType};

/// The step to an item of a list that merges.
///
/// # Errors
/// Says why the item has none.
pub(crate) fn step_to(list: &ListType, item: &Value) -> Result<PathElement, String> {
    match &list.rule {
        ListMergeRule::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListMergeRule::Set => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => {
                Err("not supported: associative list with lists as elements".to_owned())
            }
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null"
                    .to_owned())
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(PathElement::value(item)),
        },
        ListMergeRule::Map(keys) => {
            let fields = match item {
                Value::Object(fields) => fields,
                Value::Null => {
                    return Err("associative list with keys may not have a null element".to_owned());
                }
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    return Err(
                        "associative list with keys may not have non-map elements".to_owned()
                    );
                }
            };
            let found: Vec<_> = keys
                .iter()
                .filter_map(|key| {
                    let value = fields.get(key.name.as_ref()).or(key.default.as_ref())?;
                    Some((key.name.as_ref(), value))
                })
                .collect();
            if found.is_empty() {
                let names: Vec<_> = keys.iter().map(|key| format!("{:?}", key.name)).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and \
                     doesn't have default values for any key fields)",
                    names.join(" ")
                ));
            }
            Ok(PathElement::key(found))
        }
    }
}

/// The items of a list that merges, by their steps. Items without a step are left out.
pub(crate) struct ListIndex<'v> {
    /// In the order of the list, each step as often as it stands there.
    pub(crate) steps: Vec<(PathElement, &'v Value)>,
    /// Positions in `steps`, sorted by step, then by place.
    sorted: Vec<usize>,
}

impl<'v> ListIndex<'v> {
    pub(crate) fn new(list: &ListType, items: &'v [Value]) -> Self {
        let steps: Vec<_> = items
            .iter()
            .filter_map(|item| step_to(list, item).ok().map(|step| (step, item)))
            .collect();
        let mut sorted: Vec<usize> = (0..steps.len()).collect();
        sorted.sort_by(|a, b| steps[*a].0.cmp(&steps[*b].0));
        Self { steps, sorted }
    }

    /// The items at a step: one, unless the list says it twice.
    pub(crate) fn items(&self, step: &PathElement) -> Vec<&'v Value> {
        let begin = self.sorted.partition_point(|at| self.steps[*at].0 < *step);
        let found = self.sorted[begin..].iter().map(|at| &self.steps[*at]);
        found.take_while(|(other, _)| other == step).map(|(_, item)| *item).collect()
    }

    /// Whether the list has an item at a step.
    pub(crate) fn has(&self, step: &PathElement) -> bool {
        self.sorted.binary_search_by(|at| self.steps[*at].0.cmp(step)).is_ok()
    }

    /// Each step once, in order of first appearance.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = &PathElement> {
        self.steps.iter().enumerate().filter_map(|(place, (step, _))| {
            let begin = self.sorted.partition_point(|at| self.steps[*at].0 < *step);
            (self.sorted[begin] == place).then_some(step)
        })
    }
}
