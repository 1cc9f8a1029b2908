//! The elements against examples, and against a model that reads the objects for each packet.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use proptest::sample::select;
use rekindle_services::TransportProtocol;
use serde_json::{Value, json};

use super::*;

/// The first packet of a connection. A protocol without ports has neither.
#[derive(Clone, Copy, Debug)]
struct Packet {
    from: IpAddr,
    to: IpAddr,
    port: Option<(TransportProtocol, u16)>,
}

/// Those of one pod, one of each family.
fn addresses(last: u8) -> [IpAddr; 2] {
    let second = Ipv6Addr::new(0xfd00, 0x88, 0, 0, 0, 0, 0, last.into());
    [Ipv4Addr::new(10, 88, 0, last).into(), second.into()]
}

/// What the kernel's rules make of the elements.
fn passes(elements: &PolicyElements, packet: Packet) -> bool {
    let peer_class = |peer: IpAddr| {
        elements.iter().find_map(|element| match *element {
            PolicyElement::Peer(address, class) if address == peer => Some(class),
            _ => None,
        })
    };
    let allows = |class: ClassNumber, peer: IpAddr| {
        let peer_class = peer_class(peer);
        elements.iter().any(|element| match *element {
            PolicyElement::AllowedPeer(own, other) => own == class && Some(other) == peer_class,
            PolicyElement::AllowedPeerPorts(own, other, protocol, ports) => {
                own == class
                    && Some(other) == peer_class
                    && packet.port.is_some_and(|(of, port)| of == protocol && ports.contains(port))
            }
            PolicyElement::AllowedBlock(own, block) => own == class && block.contains(peer),
            PolicyElement::AllowedBlockPorts(own, block, protocol, ports) => {
                own == class
                    && block.contains(peer)
                    && packet.port.is_some_and(|(of, port)| of == protocol && ports.contains(port))
            }
            PolicyElement::Ingress(..)
            | PolicyElement::Egress(..)
            | PolicyElement::Itself(_)
            | PolicyElement::Peer(..) => false,
        })
    };
    packet.from == packet.to && elements.contains(&PolicyElement::Itself(packet.to))
        || elements.iter().all(|element| match *element {
            PolicyElement::Ingress(pod, class) if pod == packet.to => allows(class, packet.from),
            PolicyElement::Egress(pod, class) if pod == packet.from => allows(class, packet.to),
            _ => true,
        })
}

/// The objects as they are.
#[derive(Clone, Debug, Default)]
struct Model {
    policies: BTreeMap<NamespacedName, NetworkPolicy>,
    namespaces: BTreeMap<String, Labels>,
    pods: BTreeMap<NamespacedName, Pod>,
}

impl Model {
    fn pod_at(&self, address: IpAddr) -> Option<(&NamespacedName, &Pod)> {
        self.pods.iter().find(|(_, pod)| {
            PeerPod::of_status(pod).is_some_and(|known| known.addresses.contains(&address))
        })
    }

    /// As the API reference says it, word by word.
    fn passes(&self, packet: Packet) -> bool {
        packet.from == packet.to
            || self.side_passes("Ingress", packet.to, packet.from, packet)
                && self.side_passes("Egress", packet.from, packet.to, packet)
    }

    fn side_passes(&self, side: &str, own: IpAddr, peer: IpAddr, packet: Packet) -> bool {
        let Some((name, pod)) = self.pod_at(own) else { return true };
        let labels = pod.metadata.labels.as_ref();
        let isolating: Vec<_> = self
            .policies
            .iter()
            .filter(|(policy, _)| policy.namespace == name.namespace)
            .filter_map(|(_, policy)| policy.spec.as_ref())
            .filter(|spec| match &spec.pod_selector {
                Some(selector) => rekindle_types::labels::matches(selector, labels),
                None => true,
            })
            .filter(|spec| match &spec.policy_types {
                Some(types) => types.iter().any(|listed| listed == side),
                None => side == "Ingress" || spec.egress.as_ref().is_some_and(|e| !e.is_empty()),
            })
            .collect();
        let rules = isolating.iter().flat_map(|spec| match side {
            "Ingress" => spec
                .ingress
                .iter()
                .flatten()
                .map(|rule| (rule.from.clone(), rule.ports.clone()))
                .collect::<Vec<_>>(),
            _ => spec
                .egress
                .iter()
                .flatten()
                .map(|rule| (rule.to.clone(), rule.ports.clone()))
                .collect(),
        });
        let rules: Vec<_> = rules.collect();
        isolating.is_empty()
            || rules.into_iter().any(|(peers, ports)| {
                let peers = peers.unwrap_or_default();
                let ports = ports.unwrap_or_default();
                let of_peer =
                    |listed: &NetworkPolicyPeer| self.is_peer(&name.namespace, listed, peer);
                (peers.is_empty() || peers.iter().any(of_peer))
                    && (ports.is_empty() || ports.iter().any(|port| self.is_port(port, packet)))
            })
    }

    fn is_peer(&self, namespace: &str, listed: &NetworkPolicyPeer, peer: IpAddr) -> bool {
        if let Some(block) = &listed.ip_block {
            let within = |cidr: &str| {
                let (network, prefix) = cidr.split_once('/').unwrap();
                let prefix: u32 = prefix.parse().unwrap();
                match (network.parse().unwrap(), peer) {
                    (IpAddr::V4(network), IpAddr::V4(peer)) => {
                        let [network, peer] = [network, peer].map(|it| u64::from(it.to_bits()));
                        network >> (32 - prefix) == peer >> (32 - prefix)
                    }
                    (IpAddr::V6(network), IpAddr::V6(peer)) => {
                        let shift = |it: Ipv6Addr| it.to_bits().checked_shr(128 - prefix);
                        shift(network) == shift(peer)
                    }
                    (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
                }
            };
            return within(&block.cidr)
                && !block.except.iter().flatten().any(|except| within(except));
        }
        let Some((name, pod)) = self.pod_at(peer) else { return false };
        let in_namespace = match &listed.namespace_selector {
            Some(selector) => {
                rekindle_types::labels::matches(selector, self.namespaces.get(&name.namespace))
            }
            None => name.namespace == namespace,
        };
        let selected = listed.pod_selector.as_ref().is_none_or(|selector| {
            rekindle_types::labels::matches(selector, pod.metadata.labels.as_ref())
        });
        in_namespace && selected
    }

    fn is_port(&self, listed: &NetworkPolicyPort, packet: Packet) -> bool {
        let Some((protocol, port)) = packet.port else { return false };
        if listed.protocol.as_deref().unwrap_or("TCP") != protocol.name() {
            return false;
        }
        match &listed.port {
            None => true,
            Some(IntOrString::Int(first)) => {
                (*first..=listed.end_port.unwrap_or(*first)).contains(&i32::from(port))
            }
            Some(IntOrString::String(name)) => self.pod_at(packet.to).is_some_and(|(_, pod)| {
                pod.spec.iter().flat_map(|spec| &spec.containers).any(|container| {
                    container.ports.iter().flatten().any(|named| {
                        named.name.as_ref() == Some(name)
                            && named.protocol.as_deref().unwrap_or("TCP") == protocol.name()
                            && named.container_port == i32::from(port)
                    })
                })
            }),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Policy(NamespacedName, Option<Box<NetworkPolicy>>),
    Namespace(String, Option<Labels>),
    Pod(NamespacedName, Option<Box<Pod>>),
}

fn labels() -> impl Strategy<Value = Value> {
    select(vec![json!({}), json!({"a": "1"}), json!({"a": "2"}), json!({"a": "1", "b": "1"})])
}

fn selector() -> impl Strategy<Value = Value> {
    prop_oneof![
        labels().prop_map(|labels| json!({ "matchLabels": labels })),
        select(vec![
            json!({}),
            json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["2"]}]}),
            json!({"matchExpressions": [{"key": "b", "operator": "Exists"}]}),
        ]),
    ]
}

fn peer() -> impl Strategy<Value = Value> {
    prop_oneof![
        selector().prop_map(|pods| json!({ "podSelector": pods })),
        selector().prop_map(|spaces| json!({ "namespaceSelector": spaces })),
        (selector(), selector())
            .prop_map(|(spaces, pods)| json!({ "namespaceSelector": spaces, "podSelector": pods })),
        select(vec![
            json!({"ipBlock": {"cidr": "0.0.0.0/0"}}),
            json!({"ipBlock": {"cidr": "10.88.0.0/24", "except": ["10.88.0.2/31", "10.88.0.5/32"]}}),
            json!({"ipBlock": {"cidr": "10.88.0.4/30"}}),
            json!({"ipBlock": {"cidr": "192.0.2.7/24", "except": ["192.0.2.0/24"]}}),
            json!({"ipBlock": {"cidr": "::/0"}}),
            json!({"ipBlock": {"cidr": "fd00:88::/120", "except": ["fd00:88::2/127"]}}),
            json!({"ipBlock": {"cidr": "fd00:88::4/126", "except": ["fd00:88::4/127"]}}),
            json!({"ipBlock": {"cidr": "::/0", "except": ["fd00::/8", "ff00::/8"]}}),
        ]),
    ]
}

/// With names only where the API reference says what they mean: at pods.
fn port(with_names: bool) -> impl Strategy<Value = Value> {
    let protocol = select(vec!["TCP", "UDP", "SCTP"]);
    let named = if with_names { vec![json!("web"), json!("dns")] } else { vec![json!(80)] };
    prop_oneof![
        protocol.clone().prop_map(|protocol| json!({ "protocol": protocol })),
        (protocol.clone(), select(vec![79, 80, 81, 65535]))
            .prop_map(|(protocol, port)| json!({ "protocol": protocol, "port": port })),
        (protocol.clone(), 78..82, 0..4).prop_map(|(protocol, port, more)| {
            json!({ "protocol": protocol, "port": port, "endPort": port + more })
        }),
        (protocol, select(named))
            .prop_map(|(protocol, name)| json!({ "protocol": protocol, "port": name })),
    ]
}

fn rule(direction: &'static str) -> impl Strategy<Value = Value> {
    prop::collection::vec(peer(), 0..3).prop_flat_map(move |peers| {
        let has_block = peers.iter().any(|peer| peer.get("ipBlock").is_some());
        prop::collection::vec(port(direction == "from" || !has_block), 0..3)
            .prop_map(move |ports| json!({ direction: peers.clone(), "ports": ports }))
    })
}

fn policy() -> impl Strategy<Value = NetworkPolicy> {
    let types = select(vec![
        None,
        Some(vec!["Ingress"]),
        Some(vec!["Egress"]),
        Some(vec!["Ingress", "Egress"]),
    ]);
    let ingress = prop::collection::vec(rule("from"), 0..3);
    let egress = prop::collection::vec(rule("to"), 0..3);
    (selector(), types, ingress, egress).prop_map(|(pods, types, ingress, egress)| {
        serde_json::from_value(json!({ "spec": {
            "podSelector": pods, "policyTypes": types, "ingress": ingress, "egress": egress } }))
        .unwrap()
    })
}

fn pod(last: u8) -> impl Strategy<Value = Pod> {
    let named = vec![
        json!([]),
        json!([{ "name": "web", "containerPort": 80 }]),
        json!([{ "name": "web", "containerPort": 81 }, { "name": "dns", "protocol": "UDP", "containerPort": 79 }]),
    ];
    let phase = select(vec!["Pending", "Running", "Running", "Succeeded"]);
    (labels(), select(named), phase, any::<u8>()).prop_map(move |(labels, ports, phase, host)| {
        serde_json::from_value(json!({
            "metadata": { "labels": labels },
            "spec": { "hostNetwork": host < 32, "containers": [{ "name": "c", "ports": ports }] },
            "status": { "phase": phase, "podIP": addresses(last)[0].to_string(),
                "podIPs": addresses(last).map(|address| json!({ "ip": address })) },
        }))
        .unwrap()
    })
}

fn name() -> impl Strategy<Value = NamespacedName> {
    (select(vec!["x", "y"]), select(vec!["p", "q", "r"]))
        .prop_map(|(namespace, name)| NamespacedName::new(namespace, name))
}

/// A pod's address follows from its name, so that the model needs no order of claims.
fn address_of(name: &NamespacedName) -> u8 {
    let namespace = if name.namespace == "x" { 1 } else { 4 };
    namespace
        + match name.name.as_str() {
            "p" => 0,
            "q" => 1,
            _ => 2,
        }
}

fn step() -> impl Strategy<Value = Step> {
    let labels = labels().prop_map(|labels| serde_json::from_value(labels).unwrap());
    prop_oneof![
        (name(), prop::option::weighted(0.8, policy()))
            .prop_map(|(name, policy)| Step::Policy(name, policy.map(Box::new))),
        (select(vec!["x", "y"]), prop::option::weighted(0.8, labels))
            .prop_map(|(name, labels)| Step::Namespace(name.to_owned(), labels)),
        name().prop_flat_map(|name| {
            let pod = prop::option::weighted(0.8, pod(address_of(&name)));
            pod.prop_map(move |pod| Step::Pod(name.clone(), pod.map(Box::new)))
        }),
    ]
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

fn take(policies: &mut NetworkPolicies, model: &mut Model, step: Step) -> PolicyChanges {
    match step {
        Step::Policy(name, policy) => {
            let changes = policies.set_policy(name.clone(), policy.as_deref());
            put(&mut model.policies, name, policy.map(|policy| *policy));
            changes
        }
        Step::Namespace(name, labels) => {
            let changes = policies.set_namespace(&name, labels.as_ref());
            put(&mut model.namespaces, name, labels);
            changes
        }
        Step::Pod(name, pod) => {
            let changes = policies.set_pod(&name, pod.as_deref().and_then(PeerPod::of_status));
            put(&mut model.pods, name, pod.map(|pod| *pod));
            changes
        }
    }
}

fn packets() -> impl Iterator<Item = Packet> {
    let outside = [Ipv4Addr::new(192, 0, 2, 9).into(), Ipv6Addr::LOCALHOST.into()];
    let ends = move |family: usize| {
        (1..8).map(move |last| addresses(last)[family]).chain([outside[family]])
    };
    let ports = || {
        let numbers = || [78, 79, 80, 81, 82, 65535];
        let of = move |protocol| numbers().map(move |port| Some((protocol, port)));
        TransportProtocol::ALL.into_iter().flat_map(of).chain([None])
    };
    let of_family = move |family| {
        ends(family).flat_map(move |from| {
            ends(family).flat_map(move |to| ports().map(move |port| Packet { from, to, port }))
        })
    };
    (0..2).flat_map(of_family)
}

/// Elements that the kernel would refuse, because two of one set overlap.
fn overlap(elements: &PolicyElements) -> bool {
    let blocks: Vec<_> = elements
        .iter()
        .filter_map(|element| match *element {
            PolicyElement::AllowedBlock(class, block) => Some((class, None, block, PortRange::ALL)),
            PolicyElement::AllowedBlockPorts(class, block, protocol, ports) => {
                Some((class, Some(protocol), block, ports))
            }
            PolicyElement::AllowedPeerPorts(..)
            | PolicyElement::AllowedPeer(..)
            | PolicyElement::Ingress(..)
            | PolicyElement::Egress(..)
            | PolicyElement::Itself(_)
            | PolicyElement::Peer(..) => None,
        })
        .collect();
    blocks.iter().enumerate().any(|(index, (class, protocol, block, ports))| {
        blocks[index + 1..].iter().any(|other| {
            (class, protocol) == (&other.0, &other.1)
                && block.first <= other.2.last
                && other.2.first <= block.last
                && ports.first <= other.3.last
                && other.3.first <= ports.last
        })
    })
}

use crate::range::PortRange;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn elements_let_through_what_the_objects_say(steps in prop::collection::vec(step(), 1..24)) {
        let (mut policies, mut model) = (NetworkPolicies::new(IpStack::Dual), Model::default());
        let mut elements = PolicyElements::new();
        for step in steps {
            let changes = take(&mut policies, &mut model, step);
            for element in &changes.removed {
                prop_assert!(elements.remove(element), "{element:?} is not there");
            }
            for element in &changes.added {
                prop_assert!(elements.insert(*element), "{element:?} is there");
            }
            prop_assert_eq!(&elements, &policies.elements());
            prop_assert!(!overlap(&elements), "{:?}", elements);
        }
        for packet in packets() {
            prop_assert_eq!(passes(&elements, packet), model.passes(packet), "{:?} {:?}", packet, elements);
        }
    }
}

fn read<T: for<'a> serde::Deserialize<'a>>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn web_pod(last: u8) -> Pod {
    read(json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [] },
        "status": { "podIP": addresses(last)[0].to_string() } }))
}

fn deny_all() -> NetworkPolicy {
    read(json!({ "spec": { "podSelector": {}, "policyTypes": ["Ingress", "Egress"] } }))
}

#[test]
fn a_pod_of_a_known_class_is_an_element_for_each_of_its_classes() {
    let mut policies = NetworkPolicies::default();
    for number in 0..1000 {
        let policy: NetworkPolicy = read(json!({ "spec": {
            "podSelector": { "matchLabels": { "app": "web" } },
            "ingress": [{ "from": [{ "podSelector": { "matchLabels": { "app": "web" } } }],
                "ports": [{ "port": 1000 + number, "endPort": 2000 }] }] } }));
        policies.set_policy(NamespacedName::new("x", number.to_string()), Some(&policy));
    }
    policies.set_pod(&NamespacedName::new("x", "a"), PeerPod::of_status(&web_pod(2)));
    let name = NamespacedName::new("x", "b");
    let came = policies.set_pod(&name, PeerPod::of_status(&web_pod(3)));
    assert_eq!((came.added.len(), came.removed.len()), (3, 0));
    let went = policies.set_pod(&name, None);
    assert_eq!((went.added.len(), went.removed), (0, came.added));
}

#[test]
fn an_engine_without_ipv6_has_no_elements_of_it() {
    let mut policies = NetworkPolicies::default();
    let policy: NetworkPolicy = read(json!({ "spec": { "podSelector": {}, "ingress": [
        {}, { "from": [{ "ipBlock": { "cidr": "2001:db8::/32" } }] }] } }));
    policies.set_policy(NamespacedName::new("x", "open"), Some(&policy));
    let pod: Pod = read(json!({ "spec": { "containers": [] }, "status": {
        "podIPs": addresses(2).map(|address| json!({ "ip": address })) } }));
    policies.set_pod(&NamespacedName::new("x", "a"), PeerPod::of_status(&pod));
    let elements = policies.elements();
    let shown = format!("{elements:?}");
    assert!(!elements.is_empty() && !shown.contains("::"), "{shown}");
}

#[test]
fn an_address_is_of_the_pod_that_had_it_last() {
    let mut policies = NetworkPolicies::default();
    policies.set_policy(NamespacedName::new("x", "deny"), Some(&deny_all()));
    let (isolated, open) = (NamespacedName::new("x", "a"), NamespacedName::new("y", "b"));
    policies.set_pod(&isolated, PeerPod::of_status(&web_pod(2)));
    let is_isolated = |policies: &NetworkPolicies| {
        let isolated = |element: &PolicyElement| matches!(element, PolicyElement::Ingress(..));
        policies.elements().iter().any(isolated)
    };
    assert!(is_isolated(&policies));
    policies.set_pod(&open, PeerPod::of_status(&web_pod(2)));
    assert!(!is_isolated(&policies));
    policies.set_pod(&open, None);
    assert!(is_isolated(&policies));
    policies.set_pod(&isolated, None);
    assert_eq!(policies.elements(), PolicyElements::new());
}

#[test]
fn a_list_of_all_leads_to_the_same_as_its_objects_one_by_one() {
    let names = ["a", "b"].map(|name| NamespacedName::new("x", name));
    let pods = || names.iter().zip(2..).map(|(name, last)| (name.clone(), web_pod(last)));
    let (mut listed, mut single) = (NetworkPolicies::default(), NetworkPolicies::default());
    listed.set_pods(
        pods().filter_map(|(name, pod)| Some((name, PeerPod::of_status(&pod)?))).collect(),
    );
    listed.set_policies(&[(NamespacedName::new("x", "deny"), deny_all())].into());
    listed.set_namespaces(&[("x".to_owned(), Labels::new())].into());
    single.set_namespace("x", Some(&Labels::new()));
    single.set_policy(NamespacedName::new("x", "deny"), Some(&deny_all()));
    for (name, pod) in pods() {
        single.set_pod(&name, PeerPod::of_status(&pod));
    }
    assert_eq!(listed.elements().len(), single.elements().len());
    assert!(!listed.elements().is_empty());
    listed.set_policies(&BTreeMap::new());
    listed.set_pods(BTreeMap::new());
    assert_eq!(listed.elements(), PolicyElements::new());
}
