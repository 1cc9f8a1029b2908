//! The pods of a target as the calculator counts them.
//!
//! The CPU of a pod that is starting says nothing of its load. Source of behaviour: upstream's
//! `replica_calculator.go` (`groupPods`, `calculateRequests`) and the flags
//! `--horizontal-pod-autoscaler-cpu-initialization-period` and
//! `--horizontal-pod-autoscaler-initial-readiness-delay`.

use std::collections::BTreeMap;

use rekindle_types::held::{HeldContainer, HeldPod};
use rekindle_types::pods::AnySpec;
use rekindle_types::{Tick, TickDuration};

use super::replica_count::{PodSample, SampleStanding};
use crate::pods;
use crate::readings::{MeasuredPod, UsageReport};

/// A pod may be starting for so long: while it is not ready, its CPU does not count.
const CPU_INITIALIZATION: TickDuration = TickDuration::from_secs(5 * 60);
/// A pod that became unready within this time of its start has never been ready.
const INITIAL_READINESS_DELAY: TickDuration = TickDuration::from_secs(30);

/// A resource of all containers of a pod, or of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// The pods of a target at one look, and the samples that were taken of them. Several metrics of an
/// autoscaler may be about the same resource.
#[derive(Debug)]
pub(super) struct TargetSamples<'a> {
    pods: Vec<TargetPod<'a>>,
    now: Tick,
    taken: BTreeMap<MeasuredResource<'a>, Result<ResourceSamples, AbsentContainer>>,
}

/// A pod of a target, with what was measured of it.
#[derive(Clone, Copy, Debug)]
struct TargetPod<'a> {
    pod: &'a HeldPod,
    measured: Option<&'a MeasuredPod>,
}

/// What the pods use of a resource, and what they ask for.
#[derive(Debug)]
pub(super) struct ResourceSamples {
    /// One for each pod.
    pub(super) pods: Vec<PodSample>,
    /// Of the first pod that does not say how much it asks for.
    pub(super) missing_request: Option<MissingRequest>,
}

/// A container that no measured pod has. The text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("container {container} not present in metrics for pod {namespace}/{pod}")]
pub(super) struct AbsentContainer {
    container: String,
    namespace: String,
    pod: String,
}

impl<'a> TargetSamples<'a> {
    pub(super) fn new(pods: &[&'a HeldPod], report: &'a UsageReport, now: Tick) -> Self {
        let measured = |pod: &HeldPod| report.pods.get(pod.metadata.name.as_deref()?);
        let pods = pods.iter().map(|pod| TargetPod { pod, measured: measured(pod) }).collect();
        Self { pods, now, taken: BTreeMap::new() }
    }

    /// Whether any of the pods was measured.
    pub(super) fn has_measured(&self) -> bool {
        self.pods.iter().any(|pod| pod.measured.is_some())
    }

    /// The samples of a resource, taken once.
    ///
    /// # Errors
    /// When they are of a container that no measured pod has. Of one that a pod does not run just
    /// now nothing is known.
    pub(super) fn of(
        &mut self,
        of: MeasuredResource<'a>,
    ) -> Result<&ResourceSamples, AbsentContainer> {
        let (pods, now) = (&self.pods, self.now);
        let taken = self.taken.entry(of).or_insert_with(|| take(pods, of, now));
        taken.as_ref().map_err(AbsentContainer::clone)
    }
}

fn take(
    pods: &[TargetPod<'_>],
    of: MeasuredResource<'_>,
    now: Tick,
) -> Result<ResourceSamples, AbsentContainer> {
    if let Some(container) = of.container {
        check_container(container, pods)?;
    }
    let mut samples = ResourceSamples { pods: Vec::new(), missing_request: None };
    for target in pods {
        let mut sample = sample(target, of, now);
        match request_millis(target.pod, of) {
            Ok(millis) => sample.request_millis = millis,
            Err(missing) => {
                samples.missing_request.get_or_insert(missing);
            }
        }
        samples.pods.push(sample);
    }
    Ok(samples)
}

/// One of the pods must have the container.
fn check_container(container: &str, pods: &[TargetPod<'_>]) -> Result<(), AbsentContainer> {
    let has_container = |of: &MeasuredPod| of.containers.contains_key(container);
    let mut measured = pods.iter().filter(|target| target.measured.is_some());
    let Some(first) = measured.clone().next() else { return Ok(()) };
    if measured.any(|target| target.measured.is_some_and(has_container)) {
        return Ok(());
    }
    let meta = &first.pod.metadata;
    Err(AbsentContainer {
        container: container.to_owned(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        pod: meta.name.clone().unwrap_or_default(),
    })
}

/// How a pod counts, and what it uses.
fn sample(target: &TargetPod<'_>, of: MeasuredResource<'_>, now: Tick) -> PodSample {
    let TargetPod { pod, measured } = *target;
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
pub(super) fn standing(pod: &HeldPod) -> Option<SampleStanding> {
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
fn request_millis(pod: &HeldPod, of: MeasuredResource<'_>) -> Result<i64, MissingRequest> {
    let Some(spec) = &pod.spec else { return Ok(0) };
    if of.container.is_none() && spec.requests.names(of.resource) {
        return Ok(spec.requests.get(of.resource).millis());
    }
    let counted =
        |container: &&HeldContainer| of.container.is_none_or(|name| name == container.name);
    spec.lasting().filter(counted).try_fold(0_i64, |sum, container| {
        if !container.requests.names(of.resource) {
            return Err(MissingRequest {
                resource: of.resource.to_owned(),
                container: container.name.clone(),
                pod: pod.metadata.name.clone().unwrap_or_default(),
            });
        }
        Ok(sum.saturating_add(container.requests.get(of.resource).millis()))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_is_sampled_once_however_many_metrics_ask_for_it() {
        let pod: HeldPod = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"containers": [{"name": "main"}]},
        }))
        .unwrap();
        let measured = MeasuredPod {
            taken_at: Tick::ZERO,
            window: TickDuration::from_secs(15),
            containers: BTreeMap::from([("main".to_owned(), Default::default())]),
        };
        let report = UsageReport { pods: BTreeMap::from([("web".to_owned(), measured)]) };
        let mut samples = TargetSamples::new(&[&pod], &report, Tick::from_secs(1_000));
        let of = |resource, container| MeasuredResource { resource, container };
        let cpu = samples.of(of("cpu", None)).unwrap().pods.as_ptr();
        for other in [of("memory", None), of("cpu", Some("main")), of("cpu", Some("absent"))] {
            let is_absent = samples.of(other).is_err();
            assert_eq!(is_absent, other.container == Some("absent"));
        }
        assert_eq!(samples.of(of("cpu", None)).unwrap().pods.as_ptr(), cpu);
        assert_eq!(samples.taken.len(), 4);
    }
}
