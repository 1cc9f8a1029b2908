//! A quota as it is counted by: what it bounds, and what it covers.

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaSpec};
use rekindle_types::Tick;
use rekindle_types::pods::AnyPod;

use crate::amount::QuotaAmount;
use crate::counted::{CountedObject, CountedResource};
use crate::scope::ScopeRequirement;
use crate::usage::{MeasuredObject, QuotaUsage};

/// Whether a quota bounds something of a resource. It may cover no more than some of its objects.
pub fn bounds_resource(quota: &ResourceQuota, resource: CountedResource<'_>) -> bool {
    let hard = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
    let mut names = hard.into_iter().flat_map(|hard| hard.keys());
    names.any(|name| QuotaAmount::of_name(name).is_some_and(|amount| amount.resource() == resource))
}

/// What a quota bounds, and which objects it covers.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaTerms {
    hard: QuotaUsage,
    requirements: Vec<ScopeRequirement>,
}

impl QuotaTerms {
    /// Those of a quota.
    pub fn of_quota(quota: &ResourceQuota) -> Self {
        quota.spec.as_ref().map_or_else(
            || Self { hard: QuotaUsage::default(), requirements: Vec::new() },
            Self::of_spec,
        )
    }

    fn of_spec(spec: &ResourceQuotaSpec) -> Self {
        Self {
            hard: QuotaUsage::read(spec.hard.as_ref()),
            requirements: ScopeRequirement::of_spec(spec),
        }
    }

    /// How much may be used of each amount.
    pub const fn hard(&self) -> &QuotaUsage {
        &self.hard
    }

    /// The names that mean something, with what they mean.
    pub fn amounts(&self) -> impl Iterator<Item = (&str, QuotaAmount<'_>)> {
        let names = self.hard.iter().map(|(name, _)| name);
        names.filter_map(|name| Some((name, QuotaAmount::of_name(name)?)))
    }

    /// The names that count objects of a resource.
    pub fn names_about<'a>(
        &'a self,
        resource: CountedResource<'a>,
    ) -> impl Iterator<Item = &'a str> {
        let about = move |amount: &QuotaAmount<'_>| amount.resource() == resource;
        self.amounts().filter(move |(_, amount)| about(amount)).map(|(name, _)| name)
    }

    /// Whether it covers no more than some pods or some claims.
    pub fn has_scopes(&self) -> bool {
        !self.requirements.is_empty()
    }

    /// Whether it covers an object of a resource.
    pub fn covers<P: AnyPod>(
        &self,
        resource: CountedResource<'_>,
        object: &CountedObject<'_, P>,
    ) -> bool {
        self.names_about(resource).next().is_some()
            && self.requirements.iter().all(|requirement| requirement.covers(object))
    }

    /// How much an object uses of each amount. Amounts of which it uses nothing are left out.
    pub fn usage_of<P: AnyPod>(
        &self,
        resource: CountedResource<'_>,
        object: CountedObject<'_, P>,
        now: Tick,
    ) -> QuotaUsage {
        let mut usage = QuotaUsage::default();
        if !self.covers(resource, &object) {
            return usage;
        }
        let mut measured = MeasuredObject::new(resource, object, now);
        for (name, amount) in self.amounts() {
            if let Some(used) = measured.amount(amount).filter(|used| !used.is_zero()) {
                usage.set(name, used);
            }
        }
        usage
    }
}
