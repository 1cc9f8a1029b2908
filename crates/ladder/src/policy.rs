//! A RestartLadder, read and completed with its defaults.

use rekindle_types::v1alpha1::{LadderRung, OnExhausted, Refresh, RestartLadder, Rung};
use rekindle_types::{TickDuration, span};

/// Attempts count inside this window unless the ladder says otherwise.
const WINDOW_DEFAULT: TickDuration = TickDuration::from_secs(600);

/// A ladder that can be decided by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The ladder's name.
    pub name: String,
    /// The generation of its spec: an edited ladder is tried again on pods that had exhausted it.
    pub generation: Option<i64>,
    /// Attempts count inside it; running this long clears them.
    pub window: TickDuration,
    /// The rungs from the mildest on.
    pub steps: Vec<Step>,
    /// Pods of the ladder on a rung above Container at once; none is no limit.
    pub max_concurrent: Option<u32>,
    /// Restarts above Container per minute over all pods of the ladder; none is no limit.
    pub per_minute: Option<u32>,
    /// What to do when every rung was tried.
    pub on_exhausted: OnExhausted,
}

/// One rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is restarted.
    pub rung: Rung,
    /// How often inside the window; at least 1.
    pub attempts: u32,
    /// Of a Pod rung: what is made new.
    pub refresh: Vec<Refresh>,
    /// Of a Reschedule rung: how long the node is avoided, as the ladder says it.
    pub avoid_node_for: Option<String>,
}

/// Why a ladder cannot be decided by. The API refuses such a spec; on another cluster it may have got in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The window is not a span of time, or is none.
    #[error(
        "RestartLadder {ladder:?}: spec.window: {text:?} is not a duration such as 90s, 10m or 1h30m"
    )]
    Window {
        /// The ladder.
        ladder: String,
        /// What it says.
        text: String,
    },
    /// There is nothing to try.
    #[error("RestartLadder {ladder:?}: spec.rungs: a ladder needs a rung")]
    NoRungs {
        /// The ladder.
        ladder: String,
    },
    /// A rung stands twice, or below a milder one.
    #[error("RestartLadder {ladder:?}: spec.rungs: {rung} must come once, after every milder rung")]
    Order {
        /// The ladder.
        ladder: String,
        /// The rung.
        rung: Rung,
    },
    /// A rung that is never tried.
    #[error("RestartLadder {ladder:?}: spec.rungs: {rung}: attempts must be at least 1")]
    Attempts {
        /// The ladder.
        ladder: String,
        /// The rung.
        rung: Rung,
    },
    /// The pod's own annotations make no ladder.
    #[error("pod {pod:?}: annotation {annotation}: {problem}")]
    Annotation {
        /// The pod.
        pod: String,
        /// Which of them.
        annotation: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl Policy {
    /// Reads a ladder.
    ///
    /// # Errors
    /// When the window is no span of time, or the rungs are absent, out of order, repeated or without an attempt.
    pub fn of(ladder: &RestartLadder) -> Result<Policy, PolicyError> {
        let name = ladder.metadata.name.clone().unwrap_or_default();
        let spec = &ladder.spec;
        let window = match &spec.window {
            None => WINDOW_DEFAULT,
            Some(text) => span::parse(text)
                .ok()
                .filter(|window| *window > TickDuration::ZERO)
                .ok_or_else(|| PolicyError::Window { ladder: name.clone(), text: text.clone() })?,
        };
        if spec.rungs.is_empty() {
            return Err(PolicyError::NoRungs { ladder: name });
        }
        let mut steps: Vec<Step> = Vec::with_capacity(spec.rungs.len());
        for rung in &spec.rungs {
            if steps.last().is_some_and(|before| before.rung >= rung.rung) {
                return Err(PolicyError::Order { ladder: name, rung: rung.rung });
            }
            steps.push(step(rung, &name)?);
        }
        let budget = spec.budget.clone().unwrap_or_default();
        Ok(Policy {
            name,
            generation: ladder.metadata.generation,
            window,
            steps,
            max_concurrent: budget.max_concurrent,
            per_minute: budget.per_minute,
            on_exhausted: spec.on_exhausted.unwrap_or_default(),
        })
    }

    /// A rung of this ladder.
    pub fn step(&self, rung: Rung) -> Option<&Step> {
        self.steps.iter().find(|step| step.rung == rung)
    }
}

fn step(rung: &LadderRung, ladder: &str) -> Result<Step, PolicyError> {
    let attempts = rung.attempts.unwrap_or(1);
    if attempts == 0 {
        return Err(PolicyError::Attempts { ladder: ladder.to_owned(), rung: rung.rung });
    }
    let refresh = match (rung.rung, &rung.refresh) {
        (Rung::Pod, Some(refresh)) => refresh.clone(),
        (Rung::Pod, None) => Refresh::ALL.to_vec(),
        (
            Rung::Container | Rung::Containers | Rung::Recreate | Rung::Reschedule | Rung::Rollback,
            _,
        ) => Vec::new(),
    };
    let avoid_node_for = rung.avoid_node_for.clone();
    Ok(Step { rung: rung.rung, attempts, refresh, avoid_node_for })
}

#[cfg(test)]
mod tests;
