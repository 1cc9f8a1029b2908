//! The policy of a namespace: a level and a version for each of the three modes, from its labels.
//!
//! Source: KEP-2579 and upstream's `pod-security-admission/api`.

use std::collections::BTreeMap;
use std::fmt;

use rekindle_kinds::validation::Path;
use rekindle_types::validation::field_error::FieldError;

/// What the labels begin with.
const PREFIX: &str = "pod-security.kubernetes.io/";

/// How much a pod may ask for, from everything to least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PolicyLevel {
    /// Everything.
    Privileged,
    /// Nothing that is known to lead to the node.
    Baseline,
    /// Only what hardened pods need.
    Restricted,
}

impl PolicyLevel {
    /// The level of this name.
    pub(super) fn parse(name: &str) -> Result<Self, &'static str> {
        match name {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }

    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// The Kubernetes release that the rules are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PolicyVersion {
    /// `v1.N`.
    Minor(u64),
    /// The newest rules that this server knows.
    Latest,
}

impl PolicyVersion {
    /// The version of this name.
    pub(super) fn parse(name: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "must be \"latest\" or \"v1.x\"";
        if name == "latest" {
            return Ok(Self::Latest);
        }
        let digits = name.strip_prefix("v1.").ok_or(WRONG)?;
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'));
        match digits.parse() {
            Ok(minor) if is_plain => Ok(Self::Minor(minor)),
            Ok(_) | Err(_) => Err(WRONG),
        }
    }
}

impl fmt::Display for PolicyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minor(minor) => write!(f, "v1.{minor}"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

/// A level at a version: `restricted:v1.25`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelAtVersion {
    /// The level.
    pub(crate) level: PolicyLevel,
    /// The version.
    pub(crate) version: PolicyVersion,
}

impl LevelAtVersion {
    /// Everything is allowed.
    pub(super) const PRIVILEGED: Self =
        Self { level: PolicyLevel::Privileged, version: PolicyVersion::Latest };

    /// Whether everything is allowed.
    pub(super) fn is_privileged(self) -> bool {
        self.level == PolicyLevel::Privileged
    }

    /// Whether both allow the same: all versions of `privileged` do.
    fn is_equivalent(self, other: Self) -> bool {
        self == other || (self.is_privileged() && other.is_privileged())
    }
}

impl fmt::Display for LevelAtVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

/// What a violation leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyMode {
    /// The pod is refused.
    Enforce,
    /// The violation is counted.
    Audit,
    /// The client is warned.
    Warn,
}

impl PolicyMode {
    /// In upstream's order.
    pub(super) const ALL: [Self; 3] = [Self::Enforce, Self::Audit, Self::Warn];

    /// Its name in labels and metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Audit => "audit",
            Self::Warn => "warn",
        }
    }
}

/// The three modes of one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespacePolicy {
    /// What pods are refused by.
    pub(crate) enforce: LevelAtVersion,
    /// What violations are counted by.
    pub(crate) audit: LevelAtVersion,
    /// What clients are warned by.
    pub(crate) warn: LevelAtVersion,
}

impl NamespacePolicy {
    /// Everything is allowed.
    pub(crate) const PRIVILEGED: Self = Self {
        enforce: LevelAtVersion::PRIVILEGED,
        audit: LevelAtVersion::PRIVILEGED,
        warn: LevelAtVersion::PRIVILEGED,
    };

    /// Whether no mode asks for anything.
    pub(super) fn is_privileged(&self) -> bool {
        PolicyMode::ALL.into_iter().all(|mode| self.of_mode(mode).is_privileged())
    }

    /// Whether every mode allows the same in both.
    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        let same = |mode| self.of_mode(mode).is_equivalent(other.of_mode(mode));
        PolicyMode::ALL.into_iter().all(same)
    }

    /// What one mode asks for.
    pub(super) const fn of_mode(&self, mode: PolicyMode) -> LevelAtVersion {
        match mode {
            PolicyMode::Enforce => self.enforce,
            PolicyMode::Audit => self.audit,
            PolicyMode::Warn => self.warn,
        }
    }

    fn of_mode_mut(&mut self, mode: PolicyMode) -> &mut LevelAtVersion {
        match mode {
            PolicyMode::Enforce => &mut self.enforce,
            PolicyMode::Audit => &mut self.audit,
            PolicyMode::Warn => &mut self.warn,
        }
    }

    /// Reads the labels of a namespace, and returns the errors in them. `defaults` fill what the
    /// labels leave out. An invalid level enforces `restricted`, and turns off warnings and audit;
    /// an invalid version is the latest.
    ///
    /// A namespace without a label for warnings warns of what it enforces: the pods of a workload
    /// are refused later, when the user does not see it.
    pub(crate) fn from_labels(
        labels: Option<&BTreeMap<String, String>>,
        defaults: &Self,
    ) -> (Self, Vec<FieldError>) {
        let mut policy = *defaults;
        let mut errors = Vec::new();
        let Some(labels) = labels.filter(|labels| labels.keys().any(|key| is_label(key))) else {
            return (policy, errors);
        };
        for mode in PolicyMode::ALL {
            let asked = policy.of_mode_mut(mode);
            if let Some(level) = labels.get(&level_label(mode)) {
                asked.level = PolicyLevel::parse(level).unwrap_or_else(|why| {
                    errors.push(wrong_label(&level_label(mode), level, why));
                    match mode {
                        PolicyMode::Enforce => PolicyLevel::Restricted,
                        PolicyMode::Audit | PolicyMode::Warn => PolicyLevel::Privileged,
                    }
                });
            }
            if let Some(version) = labels.get(&version_label(mode)) {
                asked.version = PolicyVersion::parse(version).unwrap_or_else(|why| {
                    errors.push(wrong_label(&version_label(mode), version, why));
                    PolicyVersion::Latest
                });
            }
        }
        let enforces = labels.get(&level_label(PolicyMode::Enforce));
        let enforces = enforces.is_some_and(|level| PolicyLevel::parse(level).is_ok());
        let warns = labels.contains_key(&level_label(PolicyMode::Warn));
        if enforces && !warns && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if !labels.contains_key(&version_label(PolicyMode::Warn)) {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }
}

/// Whether a label is about the security of pods.
fn is_label(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// The label with the level of a mode.
pub(super) fn level_label(mode: PolicyMode) -> String {
    format!("{PREFIX}{}", mode.name())
}

/// The label with the version of a mode.
pub(super) fn version_label(mode: PolicyMode) -> String {
    format!("{PREFIX}{}-version", mode.name())
}

fn wrong_label(label: &str, value: &str, why: &str) -> FieldError {
    FieldError::invalid(Path::new("metadata").child("labels").key(label), value, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(given: &[(&str, &str)]) -> BTreeMap<String, String> {
        given.iter().map(|(key, value)| (format!("{PREFIX}{key}"), (*value).to_owned())).collect()
    }

    /// The policy as text, and the errors.
    fn read(given: &[(&str, &str)]) -> (String, Vec<String>) {
        let (policy, errors) =
            NamespacePolicy::from_labels(Some(&labels(given)), &NamespacePolicy::PRIVILEGED);
        let text = PolicyMode::ALL.map(|mode| policy.of_mode(mode).to_string()).join(" ");
        (text, errors.iter().map(|error| format!("{}: {}", error.field, error.body())).collect())
    }

    /// Upstream: `PolicyToEvaluate`.
    #[test]
    fn labels_say_level_and_version_of_each_mode() {
        let none = "privileged:latest privileged:latest privileged:latest";
        for (given, expected) in [
            (&[][..], none),
            (&[("enforce-of", "restricted")], none),
            (&[("enforce", "baseline")], "baseline:latest privileged:latest baseline:latest"),
            (
                &[("enforce", "restricted"), ("enforce-version", "v1.25")],
                "restricted:v1.25 privileged:latest restricted:v1.25",
            ),
            (
                &[
                    ("enforce", "restricted"),
                    ("enforce-version", "v1.25"),
                    ("warn-version", "v1.0"),
                ],
                "restricted:v1.25 privileged:latest restricted:v1.0",
            ),
            (
                &[("enforce", "restricted"), ("warn", "privileged")],
                "restricted:latest privileged:latest privileged:latest",
            ),
            (
                &[("enforce", "baseline"), ("warn", "restricted")],
                "baseline:latest privileged:latest restricted:latest",
            ),
            (
                &[("audit", "restricted"), ("audit-version", "v1.9")],
                "privileged:latest restricted:v1.9 privileged:latest",
            ),
        ] {
            assert_eq!(read(given), (expected.to_owned(), vec![]), "{given:?}");
        }
    }

    /// Upstream: `ParseLevel`, `ParseVersion`. An unreadable label must not open a namespace.
    #[test]
    fn a_label_that_cannot_be_read_is_named_and_enforces_the_strictest() {
        let level = "must be one of privileged, baseline, restricted";
        let version = "must be \"latest\" or \"v1.x\"";
        for (key, value, policy, why) in [
            (
                "enforce",
                "Restricted",
                "restricted:latest privileged:latest privileged:latest",
                level,
            ),
            ("enforce", "", "restricted:latest privileged:latest privileged:latest", level),
            ("audit", "x", "privileged:latest privileged:latest privileged:latest", level),
            ("warn", "x", "privileged:latest privileged:latest privileged:latest", level),
            (
                "enforce-version",
                "1.25",
                "privileged:latest privileged:latest privileged:latest",
                version,
            ),
            (
                "enforce-version",
                "v1.025",
                "privileged:latest privileged:latest privileged:latest",
                version,
            ),
            (
                "enforce-version",
                "v1.",
                "privileged:latest privileged:latest privileged:latest",
                version,
            ),
            (
                "enforce-version",
                "v1.+5",
                "privileged:latest privileged:latest privileged:latest",
                version,
            ),
            (
                "enforce-version",
                "v2.0",
                "privileged:latest privileged:latest privileged:latest",
                version,
            ),
            (
                "enforce-version",
                "v1.99999999999999999999",
                "privileged:latest privileged:latest privileged:latest",
                version,
            ),
        ] {
            let expected = format!(
                "metadata.labels[pod-security.kubernetes.io/{key}]: Invalid value: {value:?}: {why}"
            );
            assert_eq!(read(&[(key, value)]), (policy.to_owned(), vec![expected]), "{key}={value}");
        }
        assert_eq!(PolicyVersion::parse("v1.0"), Ok(PolicyVersion::Minor(0)));
        assert_eq!(PolicyVersion::parse("v1.120"), Ok(PolicyVersion::Minor(120)));
    }

    #[test]
    fn the_latest_version_is_newer_than_every_number() {
        assert!(PolicyVersion::Latest > PolicyVersion::Minor(u64::MAX));
        assert!(PolicyLevel::Restricted > PolicyLevel::Baseline);
        assert!(PolicyLevel::Baseline > PolicyLevel::Privileged);
    }
}
