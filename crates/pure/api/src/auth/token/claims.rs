//! What a token says. The names are upstream's (`pkg/serviceaccount/claims.go`), so that others can
//! read our tokens.

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
