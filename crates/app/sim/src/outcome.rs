//! The outcome of one run: its figures, for programs and as a row of the report's table.

use std::collections::BTreeMap;

use rekindle_types::TickDuration;
use rekindle_types::v1alpha1::{CarriedOutBy, Rung};
use serde_json::{Value, json};

use crate::server::RequestFigures;
use crate::spoken::spoken;
use crate::timeline::{Outage, Timeline, TimelineSpan};
use crate::world::World;

/// So many pods are named in the table.
const MOST_SHOWN: usize = 3;

/// What came of a scenario under one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyOutcome {
    /// The policy.
    pub policy: String,
    /// Restarts of containers, of all pods that ever were.
    pub restarts: u64,
    /// Starts of containers, of all pods that ever were: a pod that takes the place of another
    /// begins with no restarts.
    pub starts: u64,
    /// The restarts by namespace/name of the pod.
    pub restarts_by_pod: BTreeMap<String, u64>,
    /// Restarts that were asked for, by rung and by what became of them.
    pub rungs: BTreeMap<Rung, BTreeMap<String, u64>>,
    /// Pods at the end.
    pub pods: usize,
    /// Those of them that are Ready.
    pub ready: usize,
    /// What was asked of the API.
    pub figures: RequestFigures,
    /// What happened when.
    pub timeline: Timeline,
    /// How long the run was.
    pub length: TickDuration,
    /// Behaviours of the scenario that chose no start of a container, by their numbers.
    pub unused_behaviours: Vec<usize>,
    /// Those that say when containers are ready, and chose none that has a readiness probe, by
    /// their numbers.
    pub unseen_readiness: Vec<usize>,
    /// Ladders that selected no pod, by namespace/name.
    pub idle_ladders: Vec<String>,
    /// What the API warned of, by the object.
    pub warnings: Vec<String>,
    /// Of everything that happened: the same seed, the same hash.
    pub trace_hash: u64,
    /// The first promise that did not hold.
    pub broken_promise: Option<String>,
}

impl PolicyOutcome {
    pub(crate) fn new(policy: &str, length: TickDuration, world: &World) -> Self {
        let mut by_pod = BTreeMap::new();
        // pods of the same name are told apart by their UIDs there
        for ((pod, _), restarts) in world.restarts_by_pod() {
            *by_pod.entry(pod.to_string()).or_default() += restarts;
        }
        let (pods, ready) = world.readiness();
        Self {
            policy: policy.to_owned(),
            restarts: world.restarts(),
            starts: world.tally().starts,
            restarts_by_pod: by_pod,
            rungs: world.rungs(),
            pods,
            ready,
            figures: world.figures(),
            timeline: world.timeline().clone(),
            length,
            unused_behaviours: world.unused_behaviours(),
            unseen_readiness: world.unseen_readiness(),
            idle_ladders: world.idle_ladders(),
            warnings: world.warnings().to_vec(),
            trace_hash: world.trace().hash(),
            broken_promise: world.broken_promise().map(str::to_owned),
        }
    }

    /// Requests of ladders that nodes carried out in place.
    pub fn restarted_in_place(&self) -> u64 {
        let in_place =
            self.rungs.iter().filter(|(rung, _)| rung.carried_out_by() == CarriedOutBy::Node);
        in_place.filter_map(|(_, phases)| phases.get("Succeeded")).sum()
    }

    /// The pods that were restarted most, for people; none when there is none.
    pub(crate) fn most_restarted(&self) -> Option<String> {
        let mut pods: Vec<_> =
            self.restarts_by_pod.iter().filter(|(_, count)| **count > 0).collect();
        pods.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let others = pods.len().saturating_sub(MOST_SHOWN);
        let most = pods.iter().take(MOST_SHOWN).map(|(pod, count)| format!("{pod} {count}"));
        let mut most = most.collect::<Vec<_>>().join(", ");
        most.push_str(&and_more(others));
        Some(most).filter(|most| !most.is_empty())
    }

    fn per_minute(&self, count: u64) -> f64 {
        let minutes = self.length.as_micros() as f64 / 60e6;
        (count as f64 / minutes * 100.0).round() / 100.0
    }

    pub(crate) fn to_json(&self) -> Value {
        let timeline = &self.timeline;
        let rungs: BTreeMap<String, _> =
            self.rungs.iter().map(|(rung, phases)| (format!("{rung:?}"), phases)).collect();
        json!({
            "policy": self.policy,
            "restarts": self.restarts,
            "starts": self.starts,
            "restartsByPod": self.restarts_by_pod,
            "restartedInPlace": self.restarted_in_place(),
            "rungs": rungs,
            "pods": self.pods,
            "readyPods": self.ready,
            "unavailablePodSeconds": seconds_of(timeline.missing_micros),
            "readyAfterSeconds": timeline.ready_after.map(seconds),
            "longestOutageSeconds": seconds(timeline.longest_outage()),
            "timeToRecoverySeconds": timeline.time_to_recovery().map(seconds),
            "outages": timeline.outages.iter().map(outage).collect::<Vec<_>>(),
            "apiWrites": self.figures.writes,
            "apiWritesPerMinute": self.per_minute(self.figures.writes),
            "apiWritesPerMinuteMax": timeline.writes_per_minute_max,
            "apiEvents": self.figures.events,
            "apiEventsPerMinute": self.per_minute(self.figures.events),
            "apiEventsPerMinuteMax": timeline.events_per_minute_max,
            "apiRefused": self.figures.refused,
            "timeline": spans(timeline),
            "traceHash": format!("{:016x}", self.trace_hash),
            "unusedBehaviours": self.unused_behaviours,
            "idleLadders": self.idle_ladders,
            "warnings": self.warnings,
            "brokenPromise": self.broken_promise,
        })
    }

    /// In the order of the table's heads.
    pub(crate) fn row(&self) -> Vec<String> {
        let rungs = self.rungs.iter().map(|(rung, phases)| {
            let count: u64 = phases.values().sum();
            format!("{rung:?} {count}")
        });
        let rungs: Vec<String> = rungs.collect();
        let timeline = &self.timeline;
        vec![
            self.policy.clone(),
            self.restarts.to_string(),
            self.starts.to_string(),
            if rungs.is_empty() { "-".to_owned() } else { rungs.join(", ") },
            format!("{}/{}", self.ready, self.pods),
            spoken(TickDuration::from_micros(
                u64::try_from(timeline.missing_micros).unwrap_or(u64::MAX),
            )),
            match timeline.time_to_recovery() {
                Some(time) => spoken(time),
                None => "not yet".to_owned(),
            },
            format!("{}", self.per_minute(self.figures.writes)),
            format!("{}", self.per_minute(self.figures.events)),
        ]
    }
}

fn seconds(duration: TickDuration) -> f64 {
    seconds_of(u128::from(duration.as_micros()))
}

/// With milliseconds.
fn seconds_of(micros: u128) -> f64 {
    (micros / 1_000) as f64 / 1e3
}

fn outage(outage: &Outage) -> Value {
    json!({
        "fromSeconds": seconds(outage.from),
        "untilSeconds": outage.until.map(seconds),
        "missing": outage.missing,
    })
}

fn spans(timeline: &Timeline) -> Value {
    let row =
        |value: fn(&TimelineSpan) -> u64| timeline.spans.iter().map(value).collect::<Vec<_>>();
    json!({
        "spanSeconds": seconds(timeline.span),
        "wanted": row(|span| span.wanted),
        "missing": row(|span| span.missing),
        "restarts": row(|span| span.restarts),
        "apiWrites": row(|span| span.writes),
        "apiEvents": row(|span| span.events),
    })
}

/// The pods that are not told one by one.
fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => ", and 1 more pod".to_owned(),
        _ => format!(", and {others} more pods"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_pod_is_one_pod() {
        let said = [0, 1, 2].map(and_more);
        assert_eq!(said, ["", ", and 1 more pod", ", and 2 more pods"]);
    }
}
