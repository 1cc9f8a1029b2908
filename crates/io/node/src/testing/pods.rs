//! Objects for tests.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::v1alpha1::{PodRestart, PodRestartSpec, Rung};

/// A container with an image that is there.
pub(crate) fn container(name: &str) -> Container {
    Container {
        name: name.to_owned(),
        image: Some("present".to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        termination_message_path: Some("/dev/termination-log".to_owned()),
        ..Container::default()
    }
}

/// A pod on node `node-a` with these containers.
pub(crate) fn pod(name: &str, containers: Vec<Container>) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            node_name: Some("node-a".to_owned()),
            restart_policy: Some("Always".to_owned()),
            termination_grace_period_seconds: Some(30),
            containers,
            ..PodSpec::default()
        }),
        status: Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() }),
    }
}

/// The same with these volumes, which the first container mounts: what nobody mounts is not made
/// ready.
pub(crate) fn with_volumes(mut pod: Pod, volumes: serde_json::Value) -> Pod {
    let volumes: Vec<Volume> = serde_json::from_value(volumes).unwrap();
    let spec = pod.spec.as_mut().unwrap();
    let mounts = volumes.iter().map(|volume| VolumeMount {
        name: volume.name.clone(),
        mount_path: format!("/{}", volume.name),
        ..VolumeMount::default()
    });
    spec.containers[0].volume_mounts = Some(mounts.collect());
    spec.volumes = Some(volumes);
    pod
}

/// A request to restart a pod.
pub(crate) fn restart(name: &str, pod: &str, rung: Rung) -> PodRestart {
    PodRestart {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        spec: PodRestartSpec {
            pod_name: pod.to_owned(),
            rung: Some(rung),
            ..PodRestartSpec::default()
        },
        ..PodRestart::default()
    }
}
