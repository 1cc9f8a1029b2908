use k8s_openapi::api::core::v1::Pod;
use rekindle_cri_restart::{PodRuntime, RestartAction, refusal, runtime_uid};
use rekindle_types::spared_pods::RESTART_INCLUDES_ANNOTATION;
use rekindle_types::v1alpha1::PodRestartPhase;
use serde_json::{Value, json};

use crate::world::{NodeWorld, pod, request};

fn with_metadata(mut pod: Pod, metadata: Value) -> Pod {
    let mut whole = serde_json::to_value(&pod).unwrap();
    for (key, value) in metadata.as_object().unwrap() {
        whole["metadata"][key] = value.clone();
    }
    pod = serde_json::from_value(whole).unwrap();
    pod
}

#[test]
fn each_refusal_names_the_pod_and_what_to_do() {
    let devices = json!({"containers": [{"name": "app",
        "resources": {"limits": {"example.com/gpu": "1", "cpu": "1"}}}]});
    let scratch = json!({"volumes": [{"name": "scratch", "emptyDir": {}}]});
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "h", "kubernetes.io/config.hash": "h"}});
    let ended: Pod = {
        let mut pod = pod(json!({}));
        pod.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
        pod
    };
    for (request, pod, expected) in [
        (json!({}), pod(json!({"restartPolicy": "Never"})), "restartPolicy Never"),
        (json!({}), pod(json!({"restartPolicy": "OnFailure"})), "restart-includes: OnFailure"),
        (
            json!({"rung": "Containers"}),
            pod(json!({"restartPolicy": "OnFailure"})),
            "ask for rung Pod or Recreate",
        ),
        (
            json!({}),
            pod(json!({"containers": [{"name": "app", "restartPolicy": "Never"}]})),
            "container app of pod web has restartPolicy Never",
        ),
        (json!({}), ended, "pod web has ended (Succeeded)"),
        (json!({}), pod(devices.clone()), "rekindle.dev/restart-includes: Devices"),
        (json!({}), pod(json!({"resourceClaims": [{"name": "gpu"}]})), "has devices"),
        (json!({}), pod(json!({"hostNetwork": true})), "restart-includes: HostNetwork"),
        (json!({}), with_metadata(pod(json!({})), mirror), "restart-includes: Static"),
        (json!({"podUID": "u0"}), pod(json!({})), "has UID u1, the request is for u0"),
        (
            json!({}),
            with_metadata(pod(json!({})), json!({"namespace": "kube-system"})),
            "no pod of namespace kube-system",
        ),
        (
            json!({}),
            with_metadata(pod(json!({})), json!({"namespace": "rekindle-system"})),
            "no pod of namespace rekindle-system",
        ),
        (
            json!({}),
            with_metadata(pod(json!({})), json!({"deletionTimestamp": "1970-01-01T00:01:41Z"})),
            "is being deleted",
        ),
        (
            json!({"rung": "Container", "containerName": "setup"}),
            pod(json!({})),
            "container setup of pod web is an init container, which runs once and before the others: rung Pod runs it again",
        ),
        (
            json!({"rung": "Container", "containerName": "ap"}),
            pod(json!({})),
            "pod web has no container ap: it has app, side, proxy, logs",
        ),
    ] {
        let mut world = NodeWorld::new(crate::world::request(request), pod);
        world.agent();
        assert_eq!(world.phase(), Some(PodRestartPhase::Refused), "{expected}");
        assert!(world.message().contains(expected), "{expected}: {}", world.message());
        assert_eq!(world.restart.status.as_ref().unwrap().started_at, None);
        assert_eq!(world.agent(), RestartAction::Leave);
        assert_eq!(world.calls, [""; 0]);
    }
    for (request, pod) in [
        (json!({"rung": "Containers", "emptyDirs": null}), pod(devices)),
        (json!({"rung": "Containers", "emptyDirs": null}), pod(scratch)),
        (json!({"emptyDirs": "Clear"}), pod(json!({}))),
    ] {
        assert_eq!(refusal(&crate::world::request(request), &pod, None), None);
    }
}

#[test]
fn what_is_named_is_restarted_and_a_static_pod_is_known_by_its_hash() {
    let annotations = json!({"annotations": {"kubernetes.io/config.mirror": "h", "kubernetes.io/config.hash": "h"}});
    let pod = with_metadata(pod(json!({"hostNetwork": true})), annotations);
    assert_eq!(runtime_uid(&pod), Some("h"));
    let mut restart = request(json!({}));
    let annotations = restart.metadata.annotations.get_or_insert_default();
    annotations.insert(RESTART_INCLUDES_ANNOTATION.to_owned(), "Static, HostNetwork".to_owned());
    assert_eq!(refusal(&restart, &pod, None), None);
}

#[test]
fn a_pod_without_a_sandbox_that_runs_is_not_begun() {
    for (keep, expected) in [(false, "shows no sandbox of pod web"), (true, "is ready")] {
        let mut world = NodeWorld::new(request(json!({})), pod(json!({})));
        world.end_sandbox("s1");
        if !keep {
            world.runtime = PodRuntime::default();
        }
        world.agent();
        assert_eq!(world.phase(), Some(PodRestartPhase::Refused));
        assert!(world.message().contains(expected), "{}", world.message());
    }
}

#[test]
fn a_request_that_is_taken_up_too_late_is_not_begun() {
    let mut world = NodeWorld::new(request(json!({"deadlineSeconds": 10})), pod(json!({})));
    world.pass(10);
    world.agent();
    assert_eq!(world.phase(), Some(PodRestartPhase::Failed));
    assert_eq!(world.message(), "its deadline of 10s passed before it was begun");
}

#[test]
fn a_pod_of_which_a_container_has_finished_is_not_begun() {
    let mut world = NodeWorld::new(request(json!({})), pod(json!({"restartPolicy": "OnFailure"})));
    let annotations = world.restart.metadata.annotations.get_or_insert_default();
    annotations.insert(RESTART_INCLUDES_ANNOTATION.to_owned(), "OnFailure".to_owned());
    let mut pod = serde_json::to_value(&world.pod).unwrap();
    pod["status"]["containerStatuses"][1]["state"] = json!({"terminated": {"exitCode": 0}});
    world.pod = serde_json::from_value(pod).unwrap();
    world.agent();
    let expected = "container side of pod web has finished its work: in a new sandbox it would begin again; ask for Recreate";
    assert_eq!(world.message(), expected);
    assert_eq!(world.phase(), Some(PodRestartPhase::Refused));
}
