use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};
use proptest::prelude::*;
use rekindle_runtime::{
    ContainerKey, ExpectedRestart, MountAccess, MountOptions, MountSource, NamespaceOwner,
    Namespaces, ProcessVisibility, Resources, SandboxKey, Seccomp,
};
use rekindle_types::{ContainerAttempt, ContainerName, PodRef, PodUid, SandboxAttempt};
use serde_json::{Value, json};

use super::build::renewal;
use super::error::SpecError;
use super::hostname::{pod_hostname, uts_hostname};
use super::mounts::{MountPaths, VolumePath, container_mounts};
use super::namespaces::pod_namespaces;
use super::resources::{container_resources, cpu_shares, pod_resources};
use super::security::container_security;
use super::{ContainerInputs, container_spec};

fn pod(spec: Value) -> Pod {
    let mut pod =
        json!({ "metadata": { "name": "web", "namespace": "shop", "uid": "u1" }, "spec": spec });
    if pod["spec"]["containers"].is_null() {
        pod["spec"]["containers"] = json!([]);
    }
    serde_json::from_value(pod).unwrap()
}

fn container(value: Value) -> Container {
    let mut value = value;
    value["name"] = json!("app");
    serde_json::from_value(value).unwrap()
}

fn amounts(cpu_request: &str, cpu_limit: &str, memory_limit: &str) -> Value {
    let mut resources = json!({ "requests": {}, "limits": {} });
    for (side, name, amount) in [
        ("requests", "cpu", cpu_request),
        ("limits", "cpu", cpu_limit),
        ("limits", "memory", memory_limit),
    ] {
        if !amount.is_empty() {
            resources[side][name] = json!(amount);
        }
    }
    json!({ "name": "c", "resources": resources })
}

fn limits(shares: u64, cpu_millis: Option<u64>, memory_bytes: Option<u64>) -> Resources {
    Resources {
        cpu_shares: Some(shares),
        cpu_limit_millis: cpu_millis,
        memory_limit_bytes: memory_bytes,
        pids_limit: None,
    }
}

#[test]
fn cpu_becomes_shares_by_the_kubelets_formula() {
    for (millis, shares) in [(0, 2), (1, 2), (2, 2), (100, 102), (1000, 1024), (1_000_000, 262_144)]
    {
        assert_eq!(cpu_shares(millis), shares, "{millis}m");
    }
}

#[test]
fn a_container_is_limited_as_its_spec_says() {
    const MIB: u64 = 1024 * 1024;
    for (given, expected) in [
        (amounts("", "", ""), limits(2, None, None)),
        (amounts("250m", "", ""), limits(256, None, None)),
        (amounts("", "500m", "64Mi"), limits(512, Some(500), Some(64 * MIB))),
        (amounts("100m", "1", "1e6"), limits(102, Some(1000), Some(1_000_000))),
        (amounts("", "5m", ""), limits(5, Some(10), None)),
        (amounts("", "0", "0"), limits(2, None, None)),
    ] {
        assert_eq!(
            container_resources(&Pod::default(), &serde_json::from_value(given.clone()).unwrap()),
            expected,
            "{given}"
        );
    }
}

#[test]
fn a_container_without_limits_has_those_of_the_pod_as_a_whole() {
    let pod = pod(json!({
        "containers": [],
        "resources": { "limits": { "cpu": "2", "memory": "7k" }, "requests": { "cpu": "1" } },
    }));
    for (given, expected) in [
        (amounts("", "", ""), limits(2048, Some(2000), Some(7000))),
        (amounts("100m", "", "1k"), limits(102, Some(2000), Some(1000))),
        (amounts("", "500m", ""), limits(512, Some(500), Some(7000))),
    ] {
        let container = serde_json::from_value(given.clone()).unwrap();
        assert_eq!(container_resources(&pod, &container), expected, "{given}");
    }
}

#[test]
fn a_pod_is_limited_when_all_its_containers_are() {
    for (name, spec, expected) in [
        (
            "all limited",
            json!({ "containers": [amounts("100m", "200m", "1k"), amounts("100m", "300m", "2k")] }),
            limits(204, Some(500), Some(3000)),
        ),
        (
            "one without a memory limit",
            json!({ "containers": [amounts("", "200m", "1k"), amounts("", "300m", "")] }),
            limits(512, Some(500), None),
        ),
        ("none asks", json!({ "containers": [amounts("", "", "")] }), limits(2, None, None)),
        (
            "a larger init container",
            json!({ "initContainers": [amounts("", "1", "9k")], "containers": [amounts("", "200m", "1k")] }),
            limits(1024, Some(1000), Some(9000)),
        ),
        (
            "a sidecar counts beside both",
            json!({
                "initContainers": [
                    { "name": "s", "restartPolicy": "Always", "resources": { "limits": { "cpu": "100m", "memory": "1k" } } },
                    amounts("", "500m", "1k"),
                ],
                "containers": [amounts("", "200m", "5k")],
            }),
            limits(614, Some(600), Some(6000)),
        ),
        (
            "amounts of the pod itself win",
            json!({ "containers": [amounts("", "", "")], "resources": { "limits": { "cpu": "2", "memory": "7k" } } }),
            limits(2048, Some(2000), Some(7000)),
        ),
    ] {
        let limits = pod_resources(&pod(spec.clone()), None);
        assert_eq!(limits, expected, "{name}");
        let with_pids = Resources { pids_limit: Some(99), ..expected };
        assert_eq!(pod_resources(&pod(spec), Some(99)), with_pids, "{name}");
    }
}

#[test]
fn the_containers_context_goes_before_the_pods() {
    let pod = pod(json!({ "securityContext": {
        "runAsUser": 1000, "runAsGroup": 1001, "runAsNonRoot": true, "fsGroup": 2000,
        "supplementalGroups": [3000, 2000], "seccompProfile": { "type": "Unconfined" },
    } }));
    let inherits = container_security(&pod, &container(json!({})), profiles()).unwrap();
    assert_eq!((inherits.run_as_user, inherits.run_as_group), (Some(1000), Some(1001)));
    assert!(inherits.run_as_non_root && inherits.allow_privilege_escalation);
    assert_eq!(inherits.supplemental_groups, [2000, 3000]);
    assert_eq!(inherits.seccomp, Seccomp::Unconfined);
    let own = container_security(
        &pod,
        &container(json!({ "securityContext": {
            "runAsUser": 5, "runAsNonRoot": false, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": { "add": ["NET_ADMIN", "CAP_SYS_TIME"], "drop": ["ALL"] },
            "seccompProfile": { "type": "RuntimeDefault" },
        } })),
        profiles(),
    )
    .unwrap();
    assert_eq!((own.run_as_user, own.run_as_group), (Some(5), Some(1001)));
    assert!(!own.run_as_non_root && !own.allow_privilege_escalation && own.read_only_root);
    assert_eq!(own.add_capabilities, ["NET_ADMIN", "SYS_TIME"]);
    assert_eq!(own.drop_capabilities, ["ALL"]);
    assert_eq!(own.seccomp, Seccomp::RuntimeDefault);
}

#[test]
fn security_that_cannot_be_is_refused_with_its_reason() {
    for (context, expected) in [
        (
            json!({ "runAsUser": 0, "runAsNonRoot": true }),
            "container's runAsUser breaks non-root policy (pod: \"web_shop(u1)\", container: app)",
        ),
        (
            json!({ "runAsUser": -1 }),
            "securityContext.runAsUser: -1 is not between 0 and 2147483647",
        ),
        (
            json!({ "runAsGroup": 4_294_967_295_i64 }),
            "securityContext.runAsGroup: 4294967295 is not between 0 and 2147483647",
        ),
        (
            json!({ "seccompProfile": { "type": "Localhost" } }),
            "localhostProfile must be set if seccompProfile type is Localhost.",
        ),
        (
            json!({ "seccompProfile": { "type": "Other" } }),
            "seccompProfile type \"Other\" is not supported here: use RuntimeDefault, Localhost or Unconfined",
        ),
    ] {
        let error = container_security(
            &pod(json!({})),
            &container(json!({ "securityContext": context })),
            profiles(),
        );
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
    // also of a profile that does not exist: a privileged container has none
    let localhost = json!({ "type": "Localhost", "localhostProfile": "team/a.json" });
    let privileged = container(
        json!({ "securityContext": { "privileged": true, "seccompProfile": localhost } }),
    );
    assert_eq!(
        container_security(&pod(json!({})), &privileged, profiles()).unwrap().seccomp,
        Seccomp::Unconfined
    );
}

#[test]
fn a_profile_of_the_nodes_own_is_looked_for_in_the_nodes_folder() {
    let localhost = json!({ "type": "Localhost", "localhostProfile": "team/a.json" });
    let pod = pod(json!({ "securityContext": { "seccompProfile": localhost } }));
    let expected =
        Seccomp::Localhost { folder: profiles().to_owned(), profile: "team/a.json".into() };
    let inherits = container_security(&pod, &container(json!({})), profiles()).unwrap();
    assert_eq!(inherits.seccomp, expected);
}

fn profiles() -> &'static Path {
    Path::new("/data/seccomp")
}

#[test]
fn hostnames() {
    for (spec, name, uts) in [
        (json!({}), "web", "web"),
        (json!({ "hostname": "db" }), "db", "db"),
        (json!({ "hostname": "db", "subdomain": "sub" }), "db", "db"),
        (
            json!({ "hostnameOverride": "db.example.org", "subdomain": "sub" }),
            "db.example.org",
            "db.example.org",
        ),
        (
            json!({ "hostname": "db", "subdomain": "sub", "setHostnameAsFQDN": true }),
            "db",
            "db.sub.shop.svc.cluster.local",
        ),
    ] {
        let pod = pod(spec);
        let hostname = pod_hostname(&pod, "cluster.local");
        assert_eq!(hostname.name, name);
        assert_eq!(uts_hostname(&pod, &hostname).unwrap(), uts);
    }
    let too_long =
        pod(json!({ "hostname": "d".repeat(60), "subdomain": "sub", "setHostnameAsFQDN": true }));
    let refused = uts_hostname(&too_long, &pod_hostname(&too_long, "cluster.local"));
    assert!(matches!(refused, Err(SpecError::FullNameTooLong { .. })), "{refused:?}");
    let mut long = pod(json!({}));
    long.metadata.name = Some(format!("{}-.{}", "a".repeat(61), "b".repeat(20)));
    assert_eq!(
        pod_hostname(&long, "cluster.local").name,
        "a".repeat(61),
        "cut, and no - or . at the end"
    );
}

#[test]
fn a_pod_on_the_nodes_network_has_the_nodes_name() {
    let pod = pod(
        json!({ "hostNetwork": true, "hostname": "db", "subdomain": "sub", "setHostnameAsFQDN": true }),
    );
    let hostname = pod_hostname(&pod, "cluster.local");
    let nodes = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!((hostname.name.as_str(), hostname.domain.as_deref()), (nodes.as_str(), None));
    assert_eq!(uts_hostname(&pod, &hostname).unwrap(), nodes);
}

#[test]
fn only_what_the_spec_names_is_shared_with_the_node() {
    let own = Namespaces::default();
    for (spec, expected) in [
        (json!({}), own),
        (json!({ "hostNetwork": false, "hostIPC": false, "hostPID": false }), own),
        (json!({ "hostNetwork": true }), Namespaces { network: NamespaceOwner::Host, ..own }),
        (json!({ "hostIPC": true }), Namespaces { ipc: NamespaceOwner::Host, ..own }),
        (json!({ "hostPID": true }), Namespaces { processes: ProcessVisibility::Host, ..own }),
        (
            json!({ "shareProcessNamespace": true }),
            Namespaces { processes: ProcessVisibility::Pod, ..own },
        ),
    ] {
        assert_eq!(pod_namespaces(&pod(spec.clone())), expected, "{spec}");
    }
}

fn mounts(container: &Container, env: &[(String, String)]) -> Result<Vec<String>, String> {
    let volume =
        |path: &str, access| VolumePath { source: MountSource::Host(PathBuf::from(path)), access };
    let volumes = BTreeMap::from([
        ("data".to_owned(), volume("/v/data", MountAccess::ReadWrite)),
        ("config".to_owned(), volume("/v/config", MountAccess::ReadOnly)),
        (
            "model".to_owned(),
            VolumePath {
                source: MountSource::Image("r.test/model:1".to_owned()),
                access: MountAccess::ReadOnly,
            },
        ),
    ]);
    let etc_files = ["hosts", "resolv.conf"]
        .map(|name| (Path::new("/etc").join(name), Path::new("/f").join(name)));
    let termination_log = Some(PathBuf::from("/f/message"));
    let paths = MountPaths { volumes: &volumes, etc_files: &etc_files, termination_log };
    let mounts = container_mounts(container, &paths, env).map_err(|error| error.to_string())?;
    Ok(mounts
        .iter()
        .map(|mount| {
            let sub = mount.sub_path.as_deref().unwrap_or(Path::new(""));
            let access = if mount.access == MountAccess::ReadOnly { "ro" } else { "rw" };
            let source = match &mount.source {
                MountSource::Host(path) => path.display().to_string(),
                MountSource::Image(image) => image.clone(),
            };
            let options = match mount.options == MountOptions::default() {
                true => String::new(),
                false => format!(" {:?}", mount.options),
            };
            format!(
                "{} <- {source}/{} {access}{options}",
                mount.destination.display(),
                sub.display()
            )
        })
        .collect())
}

#[test]
fn what_is_asked_of_a_mount_is_passed_on() {
    let app = container(json!({ "volumeMounts": [
        { "name": "data", "mountPath": "/a", "readOnly": true, "recursiveReadOnly": "IfPossible" },
        { "name": "data", "mountPath": "/b", "mountPropagation": "HostToContainer" },
        { "name": "data", "mountPath": "/c", "mountPropagation": "None", "bindMountOptions": ["nodev", "nosuid"] },
        { "name": "model", "mountPath": "/d", "subPath": "weights" },
    ] }));
    let found = mounts(&app, &[]).unwrap();
    let options = |read_only: &str, propagation: &str, without: &str| {
        format!(
            " MountOptions {{ read_only: {read_only}, propagation: {propagation}, without: [{without}] }}"
        )
    };
    for (number, (mount, options)) in [
        ("/a <- /v/data/ ro", options("Tree", "Private", "")),
        ("/b <- /v/data/ rw", options("Mount", "HostToContainer", "")),
        ("/c <- /v/data/ rw", options("Mount", "Private", "Devices, SetUid")),
        ("/d <- r.test/model:1/weights ro", options("Mount", "Private", "Exec")),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(found[number], format!("{mount}{options}"));
    }
}

#[test]
fn mounts_are_sorted_and_projected_volumes_read_only() {
    let app = container(json!({
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [
            { "name": "data", "mountPath": "/srv/deep/er", "subPath": "a/b" },
            { "name": "config", "mountPath": "/srv" },
            { "name": "data", "mountPath": "/mnt", "readOnly": true },
        ],
    }));
    assert_eq!(
        mounts(&app, &[]).unwrap(),
        [
            "/srv <- /v/config/ ro",
            "/mnt <- /v/data/ ro",
            "/etc/hosts <- /f/hosts/ rw",
            "/etc/resolv.conf <- /f/resolv.conf/ rw",
            "/dev/termination-log <- /f/message/ rw",
            "/srv/deep/er <- /v/data/a/b rw",
        ]
    );
}

#[test]
fn a_volume_at_etc_hosts_takes_the_place_of_the_agents_file() {
    let app = container(
        json!({ "volumeMounts": [{ "name": "config", "mountPath": "/etc/hosts", "subPath": "hosts" }] }),
    );
    let expected = ["/etc/hosts <- /v/config/hosts ro", "/etc/resolv.conf <- /f/resolv.conf/ rw"];
    assert_eq!(mounts(&app, &[]).unwrap(), expected);
}

/// As with containerd: what it provides is read-only with the root, what the kubelet provides is
/// not.
#[test]
fn a_read_only_root_covers_the_runtimes_files_in_etc() {
    let app = container(json!({
        "terminationMessagePath": "/dev/termination-log",
        "securityContext": { "readOnlyRootFilesystem": true },
    }));
    let expected = [
        "/etc/hosts <- /f/hosts/ rw",
        "/etc/resolv.conf <- /f/resolv.conf/ ro",
        "/dev/termination-log <- /f/message/ rw",
    ];
    assert_eq!(mounts(&app, &[]).unwrap(), expected);
}

#[test]
fn sub_paths_stay_beneath_their_volume() {
    let sub = |field: &str, path: &str| {
        let mut mount = json!({ "name": "data", "mountPath": "/mnt" });
        mount[field] = json!(path);
        let env = [("POD".to_owned(), "web-0".to_owned()), ("UP".to_owned(), "../..".to_owned())];
        mounts(&container(json!({ "volumeMounts": [mount] })), &env).map(|mounts| mounts[0].clone())
    };
    assert_eq!(sub("subPathExpr", "logs/$(POD)").unwrap(), "/mnt <- /v/data/logs/web-0 rw");
    let escapes = "volume \"data\": subPath \"../../x\" must be a relative path without \"..\"";
    assert_eq!(sub("subPath", "../../x").unwrap_err(), escapes);
    assert_eq!(sub("subPathExpr", "$(UP)/x").unwrap_err(), escapes);
    assert!(sub("subPath", "/etc").unwrap_err().contains("must be a relative path"));
    assert_eq!(
        sub("subPathExpr", "$(NOPE)").unwrap_err(),
        "container \"app\": volume \"data\": subPathExpr refers to variable \"NOPE\", which is not set"
    );
    let unknown = container(json!({ "volumeMounts": [{ "name": "nope", "mountPath": "/mnt" }] }));
    assert_eq!(
        mounts(&unknown, &[]).unwrap_err(),
        "container \"app\": volume \"nope\" is not in the pod's spec"
    );
}

fn key(attempt: u32) -> ContainerKey {
    let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid: PodUid("u".into()) };
    ContainerKey {
        sandbox: SandboxKey { pod, attempt: SandboxAttempt(attempt) },
        name: ContainerName("app".into()),
        attempt: ContainerAttempt(attempt),
    }
}

proptest! {
    /// Promise P4: a restart never widens privilege.
    #[test]
    fn every_attempt_gets_the_same_rights_and_limits(
        user in proptest::option::of(0_i64..70_000), privileged: bool, escalation in proptest::option::of(any::<bool>()),
        read_only: bool, attempt in 1_u32..1000,
    ) {
        let app = container(json!({ "image": "i", "command": ["a", "$(B)"], "securityContext": {
            "runAsUser": user, "privileged": privileged, "allowPrivilegeEscalation": escalation, "readOnlyRootFilesystem": read_only,
        } }));
        let spec = |attempt: u32| {
            let volumes = BTreeMap::new();
            let paths = MountPaths { volumes: &volumes, etc_files: &[], termination_log: None };
            let pod = pod(json!({}));
            let env = vec![("B".to_owned(), "b".to_owned())];
            let log_path = PathBuf::from("/log");
            container_spec(ContainerInputs { key: key(attempt), pod: &pod, container: &app, target: None, env, paths, log_path, seccomp_profiles: profiles(), memory_bytes: 1 << 30 }).unwrap()
        };
        let (first, mut later) = (spec(0), spec(attempt));
        prop_assert_eq!(&later.command, &["a", "b"]);
        later.key = first.key.clone();
        prop_assert_eq!(first, later);
    }
}

/// [KEP-753, KEP-5307]
#[test]
fn who_is_started_again_is_said_by_role_and_policy() {
    use ExpectedRestart::{Expected, NotExpected};
    // the pod's policy, the container's own, where it stands, what is expected of it
    for (of_pod, own, place, expected) in [
        (json!("Always"), Value::Null, "containers", Expected),
        (Value::Null, Value::Null, "containers", Expected),
        (json!("OnFailure"), Value::Null, "containers", Expected),
        (json!("Never"), Value::Null, "containers", NotExpected),
        (json!("Never"), json!("OnFailure"), "containers", Expected),
        (json!("Always"), json!("Never"), "containers", NotExpected),
        (json!("Always"), Value::Null, "initContainers", NotExpected),
        (json!("Never"), json!("Always"), "initContainers", Expected),
        (json!("Always"), json!("OnFailure"), "initContainers", NotExpected),
        (json!("Always"), Value::Null, "ephemeralContainers", NotExpected),
    ] {
        let app = json!({ "name": "app", "restartPolicy": own });
        let pod = pod(json!({ "restartPolicy": of_pod, place: [app.clone()] }));
        let renewal = renewal(&pod, &container(app));
        assert_eq!(renewal, expected, "pod {of_pod}, own {own}, {place}");
    }
}
