//! How many seats each level has, and how levels lend each other seats.
//!
//! A level has its nominal seats: its share of the server's. A part of these it lends. All lendable
//! seats together are the pool. A level takes from the pool what it uses beyond the seats that it
//! does not lend. So the seats in use never exceed those of the server, and nothing has to be
//! adjusted from time to time.
//!
//! ```text
//!  nominal seats  = the server's seats * shares / all shares, rounded up
//!  |--- kept -----|-- lendable --|------ borrowed from the pool ------|
//!  0              kept           nominal                              most
//! ```

use crate::level::{LevelKind, LevelSettings};

/// The seats of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeatLimits {
    /// Its own.
    pub(crate) nominal: u32,
    /// Of these it never lends so many.
    pub(crate) kept: u32,
    /// Those that it may use when others lend.
    pub(crate) most: u32,
}

impl SeatLimits {
    /// Seats that it lends while it does not use them.
    pub(crate) fn lendable(&self) -> u32 {
        self.nominal - self.kept
    }

    /// What it takes from the pool when it uses so many seats.
    pub(crate) fn pool_part(&self, used: u32) -> u32 {
        used.saturating_sub(self.kept)
    }
}

/// The limits of each level, in their order.
pub(crate) fn of_levels(settings: &[&LevelSettings], server_seats: u32) -> Vec<SeatLimits> {
    let all_shares: u64 = settings.iter().map(|level| u64::from(level.shares)).sum();
    let nominal = |shares: u32| {
        let seats = (u64::from(server_seats) * u64::from(shares)).div_ceil(all_shares.max(1));
        u32::try_from(seats).unwrap_or(server_seats)
    };
    let part = |seats: u32, percent: u32| {
        let seats = (u64::from(seats) * u64::from(percent) + 50) / 100;
        u32::try_from(seats).unwrap_or(u32::MAX)
    };
    let of_level = |level: &&LevelSettings| {
        let nominal = nominal(level.shares);
        let kept = nominal - part(nominal, level.lendable_percent.min(100));
        let borrowed = match level.kind {
            // it needs no seat: what it uses shortens the pool by no more than it has lent
            LevelKind::Exempt => 0,
            LevelKind::Limited { borrowing_percent, .. } => {
                borrowing_percent.map_or(server_seats, |percent| part(nominal, percent))
            }
        };
        SeatLimits {
            nominal,
            kept,
            most: nominal.saturating_add(borrowed).min(server_seats.max(nominal)),
        }
    };
    settings.iter().map(of_level).collect()
}
