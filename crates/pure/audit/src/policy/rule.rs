//! A rule: the requests that it is for, and what it says about them.

use rekindle_types::null_as_default;

use super::AuditDecision;

/// A rule. Empty lists match everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuditRule {
    pub(super) decision: AuditDecision,
    pub(super) users: Vec<String>,
    pub(super) user_groups: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) target: RuleTarget,
}

/// What requests have to be about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RuleTarget {
    /// Anything.
    Any,
    /// Resources.
    Resources {
        /// Empty for all; the empty namespace is that of what has none.
        namespaces: Vec<String>,
        /// Empty for all.
        resources: Vec<GroupResources>,
    },
    /// Paths that are no resources.
    Paths(Vec<String>),
}

/// Resources of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct GroupResources {
    /// Empty for the core group.
    #[serde(deserialize_with = "null_as_default")]
    pub(super) group: String,
    /// `pods`, `pods/log`, `pods/*`, `*/scale` or `*`; empty for all.
    #[serde(deserialize_with = "null_as_default")]
    pub(super) resources: Vec<String>,
    /// Empty for all.
    #[serde(deserialize_with = "null_as_default")]
    pub(super) resource_names: Vec<String>,
}
