//! A NetworkPolicy, read: which pods it isolates, and what its rules allow.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_services::TransportProtocol;
use rekindle_types::IpStack;
use rekindle_types::labels::{self, Labels};

use crate::peer_pod::NamedPort;
use crate::range::{AddressRange, PortRange};

/// A selector of labels that has an order: two with the same text are one.
#[derive(Clone, Debug)]
pub(crate) struct LabelQuery {
    selector: LabelSelector,
    text: String,
}

impl LabelQuery {
    pub(crate) fn new(selector: LabelSelector) -> Self {
        Self { text: format!("{selector:?}"), selector }
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        labels::matches(&self.selector, Some(labels))
    }
}

impl PartialEq for LabelQuery {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for LabelQuery {}

impl PartialOrd for LabelQuery {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LabelQuery {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

/// In which namespaces pods are selected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerNamespaces {
    /// In the policy's own.
    Own(String),
    /// In those with such labels.
    Labelled(LabelQuery),
}

/// Which pods a rule selects as peers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PeerSelector {
    pub(crate) namespaces: PeerNamespaces,
    pub(crate) pods: LabelQuery,
}

impl PeerSelector {
    /// Every pod of every namespace.
    fn all() -> Self {
        let all = || LabelQuery::new(LabelSelector::default());
        Self { namespaces: PeerNamespaces::Labelled(all()), pods: all() }
    }
}

/// Which ports of the destination a rule allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AllowedPorts {
    /// All, of every protocol, also those that have no ports.
    All,
    Some {
        numbers: BTreeSet<(TransportProtocol, PortRange)>,
        names: BTreeSet<NamedPort>,
    },
}

/// One rule, whichever way it goes. What a rule says nothing of, it allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PolicyRule {
    pub(crate) selectors: BTreeSet<PeerSelector>,
    pub(crate) blocks: BTreeSet<AddressRange>,
    pub(crate) ports: AllowedPorts,
}

/// Which way a connection goes, as the isolated pod sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PolicyDirection {
    Ingress,
    Egress,
}

impl PolicyDirection {
    pub(crate) const ALL: [Self; 2] = [Self::Ingress, Self::Egress];
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct ReadPolicy {
    pub(crate) pods: LabelQuery,
    /// For each way in which it isolates: what it allows all the same.
    pub(crate) ingress: Option<Vec<PolicyRule>>,
    pub(crate) egress: Option<Vec<PolicyRule>>,
}

impl ReadPolicy {
    pub(crate) fn new(namespace: &str, policy: &NetworkPolicy, stack: IpStack) -> Self {
        let none = NetworkPolicySpec::default();
        let spec = policy.spec.as_ref().unwrap_or(&none);
        let rule = |direction, (peers, ports): RuleFields<'_>| {
            PolicyRule::new(direction, namespace, (items(peers), items(ports)), stack)
        };
        let ingress = items(spec.ingress.as_ref()).iter();
        let ingress = ingress.map(|asked| (asked.from.as_ref(), asked.ports.as_ref()));
        let egress = items(spec.egress.as_ref()).iter();
        let egress = egress.map(|asked| (asked.to.as_ref(), asked.ports.as_ref()));
        let isolates = |direction| isolates(spec, direction);
        let (inward, outward) = (PolicyDirection::Ingress, PolicyDirection::Egress);
        Self {
            pods: LabelQuery::new(spec.pod_selector.clone().unwrap_or_default()),
            ingress: isolates(inward).then(|| ingress.map(|fields| rule(inward, fields)).collect()),
            egress: isolates(outward).then(|| egress.map(|fields| rule(outward, fields)).collect()),
        }
    }

    pub(crate) fn rules(&self, direction: PolicyDirection) -> Option<&[PolicyRule]> {
        match direction {
            PolicyDirection::Ingress => self.ingress.as_deref(),
            PolicyDirection::Egress => self.egress.as_deref(),
        }
    }
}

type RuleFields<'a> = (Option<&'a Vec<NetworkPolicyPeer>>, Option<&'a Vec<NetworkPolicyPort>>);

fn items<T>(list: Option<&Vec<T>>) -> &[T] {
    list.map_or(&[], Vec::as_slice)
}

/// As `policyTypes` says, or as its default would.
fn isolates(spec: &NetworkPolicySpec, direction: PolicyDirection) -> bool {
    let types = items(spec.policy_types.as_ref());
    let name = match direction {
        PolicyDirection::Ingress => "Ingress",
        PolicyDirection::Egress => "Egress",
    };
    match (types, direction) {
        ([], PolicyDirection::Ingress) => true,
        ([], PolicyDirection::Egress) => !items(spec.egress.as_ref()).is_empty(),
        (types, _) => types.iter().any(|listed| listed == name),
    }
}

impl PolicyRule {
    fn new(
        direction: PolicyDirection,
        namespace: &str,
        (peers, ports): (&[NetworkPolicyPeer], &[NetworkPolicyPort]),
        stack: IpStack,
    ) -> Self {
        let ports = AllowedPorts::new(ports);
        let (mut selectors, mut blocks) = (BTreeSet::new(), BTreeSet::new());
        for peer in peers {
            match &peer.ip_block {
                Some(block) => {
                    let except: Vec<AddressRange> = items(block.except.as_ref())
                        .iter()
                        .filter_map(|cidr| AddressRange::parse(cidr))
                        .collect();
                    let block = AddressRange::parse(&block.cidr);
                    let block = block.filter(|block| stack.has(block.family()));
                    blocks.extend(block.into_iter().flat_map(|block| block.without(&except)));
                }
                None => {
                    selectors.extend(peer_selector(namespace, peer));
                }
            }
        }
        if peers.is_empty() {
            blocks.extend(stack.families().iter().copied().map(AddressRange::all));
            if direction == PolicyDirection::Egress && ports.has_names() {
                // names are the destination's, so the destination must be known as a pod
                selectors.insert(PeerSelector::all());
            }
        }
        Self { selectors, blocks, ports }
    }
}

/// None: it says nothing at all, which the API refuses.
fn peer_selector(namespace: &str, peer: &NetworkPolicyPeer) -> Option<PeerSelector> {
    let namespaces = match (&peer.namespace_selector, &peer.pod_selector) {
        (None, None) => return None,
        (None, Some(_)) => PeerNamespaces::Own(namespace.to_owned()),
        (Some(namespaces), _) => PeerNamespaces::Labelled(LabelQuery::new(namespaces.clone())),
    };
    let pods = LabelQuery::new(peer.pod_selector.clone().unwrap_or_default());
    Some(PeerSelector { namespaces, pods })
}

impl AllowedPorts {
    fn new(ports: &[NetworkPolicyPort]) -> Self {
        if ports.is_empty() {
            return Self::All;
        }
        let (mut numbers, mut names) = (BTreeSet::new(), BTreeSet::new());
        for port in ports {
            let Some(protocol) = TransportProtocol::parse(port.protocol.as_deref()) else {
                continue;
            };
            match &port.port {
                None => {
                    numbers.insert((protocol, PortRange::ALL));
                }
                Some(IntOrString::Int(first)) => {
                    let last = port.end_port.unwrap_or(*first);
                    if let (Ok(first), Ok(last)) = (u16::try_from(*first), u16::try_from(last)) {
                        numbers.insert((protocol, PortRange { first, last: last.max(first) }));
                    }
                }
                Some(IntOrString::String(name)) => {
                    names.insert((protocol, name.clone()));
                }
            }
        }
        Self::Some { numbers, names }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &NamedPort> {
        let names = match self {
            Self::All => None,
            Self::Some { names, .. } => Some(names),
        };
        names.into_iter().flatten()
    }

    fn has_names(&self) -> bool {
        self.names().next().is_some()
    }
}
