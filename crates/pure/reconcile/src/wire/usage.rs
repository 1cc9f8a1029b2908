//! The request for what the pods of a namespace use, and what its answer says.

use std::collections::BTreeMap;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use rekindle_controllers::readings::{MeasuredPod, UsageReading, UsageReport};
use rekindle_types::resources::{Amounts, ResourceList};
use rekindle_types::{Tick, TickDuration, span};
use serde::Deserialize;

use super::requests::WriteRequestError;

/// `PodMetricsList` of metrics.k8s.io/v1beta1, as far as it is read.
#[derive(Deserialize)]
struct PodMetricsList {
    items: Vec<PodMetrics>,
}

#[derive(Deserialize)]
struct PodMetrics {
    metadata: ObjectMeta,
    timestamp: Time,
    window: String,
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    name: String,
    usage: ResourceList,
}

/// Asks for what the pods of a namespace use.
///
/// # Errors
/// When the namespace makes no path.
pub fn usage_request(namespace: &str) -> Result<Request<Vec<u8>>, WriteRequestError> {
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
    Ok(Request::get(path).body(Vec::new())?)
}

/// What the answer says.
pub fn usage_of_success(text: &[u8]) -> UsageReading {
    let list: PodMetricsList =
        serde_json::from_slice(text).map_err(|error| format!("read the answer: {error}"))?;
    let pods = list.items.into_iter().map(|pod| {
        let name = pod.metadata.name.clone().unwrap_or_default();
        Ok((name, measured(pod)?))
    });
    Ok(UsageReport { pods: pods.collect::<Result<BTreeMap<_, _>, String>>()? })
}

fn measured(pod: PodMetrics) -> Result<MeasuredPod, String> {
    let window = window(&pod.window).ok_or_else(|| format!("read the window {:?}", pod.window))?;
    let containers = pod.containers.into_iter();
    Ok(MeasuredPod {
        taken_at: Tick::from(&pod.timestamp),
        window,
        containers: containers.map(|of| (of.name, Amounts::read(Some(&of.usage)))).collect(),
    })
}

/// As Go writes a duration: seconds may have a fraction.
fn window(text: &str) -> Option<TickDuration> {
    let Some((whole, fraction)) = text.split_once('.') else { return span::parse(text).ok() };
    let digits = fraction.strip_suffix('s')?;
    let micros: u64 = format!("{digits:0<6.6}").parse().ok()?;
    let whole = span::parse(&format!("{whole}s")).ok()?;
    Some(TickDuration::from_micros(whole.as_micros().checked_add(micros)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_window_is_read_as_go_writes_it() {
        for (text, millis) in
            [("30s", 30_000), ("15.003s", 15_003), ("1m0.5s", 60_500), ("1.0009999s", 1_000)]
        {
            let read = window(text).map(|window| window.as_micros() / 1_000);
            assert_eq!(read, Some(millis), "{text}");
        }
        for text in ["", "15.s0", "1.5m", "long"] {
            assert_eq!(window(text), None, "{text}");
        }
    }

    #[test]
    fn a_list_of_pods_is_read_as_metrics_server_writes_it() {
        let list = json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {}, "items": [{
            "metadata": {"name": "web-1", "namespace": "shop"},
            "timestamp": "2026-11-21T12:00:00Z",
            "window": "15.003s",
            "containers": [{"name": "c", "usage": {"cpu": "12345678n", "memory": "5120Ki"}}],
        }]});
        let report = usage_of_success(list.to_string().as_bytes()).unwrap();
        let pod = &report.pods["web-1"];
        assert_eq!(pod.window, TickDuration::from_millis(15_003));
        assert_eq!(pod.taken_at.to_time().0.to_string(), "2026-11-21T12:00:00Z");
        let used = &pod.containers["c"];
        assert_eq!((used.get("cpu").millis(), used.get("memory").units()), (13, 5 << 20));
        assert!(usage_of_success(b"{}").unwrap_err().contains("missing field `items`"));
    }
}
