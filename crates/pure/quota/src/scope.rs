//! The scopes of a quota: which pods or claims it covers.
//!
//! An object is covered when it is in every scope. Services and other objects are in none.

use k8s_openapi::api::core::v1::{
    Affinity, PersistentVolumeClaim, PodAffinityTerm, ResourceQuotaSpec, WeightedPodAffinityTerm,
};
use rekindle_types::pods::{AnyPod, AnySpec};
use rekindle_types::resources;

use crate::counted::CountedObject;

/// A scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaScope {
    /// Pods with a deadline.
    Terminating,
    /// Pods without one.
    NotTerminating,
    /// Pods that ask for neither CPU nor memory.
    BestEffort,
    /// Pods that ask for one of them.
    NotBestEffort,
    /// Pods by their priority class.
    PriorityClass,
    /// Pods that want to be near pods of other namespaces, or far from them.
    CrossNamespacePodAffinity,
    /// Claims by their VolumeAttributesClass (KEP-3751).
    VolumeAttributesClass,
}

impl QuotaScope {
    /// Every scope.
    pub const ALL: [Self; 7] = [
        Self::Terminating,
        Self::NotTerminating,
        Self::BestEffort,
        Self::NotBestEffort,
        Self::PriorityClass,
        Self::CrossNamespacePodAffinity,
        Self::VolumeAttributesClass,
    ];

    /// As the API writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Terminating => "Terminating",
            Self::NotTerminating => "NotTerminating",
            Self::BestEffort => "BestEffort",
            Self::NotBestEffort => "NotBestEffort",
            Self::PriorityClass => "PriorityClass",
            Self::CrossNamespacePodAffinity => "CrossNamespacePodAffinity",
            Self::VolumeAttributesClass => "VolumeAttributesClass",
        }
    }

    /// The scope of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    /// Whether a quota of this scope may bound a standard amount, by the amount's name.
    pub fn allows(self, amount: &str) -> bool {
        const COMPUTE: [&str; 6] =
            ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
        match self {
            Self::BestEffort => amount == "pods",
            Self::Terminating
            | Self::NotTerminating
            | Self::NotBestEffort
            | Self::PriorityClass
            | Self::CrossNamespacePodAffinity => amount == "pods" || COMPUTE.contains(&amount),
            Self::VolumeAttributesClass => {
                matches!(amount, "persistentvolumeclaims" | "requests.storage")
            }
        }
    }

    /// Whether it may be asked for with no other operator than `Exists`.
    pub const fn only_exists(self) -> bool {
        match self {
            Self::Terminating
            | Self::NotTerminating
            | Self::BestEffort
            | Self::NotBestEffort
            | Self::CrossNamespacePodAffinity => true,
            Self::PriorityClass | Self::VolumeAttributesClass => false,
        }
    }
}

/// How a requirement compares the class of a pod or claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeOperator {
    /// It is one of the values.
    In,
    /// It is none of the values, or there is none.
    NotIn,
    /// There is one.
    Exists,
    /// There is none.
    DoesNotExist,
}

impl ScopeOperator {
    /// The operator of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "In" => Some(Self::In),
            "NotIn" => Some(Self::NotIn),
            "Exists" => Some(Self::Exists),
            "DoesNotExist" => Some(Self::DoesNotExist),
            _ => None,
        }
    }

    /// Whether it holds for an object of these classes: a claim may be of several while it changes,
    /// and is covered when it holds for one.
    fn holds(self, values: &[String], classes: &[&str]) -> bool {
        let is_listed = |class: &&str| values.iter().any(|value| value == *class);
        match self {
            Self::In => classes.iter().any(is_listed),
            Self::NotIn => classes.is_empty() || !classes.iter().all(is_listed),
            Self::Exists => !classes.is_empty(),
            Self::DoesNotExist => classes.is_empty(),
        }
    }
}

/// A requirement of a quota. One that validation would not let in covers nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScopeRequirement {
    scope: Option<QuotaScope>,
    operator: Option<ScopeOperator>,
    values: Vec<String>,
}

impl ScopeRequirement {
    /// Those of a spec: of its list and of its selector.
    pub(crate) fn of_spec(spec: &ResourceQuotaSpec) -> Vec<Self> {
        let listed = spec.scopes.iter().flatten().map(|scope| Self {
            scope: QuotaScope::of_name(scope),
            operator: Some(ScopeOperator::Exists),
            values: Vec::new(),
        });
        let selector = spec.scope_selector.as_ref();
        let selected = selector.and_then(|selector| selector.match_expressions.as_ref());
        let selected = selected.into_iter().flatten().map(|requirement| Self {
            scope: QuotaScope::of_name(&requirement.scope_name),
            operator: ScopeOperator::of_name(&requirement.operator),
            values: requirement.values.clone().unwrap_or_default(),
        });
        listed.chain(selected).collect()
    }

    /// Whether an object is in the scope.
    pub(crate) fn covers<P: AnyPod>(&self, object: &CountedObject<'_, P>) -> bool {
        let (Some(scope), Some(operator)) = (self.scope, self.operator) else { return false };
        let of_class = |classes: &[&str]| operator.holds(&self.values, classes);
        match (scope, object) {
            (QuotaScope::VolumeAttributesClass, CountedObject::Claim(claim)) => {
                of_class(&attributes_classes(claim))
            }
            (QuotaScope::VolumeAttributesClass, CountedObject::Pod(_)) => false,
            (_, CountedObject::Pod(pod)) => {
                pod.spec().is_some_and(|spec| is_in(scope, spec, &of_class))
            }
            (_, CountedObject::Claim(_) | CountedObject::Service(_) | CountedObject::Other) => {
                false
            }
        }
    }
}

fn is_in(scope: QuotaScope, spec: &impl AnySpec, of_class: &impl Fn(&[&str]) -> bool) -> bool {
    let is_terminating = || spec.active_deadline_seconds().is_some_and(|seconds| seconds >= 0);
    match scope {
        QuotaScope::Terminating => is_terminating(),
        QuotaScope::NotTerminating => !is_terminating(),
        QuotaScope::BestEffort => resources::is_best_effort(spec),
        QuotaScope::NotBestEffort => !resources::is_best_effort(spec),
        QuotaScope::PriorityClass => match spec.priority_class_name() {
            "" => of_class(&[]),
            class => of_class(&[class]),
        },
        QuotaScope::CrossNamespacePodAffinity => spec.affinity().is_some_and(looks_elsewhere),
        QuotaScope::VolumeAttributesClass => false,
    }
}

/// The classes that a claim has, changes to, or shall have.
fn attributes_classes(claim: &PersistentVolumeClaim) -> Vec<&str> {
    let status = claim.status.as_ref();
    let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_ref());
    let current = status.and_then(|status| status.current_volume_attributes_class_name.as_ref());
    let target = status
        .and_then(|status| status.modify_volume_status.as_ref())
        .and_then(|modify| modify.target_volume_attributes_class_name.as_ref());
    let named = [wanted, current, target].into_iter().flatten().map(String::as_str);
    named.filter(|name| !name.is_empty()).collect()
}

/// Whether a term of pod affinity or anti-affinity is about other namespaces.
fn looks_elsewhere(affinity: &Affinity) -> bool {
    let near = affinity.pod_affinity.as_ref();
    let far = affinity.pod_anti_affinity.as_ref();
    let required = [
        near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref()),
        far.and_then(|far| far.required_during_scheduling_ignored_during_execution.as_ref()),
    ];
    let preferred = [
        near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref()),
        far.and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_ref()),
    ];
    let is_elsewhere = |term: &PodAffinityTerm| {
        term.namespaces.as_ref().is_some_and(|namespaces| !namespaces.is_empty())
            || term.namespace_selector.is_some()
    };
    required.into_iter().flatten().flatten().any(is_elsewhere)
        || preferred.into_iter().flatten().flatten().any(
            |WeightedPodAffinityTerm { pod_affinity_term, .. }| is_elsewhere(pod_affinity_term),
        )
}
