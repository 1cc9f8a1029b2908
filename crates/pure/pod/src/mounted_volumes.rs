//! Which volumes of a pod its containers use. The others are never made ready, and what is wrong
//! with them keeps nobody from starting. Source: kubelet, `GetPodVolumeNames`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EnvVar, Pod, PodSpec, Volume, VolumeDevice, VolumeMount};

/// The volumes of a pod that a container uses.
pub fn mounted(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let names = pod.spec.as_ref().map(mounted_volumes).unwrap_or_default();
    let all = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    all.filter(move |volume| names.contains(volume.name.as_str()))
}

/// The names of the volumes that a container of any kind mounts, has as a device, or reads its
/// environment from.
pub fn mounted_volumes(spec: &PodSpec) -> BTreeSet<&str> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let of_containers = containers.flat_map(|container| {
        let uses = (&container.volume_mounts, &container.volume_devices, &container.env);
        names(uses.0.as_deref(), uses.1.as_deref(), uses.2.as_deref())
    });
    let of_ephemeral = spec.ephemeral_containers.iter().flatten().flat_map(|container| {
        let uses = (&container.volume_mounts, &container.volume_devices, &container.env);
        names(uses.0.as_deref(), uses.1.as_deref(), uses.2.as_deref())
    });
    of_containers.chain(of_ephemeral).collect()
}

fn names<'a>(
    mounts: Option<&'a [VolumeMount]>,
    devices: Option<&'a [VolumeDevice]>,
    env: Option<&'a [EnvVar]>,
) -> impl Iterator<Item = &'a str> {
    let of_mounts = mounts.unwrap_or_default().iter().map(|mount| mount.name.as_str());
    let of_devices = devices.unwrap_or_default().iter().map(|device| device.name.as_str());
    let of_env = env.unwrap_or_default().iter().filter_map(|variable| {
        let selector = variable.value_from.as_ref()?.file_key_ref.as_ref()?;
        Some(selector.volume_name.as_str())
    });
    of_mounts.chain(of_devices).chain(of_env)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_is_used_by_a_mount_a_device_or_a_file_of_variables() {
        let mount = |name: &str| json!([{ "name": name, "mountPath": "/m" }]);
        let spec = json!({
            "containers": [
                { "name": "app", "volumeMounts": mount("of-app") },
                { "name": "disk", "volumeDevices": [{ "name": "block", "devicePath": "/d" }] },
                { "name": "env", "env": [
                    { "name": "PLAIN", "value": "x" },
                    { "name": "A", "valueFrom": { "fileKeyRef": { "volumeName": "vars", "path": "p", "key": "A" } } },
                ] },
            ],
            "initContainers": [{ "name": "init", "volumeMounts": mount("of-init") }],
            "ephemeralContainers": [{ "name": "debug", "volumeMounts": mount("of-debug") }],
            "volumes": [{ "name": "nobodys" }],
        });
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let expected = ["block", "of-app", "of-debug", "of-init", "vars"];
        assert_eq!(Vec::from_iter(mounted_volumes(&spec)), expected);
    }
}
