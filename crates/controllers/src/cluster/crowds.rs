//! Pods that look the same to a label selector: those of one namespace with the same labels. A selector is tried once for all of
//! them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::labels::Labels;

use super::Shift;
use crate::pods;

/// All crowds, by namespace and labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Crowds(BTreeMap<String, BTreeMap<Labels, Crowd>>);

/// Where the pods of one crowd are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Crowd(BTreeMap<String, Count>);

/// How many of them are on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// All, those that terminate among them.
    pub(crate) all: i64,
    /// Those that do not terminate.
    pub(crate) active: i64,
}

impl Crowds {
    pub(super) fn shift(&mut self, pod: &Pod, node: &str, shift: Shift) {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let crowds = match self.0.get_mut(namespace) {
            Some(crowds) => crowds,
            None => self.0.entry(namespace.to_owned()).or_default(),
        };
        let crowd = crowds.entry(labels.clone()).or_default();
        let count = match crowd.0.get_mut(node) {
            Some(count) => count,
            None => crowd.0.entry(node.to_owned()).or_default(),
        };
        count.all += shift.sign();
        if pods::is_active(pod) {
            count.active += shift.sign();
        }
        if *count == Count::default() {
            crowd.0.remove(node);
            if crowd.0.is_empty() {
                crowds.remove(&labels);
            }
            if crowds.is_empty() {
                self.0.remove(namespace);
            }
        }
    }

    /// The crowds of a namespace, with their labels.
    pub(crate) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Labels, &Crowd)> {
        self.0.get(namespace).into_iter().flatten()
    }

    /// The namespaces that have any.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Crowd {
    /// How many are on which node.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&str, Count)> + Clone {
        self.0.iter().map(|(node, count)| (node.as_str(), *count))
    }
}
