//! What of the headers is handed on, and what stands for the proxy in them.

use std::net::{IpAddr, SocketAddr};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use k8s_openapi::api::authentication::v1::UserInfo as ShownUser;

/// Headers that are about one connection (RFC 9110, 7.6.1).
const OF_A_CONNECTION: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// The websocket protocol in which browsers send a token.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Whether the client wants another protocol on its connection.
pub(super) fn wants_upgrade(headers: &HeaderMap) -> bool {
    let names = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let mut names = names.flat_map(|value| value.split(','));
    names.any(|name| name.trim().eq_ignore_ascii_case("upgrade"))
}

/// The headers that the target sees. Who the client is to the API is not the target's business.
pub(super) fn to_target(parts: &Parts, own_path: &str, client: Option<IpAddr>) -> HeaderMap {
    let mut headers = parts.headers.clone();
    let upgrade = headers.get(header::UPGRADE).cloned().filter(|_| wants_upgrade(&headers));
    remove_of_connection(&mut headers);
    headers.remove(header::AUTHORIZATION);
    headers.remove(header::CONTENT_LENGTH); // the body has been read, and says it itself
    let impersonates = |name: &HeaderName| name.as_str().starts_with("impersonate-");
    let impersonation: Vec<HeaderName> =
        headers.keys().filter(|n| impersonates(n)).cloned().collect();
    for name in impersonation {
        headers.remove(name);
    }
    remove_token_protocols(&mut headers);
    if let Some(upgrade) = upgrade {
        headers.insert(header::UPGRADE, upgrade);
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    }
    let authority = parts.uri.authority().map(|authority| authority.as_str().to_owned());
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    let host = named.or(authority).unwrap_or_default();
    let uri = parts.uri.path().strip_prefix(own_path).map(|_| parts.uri.path().to_owned());
    let before = headers.get(&FORWARDED_FOR).and_then(|list| list.to_str().ok());
    let client = client.map(|client| match before {
        Some(before) => format!("{before}, {client}"),
        None => client.to_string(),
    });
    let mut set = |name: HeaderName, value: Option<String>| {
        if let Some(value) = value.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(name, value);
        }
    };
    set(FORWARDED_FOR, client);
    set(FORWARDED_HOST, Some(host.clone()));
    set(FORWARDED_PROTO, Some("https".to_owned()));
    set(FORWARDED_URI, uri);
    set(header::HOST, Some(host));
    headers
}

/// The headers that the client sees. Redirects of the target stay below the proxy's own path.
pub(super) fn to_client(headers: &mut HeaderMap, own_path: &str, target: SocketAddr) {
    remove_of_connection(headers);
    let location = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    if let Some(location) = location.and_then(|location| below(location, own_path, target)) {
        headers.insert(header::LOCATION, location);
    }
}

/// The location below the proxy's path; none if it stays as it is: relative, or elsewhere.
fn below(location: &str, own_path: &str, target: SocketAddr) -> Option<HeaderValue> {
    let is_path = location.starts_with('/') && !location.starts_with("//");
    let path = if is_path {
        location
    } else {
        let (_, rest) = location.split_once("://").filter(|(scheme, _)| {
            scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
        })?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority != target.to_string() && authority != target.ip().to_string() {
            return None;
        }
        path
    };
    let is_below = path
        .strip_prefix(own_path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']));
    match is_below {
        true => None,
        false => HeaderValue::from_str(&format!("{own_path}{path}")).ok(),
    }
}

/// Names the user to a server that trusts us. Users that the client named are dropped.
pub(in super::super) fn name_user(headers: &mut HeaderMap, user: &ShownUser) {
    let named: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-remote-")).cloned().collect();
    for name in named {
        headers.remove(name);
    }
    let mut add = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            headers.append(name, value);
        }
    };
    add("x-remote-user", user.username.as_deref().unwrap_or_default());
    if let Some(uid) = user.uid.as_deref().filter(|uid| !uid.is_empty()) {
        add("x-remote-uid", uid);
    }
    for group in user.groups.iter().flatten() {
        add("x-remote-group", group);
    }
    for (key, values) in user.extra.iter().flatten() {
        for value in values {
            add(&format!("x-remote-extra-{}", escaped(key)), value);
        }
    }
}

/// A key as a part of a header's name: what a name cannot hold is percent-encoded, as client-go
/// does.
fn escaped(key: &str) -> String {
    let mut text = String::new();
    for byte in key.bytes() {
        match byte {
            b'!'
            | b'#'
            | b'$'
            | b'&'
            | b'\''
            | b'*'
            | b'+'
            | b'-'
            | b'.'
            | b'^'
            | b'_'
            | b'`'
            | b'|'
            | b'~'
            | b'0'..=b'9'
            | b'a'..=b'z'
            | b'A'..=b'Z' => text.push(byte.into()),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn remove_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in OF_A_CONNECTION {
        headers.remove(name);
    }
}

/// A token among the protocols of a websocket.
fn remove_token_protocols(headers: &mut HeaderMap) {
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let protocols = protocols.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    let kept: Vec<&str> =
        protocols.map(str::trim).filter(|name| !name.starts_with(TOKEN_PROTOCOL)).collect();
    let kept = HeaderValue::from_str(&kept.join(", ")).ok().filter(|kept| !kept.is_empty());
    headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
    if let Some(kept) = kept {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "/api/v1/namespaces/shop/pods/web:80/proxy";

    fn sent(headers: &[(&str, &str)]) -> HeaderMap {
        let mut request = http::Request::get(format!("{OWN}/a?b=c"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        to_target(&parts, OWN, Some([192, 0, 2, 7].into()))
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}", value.to_str().unwrap())
        };
        let mut lines: Vec<String> = headers.iter().map(line).collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_target_sees_the_request_without_what_is_the_apis() {
        let headers = sent(&[
            ("host", "api.example"),
            ("authorization", "Bearer secret"),
            ("impersonate-user", "ann"),
            ("impersonate-extra-a", "b"),
            ("connection", "keep-alive, x-mine"),
            ("x-mine", "1"),
            ("transfer-encoding", "chunked"),
            ("content-length", "7"),
            ("upgrade", "h2c"),
            ("x-forwarded-for", "198.51.100.1"),
            ("accept", "text/plain"),
        ]);
        assert_eq!(
            shown(&headers),
            [
                "accept: text/plain",
                "host: api.example",
                "x-forwarded-for: 198.51.100.1, 192.0.2.7",
                "x-forwarded-host: api.example",
                "x-forwarded-proto: https",
                "x-forwarded-uri: /api/v1/namespaces/shop/pods/web:80/proxy/a",
            ]
        );
    }

    #[test]
    fn an_upgrade_is_asked_for_without_the_token() {
        let headers = sent(&[
            ("host", "api.example"),
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.c2VjcmV0, chat"),
        ]);
        let lines = shown(&headers);
        for expected in
            ["connection: Upgrade", "upgrade: websocket", "sec-websocket-protocol: chat"]
        {
            assert!(lines.iter().any(|line| line == expected), "{expected} in {lines:?}");
        }
    }

    #[test]
    fn the_user_is_the_one_that_we_name() {
        let mut headers = HeaderMap::new();
        for name in ["x-remote-user", "x-remote-group", "x-remote-extra-a", "x-remote-uid"] {
            headers.insert(name, HeaderValue::from_static("forged"));
        }
        let user = ShownUser {
            username: Some("ann".to_owned()),
            uid: None,
            groups: Some(vec!["crew".to_owned(), "system:authenticated".to_owned()]),
            extra: Some([("a.b/c%d".to_owned(), vec!["1".to_owned(), "2".to_owned()])].into()),
        };
        name_user(&mut headers, &user);
        assert_eq!(
            shown(&headers),
            [
                "x-remote-extra-a.b%2fc%25d: 1",
                "x-remote-extra-a.b%2fc%25d: 2",
                "x-remote-group: crew",
                "x-remote-group: system:authenticated",
                "x-remote-user: ann",
            ]
        );
    }

    #[test]
    fn redirects_of_the_target_stay_below_the_proxy() {
        let target: SocketAddr = "10.88.0.2:80".parse().unwrap();
        for (location, expected) in [
            ("/login", Some("/login")),
            ("/login?next=/", Some("/login?next=/")),
            ("http://10.88.0.2:80/login", Some("/login")),
            ("https://10.88.0.2/", Some("/")),
            ("http://10.88.0.2:80", Some("")),
            ("login", None),
            ("//elsewhere/", None),
            ("http://elsewhere/login", None),
            ("mailto:ann@example", None),
            ("/api/v1/namespaces/shop/pods/web:80/proxy/login", None),
        ] {
            let expected = expected.map(|path| format!("{OWN}{path}"));
            let found = below(location, OWN, target).map(|v| v.to_str().unwrap().to_owned());
            assert_eq!(found, expected, "{location}");
        }
    }
}
