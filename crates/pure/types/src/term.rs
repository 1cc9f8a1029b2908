//! The term of a leader: what a write of a leader carries, so that an API can tell it from the
//! writes of a leader that was deposed.
//!
//! A term is one acquisition of a Lease: its UID (a Lease that is deleted and made again begins its
//! count anew) and its `leaseTransitions`, which each acquisition raises.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::coordination::v1::Lease;

/// The option of a request that names the term it is made in. An API that does not know it ignores
/// it, as Kubernetes does with every option it does not know.
pub const LEADER_TERM: &str = "leaderTerm";

/// The reason of the cause in an API's refusal of a write whose term is over.
pub const TERM_OVER: &str = "LeaderTermOver";

/// One acquisition of a Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// The Lease's namespace.
    pub namespace: String,
    /// Its name.
    pub lease: String,
    /// Its UID.
    pub uid: String,
    /// Its `leaseTransitions`.
    pub transitions: i32,
}

/// A text that names no term.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no term: it should be namespace/lease/uid/transitions")]
pub struct TermError(String);

impl Term {
    /// The term that this Lease is in; none when it has no name or no UID.
    pub fn from_lease(lease: &Lease) -> Option<Self> {
        let meta = &lease.metadata;
        Some(Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            lease: meta.name.clone()?,
            uid: meta.uid.clone()?,
            transitions: transitions(lease),
        })
    }
}

/// How often the Lease has been acquired.
pub fn transitions(lease: &Lease) -> i32 {
    lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0)
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, lease, uid, transitions } = self;
        write!(f, "{namespace}/{lease}/{uid}/{transitions}")
    }
}

impl FromStr for Term {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, TermError> {
        let wrong = || TermError(text.to_owned());
        let parts: Vec<&str> = text.split('/').collect();
        let [namespace, lease, uid, transitions] = parts[..] else { return Err(wrong()) };
        if [namespace, lease, uid].iter().any(|part| part.is_empty()) {
            return Err(wrong());
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            lease: lease.to_owned(),
            uid: uid.to_owned(),
            transitions: transitions.parse().map_err(|_| wrong())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_read_as_it_is_written_and_nothing_else_is_one() {
        let term: Term = "kube-system/leader/6f1c-22/7".parse().expect("a term");
        assert_eq!(term.transitions, 7);
        assert_eq!(term.to_string(), "kube-system/leader/6f1c-22/7");
        for wrong in ["", "a/b/c", "a/b/c/d", "a/b/c/1/2", "a//c/1", "a/b/c/99999999999"] {
            assert_eq!(wrong.parse::<Term>(), Err(TermError(wrong.to_owned())));
        }
    }
}
