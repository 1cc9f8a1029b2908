//! How much an object uses of what a quota bounds.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use rekindle_types::pods::{self, AnyPod};
use rekindle_types::resources::{self, Amounts, ResourceList};
use rekindle_types::{Quantity, Tick, TickDuration};

use crate::amount::QuotaAmount;
use crate::counted::{CountedObject, CountedResource};

/// Annotation that named the storage class before there was a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Amounts by the names of a quota.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaUsage(BTreeMap<String, Quantity>);

impl QuotaUsage {
    /// Those of a list. What cannot be read counts as absent: validation lets none in.
    pub fn read(list: Option<&ResourceList>) -> Self {
        let read =
            |(name, text): (&String, &QuantityText)| Some((name.clone(), text.0.parse().ok()?));
        Self(list.into_iter().flatten().filter_map(read).collect())
    }

    /// As the API writes it.
    pub fn to_list(&self) -> ResourceList {
        let written =
            |(name, amount): (&String, &Quantity)| (name.clone(), QuantityText(amount.to_string()));
        self.0.iter().map(written).collect()
    }

    /// An amount; none when it is not named.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// Names an amount, or replaces it.
    pub fn set(&mut self, name: &str, amount: Quantity) {
        self.0.insert(name.to_owned(), amount);
    }

    /// All that are named, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both name the same, with amounts that are equal however they are written.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let same =
            |(one, other): (&Quantity, &Quantity)| !one.exceeds(*other) && !other.exceeds(*one);
        self.0.keys().eq(other.0.keys()) && self.0.values().zip(other.0.values()).all(same)
    }

    /// Adds what an object uses to the amounts that are named.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            if let Some(sum) = self.0.get_mut(name) {
                *sum = sum.plus(*amount);
            }
        }
    }
}

/// An object, with what was found out about it: several names ask for the same.
pub(crate) struct MeasuredObject<'o, P> {
    object: CountedObject<'o, P>,
    resource: CountedResource<'o>,
    is_live: bool,
    requests: Option<Amounts>,
    limits: Option<Amounts>,
}

impl<'o, P: AnyPod> MeasuredObject<'o, P> {
    pub(crate) fn new(
        resource: CountedResource<'o>,
        object: CountedObject<'o, P>,
        now: Tick,
    ) -> Self {
        let is_live = match object {
            CountedObject::Pod(pod) => counts_for_now(pod, now),
            CountedObject::Service(_) | CountedObject::Claim(_) | CountedObject::Other => true,
        };
        Self { object, resource, is_live, requests: None, limits: None }
    }

    /// How much it uses of an amount; none when it uses nothing of that kind.
    pub(crate) fn amount(&mut self, amount: QuotaAmount<'_>) -> Option<Quantity> {
        let one = Quantity::from_units(1);
        match (amount, self.object) {
            (QuotaAmount::Objects(resource), _) => (resource == self.resource).then_some(one),
            (QuotaAmount::LivePods, CountedObject::Pod(_)) => self.is_live.then_some(one),
            (QuotaAmount::Requests(name), CountedObject::Pod(pod)) if self.is_live => {
                let requests = self.requests.get_or_insert_with(|| resources::pod_usage(pod));
                requests.names(name).then(|| requests.get(name))
            }
            (QuotaAmount::Limits(name), CountedObject::Pod(pod)) if self.is_live => {
                let limits = self.limits.get_or_insert_with(|| resources::pod_limits(pod));
                limits.names(name).then(|| limits.get(name))
            }
            (QuotaAmount::NodePorts, CountedObject::Service(service)) => {
                Some(Quantity::from_units(node_ports(service)))
            }
            (QuotaAmount::LoadBalancers, CountedObject::Service(service)) => {
                (type_of(service) == "LoadBalancer").then_some(one)
            }
            (QuotaAmount::Storage, CountedObject::Claim(claim)) => storage(claim),
            (QuotaAmount::ClaimsOfClass(class), CountedObject::Claim(claim)) => {
                (class == class_of(claim)).then_some(one)
            }
            (QuotaAmount::StorageOfClass(class), CountedObject::Claim(claim)) => {
                storage(claim).filter(|_| class == class_of(claim))
            }
            (
                QuotaAmount::LivePods
                | QuotaAmount::Requests(_)
                | QuotaAmount::Limits(_)
                | QuotaAmount::NodePorts
                | QuotaAmount::LoadBalancers
                | QuotaAmount::Storage
                | QuotaAmount::ClaimsOfClass(_)
                | QuotaAmount::StorageOfClass(_),
                CountedObject::Pod(_)
                | CountedObject::Service(_)
                | CountedObject::Claim(_)
                | CountedObject::Other,
            ) => None,
        }
    }
}

/// Whether a pod uses compute resources, as a quota sees it. One that is over does not. One that
/// its node does not end in time does not either: it would keep others from taking its place.
pub fn counts_for_now(pod: &impl AnyPod, now: Tick) -> bool {
    !pods::is_finished(pod) && counts_until(pod).is_none_or(|until| now <= until)
}

/// Until when a pod that is being deleted counts.
pub fn counts_until(pod: &impl AnyPod) -> Option<Tick> {
    let meta = pod.metadata();
    let deadline = Tick::from(meta.deletion_timestamp.as_ref()?);
    Some(deadline + TickDuration::of_field(meta.deletion_grace_period_seconds?))
}

fn type_of(service: &Service) -> &str {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.type_.as_deref()).unwrap_or_default()
}

/// The ports of the nodes that a Service takes, or will be given.
fn node_ports(service: &Service) -> i64 {
    let spec = service.spec.as_ref();
    let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let gets_all = spec.and_then(|spec| spec.allocate_load_balancer_node_ports).unwrap_or(true);
    let count = match (type_of(service), gets_all) {
        ("NodePort", _) | ("LoadBalancer", true) => ports.len(),
        ("LoadBalancer", false) => {
            ports.iter().filter(|port| port.node_port.unwrap_or(0) != 0).count()
        }
        _ => 0,
    };
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The larger of what a claim asks for and what it was given, in whole bytes.
fn storage(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let of =
        |list: Option<&ResourceList>| -> Option<Quantity> { list?.get("storage")?.0.parse().ok() };
    let spec = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let wanted = of(spec.and_then(|resources| resources.requests.as_ref()))?;
    let given = of(claim.status.as_ref().and_then(|status| status.allocated_resources.as_ref()));
    Some(given.filter(|given| given.exceeds(wanted)).unwrap_or(wanted).rounded_up())
}

fn class_of(claim: &PersistentVolumeClaim) -> &str {
    let annotations = claim.metadata.annotations.as_ref();
    let annotated = annotations.and_then(|annotations| annotations.get(CLASS_ANNOTATION));
    let named = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    annotated.or(named).map_or("", String::as_str)
}
