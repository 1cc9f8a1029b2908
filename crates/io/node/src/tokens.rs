//! The tokens in a pod's volumes: asked for at the API, kept in memory, and asked for again before
//! they end. The kubelet's rules (`pkg/kubelet/token`): after 80 % of their life, or after a day.
//! No token is ever on disk: those of an agent that died are asked for anew by the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection};
use kube::api::PostParams;
use kube::{Api, Client};
use rekindle_types::{Tick, TickDuration};

/// What a token gets that says nothing of its life.
const DEFAULT_SECONDS: u64 = 3600;
/// No token is used longer than this.
const AGE_MAX: TickDuration = TickDuration::from_secs(24 * 3600);
/// How long to wait before a token that is still good is asked for again after a refusal.
const RETRY: TickDuration = TickDuration::from_secs(60);

/// One token that a pod wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokenWish {
    /// For whom; empty is the API itself.
    audience: String,
    /// How long it should live.
    seconds: u64,
}

/// Tokens at one moment: each, or why there is none.
pub(crate) type Tokens = BTreeMap<TokenWish, Result<String, NoToken>>;

/// The API gave no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to fetch token: {0}")]
pub(crate) struct NoToken(String);

impl NoToken {
    /// Nobody has asked for it.
    pub(crate) fn none_given() -> Self {
        Self("none was given".to_owned())
    }
}

/// Whether the pod is new to this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumesOrigin {
    /// Its volumes are yet to be made.
    New,
    /// An earlier agent made them, with tokens that nobody remembers.
    Adopted,
}

/// The tokens of one pod.
#[derive(Debug)]
pub(crate) struct PodTokens {
    held: Mutex<CachedTokens>,
}

#[derive(Debug, Default)]
struct CachedTokens {
    tokens: BTreeMap<TokenWish, CachedToken>,
    /// When tokens are due that an earlier agent had.
    unknown_since: Option<Tick>,
}

#[derive(Clone, Debug)]
struct CachedToken {
    text: String,
    ends: Tick,
    refresh_at: Tick,
}

impl TokenWish {
    /// What a projected source wants.
    pub(crate) fn from_source(source: &ServiceAccountTokenProjection) -> Self {
        let seconds = source.expiration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            audience: source.audience.clone().unwrap_or_default(),
            seconds: seconds.unwrap_or(DEFAULT_SECONDS),
        }
    }

    /// All that the pod's volumes want.
    fn all_of(pod: &Pod) -> BTreeSet<Self> {
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let projected = volumes.filter_map(|volume| volume.projected.as_ref());
        let sources = projected.flat_map(|volume| volume.sources.iter().flatten());
        sources
            .filter_map(|source| source.service_account_token.as_ref())
            .map(Self::from_source)
            .collect()
    }
}

impl CachedToken {
    fn new(text: String, life: TickDuration, now: Tick) -> Self {
        let four_fifths = TickDuration::from_secs(life.as_secs() / 5 * 4);
        Self { text, ends: now + life, refresh_at: now + four_fifths.min(AGE_MAX) }
    }
}

impl PodTokens {
    /// Of a pod whose tokens are yet to be asked for.
    pub(crate) fn new(pod: &Pod, found: VolumesOrigin, now: Tick) -> Self {
        let wants_some = !TokenWish::all_of(pod).is_empty();
        let unknown_since = (found == VolumesOrigin::Adopted && wants_some).then_some(now);
        Self { held: Mutex::new(CachedTokens { unknown_since, ..CachedTokens::default() }) }
    }

    /// When the next token is to be asked for anew; none while there is none.
    pub(crate) fn next_refresh(&self) -> Option<Tick> {
        let held = self.held();
        let refreshes = held.tokens.values().map(|token| token.refresh_at);
        refreshes.chain(held.unknown_since).min()
    }

    /// Every token that the pod wants, good now; those that are due are asked for. When the API
    /// refuses, one that is still good stays in use for a while. One that is not to be had keeps no
    /// other back.
    pub(crate) async fn fetch(&self, client: &Client, pod: &Pod, now: impl Fn() -> Tick) -> Tokens {
        let mut tokens = Tokens::new();
        for wish in TokenWish::all_of(pod) {
            let known = self.held().tokens.get(&wish).cloned();
            let token = match known {
                Some(token) if now() < token.refresh_at => token,
                known => match (request(client, pod, &wish, now()).await, known) {
                    (Ok(token), _) => token,
                    (Err(error), Some(old)) if now() < old.ends => {
                        tracing::warn!(%error, "failed to refresh a pod's token; the old one stays in use");
                        CachedToken { refresh_at: now() + RETRY, ..old }
                    }
                    (Err(error), _) => {
                        tokens.insert(wish, Err(error));
                        continue;
                    }
                },
            };
            tokens.insert(wish.clone(), Ok(token.text.clone()));
            self.held().tokens.insert(wish, token);
        }
        let mut held = self.held();
        held.tokens.retain(|wish, _| tokens.contains_key(wish));
        if tokens.values().all(Result::is_ok) {
            held.unknown_since = None;
        }
        tokens
    }

    fn held(&self) -> MutexGuard<'_, CachedTokens> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks for a token that is good as long as this very pod is.
async fn request(
    client: &Client,
    pod: &Pod,
    wish: &TokenWish,
    now: Tick,
) -> Result<CachedToken, NoToken> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let meta = &pod.metadata;
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
    let account = account.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned());
    let audiences = Some(wish.audience.clone()).filter(|audience| !audience.is_empty());
    let asked = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: audiences.map(|audience| vec![audience]),
            expiration_seconds: i64::try_from(wish.seconds).ok(),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: meta.name.clone(),
                uid: meta.uid.clone(),
            }),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &text(&meta.namespace));
    let answer: Result<TokenRequest, kube::Error> =
        accounts.create_subresource("token", &account, &PostParams::default(), &asked).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(kube::Error::Api(status)) => return Err(NoToken(status.message.clone())),
        Err(error) => return Err(NoToken(error.to_string())),
    };
    let given = answer.status.and_then(|status| status.token).unwrap_or_default();
    if given.is_empty() {
        return Err(NoToken("the API answered without a token".to_owned()));
    }
    // What the server made of the wish counts; the agent's own clock measures it.
    let seconds = answer.spec.and_then(|spec| spec.expiration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(wish.seconds);
    Ok(CachedToken::new(given, TickDuration::from_secs(seconds), now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_due_after_four_fifths_of_its_life_or_after_a_day() {
        let now = Tick::from_secs(1_000);
        for (life, due) in [(600, 480), (3_607, 2_884), (86_400, 69_120), (864_000, 86_400)] {
            let token = CachedToken::new(String::new(), TickDuration::from_secs(life), now);
            assert_eq!(token.refresh_at, now + TickDuration::from_secs(due), "{life}");
        }
    }
}
