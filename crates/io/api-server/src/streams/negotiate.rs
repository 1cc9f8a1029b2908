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

use super::channels::{LAST_DIGIT, MessageCoding};

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

/// What was agreed on: the protocol, and how its bytes are in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NegotiatedProtocol<P> {
    pub(super) protocol: P,
    pub(super) coding: MessageCoding,
    /// As the client spelled it; `None` when it did not name any.
    name: Option<String>,
    accept_key: String,
}

/// A protocol that is known by this name.
type KnownProtocol<P> = (&'static str, P, MessageCoding);

const REMOTE_COMMAND: [KnownProtocol<RemoteCommandProtocol>; 5] = [
    ("v5.channel.k8s.io", RemoteCommandProtocol::V5, MessageCoding::Binary),
    ("v4.channel.k8s.io", RemoteCommandProtocol::V4, MessageCoding::Binary),
    ("v4.base64.channel.k8s.io", RemoteCommandProtocol::V4, MessageCoding::Base64),
    ("channel.k8s.io", RemoteCommandProtocol::PreV4, MessageCoding::Binary),
    ("base64.channel.k8s.io", RemoteCommandProtocol::PreV4, MessageCoding::Base64),
];
const PORT_FORWARD: [KnownProtocol<RemoteCommandProtocol>; 4] = [
    ("SPDY/3.1+portforward.k8s.io", RemoteCommandProtocol::SpdyTunnel, MessageCoding::Binary),
    ("v4.channel.k8s.io", RemoteCommandProtocol::V4, MessageCoding::Binary),
    ("portforward.k8s.io", RemoteCommandProtocol::V4, MessageCoding::Binary),
    ("v4.base64.channel.k8s.io", RemoteCommandProtocol::V4, MessageCoding::Base64),
];
/// Of logs, which have no channels.
const LOG: [KnownProtocol<()>; 2] = [
    ("binary.k8s.io", (), MessageCoding::Binary),
    ("base64.binary.k8s.io", (), MessageCoding::Base64),
];

/// The upgrade that a request for a stream asks for, or what is wrong with it.
pub(super) fn agree(
    query: &StreamQuery,
    headers: &HeaderMap,
    method: &Method,
) -> Result<NegotiatedProtocol<RemoteCommandProtocol>, ApiError> {
    // Without a name clients get what the kubelet has under the empty one
    // (`createWebSocketStreams`).
    match query {
        StreamQuery::Exec(_) | StreamQuery::Attach(_) => {
            agree_on(&REMOTE_COMMAND, RemoteCommandProtocol::PreV4, headers, method)
        }
        StreamQuery::PortForward(query) => {
            let agreed = agree_on(&PORT_FORWARD, RemoteCommandProtocol::V4, headers, method)?;
            let channels_max = usize::from(LAST_DIGIT) + 1;
            if agreed.coding == MessageCoding::Base64 && 2 * query.ports.len() > channels_max {
                let problem = format!("base64 has channels for {} ports at most", channels_max / 2);
                return Err(ApiError::bad_request(problem));
            }
            Ok(agreed)
        }
    }
}

/// Whether a request for a log asks for a websocket. Any other is answered with a body.
pub(crate) fn asks_for_websocket(headers: &HeaderMap) -> bool {
    has_token(headers, &CONNECTION, "upgrade") && has_token(headers, &UPGRADE, "websocket")
}

/// The upgrade that a request for a log asks for, or what is wrong with it.
pub(super) fn agree_for_log(
    headers: &HeaderMap,
    method: &Method,
) -> Result<NegotiatedProtocol<()>, ApiError> {
    agree_on(&LOG, (), headers, method)
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|value| value.eq_ignore_ascii_case(token))
}

/// Of the known protocols the first one that the client names; `unnamed` if it names none.
fn agree_on<P: Copy>(
    known: &[KnownProtocol<P>],
    unnamed: P,
    headers: &HeaderMap,
    method: &Method,
) -> Result<NegotiatedProtocol<P>, ApiError> {
    if !has_token(headers, &CONNECTION, "upgrade") {
        return Err(ApiError::bad_request("Upgrade request required"));
    }
    if !has_token(headers, &UPGRADE, "websocket") {
        return Err(ApiError::bad_request(
            "streams are carried by websockets only, not by SPDY: use a client that speaks v5.channel.k8s.io (kubectl 1.31 or later)",
        ));
    }
    if method != Method::GET || !has_token(headers, &SEC_WEBSOCKET_VERSION, "13") {
        return Err(ApiError::bad_request("a websocket begins with a GET of version 13"));
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
    if key.is_empty() {
        return Err(ApiError::bad_request("Sec-WebSocket-Key is missing"));
    }
    let accept_key = derive_accept_key(key);
    let offered = tokens(headers, &SEC_WEBSOCKET_PROTOCOL).filter(|name| !name.is_empty());
    let offered: Vec<&str> = offered.collect();
    if offered.is_empty() {
        let coding = MessageCoding::Binary;
        return Ok(NegotiatedProtocol { protocol: unnamed, coding, name: None, accept_key });
    }
    // The client's order is its preference.
    let found = offered.iter().find_map(|name| known.iter().find(|(known, ..)| known == name));
    let Some((name, protocol, coding)) = found else {
        let names: Vec<&str> = known.iter().map(|(name, ..)| *name).collect();
        return Err(ApiError::bad_request(format!(
            "unable to negotiate protocol: client supports {offered:?}, server supports {names:?}"
        )));
    };
    let (protocol, coding) = (*protocol, *coding);
    Ok(NegotiatedProtocol { protocol, coding, name: Some((*name).to_owned()), accept_key })
}

fn tokens<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

impl<P> NegotiatedProtocol<P> {
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
        use MessageCoding::{Base64, Binary};
        for (offered, protocol, coding) in [
            ("v5.channel.k8s.io, v4.channel.k8s.io", RemoteCommandProtocol::V5, Binary),
            ("v9.channel.k8s.io,v4.channel.k8s.io", RemoteCommandProtocol::V4, Binary),
            ("channel.k8s.io", RemoteCommandProtocol::PreV4, Binary),
            ("base64.channel.k8s.io, channel.k8s.io", RemoteCommandProtocol::PreV4, Base64),
            ("v4.base64.channel.k8s.io", RemoteCommandProtocol::V4, Base64),
        ] {
            let agreed = agree(&exec(), &headers(offered), &Method::GET).unwrap();
            assert_eq!((agreed.protocol, agreed.coding), (protocol, coding), "{offered}");
        }
        for (offered, coding) in
            [("", Binary), ("binary.k8s.io", Binary), ("base64.binary.k8s.io", Base64)]
        {
            let agreed = agree_for_log(&headers(offered), &Method::GET).unwrap();
            assert_eq!(agreed.coding, coding, "{offered}");
        }
        let many = PortForwardQuery { pod: pod(), ports: vec![80; 41] };
        let many = StreamQuery::PortForward(many);
        agree(&many, &headers("v4.channel.k8s.io"), &Method::GET).unwrap();
        agree(&many, &headers("v4.base64.channel.k8s.io"), &Method::GET).unwrap_err();
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
