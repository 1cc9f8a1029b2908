//! Tokens of service accounts, with what is stored: issued for an account, and good as long as that
//! account, and the pod, secret or node that they were made for, are there. Nothing is written: a
//! token is known by its signature.
//!
//! Behaviour: upstream's `pkg/registry/core/serviceaccount/storage/token.go` and
//! `pkg/serviceaccount`.

use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::core::v1::Secret;
use rekindle_kinds::identity::{ClientIdentity, UserInfo, service_account};
use rekindle_kinds::secret::TOKEN;
use rekindle_kinds::validation::ListKeys;
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

use crate::auth::token::{
    self, BoundObject, KubernetesClaims, SecretTokenClaims, SignedClaims, TokenClaims, TokenError,
    TokenKeys,
};
use crate::outcome::ApiAnswer;
use crate::status::ApiError;
use crate::stored::StoredState;

/// Who issues, and the audience that a token has unless another is asked for: the name that kubeadm
/// gives to clusters.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How long a token is good after the deletion of what it was made for has become due, as upstream.
const LEEWAY: TickDuration = TickDuration::from_secs(60);

/// Issues and knows tokens, once it has keys.
#[derive(Default)]
pub(crate) struct TokenIssuer {
    keys: RwLock<Option<Arc<TokenKeys>>>,
}

/// A token as it is known.
pub(crate) struct VerifiedToken {
    pub(crate) user: UserInfo,
    /// Those of the audiences asked for that it is good for.
    pub(crate) audiences: Vec<String>,
}

/// Why a token is not good.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenRefusal {
    /// It is none of ours.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// This API issues none.
    #[error("this server issues no tokens")]
    NoKey,
    /// It was issued by another.
    #[error("the token has another issuer")]
    Issuer,
    /// It is over, or has not begun.
    #[error("token has expired or is not valid yet")]
    Time,
    /// It is for others.
    #[error("token audiences {0:?} is invalid for the target audiences {1:?}")]
    Audience(Vec<String>, Vec<String>),
    /// What it was made for is no more.
    #[error("{0} {1:?} of the token is no more")]
    Gone(&'static str, String),
}

/// What a token is to say.
pub(crate) struct TokenSpec {
    pub(crate) audiences: Vec<String>,
    pub(crate) lifetime: TickDuration,
    pub(crate) private: KubernetesClaims,
}

impl TokenIssuer {
    pub(crate) fn set_keys(&self, keys: TokenKeys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
    }

    fn keys(&self) -> Option<Arc<TokenKeys>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether anybody can get one.
    pub(crate) fn are_issued(&self) -> bool {
        self.keys().is_some()
    }

    /// A new token, and when it ends.
    pub(crate) fn issue(
        &self,
        wish: TokenSpec,
        id: String,
        now: Tick,
    ) -> Result<(String, Tick), ApiError> {
        let keys =
            self.keys().ok_or_else(|| ApiError::unavailable(TokenRefusal::NoKey.to_string()))?;
        let seconds = seconds_of(now);
        let ends = Tick::from_secs(seconds) + wish.lifetime;
        let KubernetesClaims { namespace, serviceaccount, .. } = &wish.private;
        let claims = TokenClaims {
            aud: wish.audiences,
            exp: seconds_of(ends),
            iat: seconds,
            iss: ISSUER.to_owned(),
            jti: id,
            nbf: seconds,
            sub: service_account::user_name(namespace, &serviceaccount.name),
            private: wish.private,
        };
        let token = token::sign(keys.signing(), &claims).map_err(ApiError::internal)?;
        Ok((token, ends))
    }

    /// The token of a Secret.
    pub(crate) fn issue_for_secret(&self, claims: &SecretTokenClaims) -> Result<String, ApiError> {
        let keys =
            self.keys().ok_or_else(|| ApiError::unavailable(TokenRefusal::NoKey.to_string()))?;
        token::sign(keys.signing(), claims).map_err(ApiError::internal)
    }

    /// Who shows this token to us.
    pub(crate) fn authenticate(
        &self,
        state: StoredState<'_>,
        token: &str,
        now: Tick,
    ) -> Result<ClientIdentity, ApiError> {
        match self.review(state, token, &[], now) {
            Ok(known) => Ok(ClientIdentity::User(known.user)),
            Err(_) => Err(ApiError::unauthorized()),
        }
    }

    /// Whose token it is, if it is good for one of these audiences; none means us.
    pub(crate) fn review(
        &self,
        state: StoredState<'_>,
        token: &str,
        audiences: &[String],
        now: Tick,
    ) -> Result<VerifiedToken, TokenRefusal> {
        let claims = match self.keys().ok_or(TokenRefusal::NoKey)?.verify(token)? {
            SignedClaims::Requested(claims) => claims,
            SignedClaims::OfSecret(claims) => {
                let audiences = fitting_audiences(&[ISSUER.to_owned()], audiences)?;
                check_secret(state, &claims, token)?;
                return Ok(VerifiedToken { user: owner_of_secret(claims), audiences });
            }
        };
        if claims.iss != ISSUER {
            return Err(TokenRefusal::Issuer);
        }
        let seconds = seconds_of(now);
        if claims.exp <= seconds || claims.nbf > seconds.saturating_add(LEEWAY.as_secs()) {
            return Err(TokenRefusal::Time);
        }
        let fitting = fitting_audiences(&claims.aud, audiences)?;
        check_bound(state, &claims.private, now)?;
        Ok(VerifiedToken { user: user(claims), audiences: fitting })
    }

    /// `/.well-known/openid-configuration`.
    pub(crate) fn configuration(&self) -> Result<ApiAnswer, ApiError> {
        let keys = self.keys().ok_or_else(ApiError::no_such_path)?;
        let document = json!({
            "issuer": ISSUER,
            "jwks_uri": format!("{ISSUER}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [token::jwk(keys.signing()).algorithm],
        });
        Ok(ApiAnswer::json(http::StatusCode::OK, document.to_string()))
    }

    /// `/openid/v1/jwks`.
    pub(crate) fn key_set(&self) -> Result<ApiAnswer, ApiError> {
        let keys = self.keys().ok_or_else(ApiError::no_such_path)?;
        let keys: Vec<Value> = keys.all().map(token::jwk).map(|key| json!({
            "use": "sig", "kty": "EC", "kid": key.key_id, "crv": "P-256", "alg": key.algorithm, "x": key.x, "y": key.y,
        })).collect();
        let document = json!({"keys": keys});
        let answer = ApiAnswer::json(http::StatusCode::OK, document.to_string());
        Ok(ApiAnswer { content_type: "application/jwk-set+json", ..answer })
    }
}

/// Those of the audiences asked for that a token is good for; none means us.
fn fitting_audiences(given: &[String], asked: &[String]) -> Result<Vec<String>, TokenRefusal> {
    let us = [ISSUER.to_owned()];
    let asked = if asked.is_empty() { &us[..] } else { asked };
    let known: ListKeys<&String> = given.iter().collect();
    let fitting: Vec<String> =
        asked.iter().filter(|audience| known.has(audience)).cloned().collect();
    if fitting.is_empty() {
        return Err(TokenRefusal::Audience(given.to_vec(), asked.to_vec()));
    }
    Ok(fitting)
}

/// The Secret is there with this very token, and so is its account, under the same UID.
fn check_secret(
    state: StoredState<'_>,
    claims: &SecretTokenClaims,
    token: &str,
) -> Result<(), TokenRefusal> {
    let gone = |what, name: &str| TokenRefusal::Gone(what, name.to_owned());
    let secret = state.object_of::<Secret>("secrets", &claims.namespace, &claims.secret);
    let secret = secret.filter(|secret| secret.metadata.deletion_timestamp.is_none());
    let secret = secret.ok_or_else(|| gone("secret", &claims.secret))?;
    let held = secret.data.as_ref().and_then(|data| data.get(TOKEN));
    if held.is_none_or(|held| held.0 != token.as_bytes()) {
        return Err(gone("secret", &claims.secret));
    }
    let account = state.meta_of("serviceaccounts", &claims.namespace, &claims.account);
    let same = account.is_some_and(|meta| {
        meta.uid.as_ref() == Some(&claims.account_uid) && meta.deletion_timestamp.is_none()
    });
    if same { Ok(()) } else { Err(gone("service account", &claims.account)) }
}

fn owner_of_secret(claims: SecretTokenClaims) -> UserInfo {
    let user = service_account::user(&claims.namespace, &claims.account);
    UserInfo { uid: Some(claims.account_uid), ..user }
}

/// Everything that the token was made for is there, under the same UID, and not over.
fn check_bound(
    state: StoredState<'_>,
    private: &KubernetesClaims,
    now: Tick,
) -> Result<(), TokenRefusal> {
    let namespace = private.namespace.as_str();
    let account = ("serviceaccounts", "service account", namespace, Some(&private.serviceaccount));
    // A pod's token says on which node it runs; only one that was made for the node alone depends
    // on the node.
    let node = private.node.as_ref().filter(|_| private.pod.is_none());
    let all = [
        account,
        ("pods", "pod", namespace, private.pod.as_ref()),
        ("secrets", "secret", namespace, private.secret.as_ref()),
        ("nodes", "node", "", node),
    ];
    for (plural, what, namespace, bound) in all {
        let Some(bound) = bound else { continue };
        let gone = || TokenRefusal::Gone(what, bound.name.clone());
        let meta = state.meta_of(plural, namespace, &bound.name).ok_or_else(gone)?;
        let same = meta.uid.as_deref().unwrap_or_default() == bound.uid;
        let deleted = meta.deletion_timestamp.as_ref();
        if !same || deleted.is_some_and(|due| Tick::from(due) + LEEWAY < now) {
            return Err(gone());
        }
    }
    Ok(())
}

/// Whole seconds since 1970, as tokens count.
fn seconds_of(time: Tick) -> u64 {
    time.since(Tick::ZERO).as_secs()
}

fn user(claims: TokenClaims) -> UserInfo {
    let KubernetesClaims { namespace, node, pod, secret: _, serviceaccount } = claims.private;
    let mut user = service_account::user(&namespace, &serviceaccount.name);
    user.uid = Some(serviceaccount.uid);
    let mut say = |field: &str, value: String| {
        user.extra.insert(format!("authentication.kubernetes.io/{field}"), vec![value]);
    };
    say("credential-id", format!("JTI={}", claims.jti));
    for (kind, bound) in [("pod", pod), ("node", node)] {
        let Some(BoundObject { name, uid }) = bound else { continue };
        say(&format!("{kind}-name"), name);
        say(&format!("{kind}-uid"), uid);
    }
    user
}
