//! The ladder that an operator which observes goes by where no ladder selects a pod, and that its
//! report proposes: a first look needs no manifest. Pure, as the controllers are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_ladder::LadderPolicy;
use rekindle_types::held::HeldPod;
use rekindle_types::name_stem::name_stem;
use rekindle_types::owners::controller_of;
use rekindle_types::v1alpha1::{LadderBudget, LadderRung, OnExhausted, RestartLadderSpec, Rung};

/// Bytes of the workload's name that go into the ladder's name, which may have 253.
const NAME_BYTES_MAX: usize = 200;
/// Before the names of such ladders while none is applied. No object can have such a name.
const PREFIX: &str = "proposed/";

/// What is proposed for the pods of a selector, on nodes without an agent.
pub fn proposed_spec(selector: LabelSelector) -> RestartLadderSpec {
    let rung = |rung: Rung, attempts: u32| LadderRung {
        rung,
        attempts: Some(attempts),
        empty_dirs: None,
        avoid_node_for: None,
    };
    RestartLadderSpec {
        scope: None,
        selector,
        window: Some("10m".to_owned()),
        rungs: vec![rung(Rung::Container, 3), rung(Rung::Recreate, 1), rung(Rung::Reschedule, 2)],
        budget: Some(LadderBudget { max_concurrent: Some(1), per_minute: Some(6) }),
        on_exhausted: Some(OnExhausted::Hold),
    }
}

/// The same as the policy of a pod that no ladder selects. What runs to its end is left to its own
/// rules: a new pod would begin its work again.
pub(crate) fn proposed_policy(pod: &HeldPod) -> Option<LadderPolicy> {
    let restarts = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    if restarts.is_some_and(|policy| policy != "Always") {
        return None;
    }
    let name = match controller_of(&pod.metadata) {
        Some(owner) => format!("{PREFIX}{}/{}", owner.kind.to_lowercase(), owner.name),
        None => format!("{PREFIX}pod/{}", pod.metadata.name.as_deref().unwrap_or_default()),
    };
    Some(LadderPolicy::of_spec(name, None, &proposed_spec(LabelSelector::default())))
}

/// The name of the ladder that is proposed for a workload, `web-deployment`: workloads of other
/// kinds may have the same name. None that is taken, which would be changed by it.
pub(crate) fn proposed_name(name: &str, kind: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let name = format!("{}-{}", name_stem(name, NAME_BYTES_MAX), kind.to_lowercase());
    let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| !is_taken(name)).expect("there is always a further number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proposed_name_is_taken_already() {
        let name = |workload: &str, taken: &[&str]| {
            proposed_name(workload, "Deployment", |name| taken.contains(&name))
        };
        assert_eq!(name("web", &["web"]), "web-deployment");
        assert_eq!(name("web", &["web-deployment"]), "web-deployment-2");
        assert_eq!(name("web", &["web-deployment", "web-deployment-2"]), "web-deployment-3");
        let longest = name(&"a".repeat(253), &[]);
        assert_eq!(
            rekindle_types::validation::names::dns_subdomain(&longest),
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_is_proposed_keeps_the_rules_of_ladders() {
        let selector = LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            ..LabelSelector::default()
        };
        assert_eq!(proposed_spec(selector).faults(), []);
    }
}
