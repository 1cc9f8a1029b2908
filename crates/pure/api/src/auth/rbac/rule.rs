//! Whether one rule allows one thing.

use k8s_openapi::api::rbac::v1::PolicyRule;
use rekindle_kinds::validation::items;

use crate::auth::AccessAttributes;

/// Stands for everything, wherever a rule lists something.
pub(super) const ALL: &str = "*";

/// Whether the rule allows it.
pub fn allows(rule: &PolicyRule, what: &AccessAttributes<'_>) -> bool {
    match what {
        AccessAttributes::Resource { verb, group, resource, subresource, namespace: _, name } => {
            has(&rule.verbs, verb)
                && has(items(rule.api_groups.as_ref()), group)
                && has_resource(items(rule.resources.as_ref()), resource, subresource)
                && has_name(items(rule.resource_names.as_ref()), name)
        }
        AccessAttributes::Path { verb, path } => {
            has(&rule.verbs, verb)
                && items(rule.non_resource_urls.as_ref()).iter().any(|known| is_path(known, path))
        }
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|known| known == ALL || known == wanted)
}

/// `pods`, `pods/log`, `*` (subresources, too) and `*/scale` (of whatever resource).
fn has_resource(list: &[String], resource: &str, subresource: &str) -> bool {
    list.iter().any(|known| match known.split_once('/') {
        _ if known == ALL => true,
        None => subresource.is_empty() && known == resource,
        Some((of, sub)) => {
            !subresource.is_empty() && sub == subresource && (of == ALL || of == resource)
        }
    })
}

/// No names are all names. A request without a name (list, create) is for no name in particular,
/// and no list has that.
fn has_name(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|known| known == name)
}

/// `/healthz`, or `/healthz/*`.
fn is_path(known: &str, path: &str) -> bool {
    known == ALL
        || known == path
        || known
            .strip_suffix(ALL)
            .is_some_and(|start| path.starts_with(start.trim_end_matches(ALL)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> PolicyRule {
        // verbs;groups;resources;names;paths
        let mut parts = text.split(';').map(|part| {
            let list: Vec<String> =
                part.split(',').filter(|p| !p.is_empty()).map(|p| p.replace("core", "")).collect();
            list
        });
        let mut next = || parts.next().unwrap_or_default();
        PolicyRule {
            verbs: next(),
            api_groups: Some(next()),
            resources: Some(next()),
            resource_names: Some(next()),
            non_resource_urls: Some(next()),
        }
    }

    /// `verb group/resource/subresource name`, or `verb path`.
    fn what(text: &str) -> AccessAttributes<'_> {
        let mut words = text.split(' ');
        let (verb, target) = (words.next().unwrap(), words.next().unwrap());
        if target.starts_with('/') {
            return AccessAttributes::Path { verb, path: target };
        }
        let mut parts = target.split('/');
        let group = parts.next().unwrap();
        AccessAttributes::Resource {
            verb,
            group: if group == "core" { "" } else { group },
            resource: parts.next().unwrap(),
            subresource: parts.next().unwrap_or_default(),
            namespace: "shop",
            name: words.next().unwrap_or_default(),
        }
    }

    #[test]
    fn rules_allow_what_they_allow_upstream() {
        for (a_rule, allowed, refused) in [
            (
                "get,list;core;pods",
                vec!["get core/pods", "get core/pods web", "list core/pods"],
                vec!["watch core/pods", "get core/pods/log web", "get apps/pods", "get core/podsx"],
            ),
            ("*;core;pods", vec!["delete core/pods", "use core/pods"], vec!["get core/secrets"]),
            (
                "get;*;*",
                vec!["get apps/deployments", "get core/pods/log x"],
                vec!["list core/pods"],
            ),
            ("get;core;pods/log", vec!["get core/pods/log"], vec!["get core/pods"]),
            (
                "get;core,apps;*/scale",
                vec!["get apps/deployments/scale x", "get core/pods/scale"],
                vec!["get apps/deployments", "get batch/jobs/scale"],
            ),
            // as upstream: a star after the slash is no wildcard
            ("get;core;pods/*", vec![], vec!["get core/pods/log", "get core/pods"]),
            (
                "get,list;core;configmaps;a,b",
                vec!["get core/configmaps a", "list core/configmaps b"],
                vec!["get core/configmaps c", "list core/configmaps"],
            ),
            (
                "get;;;;/healthz,/metrics/*",
                vec!["get /healthz", "get /metrics/", "get /metrics/x/y"],
                vec!["get /healthz/x", "get /metrics", "post /healthz", "get core/pods"],
            ),
            ("get;;;;*", vec!["get /", "get /anything"], vec!["get core/pods"]),
            ("*;*;*;;", vec!["escalate rbac/roles"], vec!["get /healthz"]),
        ] {
            let rule = rule(a_rule);
            for text in allowed {
                assert!(allows(&rule, &what(text)), "{a_rule} allows {text}");
            }
            for text in refused {
                assert!(!allows(&rule, &what(text)), "{a_rule} does not allow {text}");
            }
        }
    }
}
