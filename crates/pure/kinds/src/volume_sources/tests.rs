//! Sources as upstream takes and refuses them, in both holders.

use k8s_openapi::api::core::v1::{PersistentVolumeSpec, Volume};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::volume_sources;
use serde_json::{Value, json};

use super::{persistent_volume, pod_volume};
use crate::validation::Path;

fn shown(errors: Vec<FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// What is wrong with a source of this name in a pod.
fn in_pod(name: &str, source: &Value) -> Vec<String> {
    let mut volume: Volume = serde_json::from_value(json!({"name": "v", name: source})).unwrap();
    pod_volume::set_defaults(&mut volume);
    let found: Vec<_> = volume_sources::of_pod_volume(&volume).collect();
    assert_eq!(found, [name]);
    shown(pod_volume::errors(name, &volume, &Path::new("v")))
}

/// The same in a PersistentVolume.
fn in_volume(name: &str, source: &Value) -> Vec<String> {
    let mut spec: PersistentVolumeSpec = serde_json::from_value(json!({name: source})).unwrap();
    persistent_volume::set_defaults(&mut spec);
    let found: Vec<_> = volume_sources::of_persistent_volume(&spec).collect();
    assert_eq!(found, [name]);
    shown(persistent_volume::errors(name, ("pv", &spec), &Path::new("v")))
}

#[test]
fn every_storage_system_is_taken_with_what_it_needs() {
    let secret = json!({"name": "s", "namespace": "n"});
    for (name, source) in [
        ("gcePersistentDisk", json!({"pdName": "d", "partition": 0})),
        ("awsElasticBlockStore", json!({"volumeID": "d", "partition": 255})),
        ("nfs", json!({"server": "host", "path": "/exports"})),
        (
            "iscsi",
            json!({
                "targetPortal": "10.0.0.1:3260", "iqn": "iqn.2026-11.org.example:disk.1", "lun": 255,
                "initiatorName": "eui.0123456789abcdef", "chapAuthSession": true, "secretRef": secret,
            }),
        ),
        ("glusterfs", json!({"endpoints": "e", "path": "p"})),
        ("flocker", json!({"datasetName": "d"})),
        ("rbd", json!({"monitors": ["a"], "image": "i"})),
        ("cinder", json!({"volumeID": "d", "secretRef": secret})),
        ("cephfs", json!({"monitors": ["a"]})),
        ("quobyte", json!({"registry": "a:1,[::1]:2", "volume": "v"})),
        ("fc", json!({"targetWWNs": ["50060e801049cfd1"], "lun": 0})),
        ("flexVolume", json!({"driver": "example.org/d", "options": {"a/b": "c"}})),
        ("azureFile", json!({"secretName": "s", "shareName": "f"})),
        ("vsphereVolume", json!({"volumePath": "[ds] v"})),
        ("photonPersistentDisk", json!({"pdID": "d"})),
        ("portworxVolume", json!({"volumeID": "d"})),
        ("azureDisk", json!({"diskName": "d", "diskURI": "https://a"})),
        ("storageos", json!({"volumeName": "v"})),
        ("scaleIO", json!({"gateway": "g", "system": "s", "volumeName": "v", "secretRef": secret})),
        ("csi", json!({"driver": "D.example.org", "volumeHandle": "h"})),
    ] {
        assert_eq!(in_pod(name, &source), Vec::<String>::new(), "{name} in a pod");
        assert_eq!(in_volume(name, &source), Vec::<String>::new(), "{name} as a volume");
    }
    assert_eq!(in_pod("gitRepo", &json!({"repository": "r", "directory": "d"})), [""; 0]);
}

#[test]
fn what_a_source_lacks_is_named_alike_in_both() {
    for (name, source, expected) in [
        (
            "nfs",
            json!({}),
            &[
                "v.nfs.server: Required value",
                "v.nfs.path: Required value",
                "v.nfs.path: Invalid value: \"\": must be an absolute path",
            ][..],
        ),
        (
            "gcePersistentDisk",
            json!({"partition": 256}),
            &[
                "v.persistentDisk.pdName: Required value",
                "v.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
            ],
        ),
        (
            "flocker",
            json!({}),
            &["v.flocker: Required value: one of datasetName and datasetUUID is required"],
        ),
        ("rbd", json!({}), &["v.rbd.monitors: Required value", "v.rbd.image: Required value"]),
        (
            "quobyte",
            json!({"registry": "a", "volume": "v"}),
            &[
                "v.quobyte.registry: Invalid value: \"a\": must be a host:port pair or multiple pairs separated by commas",
            ],
        ),
        (
            "fc",
            json!({"targetWWNs": ["a"]}),
            &["v.fc.lun: Required value: lun is required if targetWWNs is specified"],
        ),
        (
            "flexVolume",
            json!({"driver": "d", "options": {"x.k8s.io/a": "b"}}),
            &[
                "v.flexVolume.options[x.k8s.io/a]: Invalid value: \"x.k8s.io/a\": kubernetes.io and k8s.io namespaces are reserved",
            ],
        ),
        (
            "azureDisk",
            json!({"diskName": "d", "diskURI": "u", "kind": "Managed"}),
            &[
                "v.azureDisk.diskURI: Unsupported value: \"u\": supported values: \"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}\"",
            ],
        ),
        (
            "storageos",
            json!({"volumeName": "A"}),
            &[
                "v.storageos.volumeName: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ],
        ),
        (
            "iscsi",
            json!({"targetPortal": "p", "iqn": "iqn.2026-1.org", "lun": -1, "chapAuthDiscovery": true}),
            &[
                "v.iscsi.iqn: Invalid value: \"iqn.2026-1.org\": must be valid format",
                "v.iscsi.lun: Invalid value: -1: must be between 0 and 255, inclusive",
                "v.iscsi.secretRef: Required value",
            ],
        ),
    ] {
        assert_eq!(in_pod(name, &source), expected, "{name} in a pod");
        assert_eq!(in_volume(name, &source), expected, "{name} as a volume");
    }
}

#[test]
fn pods_and_volumes_refer_to_secrets_in_their_own_ways() {
    let long =
        json!({"targetPortal": "p".repeat(63), "iqn": "naa.", "lun": 0, "initiatorName": "x"});
    let too_long = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters \
                    if iscsi.initiatorName is specified.";
    assert_eq!(in_pod("iscsi", &long), [
        "v.iscsi.iqn: Invalid value: \"naa.\": must be valid format".to_owned(),
        "v.iscsi.initiatorname: Invalid value: \"x\": must be valid format starting with iqn, eui, or naa".to_owned(),
        format!("v.name: Invalid value: \"v\": {too_long}"),
    ]);
    assert_eq!(
        in_volume("iscsi", &long)[1],
        "v.iscsi.initiatorname: Invalid value: \"x\": must be valid format"
    );
    let cinder = json!({"volumeID": "d", "secretRef": {"name": ""}});
    assert_eq!(in_pod("cinder", &cinder), ["v.cinder.secretRef.name: Required value"]);
    assert_eq!(
        in_volume("cinder", &cinder),
        ["v.cinder.secretRef.name: Required value", "v.cinder.secretRef.namespace: Required value",]
    );
    let csi = json!({"driver": "d.example.org", "nodePublishSecretRef": {"name": "s"}});
    assert_eq!(in_pod("csi", &csi), [""; 0]);
    let csi = json!({"driver": "d.example.org", "volumeHandle": "", "nodePublishSecretRef": {"name": "s"}});
    assert_eq!(
        in_volume("csi", &csi),
        [
            "v.csi.volumeHandle: Required value",
            "v.csi.nodePublishSecretRef.namespace: Required value",
        ]
    );
}
