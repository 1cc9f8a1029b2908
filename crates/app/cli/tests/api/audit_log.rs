//! The audit log with the real kubectl: what the policy asks for is there, and nothing else.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rekindle_testkit::{Engine, text};
use serde_json::{Value, json};

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: None, nonResourceURLs: ['/readyz*']}
- {level: Metadata, resources: [{resources: [secrets]}]}
- {level: RequestResponse, resources: [{resources: [configmaps]}]}
- {level: Request, verbs: [create], resources: [{resources: [pods]}]}
- {level: Metadata}
";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: localhost/demo, args: [server, --port, '8080']}]
";

/// A watch that the server ends.
const WATCH: &str = "/api/v1/namespaces/default/configmaps?timeoutSeconds=1&watch=1";

/// The arguments for a log with this policy in the engine's folder.
fn arguments(engine: &Engine, policy: &str) -> Vec<String> {
    let (file, log) = (engine.data_dir().join("policy.yaml"), log(engine.data_dir()));
    fs::write(&file, policy).unwrap();
    let paths = [("--audit-policy-file", file), ("--audit-log-path", log)];
    paths
        .into_iter()
        .flat_map(|(name, path)| [name.to_owned(), path.display().to_string()])
        .collect()
}

fn log(data_dir: &Path) -> std::path::PathBuf {
    data_dir.join("audit/audit.log")
}

/// An engine with this policy and further arguments.
fn audited(policy: &str, more: &[&str]) -> Engine {
    let mut engine = Engine::prepare();
    let arguments = arguments(&engine, policy);
    let arguments: Vec<&str> =
        arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
    engine.launch(&arguments);
    engine
}

/// Ends the engine, which writes what it still has to write.
fn end(engine: &mut Engine) {
    let down = engine.rekindle(&["down"]);
    assert!(down.status.success(), "{}", text(&down.stderr));
    engine.wait();
}

fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line is an event")).collect()
}

/// The stages of the requests to this URI.
fn stages<'e>(events: &'e [Value], uri: &str) -> Vec<&'e str> {
    let events =
        events.iter().filter(|event| event["requestURI"].as_str().unwrap().starts_with(uri));
    events.map(|event| event["stage"].as_str().unwrap()).collect()
}

#[test]
fn what_kubectl_does_is_recorded_as_the_policy_says() {
    let mut engine = audited(POLICY, &[]);
    engine.kubectl(&["create", "secret", "generic", "key", "--from-literal=a=hidden-from-all"]);
    engine.kubectl(&["get", "secret", "key", "-o", "yaml"]);
    engine.kubectl(&["create", "configmap", "settings", "--from-literal=colour=green"]);
    engine.kubectl_fails(&["--as", "bob", "get", "secrets"], "");
    engine.kubectl(&["get", "--raw", "/readyz"]);
    engine.kubectl(&["get", "--raw", WATCH]);
    engine.apply(POD);
    engine.wait_ready("web");
    engine.kubectl(&["exec", "web", "--", "/demo", "--help"]);
    let metrics = engine.kubectl(&["get", "--raw", "/metrics"]);
    assert!(
        metrics.contains("apiserver_audit_level_total{level=\"RequestResponse\"}"),
        "{metrics}"
    );
    assert!(metrics.contains("# TYPE apiserver_audit_error_total counter"), "{metrics}");
    end(&mut engine);

    let log = log(engine.data_dir());
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    let written = fs::read_to_string(log).unwrap();
    for hidden in ["hidden-from-all", "aGlkZGVuLWZyb20tYWxs"] {
        assert!(!written.contains(hidden), "a Secret's data is in the log");
    }
    let events = events(&written);
    let one = |verb: &str, resource: &str, name: &str| {
        let wanted = |event: &&Value| {
            let object = &event["objectRef"];
            event["verb"] == verb
                && object["resource"] == resource
                && object["name"] == name
                && event["userAgent"].as_str().unwrap_or_default().starts_with("kubectl")
        };
        events.iter().find(wanted).unwrap_or_else(|| panic!("{verb} {resource} {name}: {written}"))
    };
    for (verb, code) in [("create", 201), ("get", 200)] {
        let secret = one(verb, "secrets", "key");
        assert_eq!(secret["level"], "Metadata");
        assert_eq!(secret["responseStatus"]["code"], code);
        assert_eq!(secret["user"]["username"], "kubernetes-admin");
        assert_eq!(secret["sourceIPs"][0], "127.0.0.1");
    }
    let settings = one("create", "configmaps", "settings");
    assert_eq!(settings["requestObject"]["data"]["colour"], "green");
    assert_eq!(settings["responseObject"]["data"]["colour"], "green");
    assert!(settings["responseObject"]["metadata"]["uid"].is_string());
    assert_eq!(settings["responseObject"]["metadata"].get("managedFields"), None);
    let pod = one("create", "pods", "web");
    assert_eq!(pod["requestObject"]["kind"], "Pod");
    assert_eq!(pod.get("responseObject"), None);
    let bobs = events.iter().find(|event| {
        event["impersonatedUser"]["username"] == "bob"
            && event["objectRef"]["resource"] == "secrets"
    });
    let bobs = bobs.expect("impersonation is recorded");
    assert_eq!(bobs["user"]["username"], "kubernetes-admin");
    assert_eq!(bobs["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert!(stages(&events, "/readyz").is_empty());
    assert_eq!(stages(&events, WATCH), ["ResponseStarted", "ResponseComplete"]);
    let exec = "/api/v1/namespaces/default/pods/web/exec";
    assert_eq!(stages(&events, exec), ["ResponseStarted", "ResponseComplete"]);
    let exec = events.iter().find(|event| event["objectRef"]["subresource"] == "exec").unwrap();
    assert_eq!(exec["responseStatus"]["code"], 101);
    let own = events.iter().find(|event| {
        event["user"]["username"].as_str().unwrap_or_default().starts_with("system:rekindle")
    });
    assert_eq!(own.expect("the engine's own requests are there").get("sourceIPs"), None);
}

#[test]
fn a_large_log_is_rotated_and_old_files_go() {
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse, \
                  resources: [{resources: [configmaps]}]}]}";
    let more =
        ["--audit-log-maxsize", "1", "--audit-log-maxbackup", "2", "--audit-log-mode", "batch"];
    let mut engine = audited(policy, &more);
    let data = "x".repeat(300_000);
    for number in 0..8 {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("m-{number}")}, "data": {"a": data},
        });
        engine.kubectl_with(&["create", "-f", "-"], &map.to_string());
    }
    end(&mut engine);
    let folder = log(engine.data_dir());
    let mut files: Vec<_> = fs::read_dir(folder.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert_eq!(files.len(), 3, "{files:?}");
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        assert!(text.len() <= 1 << 20, "{}", file.display());
        assert!(!events(&text).is_empty(), "{}", file.display());
    }
    let newest = fs::read_to_string(&files[2]).unwrap();
    assert!(newest.contains("\"name\":\"m-7\""), "the newest is in {}", files[2].display());
}

#[test]
fn a_log_that_cannot_be_written_fails_no_request() {
    let mut engine = Engine::prepare();
    let mut arguments = arguments(&engine, POLICY);
    let problems = engine.data_dir().join("stderr.log");
    engine.log_to(&problems);
    // every write to it finds a full disk
    *arguments.last_mut().unwrap() = "/dev/full".to_owned();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    engine.launch(&arguments);
    engine.kubectl(&["create", "configmap", "settings", "--from-literal=colour=green"]);
    let metrics = engine.kubectl(&["get", "--raw", "/metrics"]);
    let lost = metrics.lines().find_map(|line| {
        line.strip_prefix("apiserver_audit_error_total{plugin=\"log\"} ")?.parse::<u64>().ok()
    });
    assert!(lost.is_some_and(|lost| lost > 1), "{metrics}");
    let problems = fs::read_to_string(problems).unwrap();
    assert_eq!(problems.matches("failed to write an audit event").count(), 1, "{problems}");
}

#[test]
fn a_policy_that_is_wrong_stops_the_start() {
    let engine = Engine::prepare();
    let policy = POLICY.replace("level: Request,", "level: Requests,");
    let arguments = arguments(&engine, &policy);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let up = engine.up_command(&arguments).output().unwrap();
    assert!(!up.status.success());
    let error = text(&up.stderr);
    let expected = "policy.yaml: rules[3].level: Unsupported value: \"Requests\": supported values";
    assert!(error.contains(expected), "{error}");
    assert!(!log(engine.data_dir()).exists(), "nothing is opened");
}
