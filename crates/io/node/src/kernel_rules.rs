//! How rules in the kernel stand to those that are wanted, and when they are written again.

use std::time::Duration;

use tokio::time::Instant;

/// Until rules that could not be written are tried again: at first, and at most.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(200);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

/// How the rules in the kernel are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelRules<Listed> {
    /// Those of an engine before, if any: not all that they follow has been listed yet.
    Unlisted(Listed),
    /// As they are wanted.
    Current,
    /// Another's, or unknown: to be written anew after this time.
    Stale { since: Instant, after: Duration },
}

impl<Listed> KernelRules<Listed> {
    /// When they are to be written again, if nothing happens before.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        match self {
            Self::Stale { since, after } => Some(*since + *after),
            Self::Current | Self::Unlisted(_) => None,
        }
    }

    /// They could not be written.
    pub(crate) fn failed(&mut self) {
        let after = match self {
            Self::Stale { after, .. } => (*after * 2).min(RETRY_AFTER_MAX),
            Self::Current | Self::Unlisted(_) => RETRY_AFTER_MIN,
        };
        *self = Self::Stale { since: Instant::now(), after };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rules_that_cannot_be_written_are_tried_ever_less_often() {
        let mut rules = KernelRules::<()>::Current;
        let mut waits = Vec::new();
        for _ in 0..8 {
            rules.failed();
            waits.push((rules.retry_at().unwrap() - Instant::now()).as_millis());
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        rules = KernelRules::Current;
        assert_eq!(rules.retry_at(), None);
        rules.failed();
        assert_eq!(rules.retry_at(), Some(Instant::now() + RETRY_AFTER_MIN));
    }
}
