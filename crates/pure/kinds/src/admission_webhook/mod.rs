//! Configurations of admission webhooks (admissionregistration.k8s.io/v1): servers that every write
//! is sent to, to be checked or changed. `admission::webhooks` asks them.
//!
//! Wording and order of mistakes follow upstream's `pkg/apis/admissionregistration/validation`.

pub mod mutating;
pub mod validating;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, RuleWithOperations,
    WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::validation::field_error::FieldProblem;
use serde_json::json;

use super::admission_policy::FailurePolicy;
use super::admission_policy::match_resources::{self, ANY, EQUIVALENT, EXACT, PolicyEffect};
use super::admission_policy::program::{ConditionProgram, ProgramCompiler};
use super::admission_policy::{FAIL, IF_NEEDED, IGNORE, NEVER};
use super::defaults;
use crate::registry::resource::{TableCell, TableColumn};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{ListKeys, Path, invalid_each, names, selector, text, webhook_client};

/// Seconds that a webhook has if its configuration does not say.
const TIMEOUT_SECONDS: i32 = 10;
const TIMEOUT_SECONDS_MAX: i32 = 30;
/// The port of a Service if the configuration does not say.
const SERVICE_PORT: i32 = 443;

/// The versions of AdmissionReview that are spoken here.
pub const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

const COLUMNS: &[TableColumn] =
    &[NAME, column("Webhooks", "integer", "How many webhooks the configuration has."), AGE];

/// The row of a configuration with so many webhooks.
fn row(metadata: &ObjectMeta, webhooks: usize, now: Tick) -> Vec<TableCell> {
    vec![
        text(metadata.name.as_ref()).into(),
        TableCell::Int(i64::try_from(webhooks).unwrap_or(i64::MAX)),
        age(metadata.creation_timestamp.as_ref(), now).into(),
    ]
}

/// What both kinds of webhooks say.
#[derive(Clone, Copy)]
pub struct WebhookParts<'w> {
    /// Its name.
    pub name: &'w str,
    /// Where it is.
    pub client: &'w WebhookClientConfig,
    /// Which requests it is asked about.
    pub rules: &'w [RuleWithOperations],
    /// `Fail` or `Ignore`.
    pub failure_policy: Option<&'w String>,
    /// `Exact` or `Equivalent`.
    pub match_policy: Option<&'w String>,
    /// Of which namespaces.
    pub namespace_selector: Option<&'w LabelSelector>,
    /// Of which objects.
    pub object_selector: Option<&'w LabelSelector>,
    /// What else is asked of a request.
    pub match_conditions: &'w [MatchCondition],
    /// `None` or `NoneOnDryRun`.
    pub side_effects: &'w str,
    /// How long an answer may take, in seconds.
    pub timeout_seconds: Option<i32>,
    /// The versions of AdmissionReview that it reads, the best first.
    pub review_versions: &'w [String],
    /// Of a webhook that changes objects.
    pub reinvocation_policy: Option<&'w String>,
}

/// Borrows what a webhook of either kind says.
macro_rules! parts_of {
    ($webhook:expr, $reinvocation_policy:expr) => {
        $crate::admission_webhook::WebhookParts {
            name: &$webhook.name,
            client: &$webhook.client_config,
            rules: $crate::validation::items($webhook.rules.as_ref()),
            failure_policy: $webhook.failure_policy.as_ref(),
            match_policy: $webhook.match_policy.as_ref(),
            namespace_selector: $webhook.namespace_selector.as_ref(),
            object_selector: $webhook.object_selector.as_ref(),
            match_conditions: $crate::validation::items($webhook.match_conditions.as_ref()),
            side_effects: &$webhook.side_effects,
            timeout_seconds: $webhook.timeout_seconds,
            review_versions: &$webhook.admission_review_versions,
            reinvocation_policy: $reinvocation_policy,
        }
    };
}
use parts_of;

/// Fills in what both kinds of webhooks leave out.
macro_rules! set_defaults_of {
    ($webhook:expr) => {{
        $crate::defaults::absent_text(&mut $webhook.failure_policy, super::FAIL);
        $crate::defaults::absent_text(&mut $webhook.match_policy, super::EQUIVALENT);
        $webhook.namespace_selector.get_or_insert_default();
        $webhook.object_selector.get_or_insert_default();
        $webhook.timeout_seconds.get_or_insert(super::TIMEOUT_SECONDS);
        super::set_shared_defaults(&mut $webhook.client_config, &mut $webhook.rules);
        $crate::defaults::drop_empty_list(&mut $webhook.match_conditions);
    }};
}
use set_defaults_of;

fn set_shared_defaults(
    client: &mut WebhookClientConfig,
    rules: &mut Option<Vec<RuleWithOperations>>,
) {
    if let Some(service) = &mut client.service {
        service.port.get_or_insert(SERVICE_PORT);
    }
    defaults::drop_empty_list(rules);
    for rule in rules.iter_mut().flatten() {
        defaults::absent_text(&mut rule.scope, ANY);
    }
}

/// Warning headers about requests that webhooks ask for and never see here.
fn warnings<'w>(webhooks: impl Iterator<Item = WebhookParts<'w>>) -> Vec<String> {
    let mut warnings = Vec::new();
    for webhook in webhooks {
        for warning in
            match_resources::warnings("webhook", PolicyEffect::Validates, Some(&webhook.matched()))
        {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

/// What is wrong with the webhooks of a configuration.
fn errors<'w>(webhooks: impl Iterator<Item = WebhookParts<'w>>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known = ListKeys::new();
    for (index, webhook) in webhooks.enumerate() {
        let field = Path::new("webhooks").index(index);
        errors.extend(webhook.errors(&field));
        errors.extend(webhook.version_errors(&field.child("admissionReviewVersions")));
        if !webhook.name.is_empty() && known.add(webhook.name).is_some() {
            errors.push(FieldError::duplicate(field.child("name"), webhook.name));
        }
    }
    errors
}

impl WebhookParts<'_> {
    /// What becomes of a request when the webhook does not answer.
    pub fn on_failure(&self) -> FailurePolicy {
        FailurePolicy::parse(text(self.failure_policy))
    }

    /// Whether it is asked once more when others changed the object after it.
    pub fn is_run_again(&self) -> bool {
        text(self.reinvocation_policy) == IF_NEEDED
    }

    /// Seconds that it has for an answer.
    pub fn timeout_seconds(&self) -> u32 {
        let given = self.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
        u32::try_from(given.clamp(1, TIMEOUT_SECONDS_MAX)).unwrap_or(1)
    }

    /// The requests that it is for, in the words of policies.
    pub fn matched(&self) -> MatchResources {
        MatchResources {
            exclude_resource_rules: None,
            match_policy: self.match_policy.cloned(),
            namespace_selector: self.namespace_selector.cloned(),
            object_selector: self.object_selector.cloned(),
            resource_rules: Some(self.rules.iter().map(of_any_name).collect()),
        }
    }

    /// The conditions that a request must meet, as far as they are right, and what is wrong with
    /// them.
    pub fn conditions(&self, field: &Path) -> (Vec<ConditionProgram>, Vec<FieldError>) {
        let mut compiler = ProgramCompiler::without_parameters();
        let conditions = compiler.conditions(self.match_conditions, field);
        (conditions, compiler.into_errors())
    }

    fn errors(&self, field: &Path) -> Vec<FieldError> {
        let mut errors = name_errors(self.name, &field.child("name"));
        for (index, rule) in self.rules.iter().enumerate() {
            let field = field.child("rules").index(index);
            errors.extend(match_resources::rule_errors(&of_any_name(rule), &field));
        }
        let one_of = |name: &str, given: Option<&String>, known: &[&str]| {
            let given = given.filter(|given| !known.contains(&given.as_str()))?;
            Some(FieldError::not_supported(field.child(name), given, known))
        };
        errors.extend(one_of("failurePolicy", self.failure_policy, &[FAIL, IGNORE]));
        errors.extend(one_of("matchPolicy", self.match_policy, &[EQUIVALENT, EXACT]));
        let effects_field = field.child("sideEffects");
        match self.side_effects {
            "" => {
                let why = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
                errors.push(FieldError::required(effects_field, why));
            }
            given if SIDE_EFFECTS.contains(&given) => {}
            other => errors.push(FieldError::not_supported(effects_field, other, &SIDE_EFFECTS)),
        }
        if let Some(given) =
            self.timeout_seconds.filter(|given| !(1..=TIMEOUT_SECONDS_MAX).contains(given))
        {
            let why = "the timeout value must be between 1 and 30 seconds";
            errors.push(FieldError::invalid(field.child("timeoutSeconds"), given, why));
        }
        for (name, given) in [
            ("namespaceSelector", self.namespace_selector),
            ("objectSelector", self.object_selector),
        ] {
            errors.extend(
                given.into_iter().flat_map(|given| selector::check(given, &field.child(name))),
            );
        }
        errors.extend(one_of("reinvocationPolicy", self.reinvocation_policy, &[IF_NEEDED, NEVER]));
        errors.extend(webhook_client::errors(self.client.into(), &field.child("clientConfig")));
        errors.extend(self.conditions(&field.child("matchConditions")).1);
        errors
    }

    fn version_errors(&self, field: &Path) -> Vec<FieldError> {
        let versions = self.review_versions;
        if versions.is_empty() {
            let why = format!("must specify one of {}", REVIEW_VERSIONS.join(", "));
            return vec![FieldError::required(field, why)];
        }
        let mut errors = Vec::new();
        let mut known = ListKeys::new();
        for (index, version) in versions.iter().enumerate() {
            let field = field.index(index);
            if known.add(version.as_str()).is_some() {
                errors.push(FieldError::invalid(&field, version, "duplicate version"));
                continue;
            }
            errors.extend(invalid_each(&field, version, names::dns_1035_label(version)));
        }
        if !versions.iter().any(|version| REVIEW_VERSIONS.contains(&version.as_str())) {
            errors.push(FieldError {
                field: field.into(),
                problem: FieldProblem::Invalid(json!(versions).to_string()),
                detail: format!("must include at least one of {}", REVIEW_VERSIONS.join(", ")),
            });
        }
        errors
    }
}

/// A rule of a webhook, as one of a policy: objects of all names.
fn of_any_name(rule: &RuleWithOperations) -> NamedRuleWithOperations {
    NamedRuleWithOperations {
        api_groups: rule.api_groups.clone(),
        api_versions: rule.api_versions.clone(),
        operations: rule.operations.clone(),
        resource_names: None,
        resources: rule.resources.clone(),
        scope: rule.scope.clone(),
    }
}

fn name_errors(name: &str, field: &Path) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mistakes = names::dns_subdomain(name);
    if !mistakes.is_empty() {
        return vec![FieldError::invalid(field, name, mistakes.join(","))];
    }
    if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        return vec![FieldError::invalid(field, name, why)];
    }
    Vec::new()
}
