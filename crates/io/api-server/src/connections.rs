//! Who has a place among the open connections of a server.
//!
//! ```text
//!   accepted ──▶ unidentified ──▶ of a user ──▶ closed
//!                 │ at most so many, and so many from one address;
//!                 └ one too many ends the oldest of them
//! ```
//!
//! So whoever floods a server with connections ends its own, and a client that says who it is keeps
//! its place. Users have a maximum each, and leave some places to the system's own.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rekindle_api::status::ApiError;
use rekindle_kinds::identity::UserInfo;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Connections that take up some megabytes together.
const MANY: usize = 32;

/// How many connections a server has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// In all.
    pub all_max: usize,
    /// Of clients that have not said yet who they are.
    pub unidentified_max: usize,
    /// Of these from one address; of IPv6 from one /64.
    pub unidentified_of_source_max: usize,
    /// Of one user, unless it is the system's own.
    pub of_user_max: usize,
    /// Kept for administrators, node agents and what runs in kube-system.
    pub reserved_for_system: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            all_max: 1024,
            unidentified_max: 256,
            unidentified_of_source_max: 128,
            of_user_max: 256,
            reserved_for_system: 128,
        }
    }
}

/// The open connections of one server. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ConnectionTable {
    limits: ConnectionLimits,
    open: Arc<Mutex<OpenConnections>>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// By number, which is by age.
    unidentified: BTreeMap<u64, UnidentifiedConnection>,
    /// By number, with the user's name.
    identified: BTreeMap<u64, String>,
    of_users: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct UnidentifiedConnection {
    source: IpAddr,
    end: Arc<Notify>,
}

/// The place of one connection. Dropping it makes room.
#[derive(Debug)]
pub(super) struct ConnectionSeat {
    table: ConnectionTable,
    number: u64,
    peer: IpAddr,
    source: IpAddr,
    entered: Instant,
    end: Arc<Notify>,
    is_identified: AtomicBool,
}

impl ConnectionTable {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self { limits, open: Arc::default() }
    }

    /// A place for a new connection. The oldest unidentified one ends when there are too many: of
    /// its source, or of all.
    pub(super) fn enter(&self, peer: IpAddr) -> ConnectionSeat {
        let (peer, source) = (peer.to_canonical(), network_of(peer));
        let mut open = self.open();
        let same = || open.unidentified.iter().filter(|(_, other)| other.source == source);
        let oldest = if same().count() >= self.limits.unidentified_of_source_max {
            same().next().map(|(number, _)| *number)
        } else if open.unidentified.len() >= self.limits.unidentified_max {
            open.unidentified.keys().next().copied()
        } else {
            None
        };
        if let Some(ended) = oldest.and_then(|number| open.unidentified.remove(&number)) {
            ended.end.notify_one();
        }
        let number = open.next;
        open.next += 1;
        let end = Arc::new(Notify::new());
        open.unidentified.insert(number, UnidentifiedConnection { source, end: Arc::clone(&end) });
        drop(open);
        let is_identified = AtomicBool::new(false);
        let (table, entered) = (self.clone(), Instant::now());
        ConnectionSeat { table, number, peer, source, entered, end, is_identified }
    }

    /// Connections that are open.
    pub(super) fn len(&self) -> usize {
        let open = self.open();
        open.unidentified.len() + open.identified.len()
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSeat {
    /// Where the client is; of IPv6 its network.
    pub(super) fn source(&self) -> IpAddr {
        self.source
    }

    /// The client's own address.
    pub(super) fn address(&self) -> IpAddr {
        self.peer
    }

    /// The client has said who it is. The first user counts, should it be several.
    ///
    /// # Errors
    /// 429 when that user, or all together, have too many connections.
    pub(super) fn identify(&self, user: &UserInfo) -> Result<(), ApiError> {
        if self.is_identified.load(Ordering::Acquire) {
            return Ok(());
        }
        let limits = &self.table.limits;
        let mut open = self.table.open();
        let own = open.of_users.get(&user.name).copied().unwrap_or_default();
        let for_all = limits.all_max.saturating_sub(limits.unidentified_max);
        let (for_users, of_user_max) = if user.is_system() {
            (for_all, for_all)
        } else {
            (for_all.saturating_sub(limits.reserved_for_system), limits.of_user_max)
        };
        if own >= of_user_max {
            let problem = format!("{own} connections of user {:?} are open already", user.name);
            return Err(ApiError::too_many_requests(problem, 1));
        }
        if open.identified.len() >= for_users {
            let problem = format!("{} connections are open already", open.identified.len());
            return Err(ApiError::too_many_requests(problem, 1));
        }
        // one that was ended before this stays so
        if open.unidentified.remove(&self.number).is_some() {
            open.identified.insert(self.number, user.name.clone());
            *open.of_users.entry(user.name.clone()).or_default() += 1;
            self.is_identified.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Whether so many connections are open that what they free is worth giving back.
    pub(super) fn is_one_of_many(&self) -> bool {
        self.table.len() > MANY
    }

    /// Resolves when another connection takes the place of this one.
    pub(super) async fn ended(&self) {
        self.end.notified().await;
    }

    /// Resolves when the client has not said who it is this long after it connected.
    pub(super) async fn overdue(&self, time: Duration) {
        sleep_until(self.entered + time).await;
        if self.is_identified.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for ConnectionSeat {
    fn drop(&mut self) {
        let mut open = self.table.open();
        open.unidentified.remove(&self.number);
        if let Some(user) = open.identified.remove(&self.number) {
            let left = open.of_users.get(&user).copied().unwrap_or_default().saturating_sub(1);
            match left {
                0 => open.of_users.remove(&user),
                left => open.of_users.insert(user, left),
            };
        }
    }
}

/// An IPv6 host has a network of addresses to itself.
fn network_of(source: IpAddr) -> IpAddr {
    const HOST_BITS: u32 = 64;
    match source.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() >> HOST_BITS << HOST_BITS).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        all_max: 10,
        unidentified_max: 4,
        unidentified_of_source_max: 2,
        of_user_max: 3,
        reserved_for_system: 2,
    };

    fn source(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    fn is_ended(seat: &ConnectionSeat) -> bool {
        seat.ended().now_or_never().is_some()
    }

    fn user(name: &str) -> UserInfo {
        UserInfo::new(name, [])
    }

    #[test]
    fn a_source_with_too_many_ends_its_own_oldest_and_no_other() {
        let table = ConnectionTable::new(LIMITS);
        let seats: Vec<_> = [9, 1, 1, 1].map(|number| table.enter(source(number))).into();
        assert_eq!(seats.iter().map(is_ended).collect::<Vec<_>>(), [false, true, false, false]);
    }

    #[test]
    fn when_all_places_are_taken_the_oldest_unidentified_ends() {
        let table = ConnectionTable::new(LIMITS);
        let seats: Vec<_> = [1, 1, 2, 2].map(|number| table.enter(source(number))).into();
        seats[0].identify(&user("ann")).unwrap();
        let more = [3, 4].map(|number| table.enter(source(number)));
        assert_eq!(seats.iter().map(is_ended).collect::<Vec<_>>(), [false, true, false, false]);
        assert!(!more.iter().any(is_ended));
        seats[1].identify(&user("late")).unwrap();
        assert_eq!(table.open().identified.len(), 1, "what has ended takes no place");
    }

    #[test]
    fn users_have_a_maximum_each_and_leave_places_to_the_system() {
        let table = ConnectionTable::new(LIMITS);
        let enter = |who: &UserInfo| {
            let seat = table.enter(source(1));
            seat.identify(who).map(|()| seat)
        };
        let mut held: Vec<_> = (0..3).map(|_| enter(&user("ann")).unwrap()).collect();
        let refused = enter(&user("ann")).unwrap_err();
        assert_eq!(refused.to_string(), r#"3 connections of user "ann" are open already"#);
        held.push(enter(&user("bob")).unwrap());
        assert_eq!(enter(&user("cal")).unwrap_err().to_string(), "4 connections are open already");
        for _ in 0..LIMITS.reserved_for_system {
            held.push(enter(&UserInfo::internal("admin")).unwrap());
        }
        assert!(enter(&UserInfo::internal("admin")).is_err(), "all is all");
        drop(held);
        let open = table.open();
        assert_eq!(
            (open.identified.len(), open.of_users.len(), open.unidentified.len()),
            (0, 0, 0)
        );
    }

    #[test]
    fn addresses_of_one_ipv6_network_and_of_both_families_are_one_source() {
        for (address, source) in [
            ("2001:db8:1:2:3::4", "2001:db8:1:2::"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(network_of(address.parse().unwrap()), source.parse::<IpAddr>().unwrap());
        }
    }
}
