//! Pods that are not well, alike ones in one group: of the same state, for the same reason. How
//! often each of them ended does not make them unlike.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rekindle_types::Tick;

use crate::account::{Account, AccountState, ExamplePod, PodGroup};
use crate::evidence::PodEvidence;
use crate::pod::explain_pod;
use crate::words::shape;

/// Pods of a group that are named.
const NAMES_MAX: usize = 10;

/// The pods of a workload or a node.
pub(crate) struct PodGroups {
    /// Those that are not well, the worst first.
    pub(crate) unwell: Vec<PodGroup>,
    /// Where these stand in the evidence.
    pub(crate) places: Vec<usize>,
    /// How many are well.
    pub(crate) well: usize,
}

impl PodGroups {
    /// How many are not well.
    pub(crate) fn unwell(&self) -> usize {
        self.places.len()
    }

    /// How what they belong to does, as far as they tell: a pod may have failed for good, a node or
    /// a workload goes on.
    pub(crate) fn state(&self) -> AccountState {
        let worst = self.unwell.iter().map(|group| group.state).max();
        worst.map_or(AccountState::Healthy, |worst| worst.min(AccountState::Failing))
    }
}

/// How pods are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodNaming {
    /// By their names: all are of the namespace of what they belong to.
    InNamespace,
    /// As NAMESPACE/NAME.
    OfAllNamespaces,
}

impl PodNaming {
    fn name(self, account: &Account) -> String {
        match (self, &account.namespace) {
            (Self::OfAllNamespaces, Some(namespace)) => format!("{namespace}/{}", account.name),
            (Self::OfAllNamespaces, None) | (Self::InNamespace, _) => account.name.clone(),
        }
    }
}

/// Puts the pods into groups; the first by name of each is its example.
pub(crate) fn group(pods: &[PodEvidence], naming: PodNaming, now: Tick) -> PodGroups {
    let mut accounts: Vec<(usize, Account)> =
        pods.iter().map(|evidence| explain_pod(evidence, now)).enumerate().collect();
    accounts.sort_by(|(_, a), (_, b)| (&a.name, &a.namespace).cmp(&(&b.name, &b.namespace)));
    let mut groups: BTreeMap<(Reverse<AccountState>, String), PodGroup> = BTreeMap::new();
    let mut places = Vec::new();
    let mut well = 0;
    for (place, account) in accounts {
        match account.state {
            AccountState::Healthy | AccountState::Completed => {
                well += 1;
                continue;
            }
            AccountState::Gone
            | AccountState::Starting
            | AccountState::Terminating
            | AccountState::Unchecked
            | AccountState::Restricted
            | AccountState::NotReady
            | AccountState::Blocked
            | AccountState::Failing
            | AccountState::Failed => {}
        }
        places.push(place);
        let key = (Reverse(account.state), reason(&account));
        let group = groups.entry(key).or_insert_with(|| PodGroup {
            state: account.state,
            summary: account.summary.clone(),
            names: Vec::new(),
            count: 0,
            example: example(&account, naming),
            advice: account.advice.clone(),
        });
        group.count += 1;
        if group.names.len() < NAMES_MAX {
            group.names.push(naming.name(&account));
        }
    }
    PodGroups { unwell: groups.into_values().collect(), places, well }
}

/// Why it is not well, without numbers: what is the matter with the container that its summary is
/// about, and what its ladder does about that; else the summary.
fn reason(account: &Account) -> String {
    let of_container =
        account.containers.first().filter(|container| account.summary.contains(&container.what));
    match of_container {
        Some(container) => {
            let ladder = account.ladder.as_ref().map(|ladder| (ladder.phase, ladder.held_rung));
            shape(&format!("container {:?} {} {ladder:?}", container.name, container.what))
        }
        None => shape(&account.summary),
    }
}

/// What there is to show of a pod beyond its summary; none when there is nothing.
fn example(account: &Account, naming: PodNaming) -> Option<ExamplePod> {
    let Account { containers, nodes, ladder, next, .. } = account;
    let is_empty = containers.is_empty() && nodes.is_empty() && ladder.is_none() && next.is_none();
    (!is_empty).then(|| ExamplePod {
        name: naming.name(account),
        containers: containers.clone(),
        nodes: nodes.clone(),
        ladder: ladder.clone(),
        next: next.clone(),
    })
}
