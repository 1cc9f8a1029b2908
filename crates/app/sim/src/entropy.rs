//! One seeded source of everything that is random in a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_api::Entropy;

use crate::trace::fnv;

/// A small generator with a state of 64 bits (splitmix64, Steele and others 2014): the same seed,
/// the same bytes.
#[derive(Clone, Debug)]
pub struct Seeded {
    state: u64,
}

impl Seeded {
    /// A generator of this seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

impl Entropy for Seeded {
    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.next().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }
}

/// What the API draws, UIDs and generated names, by what it is asked for: what else happens in a
/// run changes nothing about it. So the same pods come to the same nodes under all policies, as the
/// scheduler looks at many nodes by the UID of the pod. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct RequestEntropy {
    drawn: Arc<Mutex<EntropyDraws>>,
}

#[derive(Debug)]
struct EntropyDraws {
    seed: u64,
    /// Of the request that is being answered.
    stream: Seeded,
    /// How often the same was asked for, by its hash.
    times: BTreeMap<u64, u64>,
}

impl RequestEntropy {
    pub(crate) fn new(seed: u64) -> Self {
        let drawn = EntropyDraws { seed, stream: Seeded::new(seed), times: BTreeMap::new() };
        Self { drawn: Arc::new(Mutex::new(drawn)) }
    }

    /// Something is asked for: what is drawn from now on is for this.
    pub(crate) fn asked(&self, path: &str, body: &[u8]) {
        let hash = fnv(path.bytes().chain(body.iter().copied()));
        let mut drawn = self.drawn();
        let times = drawn.times.entry(hash).or_default();
        *times += 1;
        // each of the three goes through a round of its own
        let mut mixed = Seeded::new(hash.wrapping_add(*times));
        let mixed = mixed.next();
        drawn.stream = Seeded::new(drawn.seed ^ mixed);
    }

    fn drawn(&self) -> MutexGuard<'_, EntropyDraws> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entropy for RequestEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.drawn().stream.fill(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_request_draws_the_same_whatever_was_asked_for_before() {
        let draw = |source: &mut RequestEntropy, path: &str| {
            source.asked(path, b"{}");
            let mut bytes = [0; 16];
            source.fill(&mut bytes);
            bytes
        };
        let (mut one, mut other) = (RequestEntropy::new(1), RequestEntropy::new(1));
        let first = draw(&mut one, "/pods");
        draw(&mut other, "/podrestarts");
        assert_eq!(draw(&mut other, "/pods"), first);
        let again = draw(&mut one, "/pods");
        assert_ne!(again, first, "two pods are two");
        assert_eq!(draw(&mut other, "/pods"), again);
        assert_ne!(draw(&mut RequestEntropy::new(2), "/pods"), first);
    }
}
