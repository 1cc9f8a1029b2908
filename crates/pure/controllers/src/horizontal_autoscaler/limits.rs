//! From what the metrics ask for to what is done: stabilisation windows, then policies, then the
//! least and the most. Source of behaviour: KEP-853, the documentation of HorizontalPodAutoscaler
//! ("Configurable scaling behavior") and upstream's `pkg/controller/podautoscaler/horizontal.go`.

use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerBehavior};
use rekindle_types::{Tick, TickDuration};

use super::history::ScalingHistory;

/// Without a window of its own: how long the highest recommendation holds (upstream's
/// `--horizontal-pod-autoscaler-downscale-stabilization`).
const SCALE_DOWN_WINDOW: TickDuration = TickDuration::from_secs(300);
/// Without behaviour: at most so many times as many at once …
const SCALE_UP_FACTOR: i32 = 2;
/// … or so many.
const SCALE_UP_LEAST: i32 = 4;

/// Between which an autoscaler stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplicaRange {
    pub(super) min: i32,
    pub(super) max: i32,
}

/// What an autoscaler does, and what is to be said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LimitedCount {
    pub(super) replicas: i32,
    /// Reason and message of AbleToScale.
    pub(super) stabilized: (&'static str, &'static str),
    /// Whether a limit holds it back.
    pub(super) is_limited: bool,
    /// Reason and message of ScalingLimited.
    pub(super) limit: (&'static str, &'static str),
}

const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABILIZED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN_STABILIZED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const WITHIN: (&str, &str) =
    ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const UP_LIMIT: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: (&str, &str) = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);

/// What is done when the metrics ask for `desired` replicas while there are `current` ones.
pub(super) fn limit(
    behavior: Option<&HorizontalPodAutoscalerBehavior>,
    history: &ScalingHistory,
    (current, desired): (i32, i32),
    range: ReplicaRange,
    now: Tick,
) -> LimitedCount {
    let (stable, reason) = match behavior {
        Some(behavior) => stabilize(behavior, history, (current, desired), now),
        None => stabilize_down(history, desired, now),
    };
    let stabilized = if stable == desired { READY } else { reason };
    let (replicas, limit) = match behavior {
        Some(behavior) => by_policies(behavior, history, (current, stable), range, now),
        None => by_factor((current, stable), range),
    };
    LimitedCount { replicas, stabilized, is_limited: replicas != stable, limit }
}

/// The reason, if the count is another than before.
type Explained = (i32, (&'static str, &'static str));

/// Without behaviour: the highest of the last five minutes.
fn stabilize_down(history: &ScalingHistory, desired: i32, now: Tick) -> Explained {
    let recent = history.recommendations.iter();
    let recent = recent.filter(|(at, _)| now.since(*at) <= SCALE_DOWN_WINDOW);
    (recent.map(|(_, count)| *count).fold(desired, i32::max), DOWN_STABILIZED)
}

/// The number nearest to the current one that no recommendation of either window speaks against.
fn stabilize(
    behavior: &HorizontalPodAutoscalerBehavior,
    history: &ScalingHistory,
    (current, desired): (i32, i32),
    now: Tick,
) -> Explained {
    let seconds = |rules: Option<&HPAScalingRules>| rules?.stabilization_window_seconds;
    let up = seconds(behavior.scale_up.as_ref()).map_or(TickDuration::ZERO, TickDuration::of_field);
    let down = seconds(behavior.scale_down.as_ref());
    let down = down.map_or(SCALE_DOWN_WINDOW, TickDuration::of_field);
    let within = |window: TickDuration| {
        let recent = history.recommendations.iter();
        recent.filter(move |(at, _)| now.since(*at) < window).map(|(_, count)| *count)
    };
    let least = within(up).fold(desired, i32::min);
    let most = within(down).fold(desired, i32::max);
    let reason = if desired >= current { UP_STABILIZED } else { DOWN_STABILIZED };
    (current.max(least).min(most), reason)
}

/// Without behaviour: twice as many, or four.
fn by_factor((current, desired): (i32, i32), range: ReplicaRange) -> Explained {
    let rate = current.saturating_mul(SCALE_UP_FACTOR).max(SCALE_UP_LEAST);
    if desired < range.min {
        (range.min, TOO_FEW)
    } else if desired > range.max.min(rate) {
        (range.max.min(rate), if range.max > rate { UP_LIMIT } else { TOO_MANY })
    } else {
        (desired, WITHIN)
    }
}

fn by_policies(
    behavior: &HorizontalPodAutoscalerBehavior,
    history: &ScalingHistory,
    (current, desired): (i32, i32),
    range: ReplicaRange,
    now: Tick,
) -> Explained {
    if desired > current {
        let rate =
            rate_limit(behavior.scale_up.as_ref(), history, current, ScaleDirection::Up, now);
        let rate = rate.max(current);
        let most = range.max.min(rate);
        if desired > most {
            return (most, if range.max > rate { UP_LIMIT } else { TOO_MANY });
        }
    } else if desired < current {
        let rate =
            rate_limit(behavior.scale_down.as_ref(), history, current, ScaleDirection::Down, now);
        let rate = rate.min(current);
        let least = range.min.max(rate);
        if desired < least {
            return (least, if range.min < rate { DOWN_LIMIT } else { TOO_FEW });
        }
    }
    (desired, WITHIN)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScaleDirection {
    Up,
    Down,
}

/// How far the policies let it go. Each counts from what there was when its period began.
fn rate_limit(
    rules: Option<&HPAScalingRules>,
    history: &ScalingHistory,
    current: i32,
    direction: ScaleDirection,
    now: Tick,
) -> i32 {
    let select = rules.and_then(|rules| rules.select_policy.as_deref()).unwrap_or("Max");
    if select == "Disabled" {
        return current;
    }
    let policies = rules.iter().flat_map(|rules| rules.policies.iter().flatten());
    let limits = policies.map(|policy| {
        let period = TickDuration::of_field(policy.period_seconds);
        let recent = history.changes.iter().filter(|(at, _)| now.since(*at) < period);
        let changed = recent.map(|(_, change)| *change).fold(0, i32::saturating_add);
        let at_begin = current.saturating_sub(changed);
        let share = f64::from(policy.value) / 100.0;
        match (policy.type_.as_str(), direction) {
            ("Percent", ScaleDirection::Up) => (f64::from(at_begin) * (1.0 + share)).ceil() as i32,
            ("Percent", ScaleDirection::Down) => (f64::from(at_begin) * (1.0 - share)) as i32,
            (_, ScaleDirection::Up) => at_begin.saturating_add(policy.value),
            (_, ScaleDirection::Down) => at_begin.saturating_sub(policy.value),
        }
    });
    // `Max` is the greatest change, whichever way it goes
    let furthest = match (select == "Min", direction) {
        (false, ScaleDirection::Up) | (true, ScaleDirection::Down) => limits.max(),
        (true, ScaleDirection::Up) | (false, ScaleDirection::Down) => limits.min(),
    };
    furthest.unwrap_or(current)
}
