//! Affinity between pods: a pod near others, or away from them, where "near" is an equal value of a label of the node.
//!
//! Anti-affinity holds both ways: a pod that is there keeps away one that comes, and the other way round. Affinity that
//! prefers counts both ways, too, and so does required affinity of a pod that is there, with weight 1 [kube-scheduler,
//! InterPodAffinity]. `matchLabelKeys` and `mismatchLabelKeys` are part of the selectors already: the API puts them there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm, WeightedPodAffinityTerm};
use rekindle_types::labels;

use super::affinity::label;
use crate::{Kind, NamespacedName, Object, View, pods};

/// What the required affinity of a pod that is there counts for one that comes (upstream's hardPodAffinityWeight).
const REQUIRED_WEIGHT: i64 = 1;

/// A count for each pair of a node label's key and value.
type Places<'a> = BTreeMap<(&'a str, &'a str), i64>;

/// The pods that are there, as one pod that comes sees them.
pub(super) struct Neighbours<'a> {
    wanted: &'a [PodAffinityTerm],
    shunned: &'a [PodAffinityTerm],
    /// True when the pod matches all that it wants to be near of: it may be the first of its kind.
    is_of_its_kind: bool,
    /// Where pods are that match all wanted terms.
    near: Places<'a>,
    /// Where pods are that match a shunned term.
    away: Places<'a>,
    /// Where pods are that shun this one.
    shunning: Places<'a>,
    /// What the preferences of both sides come to.
    preferences: Places<'a>,
}

impl<'a> Neighbours<'a> {
    /// Looks at the pods that matter: those with affinity of their own, and, if this one has, all that it may mean.
    pub(super) fn of(view: &'a View, pod: &'a Pod) -> Self {
        let (wanted, _) = affinity(pod);
        let (shunned, _) = anti_affinity(pod);
        let mut this = Self {
            wanted,
            shunned,
            is_of_its_kind: wanted.iter().all(|term| means(view, term, pod, pod)),
            near: Places::new(),
            away: Places::new(),
            shunning: Places::new(),
            preferences: Places::new(),
        };
        let is_other = |other: &Pod| other.metadata.uid != pod.metadata.uid;
        for other in view.pods_with_affinity().filter(|other| is_other(other)) {
            if let Some(node) = node_of(view, other) {
                this.heed(view, pod, other, node);
            }
        }
        for other in meant_by(view, pod).into_iter().filter(|other| is_other(other)) {
            if pods::is_finished(other) {
                continue;
            }
            if let Some(node) = node_of(view, other) {
                this.look_at(view, pod, other, node);
            }
        }
        this
    }

    /// What a pod that is there says of the one that comes.
    fn heed(&mut self, view: &View, pod: &Pod, other: &'a Pod, node: &'a Node) {
        let (wants, prefers) = affinity(other);
        let (shuns, dislikes) = anti_affinity(other);
        for term in shuns.iter().filter(|term| means(view, term, other, pod)) {
            count(&mut self.shunning, term, node, 1);
        }
        for term in wants.iter().filter(|term| means(view, term, other, pod)) {
            count(&mut self.preferences, term, node, REQUIRED_WEIGHT);
        }
        self.weigh(view, (prefers, dislikes), (other, pod), node);
    }

    /// What the pod that comes says of one that is there.
    fn look_at(&mut self, view: &View, pod: &'a Pod, other: &Pod, node: &'a Node) {
        if !self.wanted.is_empty() && self.wanted.iter().all(|term| means(view, term, pod, other)) {
            for term in self.wanted {
                count(&mut self.near, term, node, 1);
            }
        }
        for term in self.shunned.iter().filter(|term| means(view, term, pod, other)) {
            count(&mut self.away, term, node, 1);
        }
        self.weigh(view, (affinity(pod).1, anti_affinity(pod).1), (pod, other), node);
    }

    /// Counts what one pod prefers of the other, which is what it likes less what it dislikes.
    fn weigh(
        &mut self,
        view: &View,
        (likes, dislikes): (&'a [WeightedPodAffinityTerm], &'a [WeightedPodAffinityTerm]),
        (owner, other): (&Pod, &Pod),
        node: &'a Node,
    ) {
        for (terms, sign) in [(likes, 1), (dislikes, -1)] {
            for weighted in terms {
                let term = &weighted.pod_affinity_term;
                if means(view, term, owner, other) {
                    count(&mut self.preferences, term, node, sign * i64::from(weighted.weight));
                }
            }
        }
    }

    /// Why the pods that are there keep this one from the node, in the order in which upstream asks.
    pub(super) fn reason_against(&self, node: &Node) -> Option<&'static str> {
        let place = |term: &'a PodAffinityTerm| {
            label(node, &term.topology_key).map(|value| (term.topology_key.as_str(), value))
        };
        let has = |places: &Places<'_>, place: Option<(&str, &str)>| {
            place.is_some_and(|place| places.contains_key(&place))
        };
        let is_first = self.near.is_empty() && self.is_of_its_kind;
        let is_near = self.wanted.iter().all(|term| {
            let place = place(term);
            place.is_some() && (is_first || has(&self.near, place))
        });
        if !is_near {
            return Some("node(s) didn't match pod affinity rules");
        }
        if self.shunned.iter().any(|term| has(&self.away, place(term))) {
            return Some("node(s) didn't match pod anti-affinity rules");
        }
        let is_shunned = self.shunning.keys().any(|(key, value)| label(node, key) == Some(value));
        is_shunned.then_some("node(s) didn't satisfy existing pods anti-affinity rules")
    }

    /// What the preferences of both sides come to on the node; more is better, and it may be negative.
    pub(super) fn preference(&self, node: &Node) -> i64 {
        let here =
            self.preferences.iter().filter(|((key, value), _)| label(node, key) == Some(value));
        here.map(|(_, count)| count).sum()
    }
}

/// True when the pod must be near others or away from them.
pub(crate) fn has_terms(pod: &Pod) -> bool {
    let terms = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    terms.is_some_and(|a| a.pod_affinity.is_some() || a.pod_anti_affinity.is_some())
}

/// Required and preferred terms of pod affinity.
fn affinity(pod: &Pod) -> (&[PodAffinityTerm], &[WeightedPodAffinityTerm]) {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let Some(terms) = affinity.and_then(|a| a.pod_affinity.as_ref()) else { return (&[], &[]) };
    (
        terms.required_during_scheduling_ignored_during_execution.as_deref().unwrap_or_default(),
        terms.preferred_during_scheduling_ignored_during_execution.as_deref().unwrap_or_default(),
    )
}

/// Required and preferred terms of pod anti-affinity.
fn anti_affinity(pod: &Pod) -> (&[PodAffinityTerm], &[WeightedPodAffinityTerm]) {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let Some(terms) = affinity.and_then(|a| a.pod_anti_affinity.as_ref()) else {
        return (&[], &[]);
    };
    (
        terms.required_during_scheduling_ignored_during_execution.as_deref().unwrap_or_default(),
        terms.preferred_during_scheduling_ignored_during_execution.as_deref().unwrap_or_default(),
    )
}

/// The pods that the terms of this one may mean: all of the namespaces that they reach.
fn meant_by<'a>(view: &'a View, pod: &'a Pod) -> Vec<&'a Arc<Pod>> {
    let ((wanted, likes), (shunned, dislikes)) = (affinity(pod), anti_affinity(pod));
    let preferred = likes.iter().chain(dislikes).map(|weighted| &weighted.pod_affinity_term);
    let terms: Vec<_> = wanted.iter().chain(shunned).chain(preferred).collect();
    if terms.iter().any(|term| term.namespace_selector.is_some()) {
        return view.of_kind(Kind::Pod).filter_map(|(_, object)| as_pod(object)).collect();
    }
    let mut namespaces = BTreeSet::new();
    for term in &terms {
        match term.namespaces.as_deref().unwrap_or_default() {
            [] => namespaces.extend(pod.metadata.namespace.as_deref()),
            named => namespaces.extend(named.iter().map(String::as_str)),
        }
    }
    let of_namespaces = namespaces.into_iter().flat_map(|name| view.in_namespace(Kind::Pod, name));
    of_namespaces.filter_map(as_pod).collect()
}

fn as_pod(object: &Object) -> Option<&Arc<Pod>> {
    match object {
        Object::Pod(pod) => Some(pod),
        _ => None,
    }
}

/// True when a term of the owner means the other pod. A term without a selector means none; one without namespaces means the
/// owner's (API reference).
fn means(view: &View, term: &PodAffinityTerm, owner: &Pod, other: &Pod) -> bool {
    let selects = |selector| labels::matches(selector, other.metadata.labels.as_ref());
    term.label_selector.as_ref().is_some_and(selects) && reaches(view, term, owner, other)
}

fn reaches(view: &View, term: &PodAffinityTerm, owner: &Pod, other: &Pod) -> bool {
    let named = term.namespaces.as_deref().unwrap_or_default();
    let theirs = other.metadata.namespace.as_deref().unwrap_or_default();
    match &term.namespace_selector {
        None if named.is_empty() => owner.metadata.namespace == other.metadata.namespace,
        None => named.iter().any(|name| name == theirs),
        Some(selector) => {
            let namespace = view.namespace(&NamespacedName::new("", theirs));
            named.iter().any(|name| name == theirs)
                || labels::is_empty(selector)
                || namespace
                    .is_some_and(|found| labels::matches(selector, found.metadata.labels.as_ref()))
        }
    }
}

fn count<'a>(places: &mut Places<'a>, term: &'a PodAffinityTerm, node: &'a Node, weight: i64) {
    if let Some(value) = label(node, &term.topology_key) {
        *places.entry((&term.topology_key, value)).or_default() += weight;
    }
}

fn node_of<'a>(view: &'a View, pod: &Pod) -> Option<&'a Arc<Node>> {
    view.node(&NamespacedName::new("", pods::node(pod)?))
}
