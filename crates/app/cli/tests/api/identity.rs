//! Who pods and people are at the API, and what they may do there, with the real kubectl inside and
//! outside of containers.
use std::process::Output;

use rekindle_testkit::{Engine, kubectl_path, text};

const IDENTITY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// An account that may read pods, and a pod that acts for it; kubectl is at /tools.
fn robot(pod: &str, more: &str) -> String {
    let tools = kubectl_path().canonicalize().unwrap();
    let tools = tools.parent().unwrap().display().to_string();
    format!(
        "
apiVersion: v1
kind: ServiceAccount
metadata: {{name: robot}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: pod-reader}}
rules: [{{apiGroups: [''], resources: [pods], verbs: [get]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: robot-reads-pods}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: pod-reader}}
subjects: [{{kind: ServiceAccount, name: robot}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: {pod}}}
spec:
  serviceAccountName: robot
  terminationGracePeriodSeconds: 1
  {more}
  containers:
  - name: app
    image: localhost/host
    command: [sh, -c, 'trap \"exit 0\" TERM; sleep 100000 & wait']
    env: [{{name: HOME, value: /tmp}}, {{name: KUBECONFIG, value: /nowhere}}]
    volumeMounts: [{{name: tools, mountPath: /tools, readOnly: true}}]
  volumes: [{{name: tools, hostPath: {{path: {tools}}}}}]
"
    )
}

/// The output of a command in the pod's container.
#[track_caller]
fn exec(engine: &Engine, pod: &str, command: &str) -> String {
    engine.kubectl(&["exec", pod, "--", "sh", "-c", command])
}

/// What kubectl says to somebody who has nothing but a token.
pub(crate) fn with_token(engine: &Engine, token: &str, arguments: &[&str]) -> Output {
    let ca = engine.data_dir().join("pki/ca.crt");
    engine
        .kubectl_command(arguments)
        .env("KUBECONFIG", "/nowhere")
        .args(["--server", &engine.api, "--token", token])
        .arg("--certificate-authority")
        .arg(ca)
        .output()
        .unwrap()
}

/// In-cluster configuration: address, CA and token are found by kubectl itself.
fn look_around(engine: &Engine, pod: &str) {
    let uid = engine.get(&format!("pod/{pod}"))["metadata"]["uid"].as_str().unwrap().to_owned();
    let own = format!("/tools/kubectl get pod {pod} -o jsonpath={{.metadata.uid}}");
    assert_eq!(exec(engine, pod, &own), uid);
    let who = exec(engine, pod, "/tools/kubectl auth whoami -o jsonpath={.status.userInfo}");
    for part in [
        r#""username":"system:serviceaccount:default:robot""#,
        r#""system:serviceaccounts:default""#,
        &format!(r#""authentication.kubernetes.io/pod-uid":["{uid}"]"#),
        r#""authentication.kubernetes.io/node-name":["node-1"]"#,
    ] {
        assert!(who.contains(part), "{part}: {who}");
    }
    let refused = exec(engine, pod, "/tools/kubectl get secrets 2>&1 || true");
    let expected = "secrets is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \"secrets\" in \
                    API group \"\" in the namespace \"default\"";
    assert!(refused.contains(expected), "{refused}");
    let delete = format!("/tools/kubectl delete pod {pod} 2>&1 || true");
    assert!(exec(engine, pod, &delete).contains("cannot delete resource"));
}

#[test]
fn a_pod_acts_for_its_service_account_and_its_token_ends_with_it() {
    let mut engine = Engine::start();
    engine.apply(&robot("actor", ""));
    engine.wait_ready("actor");
    look_around(&engine, "actor");
    let token = exec(&engine, "actor", &format!("cat {IDENTITY}/token"));
    assert_eq!(exec(&engine, "actor", &format!("cat {IDENTITY}/namespace")), "default");
    let readonly = exec(&engine, "actor", &format!("touch {IDENTITY}/x 2>&1 || true"));
    assert!(readonly.contains("Read-only"), "{readonly}");

    let restarted = engine.rekindle(&["restart", "pod/actor", "--rung", "pod", "--wait"]);
    assert!(restarted.status.success(), "{}", text(&restarted.stderr));
    engine.wait_ready("actor");
    look_around(&engine, "actor");

    let container =
        engine.get("pod/actor")["status"]["containerStatuses"][0]["containerID"].clone();
    engine.kill();
    engine.launch(&[]);
    look_around(&engine, "actor");
    assert_eq!(engine.get("pod/actor")["status"]["containerStatuses"][0]["containerID"], container);

    let before = with_token(&engine, &token, &["get", "pod", "actor", "-o", "name"]);
    assert_eq!(text(&before.stdout), "pod/actor\n", "{}", text(&before.stderr));
    engine.kubectl(&["delete", "pod", "actor", "--grace-period=1"]);
    let after = with_token(&engine, &token, &["get", "pods"]);
    assert!(text(&after.stderr).contains("Unauthorized"), "{}", text(&after.stderr));
}

#[test]
fn a_pod_on_the_nodes_network_and_one_of_another_user_have_their_identity_too() {
    let engine = Engine::start();
    engine.apply(&robot("neighbour", "hostNetwork: true"));
    engine.apply(&robot("user", "securityContext: {runAsUser: 4711, runAsGroup: 4712}"));
    engine.wait_ready("neighbour");
    look_around(&engine, "neighbour");
    engine.wait_ready("user");
    look_around(&engine, "user");
    let modes = format!("stat -L -c '%a %u' {IDENTITY}/token {IDENTITY}/ca.crt");
    assert_eq!(exec(&engine, "neighbour", &modes), "644 0\n644 0\n");
    assert_eq!(exec(&engine, "user", &modes), "600 4711\n644 0\n");
}

#[test]
fn a_pod_that_wants_no_identity_has_none_and_strangers_are_refused() {
    let engine = Engine::start();
    engine.apply(&robot("anonymous", "automountServiceAccountToken: false"));
    engine.wait_ready("anonymous");
    assert_eq!(exec(&engine, "anonymous", &format!("ls {IDENTITY} 2>/dev/null | wc -l")), "0\n");
    // without a token, with a wrong one, without knowing the CA
    let url = "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT";
    let ask = |how: &str| {
        let script = format!("/tools/kubectl --server {url} {how} get pods 2>&1 || true");
        exec(&engine, "anonymous", &script)
    };
    let nobody = ask("--insecure-skip-tls-verify --token wrong");
    assert!(nobody.contains("You must be logged in to the server"), "{nobody}");
    let unknown = ask("--token wrong");
    assert!(unknown.contains("certificate signed by unknown authority"), "{unknown}");
}

#[test]
fn kubectl_makes_roles_and_tokens_and_asks_about_them() {
    let engine = Engine::start();
    let kubectl = |arguments: &[&str]| engine.kubectl(arguments);
    kubectl(&["create", "namespace", "shop"]);
    kubectl(&["create", "serviceaccount", "robot", "-n", "shop"]);
    let resources = "--resource=pods,deployments.apps";
    kubectl(&["create", "role", "reader", "-n", "shop", "--verb=get,list", resources]);
    let account = "--serviceaccount=shop:robot";
    kubectl(&["create", "rolebinding", "readers", "-n", "shop", "--role=reader", account]);
    kubectl(&["create", "clusterrole", "metrics", "--verb=get", "--non-resource-url=/metrics"]);
    kubectl(&["create", "clusterrolebinding", "metrics", "--clusterrole=metrics", account]);
    let robot = "--as=system:serviceaccount:shop:robot";
    let can_i = |arguments: &[&str]| {
        let all = [&["auth", "can-i", robot], arguments].concat();
        text(&engine.try_kubectl(&all, "").stdout).trim().to_owned()
    };
    for (question, answer) in [
        (&["list", "pods", "-n", "shop"][..], "yes"),
        (&["list", "deployments.apps", "-n", "shop"], "yes"),
        (&["delete", "pods", "-n", "shop"], "no"),
        (&["list", "pods"], "no"),
        (&["get", "/metrics"], "yes"),
        (&["get", "/logs"], "no"),
    ] {
        assert_eq!(can_i(question), answer, "{question:?}");
    }
    let list = can_i(&["--list", "-n", "shop"]);
    assert!(list.contains("deployments.apps") && list.contains("[get list]"), "{list}");
    let wide = kubectl(&["get", "rolebinding", "-n", "shop", "-o", "wide"]);
    assert!(wide.contains("Role/reader") && wide.contains("shop/robot"), "{wide}");
    assert!(kubectl(&["describe", "clusterrole", "view"]).contains("deployments.apps"));

    let short =
        engine.kubectl_fails(&["create", "token", "robot", "-n", "shop", "--duration=1m"], "");
    assert!(short.contains("may not specify a duration less than 10 minutes"), "{short}");
    let token = kubectl(&["create", "token", "robot", "-n", "shop", "--duration=20m"]);
    let who = with_token(&engine, token.trim(), &["auth", "whoami"]);
    assert!(
        text(&who.stdout).contains("system:serviceaccount:shop:robot"),
        "{}",
        text(&who.stderr)
    );
    let pods = with_token(&engine, token.trim(), &["get", "pods", "-n", "shop"]);
    assert!(text(&pods.stderr).contains("No resources found"), "{}", text(&pods.stderr));
    // an account may not become another, nor give itself more
    let other = with_token(&engine, token.trim(), &["get", "pods", "--as=kubernetes-admin"]);
    assert!(
        text(&other.stderr).contains("cannot impersonate resource \"users\""),
        "{}",
        text(&other.stderr)
    );

    let manifest = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: shop}
rules: [{apiGroups: [''], resources: [services], verbs: [get]}]
";
    engine.kubectl_with(&["auth", "reconcile", "-f", "-"], manifest);
    assert_eq!(can_i(&["get", "services", "-n", "shop"]), "yes");
    assert_eq!(can_i(&["list", "pods", "-n", "shop"]), "yes", "nothing is taken away");

    kubectl(&["delete", "namespace", "shop", rekindle_testkit::TIMEOUT]);
    assert_eq!(can_i(&["list", "pods", "-n", "shop"]), "no");
    let gone = with_token(&engine, token.trim(), &["auth", "whoami"]);
    assert!(text(&gone.stderr).contains("Unauthorized"), "{}", text(&gone.stderr));
}
