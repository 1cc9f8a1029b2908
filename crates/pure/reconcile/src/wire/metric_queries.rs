//! The request for a metric of an adapter, and what its answer says (`MetricValueList` of
//! custom.metrics.k8s.io, `ExternalMetricValueList` of external.metrics.k8s.io).

use http::Request;
use rekindle_controllers::metric_query::{
    CustomMetricsVersion, MetricQuery, MetricReading, MetricSubject, MetricValue,
};
use rekindle_types::{Quantity, path_segment};
use serde::Deserialize;

use super::requests::WriteRequestError;

/// Either list, as far as it is read.
#[derive(Deserialize)]
struct MetricValueList {
    items: Vec<ListedValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedValue {
    described_object: Option<DescribedObject>,
    value: String,
}

#[derive(Deserialize)]
struct DescribedObject {
    #[serde(default)]
    name: String,
}

/// Asks an adapter for a metric.
///
/// # Errors
/// When its names make no path.
pub fn metric_request(query: &MetricQuery) -> Result<Request<Vec<u8>>, WriteRequestError> {
    let (namespace, metric) =
        (path_segment::escape(&query.namespace), path_segment::escape(&query.metric));
    let custom = |version: &CustomMetricsVersion, of: String| {
        format!(
            "/apis/custom.metrics.k8s.io/{}/namespaces/{namespace}/{of}{metric}",
            version.name()
        )
    };
    let mut parameters = Vec::new();
    let series = ("metricLabelSelector", query.selector.as_str());
    let mut path = match &query.subject {
        MetricSubject::Pods { version, selector } => {
            parameters.extend([("labelSelector", selector.as_str()), series]);
            custom(version, "pods/*/".to_owned())
        }
        MetricSubject::Object { version, resource, name } => {
            let (resource, name) = (path_segment::escape(resource), path_segment::escape(name));
            parameters.push(series);
            custom(version, format!("{resource}/{name}/"))
        }
        MetricSubject::Namespace { version } => {
            parameters.push(series);
            custom(version, "metrics/".to_owned())
        }
        MetricSubject::External => {
            parameters.push(("labelSelector", query.selector.as_str()));
            format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}")
        }
    };
    parameters.retain(|(_, value)| !value.is_empty());
    for (index, (name, value)) in parameters.into_iter().enumerate() {
        let joint = if index == 0 { '?' } else { '&' };
        path.extend([joint.to_string(), format!("{name}={}", path_segment::escape(value))]);
    }
    Ok(Request::get(path).body(Vec::new())?)
}

/// What the answer says.
pub fn values_of_success(text: &[u8]) -> MetricReading {
    let list: MetricValueList =
        serde_json::from_slice(text).map_err(|error| format!("read the answer: {error}"))?;
    list.items.into_iter().map(value).collect()
}

fn value(listed: ListedValue) -> Result<MetricValue, String> {
    let value: Quantity =
        listed.value.parse().map_err(|_| format!("read the value {:?}", listed.value))?;
    let object = listed.described_object.map(|object| object.name).unwrap_or_default();
    Ok(MetricValue { object, millis: value.millis() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn query(selector: &str, subject: MetricSubject) -> MetricQuery {
        MetricQuery {
            namespace: "shop".to_owned(),
            metric: "requests/s".to_owned(),
            selector: selector.to_owned(),
            subject,
        }
    }

    /// The paths are those of `k8s.io/metrics`.
    #[test]
    fn each_question_has_its_path() {
        let version = CustomMetricsVersion::V1Beta2;
        let object = MetricSubject::Object {
            version: CustomMetricsVersion::V1Beta1,
            resource: "ingresses.networking.k8s.io".to_owned(),
            name: "front".to_owned(),
        };
        let pods = || MetricSubject::Pods { version, selector: "app=web,tier in (a,b)".to_owned() };
        let custom = "/apis/custom.metrics.k8s.io";
        for (query, path) in [
            (
                query("", pods()),
                format!(
                    "{custom}/v1beta2/namespaces/shop/pods/*/requests%2Fs?labelSelector=app%3Dweb%2Ctier%20in%20%28a%2Cb%29"
                ),
            ),
            (
                query("verb=GET", pods()),
                format!(
                    "{custom}/v1beta2/namespaces/shop/pods/*/requests%2Fs?labelSelector=app%3Dweb%2Ctier%20in%20%28a%2Cb%29&metricLabelSelector=verb%3DGET"
                ),
            ),
            (
                query("", object),
                format!(
                    "{custom}/v1beta1/namespaces/shop/ingresses.networking.k8s.io/front/requests%2Fs"
                ),
            ),
            (
                query("verb=GET", MetricSubject::Namespace { version }),
                format!(
                    "{custom}/v1beta2/namespaces/shop/metrics/requests%2Fs?metricLabelSelector=verb%3DGET"
                ),
            ),
            (
                query("queue=mails", MetricSubject::External),
                "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/requests%2Fs?labelSelector=queue%3Dmails"
                    .to_owned(),
            ),
        ] {
            assert_eq!(metric_request(&query).unwrap().uri().to_string(), path);
        }
    }

    #[test]
    fn both_lists_are_read_as_adapters_write_them() {
        let custom = json!({"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2",
            "metadata": {}, "items": [{
                "describedObject": {"kind": "Pod", "namespace": "shop", "name": "web-1", "apiVersion": "/v1"},
                "metric": {"name": "requests", "selector": null},
                "timestamp": "2026-12-01T12:00:00Z", "windowSeconds": 60, "value": "1500m"}]});
        let external = json!({"kind": "ExternalMetricValueList",
            "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {}, "items": [
                {"metricName": "queue", "metricLabels": null, "timestamp": "2026-12-01T12:00:00Z", "value": "12k"}]});
        for (list, object, millis) in [(custom, "web-1", 1_500), (external, "", 12_000_000)] {
            let read = values_of_success(list.to_string().as_bytes());
            assert_eq!(read, Ok(vec![MetricValue { object: object.to_owned(), millis }]));
        }
        let read = values_of_success(br#"{"items": [{"value": "many"}]}"#);
        assert_eq!(read, Err("read the value \"many\"".to_owned()));
    }
}
