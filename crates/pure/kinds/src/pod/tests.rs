//! Rules of pods that hold over every field, and small tables.

use k8s_openapi::api::core::v1::Pod;
use rekindle_types::{Tick, volume_sources};
use serde_json::{Value, json};

use super::unenforced::UNENFORCED;

use crate::identity::ClientIdentity;
use crate::openapi;
use crate::registry::strategy::{StatusPart, SubresourceStrategy};
use crate::registry::{ApiKind, RequestContext};

const COMPATIBILITY: &str = include_str!("../../../../../docs/compatibility.md");

/// Where the objects of a schema stand in a pod, which of their fields are carried out and which
/// refused by validation. What is in neither list must be a line of the table of unenforced fields.
struct Fields {
    schema: &'static str,
    path: &'static str,
    enforced: &'static [&'static str],
    refused: &'static [&'static str],
}

const FIELDS: &[Fields] = &[
    Fields {
        schema: "PodSpec",
        path: "spec.",
        enforced: &[
            "activeDeadlineSeconds",
            "affinity",
            "automountServiceAccountToken",
            "containers",
            "dnsConfig",
            "dnsPolicy",
            "ephemeralContainers", // by their subresource
            "enableServiceLinks",
            "hostAliases",
            "hostIPC",
            "hostNetwork",
            "hostPID",
            "hostUsers",
            "hostname",
            "hostnameOverride",
            "imagePullSecrets",
            "initContainers",
            "nodeName",
            "nodeSelector",
            "os",
            "overhead", // that of the RuntimeClass
            "preemptionPolicy",
            "priority",
            "priorityClassName",
            "readinessGates",
            "resources",
            "restartPolicy",
            "runtimeClassName", // of the embedded handler
            "schedulerName",
            "schedulingGates",
            "serviceAccount", // an old name of serviceAccountName
            "serviceAccountName",
            "setHostnameAsFQDN",
            "shareProcessNamespace",
            "subdomain",
            "terminationGracePeriodSeconds",
            "tolerations",
            "topologySpreadConstraints",
            "volumes",
        ],
        refused: &[],
    },
    Fields {
        schema: "Affinity",
        path: "spec.affinity.",
        enforced: &["nodeAffinity", "podAffinity", "podAntiAffinity"],
        refused: &[],
    },
    Fields {
        schema: "Toleration",
        path: "spec.tolerations[*].",
        enforced: &["effect", "key", "operator", "tolerationSeconds", "value"],
        refused: &[],
    },
    Fields {
        schema: "Container",
        path: "spec.containers[*].",
        enforced: &[
            "args",
            "command",
            "env",
            "envFrom",
            "image",
            "imagePullPolicy",
            "lifecycle",
            "livenessProbe",
            "name",
            "readinessProbe",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "startupProbe",
            "stdin",
            "stdinOnce",
            "terminationMessagePath",
            "terminationMessagePolicy",
            "tty",
            "volumeMounts",
            "workingDir",
        ],
        refused: &["volumeDevices"],
    },
    Fields {
        schema: "ContainerPort",
        path: "spec.containers[*].ports[*].",
        enforced: &["containerPort", "hostIP", "name", "protocol"],
        refused: &[],
    },
    Fields {
        schema: "ResourceRequirements",
        path: "spec.containers[*].resources.",
        enforced: &["requests"],
        refused: &[],
    },
    Fields {
        schema: "Lifecycle",
        path: "spec.containers[*].lifecycle.",
        enforced: &["postStart", "preStop", "stopSignal"],
        refused: &[],
    },
    Fields {
        schema: "LifecycleHandler",
        path: "spec.containers[*].lifecycle.preStop.",
        enforced: &["exec", "httpGet", "sleep"],
        refused: &[],
    },
    Fields {
        schema: "Probe",
        path: "spec.containers[*].livenessProbe.",
        enforced: &[
            "exec",
            "failureThreshold",
            "grpc",
            "httpGet",
            "initialDelaySeconds",
            "periodSeconds",
            "successThreshold",
            "tcpSocket",
            "terminationGracePeriodSeconds",
            "timeoutSeconds",
        ],
        refused: &[],
    },
    Fields {
        schema: "HTTPGetAction",
        path: "spec.containers[*].livenessProbe.httpGet.",
        enforced: &["host", "httpHeaders", "path", "port", "protocol", "scheme"],
        refused: &[],
    },
    Fields {
        schema: "GRPCAction",
        path: "spec.containers[*].livenessProbe.grpc.",
        enforced: &["mode", "port", "service"],
        refused: &[],
    },
    Fields {
        schema: "SecurityContext",
        path: "spec.containers[*].securityContext.",
        enforced: &[
            "allowPrivilegeEscalation",
            "capabilities",
            "privileged",
            "procMount",
            "readOnlyRootFilesystem",
            "runAsGroup",
            "runAsNonRoot",
            "runAsUser",
            "seccompProfile",
        ],
        refused: &[],
    },
    Fields {
        schema: "PodSecurityContext",
        path: "spec.securityContext.",
        enforced: &[
            "fsGroup",
            "fsGroupChangePolicy",
            "runAsGroup",
            "runAsNonRoot",
            "runAsUser",
            "seccompProfile",
            "supplementalGroups",
            "supplementalGroupsPolicy",
            "sysctls",
        ],
        refused: &[],
    },
    Fields {
        schema: "EnvVarSource",
        path: "spec.containers[*].env[*].valueFrom.",
        enforced: &[
            "configMapKeyRef",
            "fieldRef",
            "fileKeyRef",
            "resourceFieldRef",
            "secretKeyRef",
        ],
        refused: &[],
    },
    Fields {
        schema: "VolumeMount",
        path: "spec.containers[*].volumeMounts[*].",
        enforced: &[
            "bindMountOptions",
            "mountPath",
            "mountPropagation",
            "name",
            "readOnly",
            "recursiveReadOnly",
            "subPath",
            "subPathExpr",
        ],
        refused: &[],
    },
    Fields {
        schema: "EmptyDirVolumeSource",
        path: "spec.volumes[*].emptyDir.",
        enforced: &["medium", "mode", "sizeLimit"],
        refused: &[],
    },
    Fields {
        schema: "ConfigMapVolumeSource",
        path: "spec.volumes[*].configMap.",
        enforced: &["defaultMode", "defaultUser", "items", "name", "optional"],
        refused: &[],
    },
    Fields {
        schema: "SecretVolumeSource",
        path: "spec.volumes[*].secret.",
        enforced: &["defaultMode", "defaultUser", "items", "optional", "secretName"],
        refused: &[],
    },
    Fields {
        schema: "KeyToPath",
        path: "spec.volumes[*].configMap.items[*].",
        enforced: &["key", "mode", "path", "user"],
        refused: &[],
    },
    Fields {
        schema: "DownwardAPIVolumeSource",
        path: "spec.volumes[*].downwardAPI.",
        enforced: &["defaultMode", "defaultUser", "items"],
        refused: &[],
    },
    Fields {
        schema: "DownwardAPIVolumeFile",
        path: "spec.volumes[*].downwardAPI.items[*].",
        enforced: &["fieldRef", "mode", "path", "resourceFieldRef", "user"],
        refused: &[],
    },
    Fields {
        schema: "ProjectedVolumeSource",
        path: "spec.volumes[*].projected.",
        enforced: &["defaultMode", "defaultUser", "sources"],
        refused: &[],
    },
    Fields {
        schema: "VolumeProjection",
        path: "spec.volumes[*].projected.sources[*].",
        enforced: &[
            "clusterTrustBundle",
            "configMap",
            "downwardAPI",
            "secret",
            "serviceAccountToken",
        ],
        refused: &["podCertificate"],
    },
    Fields {
        schema: "ClusterTrustBundleProjection",
        path: "spec.volumes[*].projected.sources[*].clusterTrustBundle.",
        enforced: &["labelSelector", "name", "optional", "path", "signerName", "user"],
        refused: &[],
    },
    Fields {
        schema: "ServiceAccountTokenProjection",
        path: "spec.volumes[*].projected.sources[*].serviceAccountToken.",
        enforced: &["audience", "expirationSeconds", "path", "user"],
        refused: &[],
    },
];

fn properties(schema: &str) -> Vec<String> {
    let document = openapi::document(&crate::all(), "", "v1");
    let schema = &document["components"]["schemas"][format!("io.k8s.api.core.v1.{schema}")];
    schema["properties"].as_object().expect("the schema has properties").keys().cloned().collect()
}

#[test]
fn no_field_of_a_pod_is_silently_ignored() {
    for fields in FIELDS {
        let properties = properties(fields.schema);
        for property in &properties {
            let path = format!("{}{property}", fields.path);
            let warned = UNENFORCED.iter().any(|line| {
                let documented = line.documented_path();
                documented.strip_prefix(&path).is_some_and(|rest| {
                    rest.is_empty() || rest.starts_with('.') || rest.starts_with('[')
                })
            });
            let listed = |list: &[&str]| list.contains(&property.as_str());
            assert!(
                warned || listed(fields.enforced) || listed(fields.refused),
                "{path} is neither enforced, refused nor warned of"
            );
        }
        for listed in fields.enforced.iter().chain(fields.refused) {
            assert!(
                properties.iter().any(|name| name == listed),
                "{} has no {listed}",
                fields.schema
            );
        }
    }
}

#[test]
fn volumes_are_mounted_or_warned_of() {
    let document = properties("Volume");
    for name in document.iter().filter(|name| *name != "name") {
        let mut pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", name: {}}],
        }}))
        .unwrap();
        pod.set_defaults();
        let volume = &pod.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0];
        let found: Vec<_> = volume_sources::of_pod_volume(volume).collect();
        assert_eq!(found, [name], "the table of sources has it");
        let field = format!("spec.volumes[0].{name}: ").to_lowercase();
        let warnings = ApiKind::warnings(&pod);
        let warned = warnings.iter().any(|warning| warning.to_lowercase().starts_with(&field));
        assert_eq!(warned, !volume_sources::is_mounted(name), "{name}");
    }
}

#[test]
fn every_unenforced_field_is_documented() {
    for line in UNENFORCED {
        let row = format!("| `{}` | {} |", line.documented_path(), line.note);
        assert!(COMPATIBILITY.contains(&row), "docs/compatibility.md lacks the line\n{row}");
    }
    let rows = COMPATIBILITY.lines().filter(|row| row.starts_with("| `spec.")).count();
    assert_eq!(
        rows,
        UNENFORCED.len(),
        "docs/compatibility.md has lines of fields that are enforced"
    );
}

#[test]
fn the_class_of_a_pod_follows_its_requests_and_limits() {
    // The cases of the documentation on quality of service classes.
    let both = json!({"cpu": "1", "memory": "1Gi"});
    let cases = [
        ("BestEffort", json!([{}])),
        ("BestEffort", json!([{"limits": {"ephemeral-storage": "1Gi"}}])),
        ("Burstable", json!([{"requests": {"cpu": "1m"}}])),
        ("Burstable", json!([{"limits": both, "requests": {"cpu": "1", "memory": "1Mi"}}])),
        ("Burstable", json!([{"limits": both}, {}])),
        ("Guaranteed", json!([{"limits": both}])),
        ("Guaranteed", json!([{"limits": both, "requests": {"cpu": "1000m", "memory": "1024Mi"}}])),
        ("Guaranteed", json!([{"limits": both}, {"limits": both}])),
        ("BestEffort", json!([{"limits": {"cpu": "0"}}])),
    ];
    for (class, resources) in cases {
        let containers: Vec<Value> = resources
            .as_array()
            .unwrap()
            .iter()
            .map(|resources| json!({"name": "c", "image": "i", "resources": resources}))
            .collect();
        let mut pod: Pod =
            serde_json::from_value(json!({"metadata": {}, "spec": {"containers": containers}}))
                .unwrap();
        pod.set_defaults();
        assert_eq!(
            rekindle_types::resources::qos_class(pod.spec.as_ref().unwrap()),
            class,
            "{resources}"
        );
    }
}

#[test]
fn only_a_pod_that_runs_on_a_node_gets_time_to_end() {
    for (spec, phase, seconds) in [
        (json!({}), "Pending", 0),
        (json!({"nodeName": "n"}), "Pending", 30),
        (json!({"nodeName": "n", "terminationGracePeriodSeconds": 5}), "Running", 5),
        (json!({"nodeName": "n", "terminationGracePeriodSeconds": 0}), "Running", 0),
        (json!({"nodeName": "n"}), "Succeeded", 0),
        (json!({"nodeName": "n"}), "Failed", 0),
    ] {
        let mut spec = spec;
        spec["containers"] = json!([]);
        let value = json!({"metadata": {}, "spec": spec, "status": {"phase": phase}});
        let pod: Pod = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(pod.deletion_grace_period_seconds(), seconds, "{value}");
    }
}

#[test]
fn a_status_update_changes_neither_spec_nor_class() {
    let ctx = RequestContext { now: Tick::ZERO, identity: &ClientIdentity::Anonymous };
    let mut old: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    old.set_defaults();
    old.prepare_for_create(&ctx);
    let mut new: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "generation": 9}, "spec": {"containers": []},
        "status": {"phase": "Running"},
    }))
    .unwrap();
    SubresourceStrategy::<StatusPart>::prepare_part(&mut new, &old, &ctx);
    assert_eq!(new.spec, old.spec);
    assert_eq!(new.metadata.generation, Some(1));
    let status = new.status.as_mut().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
    status.qos_class = Some("Guaranteed".to_owned());
    let errors = SubresourceStrategy::<StatusPart>::validate_part(&new, &old);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].field, "status.qosClass");
}
