//! How many replicas one metric asks for.
//!
//! ```text
//!   ratio    = what the counted pods use / what they should use
//!   replicas = ceil(ratio × counted pods), if the ratio is outside the tolerance
//! ```
//! A pod without a sample must not turn the decision: it counts as idle when more replicas are
//! asked for, and as fully used when fewer are. Source of behaviour: the documentation of
//! HorizontalPodAutoscaler ("Algorithm details") and upstream's
//! `pkg/controller/podautoscaler/replica_calculator.go`.

use rekindle_types::Quantity;

/// Without a tolerance of its own an autoscaler does nothing for a tenth more or less.
const DEFAULT_TOLERANCE: f64 = 0.1;

/// How a pod counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampleStanding {
    /// What it uses counts.
    Counted,
    /// It is starting: idle when more replicas are asked for, left out else.
    Unready,
    /// Nothing is known of what it uses.
    Missing,
    /// It ends or has failed: it is left out.
    LeftOut,
}

/// One pod of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodSample {
    pub(super) standing: SampleStanding,
    /// Thousandths that it asks for; of no meaning to a target that is an average.
    pub(super) request_millis: i64,
    /// Thousandths that it uses; zero where that is not known.
    pub(super) used_millis: i64,
}

/// What a metric should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceTarget {
    /// Percent of what the pods ask for.
    Utilization(i32),
    /// Thousandths per pod.
    AverageMillis(i64),
}

/// How far the ratio may be from 1 before anything is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MetricTolerance {
    pub(super) up: f64,
    pub(super) down: f64,
}

impl Default for MetricTolerance {
    fn default() -> Self {
        Self { up: DEFAULT_TOLERANCE, down: DEFAULT_TOLERANCE }
    }
}

impl MetricTolerance {
    /// From what an autoscaler says of each direction.
    pub(super) fn new(up: Option<Quantity>, down: Option<Quantity>) -> Self {
        let one = Quantity::from_units(1);
        let or_default =
            |own: Option<Quantity>| own.map_or(DEFAULT_TOLERANCE, |own| own.ratio_to(one));
        Self { up: or_default(up), down: or_default(down) }
    }

    pub(super) fn allows(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// What a metric asks for, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplicaProposal {
    pub(super) replicas: i32,
    /// Percent of what the pods ask for; none for a target that is an average.
    pub(super) utilization: Option<i32>,
    /// Thousandths per pod.
    pub(super) average_millis: i64,
}

/// Why a metric asks for nothing. The texts are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoProposal {
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NothingMeasured,
    #[error("no metrics returned matched known pods")]
    NothingRequested,
}

/// What the pods use together, as a share of what they should use.
#[derive(Clone, Copy, Debug)]
struct UsageRatio {
    ratio: f64,
    utilization: Option<i32>,
    average_millis: i64,
}

/// How many replicas the metric asks for, while there are `current` ones.
///
/// # Errors
/// When no pod's use counts, or those that count ask for nothing of the resource.
pub(super) fn propose(
    samples: &[PodSample],
    target: ResourceTarget,
    current: i32,
    tolerance: MetricTolerance,
) -> Result<ReplicaProposal, NoProposal> {
    let with = |standing| samples.iter().filter(move |sample| sample.standing == standing);
    let mut counted: Vec<PodSample> = with(SampleStanding::Counted).copied().collect();
    if counted.is_empty() {
        return Err(NoProposal::NothingMeasured);
    }
    let first = usage_ratio(&counted, target)?;
    let proposal = |replicas| ReplicaProposal {
        replicas,
        utilization: first.utilization,
        average_millis: first.average_millis,
    };
    let is_growing = first.ratio > 1.0;
    let unready = with(SampleStanding::Unready).count();
    let missing = with(SampleStanding::Missing).count();
    if missing == 0 && !(is_growing && unready > 0) {
        let replicas = match tolerance.allows(first.ratio) {
            true => current,
            false => ceil(first.ratio, counted.len()),
        };
        return Ok(proposal(replicas));
    }
    counted.extend(with(SampleStanding::Missing).filter_map(|sample| {
        let used_millis = assumed_millis(sample, target, first.ratio)?;
        Some(PodSample { used_millis, ..*sample })
    }));
    if is_growing {
        let idle = |sample: &PodSample| PodSample { used_millis: 0, ..*sample };
        counted.extend(with(SampleStanding::Unready).map(idle));
    }
    let second = usage_ratio(&counted, target)?;
    let replicas = ceil(second.ratio, counted.len());
    let turns = (first.ratio < 1.0 && second.ratio > 1.0)
        || (first.ratio > 1.0 && second.ratio < 1.0)
        || (second.ratio < 1.0 && replicas > current)
        || (second.ratio > 1.0 && replicas < current);
    Ok(proposal(if turns || tolerance.allows(second.ratio) { current } else { replicas }))
}

/// What a pod is taken to use of which nothing is known; none when it is left out.
fn assumed_millis(sample: &PodSample, target: ResourceTarget, ratio: f64) -> Option<i64> {
    match target {
        _ if ratio > 1.0 => Some(0),
        ResourceTarget::Utilization(percent) if ratio < 1.0 => {
            Some(sample.request_millis.saturating_mul(i64::from(percent.max(100))) / 100)
        }
        ResourceTarget::Utilization(_) => None,
        ResourceTarget::AverageMillis(millis) if ratio < 1.0 => Some(millis),
        ResourceTarget::AverageMillis(_) => Some(0),
    }
}

/// Whole percents and whole thousandths, as upstream reckons.
fn usage_ratio(counted: &[PodSample], target: ResourceTarget) -> Result<UsageRatio, NoProposal> {
    let pods = i64::try_from(counted.len()).unwrap_or(i64::MAX);
    let sum =
        |millis: fn(&PodSample) -> i64| counted.iter().map(millis).fold(0_i64, i64::saturating_add);
    let used = sum(|sample| sample.used_millis);
    let average_millis = used / pods;
    match target {
        ResourceTarget::Utilization(percent) => {
            let requested = sum(|sample| sample.request_millis);
            if requested == 0 {
                return Err(NoProposal::NothingRequested);
            }
            let utilization = i128::from(used) * 100 / i128::from(requested);
            let utilization = i32::try_from(utilization).unwrap_or(i32::MAX);
            let ratio = f64::from(utilization) / f64::from(percent);
            Ok(UsageRatio { ratio, utilization: Some(utilization), average_millis })
        }
        ResourceTarget::AverageMillis(millis) => {
            let ratio = average_millis as f64 / millis as f64;
            Ok(UsageRatio { ratio, utilization: None, average_millis })
        }
    }
}

/// A conversion of a float ends at the largest number there is.
pub(super) fn ceil(ratio: f64, pods: usize) -> i32 {
    (ratio * pods as f64).ceil() as i32
}
