//! The pods of a target as the calculator counts them.
//!
//! The CPU of a pod that is starting says nothing of its load. Source of behaviour: upstream's
//! `replica_calculator.go` (`groupPods`, `calculateRequests`) and the flags
//! `--horizontal-pod-autoscaler-cpu-initialization-period` and
//! `--horizontal-pod-autoscaler-initial-readiness-delay`.

use rekindle_types::held::{HeldContainer, HeldPod};
use rekindle_types::resources::Amounts;
use rekindle_types::{Tick, TickDuration};

use super::replica_count::{PodSample, SampleStanding};
use crate::pods;
use crate::usage::{MeasuredPod, UsageReport};

/// A pod may be starting for so long: while it is not ready, its CPU does not count.
const CPU_INITIALIZATION: TickDuration = TickDuration::from_secs(5 * 60);
/// A pod that became unready within this time of its start has never been ready.
const INITIAL_READINESS_DELAY: TickDuration = TickDuration::from_secs(30);

/// A resource of all containers of a pod, or of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredResource<'a> {
    /// `cpu`, `memory`, …
    pub(super) resource: &'a str,
    /// The container, if not all count.
    pub(super) container: Option<&'a str>,
}

/// A container that asks for nothing of the resource. The text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("missing request for {resource} in container {container} of Pod {pod}")]
pub(super) struct MissingRequest {
    resource: String,
    container: String,
    pod: String,
}

/// How a pod counts, and what it uses.
pub(super) fn sample(
    pod: &HeldPod,
    of: MeasuredResource<'_>,
    report: &UsageReport,
    now: Tick,
) -> PodSample {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let measured = report.pods.get(name);
    let complete = measured.filter(|found| of.container.is_some() || has_all(found, pod));
    let used = complete.and_then(|found| found.millis(of.resource, of.container));
    let (standing, used_millis) = match (standing(pod), measured, used) {
        (Some(standing), ..) => (standing, 0),
        (None, Some(measured), Some(_))
            if of.resource == "cpu" && is_starting(pod, measured, now) =>
        {
            (SampleStanding::Unready, 0)
        }
        (None, Some(_), Some(used)) => (SampleStanding::Counted, used),
        (None, _, _) => (SampleStanding::Missing, 0),
    };
    PodSample { standing, request_millis: 0, used_millis }
}

/// True when each of its containers was measured: the sum of some says nothing of the pod.
fn has_all(measured: &MeasuredPod, pod: &HeldPod) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| spec.containers.iter());
    containers.all(|container| measured.containers.contains_key(&container.name))
}

/// What a pod's phase says already.
fn standing(pod: &HeldPod) -> Option<SampleStanding> {
    match pods::phase(pod) {
        _ if pods::is_terminating(pod) => Some(SampleStanding::LeftOut),
        "Failed" => Some(SampleStanding::LeftOut),
        "Pending" => Some(SampleStanding::Unready),
        _ => None,
    }
}

/// True while the CPU of a pod is that of its start.
fn is_starting(pod: &HeldPod, measured: &MeasuredPod, now: Tick) -> bool {
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    let (Some(ready), Some(started)) = (pods::condition(pod, "Ready"), started) else {
        return true;
    };
    let started = Tick::from(started);
    let turned = ready.last_transition_time.as_ref().map_or(Tick::ZERO, Tick::from);
    let is_unready = ready.status == "False";
    if started + CPU_INITIALIZATION > now {
        // of one that is ready a whole window must lie behind
        is_unready || measured.taken_at < turned + measured.window
    } else {
        is_unready && started + INITIAL_READINESS_DELAY > turned
    }
}

/// Thousandths that a pod asks for: what it asks for as a whole, where it does, and the sum of its
/// containers and sidecars else.
///
/// # Errors
/// When one of them asks for nothing.
pub(super) fn request_millis(
    pod: &HeldPod,
    of: MeasuredResource<'_>,
) -> Result<i64, MissingRequest> {
    let Some(spec) = &pod.spec else { return Ok(0) };
    if of.container.is_none() && spec.requests.names(of.resource) {
        return Ok(spec.requests.get(of.resource).millis());
    }
    let is_sidecar =
        |container: &&HeldContainer| container.restart_policy.as_deref() == Some("Always");
    let counted =
        |container: &&HeldContainer| of.container.is_none_or(|name| name == container.name);
    let sidecars = spec.init_containers.iter().filter(is_sidecar);
    let mut all = spec.containers.iter().chain(sidecars).filter(counted);
    all.try_fold(0_i64, |sum, container| {
        let own: &Amounts = &container.requests;
        if !own.names(of.resource) {
            return Err(MissingRequest {
                resource: of.resource.to_owned(),
                container: container.name.clone(),
                pod: pod.metadata.name.clone().unwrap_or_default(),
            });
        }
        Ok(sum.saturating_add(own.get(of.resource).millis()))
    })
}
