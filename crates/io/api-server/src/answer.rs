//! What the core decided becomes an answer: at once, when a write is durable, or by asking the
//! nodes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use rekindle_api::aggregated_request::AggregatedRequest;
use rekindle_api::node_query::{LogQuery, MetricsQuery, NodeGet, StreamQuery};
use rekindle_api::outcome::{ApiAnswer, RequestOutcome};
use rekindle_api::proxy_request::ProxyRequest;
use rekindle_api::status::ApiError;

use super::audit::AuditTrail;
use super::body::FrontBody;
use super::front::Front;
use super::logs::LogRequestError;
use super::metrics::RequestLabels;
use super::proxy::{self, ProxiedRequest};
use super::response::{respond, respond_with_list, stream};
use super::streams::{AcceptedStream, StreamSlot, asks_for_websocket};

/// The request that is answered.
#[derive(Clone, Copy)]
pub(super) struct AnswerContext<'r> {
    pub(super) labels: &'r RequestLabels,
    pub(super) parts: &'r Parts,
    /// The name of the user that it acts as.
    pub(super) user: &'r str,
    /// The client's address, if it has one that is known.
    pub(super) client: Option<IpAddr>,
    /// Its trail in the audit log, if there is one.
    pub(super) trail: Option<&'r Arc<AuditTrail>>,
}

impl Front {
    pub(super) async fn answer(
        &self,
        outcome: RequestOutcome,
        asked: AnswerContext<'_>,
        upgrade: Option<OnUpgrade>,
    ) -> Response<FrontBody> {
        match outcome {
            RequestOutcome::Answer(answer) => respond(answer),
            // an audit log may show all of it
            RequestOutcome::List(list) if asked.trail.is_some() => respond(list.into_answer()),
            RequestOutcome::List(list) => respond_with_list(*list),
            RequestOutcome::Write(write) => respond(write.await),
            RequestOutcome::Watch(watch) => {
                let timeout = Duration::from_secs(watch.timeout_seconds);
                let means = (Arc::clone(&self.clock), Arc::clone(&self.pods));
                let open = self.metrics.watch_begun(asked.labels);
                let phase = self.phase.subscribe();
                let content_type = watch.stream.content_type();
                let body = FrontBody::watch(watch.stream, timeout, means, phase, open);
                stream(body, content_type)
            }
            RequestOutcome::Log(query) => self.log(query, asked, upgrade).await,
            RequestOutcome::Stream(query) => self.stream(query, asked, upgrade),
            RequestOutcome::Proxy(target) => self.proxy(*target, asked, upgrade).await,
            RequestOutcome::Aggregated(target) => self.aggregated(*target, asked, upgrade).await,
            RequestOutcome::Node(question) => self.node(question).await,
            RequestOutcome::ResourceMetrics(query) => self.resource_metrics(&query).await,
            RequestOutcome::Metrics => self.own_metrics().await,
            RequestOutcome::Webhooks(_) => {
                respond(ApiError::internal("webhooks are asked before the answer").into())
            }
            RequestOutcome::Backup => self.backup(&asked.parts.method).await,
        }
    }

    fn stream(
        &self,
        query: StreamQuery,
        asked: AnswerContext<'_>,
        upgrade: Option<OnUpgrade>,
    ) -> Response<FrontBody> {
        self.upgraded(self.streams.accept(query, asked), upgrade)
    }

    /// The answer after which the connection is a websocket.
    fn upgraded(
        &self,
        accepted: Result<AcceptedStream, ApiError>,
        upgrade: Option<OnUpgrade>,
    ) -> Response<FrontBody> {
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) => return respond(error.into()),
        };
        let Some(upgrade) = upgrade else {
            let problem = "this connection cannot be upgraded: use HTTP/1.1 over TLS";
            return respond(ApiError::bad_request(problem).into());
        };
        let mut response = Response::new(FrontBody::full(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = self.streams.serve(accepted, upgrade, self.phase.subscribe());
        response
    }

    async fn proxy(
        &self,
        target: ProxyRequest,
        asked: AnswerContext<'_>,
        upgrade: Option<OnUpgrade>,
    ) -> Response<FrontBody> {
        match self.streams.take_slot(asked.user).map(|slot| self.proxied(asked, upgrade, slot)) {
            Ok(request) => proxy::hand_on(Arc::clone(&self.pods), target, request).await,
            Err(error) => respond(error.into()),
        }
    }

    async fn aggregated(
        &self,
        target: AggregatedRequest,
        asked: AnswerContext<'_>,
        upgrade: Option<OnUpgrade>,
    ) -> Response<FrontBody> {
        let dialers = (&self.pods, &self.api_servers);
        let slot = self.api_servers.take_slot(asked.user);
        match slot.map(|slot| self.proxied(asked, upgrade, slot)) {
            Ok(request) => proxy::hand_on_to_server(dialers, target, request).await,
            Err(error) => respond(error.into()),
        }
    }

    /// The request on its way to another server.
    fn proxied<'r>(
        &self,
        AnswerContext { parts, client, trail, .. }: AnswerContext<'r>,
        upgrade: Option<OnUpgrade>,
        slot: StreamSlot,
    ) -> ProxiedRequest<'r> {
        let (slot, phase) = (slot.ending(trail), self.phase.subscribe());
        ProxiedRequest { parts, client, upgrade, slot, phase }
    }

    async fn node(&self, question: NodeGet) -> Response<FrontBody> {
        match self.nodes.get(question).await {
            Ok(answer) => respond(answer),
            Err(error) => respond(ApiError::unavailable(error.to_string()).into()),
        }
    }

    async fn resource_metrics(&self, query: &MetricsQuery) -> Response<FrontBody> {
        match self.nodes.figures().await {
            Ok(nodes) => respond(self.api.resource_metrics(query, &nodes)),
            Err(error) => respond(ApiError::unavailable(error.to_string()).into()),
        }
    }

    async fn own_metrics(&self) -> Response<FrontBody> {
        let (metrics, api) = (Arc::clone(&self.metrics), self.api.clone());
        let figures = self.figures.clone();
        match tokio::task::spawn_blocking(move || metrics.text(&api, &figures)).await {
            Ok(text) => respond(ApiAnswer {
                content_type: rekindle_metrics::CONTENT_TYPE,
                ..ApiAnswer::text(StatusCode::OK, text)
            }),
            Err(error) => respond(ApiError::internal(error).into()),
        }
    }

    async fn log(
        &self,
        query: LogQuery,
        asked: AnswerContext<'_>,
        upgrade: Option<OnUpgrade>,
    ) -> Response<FrontBody> {
        match self.logs.read(query).await {
            Ok(log) if asks_for_websocket(&asked.parts.headers) => {
                self.upgraded(self.streams.accept_log(log, asked), upgrade)
            }
            Ok(log) => stream(FrontBody::stream(log), "text/plain"),
            Err(LogRequestError::NotThere(why)) => respond(ApiError::bad_request(why).into()),
            Err(LogRequestError::NoNode(why)) => respond(ApiError::unavailable(why).into()),
            Err(LogRequestError::Failed(why)) => respond(ApiError::internal(why).into()),
        }
    }
}
