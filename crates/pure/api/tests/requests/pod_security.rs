//! Pod Security admission as clients see it. The words were recorded from a kube-apiserver.

use rekindle_api::PodSecurityConfiguration;
use rekindle_kinds::identity::UserInfo;
use serde_json::{Value, json};

use crate::harness::{self, Bench, Reply};

const NAMESPACES: &str = "/api/v1/namespaces";
const SHOP: &str = "/api/v1/namespaces/shop/pods";

/// An API with the namespace `shop`, which has these labels of Pod Security.
fn bench(labels: &[(&str, &str)]) -> Bench {
    let mut bench = Bench::new();
    make_namespace(&mut bench, "shop", labels).ok();
    bench
}

fn make_namespace(bench: &mut Bench, name: &str, labels: &[(&str, &str)]) -> Reply {
    let namespace = json!({"metadata": {"name": name, "labels": security_labels(labels)}});
    bench.call("POST", NAMESPACES, &namespace.to_string())
}

fn security_labels(labels: &[(&str, &str)]) -> Value {
    let labels = labels.iter().map(|(key, value)| {
        (format!("pod-security.kubernetes.io/{key}"), Value::from((*value).to_owned()))
    });
    Value::Object(labels.collect())
}

/// A pod of one container with this spec beside it.
fn pod(name: &str, more: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {
        "automountServiceAccountToken": false, "containers": [{"name": "main", "image": "registry.example/app:1"}]}});
    let spec = pod["spec"].as_object_mut().unwrap();
    spec.extend(more.as_object().unwrap().clone());
    pod
}

/// One that `restricted` lets in.
fn good(name: &str) -> Value {
    let container = json!({"name": "main", "image": "registry.example/app:1",
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}});
    let context = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    pod(name, &json!({"containers": [container], "securityContext": context}))
}

const PLAIN_RESTRICTED: &str = "allowPrivilegeEscalation != false (container \"main\" must set \
    securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"main\" must set \
    securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"main\" must set \
    securityContext.runAsNonRoot=true), seccompProfile (pod or container \"main\" must set \
    securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

/// Issue 33: such a pod listed the engine's keys, so that the role `edit` of any namespace was
/// root.
#[test]
fn a_namespace_that_enforces_refuses_pods_with_the_words_of_upstream() {
    let mut bench = bench(&[("enforce", "restricted")]);
    let answer = bench.call("POST", SHOP, &pod("solo", &json!({})).to_string());
    let expected = format!(
        "403 Forbidden: pods \"solo\" is forbidden: violates PodSecurity \"restricted:latest\": {PLAIN_RESTRICTED}"
    );
    assert_eq!(answer.text(), expected);
    assert_eq!(answer.json()["details"], json!({"kind": "pods", "name": "solo"}));
    let breakout = json!({
        "containers": [{"name": "main", "image": "localhost/host", "securityContext": {"privileged": true}}],
        "volumes": [{"name": "h", "hostPath": {"path": "/"}}],
    });
    let answer = bench.call("POST", SHOP, &pod("solo", &breakout).to_string()).text();
    for found in ["host image (", "privileged (", "restricted volume types (volume \"h\""] {
        assert!(answer.contains(found), "{answer}");
    }
    assert_eq!(bench.call("POST", SHOP, &good("solo").to_string()).text(), "201 : ");
    // no dry run, no generated name and no other namespace changes that
    let target = format!("{SHOP}?dryRun=All");
    assert_eq!(bench.call("POST", &target, &pod("two", &json!({})).to_string()).code(), 403);
    let mut generated = pod("", &json!({}));
    generated["metadata"] = json!({"generateName": "web-"});
    let answer = bench.call("POST", SHOP, &generated.to_string()).text();
    assert!(answer.starts_with("403 Forbidden: pods \"web-"), "{answer}");
    bench.create(harness::PODS, pod("elsewhere", &breakout));
}

#[test]
fn what_a_change_brings_is_refused_and_what_was_there_is_not() {
    let mut bench = bench(&[]);
    bench.create(SHOP, pod("old", &json!({"hostPID": true})));
    bench.create(SHOP, good("new"));
    let label = json!({"metadata": {"labels": security_labels(&[("enforce", "restricted")])}});
    bench.patch("merge-patch+json", &format!("{NAMESPACES}/shop"), &label.to_string()).ok();
    let mut patch = |name: &str, sub: &str, body: Value| {
        let target = format!("{SHOP}/{name}{sub}");
        bench.patch("strategic-merge-patch+json", &target, &body.to_string()).text()
    };
    let image = |image: &str| json!({"spec": {"containers": [{"name": "main", "image": image}]}});
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(patch("old", "", labels), "200 : ");
    assert_eq!(patch("new", "", image("registry.example/app:2")), "200 : ");
    let refused = patch("new", "", image("localhost/host"));
    assert!(
        refused.ends_with("host image (container \"main\" must not use image \"localhost/host\")"),
        "{refused}"
    );
    let refused = patch("old", "", image("registry.example/app:2"));
    assert!(refused.contains("host namespaces (hostPID=true)"), "{refused}");
    assert_eq!(patch("old", "/status", json!({"status": {"message": "m"}})), "200 : ");
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "x",
        "securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}}]}});
    let refused = patch("new", "/ephemeralcontainers", debug);
    assert!(
        refused.starts_with("403 Forbidden: pods \"new\" is forbidden: violates PodSecurity"),
        "{refused}"
    );
    assert!(refused.contains("must not include \"SYS_PTRACE\""), "{refused}");
}

/// The templates of everything that makes pods; a namespace that enforces warns of them, too.
#[test]
fn workloads_are_warned_about_and_never_refused() {
    let template =
        json!({"metadata": {"labels": {"app": "t"}}, "spec": pod("", &json!({}))["spec"]});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let selector = json!({"matchLabels": {"app": "t"}});
    let spec = json!({"replicas": 0, "selector": selector, "template": template});
    let stateful =
        json!({"serviceName": "s", "replicas": 0, "selector": selector, "template": template});
    let daemon = json!({"selector": selector, "template": template});
    let job = json!({"suspend": true, "template": once});
    let cron = json!({"schedule": "0 3 * * *", "suspend": true, "jobTemplate": {"spec": {"template": once}}});
    let old = json!({"replicas": 0, "selector": {"app": "t"}, "template": template});
    for labels in [&[("warn", "restricted")], &[("enforce", "restricted")]] {
        let mut bench = bench(labels);
        for (path, spec) in [
            ("/apis/apps/v1/namespaces/shop/deployments", &spec),
            ("/apis/apps/v1/namespaces/shop/replicasets", &spec),
            ("/apis/apps/v1/namespaces/shop/statefulsets", &stateful),
            ("/apis/apps/v1/namespaces/shop/daemonsets", &daemon),
            ("/apis/batch/v1/namespaces/shop/jobs", &job),
            ("/apis/batch/v1/namespaces/shop/cronjobs", &cron),
            ("/api/v1/namespaces/shop/replicationcontrollers", &old),
        ] {
            let object = json!({"metadata": {"name": "w"}, "spec": spec});
            let answer = bench.call("POST", path, &object.to_string());
            let expected =
                format!("would violate PodSecurity \"restricted:latest\": {PLAIN_RESTRICTED}");
            assert_eq!(answer.code(), 201, "{path}: {}", answer.text());
            assert!(answer.0.warnings.contains(&expected), "{path}: {}", answer.text());
            let label = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
            let answer = bench.call("PATCH", &format!("{path}/w"), &label);
            assert_eq!(answer.code(), 200, "{path}: {}", answer.text());
            assert!(answer.0.warnings.contains(&expected), "{path}: {}", answer.text());
        }
    }
}

#[test]
fn each_mode_has_its_level_and_version() {
    let pinned = [
        ("enforce", "restricted"),
        ("enforce-version", "v1.18"),
        ("warn", "restricted"),
        ("warn-version", "v1.25"),
        ("audit", "restricted"),
    ];
    let mut bench = bench(&pinned);
    let mut pod = good("solo");
    pod["spec"]["securityContext"] = json!({"runAsNonRoot": true});
    let answer = bench.call("POST", SHOP, &pod.to_string());
    assert_eq!(
        answer.text(),
        "201 : \n  warning: would violate PodSecurity \"restricted:v1.25\": seccompProfile (pod or container \"main\" \
         must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    );
    make_namespace(&mut bench, "quiet", &[("audit", "restricted")]).ok();
    let answer = bench.call(
        "POST",
        "/api/v1/namespaces/quiet/pods",
        &self::pod("p", &json!({"hostPID": true})).to_string(),
    );
    assert_eq!(answer.text(), "201 : ");
}

#[test]
fn labels_that_cannot_be_read_are_refused() {
    let mut bench = bench(&[]);
    let answer = make_namespace(&mut bench, "x", &[("enforce", "strict"), ("warn-version", "1.2")]);
    assert_eq!(
        answer.text(),
        "422 Invalid: Namespace \"x\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \
         \"strict\": must be one of privileged, baseline, restricted, \
         metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"1.2\": must be \"latest\" or \"v1.x\"]"
    );
    let label = json!({"metadata": {"labels": security_labels(&[("audit", "none")])}}).to_string();
    let answer = bench.call("PATCH", &format!("{NAMESPACES}/shop"), &label);
    assert!(
        answer.text().starts_with("422 Invalid: Namespace \"shop\" is invalid: "),
        "{}",
        answer.text()
    );
}

/// Upstream: `EvaluatePodsInNamespace`.
#[test]
fn a_namespace_that_begins_to_enforce_warns_of_the_pods_it_has() {
    let mut bench = bench(&[("enforce", "privileged")]);
    for name in ["a", "b", "c"] {
        bench.create(SHOP, pod(name, &json!({"hostPID": true})));
    }
    bench.create(
        SHOP,
        pod("d", &json!({"hostPID": true, "volumes": [{"name": "h", "hostPath": {"path": "/"}}]})),
    );
    bench.create(SHOP, good("e"));
    let mut enforce = |level: &str| {
        let label = json!({"metadata": {"labels": security_labels(&[("enforce", level)])}});
        bench
            .patch("merge-patch+json", &format!("{NAMESPACES}/shop"), &label.to_string())
            .0
            .warnings
    };
    assert_eq!(
        enforce("baseline"),
        [
            "existing pods in namespace \"shop\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 2 other pods): host namespaces",
            "d: host namespaces, hostPath volumes",
        ]
    );
    assert_eq!(enforce("baseline"), [""; 0], "nothing has changed");
    assert_eq!(enforce("restricted").len(), 3);
    assert_eq!(enforce("baseline"), [""; 0], "it enforces less");
}

#[test]
fn no_namespace_is_too_large_to_be_labelled() {
    let mut bench = bench(&[]);
    for number in 0..3002 {
        let request = bench.request(
            "POST",
            SHOP,
            &pod(&format!("p{number:04}"), &json!({"hostPID": true})).to_string(),
        );
        drop(bench.api.handle(&request));
    }
    bench.committer.commit_pending().unwrap();
    let label =
        json!({"metadata": {"labels": security_labels(&[("enforce", "baseline")])}}).to_string();
    let answer = bench.call("PATCH", &format!("{NAMESPACES}/shop"), &label);
    assert_eq!(
        answer.0.warnings,
        [
            "new PodSecurity enforce level only checked against the first 3000 of 3002 existing pods",
            "existing pods in namespace \"shop\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "p0000 (and 2999 other pods): host namespaces",
        ]
    );
}

#[test]
fn the_configuration_gives_defaults_and_exemptions() {
    let mut bench = Bench::new();
    let configuration = json!({
        "apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "baseline", "warn": "baseline"},
        "exemptions": {"usernames": ["robot"], "namespaces": ["kube-system"]},
    });
    bench.api.configure_pod_security(PodSecurityConfiguration::from_value(configuration).unwrap());
    make_namespace(&mut bench, "shop", &[]).ok();
    make_namespace(&mut bench, "free", &[("enforce", "privileged")]).ok();
    let bad = pod("p", &json!({"hostPID": true})).to_string();
    let code = |bench: &mut Bench, namespace: &str| {
        bench.call("POST", &format!("{NAMESPACES}/{namespace}/pods?dryRun=All"), &bad).code()
    };
    assert_eq!(code(&mut bench, "shop"), 403);
    assert_eq!(code(&mut bench, "free"), 201);
    assert_eq!(code(&mut bench, "kube-system"), 201);
    let robot = UserInfo::new("robot".to_owned(), ["system:masters".to_owned()]);
    assert_eq!(bench.as_user(robot, |bench| code(bench, "shop")), 201);
    let label =
        json!({"metadata": {"labels": security_labels(&[("enforce", "restricted")])}}).to_string();
    let answer = bench.call("PATCH", &format!("{NAMESPACES}/kube-system"), &label);
    assert_eq!(
        answer.0.warnings,
        [
            "namespace \"kube-system\" is exempt from Pod Security, and the policy (enforce=restricted:latest) will be ignored"
        ]
    );
}
