//! What a node has given to its pods, and what it can still give (`pkg/kubelet/allocation`): one
//! for all pods of a node.
//!
//! A pod counts with what it was granted. A request is granted, or deferred until there is room, or
//! refused for ever. Whenever something becomes free, deferred requests are looked at again: first
//! those that ask for no more than they have, then by priority, then Guaranteed pods, then those
//! that have waited longest. One that does not fit keeps none behind it waiting.
//!
//! Until it is known what every pod of the node was granted, nothing is decided: an agent that
//! starts again must not give away what a pod has that it has not heard of yet.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::PodUid;
use rekindle_types::resources::{Amounts, qos_class};

use crate::action::ResourceRequest;
use crate::event::ResourceDecision;

/// The resources that are looked at.
const RESOURCES: [&str; 2] = ["memory", "cpu"];

/// What the pods of one node have and ask for.
#[derive(Debug)]
pub struct NodeAllocations {
    allocatable: Amounts,
    pods: BTreeMap<PodUid, ResourceHolding>,
    list: PodList,
    /// Counts the requests: their order.
    requests: u64,
}

/// Whether all pods of the node have been named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodList {
    Incomplete,
    Complete,
}

/// One pod.
#[derive(Debug)]
struct ResourceHolding {
    /// `None`: it is here, and what it was granted is not known yet.
    granted: Option<Amounts>,
    rank: Rank,
    pending: Option<PendingRequest>,
}

#[derive(Debug)]
struct PendingRequest {
    ticket: u64,
    wanted: Amounts,
    /// Its place among all requests.
    number: u64,
    /// What the pod was told.
    told: ToldDecision,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ToldDecision {
    Nothing,
    Deferred(String),
}

/// How important a pod is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    priority: i32,
    class: QosRank,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum QosRank {
    #[default]
    Other,
    Guaranteed,
}

impl Rank {
    /// That of a pod.
    pub fn from_pod(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let class =
            if qos_class(spec) == "Guaranteed" { QosRank::Guaranteed } else { QosRank::Other };
        Self { priority: spec.priority.unwrap_or_default(), class }
    }
}

/// What a pod is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceNotice {
    /// Which pod.
    pub pod: PodUid,
    /// Of its request.
    pub ticket: u64,
    /// What the node says.
    pub decision: ResourceDecision,
}

impl NodeAllocations {
    /// A node that can give so much, and whose pods are not known yet.
    pub fn new(allocatable: Amounts) -> Self {
        Self { allocatable, pods: BTreeMap::new(), list: PodList::Incomplete, requests: 0 }
    }

    /// A pod is here, and says soon what it was granted.
    pub fn expect(&mut self, pod: PodUid) {
        let unknown = || ResourceHolding { granted: None, rank: Rank::default(), pending: None };
        self.pods.entry(pod).or_insert_with(unknown);
    }

    /// Every pod that was here before is expected.
    pub fn listed(&mut self) -> Vec<ResourceNotice> {
        self.list = PodList::Complete;
        self.decide()
    }

    /// What a pod was granted before, or has when it is new here: it counts, whether there is room
    /// or not.
    pub fn hold(&mut self, pod: PodUid, granted: Amounts, rank: Rank) -> Vec<ResourceNotice> {
        self.pods.insert(pod, ResourceHolding { granted: Some(granted), rank, pending: None });
        self.decide()
    }

    /// A pod asks for something else. An earlier request of it is forgotten.
    pub fn request(
        &mut self,
        pod: &PodUid,
        request: ResourceRequest,
        rank: Rank,
    ) -> Vec<ResourceNotice> {
        let ResourceRequest { ticket, held, wanted } = request;
        self.requests += 1;
        let number = self.requests;
        let pending = PendingRequest { ticket, wanted, number, told: ToldDecision::Nothing };
        let holding = ResourceHolding { granted: Some(held), rank, pending: Some(pending) };
        self.pods.insert(pod.clone(), holding);
        self.decide()
    }

    /// A pod takes up nothing any more.
    pub fn release(&mut self, pod: &PodUid) -> Vec<ResourceNotice> {
        match self.pods.remove(pod) {
            Some(_) => self.decide(),
            None => Vec::new(),
        }
    }

    /// What all pods were granted together.
    pub fn granted(&self) -> Amounts {
        self.granted_beside(None)
    }

    fn granted_beside(&self, pod: Option<&PodUid>) -> Amounts {
        let mut sum = Amounts::default();
        for (_, holding) in self.pods.iter().filter(|(uid, _)| Some(*uid) != pod) {
            if let Some(granted) = &holding.granted {
                sum.add(granted);
            }
        }
        sum
    }

    fn decide(&mut self) -> Vec<ResourceNotice> {
        let all_known = self.pods.values().all(|holding| holding.granted.is_some());
        if self.list == PodList::Incomplete || !all_known {
            return Vec::new();
        }
        let mut notices = Vec::new();
        // What one gives back another may get: until nothing more is granted.
        loop {
            let granted_before = notices.iter().filter(|n| is_grant(n)).count();
            for pod in self.in_order() {
                notices.extend(self.decide_for(&pod));
            }
            if notices.iter().filter(|n| is_grant(n)).count() == granted_before {
                return newest_of_each(notices);
            }
        }
    }

    /// The pods with a request, the most important first.
    fn in_order(&self) -> Vec<PodUid> {
        let mut waiting: Vec<_> = self
            .pods
            .iter()
            .filter_map(|(uid, holding)| {
                let pending = holding.pending.as_ref()?;
                let granted = holding.granted.as_ref()?;
                let asks_for_more =
                    RESOURCES.iter().any(|name| more(&pending.wanted, granted, name));
                let Rank { priority, class } = holding.rank;
                let key = (asks_for_more, std::cmp::Reverse((priority, class)), pending.number);
                Some((key, uid.clone()))
            })
            .collect();
        waiting.sort();
        waiting.into_iter().map(|(_, uid)| uid).collect()
    }

    fn decide_for(&mut self, pod: &PodUid) -> Option<ResourceNotice> {
        let holding = self.pods.get(pod)?;
        let (pending, granted) = (holding.pending.as_ref()?, holding.granted.as_ref()?);
        let decision = self.judge(pod, granted, &pending.wanted);
        let holding = self.pods.get_mut(pod)?;
        let ticket = holding.pending.as_ref()?.ticket;
        match &decision {
            ResourceDecision::Granted => {
                holding.granted = holding.pending.take().map(|pending| pending.wanted);
            }
            ResourceDecision::Infeasible { .. } => holding.pending = None,
            ResourceDecision::Deferred { message } => {
                let pending = holding.pending.as_mut()?;
                let told = ToldDecision::Deferred(message.clone());
                if pending.told == told {
                    return None;
                }
                pending.told = told;
            }
        }
        Some(ResourceNotice { pod: pod.clone(), ticket, decision })
    }

    /// The kubelet's words. What a pod asks for no more of than it has, it gets.
    fn judge(&self, pod: &PodUid, granted: &Amounts, wanted: &Amounts) -> ResourceDecision {
        for name in RESOURCES {
            let (asked, capacity) = (number(wanted, name), number(&self.allocatable, name));
            if asked > capacity && more(wanted, granted, name) {
                let message = format!(
                    "Node didn't have enough capacity: {name}, requested: {asked}, capacity: {capacity}"
                );
                return ResourceDecision::Infeasible { message };
            }
        }
        let others = self.granted_beside(Some(pod));
        for name in RESOURCES {
            let (asked, used) = (number(wanted, name), number(&others, name));
            let capacity = number(&self.allocatable, name);
            if asked.saturating_add(used) > capacity && more(wanted, granted, name) {
                let message = format!(
                    "Node didn't have enough resource: {name}, requested: {asked}, used: {used}, capacity: {capacity}"
                );
                return ResourceDecision::Deferred { message };
            }
        }
        ResourceDecision::Granted
    }
}

fn is_grant(notice: &ResourceNotice) -> bool {
    match notice.decision {
        ResourceDecision::Granted => true,
        ResourceDecision::Deferred { .. } | ResourceDecision::Infeasible { .. } => false,
    }
}

/// Of several words to one pod the last counts.
fn newest_of_each(notices: Vec<ResourceNotice>) -> Vec<ResourceNotice> {
    let mut newest: Vec<ResourceNotice> = Vec::new();
    for notice in notices {
        newest.retain(|earlier| earlier.pod != notice.pod);
        newest.push(notice);
    }
    newest
}

/// Millicores of CPU, bytes of memory.
fn number(amounts: &Amounts, name: &str) -> i64 {
    let amount = amounts.get(name);
    if name == "cpu" { amount.millis() } else { amount.units() }
}

fn more(wanted: &Amounts, granted: &Amounts, name: &str) -> bool {
    wanted.get(name).millis() > granted.get(name).millis()
}

#[cfg(test)]
mod tests;
