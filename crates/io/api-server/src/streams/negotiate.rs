//! Which protocol a client and we have in common. Until that is settled, no node hears of the
//! request.

use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method};
use rekindle_api::node_query::StreamQuery;
use rekindle_api::status::ApiError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// How streams go over a websocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemoteCommandProtocol {
    /// Each message begins with its channel's number; channel 255 ends another one.
    V5,
    /// The same without an end of single channels.
    V4,
    /// The same with text on the error channel, and nothing there when all went well.
    PreV4,
    /// A tunnel for SPDY/3.1 (KEP-4006).
    SpdyTunnel,
}

/// What was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NegotiatedProtocol {
    pub(super) protocol: RemoteCommandProtocol,
    /// As the client spelled it; `None` when it did not name any.
    name: Option<String>,
    accept_key: String,
}

const REMOTE_COMMAND: [(&str, RemoteCommandProtocol); 3] = [
    ("v5.channel.k8s.io", RemoteCommandProtocol::V5),
    ("v4.channel.k8s.io", RemoteCommandProtocol::V4),
    ("channel.k8s.io", RemoteCommandProtocol::PreV4),
];
const PORT_FORWARD: [(&str, RemoteCommandProtocol); 3] = [
    ("SPDY/3.1+portforward.k8s.io", RemoteCommandProtocol::SpdyTunnel),
    ("v4.channel.k8s.io", RemoteCommandProtocol::V4),
    ("portforward.k8s.io", RemoteCommandProtocol::V4),
];

/// The upgrade that a request asks for, or what is wrong with it.
pub(super) fn agree(
    query: &StreamQuery,
    headers: &HeaderMap,
    method: &Method,
) -> Result<NegotiatedProtocol, ApiError> {
    let has = |name: &HeaderName, token: &str| {
        tokens(headers, name).any(|value| value.eq_ignore_ascii_case(token))
    };
    if !has(&CONNECTION, "upgrade") {
        return Err(ApiError::bad_request("Upgrade request required"));
    }
    if !has(&UPGRADE, "websocket") {
        return Err(ApiError::bad_request(
            "streams are carried by websockets only, not by SPDY: use a client that speaks v5.channel.k8s.io (kubectl 1.31 or later)",
        ));
    }
    if method != Method::GET || !has(&SEC_WEBSOCKET_VERSION, "13") {
        return Err(ApiError::bad_request("a websocket begins with a GET of version 13"));
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
    if key.is_empty() {
        return Err(ApiError::bad_request("Sec-WebSocket-Key is missing"));
    }
    // Without a name clients get what the kubelet has under the empty one
    // (`createWebSocketStreams`).
    let (known, unnamed): (&[(&str, RemoteCommandProtocol)], RemoteCommandProtocol) = match query {
        StreamQuery::Exec(_) | StreamQuery::Attach(_) => {
            (&REMOTE_COMMAND, RemoteCommandProtocol::PreV4)
        }
        StreamQuery::PortForward(_) => (&PORT_FORWARD, RemoteCommandProtocol::V4),
    };
    let accept_key = derive_accept_key(key);
    let offered = tokens(headers, &SEC_WEBSOCKET_PROTOCOL).filter(|name| !name.is_empty());
    let offered: Vec<&str> = offered.collect();
    if offered.is_empty() {
        return Ok(NegotiatedProtocol { protocol: unnamed, name: None, accept_key });
    }
    // The client's order is its preference.
    let found = offered.iter().find_map(|name| known.iter().find(|(known, _)| known == name));
    let Some((name, protocol)) = found else {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        return Err(ApiError::bad_request(format!(
            "unable to negotiate protocol: client supports {offered:?}, server supports {names:?}"
        )));
    };
    Ok(NegotiatedProtocol { protocol: *protocol, name: Some((*name).to_owned()), accept_key })
}

fn tokens<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

impl NegotiatedProtocol {
    /// The headers of the answer 101.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(key) = HeaderValue::from_str(&self.accept_key) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, key);
        }
        if let Some(Ok(name)) = self.name.as_deref().map(HeaderValue::from_str) {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, name);
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use rekindle_types::PodUid;

    use super::*;
    use rekindle_api::node_query::{
        ExecQuery, PodOnNode, PortForwardQuery, StreamFiles, StreamQuery,
    };

    fn pod() -> PodOnNode {
        let text = str::to_owned;
        PodOnNode {
            namespace: text("shop"),
            pod: text("web"),
            uid: PodUid(text("1")),
            node: text("n"),
        }
    }

    fn exec() -> StreamQuery {
        let files = StreamFiles { stdin: false, stdout: true, stderr: false, terminal: false };
        let command = vec!["true".to_owned()];
        StreamQuery::Exec(ExecQuery { pod: pod(), container: "web".to_owned(), command, files })
    }

    fn headers(protocols: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (CONNECTION, "keep-alive, Upgrade"),
            (UPGRADE, "websocket"),
            (SEC_WEBSOCKET_VERSION, "13"),
            (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
            (SEC_WEBSOCKET_PROTOCOL, protocols),
        ] {
            headers.insert(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn the_clients_first_known_protocol_is_taken() {
        for (offered, protocol) in [
            ("v5.channel.k8s.io, v4.channel.k8s.io", RemoteCommandProtocol::V5),
            ("v9.channel.k8s.io,v4.channel.k8s.io", RemoteCommandProtocol::V4),
            ("channel.k8s.io", RemoteCommandProtocol::PreV4),
        ] {
            let agreed = agree(&exec(), &headers(offered), &Method::GET).unwrap();
            assert_eq!(agreed.protocol, protocol, "{offered}");
        }
        let forward = PortForwardQuery { pod: pod(), ports: Vec::new() };
        let offered = headers("SPDY/3.1+portforward.k8s.io");
        let agreed = agree(&StreamQuery::PortForward(forward), &offered, &Method::GET).unwrap();
        assert_eq!(agreed.protocol, RemoteCommandProtocol::SpdyTunnel);
        let answer = agreed.headers();
        assert_eq!(answer[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(answer[SEC_WEBSOCKET_PROTOCOL], "SPDY/3.1+portforward.k8s.io");
    }

    #[test]
    fn a_client_that_names_no_protocol_gets_binary_channels() {
        let forward = StreamQuery::PortForward(PortForwardQuery { pod: pod(), ports: vec![80] });
        for (query, protocol) in
            [(exec(), RemoteCommandProtocol::PreV4), (forward, RemoteCommandProtocol::V4)]
        {
            let mut unnamed = headers("");
            for _ in 0..2 {
                let agreed = agree(&query, &unnamed, &Method::GET).unwrap();
                assert_eq!(agreed.protocol, protocol);
                assert!(!agreed.headers().contains_key(SEC_WEBSOCKET_PROTOCOL));
                unnamed.remove(SEC_WEBSOCKET_PROTOCOL);
            }
        }
    }

    #[test]
    fn what_is_no_websocket_is_told_what_to_do() {
        type Change = fn(&mut HeaderMap);
        let cases: [(Change, &str); 5] = [
            (|h| drop(h.remove(CONNECTION)), "Upgrade request required"),
            (|h| drop(h.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"))), "not by SPDY"),
            (|h| drop(h.remove(SEC_WEBSOCKET_VERSION)), "version 13"),
            (|h| drop(h.remove(SEC_WEBSOCKET_KEY)), "Sec-WebSocket-Key"),
            (
                |h| drop(h.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("v9"))),
                "unable to negotiate protocol",
            ),
        ];
        for (change, problem) in cases {
            let mut changed = headers("v5.channel.k8s.io");
            change(&mut changed);
            let error = agree(&exec(), &changed, &Method::GET).unwrap_err();
            assert!(error.status().message.contains(problem), "{:?}", error.status());
        }
        let error = agree(&exec(), &headers("v5.channel.k8s.io"), &Method::POST).unwrap_err();
        assert!(error.status().message.contains("begins with a GET"));
    }
}
