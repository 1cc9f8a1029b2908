//! Requests that another API server answers. It hears from us who asks: our certificate says that
//! we may name a user.
//!
//! Source of behaviour: upstream's `kube-aggregator/pkg/apiserver/handler_proxy.go`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use rekindle_api::aggregated_request::AggregatedRequest;
use rekindle_api::outcome::ApiAnswer;
use rekindle_api::status::ApiError;
use tokio::time::timeout;

use super::{ProxiedRequest, headers, relay};
use crate::api_servers::ServerDialer;
use crate::body::FrontBody;
use crate::pod_dialer::PodDialer;
use crate::response::respond;

/// How long a server may take to begin its answer; upstream's limit of requests. A watch may take
/// longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Hands the request on to the server, and answers what comes back.
pub(in super::super) async fn hand_on_to_server(
    (pods, servers): (&Arc<dyn PodDialer>, &ServerDialer),
    target: AggregatedRequest,
    request: ProxiedRequest<'_>,
) -> Response<FrontBody> {
    let is_long = target.is_watch || headers::wants_upgrade(&request.parts.headers);
    let exchange = exchange((pods, servers), target, request);
    let answered =
        if is_long { Ok(exchange.await) } else { timeout(ANSWER_WITHIN, exchange).await };
    match answered {
        Ok(Ok(response)) if redirects(&response) => {
            let message = "the backend attempted to redirect this request, which is not permitted";
            respond(ApiAnswer::text(StatusCode::BAD_GATEWAY, message))
        }
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            let message = format!("error trying to reach service: {error}\n");
            respond(ApiAnswer::text(StatusCode::SERVICE_UNAVAILABLE, message))
        }
        Err(_) => {
            let message = "request did not complete within the allotted timeout";
            respond(ApiError::timed_out(message).into())
        }
    }
}

/// The client would follow it with its token.
fn redirects(response: &Response<FrontBody>) -> bool {
    response.status().is_redirection() && response.headers().contains_key(header::LOCATION)
}

async fn exchange(
    (pods, servers): (&Arc<dyn PodDialer>, &ServerDialer),
    target: AggregatedRequest,
    request: ProxiedRequest<'_>,
) -> io::Result<Response<FrontBody>> {
    let AggregatedRequest { server, address, user, is_watch: _, body } = target;
    let connection = servers.connect(pods, &server, address).await?;
    let parts = request.parts;
    let mut asked = http::Request::new(Full::new(body));
    *asked.method_mut() = parts.method.clone();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    *asked.uri_mut() = path.parse().map_err(io::Error::other)?;
    let mut sent = headers::to_target(parts, "", request.client);
    headers::name_user(&mut sent, &user);
    sent.insert(header::HOST, HeaderValue::from_str(&server.host).map_err(io::Error::other)?);
    *asked.headers_mut() = sent;
    let mut response = relay(connection, asked, request).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        headers::to_client(response.headers_mut(), "", address);
    }
    Ok(response)
}
