//! Reads what autoscalers decide on. [`rekindle_reconcile::wire`] says what is asked, and what
//! answers mean.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Request;
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use rekindle_controllers::readings::{NamespaceReading, ReadingRequest};
use rekindle_reconcile::wire::{
    READING_BYTES_MAX, READING_TIMEOUT, WriteRequestError, metric_request, reason_of_refusal,
    scale_of_success, scale_request, usage_of_success, usage_request, values_of_success,
};
use rekindle_types::causes;
use tokio::time::Instant;

/// Questions about metrics, and about scales, that are under way at once.
const QUESTIONS_AT_ONCE: usize = 16;

/// Reads through a client.
#[derive(Clone)]
pub(crate) struct MetricReader {
    client: Client,
}

impl MetricReader {
    /// A reader through this client.
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Reads what the autoscalers of a namespace decide on.
    pub(crate) async fn read(&self, asked: ReadingRequest) -> NamespaceReading {
        let deadline = Instant::now() + READING_TIMEOUT.to_std();
        let usage =
            async { usage_of_success(&self.ask(usage_request(&asked.namespace), deadline).await?) };
        let metrics = stream::iter(asked.metrics).map(|query| async move {
            let answer = self.ask(metric_request(&query), deadline).await;
            (query, answer.and_then(|text| values_of_success(&text)))
        });
        let scales = stream::iter(asked.scales).map(|id| async move {
            let answer = self.ask(scale_request(&id), deadline).await;
            (id, answer.and_then(|text| scale_of_success(&text)))
        });
        let (usage, metrics, scales) = tokio::join!(
            usage,
            metrics.buffer_unordered(QUESTIONS_AT_ONCE).collect::<BTreeMap<_, _>>(),
            scales.buffer_unordered(QUESTIONS_AT_ONCE).collect::<BTreeMap<_, _>>(),
        );
        NamespaceReading { usage, metrics, scales }
    }

    /// The answer to a request that reads, or why there is none.
    async fn ask(
        &self,
        request: Result<Request<Vec<u8>>, WriteRequestError>,
        deadline: Instant,
    ) -> Result<Bytes, String> {
        let request = request.map_err(|error| causes(&error))?.map(Body::from);
        let answer = async {
            let answer = self.client.send(request).await.map_err(|error| error.to_string())?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, READING_BYTES_MAX).collect().await;
            let text = body.map_err(|error| format!("read the answer: {error}"))?.to_bytes();
            match head.status.is_success() {
                true => Ok(text),
                false => Err(reason_of_refusal(head.status, &text)),
            }
        };
        let answer = tokio::time::timeout_at(deadline, answer).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {} s", READING_TIMEOUT.as_secs())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use http::Response;
    use rekindle_controllers::metric_query::{MetricQuery, MetricSubject, MetricValue};

    use super::*;

    /// Says a value of the metric `mails`, too much of the metric `huge`, and refuses all else.
    fn adapter() -> MetricReader {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let text = match request.uri().path() {
                path if path.ends_with("/mails") => br#"{"items": [{"value": "3"}]}"#.to_vec(),
                path if path.ends_with("/huge") => vec![b' '; READING_BYTES_MAX + 1],
                _ => {
                    let answer = Response::builder().status(503).body(Body::from(b"busy".to_vec()));
                    return Ok::<_, Infallible>(answer.unwrap());
                }
            };
            Ok(Response::new(Body::from(text)))
        });
        MetricReader::new(Client::new(service, "default"))
    }

    #[tokio::test]
    async fn each_question_has_an_answer_of_its_own() {
        let query = |metric: &str| MetricQuery {
            namespace: "shop".to_owned(),
            metric: metric.to_owned(),
            selector: String::new(),
            subject: MetricSubject::External,
        };
        let names = ["huge", "mails", "orders"];
        let asked = ReadingRequest {
            namespace: "shop".to_owned(),
            metrics: names.map(query).into(),
            scales: BTreeSet::new(),
        };
        let reading = adapter().read(asked).await;
        assert_eq!(reading.usage, Err("busy".to_owned()));
        let of = |name| reading.metrics[&query(name)].clone();
        assert_eq!(of("mails"), Ok(vec![MetricValue { object: String::new(), millis: 3_000 }]));
        assert_eq!(of("orders"), Err("busy".to_owned()));
        assert_eq!(of("huge"), Err("read the answer: length limit exceeded".to_owned()));
    }
}
