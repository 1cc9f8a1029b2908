//! APIServices: those of this server, which it keeps, and requests to other servers.

use bytes::Bytes;
use rekindle_api::RequestOutcome;
use rekindle_api::aggregated_request::{AggregatedRequest, ServerTrust};
use rekindle_api::api_services::{FollowedServer, ServerDiscovery};
use rekindle_kinds::api_service::ServerAvailability;
use rekindle_kinds::identity::UserInfo;
use serde_json::{Value, json};

use crate::harness::Bench;

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BOATS: &str = "/apis/boats.example/v1";

fn names(bench: &mut Bench) -> Vec<String> {
    let list = bench.get(API_SERVICES);
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn definition(plural: &str, versions: &[&str]) -> Value {
    let version = |(index, name): (usize, &&str)| {
        json!({
            "name": name, "served": true, "storage": index == 0,
            "schema": {"openAPIV3Schema": {"type": "object"}},
        })
    };
    json!({
        "metadata": {"name": format!("{plural}.ships.example")},
        "spec": {
            "group": "ships.example", "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.to_uppercase()},
            "versions": versions.iter().enumerate().map(version).collect::<Vec<_>>(),
        },
    })
}

/// An APIService with a Service, which leads to an endpoint.
fn aggregate(bench: &mut Bench) {
    bench.create(
        "/api/v1/namespaces/default/services",
        json!({
            "metadata": {"name": "boats"}, "spec": {"ports": [{"name": "https", "port": 443}]},
        }),
    );
    bench.create(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        json!({
            "metadata": {"name": "boats", "labels": {"kubernetes.io/service-name": "boats"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.88.0.7"]}],
            "ports": [{"name": "https", "port": 8443}],
        }),
    );
    bench.create(
        API_SERVICES,
        json!({
            "metadata": {"name": "v1.boats.example"},
            "spec": {
                "group": "boats.example", "version": "v1",
                "groupPriorityMinimum": 100, "versionPriority": 10,
                "caBundle": "Q0E=",
                "service": {"namespace": "default", "name": "boats"},
            },
        }),
    );
}

fn only_server(bench: &Bench) -> FollowedServer {
    let [server] = bench.api.followed_servers().unwrap().try_into().unwrap();
    server
}

fn record(bench: &mut Bench, said: Result<ServerDiscovery, ServerAvailability>) {
    let server = only_server(bench);
    let pending = bench.api.record_server(&server, said, bench.now).unwrap();
    bench.committer.commit_pending().unwrap();
    if let Some(pending) = pending {
        pending.try_get().unwrap().unwrap();
    }
}

fn discovery() -> ServerDiscovery {
    let list = json!({
        "kind": "APIResourceList", "groupVersion": "boats.example/v1",
        "resources": [{
            "name": "sails", "singularName": "sail", "namespaced": true, "kind": "Sail",
            "verbs": ["get", "list", "watch"],
        }],
    });
    let index = json!({"paths": {"apis/boats.example/v1": {"serverRelativeURL": "/x?hash=AB12"}}});
    let found = ServerDiscovery::parse("boats.example/v1", list.to_string().as_bytes()).unwrap();
    found.with_openapi_index("boats.example/v1", index.to_string().as_bytes())
}

fn down() -> ServerAvailability {
    let message = "failing or missing response".to_owned();
    ServerAvailability { is_available: false, reason: "FailedDiscoveryCheck", message }
}

fn aggregated(bench: &mut Bench, target: &str) -> Option<AggregatedRequest> {
    let request = bench.request("GET", target, "");
    match bench.handle(&request) {
        RequestOutcome::Aggregated(request) => Some(*request),
        _ => None,
    }
}

fn answer(bench: &mut Bench, target: &str) -> (u16, Bytes) {
    let answer = bench.call("GET", target, "").0;
    (answer.code.as_u16(), answer.body)
}

#[test]
fn every_group_version_that_is_served_here_has_its_api_service() {
    let mut bench = Bench::new();
    let mut served = vec!["v1.".to_owned()];
    for group in bench.get("/apis")["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let (name, version) = (&group["name"], &version["version"]);
            served.push(format!("{}.{}", version.as_str().unwrap(), name.as_str().unwrap()));
        }
    }
    // as upstream, that of APIServices itself is always there
    served.retain(|name| name != "v1.apiregistration.k8s.io");
    served.sort();
    assert_eq!(names(&mut bench), served);
    let apps = bench.get(&format!("{API_SERVICES}/v1.apps"));
    let label = &apps["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"];
    assert_eq!(label, "onstart");
    assert_eq!(
        apps["spec"],
        json!({
            "group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15,
        })
    );
    let condition = &apps["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("Available"), &json!("True"), &json!("Local"))
    );
}

#[test]
fn the_api_services_of_definitions_come_and_go_with_their_versions() {
    let mut bench = Bench::new();
    let before = names(&mut bench);
    bench.create(DEFINITIONS, definition("ships", &["v1"]));
    bench.create(DEFINITIONS, definition("tugs", &["v1", "v1beta1"]));
    let of_group = |bench: &mut Bench| -> Vec<String> {
        names(bench).into_iter().filter(|name| !before.contains(name)).collect()
    };
    assert_eq!(of_group(&mut bench), ["v1.ships.example", "v1beta1.ships.example"]);
    let found = bench.get(&format!("{API_SERVICES}/v1.ships.example"));
    let label = &found["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"];
    assert_eq!(label, "true");
    assert_eq!(found["spec"]["groupPriorityMinimum"], 1000);
    let tugs = format!("{DEFINITIONS}/tugs.ships.example");
    let unserved = json!({"spec": definition("tugs", &["v1"])["spec"]}).to_string();
    bench.call("PATCH", &tugs, &unserved).ok();
    assert_eq!(of_group(&mut bench), ["v1.ships.example"]);
    bench.call("DELETE", &format!("{DEFINITIONS}/ships.ships.example"), "").ok();
    assert_eq!(of_group(&mut bench), ["v1.ships.example"], "the other definition has it, too");
    bench.call("DELETE", &tugs, "").ok();
    assert_eq!(of_group(&mut bench), Vec::<String>::new());
}

#[test]
fn what_a_user_does_to_those_of_this_server_is_undone() {
    let mut bench = Bench::new();
    bench.create(DEFINITIONS, definition("ships", &["v1"]));
    for name in ["v1.apps", "v1.ships.example", "v1beta1.metrics.k8s.io"] {
        let path = format!("{API_SERVICES}/{name}");
        let before = bench.get(&path);
        bench.call("DELETE", &path, "").ok();
        let again = bench.get(&path);
        assert_eq!(again["spec"], before["spec"], "{name} is made again");
        assert_ne!(again["metadata"]["uid"], before["metadata"]["uid"]);
    }
    let path = format!("{API_SERVICES}/v1.ships.example");
    let before = bench.get(&path)["spec"].clone();
    let patch = r#"{"spec": {"service": {"namespace": "default", "name": "a"}}}"#;
    bench.call("PATCH", &path, patch).ok();
    assert_eq!(bench.get(&path)["spec"], before);
    let refused = bench.call("PATCH", &format!("{API_SERVICES}/v1.apps"), patch);
    let message = refused.text();
    assert_eq!(refused.code(), 403, "{message}");
    assert!(message.contains("the engine serves apps/v1 itself"), "{message}");
}

#[test]
fn requests_go_to_the_server_once_it_answers() {
    let mut bench = Bench::new();
    assert_eq!(answer(&mut bench, &format!("{BOATS}/sails")).0, 404);
    aggregate(&mut bench);
    let unavailable = (503, Bytes::from_static(b"service unavailable\n"));
    assert_eq!(answer(&mut bench, &format!("{BOATS}/sails")), unavailable);
    assert_eq!(answer(&mut bench, BOATS), unavailable);
    record(&mut bench, Ok(discovery()));
    let request = aggregated(&mut bench, &format!("{BOATS}/namespaces/a/sails?x=y")).unwrap();
    assert_eq!(request.address, "10.88.0.7:8443".parse().unwrap());
    assert_eq!(request.server.host, "boats.default.svc");
    assert_eq!(request.server.trust, ServerTrust::Bundle(Bytes::from_static(b"CA")));
    assert_eq!(request.user.username.as_deref(), Some("tester"));
    assert!(!request.is_watch);
    let watch = aggregated(&mut bench, &format!("{BOATS}/sails?watch=true")).unwrap();
    assert!(watch.is_watch);
    for path in [BOATS, "/openapi/v3/apis/boats.example/v1"] {
        assert!(aggregated(&mut bench, path).is_some(), "{path}");
    }
    for path in ["/apis/boats.example", "/apis/boats.example/v2", "/apis/boats.example/v2/sails"] {
        assert!(aggregated(&mut bench, path).is_none(), "{path}");
    }
    record(&mut bench, Err(down()));
    assert_eq!(answer(&mut bench, &format!("{BOATS}/sails")), unavailable);
}

#[test]
fn who_may_not_does_not_reach_the_server() {
    let mut bench = Bench::new();
    aggregate(&mut bench);
    record(&mut bench, Ok(discovery()));
    let target = format!("{BOATS}/namespaces/a/sails");
    bench.as_user(UserInfo::new("ann", []), |bench| {
        assert_eq!(answer(bench, &target).0, 403);
    });
    bench.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        json!({
            "metadata": {"name": "sailor"},
            "rules": [{"apiGroups": ["boats.example"], "resources": ["sails"], "verbs": ["list"]}],
        }),
    );
    bench.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json!({
        "metadata": {"name": "sailors"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sailor"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}],
    }));
    bench.as_user(UserInfo::new("ann", []), |bench| {
        let request = aggregated(bench, &target).unwrap();
        assert_eq!(request.user.username.as_deref(), Some("ann"));
        assert_eq!(answer(bench, &format!("{target}/one")).0, 403);
    });
}

#[test]
fn discovery_shows_what_the_server_said_and_whether_that_is_stale() {
    let mut bench = Bench::new();
    aggregate(&mut bench);
    let group = bench.get("/apis/boats.example");
    assert_eq!(group["preferredVersion"]["groupVersion"], "boats.example/v1");
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let version = |bench: &mut Bench| -> Value {
        let mut request = bench.request("GET", "/apis", "");
        accept.clone_into(&mut request.accept);
        let groups: Value = serde_json::from_slice(&bench.answer(&request).body).unwrap();
        let mut items = groups["items"].as_array().unwrap().iter();
        let group = items.find(|item| item["metadata"]["name"] == "boats.example");
        group.unwrap()["versions"][0].clone()
    };
    let unknown = json!({"version": "v1", "freshness": "Stale", "resources": []});
    assert_eq!(version(&mut bench), unknown);
    record(&mut bench, Ok(discovery()));
    let current = version(&mut bench);
    assert_eq!(
        (&current["freshness"], &current["resources"][0]["resource"]),
        (&json!("Current"), &json!("sails"))
    );
    let index = bench.get("/openapi/v3");
    let url = &index["paths"]["apis/boats.example/v1"]["serverRelativeURL"];
    assert_eq!(url, "/openapi/v3/apis/boats.example/v1?hash=AB12");
    record(&mut bench, Err(down()));
    let stale = version(&mut bench);
    assert_eq!(
        (&stale["freshness"], &stale["resources"]),
        (&json!("Stale"), &current["resources"])
    );
    bench.call("DELETE", &format!("{API_SERVICES}/v1.boats.example"), "").ok();
    assert_eq!(answer(&mut bench, "/apis/boats.example").0, 404);
}

#[test]
fn a_server_is_asked_where_its_service_leads() {
    let mut bench = Bench::new();
    aggregate(&mut bench);
    let reason = |bench: &Bench| only_server(bench).endpoints.unwrap_err().reason;
    assert_eq!(only_server(&bench).endpoints.unwrap(), ["10.88.0.7:8443".parse().unwrap()]);
    assert_eq!(only_server(&bench).discovery_path(), BOATS);
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/boats";
    bench.call("PATCH", slice, r#"{"ports": [{"name": "other", "port": 1}]}"#).ok();
    let missing = only_server(&bench).endpoints.unwrap_err();
    assert_eq!(missing.reason, "MissingEndpoints");
    let says = "endpointslices for service/boats in \"default\" have no addresses with port name \"https\"";
    assert_eq!(missing.message, says);
    bench.call("DELETE", slice, "").ok();
    assert_eq!(reason(&bench), "EndpointsNotFound");
    let service = "/api/v1/namespaces/default/services/boats";
    bench.call("PATCH", service, r#"{"spec": {"ports": [{"port": 444}]}}"#).ok();
    assert_eq!(reason(&bench), "ServicePortError");
    bench.call("DELETE", service, "").ok();
    assert_eq!(reason(&bench), "ServiceNotFound");
}

#[test]
fn another_server_may_take_over_metrics_and_gives_them_back() {
    let mut bench = Bench::new();
    aggregate(&mut bench);
    bench.call("DELETE", &format!("{API_SERVICES}/v1.boats.example"), "").ok();
    let path = format!("{API_SERVICES}/v1beta1.metrics.k8s.io");
    let patch = json!({"spec": {
        "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "boats"},
    }});
    bench.call("PATCH", &path, &patch.to_string()).ok();
    let list = json!({
        "kind": "APIResourceList", "groupVersion": "metrics.k8s.io/v1beta1", "resources": [],
    });
    let said = ServerDiscovery::parse("metrics.k8s.io/v1beta1", list.to_string().as_bytes());
    record(&mut bench, Ok(said.unwrap()));
    let nodes = "/apis/metrics.k8s.io/v1beta1/nodes";
    let request = aggregated(&mut bench, nodes).unwrap();
    assert_eq!(request.server.trust, ServerTrust::Anything);
    // the next start of the engine leaves it
    let pending = bench.api.bootstrap(bench.now).unwrap();
    bench.committer.commit_pending().unwrap();
    drop(pending);
    assert!(aggregated(&mut bench, nodes).is_some());
    bench.call("DELETE", &path, "").ok();
    let request = bench.request("GET", nodes, "");
    assert!(matches!(bench.handle(&request), RequestOutcome::ResourceMetrics(_)));
}
