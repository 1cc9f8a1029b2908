//! Pods that look the same to a label selector: those of one namespace with the same labels. A
//! selector is tried once for all of them, and only on those that have the rarest of the labels it
//! asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use rekindle_types::held::HeldPod;
use rekindle_types::labels::Labels;

use super::{NodeNumber, PodShift};
use crate::pods;

/// All crowds, by namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodCrowds(BTreeMap<String, NamespaceCrowds>);

/// The crowds of one namespace.
#[derive(Clone, Debug, Default)]
struct NamespaceCrowds {
    /// By a number that each has, in the order in which they came.
    crowds: BTreeMap<u64, (Arc<Labels>, PodCrowd)>,
    numbers: BTreeMap<Arc<Labels>, u64>,
    /// The numbers of those that have a label, by its key and its value, in ascending order.
    by_label: BTreeMap<String, BTreeMap<String, Vec<u64>>>,
    next: u64,
}

/// Where the pods of one crowd are.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodCrowd(BTreeMap<NodeNumber, CrowdCount>);

/// How many of them are on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CrowdCount {
    /// All, those that terminate among them.
    pub(crate) all: i64,
    /// Those that do not terminate.
    pub(crate) active: i64,
}

impl PodCrowds {
    pub(super) fn shift(&mut self, pod: &HeldPod, node: NodeNumber, shift: PodShift) {
        static NONE: Labels = Labels::new();
        let name = pod.metadata.namespace.as_deref().unwrap_or_default();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&NONE);
        let namespace = match self.0.get_mut(name) {
            Some(namespace) => namespace,
            None => self.0.entry(name.to_owned()).or_default(),
        };
        let number = namespace.number_of(labels);
        let Some((_, crowd)) = namespace.crowds.get_mut(&number) else { return };
        crowd.shift(node, shift.sign(), pods::is_active(pod));
        if crowd.0.is_empty() {
            namespace.remove(number);
            if namespace.crowds.is_empty() {
                self.0.remove(name);
            }
        }
    }

    /// The crowds of a namespace, with their labels.
    pub(crate) fn of_namespace(
        &self,
        namespace: &str,
    ) -> impl Iterator<Item = (&Labels, &PodCrowd)> {
        self.0.get(namespace).into_iter().flat_map(NamespaceCrowds::all)
    }

    /// Those of them that may have all of these labels: each that has the rarest of them, or each
    /// that there is when none is asked for.
    pub(crate) fn with_labels<'a>(
        &'a self,
        namespace: &str,
        wanted: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> impl Iterator<Item = (&'a Labels, &'a PodCrowd)> {
        let namespace = self.0.get(namespace);
        let having = |(key, value): (&str, &str)| {
            let numbers = namespace.and_then(|there| there.by_label.get(key)?.get(value));
            numbers.map_or(&[][..], Vec::as_slice)
        };
        let rarest = wanted.map(having).min_by_key(|numbers| numbers.len());
        let all = namespace.filter(|_| rarest.is_none()).into_iter().flat_map(NamespaceCrowds::all);
        let numbers = rarest.unwrap_or_default().iter();
        let some = numbers.filter_map(move |number| namespace?.crowds.get(number));
        all.chain(some.map(|(labels, crowd)| (labels.as_ref(), crowd)))
    }

    /// What is found by each label of a namespace; nothing where a number is of no crowd.
    #[cfg(test)]
    pub(super) fn found_by_label(&self) -> Vec<(&str, &str, &str, Option<&Labels>)> {
        let mut found = Vec::new();
        for (name, namespace) in &self.0 {
            for (key, values) in &namespace.by_label {
                for (value, numbers) in values {
                    for number in numbers {
                        let labels =
                            namespace.crowds.get(number).map(|(labels, _)| labels.as_ref());
                        found.push((name.as_str(), key.as_str(), value.as_str(), labels));
                    }
                }
            }
        }
        found.sort();
        found
    }

    /// The namespaces that have any.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl NamespaceCrowds {
    fn all(&self) -> impl Iterator<Item = (&Labels, &PodCrowd)> {
        self.crowds.values().map(|(labels, crowd)| (labels.as_ref(), crowd))
    }

    /// The number of the crowd with these labels, a new one if there is none.
    fn number_of(&mut self, labels: &Labels) -> u64 {
        if let Some(number) = self.numbers.get(labels) {
            return *number;
        }
        let number = self.next;
        self.next += 1;
        let labels = Arc::new(labels.clone());
        for (key, value) in labels.as_ref() {
            let values = self.by_label.entry(key.clone()).or_default();
            values.entry(value.clone()).or_default().push(number); // the greatest so far
        }
        self.numbers.insert(labels.clone(), number);
        self.crowds.insert(number, (labels, PodCrowd::default()));
        number
    }

    fn remove(&mut self, number: u64) {
        let Some((labels, _)) = self.crowds.remove(&number) else { return };
        self.numbers.remove(&labels);
        for (key, value) in labels.as_ref() {
            let Some(values) = self.by_label.get_mut(key) else { continue };
            let Some(numbers) = values.get_mut(value) else { continue };
            if let Ok(place) = numbers.binary_search(&number) {
                numbers.remove(place);
            }
            if numbers.is_empty() {
                values.remove(value);
            }
            if values.is_empty() {
                self.by_label.remove(key);
            }
        }
    }
}

impl PodCrowd {
    fn shift(&mut self, node: NodeNumber, sign: i64, is_active: bool) {
        let count = self.0.entry(node).or_default();
        count.all += sign;
        count.active += if is_active { sign } else { 0 };
        if *count == CrowdCount::default() {
            self.0.remove(&node);
        }
    }

    /// How many are on which node, in the order of their numbers.
    pub(crate) fn places(&self) -> impl Iterator<Item = (NodeNumber, CrowdCount)> + Clone {
        self.0.iter().map(|(node, count)| (*node, *count))
    }
}
