//! What a token says. The names are upstream's (`pkg/serviceaccount/claims.go`), so that others can
//! read our tokens.

use serde::{Deserialize, Serialize};

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
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
    pub private: Private,
    /// From when on it is good.
    pub nbf: u64,
    /// The user.
    pub sub: String,
}

/// What only Kubernetes knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Private {
    /// The namespace of the account and of the pod or secret.
    pub namespace: String,
    /// The node on which the pod runs, or for which the token is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Bound>,
    /// The pod for which it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Bound>,
    /// The secret for which it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Bound>,
    /// The account.
    pub serviceaccount: Bound,
}

/// An object without which the token is worth nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Its name.
    pub name: String,
    /// Its UID.
    #[serde(default)]
    pub uid: String,
}
