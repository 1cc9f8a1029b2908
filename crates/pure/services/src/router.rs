//! Joins Services, slices and what the node knows of its pods to the elements of the rules.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use rekindle_types::{IpFamily, IpStack, NamespacedName, PodUid, TickDuration};
use serde::{Deserialize, Serialize};

use self::left_out::LeftOutElements;
use self::served_frontend::{Route, ServedFrontend};
use crate::frontend::{ClientView, Clients, Frontend, TransportProtocol};
use crate::routed::{
    FrontendOrigin, RoutedFrontend, RoutedNode, RoutedService, RoutedSlice, SourceGuard,
};
use crate::rules::{RuleChanges, RuleElement, RuleElements};
use crate::source_range::SourceRange;

mod endpoints;
mod health_checks;
mod host_ports;
mod left_out;
mod served_frontend;

pub use self::health_checks::HealthCheck;
pub use self::host_ports::{ContestedPort, host_ports_in};

/// Why the node takes a pod out of the rules before the slices say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WithdrawalCause {
    /// Its pod ends. As long as it serves, it is the last resort of a Service without another.
    Terminating,
    /// Its containers are restarted in place: nothing answers there for a while.
    Restarting,
    /// A container of it has ended by itself, and is started again.
    ContainerDown,
    /// It is not ready.
    Unready,
}

impl WithdrawalCause {
    /// Whether the pod is back soon: new connections may wait for that.
    const fn is_restart(self) -> bool {
        match self {
            Self::Restarting | Self::ContainerDown => true,
            Self::Terminating | Self::Unready => false,
        }
    }
}

/// Where the packets of all Services go.
///
/// Each call answers what changes in the rules; the caller puts these changes into the kernel in
/// the order of the calls.
#[derive(Clone, Debug, Default)]
pub struct ServiceRouter {
    stack: IpStack,
    services: BTreeMap<NamespacedName, RoutedService>,
    slices: BTreeMap<NamespacedName, RoutedSlice>,
    /// The engine's nodes, by name.
    nodes: BTreeMap<String, RoutedNode>,
    /// Where the pods of each are. If ranges of nodes meet, the first one by name has its own.
    node_of: BTreeMap<SourceRange, String>,
    /// Names of slices, by their Service.
    slices_of: BTreeMap<NamespacedName, BTreeSet<String>>,
    /// Services with an endpoint that is this pod.
    services_of_pod: BTreeMap<PodUid, BTreeSet<NamespacedName>>,
    /// What the node has said of its pods.
    pods: BTreeMap<PodUid, PodRouting>,
    /// Which Services want a frontend. The first one has it.
    claims: BTreeMap<Frontend, BTreeSet<NamespacedName>>,
    served: BTreeMap<Frontend, ServedFrontend>,
    /// Ports that Services want opened on the machine, by how many want each.
    wanted_ports: BTreeMap<Frontend, usize>,
    /// Those that are open: no other process has them.
    open_ports: BTreeSet<Frontend>,
    /// Services with a health check port.
    checked: BTreeSet<NamespacedName>,
    /// How often frontends lead to an address.
    leading_to: BTreeMap<IpAddr, usize>,
    /// Ports of the machine that lead to one pod each. No Service has them.
    host_ports: BTreeMap<Frontend, SocketAddr>,
    /// What the kernel has refused.
    left_out: LeftOutElements,
}

/// What a Service is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceIdentity {
    /// Its namespace and name.
    pub name: NamespacedName,
    /// Its UID.
    pub uid: String,
}

/// What the node says of a pod, which it knows before the slices do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PodRouting {
    Withdrawn(WithdrawalCause),
    /// It is ready at these addresses. A slice that says something else is behind, if it follows
    /// pods.
    Admitted(Vec<IpAddr>),
    /// It is no more. Until no slice has it: they are behind.
    Gone,
}

impl ServiceRouter {
    /// One that knows nothing yet, for pods with addresses of these families.
    pub fn new(stack: IpStack) -> Self {
        Self { stack, ..Self::default() }
    }

    /// All that the rules are to say now.
    pub fn elements(&self) -> RuleElements {
        let frontends = self.served.iter();
        let of_frontends = frontends.flat_map(|(frontend, served)| served.elements(*frontend));
        let addresses = self.leading_to.keys().filter(|address| self.has_hairpin(**address));
        of_frontends.chain(addresses.map(|address| RuleElement::Hairpin(*address))).collect()
    }

    /// A Service is as given, or gone.
    pub fn set_service(&mut self, key: NamespacedName, service: Option<&Service>) -> RuleChanges {
        let routed = service.and_then(|service| RoutedService::new(service, self.stack));
        if self.services.get(&key) == routed.as_ref() {
            return RuleChanges::default();
        }
        match routed.as_ref().and_then(|routed| routed.health_port) {
            Some(_) => drop(self.checked.insert(key.clone())),
            None => drop(self.checked.remove(&key)),
        }
        let mut frontends = BTreeSet::new();
        for old in self.services.remove(&key).iter().flat_map(|routed| &routed.frontends) {
            let claims = self.claims.entry(old.frontend).or_default();
            claims.remove(&key);
            if claims.is_empty() {
                self.claims.remove(&old.frontend);
            }
            frontends.insert(old.frontend);
            if old.origin.needs_opening() {
                decrement(&mut self.wanted_ports, &old.frontend);
            }
        }
        if let Some(routed) = routed {
            for new in &routed.frontends {
                if new.origin.needs_opening() {
                    *self.wanted_ports.entry(new.frontend).or_default() += 1;
                }
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
        let old = self.slices.remove(&key);
        if let Some(old) = &old {
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
        for pod in old.iter().flat_map(|old| &old.endpoints).filter_map(|e| e.pod.as_ref()) {
            if self.pods.get(pod) == Some(&PodRouting::Gone)
                && !self.services_of_pod.contains_key(pod)
            {
                self.pods.remove(pod);
            }
        }
        self.update_services(services)
    }

    /// A node is as given, or gone. Nodes have no namespace.
    pub fn set_node(&mut self, key: NamespacedName, node: Option<&Node>) -> RuleChanges {
        let routed = node.map(RoutedNode::new);
        if self.nodes.get(&key.name) == routed.as_ref() {
            return RuleChanges::default();
        }
        match routed {
            Some(routed) => drop(self.nodes.insert(key.name, routed)),
            None => drop(self.nodes.remove(&key.name)),
        }
        self.node_of.clear();
        for (name, node) in &self.nodes {
            for range in &node.pods {
                if !self.node_of.keys().any(|taken| taken.overlaps(range)) {
                    self.node_of.insert(*range, name.clone());
                }
            }
        }
        self.update_services(self.services.keys().cloned().collect())
    }

    /// The nodes are these, and no others.
    pub fn set_nodes(&mut self, listed: &BTreeMap<NamespacedName, Node>) -> RuleChanges {
        let known = self.nodes.keys().map(|name| NamespacedName::new("", name.as_str()));
        let keys = known.chain(listed.keys().cloned());
        self.change_all(keys.collect(), |router, key| {
            let node = listed.get(&key);
            router.set_node(key, node);
        })
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
    /// are made, whatever slices say. Holds until [`admit`](Self::admit) or
    /// [`leave_to_slices`](Self::leave_to_slices).
    pub fn withdraw(&mut self, pod: &PodUid, cause: WithdrawalCause) -> RuleChanges {
        self.pod_is(pod, Some(PodRouting::Withdrawn(cause)))
    }

    /// The pod is ready at these addresses: new connections go there, to the Services whose slices
    /// have the pod.
    pub fn admit(&mut self, pod: &PodUid, addresses: &[IpAddr]) -> RuleChanges {
        self.pod_is(pod, Some(PodRouting::Admitted(addresses.to_vec())))
    }

    /// The node has nothing more to say of the pod: slices decide.
    pub fn leave_to_slices(&mut self, pod: &PodUid) -> RuleChanges {
        self.pod_is(pod, None)
    }

    /// The pod is gone from its node: nothing goes there, whatever slices still say.
    pub fn gone(&mut self, pod: &PodUid) -> RuleChanges {
        let is_in_slices = self.services_of_pod.contains_key(pod);
        self.pod_is(pod, is_in_slices.then_some(PodRouting::Gone))
    }

    /// The ports that Services want opened on the machine, without those that pods have. They lead
    /// nowhere before [`port_opened`](Self::port_opened).
    pub fn wanted_ports(&self) -> impl Iterator<Item = Frontend> + '_ {
        self.wanted_ports.keys().copied().filter(|port| !self.is_pods(*port))
    }

    /// The ports of Services at all addresses of the node that are not opened on the machine: node
    /// ports.
    pub fn node_ports(&self) -> impl Iterator<Item = Frontend> + '_ {
        let of_family = |family: IpFamily| {
            let (address, protocol) = (family.unspecified(), TransportProtocol::ALL[0]);
            let first = Frontend { address, protocol, port: 0 };
            // they come first among the addresses of their family
            self.claims.range(first..).take_while(move |(port, _)| port.address == address)
        };
        let claims = IpFamily::ALL.into_iter().flat_map(of_family);
        let ports = claims.map(|(port, _)| *port);
        ports.filter(|port| !self.wanted_ports.contains_key(port) && !self.is_pods(*port))
    }

    /// The Service that a frontend leads to, or would lead to.
    pub fn service_of(&self, frontend: Frontend) -> Option<ServiceIdentity> {
        let (name, service) = self.owner(frontend)?;
        Some(ServiceIdentity { name: name.clone(), uid: service.uid.clone() })
    }

    /// A port of the machine is open: no other process can have it now.
    pub fn port_opened(&mut self, frontend: Frontend) -> RuleChanges {
        match self.open_ports.insert(frontend) {
            true => self.update([frontend].into()),
            false => RuleChanges::default(),
        }
    }

    /// It is open no more.
    pub fn port_closed(&mut self, frontend: Frontend) -> RuleChanges {
        match self.open_ports.remove(&frontend) {
            true => self.update([frontend].into()),
            false => RuleChanges::default(),
        }
    }

    /// For how long new connections of these clients wait from the moment on when they begin to;
    /// `None` if they do not wait now. Then [`end_hold`](Self::end_hold).
    pub fn hold(&self, view: impl Into<ClientView>) -> Option<TickDuration> {
        let ClientView { frontend, clients } = view.into();
        self.served.get(&frontend)?.route(clients).filter(|route| route.holds())?;
        let (_, service) = self.owner(frontend)?;
        Some(service.hold.time())
    }

    /// Whether a new connection from this client waits.
    pub fn waits(&self, frontend: Frontend, client: IpAddr) -> bool {
        let served = self.served.get(&frontend).into_iter();
        let mut ranges = served.flat_map(|served| served.by_client.keys());
        let range = ranges.find(|range| range.contains(client));
        let clients = range.map_or(Clients::All, |range| Clients::Within(*range));
        self.hold(ClientView { frontend, clients }).is_some()
    }

    /// New connections of these clients have waited long enough.
    pub fn end_hold(&mut self, view: impl Into<ClientView>) -> RuleChanges {
        let view = view.into();
        let (ClientView { frontend, clients }, held) = (view, RuleElement::Held(view));
        let route = self.served.get_mut(&frontend).and_then(|served| served.route_mut(clients));
        let Some(route) = route else { return RuleChanges::default() };
        let ended: Vec<_> = route.others.extract_if(.., |element| *element == held).collect();
        let mut changes = self.update([frontend].into());
        changes.removed.extend(ended);
        changes
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

    /// Whether the rules have a hairpin of this address: some frontend leads there.
    fn has_hairpin(&self, address: IpAddr) -> bool {
        self.leading_to.contains_key(&address) && !self.left_out.has_hairpin(address)
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
            let new = self.serve(frontend, &old);
            let new = self.left_out.pass(frontend, new);
            before.extend(old.elements(frontend));
            after.extend(new.elements(frontend));
            for address in old.addresses().chain(new.addresses()) {
                touched.entry(address).or_insert_with(|| self.has_hairpin(address));
            }
            self.count(&old, &new);
            if new != ServedFrontend::default() {
                self.served.insert(frontend, new);
            }
        }
        for (address, had_hairpin) in touched {
            let hairpin = RuleElement::Hairpin(address);
            if !self.leading_to.contains_key(&address) {
                self.left_out.forget_hairpin(address);
            }
            before.extend(had_hairpin.then_some(hairpin));
            after.extend(self.has_hairpin(address).then_some(hairpin));
        }
        RuleChanges::between(&before, &after)
    }

    /// A frontend was served so, and is now served otherwise.
    fn count(&mut self, old: &ServedFrontend, new: &ServedFrontend) {
        for address in new.addresses() {
            *self.leading_to.entry(address).or_default() += 1;
        }
        for address in old.addresses() {
            decrement(&mut self.leading_to, &address);
        }
    }

    /// The Service that has a frontend, of all that want it.
    fn owner(&self, frontend: Frontend) -> Option<(&NamespacedName, &RoutedService)> {
        let owner = self.claims.get(&frontend)?.first()?;
        self.services.get_key_value(owner)
    }

    /// Where a frontend is to lead from now on.
    fn serve(&self, frontend: Frontend, old: &ServedFrontend) -> ServedFrontend {
        if let Some(endpoint) = self.host_ports.get(&frontend) {
            return ServedFrontend::of_host_port(frontend, *endpoint);
        }
        if self.is_pods(frontend) {
            return ServedFrontend::default();
        }
        let Some((key, service)) = self.owner(frontend) else { return ServedFrontend::default() };
        let routed = service.frontends.iter().find(|routed| routed.frontend == frontend);
        let Some(routed) = routed else { return ServedFrontend::default() };
        if routed.origin.needs_opening() && !self.open_ports.contains(&frontend) {
            return ServedFrontend::default();
        }
        let mut served = self.lead(frontend, (key, service), routed, old);
        if routed.guard == SourceGuard::Sources {
            let sources = service.sources.iter();
            let sources = sources.filter(|range| range.family() == frontend.family());
            let sources = sources.map(|range| RuleElement::Source(frontend, *range));
            served.everyone.others.push(RuleElement::Guarded(frontend));
            served.everyone.others.extend(sources);
        }
        served
    }

    /// To which endpoints it leads, or what becomes of its connections.
    fn lead(
        &self,
        frontend: Frontend,
        (key, service): (&NamespacedName, &RoutedService),
        routed: &RoutedFrontend,
        old: &ServedFrontend,
    ) -> ServedFrontend {
        let known = self.endpoints_of((key, service), routed);
        let found = known.for_all();
        let everyone = Route::new(frontend.into(), service, found.clone(), &old.everyone);
        let mut served = ServedFrontend { everyone, by_client: BTreeMap::new() };
        if routed.origin != FrontendOrigin::ClusterIp || served.everyone.numbered.is_empty() {
            return served;
        }
        let usable = found.usable(false);
        for (range, name) in self.node_of.iter().filter(|(it, _)| it.family() == frontend.family())
        {
            let near = self.nodes.get(name).and_then(|node| known.for_node(name, node));
            let Some(near) = near.filter(|near| near.clone().usable(false) != usable) else {
                continue;
            };
            let view = ClientView { frontend, clients: Clients::Within(*range) };
            let old = old.by_client.get(range).unwrap_or(&old.everyone);
            served.by_client.insert(*range, Route::new(view, service, near, old));
        }
        served
    }
}

fn decrement<K: Ord + Clone>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Entry::Occupied(mut count) = counts.entry(key.clone()) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
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
