//! Bodies as typed Go clients write them.

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

#[test]
fn recursion_is_bounded() {
    // JSONSchema-like recursion does not exist in these kinds; lists of nested affinity terms do
    // not recurse either. What nests is refused by the table long before the bound, so broken
    // nesting ends in an error.
    let mut message = w();
    for _ in 0..1000 {
        message = w().message(2, message);
    }
    assert!(read(&body("v1", "Pod", message)).is_err());
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
