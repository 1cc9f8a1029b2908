//! Joins Services, slices and what the node knows of its pods to the elements of the rules.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use rekindle_types::{NamespacedName, PodUid};
use serde::{Deserialize, Serialize};

use crate::frontend::Frontend;
use crate::routed::{
    EndpointUse, RoutedEndpoint, RoutedFrontend, RoutedService, RoutedSlice, TrafficPolicy,
};
use crate::rules::{EndpointPick, Refusal, RuleChanges, RuleElement, RuleElements};

/// Why the node takes a pod out of the rules before the slices say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WithdrawalCause {
    /// Its pod ends. As long as it serves, it is the last resort of a Service without another.
    Terminating,
    /// Its containers are restarted in place: nothing answers there for a while.
    Restarting,
}

/// Where the packets of all Services go.
///
/// Each call answers what changes in the rules; the caller puts these changes into the kernel in
/// the order of the calls.
#[derive(Debug, Default)]
pub struct ServiceRouter {
    services: BTreeMap<NamespacedName, RoutedService>,
    slices: BTreeMap<NamespacedName, RoutedSlice>,
    /// Names of slices, by their Service.
    slices_of: BTreeMap<NamespacedName, BTreeSet<String>>,
    /// Services with an endpoint that is this pod.
    services_of_pod: BTreeMap<PodUid, BTreeSet<NamespacedName>>,
    /// What the node has said of its pods.
    pods: BTreeMap<PodUid, PodRouting>,
    /// Which Services want a frontend. The first one has it.
    claims: BTreeMap<Frontend, BTreeSet<NamespacedName>>,
    served: BTreeMap<Frontend, ServedFrontend>,
    /// How many frontends lead to an address.
    leading_to: BTreeMap<IpAddr, usize>,
}

/// What the node says of a pod, which it knows before the slices do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PodRouting {
    Withdrawn(WithdrawalCause),
    /// It answers at these addresses; a slice that has another one is behind.
    Admitted(Vec<IpAddr>),
}

/// A frontend as it is in the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ServedFrontend {
    /// Its endpoints. One keeps its number while others come, and the last takes the number of one
    /// that goes: so few elements change.
    numbered: Vec<SocketAddr>,
    /// Its elements beside those.
    others: Vec<RuleElement>,
}

impl ServedFrontend {
    fn elements(&self, frontend: Frontend) -> impl Iterator<Item = RuleElement> + '_ {
        let endpoints = (0_u16..).zip(&self.numbered);
        let endpoints = endpoints.map(move |(n, e)| RuleElement::Endpoint(frontend, n, *e));
        endpoints.chain(self.others.iter().copied())
    }

    /// The endpoints are to be these. Those that stay keep their number if they can.
    fn renumber(&mut self, wanted: &BTreeSet<SocketAddr>) {
        let mut number = 0;
        while number < self.numbered.len() {
            match wanted.contains(&self.numbered[number]) {
                true => number += 1,
                false => drop(self.numbered.swap_remove(number)),
            }
        }
        let known: BTreeSet<SocketAddr> = self.numbered.iter().copied().collect();
        self.numbered.extend(wanted.difference(&known));
    }
}

impl ServiceRouter {
    /// All that the rules are to say now.
    pub fn elements(&self) -> RuleElements {
        let frontends = self.served.iter();
        let of_frontends = frontends.flat_map(|(frontend, served)| served.elements(*frontend));
        let hairpins = self.leading_to.keys().map(|address| RuleElement::Hairpin(*address));
        of_frontends.chain(hairpins).collect()
    }

    /// A Service is as given, or gone.
    pub fn set_service(&mut self, key: NamespacedName, service: Option<&Service>) -> RuleChanges {
        let routed = service.map(RoutedService::new).filter(|routed| !routed.frontends.is_empty());
        if self.services.get(&key) == routed.as_ref() {
            return RuleChanges::default();
        }
        let mut frontends = BTreeSet::new();
        for old in self.services.remove(&key).iter().flat_map(|routed| &routed.frontends) {
            let claims = self.claims.entry(old.frontend).or_default();
            claims.remove(&key);
            if claims.is_empty() {
                self.claims.remove(&old.frontend);
            }
            frontends.insert(old.frontend);
        }
        if let Some(routed) = routed {
            for new in &routed.frontends {
                self.claims.entry(new.frontend).or_default().insert(key.clone());
                frontends.insert(new.frontend);
            }
            self.services.insert(key, routed);
        }
        self.update(frontends)
    }

    /// An EndpointSlice is as given, or gone.
    pub fn set_slice(&mut self, key: NamespacedName, slice: Option<&EndpointSlice>) -> RuleChanges {
        let routed = slice.and_then(RoutedSlice::new);
        if self.slices.get(&key) == routed.as_ref() {
            return RuleChanges::default();
        }
        let mut services = BTreeSet::new();
        if let Some(old) = self.slices.remove(&key) {
            services.insert(old.service.clone());
            forget(&mut self.slices_of, &old.service, &key.name);
            for pod in old.endpoints.iter().filter_map(|endpoint| endpoint.pod.as_ref()) {
                self.look_at_pod_again(pod, &old.service);
            }
        }
        if let Some(new) = routed {
            services.insert(new.service.clone());
            self.slices_of.entry(new.service.clone()).or_default().insert(key.name.clone());
            for pod in new.endpoints.iter().filter_map(|endpoint| endpoint.pod.as_ref()) {
                let services = self.services_of_pod.entry(pod.clone()).or_default();
                services.insert(new.service.clone());
            }
            self.slices.insert(key, new);
        }
        self.update_services(services)
    }

    /// The Services are these, and no others.
    pub fn set_services(&mut self, listed: &BTreeMap<NamespacedName, Service>) -> RuleChanges {
        let known: BTreeSet<NamespacedName> = self.services.keys().cloned().collect();
        let keys = known.into_iter().chain(listed.keys().cloned());
        self.change_all(keys.collect(), |router, key| {
            let service = listed.get(&key);
            router.set_service(key, service);
        })
    }

    /// The slices are these, and no others.
    pub fn set_slices(&mut self, listed: &BTreeMap<NamespacedName, EndpointSlice>) -> RuleChanges {
        let known: BTreeSet<NamespacedName> = self.slices.keys().cloned().collect();
        let keys = known.into_iter().chain(listed.keys().cloned());
        self.change_all(keys.collect(), |router, key| {
            let slice = listed.get(&key);
            router.set_slice(key, slice);
        })
    }

    /// The node is about to end or restart the pod: no new connection goes there once the changes
    /// are made, whatever slices say. Holds until [`admit`](Self::admit).
    pub fn withdraw(&mut self, pod: &PodUid, cause: WithdrawalCause) -> RuleChanges {
        self.pod_is(pod, Some(PodRouting::Withdrawn(cause)))
    }

    /// The pod is ready at these addresses: from now on the slices decide about it again, as far as
    /// they know of them.
    pub fn admit(&mut self, pod: &PodUid, addresses: &[IpAddr]) -> RuleChanges {
        self.pod_is(pod, Some(PodRouting::Admitted(addresses.to_vec())))
    }

    /// The node has nothing more to say of the pod: it is gone.
    pub fn forget(&mut self, pod: &PodUid) -> RuleChanges {
        self.pod_is(pod, None)
    }

    fn pod_is(&mut self, pod: &PodUid, routing: Option<PodRouting>) -> RuleChanges {
        if self.pods.get(pod) == routing.as_ref() {
            return RuleChanges::default();
        }
        match routing {
            Some(routing) => drop(self.pods.insert(pod.clone(), routing)),
            None => drop(self.pods.remove(pod)),
        }
        self.update_services(self.services_of_pod.get(pod).cloned().unwrap_or_default())
    }

    /// Whether any Service leads to this address.
    fn leads_to(&self, address: IpAddr) -> bool {
        self.leading_to.contains_key(&address)
    }

    /// Many changes as one.
    fn change_all(
        &mut self,
        keys: BTreeSet<NamespacedName>,
        mut change: impl FnMut(&mut Self, NamespacedName),
    ) -> RuleChanges {
        let before = self.elements();
        for key in keys {
            change(self, key);
        }
        RuleChanges::between(&before, &self.elements())
    }

    fn update_services(&mut self, services: BTreeSet<NamespacedName>) -> RuleChanges {
        let routed = services.iter().filter_map(|key| self.services.get(key));
        let frontends = routed.flat_map(|routed| routed.frontends.iter().map(|f| f.frontend));
        let frontends = frontends.collect();
        self.update(frontends)
    }

    /// Finds out anew where these frontends lead.
    fn update(&mut self, frontends: BTreeSet<Frontend>) -> RuleChanges {
        let (mut before, mut after) = (RuleElements::new(), RuleElements::new());
        let mut touched = BTreeMap::new();
        for frontend in frontends {
            let old = self.served.remove(&frontend).unwrap_or_default();
            let (wanted, others) = self.wanted(frontend);
            let mut new = ServedFrontend { numbered: old.numbered.clone(), others };
            new.renumber(&wanted);
            before.extend(old.elements(frontend));
            after.extend(new.elements(frontend));
            for address in old.numbered.iter().chain(&new.numbered).map(SocketAddr::ip) {
                touched.entry(address).or_insert_with(|| self.leads_to(address));
            }
            self.count(&old.numbered, &new.numbered);
            if new != ServedFrontend::default() {
                self.served.insert(frontend, new);
            }
        }
        for (address, was_led_to) in touched {
            let hairpin = RuleElement::Hairpin(address);
            before.extend(was_led_to.then_some(hairpin));
            after.extend(self.leads_to(address).then_some(hairpin));
        }
        RuleChanges::between(&before, &after)
    }

    /// A frontend led to the old ones, and leads to the new ones.
    fn count(&mut self, old: &[SocketAddr], new: &[SocketAddr]) {
        for address in new.iter().map(SocketAddr::ip) {
            *self.leading_to.entry(address).or_default() += 1;
        }
        for address in old.iter().map(SocketAddr::ip) {
            if let Entry::Occupied(mut count) = self.leading_to.entry(address) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    /// Where a frontend is to lead: its endpoints, and its elements beside those.
    fn wanted(&self, frontend: Frontend) -> (BTreeSet<SocketAddr>, Vec<RuleElement>) {
        let owner = self.claims.get(&frontend).and_then(BTreeSet::first);
        let Some((key, service)) = owner.and_then(|key| self.services.get_key_value(key)) else {
            return Default::default();
        };
        let routed = service.frontends.iter().find(|routed| routed.frontend == frontend);
        let Some(routed) = routed else { return Default::default() };
        let found = self.endpoints_of(key, routed);
        let count = u16::try_from(found.usable.len()).ok().and_then(NonZeroU16::new);
        let Some(count) = count else {
            let refusal = match found.is_elsewhere {
                true => Refusal::Drop,
                false => Refusal::Reject,
            };
            return (BTreeSet::new(), vec![RuleElement::Refused(frontend, refusal)]);
        };
        let pick = EndpointPick { endpoints: count, sticky_s: service.sticky_s };
        let mut rest = vec![RuleElement::Pick(frontend, pick)];
        if service.sticky_s.is_some() {
            rest.extend(found.usable.iter().map(|e| RuleElement::Member(frontend, *e)));
        }
        (found.usable, rest)
    }

    fn endpoints_of(&self, service: &NamespacedName, routed: &RoutedFrontend) -> FoundEndpoints {
        let (mut ready, mut last_resort) = (BTreeSet::new(), BTreeSet::new());
        let mut is_elsewhere = false;
        for name in self.slices_of.get(service).into_iter().flatten() {
            let key = NamespacedName { namespace: service.namespace.clone(), name: name.clone() };
            let Some(slice) = self.slices.get(&key) else { continue };
            let port = slice.ports.iter().find(|port| {
                port.name == routed.port_name && port.protocol == routed.frontend.protocol
            });
            let Some(port) = port else { continue };
            for endpoint in &slice.endpoints {
                if endpoint.address.is_ipv4() != routed.frontend.address.is_ipv4() {
                    continue;
                }
                let address = SocketAddr::new(endpoint.address, port.number);
                let use_ = self.use_of(endpoint);
                let is_local = routed.policy == TrafficPolicy::Cluster || endpoint.is_on_node;
                match (use_, is_local) {
                    (EndpointUse::None, _) => {}
                    (EndpointUse::Ready | EndpointUse::LastResort, false) => is_elsewhere = true,
                    (EndpointUse::Ready, true) => drop(ready.insert(address)),
                    (EndpointUse::LastResort, true) => drop(last_resort.insert(address)),
                }
            }
        }
        let usable = if ready.is_empty() { last_resort } else { ready };
        FoundEndpoints { usable, is_elsewhere }
    }

    /// What a slice says of an endpoint, and the node, which knows more.
    fn use_of(&self, endpoint: &RoutedEndpoint) -> EndpointUse {
        let routing = endpoint.pod.as_ref().and_then(|pod| self.pods.get(pod));
        match (routing, endpoint.use_) {
            (None, use_) => use_,
            (Some(PodRouting::Admitted(addresses)), use_) => {
                match addresses.contains(&endpoint.address) {
                    true => use_,
                    false => EndpointUse::None,
                }
            }
            (Some(PodRouting::Withdrawn(WithdrawalCause::Restarting)), _)
            | (Some(PodRouting::Withdrawn(_)), EndpointUse::None) => EndpointUse::None,
            (
                Some(PodRouting::Withdrawn(WithdrawalCause::Terminating)),
                EndpointUse::Ready | EndpointUse::LastResort,
            ) => EndpointUse::LastResort,
        }
    }

    /// A slice of this Service no longer has the pod; another one may.
    fn look_at_pod_again(&mut self, pod: &PodUid, service: &NamespacedName) {
        let names = self.slices_of.get(service).into_iter().flatten();
        let mut slices = names.filter_map(|name| {
            let namespace = service.namespace.clone();
            self.slices.get(&NamespacedName { namespace, name: name.clone() })
        });
        if !slices.any(|slice| slice.endpoints.iter().any(|e| e.pod.as_ref() == Some(pod))) {
            forget(&mut self.services_of_pod, pod, service);
        }
    }
}

/// Where a frontend may lead.
struct FoundEndpoints {
    usable: BTreeSet<SocketAddr>,
    /// Whether there are some that the traffic policy leaves out, as another node has them.
    is_elsewhere: bool,
}

fn forget<K: Ord, V: Ord>(map: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(values) = map.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
