//! Whether somebody who holds some rules may hand out others: nobody gives away more than they
//! have. Source: upstream's `component-helpers/auth/rbac/validation`.
//!
//! A rule means each of its verbs for each of its resources, groups and names: a product that
//! upstream writes out. Here no more of it is looked at than [`CHECKS_MAX`] allows, and nothing of
//! it when one held rule covers all of the wanted one.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;
use rekindle_kinds::validation::items;

use super::rule::ALL;

/// How often one request may ask whether one held rule covers something.
pub const CHECKS_MAX: usize = 500_000;

/// Rules whose products are too large to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "whether all of it is held would take more than {CHECKS_MAX} comparisons of verbs, API groups, resources and names; \
     use several roles with fewer of them"
)]
pub struct TooManyCombinations;

/// What of `wanted` is not in `held`, compacted: rules that differ in their verbs only are one.
///
/// # Errors
/// When that would take too many comparisons.
pub fn missing(
    held: &[PolicyRule],
    wanted: &[PolicyRule],
) -> Result<Vec<PolicyRule>, TooManyCombinations> {
    let held: Vec<OwnedRule<'_>> = held.iter().map(OwnedRule::new).collect();
    let mut checks = ComparisonBudget { left: CHECKS_MAX };
    let mut missing = Vec::new();
    for rule in wanted {
        let wanted = RuleToGrant::new(rule);
        checks.take(wanted.words().saturating_mul(held.len()))?;
        if held.iter().any(|held| held.covers_all(&wanted)) {
            continue;
        }
        for single in wanted.singles() {
            checks.take(1 + held.iter().map(|held| held.cost(&single)).sum::<usize>())?;
            if !held.iter().any(|held| held.covers(&single)) {
                missing.push(single);
            }
        }
    }
    Ok(compact(missing))
}

/// The comparisons that are left.
struct ComparisonBudget {
    left: usize,
}

impl ComparisonBudget {
    fn take(&mut self, checks: usize) -> Result<(), TooManyCombinations> {
        self.left = self.left.checked_sub(checks).ok_or(TooManyCombinations)?;
        Ok(())
    }
}

/// A rule as upstream's messages show it: `{APIGroups:["apps"], Resources:["deployments"],
/// Verbs:["get" "list"]}`.
pub fn describe(rule: &PolicyRule) -> String {
    let list = |name: &str, list: &[String]| {
        let quoted: Vec<String> = list.iter().map(|entry| format!("{entry:?}")).collect();
        (!list.is_empty()).then(|| format!("{name}:[{}]", quoted.join(" ")))
    };
    let parts = [
        list("APIGroups", items(rule.api_groups.as_ref())),
        list("Resources", items(rule.resources.as_ref())),
        list("NonResourceURLs", items(rule.non_resource_urls.as_ref())),
        list("ResourceNames", items(rule.resource_names.as_ref())),
        list("Verbs", &rule.verbs),
    ];
    format!("{{{}}}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// One verb for one thing.
#[derive(Clone, Copy, Debug)]
struct RequestedAccess<'a> {
    verb: &'a str,
    thing: AccessObject<'a>,
}

/// What a verb is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AccessObject<'a> {
    Path(&'a str),
    /// A resource, by one name or by any.
    Resource {
        group: &'a str,
        resource: &'a str,
        name: Option<&'a str>,
    },
}

/// A rule to be handed out: its words, each once, in its order.
struct RuleToGrant<'a> {
    verbs: Vec<&'a str>,
    groups: Vec<&'a str>,
    resources: Vec<&'a str>,
    names: Vec<&'a str>,
    paths: Vec<&'a str>,
}

impl<'a> RuleToGrant<'a> {
    fn new(rule: &'a PolicyRule) -> Self {
        let once = |list: &'a [String]| {
            let mut known = BTreeSet::new();
            list.iter().map(String::as_str).filter(|word| known.insert(*word)).collect()
        };
        Self {
            verbs: once(&rule.verbs),
            groups: once(items(rule.api_groups.as_ref())),
            resources: once(items(rule.resources.as_ref())),
            names: once(items(rule.resource_names.as_ref())),
            paths: once(items(rule.non_resource_urls.as_ref())),
        }
    }

    fn words(&self) -> usize {
        let Self { verbs, groups, resources, names, paths } = self;
        [verbs, groups, resources, names, paths].into_iter().map(Vec::len).sum()
    }

    /// The product, one by one.
    fn singles(&self) -> impl Iterator<Item = RequestedAccess<'a>> + '_ {
        self.verbs.iter().flat_map(move |verb| {
            let paths = self.paths.iter().map(|path| AccessObject::Path(path));
            let resources = self.groups.iter().flat_map(move |group| {
                self.resources.iter().flat_map(move |resource| self.named(group, resource))
            });
            paths.chain(resources).map(|thing| RequestedAccess { verb, thing })
        })
    }

    fn named(
        &self,
        group: &'a str,
        resource: &'a str,
    ) -> impl Iterator<Item = AccessObject<'a>> + '_ {
        let any = self.names.is_empty().then_some(None);
        let names = any.into_iter().chain(self.names.iter().copied().map(Some));
        names.map(move |name| AccessObject::Resource { group, resource, name })
    }
}

/// Words of a held rule, and whether a star among them means all.
struct RuleWords<'a> {
    all: bool,
    words: BTreeSet<&'a str>,
}

impl<'a> RuleWords<'a> {
    fn new(list: &'a [String]) -> Self {
        let words: BTreeSet<&str> = list.iter().map(String::as_str).collect();
        Self { all: words.contains(ALL), words }
    }

    fn has(&self, word: &str) -> bool {
        self.all || self.words.contains(word)
    }

    fn has_resource(&self, wanted: &str) -> bool {
        self.has(wanted)
            || wanted.split_once('/').is_some_and(|(_, subresource)| {
                self.words.contains(format!("*/{subresource}").as_str())
            })
    }
}

/// A rule that somebody has.
struct OwnedRule<'a> {
    verbs: RuleWords<'a>,
    groups: RuleWords<'a>,
    resources: RuleWords<'a>,
    names: BTreeSet<&'a str>,
    paths: BTreeSet<&'a str>,
    /// How paths begin that are held by a star at the end.
    path_starts: Vec<&'a str>,
}

impl<'a> OwnedRule<'a> {
    fn new(rule: &'a PolicyRule) -> Self {
        let paths = items(rule.non_resource_urls.as_ref());
        Self {
            verbs: RuleWords::new(&rule.verbs),
            groups: RuleWords::new(items(rule.api_groups.as_ref())),
            resources: RuleWords::new(items(rule.resources.as_ref())),
            names: items(rule.resource_names.as_ref()).iter().map(String::as_str).collect(),
            paths: paths.iter().map(String::as_str).collect(),
            path_starts: paths.iter().filter_map(|path| path.strip_suffix(ALL)).collect(),
        }
    }

    /// How many comparisons it takes at most to know whether it covers this.
    fn cost(&self, single: &RequestedAccess<'_>) -> usize {
        match single.thing {
            AccessObject::Path(_) => 1 + self.path_starts.len(),
            AccessObject::Resource { .. } => 1,
        }
    }

    fn covers(&self, single: &RequestedAccess<'_>) -> bool {
        self.verbs.has(single.verb)
            && match single.thing {
                AccessObject::Path(path) => self.has_path(path),
                AccessObject::Resource { group, resource, name } => {
                    (self.names.is_empty() || name.is_some_and(|name| self.names.contains(name)))
                        && self.groups.has(group)
                        && self.resources.has_resource(resource)
                }
            }
    }

    /// Whether it covers the whole product. A star at the end of a path is compared single by
    /// single only.
    fn covers_all(&self, wanted: &RuleToGrant<'_>) -> bool {
        let names_fit = self.names.is_empty()
            || (!wanted.names.is_empty()
                && wanted.names.iter().all(|name| self.names.contains(name)));
        names_fit
            && wanted.verbs.iter().all(|verb| self.verbs.has(verb))
            && wanted.groups.iter().all(|group| self.groups.has(group))
            && wanted.resources.iter().all(|resource| self.resources.has_resource(resource))
            && wanted.paths.iter().all(|path| self.paths.contains(path))
    }

    fn has_path(&self, path: &str) -> bool {
        self.paths.contains(path) || self.path_starts.iter().any(|start| path.starts_with(start))
    }
}

/// Singles as rules: those for the same thing are one.
fn compact(singles: Vec<RequestedAccess<'_>>) -> Vec<PolicyRule> {
    let mut verbs: BTreeMap<AccessObject<'_>, Vec<String>> = BTreeMap::new();
    for RequestedAccess { verb, thing } in singles {
        verbs.entry(thing).or_default().push(verb.to_owned());
    }
    let one = |word: &str| Some(vec![word.to_owned()]);
    let rule = |(thing, mut verbs): (AccessObject<'_>, Vec<String>)| {
        verbs.dedup();
        match thing {
            AccessObject::Path(path) => {
                PolicyRule { verbs, non_resource_urls: one(path), ..PolicyRule::default() }
            }
            AccessObject::Resource { group, resource, name } => PolicyRule {
                verbs,
                api_groups: one(group),
                resources: one(resource),
                resource_names: name.and_then(one),
                ..PolicyRule::default()
            },
        }
    };
    let mut all: Vec<PolicyRule> = verbs.into_iter().map(rule).collect();
    all.sort_by_cached_key(describe);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(
        verbs: &[&str],
        groups: &[&str],
        resources: &[&str],
        names: &[&str],
    ) -> PolicyRule {
        let list = |list: &[&str]| list.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
        PolicyRule {
            verbs: list(verbs),
            api_groups: Some(list(groups)),
            resources: Some(list(resources)),
            resource_names: Some(list(names)),
            non_resource_urls: None,
        }
    }

    fn missing_of(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<String> {
        missing(held, wanted).unwrap().iter().map(describe).collect()
    }

    #[test]
    fn what_is_held_may_be_given_and_the_rest_is_named() {
        let reader = resources(&["get", "list"], &[""], &["pods", "pods/log"], &[]);
        let everything = resources(&["*"], &["*"], &["*"], &[]);
        assert_eq!(
            missing_of(std::slice::from_ref(&everything), std::slice::from_ref(&reader)),
            [""; 0]
        );
        assert_eq!(
            missing_of(std::slice::from_ref(&reader), std::slice::from_ref(&reader)),
            [""; 0]
        );
        let more = resources(&["get", "delete", "list"], &[""], &["pods", "secrets"], &[]);
        assert_eq!(
            missing_of(std::slice::from_ref(&reader), &[more]),
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete" "list"]}"#,
            ]
        );
        // who holds one name holds not all of them, who holds all holds each
        let one = resources(&["get"], &[""], &["pods"], &["web"]);
        assert_eq!(missing_of(std::slice::from_ref(&reader), std::slice::from_ref(&one)), [""; 0]);
        assert_eq!(missing_of(&[one], &[resources(&["get"], &[""], &["pods"], &[])]).len(), 1);
        // a star must be held as a star
        assert_eq!(missing_of(&[reader], &[everything]).len(), 1);
        let scales = resources(&["get"], &["apps"], &["*/scale"], &[]);
        let scale = resources(&["get"], &["apps"], &["deployments/scale"], &[]);
        assert_eq!(missing_of(&[scales], &[scale]), [""; 0]);
    }

    #[test]
    fn paths_are_covered_by_their_beginnings() {
        let path = |path: &str| PolicyRule {
            verbs: vec!["get".to_owned()],
            non_resource_urls: Some(vec![path.to_owned()]),
            ..PolicyRule::default()
        };
        assert_eq!(missing_of(&[path("/metrics/*")], &[path("/metrics/x")]), [""; 0]);
        assert_eq!(missing_of(&[path("*")], &[path("/metrics/*")]), [""; 0]);
        assert_eq!(
            missing_of(&[path("/metrics")], &[path("/metrics/x")]),
            [r#"{NonResourceURLs:["/metrics/x"], Verbs:["get"]}"#]
        );
    }

    #[test]
    fn a_product_is_not_written_out_where_one_rule_covers_it_and_refused_where_it_is_too_large() {
        let words =
            |prefix: &str| -> Vec<String> { (0..2_000).map(|n| format!("{prefix}{n}")).collect() };
        let large = PolicyRule {
            verbs: words("v"),
            api_groups: Some(words("g")),
            resources: Some(words("r")),
            resource_names: Some(words("n")),
            non_resource_urls: None,
        };
        let everything = resources(&["*"], &["*"], &["*"], &[]);
        let wanted = std::slice::from_ref(&large);
        assert_eq!(missing(std::slice::from_ref(&everything), wanted), Ok(Vec::new()));
        assert_eq!(missing(std::slice::from_ref(&large), wanted), Ok(Vec::new()));
        let some = resources(&["v1"], &["g1"], &["r1"], &[]);
        assert_eq!(missing(&[some], wanted), Err(TooManyCombinations));
    }
}
