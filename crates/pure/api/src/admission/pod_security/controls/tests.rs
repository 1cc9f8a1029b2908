//! A table for each control: what it allows and what it forbids, at which versions. Words and
//! versions are upstream's.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::*;

/// What one control says of a pod at `v1.minor`; empty when it allows it or is not yet there.
fn says(id: &str, minor: u64, pod: &Value) -> String {
    let annotations: BTreeMap<String, String> =
        serde_json::from_value(pod["annotations"].clone()).unwrap_or_default();
    let mut spec = pod.clone();
    spec.as_object_mut().unwrap().remove("annotations");
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "a"}]);
    }
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let pod = PodUnderReview::new(Some(&annotations), &spec);
    let control = CONTROLS.iter().find(|control| control.id == id).unwrap();
    let revision = control.revision(PolicyVersion::Minor(minor));
    let violation = revision.and_then(|revision| (revision.check)(&pod));
    in_detail(&violation.into_iter().collect::<Vec<_>>())
}

/// A table: versions, pod, what is said.
#[track_caller]
fn check(id: &str, table: &[(&[u64], Value, &str)]) {
    for (minors, pod, expected) in table {
        for minor in *minors {
            assert_eq!(says(id, *minor, pod), *expected, "{id} at v1.{minor}: {pod}");
        }
    }
}

/// Before all changes, and after.
const ALL: &[u64] = &[0, 18, 40];

/// A pod whose container `a` has this security context.
fn a(context: &Value) -> Value {
    json!({"containers": [{"name": "a", "securityContext": context}]})
}

/// The same with a container `b` without one, and the pod's own.
fn a_b(pod: &Value, a: &Value, b: &Value) -> Value {
    json!({"securityContext": pod, "containers": [
        {"name": "a", "securityContext": a}, {"name": "b", "securityContext": b}]})
}

fn windows(pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["os"] = json!({"name": "windows"});
    pod
}

fn own_users(pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["hostUsers"] = json!(false);
    pod
}

#[test]
fn app_armor_profiles() {
    let of = |profile: &str| json!({"appArmorProfile": {"type": profile}});
    let by = |value: &str| json!({"annotations": {"container.apparmor.security.beta.kubernetes.io/a": value}});
    let both = json!({
        "annotations": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"},
        "securityContext": of("Unconfined"),
        "containers": [{"name": "a", "securityContext": of("Unconfined")}, {"name": "b", "securityContext": of("x")}],
    });
    check(
        "appArmorProfile",
        &[
            (ALL, json!({}), ""),
            (ALL, a(&of("RuntimeDefault")), ""),
            (ALL, a(&of("Localhost")), ""),
            (ALL, by("runtime/default"), ""),
            (ALL, by("localhost/x"), ""),
            (ALL, by(""), ""),
            (
                ALL,
                a(&of("Unconfined")),
                "forbidden AppArmor profile (container \"a\" must not set AppArmor profile type to \"Unconfined\")",
            ),
            (
                ALL,
                json!({"securityContext": of("Unconfined")}),
                "forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\")",
            ),
            (
                ALL,
                by("unconfined"),
                "forbidden AppArmor profile (annotation must not set AppArmor profile type to \
                 \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")",
            ),
            (
                ALL,
                both,
                "forbidden AppArmor profiles (pod and containers \"a\", \"b\" and annotation must not set AppArmor profile \
                 type to \"Unconfined\", \"x\", \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")",
            ),
        ],
    );
}

#[test]
fn capabilities_at_baseline() {
    let add = |names: &[&str]| json!({"capabilities": {"add": names}});
    check(
        "capabilities_baseline",
        &[
            (ALL, json!({}), ""),
            (ALL, a(&add(&["CHOWN", "KILL", "SYS_CHROOT", "MKNOD"])), ""),
            (ALL, a(&json!({"capabilities": {"drop": ["NET_RAW"]}})), ""),
            (
                ALL,
                a(&add(&["NET_RAW", "CAP_CHOWN", "NET_RAW"])),
                "non-default capabilities (container \"a\" must not include \"CAP_CHOWN\", \"NET_RAW\" in \
                 securityContext.capabilities.add)",
            ),
            (
                ALL,
                json!({
                    "initContainers": [{"name": "i", "securityContext": add(&["ALL"])}],
                    "containers": [{"name": "a"}],
                    "ephemeralContainers": [{"name": "e", "securityContext": add(&["SYS_PTRACE"])}],
                }),
                "non-default capabilities (containers \"i\", \"e\" must not include \"ALL\", \"SYS_PTRACE\" in \
                 securityContext.capabilities.add)",
            ),
        ],
    );
}

#[test]
fn capabilities_at_restricted() {
    let with = |drop: &[&str], add: &[&str]| json!({"capabilities": {"drop": drop, "add": add}});
    const MISSING: &str = "unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"])";
    check(
        "capabilities_restricted",
        &[
            (&[0, 21], json!({}), ""),
            (&[22, 25, 40], json!({}), MISSING),
            (&[22], a(&with(&["all"], &[])), MISSING),
            (&[22, 40], a(&with(&["ALL"], &[])), ""),
            (&[22, 40], a(&with(&["NET_RAW", "ALL"], &["NET_BIND_SERVICE"])), ""),
            (
                &[22, 40],
                a(&with(&["ALL"], &["CHOWN"])),
                "unrestricted capabilities (container \"a\" must not include \"CHOWN\" in securityContext.capabilities.add)",
            ),
            (
                &[22, 40],
                a_b(&json!({}), &with(&[], &["CHOWN"]), &json!({})),
                "unrestricted capabilities (containers \"a\", \"b\" must set securityContext.capabilities.drop=[\"ALL\"]; \
                 container \"a\" must not include \"CHOWN\" in securityContext.capabilities.add)",
            ),
            (&[22, 24], windows(&json!({})), MISSING),
            (&[25, 40], windows(&json!({})), ""),
        ],
    );
}

/// This control is ours.
#[test]
fn the_host_image() {
    let of = |image: &str| json!({"containers": [{"name": "a", "image": image}]});
    const FOUND: &str = "host image (container \"a\" must not use image \"localhost/host\")";
    let id = "sha256:9a5ba68885057128603663b7df210366751d15b321e291aa5979bf4a0b498227";
    check(
        "hostImage",
        &[
            (ALL, of("localhost/demo"), ""),
            (ALL, of("localhost/hosts"), ""),
            (ALL, of("localhost/host"), FOUND),
            (ALL, of("localhost/host:latest"), FOUND),
            (ALL, of("localhost/host@sha256:abc"), FOUND),
            (ALL, of(id), FOUND),
            (
                ALL,
                json!({"containers": [{"name": "a", "image": "localhost/host"}],
                       "ephemeralContainers": [{"name": "e", "image": "localhost/host"}],
                       "volumes": [{"name": "v", "image": {"reference": "localhost/host"}}]}),
                "host image (containers \"a\", \"e\" and volume \"v\" must not use image \"localhost/host\")",
            ),
        ],
    );
}

#[test]
fn host_namespaces() {
    check(
        "hostNamespaces",
        &[
            (ALL, json!({"hostNetwork": false, "hostPID": false, "hostIPC": false}), ""),
            (ALL, json!({"hostNetwork": true}), "host namespaces (hostNetwork=true)"),
            (
                ALL,
                json!({"hostIPC": true, "hostPID": true}),
                "host namespaces (hostPID=true, hostIPC=true)",
            ),
        ],
    );
}

#[test]
fn host_path_volumes() {
    let of = |names: &[&str]| {
        let volumes: Vec<Value> =
            names.iter().map(|name| json!({"name": name, "hostPath": {"path": "/"}})).collect();
        json!({"volumes": volumes})
    };
    check(
        "hostPathVolumes",
        &[
            (ALL, json!({"volumes": [{"name": "e", "emptyDir": {}}]}), ""),
            (ALL, of(&["v"]), "hostPath volumes (volume \"v\")"),
            (ALL, of(&["v", "w"]), "hostPath volumes (volumes \"v\", \"w\")"),
        ],
    );
}

#[test]
fn host_ports() {
    let of = |ports: &[i32]| {
        let ports: Vec<Value> =
            ports.iter().map(|port| json!({"containerPort": 80, "hostPort": port})).collect();
        json!({"name": "a", "ports": ports})
    };
    check(
        "hostPorts",
        &[
            (ALL, json!({"containers": [of(&[0])]}), ""),
            (
                ALL,
                json!({"containers": [of(&[80])]}),
                "hostPort (container \"a\" uses hostPort 80)",
            ),
            (
                ALL,
                json!({"initContainers": [of(&[90])], "containers": [of(&[9, 100, 90])]}),
                "hostPort (containers \"a\", \"a\" use hostPorts 100, 9, 90)",
            ),
        ],
    );
}

#[test]
fn hosts_of_probes_and_hooks() {
    let with = |field: &str, handler: Value| json!({"containers": [{"name": "a", field: handler}]});
    let get = |host: &str| json!({"httpGet": {"port": 80, "host": host}});
    let tcp = |host: &str| json!({"tcpSocket": {"port": 80, "host": host}});
    const ONE: &str =
        "probe or lifecycle host (container \"a\" uses probe or lifecycle host \"10.0.0.1\")";
    check(
        "hostProbesAndHostLifecycle",
        &[
            (ALL, with("livenessProbe", get("")), ""),
            (ALL, with("livenessProbe", json!({"exec": {"command": ["true"]}})), ""),
            (&[0, 33], with("livenessProbe", get("10.0.0.1")), ""),
            (&[34, 40], with("livenessProbe", get("10.0.0.1")), ONE),
            (&[34, 40], with("readinessProbe", tcp("10.0.0.1")), ONE),
            (&[34, 40], with("startupProbe", get("10.0.0.1")), ONE),
            (&[34, 40], with("lifecycle", json!({"postStart": get("10.0.0.1")})), ONE),
            (&[34, 40], with("lifecycle", json!({"preStop": tcp("10.0.0.1")})), ONE),
            (
                &[34, 40],
                json!({"initContainers": [{"name": "z", "startupProbe": get("b"), "livenessProbe": tcp("a")}],
                       "containers": [{"name": "a", "readinessProbe": get("b")}]}),
                "probe or lifecycle host (containers \"a\", \"z\" use probe or lifecycle hosts \"a\", \"b\")",
            ),
        ],
    );
}

#[test]
fn privileged_containers() {
    check(
        "privileged",
        &[
            (ALL, a(&json!({"privileged": false})), ""),
            (
                ALL,
                a(&json!({"privileged": true})),
                "privileged (container \"a\" must not set securityContext.privileged=true)",
            ),
        ],
    );
}

#[test]
fn windows_host_processes() {
    let of = |is: bool| json!({"windowsOptions": {"hostProcess": is}});
    check(
        "windowsHostProcess",
        &[
            (ALL, a(&of(false)), ""),
            (
                ALL,
                a(&of(true)),
                "hostProcess (container \"a\" must not set securityContext.windowsOptions.hostProcess=true)",
            ),
            (
                ALL,
                a_b(&of(true), &of(true), &of(true)),
                "hostProcess (pod and containers \"a\", \"b\" must not set securityContext.windowsOptions.hostProcess=true)",
            ),
        ],
    );
}

#[test]
fn proc_mounts() {
    let unmasked = a(&json!({"procMount": "Unmasked"}));
    const FOUND: &str =
        "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")";
    check(
        "procMount",
        &[
            (ALL, a(&json!({"procMount": "Default"})), ""),
            (ALL, unmasked.clone(), FOUND),
            (&[0, 34], own_users(&unmasked), FOUND),
            (&[35, 40], own_users(&unmasked), ""),
        ],
    );
    check(
        "procMount_restricted",
        &[(&[0, 34], unmasked.clone(), ""), (&[35, 40], own_users(&unmasked), FOUND)],
    );
}

#[test]
fn se_linux_options() {
    let of = |options: Value| json!({"seLinuxOptions": options});
    check(
        "seLinuxOptions",
        &[
            (ALL, a(&of(json!({}))), ""),
            (
                ALL,
                a(&of(json!({"type": "container_kvm_t", "level": "s0", "user": "", "role": ""}))),
                "",
            ),
            (&[31, 40], a(&of(json!({"type": "container_engine_t"}))), ""),
            (
                &[0, 30],
                a(&of(json!({"type": "container_engine_t"}))),
                "seLinuxOptions (container \"a\" set forbidden securityContext.seLinuxOptions: type \"container_engine_t\")",
            ),
            (
                ALL,
                a_b(
                    &of(json!({"type": "y"})),
                    &of(json!({"type": "x", "user": "u"})),
                    &of(json!({"role": "r"})),
                ),
                "seLinuxOptions (pod and containers \"a\", \"b\" set forbidden securityContext.seLinuxOptions: \
                 types \"x\", \"y\"; user may not be set; role may not be set)",
            ),
        ],
    );
}

#[test]
fn seccomp_profiles_at_baseline() {
    let of = |profile: &str| json!({"seccompProfile": {"type": profile}});
    let by = |key: &str, value: &str| json!({"annotations": {key: value}});
    let of_pod = "seccomp.security.alpha.kubernetes.io/pod";
    let of_a = "container.seccomp.security.alpha.kubernetes.io/a";
    check(
        "seccompProfile_baseline",
        &[
            (ALL, json!({}), ""),
            (&[0, 18], by(of_pod, "runtime/default"), ""),
            (&[0, 18], by(of_a, "docker/default"), ""),
            (&[0, 18], by(of_a, "localhost/x"), ""),
            (&[0, 18], by("container.seccomp.security.alpha.kubernetes.io/z", "unconfined"), ""),
            (
                &[0, 18],
                by(of_pod, "unconfined"),
                "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")",
            ),
            (
                &[0, 18],
                json!({"annotations": {of_pod: "x", of_a: "unconfined"}}),
                "seccompProfile (forbidden annotations container.seccomp.security.alpha.kubernetes.io/a=\"unconfined\", \
                 seccomp.security.alpha.kubernetes.io/pod=\"x\")",
            ),
            (&[19, 40], by(of_pod, "unconfined"), ""),
            (&[0, 18], a(&of("Unconfined")), ""),
            (&[19, 40], a(&of("RuntimeDefault")), ""),
            (&[19, 40], a(&of("Localhost")), ""),
            (
                &[19, 40],
                a(&of("Unconfined")),
                "seccompProfile (container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
            ),
            (
                &[19, 40],
                a_b(&of("Unconfined"), &of("x"), &json!({})),
                "seccompProfile (pod and container \"a\" must not set securityContext.seccompProfile.type to \
                 \"Unconfined\", \"x\")",
            ),
        ],
    );
}

#[test]
fn seccomp_profiles_at_restricted() {
    let of = |profile: &str| json!({"seccompProfile": {"type": profile}});
    const MISSING: &str = "seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \
                           \"RuntimeDefault\" or \"Localhost\")";
    check(
        "seccompProfile_restricted",
        &[
            (&[0, 18], json!({}), ""),
            (&[19, 40], json!({}), MISSING),
            (&[19, 40], json!({"securityContext": of("RuntimeDefault")}), ""),
            (&[19, 40], a(&of("Localhost")), ""),
            (
                &[19, 40],
                a_b(&json!({}), &of("Localhost"), &json!({})),
                "seccompProfile (pod or container \"b\" must set securityContext.seccompProfile.type to \
                 \"RuntimeDefault\" or \"Localhost\")",
            ),
            (
                &[19, 40],
                a_b(&of("RuntimeDefault"), &of("Unconfined"), &json!({})),
                "seccompProfile (container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
            ),
            (&[19, 24], windows(&json!({})), MISSING),
            (&[25, 40], windows(&json!({})), ""),
        ],
    );
}

#[test]
fn sysctls() {
    let of = |names: &[&str]| {
        let all: Vec<Value> =
            names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
        json!({"securityContext": {"sysctls": all}})
    };
    let of_v1_27 = of(&["net.ipv4.ip_local_reserved_ports"]);
    let of_v1_29 = of(&["net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout"]);
    let of_v1_32 = of(&["net.ipv4.tcp_rmem"]);
    let of_v1_37 = of(&["net.ipv4.tcp_notsent_lowat"]);
    check(
        "sysctls",
        &[
            (ALL, json!({}), ""),
            (ALL, of(&["kernel.shm_rmid_forced", "net.ipv4.tcp_syncookies"]), ""),
            (ALL, of(&["kernel.msgmax", "a.b"]), "forbidden sysctls (kernel.msgmax, a.b)"),
            (&[26], of_v1_27.clone(), "forbidden sysctls (net.ipv4.ip_local_reserved_ports)"),
            (&[27, 40], of_v1_27, ""),
            (
                &[28],
                of_v1_29.clone(),
                "forbidden sysctls (net.ipv4.tcp_keepalive_time, net.ipv4.tcp_fin_timeout)",
            ),
            (&[29, 40], of_v1_29, ""),
            (&[31], of_v1_32.clone(), "forbidden sysctls (net.ipv4.tcp_rmem)"),
            (&[32, 40], of_v1_32, ""),
            (&[36], of_v1_37.clone(), "forbidden sysctls (net.ipv4.tcp_notsent_lowat)"),
            (&[37, 40], of_v1_37, ""),
        ],
    );
}

#[test]
fn privilege_escalation() {
    const FOUND: &str = "allowPrivilegeEscalation != false (container \"a\" must set \
                         securityContext.allowPrivilegeEscalation=false)";
    check(
        "allowPrivilegeEscalation",
        &[
            (&[0, 7], json!({}), ""),
            (&[8, 40], json!({}), FOUND),
            (&[8, 40], a(&json!({"allowPrivilegeEscalation": true})), FOUND),
            (&[8, 40], a(&json!({"allowPrivilegeEscalation": false})), ""),
            (&[8, 24], windows(&json!({})), FOUND),
            (&[25, 40], windows(&json!({})), ""),
        ],
    );
}

#[test]
fn restricted_volumes() {
    let of = |volumes: Value| json!({"volumes": volumes});
    check(
        "restrictedVolumes",
        &[
            (
                ALL,
                of(json!([
                    {"name": "a", "configMap": {"name": "x"}}, {"name": "b", "csi": {"driver": "x"}},
                    {"name": "c", "downwardAPI": {}}, {"name": "d", "emptyDir": {}}, {"name": "e", "ephemeral": {}},
                    {"name": "f", "image": {"reference": "x"}}, {"name": "g", "persistentVolumeClaim": {"claimName": "x"}},
                    {"name": "h", "projected": {}}, {"name": "i", "secret": {"secretName": "x"}}
                ])),
                "",
            ),
            (
                ALL,
                of(json!([{"name": "a", "hostPath": {"path": "/"}}])),
                "restricted volume types (volume \"a\" uses restricted volume type \"hostPath\")",
            ),
            (
                ALL,
                of(
                    json!([{"name": "b", "nfs": {"server": "s", "path": "/"}}, {"name": "a", "nfs": {"server": "s", "path": "/"}}]),
                ),
                "restricted volume types (volumes \"b\", \"a\" use restricted volume type \"nfs\")",
            ),
            (
                ALL,
                of(json!([{"name": "a"}, {"name": "b", "gitRepo": {"repository": "x"}}])),
                "restricted volume types (volumes \"a\", \"b\" use restricted volume types \"gitRepo\", \"unknown\")",
            ),
        ],
    );
}

#[test]
fn run_as_non_root() {
    let of = |is: bool| json!({"runAsNonRoot": is});
    const MISSING: &str =
        "runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true)";
    check(
        "runAsNonRoot",
        &[
            (ALL, json!({}), MISSING),
            (ALL, a(&of(true)), ""),
            (ALL, json!({"securityContext": of(true)}), ""),
            (
                ALL,
                json!({"securityContext": of(false)}),
                "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
            ),
            (
                ALL,
                a_b(&of(false), &of(false), &of(false)),
                "runAsNonRoot != true (pod and containers \"a\", \"b\" must not set securityContext.runAsNonRoot=false)",
            ),
            (
                ALL,
                a_b(&of(true), &of(false), &json!({})),
                "runAsNonRoot != true (container \"a\" must not set securityContext.runAsNonRoot=false)",
            ),
            (&[0, 34], own_users(&json!({})), MISSING),
            (&[35, 40], own_users(&json!({})), ""),
        ],
    );
}

#[test]
fn run_as_user() {
    let of = |user: i64| json!({"runAsUser": user});
    let root = a(&of(0));
    const FOUND: &str = "runAsUser=0 (container \"a\" must not set runAsUser=0)";
    check(
        "runAsUser",
        &[
            (ALL, json!({}), ""),
            (ALL, a(&of(1)), ""),
            (&[0, 22], root.clone(), ""),
            (&[23, 40], root.clone(), FOUND),
            (
                &[23, 40],
                a_b(&of(0), &of(0), &of(0)),
                "runAsUser=0 (pod and containers \"a\", \"b\" must not set runAsUser=0)",
            ),
            (&[23, 34], own_users(&root), FOUND),
            (&[35, 40], own_users(&root), ""),
        ],
    );
}

/// Upstream sorts by these ids, those of `baseline` first, and clients compare whole sentences.
#[test]
fn violations_are_told_in_the_order_of_the_controls_names() {
    for level in [PolicyLevel::Baseline, PolicyLevel::Restricted] {
        let of_level = CONTROLS.iter().filter(|control| control.level == level);
        let ids: Vec<&str> = of_level.map(|control| control.id).collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        assert_eq!(ids, sorted);
    }
    for control in &CONTROLS {
        assert!(control.revisions.is_sorted_by_key(|revision| revision.since), "{}", control.id);
        let replaced = control.revisions.iter().filter_map(|revision| revision.replaces);
        for id in replaced {
            let other = CONTROLS.iter().find(|other| other.id == id).unwrap();
            assert_eq!(
                (control.level, other.level),
                (PolicyLevel::Restricted, PolicyLevel::Baseline)
            );
        }
    }
}

/// How many violations an empty pod and one that asks for everything have at each level.
#[test]
fn a_level_holds_all_controls_of_the_levels_below_it() {
    let greedy = json!({"hostPID": true, "containers": [{"name": "a", "image": "localhost/host",
        "securityContext": {"privileged": true, "capabilities": {"add": ["ALL"]}}}],
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}]});
    let greedy: PodSpec = serde_json::from_value(greedy).unwrap();
    let greedy = PodUnderReview::new(None, &greedy);
    let short = |level, version| in_short(&violations(LevelAtVersion { level, version }, &greedy));
    let latest = PolicyVersion::Latest;
    assert_eq!(short(PolicyLevel::Privileged, latest), "");
    assert_eq!(
        short(PolicyLevel::Baseline, latest),
        "non-default capabilities, host image, host namespaces, hostPath volumes, privileged"
    );
    let of_restricted = "host image, host namespaces, privileged, allowPrivilegeEscalation != false, unrestricted \
                         capabilities, restricted volume types, runAsNonRoot != true, seccompProfile";
    assert_eq!(short(PolicyLevel::Restricted, latest), of_restricted);
    assert_eq!(short(PolicyLevel::Restricted, PolicyVersion::Minor(u64::MAX)), of_restricted);
    assert_eq!(
        short(PolicyLevel::Restricted, PolicyVersion::Minor(0)),
        "non-default capabilities, host image, host namespaces, privileged, restricted volume types, runAsNonRoot != true"
    );
}
