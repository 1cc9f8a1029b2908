//! What can go wrong with a simulation.

use rekindle_store::StoreError;
use rekindle_types::TickDuration;

use crate::spoken::spoken;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The scenario itself is wrong.
    #[error("{path}: {message}")]
    Scenario {
        /// The field, from the document's root.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The API refuses an object of the scenario.
    #[error("{operation} {object}: {message}")]
    Refused {
        /// What was to be done with it.
        operation: &'static str,
        /// Kind and name.
        object: String,
        /// The API's words.
        message: String,
    },
    /// What a script does in the middle of a run cannot be done.
    #[error("{who}, after {}: {why}", spoken(*.at))]
    Change {
        /// The field, from the document's root.
        who: String,
        /// How long after the beginning.
        at: TickDuration,
        /// Why not.
        why: Box<SimError>,
    },
    /// The store of the simulation.
    #[error("store of the simulation")]
    Store(#[from] StoreError),
    /// The disk of the simulation.
    #[error("disk of the simulation: {0}")]
    Disk(String),
    /// Something moves in a circle.
    #[error("after {steps} steps at the same moment nothing comes to rest; the last: {last}")]
    Circle {
        /// How many.
        steps: usize,
        /// What happened last.
        last: String,
    },
}

impl SimError {
    /// Of a change that this field asks for.
    pub(crate) fn of_change(self, who: &str, at: TickDuration) -> Self {
        Self::Change { who: who.to_owned(), at, why: Box::new(self) }
    }
}
