//! What came of a scenario.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rekindle_types::TickDuration;
use serde_json::{Value, json};

use crate::server::Figures;
use crate::world::World;

/// What came of a scenario under one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The policy.
    pub policy: String,
    /// Restarts of containers, of all pods that ever were.
    pub restarts: u64,
    /// The same by namespace/name of the pod.
    pub restarts_by_pod: BTreeMap<String, u64>,
    /// Restart requests that nodes carried out in place.
    pub restarted_in_place: u64,
    /// Pods at the end.
    pub pods: usize,
    /// Those of them that are Ready.
    pub ready: usize,
    /// What was asked of the API.
    pub figures: Figures,
    /// Of everything that happened: the same seed, the same hash.
    pub trace_hash: u64,
    /// The first promise that did not hold.
    pub broken_promise: Option<String>,
}

impl Outcome {
    pub(crate) fn of(policy: &str, world: &World) -> Self {
        let mut by_pod = BTreeMap::new();
        for (pod, restarts) in world.restarts_by_pod() {
            // the UID after the name tells pods of the same name apart
            let name = pod.split(' ').next().unwrap_or(pod);
            *by_pod.entry(name.to_owned()).or_default() += restarts;
        }
        let (pods, ready) = world.readiness();
        Self {
            policy: policy.to_owned(),
            restarts: world.restarts(),
            restarts_by_pod: by_pod,
            restarted_in_place: world.rungs().values().sum(),
            pods,
            ready,
            figures: world.figures(),
            trace_hash: world.trace().hash(),
            broken_promise: world.broken_promise().map(str::to_owned),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "policy": self.policy,
            "restarts": self.restarts,
            "restartsByPod": self.restarts_by_pod,
            "restartedInPlace": self.restarted_in_place,
            "pods": self.pods,
            "readyPods": self.ready,
            "apiWrites": self.figures.writes,
            "apiEvents": self.figures.events,
            "apiRefused": self.figures.refused,
            "traceHash": format!("{:016x}", self.trace_hash),
            "brokenPromise": self.broken_promise,
        })
    }
}

/// What came of a scenario.
#[derive(Clone, Debug)]
pub struct Report {
    seed: u64,
    duration: TickDuration,
    /// By policy, in the order they were played.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// A report without outcomes.
    pub const fn new(seed: u64, duration: TickDuration) -> Self {
        Self { seed, duration, outcomes: Vec::new() }
    }

    /// For programs. `restarts` is that of the first policy.
    pub fn to_json(&self) -> Value {
        json!({
            "seed": self.seed,
            "seconds": self.duration.as_micros() / 1_000_000,
            "restarts": self.outcomes.first().map(|first| first.restarts),
            "policies": self.outcomes.iter().map(Outcome::to_json).collect::<Vec<_>>(),
        })
    }

    /// For people.
    pub fn table(&self) -> String {
        let names = self.outcomes.iter().map(|outcome| outcome.policy.chars().count());
        let width = names.max().unwrap_or(0).max("POLICY".len());
        let mut text = format!(
            "{:width$}  {:>9}  {:>9}  {:>9}  {:>10}  {:>10}\n",
            "POLICY", "RESTARTS", "IN PLACE", "READY", "API WRITES", "OF EVENTS"
        );
        for outcome in &self.outcomes {
            let ready = format!("{}/{}", outcome.ready, outcome.pods);
            let Outcome { policy, restarts, restarted_in_place, figures, .. } = outcome;
            let line = writeln!(
                text,
                "{policy:width$}  {restarts:>9}  {restarted_in_place:>9}  {ready:>9}  {:>10}  {:>10}",
                figures.writes, figures.events
            );
            line.expect("a string takes everything");
        }
        for outcome in &self.outcomes {
            if let Some(broken) = &outcome.broken_promise {
                let line = writeln!(text, "{}: a promise was broken: {broken}", outcome.policy);
                line.expect("a string takes everything");
            }
        }
        text
    }
}
