//! What one write changes of one quota, and whether the quota lets it.

use k8s_openapi::api::core::v1::{Pod, ResourceQuota, ResourceQuotaStatus};
use rekindle_kinds::registry::AnyObject;
use rekindle_quota::{CountedObject, CountedResource, QuotaTerms, QuotaUsage, unmet_demands};
use rekindle_types::{Quantity, Tick};

use super::recount::{ReadUsage, counted, counted_names};
use crate::shared::ApiShared;
use crate::status::ApiError;

/// A write, as quotas see it.
#[derive(Clone, Copy)]
pub(super) struct CountedChange<'w> {
    pub(super) resource: CountedResource<'w>,
    /// None when the object is new.
    pub(super) old: Option<&'w dyn AnyObject>,
    /// None when the object goes.
    pub(super) new: Option<&'w dyn AnyObject>,
    pub(super) now: Tick,
    pub(super) rule: ChargeRule,
}

/// What a quota may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChargeRule {
    /// What is more than it allows, and containers that do not say what they need.
    CheckDemands,
    /// What is more than it allows.
    Check,
    /// Nothing: a status says what is, and a removal gives back.
    Count,
}

/// A quota, with what it bounds.
pub(super) struct ChargedQuota<'q> {
    quota: &'q ResourceQuota,
    terms: QuotaTerms,
    name: &'q str,
}

impl<'q> ChargedQuota<'q> {
    pub(super) fn new(quota: &'q ResourceQuota) -> Self {
        let name = quota.metadata.name.as_deref().unwrap_or_default();
        Self { quota, terms: QuotaTerms::of_quota(quota), name }
    }

    /// Refuses a pod that does not say what the quota must know.
    pub(super) fn check_demands(&self, change: &CountedChange<'_>) -> Result<(), String> {
        let Some(CountedObject::Pod(pod)) = change.new.map(counted) else { return Ok(()) };
        let is_asked = match change.rule {
            ChargeRule::CheckDemands => true,
            ChargeRule::Check | ChargeRule::Count => false,
        };
        if !is_asked || !self.terms.covers(change.resource, &CountedObject::Pod(pod)) {
            return Ok(());
        }
        match unmet_demands(&self.terms, pod) {
            Some(demands) => Err(format!("failed quota: {}: {demands}", self.name)),
            None => Ok(()),
        }
    }

    /// The usage of each amount that changes, before and after the write.
    pub(super) fn difference(&self, change: &CountedChange<'_>) -> UsageDifference {
        let usage = |object: Option<&dyn AnyObject>| {
            object.map_or_else(QuotaUsage::default, |object| {
                let object: CountedObject<'_, Pod> = counted(object);
                self.terms.usage_of(change.resource, object, change.now)
            })
        };
        UsageDifference { before: usage(change.old), after: usage(change.new) }
    }

    /// What was used before a write; none when the write changes nothing of it. Where the status
    /// does not say what is used, it is counted, unless the write only gives back.
    pub(super) fn usage_before(
        &self,
        api: &ApiShared,
        namespace: &str,
        change: &CountedChange<'_>,
        difference: &UsageDifference,
    ) -> Result<Option<QuotaUsage>, ApiError> {
        if difference.is_none() {
            return Ok(None);
        }
        match self.known_usage(api) {
            Some(known) => Ok(Some(known)),
            None if !difference.is_more() => Ok(None),
            None => {
                let mut read = ReadUsage::default();
                read.recount(api, namespace, &self.terms, change.now).map(Some)
            }
        }
    }

    /// What is used as the quota's status has it; none when the status is not about what the quota
    /// bounds now.
    fn known_usage(&self, api: &ApiShared) -> Option<QuotaUsage> {
        let status = self.quota.status.as_ref()?;
        let is_current = QuotaUsage::read(status.hard.as_ref()).is_same_as(self.terms.hard());
        let used = QuotaUsage::read(status.used.as_ref());
        let mut known = QuotaUsage::default();
        for (name, _) in counted_names(api, &self.terms) {
            known.set(name, used.get(name)?);
        }
        is_current.then_some(known)
    }

    /// Refuses what is more than the quota allows.
    pub(super) fn check(
        &self,
        used: &QuotaUsage,
        change: &CountedChange<'_>,
        difference: &UsageDifference,
    ) -> Result<(), String> {
        match change.rule {
            ChargeRule::CheckDemands | ChargeRule::Check => {}
            ChargeRule::Count => return Ok(()),
        }
        let (mut requested, mut had, mut limited) = <(Vec<_>, Vec<_>, Vec<_>)>::default();
        for (name, hard) in self.terms.hard().iter() {
            let added = difference.added(name);
            let Some(used) = used.get(name).filter(|_| !added.is_zero()) else { continue };
            if used.plus(added).exceeds(hard) {
                requested.push(format!("{name}={added}"));
                had.push(format!("{name}={used}"));
                limited.push(format!("{name}={hard}"));
            }
        }
        if requested.is_empty() {
            return Ok(());
        }
        Err(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            self.name,
            requested.join(","),
            had.join(","),
            limited.join(",")
        ))
    }

    /// The quota with this usage.
    pub(super) fn with_usage(&self, used: &QuotaUsage) -> ResourceQuota {
        ResourceQuota { status: Some(status_of(&self.terms, used)), ..self.quota.clone() }
    }
}

/// The status of a quota of which so much is used.
pub(super) fn status_of(terms: &QuotaTerms, used: &QuotaUsage) -> ResourceQuotaStatus {
    ResourceQuotaStatus { hard: Some(terms.hard().to_list()), used: Some(used.to_list()) }
}

/// What an object used of a quota, and what it uses now.
pub(super) struct UsageDifference {
    before: QuotaUsage,
    after: QuotaUsage,
}

impl UsageDifference {
    fn is_none(&self) -> bool {
        self.before.is_same_as(&self.after)
    }

    /// Whether it uses more of something.
    fn is_more(&self) -> bool {
        self.after.iter().any(|(name, _)| !self.added(name).is_zero())
    }

    /// How much more it uses of an amount.
    fn added(&self, name: &str) -> Quantity {
        let after = self.after.get(name).unwrap_or_default();
        let before = self.before.get(name).unwrap_or_default();
        if after.exceeds(before) { after.saturating_sub(before) } else { Quantity::default() }
    }

    /// What is used with it, of what was used without. It does not fall below nothing.
    pub(super) fn applied_to(&self, used: &QuotaUsage) -> QuotaUsage {
        let mut result = used.clone();
        for (name, used) in used.iter() {
            let after = used.plus(self.after.get(name).unwrap_or_default());
            let left = after.saturating_sub(self.before.get(name).unwrap_or_default());
            result.set(name, if left.is_negative() { Quantity::default() } else { left });
        }
        result
    }
}
