//! Affinity between pods: a pod near others, or away from them, where "near" is an equal value of a
//! label of the node.
//!
//! Anti-affinity holds both ways: a pod that is there keeps away one that comes, and the other way
//! round. Affinity that prefers counts both ways, too, and so does required affinity of a pod that
//! is there, with weight 1 [kube-scheduler, InterPodAffinity]. `matchLabelKeys` and
//! `mismatchLabelKeys` are part of the selectors already: the API puts them there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Affinity, Node, PodAffinityTerm, WeightedPodAffinityTerm};
use rekindle_types::held::HeldPod;
use rekindle_types::labels::{self, Labels};

use super::affinity::label;
use super::refusal::NodeRefusal;
use crate::cluster::PodShift;
use crate::{ClusterView, NamespacedName, pods};

/// What the required affinity of a pod that is there counts for one that comes (upstream's
/// hardPodAffinityWeight).
const REQUIRED_WEIGHT: i64 = 1;

/// A count for each pair of a node label's key and value.
type Places<'a> = BTreeMap<(&'a str, &'a str), i64>;

/// The pods that are there, as one pod that comes sees them.
#[derive(Clone)]
pub(super) struct PodAffinities<'a> {
    view: &'a ClusterView,
    pod: &'a HeldPod,
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

/// A pod as the terms of others see it.
#[derive(Clone, Copy)]
struct NeighbourPod<'a> {
    namespace: &'a str,
    labels: Option<&'a Labels>,
}

impl<'a> NeighbourPod<'a> {
    fn from_pod(pod: &'a HeldPod) -> Self {
        Self { namespace: namespace_of(pod), labels: pod.metadata.labels.as_ref() }
    }
}

fn namespace_of(pod: &HeldPod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

impl<'a> PodAffinities<'a> {
    /// Looks at the pods that matter: those with affinity of their own, and, if this one has, all
    /// that it may mean.
    pub(super) fn new(view: &'a ClusterView, pod: &'a HeldPod) -> Self {
        let (wanted, _) = affinity(pods::affinity(pod));
        let (shunned, _) = anti_affinity(pods::affinity(pod));
        let itself = NeighbourPod::from_pod(pod);
        let mut this = Self {
            view,
            pod,
            wanted,
            shunned,
            is_of_its_kind: wanted.iter().all(|t| means(view, t, itself.namespace, itself)),
            near: Places::new(),
            away: Places::new(),
            shunning: Places::new(),
            preferences: Places::new(),
        };
        for opinion in view.cluster().opinions().iter() {
            let places = opinion.places();
            let nodes = places
                .filter_map(|(node, count)| Some((view.cluster().numbered(node)?.as_ref(), count)));
            this.heed(opinion.namespace(), Some(opinion.affinity()), nodes);
        }
        if pods::has_affinity_to_pods(pod) {
            for namespace in this.reached() {
                for (labels, crowd) in view.cluster().crowds().of_namespace(namespace) {
                    let places = crowd.places();
                    let nodes = places.filter_map(|(node, n)| {
                        Some((view.cluster().numbered(node)?.as_ref(), n.all))
                    });
                    this.look_at(NeighbourPod { namespace, labels: Some(labels) }, nodes);
                }
            }
        }
        // A pod does not mind itself, where it is bound already.
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if let Some(bound) = view.pod_by_uid(uid).filter(|pod| !pods::is_finished(pod)) {
            this.shift(bound, PodShift::Out);
        }
        this
    }

    /// A bound pod comes or goes.
    pub(super) fn shift(&mut self, other: &'a Arc<HeldPod>, shift: PodShift) {
        if let Some(host) = pods::node(other).and_then(|name| self.view.cluster().node(name)) {
            self.shift_on(other, host.node, shift);
        }
    }

    /// A pod comes to a node or leaves it.
    pub(super) fn shift_on(&mut self, other: &'a Arc<HeldPod>, node: &'a Node, shift: PodShift) {
        let at = std::iter::once((node, shift.sign()));
        self.heed(namespace_of(other), pods::affinity(other), at.clone());
        self.look_at(NeighbourPod::from_pod(other), at);
    }

    /// What pods that are there say of the one that comes.
    fn heed(
        &mut self,
        namespace: &str,
        terms: Option<&'a Affinity>,
        at: impl Iterator<Item = (&'a Node, i64)> + Clone,
    ) {
        let (view, comes) = (self.view, NeighbourPod::from_pod(self.pod));
        let (wants, prefers) = affinity(terms);
        let (shuns, dislikes) = anti_affinity(terms);
        for term in shuns.iter().filter(|term| means(view, term, namespace, comes)) {
            count(&mut self.shunning, term, at.clone(), 1);
        }
        for term in wants.iter().filter(|term| means(view, term, namespace, comes)) {
            count(&mut self.preferences, term, at.clone(), REQUIRED_WEIGHT);
        }
        self.weigh((prefers, dislikes), (namespace, comes), at);
    }

    /// What the pod that comes says of those that are there and look like this.
    fn look_at(
        &mut self,
        there: NeighbourPod<'_>,
        at: impl Iterator<Item = (&'a Node, i64)> + Clone,
    ) {
        let (view, namespace) = (self.view, namespace_of(self.pod));
        let is_meant = |term: &PodAffinityTerm| means(view, term, namespace, there);
        if !self.wanted.is_empty() && self.wanted.iter().all(is_meant) {
            for term in self.wanted {
                count(&mut self.near, term, at.clone(), 1);
            }
        }
        for term in self.shunned.iter().filter(|term| is_meant(term)) {
            count(&mut self.away, term, at.clone(), 1);
        }
        let preferred =
            (affinity(pods::affinity(self.pod)).1, anti_affinity(pods::affinity(self.pod)).1);
        self.weigh(preferred, (namespace, there), at);
    }

    /// Counts what one side prefers of the other, which is what it likes less what it dislikes.
    fn weigh(
        &mut self,
        (likes, dislikes): (&'a [WeightedPodAffinityTerm], &'a [WeightedPodAffinityTerm]),
        (owner_namespace, other): (&str, NeighbourPod<'_>),
        at: impl Iterator<Item = (&'a Node, i64)> + Clone,
    ) {
        for (terms, sign) in [(likes, 1), (dislikes, -1)] {
            for weighted in terms {
                let term = &weighted.pod_affinity_term;
                if means(self.view, term, owner_namespace, other) {
                    let weight = sign * i64::from(weighted.weight);
                    count(&mut self.preferences, term, at.clone(), weight);
                }
            }
        }
    }

    /// The namespaces that the pod's terms reach.
    fn reached(&self) -> BTreeSet<&'a str> {
        let terms = pods::affinity(self.pod);
        let ((wanted, likes), (shunned, dislikes)) = (affinity(terms), anti_affinity(terms));
        let preferred = likes.iter().chain(dislikes).map(|weighted| &weighted.pod_affinity_term);
        let mut namespaces = BTreeSet::new();
        for term in wanted.iter().chain(shunned).chain(preferred) {
            if term.namespace_selector.is_some() {
                return self.view.cluster().crowds().namespaces().collect();
            }
            match term.namespaces.as_deref().unwrap_or_default() {
                [] => namespaces.extend([namespace_of(self.pod)]),
                named => namespaces.extend(named.iter().map(String::as_str)),
            }
        }
        namespaces
    }

    /// Why the pods that are there keep this one from the node, in the order in which upstream
    /// asks. That nobody is near whom the pod wants does not change when pods end.
    pub(super) fn reason_against(&self, node: &Node) -> Option<NodeRefusal> {
        if self.wanted.is_empty() && self.shunned.is_empty() && self.shunning.is_empty() {
            return None;
        }
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
            return Some(NodeRefusal::final_for("node(s) didn't match pod affinity rules"));
        }
        if self.shunned.iter().any(|term| has(&self.away, place(term))) {
            return Some(NodeRefusal::of_pods("node(s) didn't match pod anti-affinity rules"));
        }
        let is_shunned = self.shunning.keys().any(|(key, value)| label(node, key) == Some(value));
        is_shunned.then(|| {
            NodeRefusal::of_pods("node(s) didn't satisfy existing pods anti-affinity rules")
        })
    }

    /// False when neither side prefers anything.
    pub(super) fn have_preferences(&self) -> bool {
        !self.preferences.is_empty()
    }

    /// What the preferences of both sides come to on the node; more is better, and it may be
    /// negative.
    pub(super) fn preference(&self, node: &Node) -> i64 {
        let here =
            self.preferences.iter().filter(|((key, value), _)| label(node, key) == Some(value));
        here.map(|(_, count)| count).sum()
    }
}

/// Whom pods that are there keep away: their required anti-affinity.
#[derive(Clone, Copy)]
pub(super) struct AntiAffinity<'a> {
    namespace: &'a str,
    terms: &'a [PodAffinityTerm],
}

/// Whom this pod keeps away, if anybody.
pub(super) fn anti_affinity_of(pod: &HeldPod) -> Option<AntiAffinity<'_>> {
    AntiAffinity::new(namespace_of(pod), pods::affinity(pod))
}

/// Whom the pods on the node keep away, whether it is there still or not.
pub(super) fn anti_affinities_on<'a>(
    view: &'a ClusterView,
    node: &str,
) -> impl Iterator<Item = AntiAffinity<'a>> + use<'a> {
    let node = view.cluster().number_of(node);
    let opinions = view.cluster().opinions().iter();
    opinions
        .filter(move |opinion| node.is_some_and(|node| opinion.is_held_on(node)))
        .filter_map(|opinion| AntiAffinity::new(opinion.namespace(), Some(opinion.affinity())))
}

/// Those of all pods that are there who choose by the labels of namespaces.
pub(super) fn anti_affinities_by_namespace(
    view: &ClusterView,
) -> impl Iterator<Item = AntiAffinity<'_>> {
    let opinions = view.cluster().opinions().iter();
    let all = opinions
        .filter_map(|opinion| AntiAffinity::new(opinion.namespace(), Some(opinion.affinity())));
    all.filter(|shunning| shunning.terms.iter().any(|term| term.namespace_selector.is_some()))
}

impl<'a> AntiAffinity<'a> {
    fn new(namespace: &'a str, terms: Option<&'a Affinity>) -> Option<Self> {
        let (terms, _) = anti_affinity(terms);
        (!terms.is_empty()).then_some(Self { namespace, terms })
    }

    /// True when it keeps the pod away.
    pub(super) fn means(&self, view: &ClusterView, pod: &HeldPod) -> bool {
        let seen = NeighbourPod::from_pod(pod);
        self.terms.iter().any(|term| means(view, term, self.namespace, seen))
    }

    /// The same, were the pod in a namespace with other labels.
    pub(super) fn may_mean(&self, pod: &HeldPod) -> bool {
        let labels = pod.metadata.labels.as_ref();
        self.terms.iter().any(|term| {
            let selects = |selector| labels::matches(selector, labels);
            term.label_selector.as_ref().is_some_and(selects)
        })
    }
}

/// Required and preferred terms of pod affinity.
fn affinity(terms: Option<&Affinity>) -> (&[PodAffinityTerm], &[WeightedPodAffinityTerm]) {
    let Some(terms) = terms.and_then(|a| a.pod_affinity.as_ref()) else { return (&[], &[]) };
    (
        terms.required_during_scheduling_ignored_during_execution.as_deref().unwrap_or_default(),
        terms.preferred_during_scheduling_ignored_during_execution.as_deref().unwrap_or_default(),
    )
}

/// Required and preferred terms of pod anti-affinity.
fn anti_affinity(terms: Option<&Affinity>) -> (&[PodAffinityTerm], &[WeightedPodAffinityTerm]) {
    let Some(terms) = terms.and_then(|a| a.pod_anti_affinity.as_ref()) else {
        return (&[], &[]);
    };
    (
        terms.required_during_scheduling_ignored_during_execution.as_deref().unwrap_or_default(),
        terms.preferred_during_scheduling_ignored_during_execution.as_deref().unwrap_or_default(),
    )
}

/// True when a term of an owner in this namespace means the other pod. A term without a selector
/// means none; one without namespaces means the owner's (API reference).
fn means(
    view: &ClusterView,
    term: &PodAffinityTerm,
    owner_namespace: &str,
    other: NeighbourPod<'_>,
) -> bool {
    let selects = |selector| labels::matches(selector, other.labels);
    term.label_selector.as_ref().is_some_and(selects)
        && reaches(view, term, owner_namespace, other.namespace)
}

fn reaches(
    view: &ClusterView,
    term: &PodAffinityTerm,
    owner_namespace: &str,
    theirs: &str,
) -> bool {
    let named = term.namespaces.as_deref().unwrap_or_default();
    match &term.namespace_selector {
        None if named.is_empty() => owner_namespace == theirs,
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

/// Adds up; what comes to nothing is not there.
fn count<'a>(
    places: &mut Places<'a>,
    term: &'a PodAffinityTerm,
    at: impl Iterator<Item = (&'a Node, i64)>,
    weight: i64,
) {
    for (node, pods) in at {
        let Some(value) = label(node, &term.topology_key) else { continue };
        let sum = places.entry((&term.topology_key, value)).or_default();
        *sum += weight * pods;
        if *sum == 0 {
            places.remove(&(term.topology_key.as_str(), value));
        }
    }
}
