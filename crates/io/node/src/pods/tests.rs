//! The whole agent with the real pod core, against a fake API, runtime and network.
//!
//! Time is virtual: with `start_paused` a wait in the agent ends as soon as nothing else can go on,
//! in no time, and never while file system work is under way on another thread. So hours pass in a
//! test without anybody waiting for them. A test that wants time to pass counts the renewals of the
//! node's lease, one every ten seconds.

mod crashes;
mod ending;
mod ephemeral;
mod eviction;
mod health;
mod host_ports;
mod images;
mod namespaces;
mod placement;
mod resizes;
mod restarts;
mod running;
mod shutdown;
mod sysctls;
mod tokens;
mod users;

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, Pod, Volume, VolumeMount};
use serde_json::{Value, json};

use crate::testing::{World, pod};

/// How the API shows a container.
fn shown(world: &World, pod: &str, container: &str) -> Value {
    let status = world.status(pod);
    let statuses = status["containerStatuses"].as_array().cloned().unwrap_or_default();
    let of_name = |status: &Value| status["name"] == json!(container);
    statuses.into_iter().find(of_name).unwrap_or_default()
}

/// The messages of all events of this reason.
fn events(world: &World, reason: &str) -> Vec<String> {
    let events = world.api.list("events").into_iter();
    let of_reason = events.filter(|event| event["reason"] == json!(reason));
    of_reason.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Where on the host the emptyDir of container `app` lies.
fn scratch_of_app(world: &World) -> PathBuf {
    let mounts = world.machine.spec("app").mounts;
    let scratch = mounts.iter().find(|mount| mount.destination.ends_with("scratch"));
    scratch.unwrap().source.host_path().unwrap().to_owned()
}

/// A pod whose containers all mount one emptyDir at /scratch.
fn pod_with_scratch(name: &str, containers: Vec<Container>) -> Pod {
    let mut pod = pod(name, containers);
    let spec = pod.spec.as_mut().unwrap();
    spec.volumes = Some(vec![Volume {
        name: "scratch".to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }]);
    for container in &mut spec.containers {
        container.volume_mounts = Some(vec![VolumeMount {
            name: "scratch".to_owned(),
            mount_path: "/scratch".to_owned(),
            ..VolumeMount::default()
        }]);
    }
    pod
}
