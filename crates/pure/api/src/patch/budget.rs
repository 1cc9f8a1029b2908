//! How much work one patch may make. A patch is small beside the object that it is applied to, and
//! each of its operations may touch all of the object: a size limit alone bounds no work. So work
//! is counted, in steps, and never timed.
//!
//! What a step is:
//! - looking at one value of the object or of the patch: 1, and 1 more for each [`BYTES_PER_STEP`]
//!   bytes of its text;
//! - copying one value: [`COPY_STEPS`] times as much, as it takes memory;
//! - moving the entries of a list up or down by one place: 1 for each [`MOVED_PER_STEP`] entries.
//!
//! Keys are looked up in ordered sets. A look-up counts as one look at the key; the logarithm is
//! left out.

use serde_json::Value;

use super::PatchError;

/// The steps that one patch may take. Most patches take less than a thousand; one that replaces all
/// of an object of the largest size takes less than a million.
pub const PATCH_STEPS_MAX: u64 = 10_000_000;

/// Bytes of a text that are compared in one step.
const BYTES_PER_STEP: usize = 64;
/// Steps to copy what is looked at in one.
const COPY_STEPS: u64 = 4;
/// Entries of a list that move in one step.
const MOVED_PER_STEP: usize = 4;

/// The steps that are left to a patch.
#[derive(Debug)]
pub(super) struct WorkBudget {
    left: u64,
}

/// How large a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueSize {
    /// The steps to look at all of it.
    pub(super) steps: u64,
    /// How deep it nests; 0 for what holds nothing.
    pub(super) depth: usize,
    /// Bytes of its texts and names, and one for each value: about what it takes as JSON.
    pub(super) bytes: usize,
}

impl ValueSize {
    fn hold(&mut self, inner: Self) {
        self.steps += inner.steps;
        self.bytes += inner.bytes;
        self.depth = self.depth.max(inner.depth + 1);
    }
}

impl WorkBudget {
    /// The budget of a new patch.
    pub(super) const fn new() -> Self {
        Self { left: PATCH_STEPS_MAX }
    }

    /// Takes steps for what is about to be done; `what` says so in the answer when too few are
    /// left.
    pub(super) fn spend(&mut self, steps: u64, what: &str) -> Result<(), PatchError> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(PatchError::TooMuch(format!(
                    "the patch needs more than the allowed {PATCH_STEPS_MAX} steps of work, for {what}; \
                     use several smaller patches, or replace the list or the object as a whole"
                )))
            }
        }
    }

    /// Takes one step for each of so many entries.
    pub(super) fn spend_entries(&mut self, entries: usize, what: &str) -> Result<(), PatchError> {
        self.spend(1 + steps(entries), what)
    }

    /// Looks at all of a value, and takes the steps for that. It recurses, as no value nests deeper
    /// than [`DEPTH_MAX`](crate::decode::DEPTH_MAX).
    pub(super) fn measure(&mut self, value: &Value, what: &str) -> Result<ValueSize, PatchError> {
        let text_bytes = match value {
            Value::String(text) => text.len(),
            Value::Object(fields) => fields.keys().map(String::len).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => 0,
        };
        let own = 1 + steps(text_bytes / BYTES_PER_STEP);
        self.spend(own, what)?;
        let mut extent = ValueSize { steps: own, depth: 0, bytes: 1 + text_bytes };
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            Value::Array(items) => {
                extent.depth = 1;
                for item in items {
                    extent.hold(self.measure(item, what)?);
                }
            }
            Value::Object(fields) => {
                extent.depth = 1;
                for value in fields.values() {
                    extent.hold(self.measure(value, what)?);
                }
            }
        }
        Ok(extent)
    }

    /// Takes the steps for a copy of what was measured.
    pub(super) fn spend_copy(&mut self, extent: ValueSize, what: &str) -> Result<(), PatchError> {
        self.spend(extent.steps.saturating_mul(COPY_STEPS), what)
    }

    /// Takes the steps for entries of a list that move by one place.
    pub(super) fn spend_moves(&mut self, entries: usize, what: &str) -> Result<(), PatchError> {
        self.spend(steps(1 + entries / MOVED_PER_STEP), what)
    }

    /// The steps that were taken so far.
    #[cfg(test)]
    pub(super) const fn spent(&self) -> u64 {
        PATCH_STEPS_MAX - self.left
    }
}

fn steps(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
