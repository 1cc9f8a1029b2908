//! Bodies as typed Go clients write them, and answers as they read them.
#![allow(clippy::disallowed_methods, reason = "a test reads the examples of all kinds")]

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Writes messages the way Go does.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn varint(mut self, number: u64, value: u64) -> Self {
        self.push(number << 3);
        self.push(value);
        self
    }

    fn fixed64(mut self, number: u64, value: f64) -> Self {
        self.push(number << 3 | 1);
        self.0.extend_from_slice(&value.to_bits().to_le_bytes());
        self
    }

    fn bytes(mut self, number: u64, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.push(number << 3 | 2);
        self.push(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn message(self, number: u64, value: Writer) -> Self {
        self.bytes(number, value.0)
    }

    fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

fn w() -> Writer {
    Writer::default()
}

fn body(api_version: &str, kind: &str, object: Writer) -> Vec<u8> {
    let type_meta = w().bytes(1, api_version).bytes(2, kind);
    let envelope = w().message(1, type_meta).message(2, object).bytes(3, "").bytes(4, "");
    [MAGIC.as_slice(), &envelope.0].concat()
}

#[test]
fn a_signing_request_is_read_with_the_extra_values_of_its_user() {
    let values = w().bytes(1, "a").bytes(1, "b");
    let spec = w()
        .bytes(1, "pem")
        .bytes(5, "client auth")
        .message(6, w().bytes(1, "scopes").message(2, values))
        .message(6, w().bytes(1, "none"))
        .bytes(7, "example.com/mine")
        .varint(8, 600);
    let object = w().message(1, w().bytes(1, "one")).message(2, spec);
    assert_eq!(
        read(&body("certificates.k8s.io/v1", "CertificateSigningRequest", object)).unwrap(),
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": "one"},
            "spec": {
                "request": "cGVt", "usages": ["client auth"], "signerName": "example.com/mine",
                "extra": {"scopes": ["a", "b"], "none": []}, "expirationSeconds": 600,
            },
        })
    );
}

#[test]
fn a_config_map_is_read_with_maps_and_bytes() {
    let meta = w()
        .bytes(1, "conf")
        .bytes(2, "")
        .bytes(3, "")
        .bytes(8, "")
        .message(11, w().bytes(1, "app").bytes(2, "web"));
    let object = w()
        .message(1, meta)
        .message(2, w().bytes(1, "a").bytes(2, ""))
        .message(2, w().bytes(1, "b").bytes(2, "2"))
        .message(3, w().bytes(1, "x").bytes(2, [0u8, 255]));
    assert_eq!(
        read(&body("v1", "ConfigMap", object)).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "conf", "labels": {"app": "web"}},
            "data": {"a": "", "b": "2"}, "binaryData": {"x": "AP8="},
        })
    );
}

#[test]
fn a_pod_is_read_with_embedded_messages_quantities_and_times() {
    let env_key = w().message(1, w().bytes(1, "conf")).bytes(2, "key");
    let probe = w()
        .message(
            1,
            w().message(
                2,
                w().bytes(1, "/").message(2, w().varint(1, 1).varint(2, 0).bytes(3, "http")),
            ),
        )
        .varint(2, 0)
        .varint(3, 5);
    let container = w()
        .bytes(1, "web")
        .bytes(2, "localhost/demo")
        .bytes(3, "sh")
        .bytes(3, "")
        .message(7, w().bytes(1, "K").message(3, w().message(3, env_key)))
        .message(8, w().message(1, w().bytes(1, "cpu").message(2, w().bytes(1, "100m"))))
        .message(10, probe)
        .varint(16, 0);
    let volume = w().bytes(1, "tmp").message(2, w().message(2, w().bytes(1, "")));
    let meta = w().bytes(1, "web").message(8, w()).message(9, w().varint(1, 1_795_000_000));
    let spec = w()
        .message(1, volume)
        .message(2, container)
        .varint(4, 0)
        .varint(11, 0)
        .message(14, w().varint(2, 0).varint(4, 5).varint(4, u64::MAX));
    let pod = w().message(1, meta).message(2, spec).message(3, w());
    assert_eq!(
        read(&body("v1", "Pod", pod)).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "deletionTimestamp": "2026-11-18T11:06:40Z"},
            "spec": {
                "volumes": [{"name": "tmp", "emptyDir": {}}],
                "containers": [{
                    "name": "web", "image": "localhost/demo", "command": ["sh", ""],
                    "env": [{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "key"}}}],
                    "resources": {"limits": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "timeoutSeconds": 5},
                }],
                "terminationGracePeriodSeconds": 0,
                "securityContext": {"runAsUser": 0, "supplementalGroups": [5, -1]},
            },
            "status": {},
        })
    );
}

#[test]
fn an_empty_text_counts_where_go_tells_it_from_none() {
    let claim = |class: Writer| {
        let object = w().message(1, w().bytes(1, "a").bytes(3, "")).message(2, class);
        read(&body("v1", "PersistentVolumeClaim", object)).unwrap()
    };
    let given = claim(w().bytes(3, "").bytes(5, ""));
    assert_eq!(given["metadata"], json!({"name": "a"}));
    assert_eq!(given["spec"], json!({"storageClassName": ""}), "and no volumeName");
    assert_eq!(claim(w())["spec"], json!({}));
}

#[test]
fn times_have_the_precision_of_their_type() {
    let time = || w().varint(1, 1_577_836_800).varint(2, 5_000);
    let spec = w().message(3, w().varint(1, 1_577_836_800)).message(4, time());
    let object = w().message(1, w().message(8, time())).message(2, spec);
    let read = read(&body("coordination.k8s.io/v1", "Lease", object)).unwrap();
    assert_eq!(read["metadata"]["creationTimestamp"], "2020-01-01T00:00:00Z");
    assert_eq!(read["spec"]["acquireTime"], "2020-01-01T00:00:00.000000Z");
    assert_eq!(read["spec"]["renewTime"], "2020-01-01T00:00:00.000005Z");
}

#[test]
fn a_volume_of_a_csi_driver_is_read_and_written() {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "csi": {
                "driver": "csi.example.org", "volumeHandle": "1", "volumeAttributes": {"a": "b"},
                "nodeStageSecretRef": {"name": "s", "namespace": "n"},
            },
        },
    });
    assert_eq!(read(&object(volume.to_string().as_bytes()).unwrap()), Ok(volume));
}

/// A definition whose only version has this schema.
fn definition(schema: &serde_json::Value) -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]},
    })
}

/// The same as Go writes it.
fn definition_body(schema: Writer) -> Vec<u8> {
    let version = w().message(4, w().message(1, schema));
    let kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    body(kind.0, kind.1, w().message(2, w().message(7, version)))
}

#[test]
fn a_schema_is_read_and_written_with_what_may_stand_in_its_place() {
    let text = || w().bytes(5, "string");
    let entry = |number: u64, name: &str, value: Writer| {
        w().message(number, w().bytes(1, name).message(2, value))
    };
    for (schema, written) in [
        (json!({"items": {"type": "string"}}), w().message(24, w().message(1, text()))),
        (
            json!({"items": [{"type": "string"}, {}]}),
            w().message(24, w().message(2, text()).message(2, w())),
        ),
        (json!({"additionalProperties": true}), w().message(30, w().varint(1, 1))),
        (json!({"additionalProperties": false}), w().message(30, w().varint(1, 0))),
        (
            json!({"additionalProperties": {"type": "string"}}),
            w().message(30, w().varint(1, 1).message(2, text())),
        ),
        (
            json!({"dependencies": {"a": ["b", "c"]}}),
            entry(32, "a", w().bytes(2, "b").bytes(2, "c")),
        ),
        (json!({"dependencies": {"a": {}}}), entry(32, "a", w().message(1, w()))),
        (
            json!({"properties": {"spec": {"not": {"not": {"type": "string"}}}}}),
            entry(29, "spec", w().message(28, w().message(28, text()))),
        ),
        (
            json!({"default": {"a": [null, 1.5]}, "enum": [null, "x"]}),
            w().message(8, w().bytes(1, r#"{"a":[null,1.5]}"#))
                .message(20, w().bytes(1, "null"))
                .message(20, w().bytes(1, r#""x""#)),
        ),
        (json!({"minimum": 1, "multipleOf": 0.5}), w().fixed64(11, 1.0).fixed64(19, 0.5)),
        (
            json!({"x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": false}]}),
            w().message(44, w().bytes(1, "true").varint(6, 0)),
        ),
    ] {
        let (json, protobuf) = (definition(&schema), definition_body(written));
        assert_eq!(object(json.to_string().as_bytes()).as_ref(), Ok(&protobuf), "{schema}");
        assert_eq!(read(&protobuf), Ok(json));
    }
}

#[test]
fn flags_that_go_always_writes_are_as_if_not_given() {
    let schema = w().bytes(2, "").varint(10, 0).varint(12, 0).varint(18, 0).varint(37, 0);
    assert_eq!(read(&definition_body(schema)), Ok(definition(&json!({}))));
}

#[test]
fn a_schema_that_nests_without_end_is_refused() {
    let nested = |count| {
        let schema = (0..count).fold(w(), |inner, _| w().message(28, inner));
        read(&definition_body(schema)).map(|_| ())
    };
    assert_eq!(nested(50), Ok(()));
    assert_eq!(nested(200), Err(ProtobufError::TooDeep));
    let either = (0..200).fold(w(), |inner, _| w().message(24, w().message(2, inner)));
    assert_eq!(read(&definition_body(either)), Err(ProtobufError::TooDeep));
}

/// What is stored must be readable again, as JSON, whatever nests in it.
#[test]
fn json_within_a_body_nests_no_deeper_than_a_body_in_json() {
    let nested = |levels: usize| {
        let data = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let object = w().message(2, w().bytes(1, data)).varint(3, 1);
        read(&body("apps/v1", "ControllerRevision", object)).map(|_| ())
    };
    assert_eq!(nested(DEPTH_MAX - 1), Ok(()));
    assert_eq!(nested(DEPTH_MAX), Err(ProtobufError::TooDeep));
}

#[test]
fn what_cannot_be_read_says_so() {
    for (bytes, message) in [
        (b"{}".to_vec(), "the body does not begin as Kubernetes protobuf does"),
        (
            body("example.com/v1", "Widget", w()),
            "Widget in \"example.com/v1\" is not known in protobuf: send it as JSON",
        ),
        (
            body("v1", "ConfigMap", w().varint(99, 1)),
            "field number 99 of core.v1.ConfigMap is not known in protobuf: send it as JSON",
        ),
        (
            body("v1", "ConfigMap", w().varint(2, 1)),
            "field data of core.v1.ConfigMap has an impossible value",
        ),
        (b"k8s\0\x0a\x7f".to_vec(), "the protobuf body is cut off"),
    ] {
        assert_eq!(read(&bytes).unwrap_err().to_string(), message);
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&[MAGIC.as_slice(), &bytes].concat());
        for kind in ["Pod", "ConfigMap", "Node", "Event"] {
            let _ = read(&body("v1", kind, Writer(bytes.clone())));
        }
    }
}

/// Every object of the examples of all kinds, as it is answered.
fn examples() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../kinds/src/testdata/create");
    let registry = rekindle_kinds::all();
    let mut examples = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|e| e == "yaml")) {
        let text = std::fs::read_to_string(path).unwrap();
        for document in text.split("\n---\n") {
            let Ok(value) = serde_saphyr::from_str::<serde_json::Value>(document) else { continue };
            let text = |name: &str| value[name].as_str().unwrap_or_default();
            let entry = registry.kinds().find(|entry| {
                entry.api_version == text("apiVersion") && entry.kind == text("kind")
            });
            let Some(entry) = entry else { continue };
            let Ok(decoded) = entry.codec.decode(&value) else { continue };
            let mut object = decoded.object;
            object.set_defaults();
            examples.push((format!("{}: {}", path.display(), entry.kind), object.to_json()));
        }
    }
    examples
}

/// Without what Go does not tell from what was not given.
fn given(json: &[u8]) -> serde_json::Value {
    fn prune(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                fields.values_mut().for_each(prune);
                let empty = [json!(""), json!([]), json!({}), json!(null)];
                fields.retain(|_, value| !empty.contains(value));
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(prune),
            _ => {}
        }
    }
    let mut value = serde_json::from_slice(json).unwrap();
    prune(&mut value);
    value
}

/// Takes out the fields that have no number.
fn without_unnumbered(message: &fields::Message, tree: &mut serde_json::Value) {
    for item in tree.as_array_mut().into_iter().flatten() {
        without_unnumbered(message, item);
    }
    let Some(fields) = tree.as_object_mut() else { return };
    fields.retain(|name, _| !message.unnumbered.contains(&name.as_str()));
    for field in message.by_number.values() {
        let inner = match field.kind {
            fields::FieldOccurrence::Embedded => Some(&mut *tree),
            _ => tree.get_mut(field.name),
        };
        if let (Some(inner), Some(message)) = (inner, field.message()) {
            without_unnumbered(message, inner);
        }
    }
}

#[test]
fn what_is_written_of_any_kind_is_read_as_it_was() {
    let registry = rekindle_kinds::all();
    let mut kinds_seen = std::collections::BTreeSet::new();
    for (name, json) in examples() {
        let written = match object(&json) {
            Ok(written) => written,
            Err(why) => {
                let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
                let version = value["apiVersion"].as_str().unwrap();
                assert!(version.starts_with("rekindle.dev/"), "{name}: {why}");
                continue;
            }
        };
        let read = read(&written).unwrap();
        let (version, kind) =
            (read["apiVersion"].as_str().unwrap(), read["kind"].as_str().unwrap());
        let entry = registry.kinds().find(|e| e.api_version == version && e.kind == kind).unwrap();
        let mut again = entry.codec.decode(&read).unwrap().object;
        again.set_defaults();
        let mut wanted = given(&json);
        let message = fields::message(message_of(version, kind).unwrap()).unwrap();
        without_unnumbered(message, &mut wanted);
        assert_eq!(given(&again.to_json()), given(wanted.to_string().as_bytes()), "{name}");
        kinds_seen.insert(kind.to_owned());
    }
    assert!(kinds_seen.len() > 30, "{kinds_seen:?}");
}

#[test]
fn a_status_and_lists_have_the_fields_of_upstreams_messages() {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no",
        "reason": "NotFound", "code": 404,
        "details": {"name": "a", "kind": "pods", "causes": [{"field": "f"}]},
    });
    let details = w().bytes(1, "a").bytes(3, "pods").message(4, w().bytes(3, "f"));
    let wanted = w()
        .bytes(1, "")
        .bytes(2, "Failure")
        .bytes(3, "no")
        .bytes(4, "NotFound")
        .message(5, details)
        .varint(6, 404);
    let type_meta = w().bytes(1, "v1").bytes(2, "Status");
    let envelope = w().message(1, type_meta).message(2, wanted).bytes(3, "").bytes(4, "");
    assert_eq!(
        object(status.to_string().as_bytes()).unwrap(),
        [MAGIC.as_slice(), &envelope.0].concat()
    );
    let list = json!({
        "kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
        "items": [{"metadata": {"name": "a"}, "data": {"k": "v"}}],
    });
    let item = w().message(1, w().bytes(1, "a")).message(2, w().bytes(1, "k").bytes(2, "v"));
    let wanted = w().message(1, w().bytes(2, "7")).message(2, item);
    let type_meta = w().bytes(1, "v1").bytes(2, "ConfigMapList");
    let envelope = w().message(1, type_meta).message(2, wanted).bytes(3, "").bytes(4, "");
    let written = object(list.to_string().as_bytes()).unwrap();
    assert_eq!(written, [MAGIC.as_slice(), &envelope.0].concat());
    assert_eq!(read(&written).unwrap(), list);
    let frame = watch_event("ADDED", list.to_string().as_bytes()).unwrap();
    let event = w().bytes(1, "ADDED").message(2, w().bytes(1, &written));
    assert_eq!(frame[..4], (event.0.len() as u32).to_be_bytes());
    assert_eq!(frame[4..], event.0);
}

#[test]
fn what_the_table_does_not_know_is_not_written() {
    for (wrong, why) in [
        (json!([]), " in \"\""),
        (json!({"kind": "Kite", "apiVersion": "example.org/v1"}), "Kite in"),
        (json!({"kind": "ConfigMap", "apiVersion": "v1", "more": 1}), "has a field"),
        (json!({"kind": "ConfigMap", "apiVersion": "v1", "data": [1]}), "field data"),
        (json!({"kind": "ConfigMapList", "apiVersion": "v1", "more": 1}), "has a field"),
        (json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": {}}), "has a field"),
        (json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": [1]}), " in \"\""),
        (json!({"kind": "ConfigMap", "apiVersion": "v1", "binaryData": {"a": "%"}}), "binaryData"),
    ] {
        let error = object(wrong.to_string().as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
