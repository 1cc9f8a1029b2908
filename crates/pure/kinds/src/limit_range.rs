//! LimitRange (core/v1): the amounts that pods, containers and claims of a namespace may ask for,
//! and what they get where they do not say. `admission/limit_ranger` applies it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem};
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{Quantity, Tick};

use super::defaults;
use crate::registry::resource::{
    ApiKind, MetadataChecks, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{CREATED_AT, NAME, created_at};
use crate::validation::quantities::{self, ResourceList};
use crate::validation::{
    ListKeys, MISTAKES_MAX, Path, invalid_each, items, names, resource_names, text,
};

/// The type of limits of each container.
pub const CONTAINER: &str = "Container";
/// The type of limits of all containers of a pod together.
pub const POD: &str = "Pod";
/// The type of limits of a claim.
pub const CLAIM: &str = "PersistentVolumeClaim";

impl ApiKind for LimitRange {
    const NAMES: ResourceNames = ResourceNames {
        singular: "limitrange",
        short_names: &["limits"],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const CREATES_ON_UPDATE: bool = true;
    const ALWAYS_SHOWN: &'static [&'static str] = &["limits"];
    const METADATA_CHECKS: MetadataChecks = MetadataChecks::OfObject;
    const COLUMNS: &'static [TableColumn] = &[NAME, CREATED_AT];

    fn set_defaults(&mut self) {
        for limit in &mut self.spec.get_or_insert_default().limits {
            for list in [
                &mut limit.max,
                &mut limit.min,
                &mut limit.default,
                &mut limit.default_request,
                &mut limit.max_limit_request_ratio,
            ] {
                quantities::canonicalize_list(list.as_mut());
                defaults::drop_empty_map(list);
            }
            if limit.type_ == CONTAINER {
                fill_container_defaults(limit);
            }
        }
    }

    /// One without a name is called by its UID, as upstream.
    fn prepare_named(&mut self) {
        if text(self.metadata.name.as_ref()).is_empty() {
            self.metadata.name.clone_from(&self.metadata.uid);
        }
    }

    fn validate(&self) -> Vec<FieldError> {
        let limits = self.spec.as_ref().map_or(&[][..], |spec| &spec.limits);
        let field = Path::new("spec").child("limits");
        let mut types: ListKeys<&str> = ListKeys::new();
        let mut errors = Vec::new();
        for (index, limit) in limits.iter().enumerate() {
            if errors.len() >= MISTAKES_MAX {
                break;
            }
            let field = field.index(index);
            errors.extend(type_errors(&limit.type_, &field.child("type")));
            if types.add(&limit.type_).is_some() {
                errors.push(FieldError::duplicate(field.child("type"), &limit.type_));
            }
            errors.extend(item_errors(limit, &field));
        }
        errors
    }

    fn row(&self, _now: Tick) -> Vec<TableCell> {
        let meta = &self.metadata;
        vec![text(meta.name.as_ref()).into(), created_at(meta.creation_timestamp.as_ref()).into()]
    }
}

/// What a container gets without asking follows from the most and the least that it may.
fn fill_container_defaults(limit: &mut LimitRangeItem) {
    let mut limits = limit.default.take().unwrap_or_default();
    for (resource, amount) in limit.max.iter().flatten() {
        limits.entry(resource.clone()).or_insert_with(|| amount.clone());
    }
    let mut requests = limit.default_request.take().unwrap_or_default();
    for (resource, amount) in limits.iter().chain(limit.min.iter().flatten()) {
        requests.entry(resource.clone()).or_insert_with(|| amount.clone());
    }
    limit.default = Some(limits).filter(|list| !list.is_empty());
    limit.default_request = Some(requests).filter(|list| !list.is_empty());
}

fn type_errors(type_: &str, field: &Path) -> Vec<FieldError> {
    let mut errors: Vec<_> = invalid_each(field, type_, names::qualified(type_)).collect();
    let is_known = type_.contains('/') || matches!(type_, POD | CONTAINER | CLAIM);
    if errors.is_empty() && !is_known {
        let why = "must be a standard limit type or fully qualified";
        errors.push(FieldError::invalid(field, type_, why));
    }
    errors
}

fn item_errors(limit: &LimitRangeItem, field: &Path) -> Vec<FieldError> {
    let mut errors = name_errors(&limit.type_, "max", &limit.max, field);
    errors.extend(name_errors(&limit.type_, "min", &limit.min, field));
    let defaults = [("default", &limit.default), ("defaultRequest", &limit.default_request)];
    for (name, list) in defaults {
        let is_said = list.as_ref().is_some_and(|list| !list.is_empty());
        if limit.type_ != POD {
            errors.extend(name_errors(&limit.type_, name, list, field));
        } else if is_said {
            let why = "may not be specified when `type` is 'Pod'";
            errors.push(FieldError::forbidden(field.child(name), why));
        }
    }
    let storage = |list: &Option<ResourceList>| {
        list.as_ref().is_some_and(|list| list.contains_key("storage"))
    };
    if limit.type_ == CLAIM && !storage(&limit.min) && !storage(&limit.max) {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(FieldError::required(field.child("limits"), why));
    }
    let ratios = &limit.max_limit_request_ratio;
    errors.extend(name_errors(&limit.type_, "maxLimitRequestRatio", ratios, field));
    let mut limit = limit.clone();
    if limit.type_ == POD {
        // refused above, and compared with nothing
        (limit.default, limit.default_request) = (None, None);
    }
    let lists = [
        &limit.max,
        &limit.min,
        &limit.default,
        &limit.default_request,
        &limit.max_limit_request_ratio,
    ];
    let resources: BTreeSet<&String> =
        lists.into_iter().flatten().flat_map(BTreeMap::keys).collect();
    for resource in resources {
        errors.extend(contradictions(&limit, resource, field));
    }
    errors
}

/// What is wrong with the names and amounts of one list.
fn name_errors(
    type_: &str,
    name: &str,
    list: &Option<ResourceList>,
    field: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (resource, amount) in list.iter().flatten() {
        let field = field.child(name).key(resource);
        errors.extend(match type_ {
            POD | CONTAINER => resource_names::of_container(resource, &field),
            _ => resource_names::any(resource, &field),
        });
        errors.extend(quantities::check(amount, &field).err());
    }
    errors
}

/// An amount, and as it is written.
type Amount<'a> = (Quantity, &'a str);

fn amount<'a>(list: &'a Option<ResourceList>, resource: &str) -> Option<Amount<'a>> {
    let text = list.as_ref()?.get(resource)?;
    Some((quantities::read(text).ok()?, text.0.as_str()))
}

/// The amounts of one resource that do not fit together.
fn contradictions(limit: &LimitRangeItem, resource: &str, field: &Path) -> Vec<FieldError> {
    let (min, max) = (amount(&limit.min, resource), amount(&limit.max, resource));
    let request = amount(&limit.default_request, resource);
    let default = amount(&limit.default, resource);
    let mut errors = Vec::new();
    // which field, the value that is shown, the lesser and the greater amount with their names
    let mut must_not_exceed =
        |name: &str,
         shown: Option<Amount<'_>>,
         (low, low_name): (Option<Amount<'_>>, &str),
         (high, high_name): (Option<Amount<'_>>, &str)| {
            if let (Some(shown), Some(low), Some(high)) = (shown, low, high)
                && high.0.saturating_sub(low.0).is_negative()
            {
                let why = format!("{low_name} {} is greater than {high_name} {}", low.1, high.1);
                errors.push(FieldError::invalid(field.child(name).key(resource), shown.1, why));
            }
        };
    must_not_exceed("min", min, (min, "min value"), (max, "max value"));
    let of_request = "default request value";
    must_not_exceed("defaultRequest", request, (min, "min value"), (request, of_request));
    must_not_exceed("defaultRequest", request, (request, of_request), (max, "max value"));
    let of_limit = "default limit value";
    must_not_exceed("defaultRequest", request, (request, of_request), (default, of_limit));
    must_not_exceed("default", min, (min, "min value"), (default, "default value"));
    must_not_exceed("default", max, (default, "default value"), (max, "max value"));
    let field = field.child("maxLimitRequestRatio").key(resource);
    if let Some((ratio, shown)) = amount(&limit.max_limit_request_ratio, resource) {
        let one = Quantity::from_units(1);
        if ratio.saturating_sub(one).is_negative() {
            let why = format!("ratio {shown} is less than 1");
            errors.push(FieldError::invalid(&field, shown, why));
        }
        if let (Some((min, _)), Some((max, _))) = (min, max)
            && !min.is_zero()
            && ratio.ratio_to(one) > max.ratio_to(min)
        {
            let why = format!("ratio {shown} is greater than max/min = {:.6}", max.ratio_to(min));
            errors.push(FieldError::invalid(&field, shown, why));
        }
    }
    errors
}

/// The limits of these ranges of one type.
pub fn limits_of_type<'a>(
    range: &'a LimitRange,
    type_: &'a str,
) -> impl Iterator<Item = &'a LimitRangeItem> {
    let limits = items(range.spec.as_ref().map(|spec| &spec.limits));
    limits.iter().filter(move |limit| limit.type_ == type_)
}
