//! PodDisruptionBudget (policy/v1).

pub mod deadlock;

use k8s_openapi::api::policy::v1::{
    PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rekindle_types::Tick;
use rekindle_types::disruption::ALWAYS_ALLOW;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};

use super::preparation;
use crate::registry::object_meta::FinalizerRule;
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, amounts, numbers, selector, text};
use deadlock::BudgetDeadlock;

/// The policy for pods that are not Ready when the budget names none.
pub(crate) const IF_HEALTHY_BUDGET: &str = "IfHealthyBudget";

impl ApiKind for PodDisruptionBudget {
    const NAMES: ResourceNames = ResourceNames {
        singular: "poddisruptionbudget",
        short_names: &["pdb"],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const FINALIZERS: FinalizerRule = FinalizerRule::Any;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfMachinery;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Min Available", "string", "The minimum number of pods that must be available."),
        column("Max Unavailable", "string", "The maximum number of pods that may be unavailable."),
        column(
            "Allowed Disruptions",
            "integer",
            "Calculated number of pods that may be disrupted at this time.",
        ),
        AGE,
    ];

    fn set_defaults(&mut self) {
        self.spec.get_or_insert_default();
        // upstream always prints the counts
        if let Some(status) = &mut self.status {
            for count in [
                &mut status.current_healthy,
                &mut status.desired_healthy,
                &mut status.disruptions_allowed,
                &mut status.expected_pods,
            ] {
                count.get_or_insert(0);
            }
        }
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = Some(PodDisruptionBudgetStatus {
            current_healthy: Some(0),
            desired_healthy: Some(0),
            disruptions_allowed: Some(0),
            expected_pods: Some(0),
            ..PodDisruptionBudgetStatus::default()
        });
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        let none = PodDisruptionBudgetSpec::default();
        spec_errors(self.spec.as_ref().unwrap_or(&none), &Path::new("spec"))
    }

    fn warnings(&self) -> Vec<String> {
        let name = text(self.metadata.name.as_ref());
        let Some(spec) = self.spec.as_ref().filter(|spec| spec.selector.is_some()) else {
            return vec![format!(
                "spec.selector: disruption budget {name:?} has none, so that it covers no pod"
            )];
        };
        BudgetDeadlock::of_spec(spec).map(|deadlock| deadlock.warning(name)).into_iter().collect()
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let shown = |get: fn(&PodDisruptionBudgetSpec) -> &Option<IntOrString>| {
            let amount = self.spec.as_ref().and_then(|spec| get(spec).as_ref());
            TableCell::from(amount.map_or_else(|| "N/A".to_owned(), amounts::shown))
        };
        let allowed = self.status.as_ref().and_then(|status| status.disruptions_allowed);
        vec![
            text(self.metadata.name.as_ref()).into(),
            shown(|spec| &spec.min_available),
            shown(|spec| &spec.max_unavailable),
            allowed.unwrap_or(0).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for PodDisruptionBudget {
    preparation::updates_of_status_and_metadata!();

    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        let none = PodDisruptionBudgetStatus::default();
        status_errors(self.status.as_ref().unwrap_or(&none), &Path::new("status"))
    }
}

fn spec_errors(spec: &PodDisruptionBudgetSpec, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec.min_available.is_some() && spec.max_unavailable.is_some() {
        errors.push(FieldError {
            field: field.into(),
            problem: FieldProblem::Invalid(
                serde_json::to_string(spec)
                    .expect("a budget's spec has text keys, so JSON can hold it"),
            ),
            detail: "minAvailable and maxUnavailable cannot be both set".to_owned(),
        });
    }
    for (name, amount) in
        [("minAvailable", &spec.min_available), ("maxUnavailable", &spec.max_unavailable)]
    {
        let Some(amount) = amount else { continue };
        let field = field.child(name);
        errors.extend(amounts::check(amount, &field));
        errors.extend(amounts::at_most_all(amount, &field));
    }
    if let Some(selector) = &spec.selector {
        errors.extend(selector::check(selector, &field.child("selector")));
    }
    match spec.unhealthy_pod_eviction_policy.as_deref() {
        None | Some(IF_HEALTHY_BUDGET | ALWAYS_ALLOW) => {}
        Some(other) => errors.push(FieldError::not_supported(
            field.child("unhealthyPodEvictionPolicy"),
            other,
            &[ALWAYS_ALLOW, IF_HEALTHY_BUDGET],
        )),
    }
    errors
}

fn status_errors(status: &PodDisruptionBudgetStatus, field: &Path) -> Vec<FieldError> {
    [
        ("disruptionsAllowed", status.disruptions_allowed),
        ("currentHealthy", status.current_healthy),
        ("desiredHealthy", status.desired_healthy),
        ("expectedPods", status.expected_pods),
    ]
    .into_iter()
    .filter_map(|(name, value)| numbers::non_negative(value.unwrap_or(0), &field.child(name)))
    .collect()
}
