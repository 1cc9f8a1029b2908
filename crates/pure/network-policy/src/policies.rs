//! Joins NetworkPolicies, namespaces and pods to the elements of the rules.

mod allowed;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use rekindle_types::labels::Labels;
use rekindle_types::{IpFamily, IpStack, NamespacedName};

use self::allowed::{IsolatedClass, PeerClass};
use crate::class::{ClassNumber, Numbered, OtherUse};
use crate::element::{PolicyChanges, PolicyElement, PolicyElements};
use crate::peer_pod::{NamedPort, PeerPod};
use crate::policy_rule::{PeerNamespaces, PeerSelector, PolicyDirection, PolicyRule, ReadPolicy};

/// What all NetworkPolicies let through.
///
/// Each call answers what changes in the rules; the caller puts these changes into the kernel in
/// the order of the calls.
#[derive(Clone, Debug, Default)]
pub struct NetworkPolicies {
    stack: IpStack,
    policies: BTreeMap<NamespacedName, ReadPolicy>,
    namespaces: BTreeMap<String, Labels>,
    pods: BTreeMap<NamespacedName, PeerPod>,
    /// Which pods have an address, the latest last: it counts.
    holders: BTreeMap<IpAddr, Vec<NamespacedName>>,
    selectors: SelectorIndex,
    isolated: Numbered<IsolatedClass>,
    peers: Numbered<PeerClass>,
    /// What is allowed between two classes follows from selectors that both have.
    isolated_by_selector: ClassesBySelector,
    peers_by_selector: ClassesBySelector,
    /// The classes of the address that a pod has.
    classes: BTreeMap<IpAddr, AddressClasses>,
}

/// What the policies make of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AddressClasses {
    ingress: Option<ClassNumber>,
    egress: Option<ClassNumber>,
    peer: Option<ClassNumber>,
}

/// Which classes have a selector.
#[derive(Clone, Debug, Default)]
struct ClassesBySelector(BTreeMap<PeerSelector, BTreeSet<ClassNumber>>);

/// The selectors of all policies, by where they may select.
#[derive(Clone, Debug, Default)]
struct SelectorIndex {
    own: BTreeMap<String, BTreeSet<PeerSelector>>,
    labelled: BTreeSet<PeerSelector>,
    /// Names of ports that rules for egress have.
    port_names: BTreeSet<NamedPort>,
}

impl NetworkPolicies {
    /// One that knows nothing yet, for pods with addresses of these families.
    pub fn new(stack: IpStack) -> Self {
        Self { stack, ..Self::default() }
    }

    /// A policy came, changed or went.
    pub fn set_policy(
        &mut self,
        name: NamespacedName,
        policy: Option<&NetworkPolicy>,
    ) -> PolicyChanges {
        match policy {
            Some(policy) => {
                let read = ReadPolicy::new(&name.namespace, policy, self.stack);
                self.policies.insert(name, read);
            }
            None => {
                self.policies.remove(&name);
            }
        }
        self.read_again()
    }

    /// These are all policies.
    pub fn set_policies(
        &mut self,
        policies: &BTreeMap<NamespacedName, NetworkPolicy>,
    ) -> PolicyChanges {
        let read = |(name, policy): (&NamespacedName, &NetworkPolicy)| {
            (name.clone(), ReadPolicy::new(&name.namespace, policy, self.stack))
        };
        self.policies = policies.iter().map(read).collect();
        self.read_again()
    }

    /// A namespace came, changed or went.
    pub fn set_namespace(&mut self, name: &str, labels: Option<&Labels>) -> PolicyChanges {
        let before = match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels.clone()),
            None => self.namespaces.remove(name),
        };
        if before.as_ref() == labels {
            return PolicyChanges::default();
        }
        let from = NamespacedName::new(name, "");
        let inside = self.pods.range(from..).take_while(|(pod, _)| pod.namespace == name);
        let addresses = inside.flat_map(|(_, pod)| pod.addresses.iter().copied()).collect();
        self.classify(addresses)
    }

    /// These are all namespaces.
    pub fn set_namespaces(&mut self, namespaces: &BTreeMap<String, Labels>) -> PolicyChanges {
        self.namespaces.clone_from(namespaces);
        self.classify_all()
    }

    /// A pod came, changed or went, or has no address of its own any more.
    pub fn set_pod(&mut self, name: &NamespacedName, pod: Option<PeerPod>) -> PolicyChanges {
        if self.pods.get(name) == pod.as_ref() {
            return PolicyChanges::default();
        }
        let addresses = self.put_pod(name, pod);
        self.classify(addresses)
    }

    /// These are all pods.
    pub fn set_pods(&mut self, pods: BTreeMap<NamespacedName, PeerPod>) -> PolicyChanges {
        let gone = self.pods.keys().filter(|name| !pods.contains_key(name)).cloned();
        let news: Vec<(NamespacedName, Option<PeerPod>)> = gone
            .map(|name| (name, None))
            .collect::<Vec<_>>()
            .into_iter()
            .chain(pods.into_iter().map(|(name, pod)| (name, Some(pod))))
            .collect();
        let mut addresses = BTreeSet::new();
        for (name, pod) in news {
            if self.pods.get(&name) != pod.as_ref() {
                addresses.extend(self.put_pod(&name, pod));
            }
        }
        self.classify(addresses)
    }

    /// Everything that the policies say.
    pub fn elements(&self) -> PolicyElements {
        let of_addresses =
            self.classes.iter().flat_map(|(address, classes)| classes.elements(*address));
        let isolated = self.isolated.iter();
        let of_classes =
            isolated.flat_map(|(number, class)| self.elements_of_isolated(number, class));
        of_addresses.chain(of_classes).collect()
    }

    /// Answers the addresses that this concerns.
    fn put_pod(&mut self, name: &NamespacedName, pod: Option<PeerPod>) -> BTreeSet<IpAddr> {
        let pod = pod.map(|mut pod| {
            pod.addresses.retain(|address| self.stack.has(IpFamily::from_address(*address)));
            pod
        });
        let after = pod.as_ref().map(|pod| pod.addresses.clone()).unwrap_or_default();
        let before = match pod {
            Some(pod) => self.pods.insert(name.clone(), pod),
            None => self.pods.remove(name),
        };
        let before = before.map(|pod| pod.addresses).unwrap_or_default();
        for address in before.difference(&after) {
            let holders = self.holders.entry(*address).or_default();
            holders.retain(|holder| holder != name);
            if holders.is_empty() {
                self.holders.remove(address);
            }
        }
        for address in after.difference(&before) {
            self.holders.entry(*address).or_default().push(name.clone());
        }
        before.union(&after).copied().collect()
    }

    fn read_again(&mut self) -> PolicyChanges {
        self.selectors = SelectorIndex::of_policies(self.policies.values());
        self.classify_all()
    }

    fn classify_all(&mut self) -> PolicyChanges {
        let addresses = self.holders.keys().chain(self.classes.keys()).copied().collect();
        self.classify(addresses)
    }

    /// Finds the classes of these addresses anew.
    fn classify(&mut self, addresses: BTreeSet<IpAddr>) -> PolicyChanges {
        let mut changes = PolicyChanges::default();
        for address in addresses {
            let holder = self.holders.get(&address).and_then(|holders| holders.last());
            let pod = holder.and_then(|name| Some((name, self.pods.get(name)?)));
            let ingress = pod
                .and_then(|(name, pod)| self.isolated_class(PolicyDirection::Ingress, name, pod));
            let egress =
                pod.and_then(|(name, pod)| self.isolated_class(PolicyDirection::Egress, name, pod));
            let peer = pod.and_then(|(name, pod)| self.peer_class(name, pod));
            // new ones before old ones, or a class that stays would go and come
            let after = AddressClasses {
                ingress: ingress.map(|class| self.enter_isolated(&class, &mut changes)),
                egress: egress.map(|class| self.enter_isolated(&class, &mut changes)),
                peer: peer.map(|class| self.enter_peer(&class, &mut changes)),
            };
            let before = match after == AddressClasses::default() {
                true => self.classes.remove(&address),
                false => self.classes.insert(address, after),
            };
            let before = before.unwrap_or_default();
            for number in [before.ingress, before.egress].into_iter().flatten() {
                self.leave_isolated(number, &mut changes);
            }
            if let Some(number) = before.peer {
                self.leave_peer(number, &mut changes);
            }
            before.elements(address).for_each(|element| changes.remove(element));
            after.elements(address).for_each(|element| changes.add(element));
        }
        changes
    }

    /// None: no policy isolates it.
    fn isolated_class(
        &self,
        direction: PolicyDirection,
        name: &NamespacedName,
        pod: &PeerPod,
    ) -> Option<IsolatedClass> {
        let from = NamespacedName::new(name.namespace.clone(), "");
        let mut policies = self
            .policies
            .range(from..)
            .take_while(|(policy, _)| policy.namespace == name.namespace)
            .filter(|(_, policy)| policy.pods.matches(&pod.labels))
            .filter_map(|(_, policy)| policy.rules(direction))
            .peekable();
        policies.peek()?;
        let rules: BTreeSet<PolicyRule> = policies.flatten().cloned().collect();
        Some(IsolatedClass::new(direction, rules, pod))
    }

    /// None: no policy selects it as a peer.
    fn peer_class(&self, name: &NamespacedName, pod: &PeerPod) -> Option<PeerClass> {
        let own = self.selectors.own.get(&name.namespace).into_iter().flatten();
        let none = Labels::new();
        let namespace = self.namespaces.get(&name.namespace);
        let selects = |selector: &&PeerSelector| {
            let in_namespace = match &selector.namespaces {
                PeerNamespaces::Own(own) => *own == name.namespace,
                PeerNamespaces::Labelled(query) => query.matches(namespace.unwrap_or(&none)),
            };
            in_namespace && selector.pods.matches(&pod.labels)
        };
        let selectors: BTreeSet<PeerSelector> =
            own.chain(&self.selectors.labelled).filter(selects).cloned().collect();
        (!selectors.is_empty())
            .then(|| PeerClass::new(selectors, &pod.ports, &self.selectors.port_names))
    }

    fn enter_isolated(
        &mut self,
        class: &IsolatedClass,
        changes: &mut PolicyChanges,
    ) -> ClassNumber {
        let (number, other_use) = self.isolated.acquire(class);
        if other_use == OtherUse::No {
            self.isolated_by_selector.insert(number, class.selectors());
            self.elements_of_isolated(number, class).for_each(|element| changes.add(element));
        }
        number
    }

    fn leave_isolated(&mut self, number: ClassNumber, changes: &mut PolicyChanges) {
        if let Some(class) = self.isolated.release(number) {
            self.isolated_by_selector.remove(number, class.selectors());
            self.elements_of_isolated(number, &class).for_each(|element| changes.remove(element));
        }
    }

    fn elements_of_isolated(
        &self,
        number: ClassNumber,
        class: &IsolatedClass,
    ) -> impl Iterator<Item = PolicyElement> {
        let peers = self.peers_by_selector.with_any_of(class.selectors()).into_iter();
        let peers = peers.filter_map(|number| Some((number, self.peers.get(number)?)));
        let pairs =
            peers.flat_map(move |(peer_number, peer)| class.allowed(number, peer, peer_number));
        class.blocks(number).into_iter().chain(pairs)
    }

    fn enter_peer(&mut self, class: &PeerClass, changes: &mut PolicyChanges) -> ClassNumber {
        let (number, other_use) = self.peers.acquire(class);
        if other_use == OtherUse::No {
            self.peers_by_selector.insert(number, class.selectors());
            self.elements_of_peer(number, class).for_each(|element| changes.add(element));
        }
        number
    }

    fn leave_peer(&mut self, number: ClassNumber, changes: &mut PolicyChanges) {
        if let Some(class) = self.peers.release(number) {
            self.peers_by_selector.remove(number, class.selectors());
            self.elements_of_peer(number, &class).for_each(|element| changes.remove(element));
        }
    }

    fn elements_of_peer(
        &self,
        number: ClassNumber,
        class: &PeerClass,
    ) -> impl Iterator<Item = PolicyElement> {
        let isolated = self.isolated_by_selector.with_any_of(class.selectors()).into_iter();
        let isolated = isolated.filter_map(|number| Some((number, self.isolated.get(number)?)));
        isolated.flat_map(move |(isolated, rules)| rules.allowed(isolated, class, number))
    }
}

impl AddressClasses {
    fn elements(self, address: IpAddr) -> impl Iterator<Item = PolicyElement> {
        let ingress = self.ingress.map(|class| PolicyElement::Ingress(address, class));
        let egress = self.egress.map(|class| PolicyElement::Egress(address, class));
        let peer = self.peer.map(|class| PolicyElement::Peer(address, class));
        let itself = self.ingress.or(self.egress).map(|_| PolicyElement::Itself(address));
        [ingress, egress, peer, itself].into_iter().flatten()
    }
}

impl ClassesBySelector {
    fn insert<'a>(
        &mut self,
        class: ClassNumber,
        selectors: impl Iterator<Item = &'a PeerSelector>,
    ) {
        for selector in selectors {
            match self.0.get_mut(selector) {
                Some(classes) => drop(classes.insert(class)),
                None => drop(self.0.insert(selector.clone(), [class].into())),
            }
        }
    }

    fn remove<'a>(
        &mut self,
        class: ClassNumber,
        selectors: impl Iterator<Item = &'a PeerSelector>,
    ) {
        for selector in selectors {
            if let Some(classes) = self.0.get_mut(selector) {
                classes.remove(&class);
                if classes.is_empty() {
                    self.0.remove(selector);
                }
            }
        }
    }

    fn with_any_of<'a>(
        &self,
        selectors: impl Iterator<Item = &'a PeerSelector>,
    ) -> BTreeSet<ClassNumber> {
        selectors.filter_map(|selector| self.0.get(selector)).flatten().copied().collect()
    }
}

impl SelectorIndex {
    fn of_policies<'a>(policies: impl Iterator<Item = &'a ReadPolicy>) -> Self {
        let mut index = Self::default();
        for policy in policies {
            for direction in PolicyDirection::ALL {
                for rule in policy.rules(direction).into_iter().flatten() {
                    index.add(direction, rule);
                }
            }
        }
        index
    }

    fn add(&mut self, direction: PolicyDirection, rule: &PolicyRule) {
        for selector in &rule.selectors {
            match &selector.namespaces {
                PeerNamespaces::Own(namespace) => {
                    self.own.entry(namespace.clone()).or_default().insert(selector.clone());
                }
                PeerNamespaces::Labelled(_) => {
                    self.labelled.insert(selector.clone());
                }
            }
        }
        match direction {
            PolicyDirection::Egress => self.port_names.extend(rule.ports.names().cloned()),
            PolicyDirection::Ingress => {}
        }
    }
}

#[cfg(test)]
mod tests;
