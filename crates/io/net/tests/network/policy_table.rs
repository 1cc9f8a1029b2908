//! The table of NetworkPolicies beside what others do, and over the life of its pods: two pods on
//! one bridge, and real connections.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use rekindle_net::rules::{PolicyTable, RuleError, TableOwnership};
use rekindle_net::{BridgeNetwork, BridgeShare, NetworkConfig, SubnetChoice};
use rekindle_network_policy::{
    ClassNumber, NetworkPolicies, PeerPod, PolicyElement, PolicyElements,
};
use rekindle_types::NamespacedName;
use serde_json::json;

use crate::support::Namespace;

const BRIDGE: &str = "rktest0";
const PORT: u16 = 8080;
/// Long enough for a connection that works on a busy machine, and how long a refusal takes.
const REFUSED_AFTER: Duration = Duration::from_secs(2);

/// A machine with a client and a server, each in a pod.
struct TwoPods {
    host: Namespace,
    client: Namespace,
    server: Namespace,
    state: tempfile::TempDir,
}

impl TwoPods {
    fn new() -> Self {
        let [host, client, server] = std::array::from_fn(|_| Namespace::new());
        Self { host, client, server, state: tempfile::tempdir().unwrap() }
    }

    /// The network, and the server's address.
    async fn plug(&self) -> (BridgeNetwork, IpAddr) {
        let network = BridgeNetwork::open(NetworkConfig {
            bridge: BRIDGE.to_owned(),
            subnet: SubnetChoice::Auto,
            ipv6: None,
            share: BridgeShare::Owner,
            state_dir: self.state.path().to_owned(),
            mtu: 1500,
        });
        let network = network.await.unwrap();
        network.attach("client/0", &self.client.path()).await.unwrap();
        let address = network.attach("server/0", &self.server.path()).await.unwrap().ip.into();
        (network, address)
    }

    fn connects(&self, to: IpAddr) -> bool {
        let to = SocketAddr::from((to, PORT));
        self.client.inside(|| TcpStream::connect_timeout(&to, REFUSED_AFTER).is_ok())
    }

    fn listen(&self, at: IpAddr) -> TcpListener {
        self.server.inside(|| TcpListener::bind((at, PORT)).unwrap())
    }
}

/// Nothing reaches this address.
fn denied(server: IpAddr) -> PolicyElements {
    [PolicyElement::Ingress(server, ClassNumber::MIN), PolicyElement::Itself(server)].into()
}

#[test]
fn a_flush_of_the_policies_by_others_is_noticed_and_replaced() {
    let pods = TwoPods::new();
    pods.host.block_on(|| async {
        let (_network, server) = pods.plug().await;
        let _listener = pods.listen(server);
        let elements = denied(server);
        let table =
            PolicyTable::open(BRIDGE, rekindle_types::IpStack::Single, TableOwnership::Shared)
                .unwrap();
        table.replace(&elements).unwrap();
        assert!(!pods.connects(server), "a policy denies it");
        let name = format!("rekindle-{BRIDGE}-policies");
        for command in [
            "flush ruleset".to_owned(),
            format!("delete table inet {name}"),
            format!("flush table inet {name}"),
        ] {
            let changed = table.changed_by_others();
            tokio::pin!(changed);
            table.replace(&elements).unwrap();
            pods.host.run("nft", "add table inet theirs");
            assert!(futures::poll!(&mut changed).is_pending(), "ours and theirs: {command}");
            pods.host.run("nft", &command);
            changed.await.unwrap();
            assert!(pods.connects(server), "the rules are gone: {command}");
            table.replace(&elements).unwrap();
            assert!(!pods.connects(server), "they are back: {command}");
        }
    });
}

#[test]
fn an_owned_table_of_policies_outlives_a_flush_and_other_engines() {
    let pods = TwoPods::new();
    pods.host.block_on(|| async {
        let (_network, server) = pods.plug().await;
        let _listener = pods.listen(server);
        let table =
            PolicyTable::open(BRIDGE, rekindle_types::IpStack::Single, TableOwnership::Exclusive)
                .unwrap();
        table.replace(&denied(server)).unwrap();
        pods.host.run("nft", "flush ruleset");
        assert!(!pods.connects(server), "after a flush");

        // a second engine on another bridge, with rules of its own
        let other = PolicyTable::open(
            "rktest1",
            rekindle_types::IpStack::Single,
            TableOwnership::Exclusive,
        )
        .unwrap();
        let elsewhere = IpAddr::from([10, 99, 0, 2]);
        other.replace(&denied(elsewhere)).unwrap();
        assert!(!pods.connects(server), "beside another engine");
        other.remove().unwrap();
        assert!(!pods.connects(server), "after another engine");

        // and one that is started with the bridge of the first
        let second =
            PolicyTable::open(BRIDGE, rekindle_types::IpStack::Single, TableOwnership::Exclusive)
                .unwrap();
        let refused = second.replace(&PolicyElements::new()).unwrap_err();
        assert!(matches!(refused, RuleError::TableBusy { .. }), "{refused}");
        assert!(!pods.connects(server), "beside a second one");

        // as after a kill -9
        drop(table);
        assert!(!pods.connects(server), "without an engine");
        second.replace(&PolicyElements::new()).unwrap();
        assert!(pods.connects(server), "the next engine has it");
    });
}

#[test]
fn the_next_pod_of_an_address_is_ruled_by_its_own_policies_only() {
    let pods = TwoPods::new();
    let deny: NetworkPolicy = serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "deny" },
        "spec": { "podSelector": { "matchLabels": { "app": "web" } }, "policyTypes": ["Ingress"] },
    }))
    .unwrap();
    let pod = |app: &str, address: IpAddr| {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "labels": { "app": app } }, "spec": { "containers": [] },
        }))
        .unwrap();
        PeerPod::at(&pod, [address])
    };
    let name = |name: &str| NamespacedName::new("shop", name);
    pods.host.block_on(|| async {
        let (_network, server) = pods.plug().await;
        let _listener = pods.listen(server);
        let table =
            PolicyTable::open(BRIDGE, rekindle_types::IpStack::Single, TableOwnership::Exclusive)
                .unwrap();
        let mut policies = NetworkPolicies::default();
        policies.set_policy(name("deny"), Some(&deny));
        policies.set_pod(&name("web-1"), pod("web", server));
        table.replace(&policies.elements()).unwrap();
        assert!(!pods.connects(server));
        // the successor is heard of before the end of the first is
        table.apply(&policies.set_pod(&name("free"), pod("free", server))).unwrap();
        assert!(pods.connects(server), "no policy selects it");
        table.apply(&policies.set_pod(&name("web-1"), None)).unwrap();
        assert!(pods.connects(server), "the end of the first is not that of the second");
        // and the other way round
        table.apply(&policies.set_pod(&name("free"), None)).unwrap();
        table.apply(&policies.set_pod(&name("web-2"), pod("web", server))).unwrap();
        assert!(!pods.connects(server), "a policy selects it");
        table.apply(&policies.set_pod(&name("web-2"), None)).unwrap();
        assert!(pods.connects(server));
    });
}
