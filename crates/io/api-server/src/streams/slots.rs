//! How many streams are open, of all clients and of each user.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_api::status::ApiError;

use crate::audit::AuditTrail;

/// Streams at one time, of all clients.
const STREAMS_MAX: usize = 512;
/// Streams at one time of one user, so that no user takes those of all others.
const STREAMS_OF_USER_MAX: usize = 128;

/// Streams that may be open. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Arc<Mutex<OpenStreams>>);

#[derive(Debug, Default)]
struct OpenStreams {
    all: usize,
    /// By the name of the user; a user without a stream is left out.
    of: BTreeMap<String, usize>,
}

/// The place of one open stream. Dropping it makes room.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    slots: Slots,
    user: String,
    /// The trail of the stream's request, which ends with it.
    trail: Option<Arc<AuditTrail>>,
}

impl StreamSlot {
    /// The same, as the end of its request's trail.
    pub(crate) fn ending(self, trail: Option<&Arc<AuditTrail>>) -> Self {
        let mut slot = self;
        slot.trail = trail.cloned();
        slot
    }
}

impl Slots {
    /// A place for a stream of this user.
    ///
    /// # Errors
    /// 429 when there is none.
    pub(crate) fn take(&self, user: &str) -> Result<StreamSlot, ApiError> {
        let mut open = self.open();
        let mine = open.of.get(user).copied().unwrap_or_default();
        let problem = if mine >= STREAMS_OF_USER_MAX {
            format!("{STREAMS_OF_USER_MAX} streams of user {user:?} are open already")
        } else if open.all >= STREAMS_MAX {
            format!("{STREAMS_MAX} streams are open already")
        } else {
            open.all += 1;
            open.of.insert(user.to_owned(), mine + 1);
            return Ok(StreamSlot { slots: self.clone(), user: user.to_owned(), trail: None });
        };
        Err(ApiError::too_many_requests(problem, 1))
    }

    fn open(&self) -> MutexGuard<'_, OpenStreams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut open = self.slots.open();
        open.all -= 1;
        let left = open.of.get(&self.user).copied().unwrap_or_default().saturating_sub(1);
        match left {
            0 => open.of.remove(&self.user),
            left => open.of.insert(self.user.clone(), left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(slots: &Slots, user: &str, count: usize) -> Vec<StreamSlot> {
        (0..count).map(|_| slots.take(user).unwrap()).collect()
    }

    #[test]
    fn no_user_takes_the_streams_of_all_others() {
        let slots = Slots::default();
        let mut ann = many(&slots, "ann", STREAMS_OF_USER_MAX);
        let refused = slots.take("ann").unwrap_err();
        assert_eq!(refused.code(), 429);
        assert!(refused.to_string().contains("streams of user \"ann\""), "{refused}");
        drop(slots.take("bob").unwrap());
        ann.pop();
        ann.push(slots.take("ann").unwrap());
        drop(ann);
        assert!(slots.open().of.is_empty(), "nothing is kept of who has no stream");
    }

    #[test]
    fn all_users_together_have_a_limit_too() {
        let slots = Slots::default();
        let users = STREAMS_MAX / STREAMS_OF_USER_MAX;
        let held: Vec<Vec<StreamSlot>> =
            (0..users).map(|user| many(&slots, &user.to_string(), STREAMS_OF_USER_MAX)).collect();
        assert!(slots.take("late").is_err());
        drop(held);
        assert!(slots.take("late").is_ok());
    }
}
