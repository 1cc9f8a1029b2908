//! What a token says. The names are upstream's (`pkg/serviceaccount/claims.go`), so that others can
//! read our tokens.

use rekindle_kinds::identity::service_account;
use serde::{Deserialize, Serialize};

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenClaims {
    /// For whom it is.
    pub aud: Vec<String>,
    /// When it ends, in seconds since 1970.
    pub exp: u64,
    /// When it was issued.
    pub iat: u64,
    /// By whom.
    pub iss: String,
    /// Its own name, unique.
    pub jti: String,
    /// What only Kubernetes knows.
    #[serde(rename = "kubernetes.io")]
    pub private: KubernetesClaims,
    /// From when on it is good.
    pub nbf: u64,
    /// The user.
    pub sub: String,
}

/// What only Kubernetes knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesClaims {
    /// The namespace of the account and of the pod or secret.
    pub namespace: String,
    /// The node on which the pod runs, or for which the token is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<BoundObject>,
    /// The pod for which it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<BoundObject>,
    /// The secret for which it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<BoundObject>,
    /// The account.
    pub serviceaccount: BoundObject,
}

/// An object without which the token is worth nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundObject {
    /// Its name.
    pub name: String,
    /// Its UID.
    #[serde(default)]
    pub uid: String,
}

/// Who has issued the tokens of Secrets.
const SECRET_ISSUER: &str = "kubernetes/serviceaccount";

/// What the token of a Secret says. It ends with the Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretTokenClaims {
    iss: String,
    /// The namespace of account and Secret.
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub namespace: String,
    /// The Secret.
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub secret: String,
    /// The account.
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub account: String,
    /// Its UID.
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub account_uid: String,
    sub: String,
}

impl SecretTokenClaims {
    /// Those of a Secret.
    pub fn new(namespace: &str, secret: &str, account: &str, account_uid: &str) -> Self {
        Self {
            iss: SECRET_ISSUER.to_owned(),
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            account: account.to_owned(),
            account_uid: account_uid.to_owned(),
            sub: service_account::user_name(namespace, account),
        }
    }
}

/// What a token says that one of our keys has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedClaims {
    /// It was asked for, and ends.
    Requested(TokenClaims),
    /// It lies in a Secret.
    OfSecret(SecretTokenClaims),
}

impl SignedClaims {
    pub(super) fn read(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Issued {
            iss: String,
        }
        let Issued { iss } = serde_json::from_slice(json)?;
        if iss == SECRET_ISSUER {
            return serde_json::from_slice(json).map(Self::OfSecret);
        }
        serde_json::from_slice(json).map(Self::Requested)
    }
}
