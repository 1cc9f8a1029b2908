//! How many tokens that are not good an address may show. Each costs the check of a signature.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rekindle_api::status::ApiError;
use rekindle_types::{Tick, TickDuration};
use sha2::{Digest, Sha256};

/// Bad tokens from one address at once.
const BURST: u64 = 100;
/// One more after this: 20 a second.
const PER_TOKEN: TickDuration = TickDuration::from_millis(50);
/// Addresses that are remembered; beyond, the one that was heard of first is forgotten.
const SOURCES_MAX: usize = 4096;
/// Good tokens that are remembered: who shows one is not refused for what others at its address
/// did.
const GOOD_MAX: usize = 1024;

type TokenDigest = [u8; 32];

/// What was shown. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct BadTokens(Arc<Mutex<TokenHistory>>);

#[derive(Debug, Default)]
struct TokenHistory {
    /// When all bad tokens of an address are forgiven.
    forgiven: BTreeMap<IpAddr, Tick>,
    good: BTreeSet<TokenDigest>,
    /// The same, oldest first.
    good_by_age: VecDeque<TokenDigest>,
}

impl BadTokens {
    /// Checks a token that this address shows.
    ///
    /// # Errors
    /// The one of `check`; 429 without a check when too many were bad.
    pub(super) fn check<T>(
        &self,
        (source, token): (IpAddr, &str),
        now: Tick,
        check: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let digest: TokenDigest = Sha256::digest(token).into();
        if self.has_too_many(source, &digest, now) {
            return Err(ApiError::too_many_requests("too many tokens were not valid", 1));
        }
        let checked = check();
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &checked {
            Ok(_) => shown.remember_good(digest),
            Err(_) => {
                shown.forget_good(&digest);
                shown.count_bad(source, now);
            }
        }
        checked
    }

    fn has_too_many(&self, source: IpAddr, digest: &TokenDigest, now: Tick) -> bool {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let forgiven = shown.forgiven.get(&source).copied().unwrap_or(now);
        forgiven.since(now) >= PER_TOKEN.saturating_mul(BURST) && !shown.good.contains(digest)
    }
}

impl TokenHistory {
    fn count_bad(&mut self, source: IpAddr, now: Tick) {
        if self.forgiven.len() >= SOURCES_MAX {
            self.forgiven.retain(|_, forgiven| *forgiven > now);
        }
        if self.forgiven.len() >= SOURCES_MAX {
            self.forgiven.pop_first();
        }
        let forgiven = self.forgiven.entry(source).or_insert(now);
        *forgiven = (*forgiven).max(now) + PER_TOKEN;
    }

    /// It has expired, or what it was made for is gone.
    fn forget_good(&mut self, digest: &TokenDigest) {
        if self.good.remove(digest) {
            self.good_by_age.retain(|good| good != digest);
        }
    }

    fn remember_good(&mut self, digest: TokenDigest) {
        if !self.good.insert(digest) {
            return;
        }
        self.good_by_age.push_back(digest);
        if self.good_by_age.len() > GOOD_MAX
            && let Some(oldest) = self.good_by_age.pop_front()
        {
            self.good.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_too_many_bad_tokens_costs_no_more_signatures_for_a_while() {
        let tokens = BadTokens::default();
        let (bad, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let now = Tick::from_secs(1_000);
        let mut checks = 0;
        let mut show = |source, token: &str, now| {
            tokens.check((source, token), now, || {
                checks += 1;
                if token == "good" { Ok(()) } else { Err(ApiError::unauthorized()) }
            })
        };
        show(bad, "good", now).unwrap();
        let codes: Vec<u16> =
            (0..1_000).map(|_| show(bad, "bad", now).unwrap_err().code().as_u16()).collect();
        assert_eq!(codes.iter().filter(|code| **code == 401).count() as u64, BURST);
        assert_eq!(codes.last(), Some(&429));
        show(bad, "good", now).unwrap();
        show(other, "another good", now).unwrap_err();
        let later = now + PER_TOKEN;
        assert_eq!(show(bad, "bad", later).unwrap_err().code(), 401);
        assert_eq!(show(bad, "bad", later).unwrap_err().code(), 429);
        assert_eq!(checks, BURST + 4);
    }

    #[test]
    fn a_token_that_was_good_once_counts_as_bad_when_it_is_over() {
        let tokens = BadTokens::default();
        let (source, now) = (IpAddr::from([10, 0, 0, 1]), Tick::from_secs(1_000));
        tokens.check((source, "token"), now, || Ok(())).unwrap();
        let over = || Err::<(), _>(ApiError::unauthorized());
        let refused = |_| tokens.check((source, "token"), now, over).unwrap_err().code();
        let codes: Vec<_> = (0..=BURST).map(refused).collect();
        assert_eq!(codes.last().unwrap().as_u16(), 429);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let tokens = BadTokens::default();
        let now = Tick::from_secs(1_000);
        for number in 0..10_000_u32 {
            let source = IpAddr::from(number.to_be_bytes());
            let _bad =
                tokens.check((source, "bad"), now, || Err::<(), _>(ApiError::unauthorized()));
            let _good = tokens.check((source, &number.to_string()), now, || Ok(()));
        }
        let shown = tokens.0.lock().unwrap();
        let kept = (shown.forgiven.len(), shown.good.len(), shown.good_by_age.len());
        assert_eq!(kept, (SOURCES_MAX, GOOD_MAX, GOOD_MAX));
    }
}
