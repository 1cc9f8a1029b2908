use rekindle_types::Tick;
use serde_json::{Value, json};

use super::*;
use crate::identity::ClientIdentity;
use crate::registry::strategy::{ResizePart, SubresourceStrategy};
use crate::registry::{ApiKind, RequestContext};

const CONTEXT: RequestContext<'_> =
    RequestContext { now: Tick::ZERO, identity: &ClientIdentity::Anonymous };

fn pod(spec: Value) -> Pod {
    let mut pod: Pod =
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
    pod.set_defaults();
    pod.prepare_for_create(&CONTEXT);
    pod
}

fn prepare(new: &mut Pod, old: &Pod) {
    SubresourceStrategy::<ResizePart>::prepare_part(new, old, &CONTEXT);
}

/// A pod with an init container, a sidecar and a container, which have these resources.
fn spec(init: Value, sidecar: Value, main: Value) -> Value {
    json!({
        "initContainers": [
            {"name": "init", "image": "i", "resources": init},
            {"name": "side", "image": "i", "restartPolicy": "Always", "resources": sidecar},
        ],
        "containers": [{"name": "main", "image": "i", "resources": main}],
    })
}

fn cpu(request: &str) -> Value {
    json!({"requests": {"cpu": request}})
}

/// The errors of a resize from one spec to another, and whether anything came of it.
fn resize(from: Value, to: Value) -> (Vec<String>, bool) {
    let old = pod(from);
    let mut new = pod(to);
    new.set_defaults();
    prepare(&mut new, &old);
    let errors = new
        .validate()
        .into_iter()
        .chain(SubresourceStrategy::<ResizePart>::validate_part(&new, &old));
    (
        errors.map(|error| error.to_string()).collect(),
        new.metadata.generation != old.metadata.generation,
    )
}

#[test]
fn cpu_and_memory_of_containers_sidecars_and_the_pod_may_change() {
    let from =
        spec(cpu("1"), cpu("100m"), json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}));
    let to = spec(
        cpu("1"),
        cpu("200m"),
        json!({"requests": {"cpu": "2"}, "limits": {"memory": "64Mi", "cpu": "3"}}),
    );
    assert_eq!(resize(from.clone(), to), (Vec::new(), true));
    assert_eq!(resize(from.clone(), from), (Vec::new(), false));
    let whole = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}, "containers": [{"name": "c", "image": "i"}]});
    assert_eq!(resize(whole("1"), whole("2")), (Vec::new(), true));
}

#[test]
fn what_is_not_a_resize_is_refused_in_upstreams_words() {
    let none = || json!({});
    let main = |resources: Value| spec(none(), none(), resources);
    let cases = [
        (
            main(none()),
            main(cpu("1")),
            "spec: Invalid value: \"BestEffort\": Pod QOS Class may not change as a result of resizing",
        ),
        (
            spec(none(), cpu("1"), cpu("1")),
            spec(none(), cpu("1"), none()),
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
        ),
        (
            main(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})),
            main(cpu("1")),
            "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
        ),
        (
            spec(cpu("1"), none(), cpu("1")),
            spec(cpu("2"), none(), cpu("1")),
            "spec.initContainers[0].resources: Forbidden: resources for non-sidecar init containers are immutable",
        ),
        (
            main(cpu("1")),
            main(json!({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}})),
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
        (
            main(cpu("1")),
            json!({"containers": [{"name": "other", "image": "i", "resources": cpu("1")}]}),
            "spec.initContainers: Forbidden: initContainers may not be added or removed on resize",
        ),
        (
            main(json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}})),
            main(json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Mi"}})),
            "spec.containers[0].resources.requests: Invalid value: \"1Gi\": must be less than or equal to memory limit of 1Mi",
        ),
    ];
    for (from, to, expected) in cases {
        let (errors, _) = resize(from, to.clone());
        assert!(errors.iter().any(|error| error == expected), "{to}\n{errors:#?}");
    }
}

#[test]
fn what_else_a_resize_changes_is_dropped() {
    let old = pod(spec(json!({}), json!({}), cpu("1")));
    let mut new = pod(spec(json!({}), json!({}), cpu("2")));
    new.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    let changed = new.spec.as_mut().unwrap();
    changed.containers[0].image = Some("other".to_owned());
    changed.node_name = Some("elsewhere".to_owned());
    prepare(&mut new, &old);
    assert_eq!(new.metadata.labels, None);
    let mut spec = new.spec.clone().unwrap();
    spec.containers[0].resources.clone_from(&old.spec.as_ref().unwrap().containers[0].resources);
    assert_eq!(Some(spec), old.spec);
}

#[test]
fn static_pods_are_not_resized() {
    let mut old = pod(spec(json!({}), json!({}), cpu("1")));
    old.metadata.annotations =
        Some([("kubernetes.io/config.mirror".to_owned(), "x".to_owned())].into());
    let mut new = pod(spec(json!({}), json!({}), cpu("2")));
    prepare(&mut new, &old);
    let errors: Vec<String> = SubresourceStrategy::<ResizePart>::validate_part(&new, &old)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(errors, [": Forbidden: static pods cannot be resized"]);
}
