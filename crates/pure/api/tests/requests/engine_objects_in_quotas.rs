//! What the engine makes of itself counts in quotas like everything else, and no quota refuses it:
//! the CA bundle and the default account of a namespace, and the Service `kubernetes`.

use std::net::SocketAddr;

use proptest::prelude::*;
use rekindle_store::memory::DiskFault;
use serde_json::{Value, json};

use crate::harness::Bench;

const NAMESPACE: &str = "/api/v1/namespaces/default";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn of(plural: &str) -> String {
    match plural {
        "endpointslices" => SLICES.to_owned(),
        core => format!("{NAMESPACE}/{core}"),
    }
}

/// What comes back when it is deleted, by plural and name.
const OWN: [(&str, &str); 5] = [
    ("configmaps", "kube-root-ca.crt"),
    ("serviceaccounts", "default"),
    ("services", "kubernetes"),
    ("endpoints", "kubernetes"),
    ("endpointslices", "kubernetes"),
];

/// The engine starts: it makes what is missing.
fn start(bench: &Bench) {
    let endpoint: SocketAddr = "10.88.0.1:6443".parse().unwrap();
    // a disk that refuses is the business of the next commit
    let _pending = bench.api.bootstrap(bench.now).unwrap();
    let _pending = bench.api.publish_api_service(endpoint, bench.now).unwrap();
}

/// A quota over all that the engine makes, with room for this many ConfigMaps.
fn bench_with_quota(config_maps: u8) -> Bench {
    let mut bench = Bench::new();
    start(&bench);
    bench.committer.commit_pending().unwrap();
    let hard = json!({
        "configmaps": config_maps.to_string(), "count/configmaps": "9",
        "count/serviceaccounts": "1", "services": "1", "services.nodeports": "1",
        "count/endpoints": "1", "count/endpointslices.discovery.k8s.io": "1",
    });
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"},
        "spec": {"hard": hard}});
    bench.create(&of("resourcequotas"), quota);
    bench
}

/// What is stored, under the names of the quota.
fn counted(bench: &mut Bench) -> Value {
    let lists = OWN.map(|(plural, _)| bench.get(&of(plural))["items"].clone());
    let [maps, accounts, services, endpoints, slices] =
        lists.each_ref().map(|list| list.as_array().unwrap().len().to_string());
    let services_of = lists[2].as_array().unwrap().iter();
    let on_nodes = services_of.filter(|service| service["spec"]["type"] == "NodePort");
    let ports: usize =
        on_nodes.map(|service| service["spec"]["ports"].as_array().unwrap().len()).sum();
    json!({
        "configmaps": maps, "count/configmaps": maps, "count/serviceaccounts": accounts,
        "services": services, "services.nodeports": ports.to_string(),
        "count/endpoints": endpoints, "count/endpointslices.discovery.k8s.io": slices,
    })
}

fn used(bench: &mut Bench) -> Value {
    bench.get(&format!("{}/all", of("resourcequotas")))["status"]["used"].clone()
}

#[test]
fn what_the_engine_makes_again_is_charged_again() {
    for (plural, name) in OWN {
        let mut bench = bench_with_quota(9);
        let before = used(&mut bench);
        for _ in 0..3 {
            bench.call("DELETE", &format!("{}/{name}", of(plural)), "").ok();
        }
        bench.get(&format!("{}/{name}", of(plural)));
        assert_eq!(used(&mut bench), before, "{plural}");
        assert_eq!(before, counted(&mut bench), "{plural}");
    }
}

#[test]
fn no_quota_refuses_what_the_engine_makes() {
    let mut bench = bench_with_quota(0);
    assert_eq!(used(&mut bench)["configmaps"], "1");
    bench.call("DELETE", &format!("{}/kube-root-ca.crt", of("configmaps")), "").ok();
    bench.get(&format!("{}/kube-root-ca.crt", of("configmaps")));
    assert_eq!(used(&mut bench)["configmaps"], "1");
}

#[test]
fn what_the_engine_puts_right_counts_as_it_is_then() {
    let mut bench = bench_with_quota(9);
    let service = format!("{}/kubernetes", of("services"));
    bench.call("PATCH", &service, &json!({"spec": {"type": "NodePort"}}).to_string()).ok();
    assert_eq!(used(&mut bench)["services.nodeports"], "1");
    start(&bench);
    bench.committer.commit_pending().unwrap();
    assert_eq!(bench.get(&service)["spec"]["type"], "ClusterIP");
    assert_eq!(used(&mut bench), counted(&mut bench));
    assert_eq!(used(&mut bench)["services.nodeports"], "0");
}

/// What users and the engine do.
#[derive(Clone, Copy, Debug)]
enum OwnObjectEvent {
    CreateMap {
        slot: u8,
    },
    DeleteMap {
        slot: u8,
    },
    /// One of [`OWN`] is deleted.
    DeleteOwn {
        index: usize,
    },
    /// All of a kind are.
    DeleteAll {
        index: usize,
    },
    /// A finalizer holds one of [`OWN`], or does not any more.
    Hold {
        index: usize,
        is_held: bool,
    },
    OpenPort,
    Bound {
        config_maps: u8,
    },
    Start,
    /// The writes that wait for the disk become durable, or do not.
    Commit {
        fails: bool,
    },
}

fn event() -> impl Strategy<Value = OwnObjectEvent> {
    use OwnObjectEvent::{
        Bound, Commit, CreateMap, DeleteAll, DeleteMap, DeleteOwn, Hold, OpenPort, Start,
    };
    let index = || 0..OWN.len();
    prop_oneof![
        3 => (0..4u8).prop_map(|slot| CreateMap { slot }),
        2 => (0..4u8).prop_map(|slot| DeleteMap { slot }),
        4 => index().prop_map(|index| DeleteOwn { index }),
        2 => index().prop_map(|index| DeleteAll { index }),
        2 => (index(), any::<bool>()).prop_map(|(index, is_held)| Hold { index, is_held }),
        1 => Just(OpenPort),
        1 => (0..5u8).prop_map(|config_maps| Bound { config_maps }),
        1 => Just(Start),
        4 => (0..4u8).prop_map(|number| Commit { fails: number == 0 }),
    ]
}

impl OwnObjectEvent {
    fn request(self) -> Option<(&'static str, String, Value)> {
        let named = |index: usize| {
            let (plural, name) = OWN[index];
            format!("{}/{name}", of(plural))
        };
        let map = |slot: u8| format!("m{slot}");
        Some(match self {
            Self::CreateMap { slot } => {
                let meta = json!({"name": map(slot)});
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta});
                ("POST", of("configmaps"), object)
            }
            Self::DeleteMap { slot } => {
                ("DELETE", format!("{}/{}", of("configmaps"), map(slot)), Value::Null)
            }
            Self::DeleteOwn { index } => ("DELETE", named(index), Value::Null),
            Self::DeleteAll { index } => ("DELETE", of(OWN[index].0), Value::Null),
            Self::Hold { index, is_held } => {
                let finalizers = is_held.then_some(json!(["example.com/hold"]));
                ("PATCH", named(index), json!({"metadata": {"finalizers": finalizers}}))
            }
            Self::OpenPort => ("PATCH", named(2), json!({"spec": {"type": "NodePort"}})),
            Self::Bound { config_maps } => (
                "PATCH",
                format!("{}/all", of("resourcequotas")),
                json!({"spec": {"hard": {"configmaps": config_maps.to_string()}}}),
            ),
            Self::Start | Self::Commit { .. } => return None,
        })
    }
}

/// The quota says what is stored, and what the engine makes is there.
fn check(bench: &mut Bench) {
    assert_eq!(used(bench), counted(bench));
    for (plural, name) in OWN {
        bench.get(&format!("{}/{name}", of(plural)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Users delete what the engine makes, which makes it again; commits fail, and bounds fall.
    #[test]
    fn used_is_what_is_stored_whoever_makes_it(
        events in proptest::collection::vec(event(), 1..40),
    ) {
        let mut bench = bench_with_quota(3);
        for event in events.into_iter().chain([OwnObjectEvent::Commit { fails: false }]) {
            if let Some((method, target, body)) = event.request() {
                let body = if body.is_null() { String::new() } else { body.to_string() };
                let _answered_by_the_commit = bench.api.handle(&bench.request(method, &target, &body));
            }
            match event {
                OwnObjectEvent::Start => start(&bench),
                OwnObjectEvent::Commit { fails } => {
                    if fails {
                        bench.disk.inject(DiskFault::Refused);
                    }
                    let _ = bench.committer.commit_pending();
                    bench.disk.forget_faults();
                    check(&mut bench);
                }
                OwnObjectEvent::CreateMap { .. }
                | OwnObjectEvent::DeleteMap { .. }
                | OwnObjectEvent::DeleteOwn { .. }
                | OwnObjectEvent::DeleteAll { .. }
                | OwnObjectEvent::Hold { .. }
                | OwnObjectEvent::OpenPort
                | OwnObjectEvent::Bound { .. } => {}
            }
        }
    }
}
