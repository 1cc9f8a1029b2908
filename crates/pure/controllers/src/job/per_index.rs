//! Failures counted index by index (`backoffLimitPerIndex`).
//!
//! Source: KEP-3850. Each pod carries how often its index failed before it. The last failed pod of
//! an index that is to be tried again keeps its finalizer until the next pod has the number: it is
//! counted only then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::Tick;
use rekindle_types::held::HeldPod;

use super::failure::{FailureEffect, FailureRule, verdict};
use super::indexes::IndexSet;
use super::tracking;
use crate::{failed_pods, pods};

/// How often the index failed before this pod, not counting what was ignored.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// How often it failed and was ignored.
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The indexes of a Job with `backoffLimitPerIndex`.
#[derive(Clone, Debug, Default)]
pub(super) struct IndexFailures<'a> {
    /// Those that are given up.
    pub(super) failed: IndexSet,
    /// The last failed pod of each index that is to be tried again.
    pub(super) waiting: BTreeMap<u32, &'a Arc<HeldPod>>,
}

impl<'a> IndexFailures<'a> {
    /// `before` are the failed indexes of the status.
    pub(super) fn new(
        spec: &JobSpec,
        end: u32,
        own: &[&'a Arc<HeldPod>],
        before: IndexSet,
        completed: &IndexSet,
    ) -> Self {
        let limit = spec.backoff_limit_per_index.unwrap_or(0);
        let rule = FailureRule::from_spec(spec);
        let mut all = Self { failed: before, waiting: BTreeMap::new() };
        let place = |pod: &HeldPod| tracking::index(pod).filter(|index| *index < end);
        let ended: Vec<(u32, &Arc<HeldPod>)> = own
            .iter()
            .filter(|pod| tracking::is_tracked(&pod.metadata) && rule.is(pod))
            .filter_map(|pod| Some((place(pod)?, *pod)))
            .collect();
        for (index, pod) in &ended {
            let is_over = match verdict(spec, pod) {
                FailureEffect::FailsIndex => true,
                FailureEffect::Counts | FailureEffect::FailsJob(_) => {
                    number(&pod.metadata, FAILURES) >= limit
                }
                FailureEffect::IsIgnored => false,
            };
            if is_over && !completed.contains(*index) {
                all.failed.insert(*index);
            }
        }
        let active: BTreeSet<u32> =
            own.iter().filter(|pod| pods::is_active(pod)).filter_map(|pod| place(pod)).collect();
        for (index, pod) in ended {
            if active.contains(&index) || completed.contains(index) || all.failed.contains(index) {
                continue;
            }
            let rank = |pod: &HeldPod| (attempts(&pod.metadata), failed_pods::finished_at(pod));
            if all.waiting.get(&index).is_none_or(|other| rank(other) <= rank(pod)) {
                all.waiting.insert(index, pod);
            }
        }
        all
    }

    /// True for a pod that is kept until another is in its place.
    pub(super) fn keeps(&self, pod: &HeldPod) -> bool {
        tracking::index(pod)
            .and_then(|index| self.waiting.get(&index))
            .is_some_and(|waiting| waiting.metadata.uid == pod.metadata.uid)
    }

    /// From when on the index may be tried again.
    pub(super) fn next_creation(&self, index: u32) -> Option<Tick> {
        let last = self.waiting.get(&index)?;
        Some(failed_pods::after(attempts(&last.metadata), failed_pods::finished_at(last)))
    }

    /// Tells a new pod of the index how often it failed.
    pub(super) fn mark(&self, spec: &JobSpec, index: u32, pod: &mut ObjectMeta) {
        let (mut failures, mut ignored) = (0, 0);
        if let Some(last) = self.waiting.get(&index) {
            failures = number(&last.metadata, FAILURES);
            ignored = number(&last.metadata, IGNORED);
            match verdict(spec, last) {
                FailureEffect::IsIgnored => ignored = ignored.saturating_add(1),
                FailureEffect::Counts | FailureEffect::FailsIndex | FailureEffect::FailsJob(_) => {
                    failures = failures.saturating_add(1);
                }
            }
        }
        let annotations = pod.annotations.get_or_insert_default();
        annotations.insert(FAILURES.to_owned(), failures.to_string());
        if ignored > 0 {
            annotations.insert(IGNORED.to_owned(), ignored.to_string());
        }
    }
}

/// The number in an annotation; 0 where there is none, for users can write there what they like.
fn number(meta: &ObjectMeta, key: &str) -> i32 {
    let text = meta.annotations.as_ref().and_then(|annotations| annotations.get(key));
    text.and_then(|text| text.parse().ok()).filter(|number| *number >= 0).unwrap_or(0)
}

/// How often the index had failed before this pod.
fn attempts(meta: &ObjectMeta) -> u32 {
    number(meta, FAILURES).saturating_add(number(meta, IGNORED)).unsigned_abs()
}
