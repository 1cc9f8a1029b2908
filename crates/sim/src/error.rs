//! What can go wrong with a simulation.

use rekindle_store::StoreError;

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
