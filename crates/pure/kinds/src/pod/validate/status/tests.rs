use serde_json::{Value, json};

use super::*;

fn pod(status: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
            "containers": [{"name": "c", "image": "i", "resources": {
                "requests": {"example.com/disk": "1"},
                "claims": [{"name": "gpu"}, {"name": "gpu", "request": "r"}],
            }}],
            "initContainers": [{"name": "i", "image": "i"}],
        },
        "status": status,
    }))
    .unwrap()
}

fn container(name: &str, more: &Value) -> Value {
    let mut status =
        json!({"name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0});
    status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    status
}

/// What is wrong with a status of a pod that had another one.
fn wrong(status: &Value) -> Vec<String> {
    let old = pod(&json!({"nominatedNodeName": "Of_Old"}));
    pod_status(&pod(status), &old).iter().map(ToString::to_string).collect()
}

#[test]
fn what_nodes_say_of_their_pods_is_taken() {
    let healthy = json!({"resources": [{"resourceID": "a", "health": "Healthy"}, {"resourceID": "b"
        , "health": "Unknown"}]});
    let named = |name: &str| {
        let mut device = healthy.clone();
        device["name"] = json!(name);
        device
    };
    let devices = [named("example.com/disk"), named("claim:gpu"), named("claim:gpu/r")];
    let user = json!({"linux": {"uid": 1000, "gid": 0, "supplementalGroups": [1, 2]}});
    for status in [
        json!({}),
        json!({"nominatedNodeName": "Of_Old"}),
        json!({"nominatedNodeName": ""}),
        json!({"conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "example.com/gate", "status": "False"},
        ]}),
        json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]}),
        json!({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}]}),
        json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu-x"}]}),
        json!({"containerStatuses": [
            container("c", &json!({"user": user, "allocatedResourcesStatus": devices})),
            // of a container that the spec does not have nothing is known
            container("gone", &json!({"allocatedResourcesStatus": [named("any")]})),
        ]}),
    ] {
        assert_eq!(wrong(&status), [""; 0], "{status}");
    }
}

#[test]
fn what_no_node_would_say_is_refused() {
    let user = json!({"linux": {"uid": -1, "gid": 1, "supplementalGroups": [-2]}});
    let twice =
        json!([{"resourceID": "a", "health": "Healthy"}, {"resourceID": "a", "health": "So so"}]);
    let devices = json!([{"name": "cpu", "resources": twice}, {"name": "claim:gpu/s"}]);
    for (status, expected) in [
        (
            json!({"conditions": [{"type": "Ready", "status": "True"}, {"type": "a b", "status": "True"}]}),
            &["status.conditions[1].Type: Invalid value: \"a b\": name part must consist"][..],
        ),
        (
            json!({"nominatedNodeName": "Upper"}),
            &["status.nominatedNodeName: Invalid value: \"Upper\": a lowercase RFC 1123 subdomain"],
        ),
        (
            json!({"podIPs": [{"ip": "10.0.0.2"}, {"ip": "10.0.0.2"}, {"ip": "nowhere"}]}),
            &[
                "status.podIPs[2]: Invalid value: \"nowhere\": must be a valid IP address",
                "status.podIPs: Invalid value: [{\"ip\":\"10.0.0.2\"},{\"ip\":\"10.0.0.2\"},{\"ip\":\"nowhere\"}]: \
                 may specify no more than one IP for each IP family",
                "status.podIPs[1]: Duplicate value: \"10.0.0.2\"",
            ],
        ),
        (
            json!({"hostIP": "10.0.0.2", "hostIPs": [{"ip": "10.0.0.1"}]}),
            &["status.hostIPs[0].ip: Invalid value: \"10.0.0.1\": must be equal to `hostIP`"],
        ),
        (
            json!({"resourceClaimStatuses": [{"name": "a"}, {"name": "gpu", "resourceClaimName": "-"}, {"name": "gpu"}]}),
            &[
                "status.resourceClaimStatuses[0].name: Invalid value: \"a\": must match the name of an entry",
                "status.resourceClaimStatuses[1].resourceClaimName: Invalid value: \"-\"",
                "status.resourceClaimStatuses[2].name: Duplicate value: \"gpu\"",
            ],
        ),
        (
            json!({"initContainerStatuses": [container("i", &json!({"user": user}))]}),
            &[
                "status.initContainerStatuses[0].linux.uid: Invalid value: -1",
                "status.initContainerStatuses[0].linux.supplementalGroups[0]: Invalid value: -2",
            ],
        ),
        (
            json!({"containerStatuses": [container("c", &json!({"allocatedResourcesStatus": devices}))]}),
            &[
                "status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: \"cpu\": must match one of the \
                 container's resource requests",
                "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].health: Unsupported value: \"So so\"",
                "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID: Duplicate value: \"a\"",
                "status.containerStatuses[0].allocatedResourcesStatus[1].name: Invalid value: \"claim:gpu/s\"",
            ],
        ),
        (
            json!({"ephemeralContainerStatuses": [container("e", &json!({"allocatedResourcesStatus": devices}))]}),
            &[
                "status.ephemeralContainerStatuses[0].allocatedResourcesStatus: Forbidden: must not be specified",
            ],
        ),
    ] {
        let wrong = wrong(&status);
        assert_eq!(wrong.len(), expected.len(), "{status}: {wrong:#?}");
        for (wrong, expected) in wrong.iter().zip(expected) {
            assert!(wrong.starts_with(expected), "{wrong}\n{expected}");
        }
    }
}
