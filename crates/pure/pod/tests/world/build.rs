//! Pods for tests.

use k8s_openapi::api::core::v1::{
    Container, ImageVolumeSource, Pod, PodReadinessGate, PodSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::ephemeral;

/// A pod `default/web-0` with UID `u1`.
pub fn pod(restart_policy: &str) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some("web-0".to_owned()),
            namespace: Some("default".to_owned()),
            uid: Some("u1".to_owned()),
            generation: Some(1),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            restart_policy: Some(restart_policy.to_owned()),
            ..PodSpec::default()
        }),
        status: None,
    }
}

pub fn container(name: &str) -> Container {
    Container {
        name: name.to_owned(),
        image: Some("demo:1".to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        ..Container::default()
    }
}

/// An ephemeral container, as `pods/ephemeralcontainers` adds it; it may mount a volume.
pub fn add_ephemeral(pod: &mut Pod, name: &str, target: Option<&str>, volume: Option<&str>) {
    let mount = volume.map(|volume| VolumeMount {
        name: volume.to_owned(),
        mount_path: "/mnt".to_owned(),
        ..VolumeMount::default()
    });
    let added = Container { volume_mounts: mount.map(|mount| vec![mount]), ..container(name) };
    let ephemeral = ephemeral::ephemeral_container(added, target.map(str::to_owned));
    spec(pod).ephemeral_containers.get_or_insert_default().push(ephemeral);
    pod.metadata.generation = pod.metadata.generation.map(|generation| generation + 1);
}

pub trait PodExt: Sized {
    fn with(self, name: &str) -> Self;
    fn with_init(self, name: &str) -> Self;
    fn with_sidecar(self, name: &str) -> Self;
    fn with_container(self, container: Container) -> Self;
    fn with_init_container(self, container: Container) -> Self;
    fn with_grace(self, seconds: i64) -> Self;
    fn with_deadline(self, seconds: i64) -> Self;
    fn with_gate(self, condition: &str) -> Self;
    /// A volume of this image, which the container mounts.
    fn with_image_volume(self, by: &mut Container, image: &str, policy: Option<&str>) -> Self;
}

impl PodExt for Pod {
    fn with(self, name: &str) -> Self {
        self.with_container(container(name))
    }

    fn with_init(self, name: &str) -> Self {
        self.with_init_container(container(name))
    }

    fn with_sidecar(self, name: &str) -> Self {
        let restart_policy = Some("Always".to_owned());
        self.with_init_container(Container { restart_policy, ..container(name) })
    }

    fn with_container(mut self, container: Container) -> Self {
        spec(&mut self).containers.push(container);
        self
    }

    fn with_init_container(mut self, container: Container) -> Self {
        spec(&mut self).init_containers.get_or_insert_default().push(container);
        self
    }

    fn with_grace(mut self, seconds: i64) -> Self {
        spec(&mut self).termination_grace_period_seconds = Some(seconds);
        self
    }

    fn with_deadline(mut self, seconds: i64) -> Self {
        spec(&mut self).active_deadline_seconds = Some(seconds);
        self
    }

    fn with_image_volume(mut self, by: &mut Container, image: &str, policy: Option<&str>) -> Self {
        let name = "data".to_owned();
        let mount = VolumeMount {
            name: name.clone(),
            mount_path: "/data".to_owned(),
            ..VolumeMount::default()
        };
        by.volume_mounts = Some(vec![mount]);
        let source = ImageVolumeSource {
            reference: Some(image.to_owned()),
            pull_policy: policy.map(str::to_owned),
        };
        let volume = Volume { name, image: Some(source), ..Volume::default() };
        spec(&mut self).volumes = Some(vec![volume]);
        self
    }

    fn with_gate(mut self, condition: &str) -> Self {
        let gate = PodReadinessGate { condition_type: condition.to_owned() };
        spec(&mut self).readiness_gates.get_or_insert_default().push(gate);
        self
    }
}

fn spec(pod: &mut Pod) -> &mut PodSpec {
    pod.spec.as_mut().expect("a pod of ours has a spec")
}
