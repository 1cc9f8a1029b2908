//! The limits of a namespace: a new container gets what it does not ask for, and what a container,
//! a pod or a claim asks for lies within the bounds.
//!
//! Source: admission plugin LimitRanger. It looks at pods that are created, and at each claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod, ResourceRequirements,
};
use rekindle_kinds::limit_range::{CLAIM, CONTAINER, POD, limits_of_type};
use rekindle_kinds::registry::AnyObject;
use rekindle_kinds::validation::quantities::{self, ResourceList};
use rekindle_kinds::validation::{items, text};
use rekindle_store::RangeQuery;
use rekindle_types::{Quantity, resources};

use super::ObjectWrite;
use crate::call::{ApiCall, ObjectPart};
use crate::keys;
use crate::status::ApiError;

/// Says on a pod what it got.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The ranges of the namespace of the call, by name.
fn ranges(call: &ApiCall<'_>) -> Result<Vec<Arc<LimitRange>>, ApiError> {
    let Some(entry) = call.api.registry.find("", "v1", "limitranges") else {
        return Ok(Vec::new());
    };
    let prefix = keys::collection(entry, &call.path.namespace);
    let range = call.api.store.range(&RangeQuery { prefix, ..RangeQuery::default() })?;
    let mut found = Vec::new();
    for stored in range.objects {
        found.extend(call.api.read_as::<LimitRange>(entry, &stored)?);
    }
    Ok(found)
}

/// Gives the containers of a new pod what the ranges say and they do not.
pub(super) fn fill_new(call: &ApiCall<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    let Some(pod) = object.as_any_mut().downcast_mut::<Pod>() else { return Ok(()) };
    for range in ranges(call)? {
        let (mut limits, mut requests) = (ResourceList::new(), ResourceList::new());
        for limit in limits_of_type(&range, CONTAINER) {
            limits.extend(limit.default.clone().unwrap_or_default());
            requests.extend(limit.default_request.clone().unwrap_or_default());
        }
        let Some(spec) = &mut pod.spec else { return Ok(()) };
        let mut said = Vec::new();
        for container in &mut spec.containers {
            said.extend(fill(container, "container", (&limits, &requests)));
        }
        for container in spec.init_containers.iter_mut().flatten() {
            said.extend(fill(container, "init container", (&limits, &requests)));
        }
        if said.is_empty() {
            continue;
        }
        let class = resources::qos_class(spec).to_owned();
        pod.status.get_or_insert_default().qos_class = Some(class);
        let annotations = pod.metadata.annotations.get_or_insert_default();
        let said = format!("LimitRanger plugin set: {}", said.join("; "));
        annotations.insert(ANNOTATION.to_owned(), said);
    }
    Ok(())
}

/// What the container got, in words.
fn fill(
    container: &mut Container,
    kind: &str,
    (limits, requests): (&ResourceList, &ResourceList),
) -> Vec<String> {
    let own = container.resources.get_or_insert_default();
    let name = &container.name;
    let mut said = Vec::new();
    for (list, defaults, what) in
        [(&mut own.requests, requests, "request"), (&mut own.limits, limits, "limit")]
    {
        let mut filled = Vec::new();
        for (resource, amount) in defaults {
            let list = list.get_or_insert_default();
            if !list.contains_key(resource) {
                list.insert(resource.clone(), amount.clone());
                filled.push(resource.as_str());
            }
        }
        if !filled.is_empty() {
            said.push(format!("{} {what} for {kind} {name}", filled.join(", ")));
        }
    }
    said
}

/// Refuses what lies outside the bounds.
pub(super) fn check(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let (call, object) = (write.call, write.new);
    if write.part != ObjectPart::Main {
        return Ok(());
    }
    let mut problems = Vec::new();
    if let Some(pod) = object.as_any().downcast_ref::<Pod>() {
        if write.old.is_some() {
            return Ok(());
        }
        for range in ranges(call)? {
            problems.extend(pod_problems(pod, &range));
        }
    } else if let Some(claim) = object.as_any().downcast_ref::<PersistentVolumeClaim>() {
        for range in ranges(call)? {
            problems.extend(claim_problems(claim, &range));
        }
    }
    let name = text(object.meta().name.as_ref());
    match problems.as_slice() {
        [] => Ok(()),
        [one] => Err(ApiError::forbidden(call.entry, name, one)),
        all => Err(ApiError::forbidden(call.entry, name, &format!("[{}]", all.join(", ")))),
    }
}

fn pod_problems(pod: &Pod, range: &LimitRange) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let init = items(spec.init_containers.as_ref());
    let mut problems = Vec::new();
    for limit in limits_of_type(range, CONTAINER) {
        for container in spec.containers.iter().chain(init) {
            let none = ResourceRequirements::default();
            let asked = Asked::of(container.resources.as_ref().unwrap_or(&none));
            problems.extend(asked.problems(limit, CONTAINER));
        }
    }
    for limit in limits_of_type(range, POD) {
        problems.extend(Asked::of_pod(&spec.containers, init).problems(limit, POD));
    }
    problems
}

fn claim_problems(claim: &PersistentVolumeClaim, range: &LimitRange) -> Vec<String> {
    let spec = claim.spec.as_ref();
    let requests = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    let asked = amounts(requests);
    let mut problems = Vec::new();
    for limit in limits_of_type(range, CLAIM) {
        for (resource, least) in limit.min.iter().flatten() {
            let request = asked.get(resource.as_str()).copied();
            problems.extend(below(resource, CLAIM, least, (request, None)));
        }
        for (resource, most) in limit.max.iter().flatten() {
            let said = || format!("maximum {resource} usage per {CLAIM} is {}", most.0);
            match (asked.get(resource.as_str()), quantities::read(most)) {
                (None, Ok(_)) => problems.push(format!("{}.  No request is specified", said())),
                (Some(request), Ok(most)) if exceeds(*request, most) => {
                    problems.push(format!("{}, but request is {request}", said()));
                }
                (Some(_), Ok(_)) | (None | Some(_), Err(_)) => {}
            }
        }
    }
    problems
}

/// Requests and limits by resource.
struct Asked<'a> {
    requests: BTreeMap<&'a str, Quantity>,
    limits: BTreeMap<&'a str, Quantity>,
}

fn amounts(list: Option<&ResourceList>) -> BTreeMap<&str, Quantity> {
    let read = |(name, text)| Some((String::as_str(name), quantities::read(text).ok()?));
    list.into_iter().flatten().filter_map(read).collect()
}

fn exceeds(one: Quantity, other: Quantity) -> bool {
    other.saturating_sub(one).is_negative()
}

impl<'a> Asked<'a> {
    fn of(resources: &'a ResourceRequirements) -> Self {
        Self {
            requests: amounts(resources.requests.as_ref()),
            limits: amounts(resources.limits.as_ref()),
        }
    }

    /// The sum of the containers, or the most that an init container asks for.
    fn of_pod(containers: &'a [Container], init: &'a [Container]) -> Self {
        let mut all = Self { requests: BTreeMap::new(), limits: BTreeMap::new() };
        let asked = |container: &'a Container| container.resources.as_ref().map(Self::of);
        for one in containers.iter().filter_map(asked) {
            for (sum, part) in [(&mut all.requests, one.requests), (&mut all.limits, one.limits)] {
                for (resource, amount) in part {
                    let sum = sum.entry(resource).or_default();
                    *sum = if sum.is_zero() { amount } else { sum.saturating_add(amount) };
                }
            }
        }
        for one in init.iter().filter_map(asked) {
            for (sum, part) in [(&mut all.requests, one.requests), (&mut all.limits, one.limits)] {
                for (resource, amount) in part {
                    let sum = sum.entry(resource).or_default();
                    if exceeds(amount, *sum) {
                        *sum = amount;
                    }
                }
            }
        }
        all
    }

    /// What is outside these bounds.
    fn problems(&self, limit: &LimitRangeItem, type_: &str) -> Vec<String> {
        let of = |resource: &str| {
            (self.requests.get(resource).copied(), self.limits.get(resource).copied())
        };
        let mut problems = Vec::new();
        for (resource, least) in limit.min.iter().flatten() {
            problems.extend(below(resource, type_, least, of(resource)));
        }
        for (resource, most) in limit.max.iter().flatten() {
            let said = || format!("maximum {resource} usage per {type_} is {}", most.0);
            let Ok(bound) = quantities::read(most) else { continue };
            match of(resource) {
                (_, None) => problems.push(format!("{}.  No limit is specified", said())),
                (_, Some(limit)) if exceeds(limit, bound) => {
                    problems.push(format!("{}, but limit is {limit}", said()));
                }
                (Some(request), Some(_)) if exceeds(request, bound) => {
                    problems.push(format!("{}, but request is {request}", said()));
                }
                (None | Some(_), Some(_)) => {}
            }
        }
        let ratios = limit.max_limit_request_ratio.iter().flatten();
        problems.extend(ratios.filter_map(|(resource, most)| {
            let said = format!("{resource} max limit to request ratio per {type_} is {}", most.0);
            let bound = quantities::read(most).ok()?.ratio_to(Quantity::from_units(1));
            let is_said = |amount: &Quantity| !amount.is_zero();
            match of(resource) {
                (request, _) if !request.as_ref().is_some_and(is_said) => {
                    Some(format!("{said}, but no request is specified or request is 0"))
                }
                (_, limit) if !limit.as_ref().is_some_and(is_said) => {
                    Some(format!("{said}, but no limit is specified or limit is 0"))
                }
                (request, limit) => {
                    let ratio = limit?.ratio_to(request?);
                    (ratio > bound).then(|| format!("{said}, but provided ratio is {ratio:.6}"))
                }
            }
        }));
        problems
    }
}

/// What is less than the least.
fn below(
    resource: &str,
    type_: &str,
    least: &k8s_openapi::apimachinery::pkg::api::resource::Quantity,
    (request, limit): (Option<Quantity>, Option<Quantity>),
) -> Option<String> {
    let bound = quantities::read(least).ok()?;
    let said = format!("minimum {resource} usage per {type_} is {}", least.0);
    match (request, limit) {
        (None, _) => Some(format!("{said}.  No request is specified")),
        (Some(request), _) if exceeds(bound, request) => {
            Some(format!("{said}, but request is {request}"))
        }
        (Some(_), Some(limit)) if exceeds(bound, limit) => {
            Some(format!("{said}, but limit is {limit}"))
        }
        (Some(_), Some(_) | None) => None,
    }
}
