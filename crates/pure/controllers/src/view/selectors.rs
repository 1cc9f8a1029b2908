//! Objects that select pods, by one of the labels that they ask for: whose labels these are finds
//! those that may select it, without a look at all the others of its namespace.

use std::collections::BTreeMap;

use rekindle_types::labels::Labels;

use super::objects::{self, Objects, remove_from};
use crate::{ObjectId, ResourceKind, ViewObject};

/// Disruption budgets and Services, each in one place.
#[derive(Clone, Debug, Default)]
pub(super) struct Selectors {
    /// Those that ask for a value of a label, by its key and by the value.
    by_label: BTreeMap<String, BTreeMap<String, Objects>>,
    /// Those that ask for no single value: everything is selected, or sets of values are.
    others: Objects,
}

impl Selectors {
    pub(super) fn insert(&mut self, id: &ObjectId, object: &ViewObject) {
        let place = match asked_for(object) {
            Some((key, value)) => {
                let values = self.by_label.entry(key.clone()).or_default();
                values.entry(value.clone()).or_default()
            }
            None => &mut self.others,
        };
        place.insert(id.clone(), object.clone());
    }

    pub(super) fn remove(&mut self, id: &ObjectId, object: &ViewObject) {
        let Some((key, value)) = asked_for(object) else {
            self.others.remove(id);
            return;
        };
        if let Some(values) = self.by_label.get_mut(key) {
            remove_from(values, value, id);
            if values.is_empty() {
                self.by_label.remove(key);
            }
        }
    }

    /// Those of a kind in a namespace that may select these labels, and all that do.
    pub(super) fn that_may_match<'a>(
        &'a self,
        kind: ResourceKind,
        namespace: &'a str,
        labels: Option<&'a Labels>,
    ) -> impl Iterator<Item = (&'a ObjectId, &'a ViewObject)> {
        let having = labels
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| self.by_label.get(key)?.get(value));
        having
            .chain((!self.others.is_empty()).then_some(&self.others))
            .flat_map(move |all| objects::entries_in_namespace(all, kind, namespace))
    }
}

/// The first of the labels that an object asks for.
fn asked_for(object: &ViewObject) -> Option<(&String, &String)> {
    let labels = match object {
        ViewObject::PodDisruptionBudget(budget) => {
            budget.spec.as_ref()?.selector.as_ref()?.match_labels.as_ref()
        }
        ViewObject::Service(service) => service.spec.as_ref()?.selector.as_ref(),
        _ => None,
    };
    labels?.first_key_value()
}
