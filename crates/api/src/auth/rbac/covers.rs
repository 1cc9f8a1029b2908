//! Whether somebody who holds some rules may hand out others: nobody gives away more than they have. Source: upstream's
//! `component-helpers/auth/rbac/validation`.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::rule::ALL;
use crate::validation::items;

/// What of `wanted` is not in `held`, compacted: rules that differ in their verbs only are one.
pub fn missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let missing = wanted.iter().flat_map(single);
    compact(missing.filter(|rule| !held.iter().any(|held| covers(held, rule))))
}

/// A rule as upstream's messages show it: `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}`.
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

/// The rule as rules of one verb, group, resource, name or path each.
fn single(rule: &PolicyRule) -> Vec<PolicyRule> {
    let one = |entry: &String| Some(vec![entry.clone()]);
    let mut all = Vec::new();
    for verb in &rule.verbs {
        let verbs = vec![verb.clone()];
        for path in items(rule.non_resource_urls.as_ref()) {
            let non_resource_urls = one(path);
            all.push(PolicyRule { verbs: verbs.clone(), non_resource_urls, ..Default::default() });
        }
        for group in items(rule.api_groups.as_ref()) {
            for resource in items(rule.resources.as_ref()) {
                let plain = PolicyRule {
                    verbs: verbs.clone(),
                    api_groups: one(group),
                    resources: one(resource),
                    ..Default::default()
                };
                let names = items(rule.resource_names.as_ref());
                if names.is_empty() {
                    all.push(plain);
                    continue;
                }
                let named = names
                    .iter()
                    .map(|name| PolicyRule { resource_names: one(name), ..plain.clone() });
                all.extend(named);
            }
        }
    }
    all
}

/// Whether a rule allows everything that a single one does.
fn covers(held: &PolicyRule, single: &PolicyRule) -> bool {
    let has = |list: &[String], wanted: Option<&Vec<String>>| {
        list.iter().any(|known| known == ALL)
            || items(wanted).iter().all(|entry| list.contains(entry))
    };
    if !has(&held.verbs, Some(&single.verbs)) {
        return false;
    }
    let paths = items(single.non_resource_urls.as_ref());
    if !paths.is_empty() {
        let known = items(held.non_resource_urls.as_ref());
        return paths.iter().all(|path| {
            known.iter().any(|known| {
                known == path
                    || known.strip_suffix(ALL).is_some_and(|start| path.starts_with(start))
            })
        });
    }
    let resource_names = items(held.resource_names.as_ref());
    let wanted_names = items(single.resource_names.as_ref());
    let names_fit = resource_names.is_empty()
        || (!wanted_names.is_empty()
            && wanted_names.iter().all(|name| resource_names.contains(name)));
    names_fit
        && has(items(held.api_groups.as_ref()), single.api_groups.as_ref())
        && items(single.resources.as_ref())
            .iter()
            .all(|resource| has_resource(items(held.resources.as_ref()), resource))
}

fn has_resource(list: &[String], wanted: &String) -> bool {
    list.iter().any(|known| known == ALL || known == wanted)
        || wanted.split_once('/').is_some_and(|(_, subresource)| {
            list.iter().any(|known| known.strip_prefix("*/") == Some(subresource))
        })
}

fn compact(rules: impl Iterator<Item = PolicyRule>) -> Vec<PolicyRule> {
    let mut all: Vec<PolicyRule> = Vec::new();
    for mut rule in rules {
        let verbs = std::mem::take(&mut rule.verbs);
        let same = all.iter_mut().find(|known| {
            known.api_groups == rule.api_groups
                && known.resources == rule.resources
                && known.resource_names == rule.resource_names
                && known.non_resource_urls == rule.non_resource_urls
        });
        match same {
            Some(known) => known.verbs.extend(verbs),
            None => all.push(PolicyRule { verbs, ..rule }),
        }
    }
    all.sort_by_key(describe);
    for rule in &mut all {
        rule.verbs.dedup();
    }
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
        missing(held, wanted).iter().map(describe).collect()
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
}
