//! How fast CPU time is used: between two looks, of which the one before is remembered.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rekindle_runtime::{CgroupUsage, RuntimeError};
use rekindle_types::{Tick, TickDuration};

use super::read::{UsageReader, UsageScope};
use super::snapshot::NodeUsage;
use crate::clock::Clock;

/// Looks that are closer together say little.
const WINDOW_MIN: TickDuration = TickDuration::from_secs(1);
/// From this age on a look is replaced by a newer one.
const WINDOW: TickDuration = TickDuration::from_secs(15);
/// A look that is older says nothing of now.
const WINDOW_MAX: TickDuration = TickDuration::from_secs(60);
/// How often one who asks takes a look for its rates.
const TRIES: u32 = 3;

/// CPU time by what used it.
#[derive(Debug, Default)]
struct CpuSample {
    taken_at: Tick,
    cpu: BTreeMap<String, (Tick, u64)>,
}

/// Remembers a look.
#[derive(Debug, Default)]
pub(crate) struct CpuSampler(Mutex<CpuSample>);

/// How fast CPU time was used between two looks.
#[derive(Debug, Default)]
pub(crate) struct CpuRates {
    /// Between the looks; zero when there was none that would be of use.
    pub(crate) window: TickDuration,
    nanocores: BTreeMap<String, u64>,
}

impl CpuRates {
    /// Billionths of a core; `None` where there was no earlier look.
    pub(crate) fn nanocores(&self, who: &CpuConsumer<'_>) -> Option<u64> {
        self.nanocores.get(&who.name()).copied()
    }
}

/// Whose CPU time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CpuConsumer<'a> {
    /// The machine's.
    Machine,
    /// A pod's, by its UID.
    Pod(&'a str),
    /// A container's, by its id.
    Container(&'a str),
}

impl CpuConsumer<'_> {
    fn name(&self) -> String {
        match self {
            Self::Machine => "machine".to_owned(),
            Self::Pod(uid) => format!("pod/{uid}"),
            Self::Container(id) => format!("container/{id}"),
        }
    }
}

impl CpuSample {
    fn from_usage(usage: &NodeUsage) -> Self {
        let mut look = Self { taken_at: usage.taken_at, cpu: BTreeMap::new() };
        look.add(&CpuConsumer::Machine, Some(&usage.node.cgroup));
        for pod in &usage.pods {
            look.add(&CpuConsumer::Pod(&pod.pod_ref.uid.0), pod.cgroup.as_ref());
            for container in &pod.containers {
                look.add(&CpuConsumer::Container(&container.id), container.cgroup.as_ref());
            }
        }
        look
    }

    fn add(&mut self, who: &CpuConsumer<'_>, usage: Option<&CgroupUsage>) {
        if let Some(usage) = usage
            && let Some(cpu) = usage.cpu
        {
            self.cpu.insert(who.name(), (usage.taken_at, cpu.usage_ns));
        }
    }
}

impl CpuSampler {
    fn known(&self) -> MutexGuard<'_, CpuSample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rates since the look before, if that is of use; this one is remembered when it is time
    /// to.
    pub(crate) fn since_last(&self, usage: &NodeUsage) -> CpuRates {
        let new = CpuSample::from_usage(usage);
        let mut known = self.known();
        let window = new.taken_at.since(known.taken_at);
        if window < WINDOW_MIN {
            return CpuRates::default();
        }
        let rates = if window <= WINDOW_MAX {
            CpuRates { window, nanocores: between(&known, &new) }
        } else {
            CpuRates::default()
        };
        if window >= WINDOW {
            *known = new;
        }
        rates
    }

    /// A look with rates. When there was none lately, this takes one, and another after a second.
    pub(crate) async fn take(
        &self,
        reader: &UsageReader,
        clock: Clock,
    ) -> Result<(NodeUsage, CpuRates), RuntimeError> {
        let mut tries = TRIES;
        loop {
            let age = clock.now().since(self.known().taken_at);
            if age > WINDOW_MAX {
                let first = CpuSample::from_usage(&reader.take(UsageScope::Processes).await?);
                *self.known() = first;
                tokio::time::sleep(WINDOW_MIN.to_std()).await;
            } else if age < WINDOW_MIN {
                tokio::time::sleep((WINDOW_MIN - age).to_std()).await;
            }
            let usage = reader.take(UsageScope::Processes).await?;
            let rates = self.since_last(&usage);
            tries -= 1;
            // somebody else may have looked in between, or the look before has just become too old
            if rates.window > TickDuration::ZERO || tries == 0 {
                return Ok((usage, rates));
            }
        }
    }
}

/// What was not there before has used its time since it began.
fn between(old: &CpuSample, new: &CpuSample) -> BTreeMap<String, u64> {
    let rate = |(name, (at, usage_ns)): (&String, &(Tick, u64))| {
        let (since, before_ns) = old.cpu.get(name).copied().unwrap_or((old.taken_at, 0));
        let micros = u128::from(at.since(since).as_micros());
        let used = u128::from(usage_ns.saturating_sub(before_ns)) * 1_000_000;
        let nanocores = used.checked_div(micros)?;
        Some((name.clone(), u64::try_from(nanocores).unwrap_or(u64::MAX)))
    };
    new.cpu.iter().filter_map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(seconds: u64, cpu: &[(&str, u64)]) -> CpuSample {
        let taken_at = Tick::from_secs(seconds);
        let cpu = cpu.iter().map(|(name, ns)| ((*name).to_owned(), (taken_at, *ns)));
        CpuSample { taken_at, cpu: cpu.collect() }
    }

    #[test]
    fn a_rate_is_time_used_by_time_passed() {
        let old = look(100, &[("a", 5_000_000_000), ("gone", 7)]);
        let new = look(110, &[("a", 10_000_000_000), ("new", 2_000_000_000)]);
        let rates = between(&old, &new);
        assert_eq!(rates.get("a"), Some(&500_000_000), "half a core");
        assert_eq!(rates.get("new"), Some(&200_000_000));
        assert_eq!(rates.get("gone"), None);
    }

    #[test]
    fn an_account_that_began_anew_is_no_negative_rate() {
        let rates = between(&look(1, &[("a", 9)]), &look(2, &[("a", 3)]));
        assert_eq!(rates.get("a"), Some(&0));
    }
}
