//! Whether enough indexes succeeded (`successPolicy`).
//!
//! Source: KEP-3998; API reference, `SuccessPolicyRule`: the first rule that is met makes the Job a
//! success.

use k8s_openapi::api::batch::v1::{JobSpec, SuccessPolicyRule};

use super::indexes::IndexSet;

/// The message about the rule that is met, if one is.
pub(super) fn met(spec: &JobSpec, completed: &IndexSet) -> Option<String> {
    if completed.is_empty() {
        return None;
    }
    let end = u32::try_from(spec.completions.unwrap_or(0)).unwrap_or(0);
    let mut rules = spec.success_policy.iter().flat_map(|policy| &policy.rules).enumerate();
    let (index, _) = rules.find(|(_, rule)| is_met(rule, completed, end))?;
    Some(format!("Matched rules at index {index}"))
}

fn is_met(rule: &SuccessPolicyRule, completed: &IndexSet, end: u32) -> bool {
    let count = rule.succeeded_count;
    match rule.succeeded_indexes.as_deref() {
        None => count.is_some_and(|count| completed.count() >= count),
        Some(text) => {
            let wanted = IndexSet::parse(text, end);
            let there = wanted.count_in(completed);
            !wanted.is_empty()
                && (there == wanted.count() || count.is_some_and(|count| there >= count))
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::SuccessPolicy;

    use super::*;

    #[test]
    fn the_first_rule_that_is_met_decides() {
        let rule = |indexes: Option<&str>, count| SuccessPolicyRule {
            succeeded_indexes: indexes.map(str::to_owned),
            succeeded_count: count,
        };
        let cases: &[(Vec<SuccessPolicyRule>, &str, Option<&str>)] = &[
            (vec![rule(None, Some(2))], "0", None),
            (vec![rule(None, Some(2))], "0,7", Some("Matched rules at index 0")),
            (vec![rule(Some("0"), None)], "1-5", None),
            (vec![rule(Some("0-2,5"), None)], "0-4", None),
            (vec![rule(Some("0-2,5"), None)], "0-5", Some("Matched rules at index 0")),
            (vec![rule(Some("0-2,5"), Some(1))], "5", Some("Matched rules at index 0")),
            (vec![rule(Some("0-2,5"), Some(2))], "3-5", None),
            (
                vec![rule(Some(""), None), rule(None, Some(1))],
                "3",
                Some("Matched rules at index 1"),
            ),
            (vec![rule(None, Some(0))], "", None),
        ];
        for (rules, completed, wanted) in cases {
            let spec = JobSpec {
                completions: Some(10),
                success_policy: Some(SuccessPolicy { rules: rules.clone() }),
                ..Default::default()
            };
            let completed = IndexSet::parse(completed, 10);
            assert_eq!(met(&spec, &completed).as_deref(), *wanted, "{rules:?} {completed:?}");
        }
    }
}
