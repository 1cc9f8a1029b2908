//! Autoscalers by metrics that the engine does not measure: an adapter of the test's own answers
//! for custom.metrics.k8s.io and external.metrics.k8s.io, in the manner of an adapter of Prometheus
//! and of KEDA.

use std::io;
use std::sync::{Arc, Mutex};

use rekindle_testkit::{Engine, TIMEOUT};
use serde_json::{Value, json};

use crate::tls_server::{ClientStream, TlsServer, read_request, write_answer};

const SERVICE: &str = "metrics";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";
const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2";

/// What it says now, and what it was asked.
#[derive(Default)]
struct AdapterState {
    mails: Mutex<u32>,
    requests: Mutex<&'static str>,
    asked: Mutex<Vec<String>>,
}

impl AdapterState {
    fn serve(&self, mut stream: ClientStream) -> io::Result<()> {
        let request = read_request(&mut stream)?;
        let path = request.target.split('?').next().unwrap_or_default();
        let mails = *self.mails.lock().unwrap();
        let (code, answer) = match path {
            EXTERNAL | CUSTOM => (200, resources(path.trim_start_matches("/apis/"))),
            _ if path == format!("{EXTERNAL}/namespaces/default/mails") => {
                let value = |count: u32| {
                    json!({"metricName": "mails", "metricLabels": {}, "value": count.to_string(),
                        "timestamp": "2026-12-01T12:00:00Z"})
                };
                // two series of one metric count together
                let items = [value(mails / 2), value(mails - mails / 2)];
                (200, list("external.metrics.k8s.io/v1beta1", "ExternalMetricValueList", &items))
            }
            _ if path == format!("{CUSTOM}/namespaces/default/services/front/requests") => {
                let item = json!({"metric": {"name": "requests"}, "value": *self.requests.lock().unwrap(),
                    "timestamp": "2026-12-01T12:00:00Z", "describedObject": {"kind": "Service",
                        "namespace": "default", "name": "front", "apiVersion": "v1"}});
                (200, list("custom.metrics.k8s.io/v1beta2", "MetricValueList", &[item]))
            }
            _ => {
                let message = format!("the server could not find the metric {path}");
                let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure",
                    "code": 404, "reason": "NotFound", "message": message});
                (404, status.to_string())
            }
        };
        self.asked.lock().unwrap().push(request.target);
        write_answer(&mut stream, code, &answer)
    }
}

fn resources(group_version: &str) -> String {
    json!({"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": group_version,
        "resources": []})
    .to_string()
}

fn list(api_version: &str, kind: &str, items: &[Value]) -> String {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {}, "items": items}).to_string()
}

fn api_service(group: &str, version: &str, ca_bundle: &str) -> String {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("{version}.{group}")},
        "spec": {
            "group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
            "caBundle": ca_bundle, "service": {"namespace": "default", "name": SERVICE},
        },
    })
    .to_string()
}

const WORKER: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: worker}
spec:
  replicas: 1
  selector: {matchLabels: {app: worker}}
  template:
    metadata: {labels: {app: worker}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: worker, image: localhost/demo, command: [demo, server]}
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {selector: {app: worker}, ports: [{port: 80}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: worker}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: worker}
  minReplicas: 0
  maxReplicas: 4
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
  metrics:
  - type: External
    external:
      metric: {name: mails, selector: {matchLabels: {queue: inbox}}}
      target: {type: AverageValue, averageValue: '10'}
  - type: Object
    object:
      metric: {name: requests}
      describedObject: {apiVersion: v1, kind: Service, name: front}
      target: {type: Value, value: '3'}
";

/// A custom resource that is scaled, as a rollout of Argo is.
const FLEET_KIND: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fleets.boats.example}
spec:
  group: boats.example
  scope: Namespaced
  names: {plural: fleets, singular: fleet, kind: Fleet}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale:
        specReplicasPath: .spec.boats
        statusReplicasPath: .status.boats
        labelSelectorPath: .status.selector
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {boats: {type: integer}}}
          status: {type: object, properties: {boats: {type: integer}, selector: {type: string}}}
";

const FLEET: &str = "
apiVersion: boats.example/v1
kind: Fleet
metadata: {name: north}
spec: {boats: 1}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: north}
spec:
  scaleTargetRef: {apiVersion: boats.example/v1, kind: Fleet, name: north}
  maxReplicas: 4
  metrics:
  - type: External
    external: {metric: {name: mails}, target: {type: AverageValue, averageValue: '10'}}
";

#[test]
fn an_autoscaler_follows_what_an_adapter_says() {
    let engine = Engine::start();
    let state = Arc::new(AdapterState::default());
    *state.mails.lock().unwrap() = 25;
    *state.requests.lock().unwrap() = "1500m";
    let own = Arc::clone(&state);
    let name = format!("{SERVICE}.default.svc");
    let server = TlsServer::start(&[&name], None, move |stream| own.serve(stream));
    server.behind_service(&engine, SERVICE);
    for (group, version) in
        [("external.metrics.k8s.io", "v1beta1"), ("custom.metrics.k8s.io", "v1beta2")]
    {
        engine.apply(&api_service(group, version, &server.ca_bundle));
        let what = format!("apiservice/{version}.{group}");
        engine.kubectl(&["wait", "--for=condition=Available", &what, TIMEOUT]);
    }
    engine.apply(FLEET_KIND);
    let established = ["wait", "--for=condition=Established", "crd/fleets.boats.example", TIMEOUT];
    engine.kubectl(&established);
    engine.apply(FLEET);
    let status = r#"{"status": {"boats": 1, "selector": "app=north"}}"#;
    let patch = ["patch", "fleet", "north", "--subresource=status", "--type=merge", "-p", status];
    engine.kubectl(&patch);
    engine.apply(WORKER);
    engine.wait_for("deployment/worker", ".status.readyReplicas", "3");
    let shown = engine.kubectl(&["get", "hpa", "worker", "-o", "json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let current = &shown["status"]["currentMetrics"];
    assert_eq!(current[0]["external"]["metric"]["name"], "mails", "{shown:#}");
    assert_eq!(current[1]["object"]["current"]["value"], "1500m", "{shown:#}");
    let described = engine.kubectl(&["describe", "hpa", "worker"]);
    let reason = "New size: 3; reason: external metric mails(queue=inbox) above target";
    assert!(described.contains(reason), "{described}");
    let asked = state.asked.lock().unwrap().clone();
    let query = format!("{EXTERNAL}/namespaces/default/mails?labelSelector=queue%3Dinbox");
    assert!(asked.contains(&query), "{asked:?}");

    engine.wait_for("fleet/north", ".spec.boats", "3");

    // nothing is left to do: no pod waits for work, until there is some
    *state.mails.lock().unwrap() = 0;
    *state.requests.lock().unwrap() = "0";
    engine.wait_for("deployment/worker", ".spec.replicas", "0");
    let asleep = ".status.conditions[?(@.type==\"ScaledToZero\")].status";
    engine.wait_for("hpa/worker", asleep, "True");
    *state.mails.lock().unwrap() = 1;
    engine.wait_for("deployment/worker", ".status.readyReplicas", "1");

    // an adapter that is gone leads to nothing, and the autoscaler says why
    let services = ["v1beta1.external.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"];
    engine.kubectl(&[&["delete", "apiservice"][..], &services].concat());
    let condition = ".status.conditions[?(@.type==\"ScalingActive\")].reason";
    engine.wait_for("hpa/worker", condition, "FailedGetExternalMetric");
    assert_eq!(
        engine.kubectl(&["get", "deployment", "worker", "-o", "jsonpath={.spec.replicas}"]),
        "1"
    );
}
