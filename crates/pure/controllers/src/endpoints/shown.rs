//! What an endpoint of a slice is to show of a pod. It is compared with what stands before it is
//! made: of a hundred endpoints one changes at a time, and each is a dozen texts.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, ForNode, ForZone,
};
use rekindle_types::held::HeldPod;

use super::wanted;

/// What is shown of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodEndpoint<'a> {
    pub(super) pod: &'a Arc<HeldPod>,
    pub(super) address: &'a str,
    pub(super) ready: bool,
    pub(super) serving: bool,
    pub(super) terminating: bool,
    pub(super) hostname: Option<&'a str>,
    pub(super) node: Option<&'a str>,
    pub(super) zone: Option<&'a str>,
    pub(super) nearness: Option<Nearness>,
}

/// Which clients an endpoint is rather for than for others (`trafficDistribution`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearness {
    Zone,
    /// Those of its node; where a node has none, of its zone.
    Node,
}

impl Nearness {
    pub(super) fn of(service: &Service) -> Option<Self> {
        match service.spec.as_ref()?.traffic_distribution.as_deref()? {
            "PreferSameZone" | "PreferClose" => Some(Self::Zone),
            "PreferSameNode" => Some(Self::Node),
            // the API refuses others
            _ => None,
        }
    }
}

impl PodEndpoint<'_> {
    /// The endpoint.
    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint {
            addresses: vec![self.address.to_owned()],
            conditions: Some(self.conditions()),
            hostname: self.hostname.map(str::to_owned),
            node_name: self.node.map(str::to_owned),
            target_ref: Some(wanted::reference(self.pod)),
            zone: self.zone.map(str::to_owned),
            deprecated_topology: None,
            hints: self.hints(),
        }
    }

    /// Only those that are ready have some, for the place where they are.
    fn hints(&self) -> Option<EndpointHints> {
        let nearness = self.nearness.filter(|_| self.ready)?;
        let for_zones = self.zone.map(|zone| vec![ForZone { name: zone.to_owned() }]);
        let node = self.node.filter(|_| nearness == Nearness::Node);
        let for_nodes = node.map(|node| vec![ForNode { name: node.to_owned() }]);
        let has_some = for_zones.is_some() || for_nodes.is_some();
        has_some.then_some(EndpointHints { for_nodes, for_zones })
    }

    /// True when the endpoint is that already.
    fn is(&self, known: &Endpoint) -> bool {
        let Endpoint {
            addresses,
            conditions,
            hostname,
            node_name,
            target_ref,
            zone,
            deprecated_topology,
            hints,
        } = known;
        addresses.as_slice() == [self.address]
            && conditions.as_ref() == Some(&self.conditions())
            && (hostname.as_deref(), node_name.as_deref(), zone.as_deref())
                == (self.hostname, self.node, self.zone)
            && target_ref.as_ref().is_some_and(|known| wanted::is_reference(known, self.pod))
            && deprecated_topology.is_none()
            && *hints == self.hints()
    }

    const fn conditions(&self) -> EndpointConditions {
        EndpointConditions {
            ready: Some(self.ready),
            serving: Some(self.serving),
            terminating: Some(self.terminating),
        }
    }
}

/// True when these endpoints show that, in this order.
pub(super) fn are(shown: &[PodEndpoint<'_>], known: &[Endpoint]) -> bool {
    known.len() == shown.len() && shown.iter().zip(known).all(|(shown, known)| shown.is(known))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_endpoint_is_the_same_when_it_would_be_made_so_and_only_then() {
        let pod: HeldPod = serde_json::from_value(
            json!({"metadata": {"name": "a", "namespace": "shop", "uid": "u"}}),
        )
        .unwrap();
        let pod = Arc::new(pod);
        let shown = PodEndpoint {
            pod: &pod,
            address: "10.0.0.1",
            ready: false,
            serving: true,
            terminating: true,
            hostname: Some("a"),
            node: Some("node-1"),
            zone: Some("east"),
            nearness: None,
        };
        let made = shown.endpoint();
        assert!(are(&[shown], std::slice::from_ref(&made)));
        assert!(!are(&[shown], &[]));
        assert!(!are(&[shown], &[made.clone(), made.clone()]));
        for (pointer, value) in [
            ("/addresses", json!(["10.0.0.2"])),
            ("/addresses", json!(["10.0.0.1", "10.0.0.2"])),
            ("/conditions", Value::Null),
            ("/conditions/ready", json!(true)),
            ("/conditions/serving", json!(false)),
            ("/conditions/terminating", Value::Null),
            ("/hostname", Value::Null),
            ("/nodeName", json!("node-2")),
            ("/zone", Value::Null),
            ("/targetRef", Value::Null),
            ("/targetRef/kind", json!("Node")),
            ("/targetRef/name", json!("b")),
            ("/targetRef/namespace", json!("other")),
            ("/targetRef/uid", json!("v")),
        ] {
            let mut other = serde_json::to_value(&made).unwrap();
            *other.pointer_mut(pointer).unwrap() = value;
            let other: Endpoint = serde_json::from_value(other).unwrap();
            assert_ne!(other, made);
            assert!(!are(&[shown], &[other]), "{pointer}");
        }
        let hinted = json!({"addresses": [], "hints": {"forZones": []}, "deprecatedTopology": {"rack": "1"}});
        let hinted: Endpoint = serde_json::from_value(hinted).unwrap();
        let near = PodEndpoint { ready: true, nearness: Some(Nearness::Node), ..shown };
        assert!(are(&[near], &[near.endpoint()]));
        let further = PodEndpoint { nearness: Some(Nearness::Zone), ..near };
        assert!(!are(&[further], &[near.endpoint()]) && !are(&[near], &[further.endpoint()]));
        for other in [
            Endpoint { hints: hinted.hints, ..made.clone() },
            Endpoint { deprecated_topology: hinted.deprecated_topology, ..made.clone() },
        ] {
            assert!(!are(&[shown], &[other]), "what is not ours to say goes");
        }
    }
}
