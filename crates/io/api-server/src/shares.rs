//! What each user, and all users together, may have under way: watches, bytes of request bodies and
//! of answers. How many requests run is decided in `flow_gate`.
//!
//! Nothing waits here. A request beyond a limit gets 429 with `Retry-After`, which client-go obeys.
//! So a client that sends slowly holds what it has sent and nothing else, and there is no queue to
//! fill. A body or an answer of few bytes counts as some more, so bytes bound their number, too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_api::status::ApiError;
use rekindle_kinds::identity::ClientIdentity;

/// Watches and followed logs of one user at a time.
const LONG_RUNNING_OF_USER_MAX: usize = 1024;
/// Bytes of bodies that are read or handled, of all users: 21 of the largest.
const BODY_BYTES_MAX: usize = 64 << 20;
/// Of these only for the system's own users.
const BODY_BYTES_OF_SYSTEM: usize = 16 << 20;
/// Of these for one user: four of the largest.
const BODY_BYTES_OF_USER_MAX: usize = 12 << 20;
/// What a body counts at least, from when it is waited for.
const BODY_BYTES_MIN: usize = 16 << 10;
/// What an answer counts at least.
const ANSWER_BYTES_MIN: usize = 4 << 10;
/// Bytes of answers that wait for a slow client. Who has more gets no further answer.
const ANSWER_BYTES_OF_USER_MAX: usize = 64 << 20;
/// The same of all users.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Seconds after which a refused client tries again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// What is under way. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct UserShares(Arc<Mutex<ShareHoldings>>);

#[derive(Debug, Default)]
struct ShareHoldings {
    body_bytes: usize,
    answer_bytes: usize,
    /// By name. A user without requests has no entry.
    users: BTreeMap<String, UserHoldings>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct UserHoldings {
    long_running: usize,
    body_bytes: usize,
    answer_bytes: usize,
}

/// What one request holds. Dropping it gives everything back.
#[derive(Debug)]
pub(super) enum RequestShare {
    /// An anonymous request: it sees health and version, and has no body.
    Uncounted,
    Counted(CountedShare),
}

#[derive(Debug)]
pub(super) struct CountedShare {
    shares: UserShares,
    user: String,
    is_system: bool,
    is_long_running: bool,
    /// Bytes that have come.
    body_read: usize,
    /// Bytes that are counted for it.
    body_bytes: usize,
    answer_bytes: usize,
}

impl UserShares {
    /// Counts a request that begins.
    ///
    /// # Errors
    /// 429 when its user has too much under way.
    pub(super) fn begin(&self, identity: &ClientIdentity) -> Result<RequestShare, ApiError> {
        let user = match identity {
            ClientIdentity::Anonymous => return Ok(RequestShare::Uncounted),
            ClientIdentity::User(user) => user,
        };
        let (name, is_system) = (&user.name, user.is_system());
        let holdings = self.holdings();
        let all_answers = holdings.answer_bytes;
        let answers = holdings.users.get(name).map_or(0, |own| own.answer_bytes);
        drop(holdings);
        if !is_system && (answers >= ANSWER_BYTES_OF_USER_MAX || all_answers >= ANSWER_BYTES_MAX) {
            return Err(busy(format!(
                "answers of {answers} bytes wait for user {name:?} to read them: read them first"
            )));
        }
        Ok(RequestShare::Counted(CountedShare {
            shares: self.clone(),
            user: name.clone(),
            is_system,
            is_long_running: false,
            body_read: 0,
            body_bytes: 0,
            answer_bytes: 0,
        }))
    }

    fn holdings(&self) -> MutexGuard<'_, ShareHoldings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestShare {
    /// Takes room for a body that is waited for.
    ///
    /// # Errors
    /// 429 when there is none.
    pub(super) fn begin_body(&mut self) -> Result<(), ApiError> {
        self.take_body_bytes(0)
    }

    /// Takes room for more bytes of the body.
    ///
    /// # Errors
    /// 429 when there is none.
    pub(super) fn take_body_bytes(&mut self, bytes: usize) -> Result<(), ApiError> {
        match self {
            Self::Uncounted => Err(ApiError::unauthorized()),
            Self::Counted(share) => share.take_body_bytes(bytes),
        }
    }

    /// Gives the room of the body back: it has been handled.
    pub(super) fn give_body_back(&mut self) {
        match self {
            Self::Uncounted => {}
            Self::Counted(share) => {
                let bytes = std::mem::take(&mut share.body_bytes);
                share.body_read = 0;
                share.change(|all, own| {
                    *all.body_bytes -= bytes;
                    own.body_bytes -= bytes;
                });
            }
        }
    }

    /// Counts the bytes of the answer until the client has taken them.
    pub(super) fn hold_answer(&mut self, bytes: usize) {
        match self {
            Self::Uncounted => {}
            Self::Counted(share) => {
                let bytes = bytes.max(ANSWER_BYTES_MIN);
                share.answer_bytes += bytes;
                share.change(|all, own| {
                    *all.answer_bytes += bytes;
                    own.answer_bytes += bytes;
                });
            }
        }
    }

    /// The request goes on as a watch, or as a log.
    ///
    /// # Errors
    /// 429 when its user has too many of them.
    pub(super) fn go_on_for_long(&mut self) -> Result<(), ApiError> {
        match self {
            Self::Uncounted => Ok(()),
            Self::Counted(share) => share.go_on_for_long(),
        }
    }
}

impl CountedShare {
    fn take_body_bytes(&mut self, read: usize) -> Result<(), ApiError> {
        let body_read = self.body_read + read;
        let bytes = body_read.max(BODY_BYTES_MIN).saturating_sub(self.body_bytes);
        let mut holdings = self.shares.holdings();
        let all = holdings.body_bytes + bytes;
        let own = holdings.users.entry(self.user.clone()).or_default();
        let room = if self.is_system {
            BODY_BYTES_MAX
        } else if own.body_bytes + bytes > BODY_BYTES_OF_USER_MAX {
            return Err(busy(format!(
                "bodies of user {:?} take up {BODY_BYTES_OF_USER_MAX} bytes already",
                self.user
            )));
        } else {
            BODY_BYTES_MAX - BODY_BYTES_OF_SYSTEM
        };
        if all > room {
            return Err(busy(format!("bodies of requests take up {room} bytes already")));
        }
        own.body_bytes += bytes;
        holdings.body_bytes = all;
        drop(holdings);
        self.body_bytes += bytes;
        self.body_read = body_read;
        Ok(())
    }

    fn go_on_for_long(&mut self) -> Result<(), ApiError> {
        let (is_system, mut is_refused) = (self.is_system, false);
        self.change(|_, own| {
            is_refused = !is_system && own.long_running >= LONG_RUNNING_OF_USER_MAX;
            if !is_refused {
                own.long_running += 1;
            }
        });
        if is_refused {
            return Err(busy(format!(
                "{LONG_RUNNING_OF_USER_MAX} watches of user {:?} are open already",
                self.user
            )));
        }
        self.is_long_running = true;
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut ByteTotals<'_>, &mut UserHoldings)) {
        let mut holdings = self.shares.holdings();
        let ShareHoldings { body_bytes, answer_bytes, users } = &mut *holdings;
        let own = users.entry(self.user.clone()).or_default();
        change(&mut ByteTotals { body_bytes, answer_bytes }, own);
        if *own == UserHoldings::default() {
            users.remove(&self.user);
        }
    }
}

/// The bytes of all users.
struct ByteTotals<'h> {
    body_bytes: &'h mut usize,
    answer_bytes: &'h mut usize,
}

impl Drop for CountedShare {
    fn drop(&mut self) {
        let Self { is_long_running, body_bytes, answer_bytes, .. } = *self;
        self.change(|all, own| {
            *all.body_bytes -= body_bytes;
            *all.answer_bytes -= answer_bytes;
            own.body_bytes -= body_bytes;
            own.answer_bytes -= answer_bytes;
            if is_long_running {
                own.long_running -= 1;
            }
        });
    }
}

fn busy(problem: String) -> ApiError {
    ApiError::too_many_requests(problem, RETRY_AFTER_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rekindle_kinds::identity::UserInfo;

    fn user(name: &str) -> ClientIdentity {
        ClientIdentity::User(UserInfo::new(name, []))
    }

    fn admin() -> ClientIdentity {
        ClientIdentity::User(UserInfo::internal("admin"))
    }

    #[test]
    fn the_bytes_of_bodies_are_bounded_for_each_user_and_for_all() {
        let shares = UserShares::default();
        let mut ann = shares.begin(&user("ann")).unwrap();
        ann.take_body_bytes(BODY_BYTES_OF_USER_MAX).unwrap();
        let mut more = shares.begin(&user("ann")).unwrap();
        assert_eq!(more.take_body_bytes(1).unwrap_err().code(), 429);
        let others: Vec<RequestShare> = (0..3)
            .map(|number| {
                let mut other = shares.begin(&user(&number.to_string())).unwrap();
                other.take_body_bytes(BODY_BYTES_OF_USER_MAX).unwrap();
                other
            })
            .collect();
        let mut late = shares.begin(&user("late")).unwrap();
        assert_eq!(late.take_body_bytes(1).unwrap_err().code(), 429, "48 of 64 MiB are for users");
        let mut system = shares.begin(&admin()).unwrap();
        system.take_body_bytes(BODY_BYTES_OF_SYSTEM).unwrap();
        assert_eq!(system.take_body_bytes(1).unwrap_err().code(), 429, "all is all");
        drop(system);
        ann.give_body_back();
        late.take_body_bytes(1).unwrap();
        drop((ann, more, others, late));
        let left = shares.holdings();
        assert_eq!((left.body_bytes, left.users.len()), (0, 0), "nothing is kept of who has gone");
    }

    #[test]
    fn a_user_has_so_many_watches_and_the_system_as_many_as_it_needs() {
        let shares = UserShares::default();
        let watch = |who: &ClientIdentity| {
            let mut share = shares.begin(who).unwrap();
            share.go_on_for_long().map(|()| share)
        };
        let mut held: Vec<RequestShare> =
            (0..LONG_RUNNING_OF_USER_MAX).map(|_| watch(&user("ann")).unwrap()).collect();
        let refused = watch(&user("ann")).unwrap_err();
        assert_eq!(refused.status().details.as_ref().unwrap().retry_after_seconds, Some(1));
        watch(&user("bob")).unwrap();
        held.pop();
        held.push(watch(&user("ann")).unwrap());
        let system: Vec<_> = (0..=LONG_RUNNING_OF_USER_MAX).map(|_| watch(&admin())).collect();
        assert!(system.iter().all(Result::is_ok));
    }

    /// Else a user could have any number of requests whose bodies come a byte at a time.
    #[test]
    fn small_bodies_and_answers_are_bounded_in_number() {
        let shares = UserShares::default();
        let mut bodies = Vec::new();
        for number in 0..=BODY_BYTES_OF_USER_MAX / BODY_BYTES_MIN {
            let mut share = shares.begin(&user("ann")).unwrap();
            let begun = share.begin_body().and_then(|()| share.take_body_bytes(1));
            assert_eq!(begun.is_ok(), number < 768, "{number}");
            bodies.push(share);
        }
        let mut answers = Vec::new();
        while let Ok(mut share) = shares.begin(&user("bob")) {
            share.hold_answer(1);
            answers.push(share);
        }
        assert_eq!(answers.len(), ANSWER_BYTES_OF_USER_MAX / ANSWER_BYTES_MIN);
        drop((bodies, answers));
        assert!(shares.holdings().users.is_empty());
    }

    #[test]
    fn a_user_who_reads_no_answers_gets_no_more_of_them() {
        let shares = UserShares::default();
        let mut list = shares.begin(&user("ann")).unwrap();
        list.hold_answer(ANSWER_BYTES_OF_USER_MAX);
        assert_eq!(shares.begin(&user("ann")).unwrap_err().code(), 429);
        shares.begin(&user("bob")).unwrap();
        drop(list);
        shares.begin(&user("ann")).unwrap();
    }
}
