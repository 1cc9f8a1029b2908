//! The pods that a selector means, counted node by node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::selector::Selector;
use crate::cluster::Crowd;
use crate::{View, pods};

/// How many pods are on each node that has any, by its name.
#[derive(Default)]
pub(super) struct Occupants<'a>(Vec<(&'a str, i64)>);

impl<'a> Occupants<'a> {
    /// The pods of the pod's namespace that the selector means. Pods that terminate do not count, nor does the pod itself.
    pub(super) fn of(view: &'a View, pod: &Pod, selector: &Selector<'a>) -> Self {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let crowds = view.cluster().crowds().with_labels(namespace, selector.pairs());
        let mut crowds = crowds.filter(|(labels, _)| selector.matches(Some(labels)));
        let places =
            |(_, crowd): (_, &'a Crowd)| crowd.places().map(|(node, count)| (node, count.active));
        let mut all: Vec<(&str, i64)> = crowds.next().into_iter().flat_map(places).collect();
        if let Some(second) = crowds.next() {
            let mut sum: BTreeMap<&str, i64> = all.into_iter().collect();
            for (node, count) in std::iter::once(second).chain(crowds).flat_map(places) {
                *sum.entry(node).or_default() += count;
            }
            all = sum.into_iter().collect();
        }
        let mut occupants = Self(all);
        occupants.leave_out(view, pod, selector);
        occupants
    }

    fn leave_out(&mut self, view: &View, pod: &Pod, selector: &Selector<'_>) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let itself = view.pod_by_uid(uid).filter(|pod| pods::is_active(pod));
        if let Some(itself) = itself
            && let Some(node) = pods::node(itself)
            && selector.matches(itself.metadata.labels.as_ref())
            && let Ok(place) = self.0.binary_search_by_key(&node, |(node, _)| node)
        {
            self.0[place].1 -= 1;
        }
    }

    /// The nodes that have any, with how many they have.
    pub(super) fn places(&self) -> impl Iterator<Item = (&'a str, i64)> {
        self.0.iter().copied()
    }

    /// How many each of these nodes has, which are named in order or in a few runs of which each is.
    pub(super) fn along<'b>(
        &self,
        names: impl Iterator<Item = &'b str>,
    ) -> impl Iterator<Item = i64> {
        let (mut before, mut rest) = ("", self.0.iter().copied().peekable());
        names.map(move |name| {
            if name < before {
                rest = self.0.iter().copied().peekable();
            }
            before = name;
            while rest.next_if(|(node, _)| *node < name).is_some() {}
            rest.peek().filter(|(node, _)| *node == name).map_or(0, |(_, count)| *count)
        })
    }
}
