use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvVar, Pod, PodSpec, ResourceFieldSelector, Secret,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use rekindle_runtime::{MountAccess, MountSource};
use serde_json::json;

use super::expansion::{expand, expand_command};
use super::{
    Allocatable, EnvFiles, EnvInputs, PodFacts, Variables, build_environment, downward_field,
    resource_value, service_variables,
};
use crate::container_spec::VolumePath;
use crate::objects::{FetchedObjects, ObjectRef, ReferencedObject};

fn pod() -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some("web-0".to_owned()),
            namespace: Some("shop".to_owned()),
            uid: Some("u-1".to_owned()),
            labels: Some(
                [("app".to_owned(), "web".to_owned()), ("tier".to_owned(), "a\"b\n".to_owned())]
                    .into(),
            ),
            annotations: Some([("example.com/note".to_owned(), "x".to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            node_name: Some("node-a".to_owned()),
            service_account_name: Some("robot".to_owned()),
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

fn facts() -> PodFacts {
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    PodFacts {
        pod_ips: vec![ip("10.0.0.1"), ip("fd00::1")],
        host_ips: vec![ip("10.0.0.254")],
        api: None,
    }
}

fn objects() -> FetchedObjects {
    let mut objects = FetchedObjects::default();
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "settings" }, "data": { "MODE": "fast", "bad=name": "x", "two words": "y" },
    }))
    .unwrap();
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": "keys" }, "data": { "TOKEN": "czNjcjN0", "BINARY": "/w==" },
    }))
    .unwrap();
    objects.insert(
        ObjectRef::config_map("shop", "settings"),
        ReferencedObject::ConfigMap(Arc::new(map)),
    );
    objects.insert(ObjectRef::secret("shop", "keys"), ReferencedObject::Secret(Arc::new(secret)));
    objects
}

/// The environment of a container given as JSON: `NAME=value` lines, or the error.
fn environment(container: serde_json::Value) -> String {
    let mut value = container;
    value["name"] = json!("app");
    let container: Container = serde_json::from_value(value).unwrap();
    let built = build_environment(EnvInputs {
        pod: &pod(),
        container: &container,
        facts: &facts(),
        allocatable: &Allocatable::default(),
        objects: &objects(),
        files: &EnvFiles::default(),
        services: &Variables::new(),
    });
    match built {
        Ok(env) => {
            let lines = env.variables.iter().map(|(name, value)| format!("{name}={value}"));
            let skipped = env.skipped.iter().map(|name| format!("skipped {name}"));
            lines.chain(skipped).collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("error: {error}"),
    }
}

/// Source: kubelet `pkg/kubelet/envvars`, of the Service `kubernetes`.
#[test]
fn every_container_is_told_where_the_api_is_unless_it_says_otherwise() {
    let pod = pod();
    let facts = PodFacts { api: Some("10.88.0.1:6443".parse().unwrap()), ..facts() };
    let of = |env: serde_json::Value| {
        let container: Container =
            serde_json::from_value(json!({ "name": "app", "env": env })).unwrap();
        let objects = FetchedObjects::default();
        let built = build_environment(EnvInputs {
            pod: &pod,
            container: &container,
            facts: &facts,
            allocatable: &Allocatable::default(),
            objects: &objects,
            files: &EnvFiles::default(),
            services: &Variables::new(),
        });
        built.unwrap().variables
    };
    let has = |variables: &[(String, String)], name: &str, value: &str| {
        assert!(variables.contains(&(name.to_owned(), value.to_owned())), "{name}: {variables:?}");
    };
    let told = of(json!([{ "name": "URL", "value": "https://$(KUBERNETES_SERVICE_HOST)/" }]));
    has(&told, "KUBERNETES_SERVICE_HOST", "10.88.0.1");
    has(&told, "KUBERNETES_SERVICE_PORT", "6443");
    has(&told, "KUBERNETES_PORT_6443_TCP", "tcp://10.88.0.1:6443");
    has(&told, "URL", "https://10.88.0.1/");
    let own = of(json!([{ "name": "KUBERNETES_SERVICE_HOST", "value": "elsewhere" }]));
    has(&own, "KUBERNETES_SERVICE_HOST", "elsewhere");
}

/// Source: kubelet `pkg/kubelet/envvars`, `FromServices`.
#[test]
fn a_service_is_told_of_by_its_address_and_its_ports() {
    let of = |spec: serde_json::Value| {
        let service = json!({ "metadata": { "name": "web-app" }, "spec": spec });
        let variables = service_variables(&serde_json::from_value(service).unwrap());
        variables.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    let ports = json!([
        { "name": "http-alt", "port": 80 },
        { "port": 53, "protocol": "UDP" },
    ]);
    assert_eq!(
        of(json!({ "clusterIP": "10.96.0.9", "ports": ports })),
        [
            "WEB_APP_SERVICE_HOST=10.96.0.9",
            "WEB_APP_SERVICE_PORT=80",
            "WEB_APP_SERVICE_PORT_HTTP_ALT=80",
            "WEB_APP_PORT=tcp://10.96.0.9:80",
            "WEB_APP_PORT_80_TCP=tcp://10.96.0.9:80",
            "WEB_APP_PORT_80_TCP_PROTO=tcp",
            "WEB_APP_PORT_80_TCP_PORT=80",
            "WEB_APP_PORT_80_TCP_ADDR=10.96.0.9",
            "WEB_APP_PORT_53_UDP=udp://10.96.0.9:53",
            "WEB_APP_PORT_53_UDP_PROTO=udp",
            "WEB_APP_PORT_53_UDP_PORT=53",
            "WEB_APP_PORT_53_UDP_ADDR=10.96.0.9",
        ]
    );
    for address in [json!("None"), json!(""), serde_json::Value::Null] {
        assert_eq!(of(json!({ "clusterIP": address, "ports": ports })), [""; 0]);
    }
    assert_eq!(of(json!({ "clusterIP": "10.96.0.9" })), [""; 0]);
}

#[test]
fn variables_are_resolved_as_the_kubelet_does_it() {
    let from = |source: serde_json::Value| json!({ "env": [{ "name": "X", "valueFrom": source }] });
    for (container, expected) in [
        (json!({}), ""),
        (json!({ "env": [{ "name": "A", "value": "1" }, { "name": "B" }] }), "A=1\nB="),
        // what stands before can be referred to, what comes after cannot
        (
            json!({ "env": [{ "name": "A", "value": "$(B)" }, { "name": "B", "value": "2" }, { "name": "C", "value": "$(B)3" }] }),
            "A=$(B)\nB=2\nC=23",
        ),
        // the last of two of one name counts
        (
            json!({ "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "$(A)2" }] }),
            "A=12",
        ),
        (
            json!({ "envFrom": [{ "configMapRef": { "name": "settings" } }] }),
            "MODE=fast\ntwo words=y\nskipped bad=name",
        ),
        (
            json!({ "envFrom": [{ "prefix": "CFG_", "configMapRef": { "name": "settings" } }, { "secretRef": { "name": "absent", "optional": true } }],
                "env": [{ "name": "CFG_MODE", "value": "was $(CFG_MODE)" }] }),
            "CFG_MODE=was fast\nCFG_two words=y\nskipped CFG_bad=name",
        ),
        (
            json!({ "envFrom": [{ "configMapRef": { "name": "absent" } }] }),
            "error: configmap \"absent\" not found",
        ),
        (
            json!({ "envFrom": [{ "secretRef": { "name": "absent" } }] }),
            "error: secret \"absent\" not found",
        ),
        (from(json!({ "secretKeyRef": { "name": "keys", "key": "TOKEN" } })), "X=s3cr3t"),
        (
            from(json!({ "secretKeyRef": { "name": "keys", "key": "NO" } })),
            "error: couldn't find key NO in Secret shop/keys",
        ),
        (from(json!({ "secretKeyRef": { "name": "keys", "key": "NO", "optional": true } })), ""),
        (
            from(json!({ "secretKeyRef": { "name": "keys", "key": "BINARY" } })),
            "error: env \"X\": the value of key \"BINARY\" is not valid UTF-8",
        ),
        (
            from(json!({ "configMapKeyRef": { "name": "settings", "key": "NO" } })),
            "error: couldn't find key NO in ConfigMap shop/settings",
        ),
        (from(json!({ "configMapKeyRef": { "name": "no", "key": "NO", "optional": true } })), ""),
        (from(json!({ "fieldRef": { "fieldPath": "status.podIPs" } })), "X=10.0.0.1,fd00::1"),
        (
            from(json!({ "fieldRef": { "fieldPath": "spec.nope" } })),
            "error: unsupported fieldPath: spec.nope",
        ),
        (from(json!({})), "error: env \"X\": valueFrom names no source that is supported"),
    ] {
        assert_eq!(environment(container.clone()), expected, "{container}");
    }
}

#[test]
fn fields_of_the_downward_api() {
    for (path, expected) in [
        ("metadata.name", "web-0"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['absent']", ""),
        ("metadata.annotations['example.com/note']", "x"),
        ("metadata.labels", "app=\"web\"\ntier=\"a\\\"b\\n\""),
        ("spec.nodeName", "node-a"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "10.0.0.1"),
        ("status.hostIP", "10.0.0.254"),
        ("status.hostIPs", "10.0.0.254"),
    ] {
        assert_eq!(downward_field(&pod(), &facts(), path).as_deref(), Ok(expected), "{path}");
    }
}

/// Source: the API reference of `EnvVar.value` and upstream's expansion tests.
#[test]
fn references_expand_and_escapes_do_not() {
    let lookup = |name: &str| match name {
        "A" => Some("1"),
        "EMPTY" => Some(""),
        _ => None,
    };
    for (text, expected) in [
        ("", ""),
        ("plain", "plain"),
        ("$(A)", "1"),
        ("a$(A)b$(A)", "a1b1"),
        ("$(EMPTY)", ""),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$", "$"),
        ("$", "$"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("$((A))", "$((A))"),
        ("cost: 5$", "cost: 5$"),
    ] {
        assert_eq!(expand(text, lookup), expected, "{text}");
    }
    let env = [("A".to_owned(), "1".to_owned()), ("A".to_owned(), "2".to_owned())];
    assert_eq!(expand_command(&["x".to_owned(), "$(A)".to_owned()], &env), ["x", "2"]);
}

#[test]
fn amounts_are_divided_and_rounded_up() {
    let container: Container = serde_json::from_value(json!({
        "name": "app",
        "resources": { "limits": { "cpu": "1500m", "memory": "100Mi" }, "requests": { "memory": "64Mi" } },
    }))
    .unwrap();
    let allocatable = Allocatable {
        resources: [("ephemeral-storage".to_owned(), "10Gi".parse().unwrap())].into(),
    };
    let value = |resource: &str, divisor: Option<&str>| {
        let selector = ResourceFieldSelector {
            resource: resource.to_owned(),
            divisor: divisor
                .map(|d| k8s_openapi::apimachinery::pkg::api::resource::Quantity(d.to_owned())),
            container_name: None,
        };
        resource_value(&container, &selector, &allocatable).map_err(|error| error.to_string())
    };
    assert_eq!(value("limits.cpu", None).unwrap(), "2");
    assert_eq!(value("limits.cpu", Some("1m")).unwrap(), "1500");
    assert_eq!(value("requests.cpu", Some("1m")).unwrap(), "1500", "a limit is the request, too");
    assert_eq!(value("limits.memory", Some("1Mi")).unwrap(), "100");
    assert_eq!(value("requests.memory", Some("1Gi")).unwrap(), "1");
    assert_eq!(value("requests.memory", Some("0")).unwrap(), "67108864", "no divisor arrives as 0");
    assert_eq!(value("limits.ephemeral-storage", Some("1Gi")).unwrap(), "10", "the node's amount");
    assert_eq!(
        value("limits.gpu", None).unwrap_err(),
        "unsupported container resource : limits.gpu"
    );
}

proptest! {
    #[test]
    fn expansion_never_fails_and_leaves_text_without_dollars_alone(text in "[^$]{0,40}", wild in ".{0,40}") {
        prop_assert_eq!(expand(&text, |_| Some("x")), text);
        let _any = expand(&wild, |_| None);
    }

    #[test]
    fn an_expanded_value_is_not_expanded_again(value in "\\PC{0,20}") {
        prop_assert_eq!(expand("$(A)", |_| Some(value.as_str())), value.clone());
    }
}

#[test]
fn a_variable_without_value_is_empty() {
    let variable = EnvVar { name: "A".to_owned(), ..EnvVar::default() };
    assert_eq!(environment(json!({ "env": [serde_json::to_value(variable).unwrap()] })), "A=");
}

/// What comes of one `fileKeyRef` to an emptyDir `v` with these files, and of the same to other
/// volumes.
#[test]
fn a_variable_is_taken_from_a_file_of_an_empty_dir() {
    let folder = tempfile::tempdir().unwrap();
    let (long, name) = ("x".repeat(100_000), "K".repeat(300));
    std::fs::write(folder.path().join("good"), "KEY='value'\nEMPTY=''\n").unwrap();
    std::fs::write(folder.path().join("bad"), "KEY=value\n").unwrap();
    std::fs::write(folder.path().join("binary"), b"KEY='\xff'\n").unwrap();
    std::fs::write(folder.path().join("long"), format!("{name}='{long}'")).unwrap();
    let mut pod = pod();
    let declared = json!([{ "name": "v", "emptyDir": {} }, { "name": "host", "hostPath": { "path": folder.path() } }]);
    pod.spec.as_mut().unwrap().volumes = serde_json::from_value(declared).unwrap();
    let place = |_: &&str| VolumePath {
        source: MountSource::Host(folder.path().to_owned()),
        access: MountAccess::ReadWrite,
    };
    let volumes = ["v", "host"].iter().map(|name| ((*name).to_owned(), place(name))).collect();
    let of = |volume: &str, path: &str, key: &str, optional: bool| {
        let selector =
            json!({ "volumeName": volume, "path": path, "key": key, "optional": optional });
        let env = json!([{ "name": "A", "valueFrom": { "fileKeyRef": selector } }, { "name": "B", "value": "<$(A)>" }]);
        let container: Container =
            serde_json::from_value(json!({ "name": "app", "env": env })).unwrap();
        let built = build_environment(EnvInputs {
            pod: &pod,
            container: &container,
            facts: &facts(),
            allocatable: &Allocatable::default(),
            objects: &FetchedObjects::default(),
            files: &EnvFiles::read(&pod, &container, &volumes),
            services: &Variables::new(),
        });
        match built {
            Ok(env) => {
                env.variables.iter().map(|(name, value)| format!("{name}={value} ")).collect()
            }
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(of("v", "good", "KEY", false), "A=value B=<value> ");
    for (path, key) in [("good", "OTHER"), ("good", "EMPTY"), ("absent", "KEY")] {
        assert_eq!(of("v", path, key, true), "B=<$(A)> ", "{path} {key}");
    }
    let not_found = "environment variable key \"OTHER\" not found in file \"good\"";
    assert_eq!(of("v", "good", "OTHER", false), not_found);
    assert!(of("v", "good", "EMPTY", false).contains("not found in file"));
    assert!(of("v", "absent", "KEY", false).ends_with("it does not exist"));
    assert!(of("v", "bad", "KEY", true).ends_with("value must be enclosed in single quotes"));
    assert!(of("v", "binary", "KEY", true).ends_with("it is not valid UTF-8"));
    assert_eq!(of("v", "long", &name, false), format!("A={long} B=<{long}> "));
    // other kinds of volumes are not looked into
    assert!(of("host", "good", "KEY", true).starts_with("cannot find the emptyDir volume"));
}
