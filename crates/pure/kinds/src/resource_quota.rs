//! ResourceQuota (core/v1): how much the objects of a namespace may use all together.
//! `resource_quotas` counts that in each write.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, ScopedResourceSelectorRequirement,
};
use rekindle_quota::{QuotaAmount, QuotaScope, ScopeOperator, is_standard_name};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::{FieldError, FieldProblem};
use serde::Serialize;

use super::{defaults, preparation};
use crate::registry::resource::{
    ApiKind, MetadataChecks, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column};
use crate::validation::quantities::{self, ResourceList};
use crate::validation::{MISTAKES_MAX, Path, items, resource_names, shortened, text};

/// More entries of scopes are not looked at: there are seven scopes, and each write of a covered
/// kind asks each entry.
const SCOPE_ENTRIES_MAX: usize = 32;

/// Scopes of which no object is in both.
const OPPOSITES: [[QuotaScope; 2]; 2] = [
    [QuotaScope::BestEffort, QuotaScope::NotBestEffort],
    [QuotaScope::Terminating, QuotaScope::NotTerminating],
];

impl ApiKind for ResourceQuota {
    const NAMES: ResourceNames = ResourceNames {
        singular: "resourcequota",
        short_names: &["quota"],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfUpdate;
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Request", "string", "What is used of the requests and counts that are bounded."),
        column("Limit", "string", "What is used of the limits that are bounded."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        canonicalize(&mut spec.hard);
        defaults::drop_empty_list(&mut spec.scopes);
        if let Some(status) = &mut self.status {
            canonicalize(&mut status.hard);
            canonicalize(&mut status.used);
        }
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        self.status = Some(ResourceQuotaStatus::default());
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        self.status.clone_from(&old.status);
    }

    fn validate(&self) -> Vec<FieldError> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let field = Path::new("spec");
        let mut errors = list_errors(spec.hard.as_ref(), &field.child("hard"));
        let bounded = spec.hard.iter().flat_map(|hard| hard.keys()).map(String::as_str);
        let bounded: Vec<&str> = bounded.filter(|name| is_standard_name(name)).collect();
        errors.extend(scope_errors(spec, &bounded, &field.child("scopes")));
        errors.extend(selector_errors(spec, &bounded, &field));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let scopes = |quota: &Self| -> BTreeSet<String> {
            let scopes = quota.spec.as_ref().and_then(|spec| spec.scopes.as_ref());
            items(scopes).iter().cloned().collect()
        };
        if scopes(self) == scopes(old) {
            return Vec::new();
        }
        let listed = self.spec.as_ref().and_then(|spec| spec.scopes.as_ref());
        let field = Path::new("spec").child("scopes");
        vec![invalid_as(&field, &as_json(items(listed)), "field is immutable")]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let status = self.status.as_ref();
        let used = status.and_then(|status| status.used.as_ref());
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (name, hard) in status.and_then(|status| status.hard.as_ref()).into_iter().flatten() {
            let used = used.and_then(|used| used.get(name)).map_or("0", |used| used.0.as_str());
            let column = if name.starts_with("limits.") { &mut limits } else { &mut requests };
            column.push(format!("{name}: {used}/{}", hard.0));
        }
        vec![
            text(self.metadata.name.as_ref()).into(),
            requests.join(", ").into(),
            limits.join(", ").into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for ResourceQuota {
    preparation::updates_of_status_and_metadata!();

    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        let Some(status) = &self.status else { return Vec::new() };
        let field = Path::new("status");
        let mut errors = list_errors(status.hard.as_ref(), &field.child("hard"));
        errors.extend(list_errors(status.used.as_ref(), &field.child("used")));
        errors
    }
}

fn canonicalize(list: &mut Option<ResourceList>) {
    quantities::canonicalize_list(list.as_mut());
    defaults::drop_empty_map(list);
}

/// What is wrong with amounts by name.
fn list_errors(list: Option<&ResourceList>, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, amount) in list.into_iter().flatten() {
        if errors.len() >= MISTAKES_MAX {
            break;
        }
        let field = field.key(name);
        errors.extend(name_errors(name, &field));
        match quantities::check_non_negative(amount, &field) {
            Ok(quantity) if is_whole_amount(name) && !quantity.is_whole() => {
                errors.push(FieldError::invalid(&field, &amount.0, "must be an integer"));
            }
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    errors
}

fn name_errors(name: &str, field: &Path) -> Vec<FieldError> {
    let mut errors = resource_names::any(name, field);
    if name.contains('/') || is_standard_name(name) {
        return errors;
    }
    errors.push(FieldError::invalid(field, name, "must be a standard resource for quota"));
    errors
}

/// Whether an amount is a number of things, which are not divided.
fn is_whole_amount(name: &str) -> bool {
    if name.contains('/') {
        return resource_names::is_extended(name);
    }
    match QuotaAmount::of_name(name) {
        Some(
            QuotaAmount::Objects(_)
            | QuotaAmount::LivePods
            | QuotaAmount::NodePorts
            | QuotaAmount::LoadBalancers,
        ) => true,
        Some(
            QuotaAmount::Requests(_)
            | QuotaAmount::Limits(_)
            | QuotaAmount::Storage
            | QuotaAmount::ClaimsOfClass(_)
            | QuotaAmount::StorageOfClass(_),
        )
        | None => false,
    }
}

/// What is wrong with `spec.scopes`. `bounded` are the standard amounts of the quota.
fn scope_errors(spec: &ResourceQuotaSpec, bounded: &[&str], field: &Path) -> Vec<FieldError> {
    let scopes = items(spec.scopes.as_ref());
    if scopes.len() > SCOPE_ENTRIES_MAX {
        return vec![FieldError::too_many_of(field, scopes.len(), SCOPE_ENTRIES_MAX)];
    }
    let shown = LazyCell::new(|| as_json(scopes));
    let wrong = |why: &str| invalid_as(field, &shown, why);
    let mut errors = Vec::new();
    let mut known = BTreeSet::new();
    for name in scopes {
        if errors.len() >= MISTAKES_MAX {
            return errors;
        }
        match QuotaScope::of_name(name) {
            Some(scope) => {
                let unfit = unfit_amounts(bounded, scope);
                errors.extend(unfit.map(|()| wrong("unsupported scope applied to resource")));
                known.insert(scope);
            }
            None => errors.push(wrong("unsupported scope")),
        }
    }
    errors.extend(conflicts(&known).map(|()| wrong("conflicting scopes")));
    errors
}

/// What is wrong with `spec.scopeSelector`.
fn selector_errors(spec: &ResourceQuotaSpec, bounded: &[&str], field: &Path) -> Vec<FieldError> {
    let Some(selector) = &spec.scope_selector else { return Vec::new() };
    let requirements = items(selector.match_expressions.as_ref());
    let expressions = field.child("scopeSelector").child("matchExpressions");
    if requirements.len() > SCOPE_ENTRIES_MAX {
        let found = requirements.len();
        return vec![FieldError::too_many_of(&expressions, found, SCOPE_ENTRIES_MAX)];
    }
    let shown = LazyCell::new(|| as_json(selector));
    let mut errors = Vec::new();
    let mut known = BTreeSet::new();
    for requirement in requirements {
        if errors.len() >= MISTAKES_MAX {
            return errors;
        }
        let scope = QuotaScope::of_name(&requirement.scope_name);
        match scope {
            Some(scope) => {
                let why = "unsupported scope applied to resource";
                let unfit = unfit_amounts(bounded, scope);
                errors.extend(unfit.map(|()| invalid_as(&expressions, &shown, why)));
                known.insert(scope);
            }
            None => {
                let field = expressions.child("scopeName");
                let name = &requirement.scope_name;
                errors.push(FieldError::invalid(field, name, "unsupported scope"));
            }
        }
        errors.extend(operator_errors(requirement, scope, &expressions));
    }
    let scopes = items(spec.scopes.as_ref());
    errors.extend(
        conflicts(&known)
            .map(|()| invalid_as(&expressions, &as_json(scopes), "conflicting scopes")),
    );
    errors
}

fn operator_errors(
    requirement: &ScopedResourceSelectorRequirement,
    scope: Option<QuotaScope>,
    field: &Path,
) -> Vec<FieldError> {
    let ScopedResourceSelectorRequirement { operator: given, values, .. } = requirement;
    let operator = ScopeOperator::of_name(given);
    let values = items(values.as_ref());
    let mut errors = Vec::new();
    if scope.is_some_and(QuotaScope::only_exists) && operator != Some(ScopeOperator::Exists) {
        let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                   ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                   ResourceQuotaScopeNotBestEffort or \
                   ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.push(FieldError::invalid(field.child("operator"), given, why));
    }
    match operator {
        Some(ScopeOperator::In | ScopeOperator::NotIn) if values.is_empty() => {
            let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope \
                       selector";
            errors.push(FieldError::required(field.child("values"), why));
        }
        Some(ScopeOperator::Exists | ScopeOperator::DoesNotExist) if !values.is_empty() => {
            let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope \
                       selector";
            errors.push(invalid_as(&field.child("values"), &as_json(values), why));
        }
        Some(
            ScopeOperator::In
            | ScopeOperator::NotIn
            | ScopeOperator::Exists
            | ScopeOperator::DoesNotExist,
        ) => {}
        None => {
            let why = "not a valid selector operator";
            errors.push(FieldError::invalid(field.child("operator"), given, why));
        }
    }
    errors
}

/// One for each of these amounts that a quota of this scope cannot bound.
fn unfit_amounts(bounded: &[&str], scope: QuotaScope) -> impl Iterator<Item = ()> {
    let unfit = bounded.iter().filter(move |name| !scope.allows(name));
    unfit.map(|_| ()).take(MISTAKES_MAX)
}

/// One for each pair of scopes that exclude each other.
fn conflicts(scopes: &BTreeSet<QuotaScope>) -> impl Iterator<Item = ()> {
    let both = |pair: &[QuotaScope; 2]| pair.iter().all(|scope| scopes.contains(scope));
    OPPOSITES.into_iter().filter(move |pair| both(pair)).map(|_| ())
}

/// A list or selector as an error shows it.
fn as_json(value: &(impl Serialize + ?Sized)) -> String {
    let json = serde_json::to_string(value).expect("it is made of texts, so JSON can hold it");
    shortened(&json).to_owned()
}

/// A list or selector that is not acceptable.
fn invalid_as(field: &Path, shown: &str, why: &str) -> FieldError {
    let problem = FieldProblem::Invalid(shown.to_owned());
    FieldError { field: field.into(), problem, detail: why.to_owned() }
}
