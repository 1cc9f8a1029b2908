//! How much pods, Services and claims use of a quota, and which of them it covers.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use rekindle_quota::{CountedObject, CountedResource, QuotaTerms, counts_for_now, unmet_demands};
use rekindle_types::held::HeldPod;
use rekindle_types::pods::AnyPod;
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

const NOW: Tick = Tick::from_secs(1_795_000_000);

fn terms(spec: Value) -> QuotaTerms {
    let quota: ResourceQuota =
        serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
    QuotaTerms::of_quota(&quota)
}

/// A quota that bounds all of these amounts.
fn bounding(names: &[&str]) -> QuotaTerms {
    let hard: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!("100"))).collect();
    terms(json!({ "hard": hard }))
}

fn pod(spec: Value, status: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": status}))
        .unwrap()
}

fn usage_of<P: AnyPod>(
    terms: &QuotaTerms,
    resource: CountedResource<'_>,
    object: CountedObject<'_, P>,
) -> String {
    let usage = terms.usage_of(resource, object, NOW);
    let shown = usage.iter().map(|(name, amount)| format!("{name}={amount}"));
    shown.collect::<Vec<_>>().join(" ")
}

/// What a pod uses; the same however it is held.
fn usage_of_pod(terms: &QuotaTerms, pod: &Pod) -> String {
    let whole = usage_of(terms, CountedResource::PODS, CountedObject::Pod(pod));
    let held = HeldPod::from(pod);
    assert_eq!(usage_of(terms, CountedResource::PODS, CountedObject::Pod(&held)), whole);
    assert_eq!(unmet_demands(terms, &held), unmet_demands(terms, pod));
    whole
}

#[test]
fn a_pod_uses_what_its_containers_need_at_one_time() {
    let all = bounding(&[
        "pods",
        "count/pods",
        "cpu",
        "requests.cpu",
        "limits.cpu",
        "requests.memory",
        "limits.memory",
        "requests.ephemeral-storage",
        "requests.nvidia.com/gpu",
        "hugepages-2Mi",
        "requests.hugepages-2Mi",
        "secrets",
        "services",
    ]);
    let container = |name: &str, resources: Value| json!({"name": name, "resources": resources});
    for (spec, expected) in [
        (json!({"containers": [container("a", json!({}))]}), "count/pods=1 pods=1"),
        (
            json!({"containers": [container("a", json!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1"}})),
                container("b", json!({"requests": {"cpu": "200m", "nvidia.com/gpu": "2"}}))]}),
            "count/pods=1 cpu=300m limits.cpu=1 pods=1 requests.cpu=300m requests.memory=1Gi requests.nvidia.com/gpu=2",
        ),
        // init containers count by their maximum, sidecars with the others
        (
            json!({"containers": [container("a", json!({"requests": {"cpu": "100m"}}))], "initContainers": [
                container("i", json!({"requests": {"cpu": "800m"}, "limits": {"cpu": "900m"}}))]}),
            "count/pods=1 cpu=800m limits.cpu=900m pods=1 requests.cpu=800m",
        ),
        (
            json!({"containers": [container("a", json!({"requests": {"cpu": "300m"}}))], "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "300m"}}}]}),
            "count/pods=1 cpu=600m pods=1 requests.cpu=600m",
        ),
        // overhead is asked for on top; it is added to limits that there are
        (
            json!({"overhead": {"cpu": "50m", "memory": "1Gi"}, "containers": [
                container("a", json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}))]}),
            "count/pods=1 cpu=150m limits.cpu=250m pods=1 requests.cpu=150m requests.memory=1Gi",
        ),
        // what the pod asks for as a whole takes the place of the sum
        (
            json!({"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}, "containers": [
                container("a", json!({"requests": {"cpu": "100m"}, "limits": {"memory": "100Mi"}}))]}),
            "count/pods=1 cpu=2 limits.memory=1Gi pods=1 requests.cpu=2",
        ),
        (
            json!({"containers": [container("a", json!({"requests": {"hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}))]}),
            "count/pods=1 hugepages-2Mi=4Mi pods=1 requests.hugepages-2Mi=4Mi",
        ),
    ] {
        assert_eq!(usage_of_pod(&all, &pod(spec.clone(), json!({}))), expected, "{spec}");
    }
}

#[test]
fn a_pod_that_is_over_is_counted_by_its_number_alone() {
    let all = bounding(&["pods", "count/pods", "requests.cpu"]);
    let spec = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]});
    for (phase, expected) in [
        ("Pending", "count/pods=1 pods=1 requests.cpu=1"),
        ("Running", "count/pods=1 pods=1 requests.cpu=1"),
        ("Unknown", "count/pods=1 pods=1 requests.cpu=1"),
        ("Succeeded", "count/pods=1"),
        ("Failed", "count/pods=1"),
    ] {
        let pod = pod(spec.clone(), json!({"phase": phase}));
        assert_eq!(usage_of_pod(&all, &pod), expected, "{phase}");
    }
}

#[test]
fn a_pod_that_does_not_end_in_its_time_stops_counting() {
    let mut stuck = pod(json!({"containers": []}), json!({"phase": "Running"}));
    stuck.metadata.deletion_timestamp = Some(NOW.to_time());
    assert!(counts_for_now(&stuck, NOW + TickDuration::from_secs(99)), "it has no time of its own");
    stuck.metadata.deletion_grace_period_seconds = Some(30);
    assert!(counts_for_now(&stuck, NOW + TickDuration::from_secs(30)));
    assert!(!counts_for_now(&stuck, NOW + TickDuration::from_secs(31)));
}

#[test]
fn while_a_resize_is_under_way_the_larger_amount_counts() {
    let all = bounding(&["requests.cpu", "limits.cpu"]);
    let spec = |cpu: &str| json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}]});
    let status = |cpu: &str| {
        json!({"containerStatuses": [{"name": "a", "ready": true, "restartCount": 0, "image": "", "imageID": "",
            "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}]})
    };
    assert_eq!(usage_of_pod(&all, &pod(spec("2"), status("1"))), "limits.cpu=2 requests.cpu=2");
    assert_eq!(usage_of_pod(&all, &pod(spec("1"), status("3"))), "limits.cpu=3 requests.cpu=3");
}

#[test]
fn services_and_claims_use_what_they_are_given_or_ask_for() {
    let all = bounding(&[
        "services",
        "count/services",
        "services.nodeports",
        "services.loadbalancers",
        "persistentvolumeclaims",
        "requests.storage",
        "gold.storageclass.storage.k8s.io/requests.storage",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
    ]);
    let service = |spec: Value| -> String {
        let service: Service =
            serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        usage_of::<Pod>(&all, CountedResource::SERVICES, CountedObject::Service(&service))
    };
    let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30000}]);
    assert_eq!(
        service(json!({"type": "ClusterIP", "ports": ports})),
        "count/services=1 services=1"
    );
    assert_eq!(
        service(json!({"type": "NodePort", "ports": ports})),
        "count/services=1 services=1 services.nodeports=2"
    );
    assert_eq!(
        service(
            json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false})
        ),
        "count/services=1 services=1 services.loadbalancers=1 services.nodeports=1"
    );
    let claim = |metadata: Value, class: Value, status: Value| -> String {
        let spec =
            json!({"storageClassName": class, "resources": {"requests": {"storage": "1.5"}}});
        let claim: PersistentVolumeClaim =
            serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status}))
                .unwrap();
        usage_of::<Pod>(&all, CountedResource::CLAIMS, CountedObject::Claim(&claim))
    };
    assert_eq!(
        claim(json!({}), Value::Null, json!({})),
        "persistentvolumeclaims=1 requests.storage=2"
    );
    assert_eq!(
        claim(json!({}), json!("gold"), json!({"allocatedResources": {"storage": "3Gi"}})),
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/requests.storage=3Gi \
         persistentvolumeclaims=1 requests.storage=3Gi"
    );
    let annotated = json!({"annotations": {"volume.beta.kubernetes.io/storage-class": "lead"}});
    assert_eq!(
        claim(annotated, json!("gold"), json!({})),
        "persistentvolumeclaims=1 requests.storage=2"
    );
}

#[test]
fn claims_are_covered_by_the_attributes_classes_that_they_have_or_shall_have() {
    let claim = |wanted: Value, status: Value| -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": {}, "spec": {"volumeAttributesClassName": wanted}, "status": status})).unwrap()
    };
    let changing = json!({"currentVolumeAttributesClassName": "slow", "modifyVolumeStatus": {
        "status": "InProgress", "targetVolumeAttributesClassName": "fast"}});
    let (none, fast, changes) = (
        claim(Value::Null, json!({})),
        claim(json!("fast"), json!({})),
        claim(json!("fast"), changing),
    );
    for (operator, values, covered) in [
        ("In", json!(["fast"]), [false, true, true]),
        ("In", json!(["slow"]), [false, false, true]),
        ("NotIn", json!(["fast"]), [true, false, true]),
        ("Exists", json!([]), [false, true, true]),
        ("DoesNotExist", json!([]), [true, false, false]),
        ("Odd", json!([]), [false, false, false]),
    ] {
        let terms = terms(
            json!({"hard": {"persistentvolumeclaims": "1"}, "scopeSelector": {"matchExpressions": [
            {"scopeName": "VolumeAttributesClass", "operator": operator, "values": values}]}}),
        );
        let is_covered =
            |claim| terms.covers::<Pod>(CountedResource::CLAIMS, &CountedObject::Claim(claim));
        assert_eq!([&none, &fast, &changes].map(is_covered), covered, "{operator} {values}");
    }
}

#[test]
fn a_quota_with_a_scope_covers_neither_services_nor_what_is_counted_alone() {
    let names = ["services", "secrets", "pods"];
    let hard: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!("1"))).collect();
    let scoped = terms(json!({"hard": hard, "scopes": ["NotTerminating"]}));
    let service = Service::default();
    assert!(!scoped.covers::<Pod>(CountedResource::SERVICES, &CountedObject::Service(&service)));
    assert!(!scoped.covers::<Pod>(CountedResource::of_core("secrets"), &CountedObject::Other));
    let pod = pod(json!({"containers": []}), json!({}));
    assert!(scoped.covers(CountedResource::PODS, &CountedObject::Pod(&pod)));
    assert!(!scoped.covers::<Pod>(CountedResource::of_core("configmaps"), &CountedObject::Other));
}
