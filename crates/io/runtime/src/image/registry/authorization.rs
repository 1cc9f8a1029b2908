//! The `Authorization` header of a session: which login is tried, and the token got for it.
//!
//! Logins are tried in their order until the registry takes one and shows what is asked for, as the
//! kubelet does; without any, it is asked anonymously. A token that worked and does no longer has
//! expired: another one is got for the same login.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::address::{RegistryAddress, RegistryScheme};
use super::challenge::{self, Challenge};
use super::error::RegistryError;
use super::login::Login;
use super::transport::{RegistryTransport, host_of};

/// Bytes of a token service's answer at most.
const TOKEN_MAX_BYTES: u64 = 1 << 20;
/// What stays as it is in a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Tokens that one login may need in one pull: more is a registry that never takes what it issued.
const RENEWALS_MAX: u32 = 20;

/// Gets and keeps the header of one session.
pub(super) struct RegistryAuthorizer {
    address: RegistryAddress,
    repository: String,
    logins: Vec<Login>,
    state: Mutex<AuthorizationState>,
}

#[derive(Default)]
struct AuthorizationState {
    header: Option<HeaderValue>,
    /// Counts the headers, so that several requests refused with the same one get one new one.
    generation: u64,
    standing: HeaderTrust,
    /// The login that the header stands for.
    login: usize,
    renewals: u32,
    /// The last one; a refusal (403) need not repeat it.
    challenge: Option<Challenge>,
}

/// What the registry thinks of the current header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HeaderTrust {
    /// Nothing was asked with a login yet.
    #[default]
    Unasked,
    /// It was made for the login, and not answered yet.
    Fresh,
    /// It was taken.
    Proven,
}

/// What became of the current header.
pub(super) enum HeaderRejection<'a> {
    /// The registry refused it, and asks for this.
    Refused(&'a [HeaderValue]),
    /// It took it and says that there is no such thing: so do registries to a login that may not
    /// see it.
    NotFound,
}

/// Why there is no further header to try.
pub(super) enum AuthorizationDenial {
    /// Every login was refused.
    NoMoreLogins {
        /// For people.
        tried: String,
    },
    /// The token could not be got for another reason.
    Failed(RegistryError),
}

impl RegistryAuthorizer {
    pub(super) fn new(address: RegistryAddress, repository: &str, logins: Vec<Login>) -> Self {
        Self { address, repository: repository.to_owned(), logins, state: Mutex::default() }
    }

    /// The header to send, and its number.
    pub(super) async fn current(&self) -> (Option<HeaderValue>, u64) {
        let state = self.state.lock().await;
        (state.header.clone(), state.generation)
    }

    /// The registry took the header of this number.
    pub(super) async fn proven(&self, generation: u64) {
        let mut state = self.state.lock().await;
        if state.generation == generation && state.standing == HeaderTrust::Fresh {
            state.standing = HeaderTrust::Proven;
        }
    }

    /// The header of this number was not good enough: makes the next one.
    pub(super) async fn next(
        &self,
        transport: &RegistryTransport,
        setback: HeaderRejection<'_>,
        generation: u64,
    ) -> Result<(), AuthorizationDenial> {
        let mut state = self.state.lock().await;
        if state.generation != generation {
            return Ok(()); // somebody else has got a new one meanwhile
        }
        match (state.standing, &setback) {
            // no login had a part in it
            (HeaderTrust::Unasked, HeaderRejection::NotFound) if state.header.is_none() => {
                return Err(self.exhausted());
            }
            (HeaderTrust::Unasked, _) => {}
            (HeaderTrust::Fresh, _) | (HeaderTrust::Proven, HeaderRejection::NotFound) => {
                state.login += 1
            }
            (HeaderTrust::Proven, HeaderRejection::Refused(_)) => {
                state.renewals += 1;
                if state.renewals > RENEWALS_MAX {
                    return Err(self.exhausted());
                }
            }
        }
        // so that a token service that fails for a moment is asked again with the same login
        state.standing = HeaderTrust::Unasked;
        if let HeaderRejection::Refused(challenges) = setback {
            let texts = challenges.iter().filter_map(|value| value.to_str().ok());
            if let Some(challenge) = challenge::parse(texts) {
                state.challenge = Some(challenge);
            }
        }
        let Some(challenge) = state.challenge.clone() else { return Err(self.exhausted()) };
        // without logins, anonymous is the one to try
        let mut last = self.exhausted();
        while state.login < self.logins.len().max(1) {
            match self.header(transport, &challenge, self.logins.get(state.login)).await {
                Ok(Some(header)) => {
                    state.header = Some(header);
                    state.generation += 1;
                    state.standing = HeaderTrust::Fresh;
                    return Ok(());
                }
                Ok(None) => {
                    state.login += 1;
                    last = self.exhausted();
                }
                Err(error) if error.may_pass() => return Err(AuthorizationDenial::Failed(error)),
                Err(error) => {
                    state.login += 1;
                    last = AuthorizationDenial::Failed(error);
                }
            }
        }
        Err(last)
    }

    fn exhausted(&self) -> AuthorizationDenial {
        let tried = match self.logins.len() {
            0 => "none were given".to_owned(),
            1 => "1 login was tried".to_owned(),
            count => format!("{count} logins were tried"),
        };
        AuthorizationDenial::NoMoreLogins { tried }
    }

    /// The header for a login; `None` when it cannot be used here, or is refused.
    async fn header(
        &self,
        transport: &RegistryTransport,
        challenge: &Challenge,
        login: Option<&Login>,
    ) -> Result<Option<HeaderValue>, RegistryError> {
        let header = match (challenge, login) {
            (_, Some(Login::RegistryToken(token))) => sensitive(&format!("Bearer {token}")),
            (Challenge::Basic, Some(Login::Password { username, password })) => {
                basic(username, password)
            }
            (Challenge::Basic, Some(Login::IdentityToken(_)) | None) => None,
            (Challenge::Bearer { realm, service, scope }, login) => {
                let token = self.token(transport, realm, service, scope, login).await?;
                token.and_then(|token| sensitive(&format!("Bearer {token}")))
            }
        };
        Ok(header)
    }

    /// Asks the token service; `None` when it refuses the login.
    async fn token(
        &self,
        transport: &RegistryTransport,
        realm: &str,
        service: &str,
        scope: &str,
        login: Option<&Login>,
    ) -> Result<Option<String>, RegistryError> {
        let uri = self.token_service(realm)?;
        let scope = match scope {
            "" => format!("repository:{}:pull", self.repository),
            scope => scope.to_owned(),
        };
        let request = token_request(&uri, service, &scope, login)
            .ok_or_else(|| self.unanswerable("its realm makes no request"))?;
        let host = host_of(&uri);
        let answer = transport.send(request).await?;
        let status = answer.status();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
            || (status == StatusCode::BAD_REQUEST && login.is_some())
        {
            return Ok(None);
        }
        if !status.is_success() {
            let what = "a token".to_owned();
            let (status, message) = (status.as_u16(), String::new());
            return Err(RegistryError::Status { host, status, what, message });
        }
        let body = transport.whole(&host, answer.into_body(), TOKEN_MAX_BYTES).await?;
        let body = body.ok_or_else(|| self.unanswerable("its token is too long"))?;
        let answer: TokenAnswer = serde_json::from_slice(&body)
            .map_err(|_| self.unanswerable("its token service answers no JSON"))?;
        let token = [answer.token, answer.access_token].into_iter().flatten();
        match token.into_iter().find(|token| !token.is_empty()) {
            Some(token) => Ok(Some(token)),
            None => Err(self.unanswerable("its token service answers without a token")),
        }
    }

    /// The token service's address. It gets the login: never without TLS, unless the registry
    /// itself is spoken to so.
    fn token_service(&self, realm: &str) -> Result<Uri, RegistryError> {
        let uri: Uri = realm.parse().map_err(|_| self.unanswerable("its realm is no URL"))?;
        match (uri.scheme_str(), self.address.scheme) {
            (Some("https"), _) | (Some("http"), RegistryScheme::Http) => Ok(uri),
            (Some("http"), RegistryScheme::Https) => {
                Err(self.unanswerable("its realm would send them without TLS"))
            }
            (Some(_) | None, _) => Err(self.unanswerable("its realm is no URL")),
        }
    }

    fn unanswerable(&self, problem: &str) -> RegistryError {
        let host = self.address.authority.clone();
        RegistryError::Challenge { host, problem: problem.to_owned() }
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

/// GET with the password in a Basic header, or POST with a refresh token (OAuth2).
fn token_request(
    realm: &Uri,
    service: &str,
    scope: &str,
    login: Option<&Login>,
) -> Option<Request<Full<Bytes>>> {
    let mut query = vec![("service", service), ("scope", scope)];
    if let Some(Login::IdentityToken(token)) = login {
        query.extend([
            ("grant_type", "refresh_token"),
            ("client_id", "rekindle"),
            ("refresh_token", token),
        ]);
        return Request::post(realm.clone())
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::from(encoded(&query)))
            .ok();
    }
    let separator = if realm.query().is_some() { '&' } else { '?' };
    let mut request = Request::get(format!("{realm}{separator}{}", encoded(&query)));
    if let Some(Login::Password { username, password }) = login {
        request = request.header(header::AUTHORIZATION, basic(username, password)?);
    }
    request.body(Full::default()).ok()
}

fn encoded(pairs: &[(&str, &str)]) -> String {
    let filled = pairs.iter().filter(|(_, value)| !value.is_empty());
    let pair =
        |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, QUERY));
    filled.map(pair).collect::<Vec<_>>().join("&")
}

fn basic(username: &str, password: &str) -> Option<HeaderValue> {
    sensitive(&format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))))
}

/// A header that hides itself in debug output. `None` when it holds what no header may hold: then
/// the login is no good.
fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
