//! EndpointSlices and Endpoints, after the API reference of discovery.k8s.io/v1 and the
//! documentation's examples.

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ResourceKind, ViewObject};
use serde_json::{Value, json};

use crate::build::{pod, replica_set};
use crate::world::{World, id};

fn service(spec: Value) -> Value {
    let mut service = json!({
        "kind": "Service",
        "metadata": {"name": "web", "labels": {"team": "shop"}},
        "spec": {"selector": {"app": "web"}, "ports": [
            {"name": "http", "protocol": "TCP", "port": 80, "targetPort": "http"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

/// A pod of the app with a port `http`, on a node, with an address.
fn running(world: &mut World, name: &str, address: &str, port: i32) {
    let mut pod = pod(name, json!({"app": "web"}));
    pod["spec"]["nodeName"] = json!("node-1");
    pod["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": port}]);
    let pod = world.create(pod);
    world.api.change(&pod, |pod| pod["status"]["podIP"] = json!(address));
    world.set_ready(&pod, "True");
}

fn slices(world: &World) -> Vec<&EndpointSlice> {
    let slices = world.api.objects.values().filter_map(|object| match object {
        ViewObject::EndpointSlice(slice) => Some(slice.as_ref()),
        _ => None,
    });
    slices.collect()
}

fn endpoints(world: &World) -> Option<&Endpoints> {
    match world.api.objects.get(&id(ResourceKind::Endpoints, "web"))? {
        ViewObject::Endpoints(endpoints) => Some(endpoints),
        other => panic!("{other:?}"),
    }
}

/// `http:8080 10.0.0.1 10.0.0.2!`, a line a slice: `!` not ready, `-` terminating, `*` serving
/// though not ready.
fn shown(world: &World) -> Vec<String> {
    let mut lines: Vec<String> = slices(world)
        .iter()
        .map(|slice| {
            let ports =
                slice.ports.iter().flatten().map(|port| {
                    format!("{}:{}", port.name.as_deref().unwrap(), port.port.unwrap())
                });
            let mut pods: Vec<String> = slice
                .endpoints
                .iter()
                .flatten()
                .map(|endpoint| {
                    let c = endpoint.conditions.as_ref().unwrap();
                    let mut text = endpoint.addresses.join(",");
                    for (flag, mark) in [
                        (c.ready == Some(false), "!"),
                        (c.terminating == Some(true), "-"),
                        (c.ready == Some(false) && c.serving == Some(true), "*"),
                    ] {
                        text.push_str(if flag { mark } else { "" });
                    }
                    text
                })
                .collect();
            pods.sort();
            ports.chain(pods).collect::<Vec<_>>().join(" ")
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn a_service_leads_to_its_pods_as_they_are() {
    let mut world = World::with_node();
    world.api.change(&id(ResourceKind::Node, "node-1"), |node| {
        node["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "east"});
    });
    world.create(service(json!({})));
    world.settle();
    assert_eq!(shown(&world), [""], "nobody is there yet: one slice that is empty");
    assert_eq!(endpoints(&world).unwrap().subsets, None);
    running(&mut world, "a", "10.0.0.1", 8080);
    running(&mut world, "b", "10.0.0.2", 8080);
    world.set_ready(&id(ResourceKind::Pod, "b"), "False");
    world.create(pod("without-address", json!({"app": "web"})));
    world.settle();
    assert_eq!(shown(&world), ["http:8080 10.0.0.1 10.0.0.2!"]);
    let slice = slices(&world)[0].clone();
    let labels = slice.metadata.labels.unwrap();
    assert_eq!(labels["kubernetes.io/service-name"], "web");
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "endpointslice-controller.k8s.io");
    assert_eq!(labels["team"], "shop");
    assert_eq!(slice.address_type, "IPv4");
    let endpoint = &slice.endpoints.as_ref().unwrap()[0];
    assert_eq!(endpoint.node_name.as_deref(), Some("node-1"));
    assert_eq!(endpoint.zone.as_deref(), Some("east"));
    assert_eq!(endpoint.target_ref.as_ref().unwrap().name.as_deref(), Some("a"));
    let subset = &endpoints(&world).unwrap().subsets.as_ref().unwrap()[0];
    assert_eq!(subset.addresses.as_ref().unwrap()[0].ip, "10.0.0.1");
    assert_eq!(subset.not_ready_addresses.as_ref().unwrap()[0].ip, "10.0.0.2");
    assert_eq!(subset.ports.as_ref().unwrap()[0].port, 8080);

    // One that is being deleted serves on, and is in no Endpoints.
    world.api.user_deletes(&id(ResourceKind::Pod, "a"), DependentPolicy::Default);
    world.settle();
    assert_eq!(shown(&world), ["http:8080 10.0.0.1!-* 10.0.0.2!"]);
    let subset = &endpoints(&world).unwrap().subsets.as_ref().unwrap()[0];
    assert_eq!(subset.addresses, None);
    world.api.pod_ended(&id(ResourceKind::Pod, "a"));
    world.api.change(&id(ResourceKind::Pod, "b"), |pod| pod["status"]["phase"] = json!("Failed"));
    world.settle();
    assert_eq!(shown(&world), [""]);

    let service = id(ResourceKind::Service, "web");
    world.api.user_deletes(&service, DependentPolicy::Background);
    world.converge();
    assert_eq!((slices(&world).len(), endpoints(&world)), (0, None));
    world.assert_view_is_true();
}

#[test]
fn ready_endpoints_are_hinted_for_their_zone_or_node_where_the_service_says_so() {
    let mut world = World::with_node();
    let zone = |world: &mut World, labels| {
        let node = id(ResourceKind::Node, "node-1");
        world.api.change(&node, |node| node["metadata"]["labels"] = labels);
        world.settle();
    };
    let says = |world: &mut World, distribution: &str| {
        let service = id(ResourceKind::Service, "web");
        world.api.change(&service, |it| it["spec"]["trafficDistribution"] = json!(distribution));
        world.settle();
    };
    let hints = |world: &World| -> Vec<Value> {
        let endpoints = slices(world)[0].endpoints.clone().unwrap_or_default();
        endpoints.iter().map(|endpoint| json!(endpoint.hints)).collect()
    };
    world.create(service(json!({})));
    running(&mut world, "a", "10.0.0.1", 8080);
    running(&mut world, "b", "10.0.0.2", 8080);
    world.set_ready(&id(ResourceKind::Pod, "b"), "False");
    zone(&mut world, json!({"topology.kubernetes.io/zone": "east"}));
    assert_eq!(hints(&world), [Value::Null, Value::Null]);
    let east = json!({"forZones": [{"name": "east"}]});
    for distribution in ["PreferSameZone", "PreferClose"] {
        says(&mut world, distribution);
        assert_eq!(hints(&world), [east.clone(), Value::Null], "{distribution}");
    }
    says(&mut world, "PreferSameNode");
    let node = json!({"forZones": [{"name": "east"}], "forNodes": [{"name": "node-1"}]});
    assert_eq!(hints(&world), [node, Value::Null]);
    zone(&mut world, json!({}));
    assert_eq!(hints(&world), [json!({"forNodes": [{"name": "node-1"}]}), Value::Null]);
    says(&mut world, "PreferSameZone");
    assert_eq!(hints(&world), [Value::Null, Value::Null], "its node is in no zone");
    world.assert_view_is_true();
}

/// As upstream's controller: what bears the name of a Service and is not its own leads nobody
/// anywhere.
#[test]
fn a_service_that_is_made_again_takes_away_the_slices_that_the_one_before_left_behind() {
    let mut world = World::with_node();
    world.create(service(json!({})));
    running(&mut world, "a", "10.0.0.1", 8080);
    world.settle();
    world.api.user_deletes(&id(ResourceKind::Service, "web"), DependentPolicy::Orphan);
    world.converge();
    assert_eq!(shown(&world), ["http:8080 10.0.0.1"]);
    world.create(service(json!({})));
    world.converge();
    assert_eq!(shown(&world), ["http:8080 10.0.0.1"]);
    world.api.user_deletes(&id(ResourceKind::Pod, "a"), DependentPolicy::Default);
    world.api.pod_ended(&id(ResourceKind::Pod, "a"));
    world.converge();
    assert_eq!(shown(&world), [""]);

    // One that loses its owner later is not its own any more, either.
    running(&mut world, "b", "10.0.0.2", 8080);
    world.converge();
    let slice = ViewObject::EndpointSlice(slices(&world)[0].clone().into()).id();
    world.api.change(&slice, |slice| slice["metadata"]["ownerReferences"] = Value::Null);
    world.converge();
    assert_eq!(shown(&world), ["http:8080 10.0.0.2"]);
    world.assert_view_is_true();
}

#[test]
fn the_same_again_writes_nothing() {
    let mut world = World::with_node();
    world.create(service(json!({})));
    running(&mut world, "a", "10.0.0.1", 8080);
    world.settle();
    world.writes.clear();
    for change in ["one", "two"] {
        world
            .api
            .change(&id(ResourceKind::Pod, "a"), |pod| pod["status"]["message"] = json!(change));
        world.api.change(&id(ResourceKind::Service, "web"), |service| {
            service["status"] = json!({"conditions": []})
        });
        world.settle();
    }
    assert_eq!(world.writes, []);
}

#[test]
fn not_ready_addresses_are_published_when_the_service_says_so() {
    let mut world = World::with_node();
    world.create(service(json!({"publishNotReadyAddresses": true})));
    running(&mut world, "a", "10.0.0.1", 8080);
    world.set_ready(&id(ResourceKind::Pod, "a"), "False");
    world.settle();
    assert_eq!(shown(&world), ["http:8080 10.0.0.1"]);
    world.api.user_deletes(&id(ResourceKind::Pod, "a"), DependentPolicy::Default);
    world.settle();
    assert_eq!(shown(&world), ["http:8080 10.0.0.1-"]);
    let subset = &endpoints(&world).unwrap().subsets.as_ref().unwrap()[0];
    assert_eq!(subset.addresses.as_ref().unwrap().len(), 1);
}

#[test]
fn pods_with_other_ports_stand_in_slices_of_their_own() {
    let mut world = World::with_node();
    world.create(service(json!({})));
    running(&mut world, "a", "10.0.0.1", 8080);
    running(&mut world, "b", "10.0.0.2", 9090);
    let mut nameless = pod("c", json!({"app": "web"}));
    nameless["spec"]["nodeName"] = json!("node-1");
    let nameless = world.create(nameless);
    world.api.change(&nameless, |pod| pod["status"]["podIP"] = json!("10.0.0.3"));
    world.settle();
    assert_eq!(shown(&world), ["10.0.0.3!", "http:8080 10.0.0.1", "http:9090 10.0.0.2"]);
    let subsets = endpoints(&world).unwrap().subsets.as_ref().unwrap();
    assert_eq!(subsets.len(), 2, "a pod without the port is in none");
    // Now all have the same.
    world.api.change(&id(ResourceKind::Service, "web"), |service| {
        service["spec"]["ports"][0]["targetPort"] = json!(80);
    });
    world.settle();
    assert_eq!(shown(&world), ["http:80 10.0.0.1 10.0.0.2 10.0.0.3!"]);
}

#[test]
fn a_headless_service_says_so_and_gives_host_names() {
    let mut world = World::with_node();
    world.create(service(json!({"clusterIP": "None", "ports": null})));
    let mut db = pod("db-0", json!({"app": "web"}));
    db["spec"]["nodeName"] = json!("node-1");
    db["spec"]["hostname"] = json!("db-0");
    db["spec"]["subdomain"] = json!("web");
    let db = world.create(db);
    world.api.change(&db, |pod| pod["status"]["podIP"] = json!("10.0.0.1"));
    world.set_ready(&db, "True");
    world.settle();
    assert_eq!(shown(&world), ["10.0.0.1"]);
    let slice = slices(&world)[0].clone();
    assert_eq!(slice.metadata.labels.unwrap()["service.kubernetes.io/headless"], "");
    assert_eq!(slice.endpoints.unwrap()[0].hostname.as_deref(), Some("db-0"));
    let subset = &endpoints(&world).unwrap().subsets.as_ref().unwrap()[0];
    assert_eq!((subset.ports.as_ref(), subset.addresses.as_ref().unwrap().len()), (None, 1));
}

#[test]
fn a_service_that_is_another_name_is_left_alone() {
    let mut world = World::with_node();
    world.create(service(json!({"type": "ExternalName"})));
    world.create(json!({"kind": "Endpoints", "metadata": {"name": "web"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]}));
    running(&mut world, "a", "10.0.0.1", 8080);
    world.writes.clear();
    world.settle();
    assert_eq!((slices(&world).len(), world.writes.len()), (0, 0));
    let subset = &endpoints(&world).unwrap().subsets.as_ref().unwrap()[0];
    assert_eq!(subset.addresses.as_ref().unwrap()[0].ip, "192.0.2.1");
}

#[test]
fn a_slice_holds_a_hundred_and_one_pod_changes_one_slice() {
    let mut world = World::with_node();
    world.create(service(json!({})));
    for number in 0..250 {
        running(&mut world, &format!("p{number:03}"), &format!("10.0.1.{number}"), 8080);
    }
    world.settle();
    let sizes = |world: &World| {
        let mut sizes: Vec<usize> = slices(world)
            .iter()
            .map(|slice| slice.endpoints.as_ref().map_or(0, Vec::len))
            .collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&world), [50, 100, 100]);
    world.writes.clear();
    world.set_ready(&id(ResourceKind::Pod, "p120"), "False");
    world.settle();
    assert_eq!(world.writes.len(), 2, "one slice and the Endpoints: {:?}", world.writes.len());
    world.api.user_deletes(&id(ResourceKind::Pod, "p007"), DependentPolicy::Default);
    world.api.pod_ended(&id(ResourceKind::Pod, "p007"));
    world.settle();
    assert_eq!(sizes(&world).iter().sum::<usize>(), 249);
    running(&mut world, "late", "10.0.2.1", 8080);
    world.settle();
    assert_eq!(sizes(&world), [50, 100, 100], "the gap is filled");
}

#[test]
fn what_somebody_changes_in_them_is_put_right() {
    let mut world = World::with_node();
    world.create(service(json!({})));
    running(&mut world, "a", "10.0.0.1", 8080);
    world.settle();
    let slice = ViewObject::from(slices(&world)[0].clone()).id();
    world.api.change(&slice, |slice| slice["endpoints"] = json!([]));
    world.api.change(&id(ResourceKind::Endpoints, "web"), |object| object["subsets"] = json!([]));
    world.settle();
    assert_eq!(shown(&world), ["http:8080 10.0.0.1"]);
    assert_eq!(endpoints(&world).unwrap().subsets.as_ref().unwrap().len(), 1);
    world.api.user_deletes(&slice, DependentPolicy::Default);
    world.api.user_deletes(&id(ResourceKind::Endpoints, "web"), DependentPolicy::Default);
    world.settle();
    assert_eq!(shown(&world), ["http:8080 10.0.0.1"]);
    assert!(endpoints(&world).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    /// Whatever pods come, go and change while watches lag: in the end each is behind the Service
    /// exactly once.
    #[test]
    fn every_pod_is_behind_its_service_exactly_once(
        happenings in prop::collection::vec((0..6u8, any::<u8>()), 0..150),
    ) {
        let mut world = World::with_node();
        world.create(service(json!({})));
        world.create(replica_set("web", 4));
        world.converge();
        for (what, n) in happenings {
            let pods = world.api.ids(ResourceKind::Pod, "shop");
            let pod = pods.get(usize::from(n) % pods.len().max(1)).cloned();
            match (what, pod) {
                (0, Some(pod)) => {
                    let address = format!("10.0.0.{}", n % 200);
                    world.api.change(&pod, |pod| pod["status"]["podIP"] = json!(address));
                }
                (1, Some(pod)) => world.set_ready(&pod, if n % 2 == 0 { "True" } else { "False" }),
                (2, Some(pod)) => world.api.user_deletes(&pod, DependentPolicy::Default),
                (3, Some(pod)) => world.kubelet_at(&pod),
                (4, _) => {
                    for kind in ResourceKind::ALL {
                        world.watch_next(kind);
                    }
                }
                _ => {
                    if let Some(key) = world.queue.iter().nth(usize::from(n) % world.queue.len().max(1)).cloned() {
                        world.queue.remove(&key);
                        world.work(&key, |_| crate::world::Answer::Arrives);
                    }
                }
            }
        }
        for kind in ResourceKind::ALL {
            world.relist(kind, 0);
        }
        world.converge();
        world.assert_view_is_true();
        let mut wanted: Vec<String> = world.api.pods().iter()
            .filter(|pod| pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some()))
            .map(|pod| pod.metadata.uid.clone().unwrap())
            .collect();
        wanted.sort();
        let mut found: Vec<String> = slices(&world).iter()
            .flat_map(|slice| slice.endpoints.iter().flatten())
            .map(|endpoint| endpoint.target_ref.as_ref().unwrap().uid.clone().unwrap())
            .collect();
        found.sort();
        prop_assert_eq!(found, wanted);
    }
}
