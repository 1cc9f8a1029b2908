//! API priority and fairness with the real binary: a FlowSchema puts one client into a level
//! without seats, and no other client notices.

use std::io::{Read, Write};
use std::net::TcpStream;

use rekindle_testkit::guarded_child::GuardedChild;
use rekindle_testkit::prometheus::Metrics;
use rekindle_testkit::{Engine, text};

const LIST: &str = "/api/v1/namespaces/default/configmaps";

const OBJECTS: &str = "
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: tiny}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 0
    borrowingLimitPercent: 0
    limitResponse: {type: Reject}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: robots}
spec:
  priorityLevelConfiguration: {name: tiny}
  matchingPrecedence: 50
  distinguisherMethod: {type: ByUser}
  rules:
  - subjects: [{kind: ServiceAccount, serviceAccount: {name: robot, namespace: default}}]
    resourceRules:
    - {verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*'], clusterScope: true}
";

/// A client with the token of a service account, which shows each answer as it is: `kubectl proxy`
/// tries nothing again.
struct RawClient {
    port: u16,
    _proxy: GuardedChild,
}

impl RawClient {
    fn new(engine: &Engine, account: &str) -> Self {
        engine.kubectl(&["create", "serviceaccount", account]);
        let binding = format!("{account}-views");
        let subject = format!("--serviceaccount=default:{account}");
        engine.kubectl(&["create", "rolebinding", &binding, "--clusterrole=view", &subject]);
        let token = engine.kubectl(&["create", "token", account]);
        let mut command = engine.kubectl_command(&["proxy", "--port=0", "--reject-paths=^$"]);
        command
            .env("KUBECONFIG", "/nowhere")
            .args(["--server", &engine.api, "--token", token.trim()])
            .arg("--certificate-authority")
            .arg(engine.data_dir().join("pki/ca.crt"));
        let mut proxy = GuardedChild::start(&mut command);
        // Starting to serve on 127.0.0.1:PORT
        let line = proxy.lines().next().unwrap().unwrap();
        let port = line.rsplit(':').next().unwrap().trim().parse().unwrap();
        Self { port, _proxy: proxy }
    }

    /// Status line and headers, in small letters.
    fn head(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {LIST} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = text(&answer).to_lowercase();
        answer.split("\r\n\r\n").next().unwrap().to_owned()
    }

    #[track_caller]
    fn is_answered(&self, status: &str, parts: &[String]) {
        let head = self.head();
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{head}");
        for part in parts {
            assert!(head.contains(part), "{part}: {head}");
        }
    }
}

fn uids(engine: &Engine, schema: &str, level: &str) -> Vec<String> {
    let uid = |what: String| engine.get(&what)["metadata"]["uid"].as_str().unwrap().to_owned();
    let schema = uid(format!("flowschema/{schema}"));
    let level = uid(format!("prioritylevelconfiguration/{level}"));
    vec![
        format!("x-kubernetes-pf-flowschema-uid: {schema}"),
        format!("x-kubernetes-pf-prioritylevel-uid: {level}"),
    ]
}

#[test]
fn a_flow_schema_limits_one_client_and_disturbs_no_other() {
    let engine = Engine::start();
    let (robot, other) = (RawClient::new(&engine, "robot"), RawClient::new(&engine, "other"));
    let usual = uids(&engine, "service-accounts", "workload-low");
    robot.is_answered("200", &usual);

    let applied = engine.apply(OBJECTS);
    assert!(!applied.to_lowercase().contains("warning"), "{applied}");
    let mut limited = uids(&engine, "robots", "tiny");
    limited.push("retry-after: 1".to_owned());
    robot.is_answered("429", &limited);
    other.is_answered("200", &usual);
    let figures = Metrics::read(&engine.kubectl(&["get", "--raw", "/metrics"]));
    let class = [("priority_level", "tiny"), ("flow_schema", "robots")];
    let rejected = [&class[..], &[("reason", "concurrency-limit")]].concat();
    let name = "apiserver_flowcontrol_rejected_requests_total";
    assert!(figures.value(name, &rejected) >= 1.0);

    let wider = r#"{"spec": {"limited": {"nominalConcurrencyShares": 10}}}"#;
    engine.kubectl(&["patch", "prioritylevelconfiguration", "tiny", "--type=merge", "-p", wider]);
    robot.is_answered("200", &limited[..2]);

    engine.wait_for("flowschema/robots", ".status.conditions[0].status", "False");
    let shown = engine.kubectl(&["get", "flowschemas"]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let columns = "NAME PRIORITYLEVEL MATCHINGPRECEDENCE DISTINGUISHERMETHOD AGE MISSINGPL";
    assert_eq!(words(shown.lines().next().unwrap()).join(" "), columns);
    let row = words(shown.lines().find(|line| line.starts_with("robots ")).unwrap());
    assert_eq!([&row[1], &row[2], &row[3], &row[5]], ["tiny", "50", "ByUser", "False"]);

    engine.kubectl(&["delete", "prioritylevelconfiguration", "tiny"]);
    robot.is_answered("200", &usual);
    engine.wait_for("flowschema/robots", ".status.conditions[0].status", "True");
}
