//! What a candidate does about the Lease that it has read. The rules are those of client-go's
//! leader election (`k8s.io/client-go/tools/leaderelection`).
//!
//! A candidate trusts its own clock alone. A Lease of another holder is over when this candidate
//! has seen no change of it for the Lease's duration.

use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

/// The part of a Lease that the election is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ElectionRecord {
    /// Empty when the last holder gave the Lease back.
    pub(crate) holder_identity: String,
    pub(crate) lease_duration_seconds: u64,
    /// RFC 3339, with microseconds; so is `renew_time`.
    pub(crate) acquire_time: Option<String>,
    pub(crate) renew_time: Option<String>,
    pub(crate) lease_transitions: u64,
}

impl ElectionRecord {
    /// How long before this moment it was renewed or given back, by the clock of its writer.
    pub(crate) fn age(&self, now: SystemTime) -> Option<Duration> {
        let renewed = humantime::parse_rfc3339(self.renew_time.as_deref()?).ok()?;
        Some(now.duration_since(renewed).unwrap_or_default())
    }
}

/// What a candidate does about the record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CandidateMove {
    /// It holds the Lease: renew it.
    Renew,
    /// The Lease is free or over: take it.
    Take,
    /// Another holds it.
    StandBy,
}

/// One that wants to lead.
pub(crate) struct LeaderCandidate {
    identity: String,
    lease_duration: Duration,
    observed: Option<(ElectionRecord, Instant)>,
}

impl LeaderCandidate {
    pub(crate) fn new(identity: String, lease_duration: Duration) -> Self {
        Self { identity, lease_duration, observed: None }
    }

    /// Notes what the Lease says now, and decides what to do about it.
    pub(crate) fn observe(&mut self, record: &ElectionRecord, now: Instant) -> CandidateMove {
        let since = match &self.observed {
            Some((known, since)) if known == record => *since,
            Some(_) | None => {
                self.observed = Some((record.clone(), now));
                now
            }
        };
        let duration = Duration::from_secs(record.lease_duration_seconds);
        if record.holder_identity == self.identity {
            CandidateMove::Renew
        } else if record.holder_identity.is_empty() || since + duration <= now {
            CandidateMove::Take
        } else {
            CandidateMove::StandBy
        }
    }

    /// The record of the holder that renews its Lease.
    pub(crate) fn renewed(&self, before: &ElectionRecord, now: SystemTime) -> ElectionRecord {
        ElectionRecord { renew_time: Some(timestamp(now)), ..before.clone() }
    }

    /// The record of a new holder. `before` is `None` when there was no Lease.
    pub(crate) fn taken(&self, before: Option<&ElectionRecord>, now: SystemTime) -> ElectionRecord {
        ElectionRecord {
            holder_identity: self.identity.clone(),
            lease_duration_seconds: self.lease_duration.as_secs(),
            acquire_time: Some(timestamp(now)),
            renew_time: Some(timestamp(now)),
            lease_transitions: before.map_or(0, |before| before.lease_transitions + 1),
        }
    }

    /// The record of a holder that gives its Lease back: free at once, and over after a second for
    /// those that look at the times alone.
    pub(crate) fn released(&self, before: &ElectionRecord, now: SystemTime) -> ElectionRecord {
        ElectionRecord {
            holder_identity: String::new(),
            lease_duration_seconds: 1,
            acquire_time: Some(timestamp(now)),
            renew_time: Some(timestamp(now)),
            lease_transitions: before.lease_transitions,
        }
    }
}

fn timestamp(now: SystemTime) -> String {
    humantime::format_rfc3339_micros(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn candidate() -> LeaderCandidate {
        LeaderCandidate::new("b".to_owned(), LEASE)
    }

    fn held_by(identity: &str, renewed: &str) -> ElectionRecord {
        ElectionRecord {
            holder_identity: identity.to_owned(),
            lease_duration_seconds: 15,
            acquire_time: Some("2026-01-01T00:00:00.000000Z".to_owned()),
            renew_time: Some(renewed.to_owned()),
            lease_transitions: 3,
        }
    }

    #[test]
    fn a_lease_is_over_when_it_was_not_seen_to_change_for_its_duration() {
        let (mut candidate, start) = (candidate(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let (first, second) = (held_by("a", "first"), held_by("a", "second"));
        for (seconds, record, expected) in [
            (0, &first, CandidateMove::StandBy),
            (14, &first, CandidateMove::StandBy),
            // renewed in time: the count begins anew
            (15, &second, CandidateMove::StandBy),
            (29, &second, CandidateMove::StandBy),
            (30, &second, CandidateMove::Take),
        ] {
            assert_eq!(candidate.observe(record, at(seconds)), expected, "after {seconds} s");
        }
    }

    #[test]
    fn a_lease_that_was_given_back_is_taken_at_once_and_ones_own_is_renewed() {
        let (mut candidate, now, clock) = (candidate(), Instant::now(), SystemTime::UNIX_EPOCH);
        let held = held_by("a", "first");
        assert_eq!(candidate.observe(&held, now), CandidateMove::StandBy);
        let free = candidate.released(&held, clock);
        assert_eq!(candidate.observe(&free, now), CandidateMove::Take);
        let own = candidate.taken(Some(&free), clock);
        assert_eq!((own.holder_identity.as_str(), own.lease_transitions), ("b", 4));
        assert_eq!(candidate.observe(&own, now), CandidateMove::Renew);
        let renewed = candidate.renewed(&own, clock + Duration::from_micros(1_500_000));
        assert_eq!(renewed.renew_time.as_deref(), Some("1970-01-01T00:00:01.500000Z"));
        assert_eq!(renewed.acquire_time, own.acquire_time);
        assert_eq!(renewed.age(clock + Duration::from_secs(4)), Some(Duration::from_millis(2500)));
    }
}
