//! The options in a query string.

use super::path::{PROXY, PlusMeaning, ResourcePath, decode_percent};
use crate::decode::FieldValidation;
use crate::status::ApiError;

/// Every option that some verb knows. Options that a verb does not know are ignored, as upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// `watch`.
    pub watch: bool,
    /// `labelSelector`.
    pub label_selector: String,
    /// `fieldSelector`.
    pub field_selector: String,
    /// `resourceVersion`.
    pub resource_version: String,
    /// `resourceVersionMatch`; none, too, when it is a word that there is not.
    pub resource_version_match: Option<RevisionMatch>,
    /// `limit`; 0 and less is no limit.
    pub limit: Option<usize>,
    /// `continue`.
    pub continue_token: String,
    /// `allowWatchBookmarks`.
    pub allow_watch_bookmarks: bool,
    /// `sendInitialEvents`.
    pub send_initial_events: Option<bool>,
    /// `timeoutSeconds`.
    pub timeout_seconds: Option<u64>,
    /// `dryRun=All`.
    pub dry_run: DryRun,
    /// `fieldValidation`.
    pub field_validation: FieldValidation,
    /// `gracePeriodSeconds` of a delete.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy` of a delete.
    pub propagation_policy: Option<String>,
    /// `orphanDependents` of a delete.
    pub orphan_dependents: Option<bool>,
    /// `includeObject` of a table.
    pub include_object: String,
    /// All pairs, for subresources with options of their own (`log`).
    pub pairs: Vec<(String, String)>,
}

/// How `resourceVersion` of a list is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionMatch {
    /// Exactly at that revision.
    Exact,
    /// At that revision or a newer one.
    NotOlderThan,
}

/// Whether a write happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    /// It does.
    #[default]
    No,
    /// Everything but the write happens.
    All,
}

impl DryRun {
    /// What the values of `dryRun` ask for.
    pub fn of_values(values: &[impl AsRef<str>]) -> Self {
        if values.is_empty() { Self::No } else { Self::All }
    }
}

impl RequestOptions {
    /// Reads the query string of a request to this path. A pod that is asked through the API reads
    /// its query itself.
    pub fn of_path(path: &ResourcePath, query: &str) -> Self {
        match path.subresource.as_str() {
            PROXY => Self::default(),
            _ => Self::parse(query),
        }
    }

    /// Reads a query string. What is no number is refused by the verbs that know the option.
    pub fn parse(query: &str) -> Self {
        let mut options = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode_percent(name, PlusMeaning::IsBlank).into_owned();
            let value = decode_percent(value, PlusMeaning::IsBlank).into_owned();
            // of an option that is said twice the first counts, as upstream
            if options.get(&name).is_none() {
                options.set(&name, &value);
            }
            options.pairs.push((name, value));
        }
        options
    }

    fn set(&mut self, name: &str, value: &str) {
        match name {
            "watch" => self.watch = boolean(value),
            "labelSelector" => value.clone_into(&mut self.label_selector),
            "fieldSelector" => value.clone_into(&mut self.field_selector),
            "resourceVersion" => value.clone_into(&mut self.resource_version),
            "resourceVersionMatch" => self.resource_version_match = revision_match(value),
            LIMIT => self.limit = value.parse().ok().filter(|limit| *limit > 0),
            "continue" => value.clone_into(&mut self.continue_token),
            "allowWatchBookmarks" => self.allow_watch_bookmarks = boolean(value),
            "sendInitialEvents" => self.send_initial_events = Some(boolean(value)),
            TIMEOUT => self.timeout_seconds = value.parse().ok().filter(|seconds| *seconds > 0),
            "dryRun" => self.dry_run = DryRun::of_values(&[value]),
            "fieldValidation" => self.field_validation = field_validation(value),
            GRACE_PERIOD => self.grace_period_seconds = value.parse().ok(),
            "propagationPolicy" => self.propagation_policy = Some(value.to_owned()),
            "orphanDependents" => self.orphan_dependents = Some(boolean(value)),
            "includeObject" => value.clone_into(&mut self.include_object),
            // Upstream ignores what it does not know as well.
            _ => {}
        }
    }

    /// Whether the limit counts for nothing: a list from memory, which is as old as it may be, has
    /// one page only.
    pub fn has_one_page(&self) -> bool {
        self.resource_version == "0" && self.continue_token.is_empty()
    }

    /// The first value given for an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// An option that is a truth value; upstream reads everything but `0` and `false` as true.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(boolean)
    }

    /// An option that is a number.
    pub fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        self.get(name).map(|value| number(name, value)).transpose()
    }
}

/// Objects of one page, of lists.
pub(super) const LIMIT: &str = "limit";
/// How long a list or watch may take.
pub(super) const TIMEOUT: &str = "timeoutSeconds";
/// The time that a deletion leaves the object.
pub(crate) const GRACE_PERIOD: &str = "gracePeriodSeconds";

/// As upstream converts query parameters: present means true, unless it says `0` or `false`.
fn boolean(value: &str) -> bool {
    !matches!(value, "0" | "false" | "False" | "FALSE")
}

/// A value that is there and empty is no number either, as upstream.
fn number(name: &str, value: &str) -> Result<i64, ApiError> {
    value.parse().map_err(|_| {
        ApiError::bad_request(format!("invalid value for {name}: {value:?} is not a whole number"))
    })
}

const EXACT: &str = "Exact";
const NOT_OLDER_THAN: &str = "NotOlderThan";

fn revision_match(value: &str) -> Option<RevisionMatch> {
    match value {
        EXACT => Some(RevisionMatch::Exact),
        NOT_OLDER_THAN => Some(RevisionMatch::NotOlderThan),
        _ => None,
    }
}

fn field_validation(value: &str) -> FieldValidation {
    match value {
        "Strict" => FieldValidation::Strict,
        "Ignore" => FieldValidation::Ignore,
        _ => FieldValidation::Warn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestVerb;

    #[test]
    fn options_are_read_as_upstream_reads_them() {
        let options = RequestOptions::parse(
            "watch&limit=500&labelSelector=a%3Db%2Cc&dryRun=All&fieldValidation=Strict&timeoutSeconds=30&unknown=1",
        );
        assert!(options.watch);
        assert_eq!(options.limit, Some(500));
        assert_eq!(options.label_selector, "a=b,c");
        assert_eq!(options.dry_run, DryRun::All);
        assert_eq!(options.field_validation, FieldValidation::Strict);
        assert_eq!(options.timeout_seconds, Some(30));
        assert_eq!(options.get("unknown"), Some("1"));
        let off = RequestOptions::parse("watch=false&limit=0&timeoutSeconds=0");
        assert!(!off.watch);
        assert_eq!((off.limit, off.timeout_seconds), (None, None));
    }

    #[test]
    fn a_number_that_is_none_is_refused_by_name() {
        for name in ["limit", "timeoutSeconds", "gracePeriodSeconds"] {
            for value in ["x", "1.5", ""] {
                let options = RequestOptions::parse(&format!("{name}={value}"));
                assert_eq!(
                    options.number(name).unwrap_err().to_string(),
                    format!("invalid value for {name}: {value:?} is not a whole number")
                );
                let refuses = |verb| options.check(verb).is_err();
                assert_eq!(refuses(RequestVerb::List), name != GRACE_PERIOD, "{name}");
                assert!(!refuses(RequestVerb::Get), "{name}");
            }
        }
    }

    #[test]
    fn of_an_option_that_is_said_twice_the_first_counts() {
        let options = RequestOptions::parse("labelSelector=a&labelSelector=b");
        assert_eq!(
            (options.label_selector.as_str(), options.get("labelSelector")),
            ("a", Some("a"))
        );
    }
}
