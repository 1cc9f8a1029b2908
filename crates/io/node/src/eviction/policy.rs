//! When pods are evicted: the kubelet's settings, read and checked.

use std::collections::BTreeMap;

use rekindle_types::{Quantity, TickDuration, span};

use super::signal::EvictionSignal;

/// The kubelet's default hard thresholds.
const HARD_DEFAULT: [(EvictionSignal, &str); 5] = [
    (EvictionSignal::MemoryAvailable, "100Mi"),
    (EvictionSignal::NodeFsAvailable, "10%"),
    (EvictionSignal::NodeFsInodesFree, "5%"),
    (EvictionSignal::ImageFsAvailable, "15%"),
    (EvictionSignal::ImageFsInodesFree, "5%"),
];
/// How long a pressure is shown after it was last seen.
const TRANSITION_PERIOD: TickDuration = TickDuration::from_secs(300);
/// Between two looks at what is left.
const MONITORING_PERIOD: TickDuration = TickDuration::from_secs(10);
const MILLION: u32 = 1_000_000;

/// When pods are evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionPolicy {
    /// Hard ones first.
    pub thresholds: Vec<Threshold>,
    /// How long a pressure is shown after it was last seen (`evictionPressureTransitionPeriod`).
    pub transition_period: TickDuration,
    /// The most grace that a pod gets at a soft threshold (`evictionMaxPodGracePeriod`).
    pub max_pod_grace: TickDuration,
    /// Between two looks at what is left.
    pub monitoring_period: TickDuration,
}

/// Less than this is too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Of what.
    pub signal: EvictionSignal,
    /// How much.
    pub amount: ThresholdAmount,
    /// How long it may last.
    pub kind: ThresholdKind,
    /// How much more than that must be had back before it is over (`evictionMinimumReclaim`).
    pub min_reclaim: ThresholdAmount,
    /// Where it holds.
    pub place: ThresholdScope,
}

/// An amount of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdAmount {
    /// Bytes, or a count.
    Units(u64),
    /// Of the capacity, in millionths.
    Millionths(u32),
}

/// How long a threshold may be passed before pods are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdKind {
    /// Not at all, and pods get no time.
    Hard,
    /// So long, and pods get some of their grace period.
    Soft {
        /// `evictionSoftGracePeriod`.
        grace: TickDuration,
    },
}

/// Where a threshold holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdScope {
    /// On every node.
    Everywhere,
    /// Where images have a file system of their own. The kubelet's default for images is stricter
    /// than the one for the rest: on a file system that is the user's own it would stop everything
    /// while there is plenty left.
    DedicatedImageFs,
}

/// Settings that make no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvictionPolicyError {
    /// No such signal.
    #[error("{field}: unrecognized eviction signal {name}: give one of {}", signals())]
    Signal {
        /// The setting.
        field: &'static str,
        /// What was given.
        name: String,
    },
    /// An amount that is none.
    #[error(
        "{field}[{signal}]: {text:?} is neither a positive quantity nor a percentage from 0% to 100%"
    )]
    Amount {
        /// The setting.
        field: &'static str,
        /// The signal.
        signal: EvictionSignal,
        /// What was given.
        text: String,
    },
    /// A span of time that is none.
    #[error("{field}[{signal}]: {text:?} is no span of time such as 1m30s")]
    Grace {
        /// The setting.
        field: &'static str,
        /// The signal.
        signal: EvictionSignal,
        /// What was given.
        text: String,
    },
    /// A soft threshold needs a grace period.
    #[error(
        "evictionSoftGracePeriod: grace period must be specified for the soft eviction threshold {0}"
    )]
    GraceMissing(EvictionSignal),
}

fn signals() -> String {
    EvictionSignal::ALL.map(EvictionSignal::name).join(", ")
}

/// Names and amounts as settings give them.
pub(crate) type Amounts = BTreeMap<String, String>;

/// Thresholds as settings give them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThresholdSettings {
    /// `evictionHard`; none: the defaults.
    pub hard: Option<Amounts>,
    /// `mergeDefaultEvictionSettings`: defaults for the signals that `hard` does not name.
    pub defaults: Defaults,
    /// `evictionSoft`.
    pub soft: Amounts,
    /// `evictionSoftGracePeriod`.
    pub soft_grace: Amounts,
    /// `evictionMinimumReclaim`.
    pub min_reclaim: Amounts,
}

/// What holds for signals that `evictionHard` does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Defaults {
    /// Nothing.
    #[default]
    Replaced,
    /// The defaults.
    Merged,
}

impl Default for EvictionPolicy {
    fn default() -> Self {
        Self {
            thresholds: HARD_DEFAULT.iter().filter_map(|line| default_threshold(*line)).collect(),
            ..Self::off()
        }
    }
}

impl EvictionPolicy {
    /// No thresholds: nothing is evicted but for its own limits.
    pub const fn off() -> Self {
        Self {
            thresholds: Vec::new(),
            transition_period: TRANSITION_PERIOD,
            max_pod_grace: TickDuration::ZERO,
            monitoring_period: MONITORING_PERIOD,
        }
    }

    /// Reads thresholds.
    ///
    /// # Errors
    /// When they are not as the kubelet takes them.
    pub(crate) fn read_thresholds(
        settings: &ThresholdSettings,
    ) -> Result<Vec<Threshold>, EvictionPolicyError> {
        let mut thresholds = Vec::new();
        for (signal, default) in HARD_DEFAULT {
            let named = settings.hard.as_ref().is_some_and(|hard| hard.contains_key(signal.name()));
            let wanted = settings.hard.is_none() || settings.defaults == Defaults::Merged;
            if wanted && !named {
                thresholds.extend(default_threshold((signal, default)));
            }
        }
        for (signal, text) in signals_of("evictionHard", settings.hard.iter().flatten())? {
            let amount = amount("evictionHard", signal, text)?;
            thresholds
                .extend(amount.map(|amount| Threshold::new(signal, amount, ThresholdKind::Hard)));
        }
        let graces = signals_of("evictionSoftGracePeriod", &settings.soft_grace)?;
        for (signal, text) in signals_of("evictionSoft", &settings.soft)? {
            let grace = graces.get(&signal).ok_or(EvictionPolicyError::GraceMissing(signal))?;
            let grace = span::parse(grace).map_err(|_| EvictionPolicyError::Grace {
                field: "evictionSoftGracePeriod",
                signal,
                text: (*grace).to_owned(),
            })?;
            let amount = amount("evictionSoft", signal, text)?;
            thresholds.extend(
                amount.map(|amount| Threshold::new(signal, amount, ThresholdKind::Soft { grace })),
            );
        }
        for (signal, text) in signals_of("evictionMinimumReclaim", &settings.min_reclaim)? {
            let reclaim = amount("evictionMinimumReclaim", signal, text)?;
            for threshold in thresholds.iter_mut().filter(|found| found.signal == signal) {
                threshold.min_reclaim = reclaim.unwrap_or(ThresholdAmount::Units(0));
            }
        }
        Ok(thresholds)
    }

    /// What a hard threshold keeps back of a capacity, and so is not given to pods.
    pub(crate) fn reserved(&self, signal: EvictionSignal, capacity: u64) -> u64 {
        let hard =
            self.thresholds.iter().filter(|t| t.signal == signal && t.kind == ThresholdKind::Hard);
        hard.map(|threshold| threshold.amount.of(capacity)).max().unwrap_or(0)
    }
}

impl Threshold {
    const fn new(signal: EvictionSignal, amount: ThresholdAmount, kind: ThresholdKind) -> Self {
        let min_reclaim = ThresholdAmount::Units(0);
        Self { signal, amount, kind, min_reclaim, place: ThresholdScope::Everywhere }
    }
}

impl ThresholdAmount {
    /// So much of a capacity.
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            ThresholdAmount::Units(units) => units,
            ThresholdAmount::Millionths(part) => {
                let part = u128::from(capacity) * u128::from(part) / u128::from(MILLION);
                u64::try_from(part).unwrap_or(u64::MAX)
            }
        }
    }
}

fn default_threshold((signal, text): (EvictionSignal, &str)) -> Option<Threshold> {
    let amount = parse(text)?;
    let place = match signal {
        EvictionSignal::ImageFsAvailable | EvictionSignal::ImageFsInodesFree => {
            ThresholdScope::DedicatedImageFs
        }
        EvictionSignal::MemoryAvailable
        | EvictionSignal::NodeFsAvailable
        | EvictionSignal::NodeFsInodesFree
        | EvictionSignal::PidAvailable => ThresholdScope::Everywhere,
    };
    Some(Threshold { place, ..Threshold::new(signal, amount, ThresholdKind::Hard) })
}

fn signals_of<'a>(
    field: &'static str,
    amounts: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Result<BTreeMap<EvictionSignal, &'a str>, EvictionPolicyError> {
    let known = |(name, text): (&'a String, &'a String)| match EvictionSignal::named(name) {
        Some(signal) => Ok((signal, text.as_str())),
        None => Err(EvictionPolicyError::Signal { field, name: name.clone() }),
    };
    amounts.into_iter().map(known).collect()
}

/// `None` for 0 % and 100 %, which switch a threshold off.
fn amount(
    field: &'static str,
    signal: EvictionSignal,
    text: &str,
) -> Result<Option<ThresholdAmount>, EvictionPolicyError> {
    if matches!(text, "0%" | "100%") {
        return Ok(None);
    }
    let wrong = || EvictionPolicyError::Amount { field, signal, text: text.to_owned() };
    parse(text).map(Some).ok_or_else(wrong)
}

fn parse(text: &str) -> Option<ThresholdAmount> {
    let Some(percent) = text.strip_suffix('%') else {
        let quantity: Quantity = text.parse().ok()?;
        let units = u64::try_from(quantity.units()).ok().filter(|units| *units > 0)?;
        return Some(ThresholdAmount::Units(units));
    };
    // a percentage with decimals is a quantity of millionths
    let quantity: Quantity = percent.parse().ok()?;
    let millionths = u32::try_from(quantity.millis().checked_mul(10)?).ok()?;
    (millionths <= MILLION).then_some(ThresholdAmount::Millionths(millionths))
}
