//! Requests to one repository: credentials where they are asked for, redirects, and patience with
//! what may pass.
//!
//! ```text
//!  request -- 2xx -> answer
//!          -- 3xx -> there, without credentials when it is another host
//!          -- 401/403/404 -> authorize with the next login, again
//!          -- 429, 5xx, broken -> pause, again
//! ```

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;

use super::address::{RegistryAddress, RegistryScheme};
use super::authorization::{AuthorizationDenial, HeaderRejection, RegistryAuthorizer};
use super::error::RegistryError;
use super::login::Login;
use super::settings::RegistrySettings;
use super::transport::{RegistryTransport, host_of};

/// Redirects followed for one request at most.
const REDIRECTS_MAX: usize = 5;
/// A pause that the registry asks for (`Retry-After`) is kept up to this; longer ones are left to
/// the pod's backoff.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Bytes of an error's text that are looked at, and characters that are shown.
const MESSAGE_MAX_BYTES: u64 = 16 << 10;
const MESSAGE_MAX_CHARS: usize = 200;

const USER_AGENT: &str = concat!("rekindle/", env!("CARGO_PKG_VERSION"));

/// One repository of one registry, for the time of one pull.
pub(super) struct RegistrySession<'a> {
    pub(super) transport: &'a RegistryTransport,
    pub(super) settings: &'a RegistrySettings,
    address: RegistryAddress,
    repository: String,
    authorizer: RegistryAuthorizer,
}

/// One thing to ask for.
pub(super) struct RegistryRequest<'a> {
    pub(super) method: Method,
    /// Below the repository: `/manifests/latest`.
    pub(super) path: &'a str,
    /// Media types that are taken.
    pub(super) accept: &'a str,
    /// The first byte that is wanted.
    pub(super) from: u64,
    /// For people: `manifest docker.io/library/busybox:latest`.
    pub(super) what: &'a str,
}

/// An answer with status 2xx.
pub(super) struct RegistryResponse {
    pub(super) host: String,
    pub(super) status: StatusCode,
    pub(super) headers: http::HeaderMap,
    pub(super) body: Incoming,
}

/// What one try brought.
enum RequestAttempt {
    Answer(RegistryResponse),
    /// The login is not good enough; the text is the registry's.
    Unauthorized {
        challenges: Vec<HeaderValue>,
        generation: u64,
        message: String,
    },
    /// To this login there is no such thing.
    NotFound {
        generation: u64,
    },
    /// It may work a moment later.
    Later(RegistryError, Option<Duration>),
}

impl<'a> RegistrySession<'a> {
    pub(super) fn new(
        transport: &'a RegistryTransport,
        settings: &'a RegistrySettings,
        address: RegistryAddress,
        repository: &str,
        logins: Vec<Login>,
    ) -> Self {
        let authorizer = RegistryAuthorizer::new(address.clone(), repository, logins);
        Self { transport, settings, address, repository: repository.to_owned(), authorizer }
    }

    /// Asks until there is an answer, or no hope.
    pub(super) async fn ask(
        &self,
        ask: &RegistryRequest<'_>,
    ) -> Result<RegistryResponse, RegistryError> {
        let mut pause = self.settings.first_pause;
        let mut failures = 0;
        loop {
            let (error, wanted) = match self.try_once(ask).await? {
                RequestAttempt::Answer(answer) => return Ok(answer),
                RequestAttempt::NotFound { generation } => {
                    let next =
                        self.authorizer.next(self.transport, HeaderRejection::NotFound, generation);
                    match next.await {
                        Ok(()) => continue,
                        Err(AuthorizationDenial::Failed(error)) if error.may_pass() => {
                            (error, None)
                        }
                        Err(
                            AuthorizationDenial::Failed(_)
                            | AuthorizationDenial::NoMoreLogins { .. },
                        ) => {
                            return Err(RegistryError::NotFound { what: ask.what.to_owned() });
                        }
                    }
                }
                RequestAttempt::Unauthorized { challenges, generation, message } => {
                    let setback = HeaderRejection::Refused(&challenges);
                    match self.authorizer.next(self.transport, setback, generation).await {
                        Ok(()) => continue,
                        Err(AuthorizationDenial::Failed(error)) if error.may_pass() => {
                            (error, None)
                        }
                        Err(AuthorizationDenial::Failed(error)) => return Err(error),
                        Err(AuthorizationDenial::NoMoreLogins { tried }) => {
                            let what = ask.what.to_owned();
                            return Err(RegistryError::Denied { what, tried, message });
                        }
                    }
                }
                RequestAttempt::Later(error, wanted) => (error, wanted),
            };
            failures += 1;
            let wait = wanted.unwrap_or(pause);
            if failures >= self.settings.attempts_max || wait > PAUSE_MAX {
                return Err(error);
            }
            tracing::debug!(%error, what = ask.what, ?wait, "a registry is asked again");
            tokio::time::sleep(wait).await;
            pause *= 2;
        }
    }

    async fn try_once(&self, ask: &RegistryRequest<'_>) -> Result<RequestAttempt, RegistryError> {
        let url = self.address.url(&format!("/v2/{}{}", self.repository, ask.path));
        let mut uri: Uri = url.parse().map_err(|_| RegistryError::Address { url: url.clone() })?;
        let home = (uri.scheme().cloned(), uri.authority().cloned());
        let (authorization, generation) = self.authorizer.current().await;
        for _ in 0..=REDIRECTS_MAX {
            let at_home = (uri.scheme().cloned(), uri.authority().cloned()) == home;
            // credentials are for the registry alone, not for whom it redirects to
            let authorization = authorization.clone().filter(|_| at_home);
            let answer = match self.transport.send(request(ask, &uri, authorization)?).await {
                Ok(answer) => answer,
                Err(error) => return Ok(RequestAttempt::Later(error, None)),
            };
            let status = answer.status();
            if status.is_redirection() {
                uri = self.follow(ask, &uri, &answer)?;
                continue;
            }
            let host = host_of(&uri);
            return match status {
                _ if status.is_success() => {
                    self.authorizer.proven(generation).await;
                    let (parts, body) = answer.into_parts();
                    Ok(RequestAttempt::Answer(RegistryResponse {
                        host,
                        status,
                        headers: parts.headers,
                        body,
                    }))
                }
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if at_home => {
                    let challenges = answer
                        .headers()
                        .get_all(header::WWW_AUTHENTICATE)
                        .iter()
                        .cloned()
                        .collect();
                    let message = self.message(&host, answer).await;
                    Ok(RequestAttempt::Unauthorized { challenges, generation, message })
                }
                StatusCode::NOT_FOUND if at_home => Ok(RequestAttempt::NotFound { generation }),
                StatusCode::NOT_FOUND => Err(RegistryError::NotFound { what: ask.what.to_owned() }),
                _ => self.refused(ask, host, answer).await,
            };
        }
        Err(self.no_redirect(ask, &uri, "too often"))
    }

    async fn refused(
        &self,
        ask: &RegistryRequest<'_>,
        host: String,
        answer: Response<Incoming>,
    ) -> Result<RequestAttempt, RegistryError> {
        let status = answer.status();
        let wanted = retry_after(answer.headers());
        let message = self.message(&host, answer).await;
        let what = ask.what.to_owned();
        let error = RegistryError::Status { host, status: status.as_u16(), what, message };
        match error.may_pass() {
            true => Ok(RequestAttempt::Later(error, wanted)),
            false => Err(error),
        }
    }

    /// Where a redirect leads, when we go there.
    fn follow(
        &self,
        ask: &RegistryRequest<'_>,
        from: &Uri,
        answer: &Response<Incoming>,
    ) -> Result<Uri, RegistryError> {
        let location = answer.headers().get(header::LOCATION).and_then(|l| l.to_str().ok());
        let Some(location) = location else {
            return Err(self.no_redirect(ask, from, "without saying where to"));
        };
        let absolute = match location.starts_with('/') && !location.starts_with("//") {
            true => {
                let scheme = from.scheme_str().unwrap_or(RegistryScheme::Https.name());
                format!("{scheme}://{}{location}", host_of(from))
            }
            false => location.to_owned(),
        };
        let Ok(uri) = absolute.parse::<Uri>() else {
            return Err(self.no_redirect(ask, from, "to what is no URL"));
        };
        match (uri.scheme_str(), self.address.scheme) {
            (Some("https"), _) => Ok(uri),
            (Some("http"), RegistryScheme::Http) => Ok(uri),
            (Some("http"), RegistryScheme::Https) => {
                Err(self.no_redirect(ask, from, "to a connection without TLS"))
            }
            (Some(_) | None, _) => Err(self.no_redirect(ask, from, "to neither https nor http")),
        }
    }

    fn no_redirect(
        &self,
        ask: &RegistryRequest<'_>,
        from: &Uri,
        problem: &'static str,
    ) -> RegistryError {
        RegistryError::Redirect { host: host_of(from), what: ask.what.to_owned(), problem }
    }

    /// What an error's body says, as far as it is for people.
    async fn message(&self, host: &str, answer: Response<Incoming>) -> String {
        let body = self.transport.whole(host, answer.into_body(), MESSAGE_MAX_BYTES).await;
        body.ok().flatten().map(|bytes| message_of(&bytes)).unwrap_or_default()
    }
}

fn request(
    ask: &RegistryRequest<'_>,
    uri: &Uri,
    authorization: Option<HeaderValue>,
) -> Result<Request<Full<Bytes>>, RegistryError> {
    let mut request = Request::builder()
        .method(ask.method.clone())
        .uri(uri.clone())
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, ask.accept);
    if ask.from > 0 {
        request = request.header(header::RANGE, format!("bytes={}-", ask.from));
    }
    if let Some(authorization) = authorization {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    request.body(Full::default()).map_err(|_| RegistryError::Address { url: host_of(uri) })
}

fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let name: HeaderName = header::RETRY_AFTER;
    let seconds = headers.get(name)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The message in `{"errors":[{"code":…,"message":…}]}` (distribution specification, "Error
/// Codes"), without control characters and cut short.
fn message_of(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct RegistryErrorBody {
        errors: Vec<RegistryProblem>,
    }
    #[derive(serde::Deserialize)]
    struct RegistryProblem {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let Ok(RegistryErrorBody { errors }) = serde_json::from_slice(body) else {
        return String::new();
    };
    let texts: Vec<String> = errors
        .iter()
        .map(|problem| match problem.message.as_str() {
            "" => problem.code.clone(),
            message => message.to_owned(),
        })
        .collect();
    texts.join("; ").chars().filter(|c| !c.is_control()).take(MESSAGE_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registrys_words_are_shown_cut_short_and_without_control_characters() {
        let long = format!(r#"{{"errors":[{{"message":"{}"}}]}}"#, "x".repeat(1000));
        let cases = [
            (r#"{"errors":[{"code":"DENIED","message":"no \u001b[31maccess"}]}"#, "no [31maccess"),
            (r#"{"errors":[{"code":"A"},{"code":"B","message":"b"}]}"#, "A; b"),
            ("<html>", ""),
            ("", ""),
        ];
        for (body, text) in cases {
            assert_eq!(message_of(body.as_bytes()), text, "{body}");
        }
        assert_eq!(message_of(long.as_bytes()).len(), MESSAGE_MAX_CHARS);
    }
}
