//! `resourceFieldRef`: a container's requests and limits as whole numbers of a divisor.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use rekindle_types::Quantity;

/// What the node can give to pods: stands in for limits that a container does not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allocatable {
    /// By resource name: `cpu`, `memory`, `ephemeral-storage`.
    pub resources: BTreeMap<String, Quantity>,
}

impl Allocatable {
    /// The same for a container of this pod: what the pod may use as a whole takes the place of
    /// what the node has (KEP-2837).
    pub(crate) fn within(&self, pod: &Pod) -> Self {
        let own = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
        let mut resources = self.resources.clone();
        for (name, limit) in own.and_then(|own| own.limits.as_ref()).into_iter().flatten() {
            if let Ok(limit) = limit.0.parse() {
                resources.insert(name.clone(), limit);
            }
        }
        Self { resources }
    }
}

/// Why a resource field has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResourceError {
    /// The path is not `limits.*` or `requests.*` of a known resource.
    #[error("unsupported container resource : {0}")]
    Unsupported(String),
    /// The amount or the divisor cannot be read.
    #[error("resource {resource}: {source}")]
    Quantity {
        /// The path.
        resource: String,
        /// Why.
        #[source]
        source: rekindle_types::QuantityError,
    },
    /// Division by nothing.
    #[error("resource {0}: the divisor is zero")]
    ZeroDivisor(String),
    /// The container that is spoken of is not in the pod.
    #[error("container {0} not found")]
    NoSuchContainer(String),
}

/// The amount divided by the divisor, rounded up. A limit that is not set is the node's allocatable
/// amount; a request that is not set is 0. Source: the API reference of `ResourceFieldSelector`.
pub(crate) fn resource_value(
    container: &Container,
    selector: &ResourceFieldSelector,
    allocatable: &Allocatable,
) -> Result<String, ResourceError> {
    let path = selector.resource.as_str();
    let unsupported = || ResourceError::Unsupported(path.to_owned());
    let (side, name) = path.split_once('.').ok_or_else(unsupported)?;
    let known =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !known {
        return Err(unsupported());
    }
    let read = |quantity: &ApiQuantity| {
        quantity
            .0
            .parse::<Quantity>()
            .map_err(|source| ResourceError::Quantity { resource: path.to_owned(), source })
    };
    let resources = container.resources.as_ref();
    let amount = match side {
        "limits" => match amount_in(resources.and_then(|r| r.limits.as_ref()), name) {
            Some(limit) => read(limit)?,
            None => allocatable.resources.get(name).copied().unwrap_or_default(),
        },
        "requests" => match effective_request(resources, name) {
            Some(request) => read(request)?,
            None => Quantity::default(),
        },
        _ => return Err(unsupported()),
    };
    let divisor = match selector.divisor.as_ref() {
        Some(divisor) => read(divisor)?,
        None => Quantity::default(),
    };
    // an absent divisor arrives as "0" and means 1
    let divisor = if divisor.is_zero() { Quantity::from_units(1) } else { divisor };
    let (amount, divisor) = if name == "cpu" {
        (amount.millis(), divisor.millis())
    } else {
        (amount.units(), divisor.units())
    };
    if divisor == 0 {
        return Err(ResourceError::ZeroDivisor(path.to_owned()));
    }
    Ok((i128::from(amount) + i128::from(divisor) - 1).div_euclid(i128::from(divisor)).to_string())
}

fn amount_in<'m>(
    map: Option<&'m BTreeMap<String, ApiQuantity>>,
    name: &str,
) -> Option<&'m ApiQuantity> {
    map.and_then(|map| map.get(name))
}

/// The request, or the limit where only that is given (as the API defaults it).
fn effective_request<'r>(
    resources: Option<&'r ResourceRequirements>,
    name: &str,
) -> Option<&'r ApiQuantity> {
    let resources = resources?;
    amount_in(resources.requests.as_ref(), name)
        .or_else(|| amount_in(resources.limits.as_ref(), name))
}
