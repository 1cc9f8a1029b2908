//! `metrics.k8s.io/v1beta1`: what nodes and pods use now, for `kubectl top` and autoscalers.
//! Upstream an extra server (metrics-server) makes it from the nodes' `/metrics/resource`; here the
//! node is asked when somebody asks. Nothing is stored.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use rekindle_kinds::registry::ResourceScope;
use rekindle_types::{Tick, TickDuration};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::node_query::{FigureOwner, MetricsQuery};
use crate::outcome::{ApiAnswer, RequestOutcome};
use crate::request::{ApiRequest, RequestOptions, RequestVerb, ResourcePath};
use crate::selectors::LabelSelector;
use crate::status::ApiError;

/// The group.
pub(crate) const GROUP: &str = "metrics.k8s.io";
/// Its version.
pub(crate) const VERSION: &str = "v1beta1";

/// One kind, for discovery.
pub(crate) struct MetricsKind {
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) scope: ResourceScope,
}

/// The kinds that are answered.
pub(crate) const KINDS: [MetricsKind; 2] = [
    MetricsKind { kind: "NodeMetrics", plural: "nodes", scope: ResourceScope::Cluster },
    MetricsKind { kind: "PodMetrics", plural: "pods", scope: ResourceScope::Namespaced },
];

/// What a node says of itself and its pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFigures {
    /// The node.
    pub name: String,
    /// When the figures were taken.
    pub taken_at: Tick,
    /// CPU is the mean over this time before.
    pub window: TickDuration,
    /// The whole machine.
    pub usage: UsageFigures,
    /// Its pods of which something runs.
    pub pods: Vec<PodFigures>,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodFigures {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its running containers by name.
    pub containers: Vec<(String, UsageFigures)>,
}

/// How much is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageFigures {
    /// Billionths of a core.
    pub cpu_nanocores: u64,
    /// The working set.
    pub memory_bytes: u64,
}

/// Reads the question; none when the path names something else.
pub(crate) fn query(
    request: &ApiRequest,
    path: &ResourcePath,
    options: &RequestOptions,
) -> Result<Option<RequestOutcome>, ApiError> {
    if path.group != GROUP {
        return Ok(None);
    }
    let named = path.version == VERSION && path.subresource.is_empty();
    let kind = match (path.resource.as_str(), path.namespace.is_empty()) {
        ("nodes", true) if named => FigureOwner::Node,
        ("pods", of_all) if named && (!of_all || path.name.is_empty()) => FigureOwner::Pod,
        _ => return Err(ApiError::no_such_path()),
    };
    if request.method != Method::GET || options.watch {
        return Err(ApiError::method_not_allowed());
    }
    let verb = if path.name.is_empty() { RequestVerb::List } else { RequestVerb::Get };
    options.check(verb)?;
    let selector = LabelSelector::parse(&options.label_selector).map_err(ApiError::bad_request)?;
    let (namespace, name) = (path.namespace.clone(), path.name.clone());
    Ok(Some(RequestOutcome::ResourceMetrics(MetricsQuery { kind, namespace, name, selector })))
}

impl MetricsQuery {
    /// The answer, from what the nodes have said. `node_labels` gives a node's labels.
    pub(crate) fn answer(
        &self,
        nodes: &[NodeFigures],
        node_labels: impl Fn(&str) -> BTreeMap<String, String>,
    ) -> ApiAnswer {
        let items: Vec<Value> = match self.kind {
            FigureOwner::Node => nodes
                .iter()
                .map(|node| (node, node_labels(&node.name)))
                .filter(|(node, labels)| self.wants("", &node.name, labels))
                .map(|(node, labels)| node_metrics(node, &labels))
                .collect(),
            FigureOwner::Pod => nodes
                .iter()
                .flat_map(|node| node.pods.iter().map(move |pod| (node, pod)))
                .filter(|(_, pod)| self.wants(&pod.namespace, &pod.name, &pod.labels))
                .map(|(node, pod)| pod_metrics(node, pod))
                .collect(),
        };
        let kind = match self.kind {
            FigureOwner::Node => "NodeMetrics",
            FigureOwner::Pod => "PodMetrics",
        };
        let api_version = format!("{GROUP}/{VERSION}");
        if self.name.is_empty() {
            let list = json!({
                "kind": format!("{kind}List"),
                "apiVersion": api_version,
                "metadata": {},
                "items": items,
            });
            return ApiAnswer::json(StatusCode::OK, list.to_string());
        }
        let Some(mut item) = items.into_iter().next() else { return self.not_found() };
        item["kind"] = kind.into();
        item["apiVersion"] = api_version.into();
        ApiAnswer::json(StatusCode::OK, item.to_string())
    }

    fn wants(&self, namespace: &str, name: &str, labels: &BTreeMap<String, String>) -> bool {
        (self.namespace.is_empty() || self.namespace == namespace)
            && (self.name.is_empty() || self.name == name)
            && self.selector.matches(labels)
    }

    fn not_found(&self) -> ApiAnswer {
        let (plural, name) = match self.kind {
            FigureOwner::Node => ("nodes", self.name.clone()),
            FigureOwner::Pod => ("pods", format!("{}/{}", self.namespace, self.name)),
        };
        ApiError::absent(GROUP, plural, &name).into()
    }
}

fn node_metrics(node: &NodeFigures, labels: &BTreeMap<String, String>) -> Value {
    json!({
        "metadata": {
            "name": node.name,
            "creationTimestamp": node.taken_at.to_time(),
            "labels": labels,
        },
        "timestamp": node.taken_at.to_time(),
        "window": seconds(node.window),
        "usage": usage(node.usage),
    })
}

fn pod_metrics(node: &NodeFigures, pod: &PodFigures) -> Value {
    let containers = pod.containers.iter();
    let containers: Vec<Value> =
        containers.map(|(name, found)| json!({"name": name, "usage": usage(*found)})).collect();
    json!({
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "creationTimestamp": node.taken_at.to_time(),
            "labels": pod.labels,
        },
        "timestamp": node.taken_at.to_time(),
        "window": seconds(node.window),
        "containers": containers,
    })
}

/// Quantities as metrics-server writes them.
fn usage(figures: UsageFigures) -> Value {
    json!({
        "cpu": format!("{}n", figures.cpu_nanocores),
        "memory": format!("{}Ki", figures.memory_bytes / 1024),
    })
}

/// As Go writes a duration.
fn seconds(duration: TickDuration) -> String {
    format!("{:.3}s", duration.to_std().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Vec<NodeFigures> {
        let used = UsageFigures { cpu_nanocores: 12_345_678, memory_bytes: 5 << 20 };
        let pod = |name: &str| PodFigures {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            labels: BTreeMap::from([("app".to_owned(), name.to_owned())]),
            containers: vec![("c".to_owned(), used)],
        };
        vec![NodeFigures {
            name: "n1".to_owned(),
            taken_at: Tick::from_secs(1_760_000_000),
            window: TickDuration::from_micros(15_003_000),
            usage: used,
            pods: vec![pod("web"), pod("db")],
        }]
    }

    fn ask(path: &str, selector: &str) -> (u16, Value) {
        let crate::request::PathTarget::Resource(parsed) = crate::request::PathTarget::parse(path)
        else {
            panic!("{path}");
        };
        let request = ApiRequest {
            method: Method::GET,
            path: path.to_owned(),
            query: String::new(),
            accept: String::new(),
            user_agent: String::new(),
            content_type: String::new(),
            body: bytes::Bytes::new(),
            identity: rekindle_kinds::identity::ClientIdentity::Anonymous,
            now: Tick::ZERO,
            notes: None,
        };
        let options =
            RequestOptions { label_selector: selector.to_owned(), ..RequestOptions::default() };
        let answer = match query(&request, &parsed, &options) {
            Ok(Some(RequestOutcome::ResourceMetrics(query))) => {
                query.answer(&figures(), |_| BTreeMap::new())
            }
            Ok(_) => panic!("no question: {path}"),
            Err(error) => error.into(),
        };
        (answer.code.as_u16(), serde_json::from_slice(&answer.body).unwrap())
    }

    #[test]
    fn pods_and_nodes_are_told_as_metrics_server_tells_them() {
        let (code, pod) = ask("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web", "");
        assert_eq!(code, 200);
        assert_eq!(pod["kind"], "PodMetrics");
        assert_eq!(pod["window"], "15.003s");
        assert_eq!(pod["timestamp"], "2025-10-09T08:53:20Z");
        assert_eq!(pod["containers"][0]["usage"], json!({"cpu": "12345678n", "memory": "5120Ki"}));
        let (_, nodes) = ask("/apis/metrics.k8s.io/v1beta1/nodes", "");
        assert_eq!(
            (&nodes["kind"], &nodes["items"][0]["metadata"]["name"]),
            (&json!("NodeMetricsList"), &json!("n1"))
        );
    }

    #[test]
    fn lists_are_selected_and_what_is_absent_is_not_found() {
        let (_, pods) = ask("/apis/metrics.k8s.io/v1beta1/pods", "app=db");
        assert_eq!(pods["items"].as_array().map(Vec::len), Some(1));
        let (_, pods) = ask("/apis/metrics.k8s.io/v1beta1/namespaces/other/pods", "");
        assert_eq!(pods["items"].as_array().map(Vec::len), Some(0));
        let (code, status) = ask("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/no", "");
        assert_eq!((code, &status["reason"]), (404, &json!("NotFound")));
        assert_eq!(status["message"], "pods.metrics.k8s.io \"shop/no\" not found");
        assert_eq!(ask("/apis/metrics.k8s.io/v1beta1/things", "").0, 404);
    }
}
