//! Shuffle sharding: each flow has a hand of queues, chosen by its hash. Two flows seldom share all
//! of them, so a flow that fills its own queues leaves others theirs.

/// Bits of a hash that hands may need, as upstream.
pub const HASH_BITS_MAX: u32 = 60;
/// Queues of a hand: more than 60 bits can choose.
const HAND_MAX: usize = 16;

/// Bits that it takes to choose a hand of so many queues, rounded up.
pub fn entropy_bits(queues: u32, hand_size: u32) -> u32 {
    let bits = f64::from(queues).log2() * f64::from(hand_size);
    // from 0 to some 10^12: a float holds it, and what is too large stays too large
    bits.ceil().min(f64::from(u32::MAX)) as u32
}

/// The different queues of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowHand {
    queues: [u32; HAND_MAX],
    size: usize,
}

impl FlowHand {
    /// Deals `hand_size` of the queues `0..queues`; at least one, and all of them at most.
    pub(crate) fn deal(flow: u64, queues: u32, hand_size: u32) -> Self {
        let queues = queues.max(1);
        let size = usize::try_from(hand_size.clamp(1, queues)).map_or(1, |size| size.min(HAND_MAX));
        let mut hand = Self { queues: [0; HAND_MAX], size: 0 };
        let (mut rest, mut left) = (flow, queues);
        while hand.size < size {
            let drawn = rest % u64::from(left);
            rest /= u64::from(left);
            left -= 1;
            hand.insert(u32::try_from(drawn).unwrap_or_default());
        }
        hand
    }

    /// Adds the queue that is the so-manyeth of those that are not in the hand. Keeps it sorted.
    fn insert(&mut self, drawn: u32) {
        let (mut queue, mut at) = (drawn, 0);
        while at < self.size && self.queues[at] <= queue {
            (queue, at) = (queue + 1, at + 1);
        }
        self.queues.copy_within(at..self.size, at + 1);
        self.queues[at] = queue;
        self.size += 1;
    }

    pub(crate) fn queues(&self) -> &[u32] {
        &self.queues[..self.size]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_entropy_of_a_hand_is_upstreams() {
        for (queues, hand, bits) in
            [(64, 8, 48), (128, 6, 42), (512, 8, 72), (16, 4, 16), (1, 1, 0)]
        {
            assert_eq!(entropy_bits(queues, hand), bits, "{queues} {hand}");
        }
    }

    proptest! {
        #[test]
        fn a_hand_has_so_many_different_queues(flow: u64, queues in 1u32..300, hand in 1u32..17) {
            let dealt = FlowHand::deal(flow, queues, hand);
            let dealt = dealt.queues();
            prop_assert_eq!(dealt.len(), hand.min(queues) as usize);
            prop_assert!(dealt.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", dealt);
            prop_assert!(dealt.iter().all(|queue| *queue < queues));
        }
    }

    /// Of all hands of 2 of 4 queues each is as frequent as the others.
    #[test]
    fn hands_are_spread_evenly() {
        let mut seen = std::collections::BTreeMap::new();
        for flow in 0..12_000u64 {
            *seen.entry(FlowHand::deal(flow, 4, 2).queues().to_vec()).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|count| *count == 2000), "{seen:?}");
    }
}
