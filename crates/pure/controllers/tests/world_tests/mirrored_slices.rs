//! EndpointSlices of Endpoints that a user writes, after KEP-0752 and upstream's controller.

use std::collections::BTreeSet;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ClusterView, ControllerKey, NamespacedName, ResourceKind, ViewObject};
use serde_json::{Value, json};

use crate::world::{Answer, World, id};

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

fn service(selector: Value) -> Value {
    json!({"kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": selector, "ports": [{"name": "http", "port": 80}]}})
}

fn endpoints(subsets: Value) -> Value {
    json!({"kind": "Endpoints", "subsets": subsets, "metadata": {
        "name": "web",
        "labels": {"team": "shop"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z",
            "note": "by hand",
        },
    }})
}

fn one_subset() -> Value {
    json!([{
        "addresses": [
            {"ip": "192.0.2.1", "hostname": "a", "nodeName": "n",
                "targetRef": {"kind": "Pod", "name": "p", "namespace": "shop"}},
            {"ip": "2001:db8::1"},
        ],
        "notReadyAddresses": [{"ip": "192.0.2.2"}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "h2c"}],
    }])
}

fn slices(world: &World) -> Vec<&EndpointSlice> {
    let slices = world.api.objects.values().filter_map(|object| match object {
        ViewObject::EndpointSlice(slice) => Some(slice.as_ref()),
        _ => None,
    });
    slices.collect()
}

/// `IPv4 http:8080 192.0.2.1 192.0.2.2!`, a line a slice: `!` not ready.
fn shown(world: &World) -> Vec<String> {
    let line = |slice: &&EndpointSlice| {
        let ports = slice.ports.iter().flatten();
        let ports =
            ports.map(|port| format!("{}:{}", port.name.as_deref().unwrap(), port.port.unwrap()));
        let addresses = slice.endpoints.iter().flatten().map(|endpoint| {
            let is_ready = endpoint.conditions.as_ref().unwrap().ready == Some(true);
            format!("{}{}", endpoint.addresses.join(","), if is_ready { "" } else { "!" })
        });
        let words = std::iter::once(slice.address_type.clone()).chain(ports).chain(addresses);
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = slices(world).iter().map(line).collect();
    lines.sort();
    lines
}

fn mirrored() -> World {
    let mut world = World::with_node();
    world.create(service(Value::Null));
    world.create(endpoints(one_subset()));
    world.settle();
    assert_eq!(shown(&world).len(), 2);
    world
}

#[test]
fn addresses_that_a_user_writes_are_mirrored_as_they_are() {
    let world = mirrored();
    let expected = ["IPv4 http:8080 192.0.2.1 192.0.2.2!", "IPv6 http:8080 2001:db8::1"];
    assert_eq!(shown(&world), expected);
    let of_ipv4 = slices(&world).into_iter().find(|slice| slice.address_type == "IPv4").unwrap();
    let meta = &of_ipv4.metadata;
    let labels = serde_json::to_value(&meta.labels).unwrap();
    let manager = "endpointslicemirroring-controller.k8s.io";
    let expected =
        json!({"team": "shop", "kubernetes.io/service-name": "web", MANAGED_BY: manager});
    assert_eq!(labels, expected);
    assert_eq!(serde_json::to_value(&meta.annotations).unwrap(), json!({"note": "by hand"}));
    let owner = &meta.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Endpoints", "web"));
    assert_eq!(owner.controller, Some(true));
    let endpoint = serde_json::to_value(&of_ipv4.endpoints.as_ref().unwrap()[0]).unwrap();
    let expected = json!({"addresses": ["192.0.2.1"], "conditions": {"ready": true},
        "hostname": "a", "nodeName": "n",
        "targetRef": {"kind": "Pod", "name": "p", "namespace": "shop"}});
    assert_eq!(endpoint, expected);
    let port = serde_json::to_value(&of_ipv4.ports.as_ref().unwrap()[0]).unwrap();
    let expected = json!({"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "h2c"});
    assert_eq!(port, expected);
}

#[test]
fn what_is_not_to_be_mirrored_has_no_slice_and_loses_the_one_that_it_has() {
    type Change = fn(&mut World);
    let endpoints_id = || id(ResourceKind::Endpoints, "web");
    let cases: [(&str, Change); 5] = [
        ("skipped", |world| {
            world.api.change(&id(ResourceKind::Endpoints, "web"), |object| {
                object["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"] =
                    json!("true");
            });
        }),
        ("a lock", |world| {
            world.api.change(&id(ResourceKind::Endpoints, "web"), |object| {
                object["metadata"]["annotations"]["control-plane.alpha.kubernetes.io/leader"] =
                    json!("{}");
            });
        }),
        ("a selector", |world| {
            world.api.change(&id(ResourceKind::Service, "web"), |service| {
                service["spec"]["selector"] = json!({"app": "web"});
            });
        }),
        ("no Service", |world| {
            world.api.user_deletes(&id(ResourceKind::Service, "web"), DependentPolicy::Default);
        }),
        ("no Endpoints", |world| {
            world.api.user_deletes(&id(ResourceKind::Endpoints, "web"), DependentPolicy::Default);
        }),
    ];
    for (case, change) in cases {
        let mut world = mirrored();
        change(&mut world);
        world.settle();
        let left = slices(&world).into_iter().filter(|slice| {
            let labels = slice.metadata.labels.as_ref().unwrap();
            labels[MANAGED_BY].starts_with("endpointslicemirroring")
        });
        assert_eq!(left.count(), 0, "{case}");
        let stays = world.api.objects.contains_key(&endpoints_id());
        let is_deleted = ["no Service", "no Endpoints"].contains(&case);
        assert_eq!(stays, !is_deleted, "{case}: what a user wrote goes with its Service only");
    }
}

fn has_endpoints(world: &World) -> bool {
    world.api.objects.contains_key(&id(ResourceKind::Endpoints, "web"))
}

/// Upstream's `syncService` deletes Endpoints by the name of a Service that has gone.
#[test]
fn endpoints_go_with_their_service_and_wait_for_one_that_comes_later() {
    let mut world = World::with_node();
    world.create(endpoints(one_subset()));
    world.converge();
    world.api.change(&id(ResourceKind::Endpoints, "web"), |object| {
        object["metadata"]["labels"]["team"] = json!("other");
    });
    world.converge();
    assert!(has_endpoints(&world), "no Service of it has gone");
    for external_name in [Value::Null, json!("example.com")] {
        let mut service = service(Value::Null);
        if !external_name.is_null() {
            service["spec"] = json!({"type": "ExternalName", "externalName": external_name});
        }
        world.create(service);
        world.converge();
        assert!(has_endpoints(&world));
        world.api.user_deletes(&id(ResourceKind::Service, "web"), DependentPolicy::Default);
        world.converge();
        assert_eq!((has_endpoints(&world), shown(&world)), (false, Vec::new()));
        world.create(endpoints(one_subset()));
        world.converge();
        assert!(has_endpoints(&world), "these are others");
    }
    world.assert_view_is_true();
}

#[test]
fn endpoints_stay_when_their_service_is_there_again_before_they_go() {
    let mut world = mirrored();
    world.api.user_deletes(&id(ResourceKind::Service, "web"), DependentPolicy::Default);
    while world.watch_next(ResourceKind::Service) {}
    world.create(service(Value::Null));
    // the view has not seen it yet: the API is asked
    let key = ControllerKey::Endpoints(NamespacedName::new("shop", "web"));
    world.work(&key, |_| Answer::Arrives);
    world.converge();
    assert!(has_endpoints(&world));
    assert_eq!(shown(&world).len(), 2);
    world.assert_view_is_true();
}

/// Upstream's `checkLeftoverEndpoints`.
#[test]
fn endpoints_without_a_service_go_when_controllers_begin_but_for_locks() {
    let mut world = World::with_node();
    for name in ["web", "alone", "lock"] {
        let mut endpoints = endpoints(one_subset());
        endpoints["metadata"]["name"] = json!(name);
        if name == "lock" {
            let annotations = &mut endpoints["metadata"]["annotations"];
            annotations["control-plane.alpha.kubernetes.io/leader"] = json!("{}");
        }
        world.create(endpoints);
    }
    world.create(service(Value::Null));
    world.converge();
    let left = |world: &World| {
        let ids = world.api.ids(ResourceKind::Endpoints, "shop").into_iter();
        ids.map(|id| id.name.name).collect::<Vec<_>>()
    };
    assert_eq!(left(&world), ["alone", "lock", "web"]);
    // others lead now: they know what the lists show
    for kinds in [ResourceKind::ALL.to_vec(), ResourceKind::ALL.into_iter().rev().collect()] {
        (world.view, world.queue) = (ClusterView::new(), BTreeSet::new());
        kinds.into_iter().for_each(|kind| world.relist(kind, 0));
        world.converge();
        assert_eq!(left(&world), ["lock", "web"]);
        assert_eq!(shown(&world).len(), 2);
    }
}

#[test]
fn the_same_again_writes_nothing_and_what_somebody_changes_is_put_right() {
    let mut world = mirrored();
    let expected = shown(&world);
    world.writes.clear();
    world.api.change(&id(ResourceKind::Service, "web"), |service| {
        service["status"] = json!({"conditions": []});
    });
    world.settle();
    assert_eq!(world.writes, []);
    let slice = ViewObject::from(slices(&world)[0].clone()).id();
    world.api.change(&slice, |slice| slice["endpoints"] = json!([]));
    world.settle();
    assert_eq!(shown(&world), expected);
    world.api.user_deletes(&slice, DependentPolicy::Default);
    world.settle();
    assert_eq!(shown(&world), expected);
}

#[test]
fn subsets_of_the_same_ports_share_slices_of_a_thousand_addresses() {
    let subset = |third: u8, count: usize| {
        let addresses: Vec<Value> = (0..count)
            .map(|number| json!({"ip": format!("10.{third}.{}.{}", number / 250, number % 250)}))
            .collect();
        json!({"addresses": addresses, "ports": [{"port": 80, "protocol": "TCP"}]})
    };
    let mut world = World::with_node();
    world.create(service(Value::Null));
    world.create(endpoints(json!([subset(1, 1100), subset(2, 10)])));
    world.settle();
    let mut sizes: Vec<usize> =
        slices(&world).iter().map(|slice| slice.endpoints.as_ref().map_or(0, Vec::len)).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [10, 1000]);
    let skipped = "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 100 addresses were skipped";
    assert!(world.notes.iter().any(|note| note.message == skipped), "{:?}", world.notes);
}

fn any_subsets() -> impl Strategy<Value = Value> {
    let address = (1_u8..5, any::<bool>()).prop_map(|(last, is_second)| match is_second {
        true => json!({"ip": format!("2001:db8::{last}")}),
        false => json!({"ip": format!("192.0.2.{last}")}),
    });
    let addresses = || prop::collection::vec(address.clone(), 0..4);
    let subset = (addresses(), addresses(), 80_i32..83).prop_map(|(ready, others, port)| {
        json!({"addresses": ready, "notReadyAddresses": others,
            "ports": [{"port": port, "protocol": "TCP"}]})
    });
    prop::collection::vec(subset, 0..3).prop_map(|subsets| json!(subsets))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    /// Whatever Endpoints have said before, the slices say what they say now, each address once
    /// for each time that it is written.
    #[test]
    fn slices_say_what_endpoints_say(all in prop::collection::vec(any_subsets(), 1..6)) {
        let mut world = World::with_node();
        world.create(service(Value::Null));
        let made = world.create(endpoints(json!([])));
        for subsets in all {
            world.api.change(&made, |object| object["subsets"] = subsets.clone());
            world.settle();
            let mut expected: Vec<(String, i32, bool)> = Vec::new();
            for subset in subsets.as_array().unwrap() {
                let port = i32::try_from(subset["ports"][0]["port"].as_i64().unwrap()).unwrap();
                for (list, is_ready) in [("addresses", true), ("notReadyAddresses", false)] {
                    let addresses = subset[list].as_array().unwrap().iter();
                    expected.extend(addresses.map(|address| {
                        (address["ip"].as_str().unwrap().to_owned(), port, is_ready)
                    }));
                }
            }
            let mut found: Vec<(String, i32, bool)> = Vec::new();
            for slice in slices(&world) {
                let port = slice.ports.as_ref().unwrap()[0].port.unwrap();
                for endpoint in slice.endpoints.iter().flatten() {
                    prop_assert_eq!(endpoint.addresses[0].contains(':'), slice.address_type == "IPv6");
                    let is_ready = endpoint.conditions.as_ref().unwrap().ready.unwrap();
                    found.push((endpoint.addresses[0].clone(), port, is_ready));
                }
                prop_assert!(!slice.endpoints.iter().flatten().collect::<Vec<_>>().is_empty());
            }
            expected.sort();
            found.sort();
            prop_assert_eq!(found, expected);
        }
    }
}
