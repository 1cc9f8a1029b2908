//! A RestartLadder, read and completed with its defaults.

use std::borrow::Cow;

use rekindle_types::v1alpha1::{
    EmptyDirPolicy, LADDER_WINDOW_DEFAULT, LadderAnnotationError, LadderRung, LadderScope,
    OnExhausted, RUNG_ATTEMPTS_DEFAULT, RestartLadder, RestartLadderSpec, Rung,
};
use rekindle_types::validation::FieldError;
use rekindle_types::{TickDuration, span};

/// A ladder that can be decided by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LadderPolicy {
    /// The ladder's name.
    pub name: String,
    /// The generation of its spec: an edited ladder is tried again on pods that had exhausted it.
    pub generation: Option<i64>,
    /// The ladder's UID; none of one in annotations. Another ladder of the same name is tried
    /// again, too.
    pub uid: Option<String>,
    /// What fails and is restarted as one.
    pub scope: LadderScope,
    /// Attempts count inside it; running this long clears them.
    pub window: TickDuration,
    /// The rungs from the mildest on.
    pub steps: Vec<RungPolicy>,
    /// Pods of the ladder on a rung above Container at once; none is no limit.
    pub max_concurrent: Option<u32>,
    /// Restarts above Container per minute over all pods of the ladder; none is no limit.
    pub per_minute: Option<u32>,
    /// What to do when every rung was tried.
    pub on_exhausted: OnExhausted,
}

/// One rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RungPolicy {
    /// What is restarted.
    pub rung: Rung,
    /// How often inside the window; at least 1.
    pub attempts: u32,
    /// Of a Pod rung: what becomes of emptyDir volumes, as the ladder says it.
    pub empty_dirs: Option<EmptyDirPolicy>,
    /// Of a Reschedule rung: how long the node is avoided, as the ladder says it.
    pub avoid_node_for: Option<String>,
}

/// Why a ladder cannot be decided by. The API refuses such a spec; on another cluster it may have
/// got in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LadderPolicyError {
    /// The object's spec breaks the rules.
    #[error("RestartLadder {ladder:?}: {}", in_words(faults))]
    Ladder {
        /// The ladder.
        ladder: String,
        /// What is wrong with it; at least one.
        faults: Vec<FieldError>,
    },
    /// The pod's own annotations make no ladder.
    #[error("pod {pod:?}: {}", in_words(broken))]
    Annotations {
        /// The pod.
        pod: String,
        /// What is wrong with them; at least one.
        broken: Vec<LadderAnnotationError>,
    },
}

fn in_words(faults: &[impl ToString]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl LadderPolicy {
    /// Reads a ladder.
    ///
    /// # Errors
    /// When its spec breaks a rule that the API holds ladders to.
    pub fn from_ladder(ladder: &RestartLadder) -> Result<LadderPolicy, LadderPolicyError> {
        let faults = ladder.spec.faults();
        let name = ladder.metadata.name.clone().unwrap_or_default();
        if faults.is_empty() {
            let policy = LadderPolicy::of_spec(name, ladder.metadata.generation, &ladder.spec);
            Ok(LadderPolicy { uid: ladder.metadata.uid.clone(), ..policy })
        } else {
            Err(LadderPolicyError::Ladder { ladder: name, faults })
        }
    }

    /// Completes a spec that keeps the rules.
    pub fn of_spec(
        name: String,
        generation: Option<i64>,
        spec: &RestartLadderSpec,
    ) -> LadderPolicy {
        let window = spec.window.as_deref().unwrap_or(LADDER_WINDOW_DEFAULT);
        let budget = spec.budget.clone().unwrap_or_default();
        LadderPolicy {
            name,
            generation,
            uid: None,
            scope: spec.scope(),
            window: span::parse(window).expect("the rules ask for a span of time"),
            steps: spec.rungs.iter().map(step).collect(),
            max_concurrent: budget.max_concurrent,
            per_minute: budget.per_minute,
            on_exhausted: spec.on_exhausted.unwrap_or_default(),
        }
    }

    /// The same ladder without rungs that a pod cannot be restarted on: what would be refused is no
    /// attempt.
    pub(crate) fn without(&self, impossible: &[Rung]) -> Cow<'_, LadderPolicy> {
        if self.steps.iter().all(|step| !impossible.contains(&step.rung)) {
            return Cow::Borrowed(self);
        }
        let mut possible = self.clone();
        possible.steps.retain(|step| !impossible.contains(&step.rung));
        Cow::Owned(possible)
    }

    /// A rung of this ladder.
    pub fn step(&self, rung: Rung) -> Option<&RungPolicy> {
        self.steps.iter().find(|step| step.rung == rung)
    }
}

fn step(rung: &LadderRung) -> RungPolicy {
    let attempts = rung.attempts.unwrap_or(RUNG_ATTEMPTS_DEFAULT);
    let avoid_node_for = rung.avoid_node_for.clone();
    RungPolicy { rung: rung.rung, attempts, empty_dirs: rung.empty_dirs, avoid_node_for }
}

#[cfg(test)]
mod tests;
