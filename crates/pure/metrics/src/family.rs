//! One metric with several label sets.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Counter, Gauge, Histogram, MetricKind, Text};

/// Label sets of one family at most; what comes later counts under [`OTHER`]. Labels may come from
/// outside.
pub const LABEL_SETS_MAX: usize = 10_000;
/// The value of every label of what found no room.
const OTHER: &str = "other";
/// Between the values of a key; no label value of ours has it.
const BETWEEN: char = '\u{1f}';

/// Counters or histograms by their labels' values.
#[derive(Debug)]
pub struct MetricFamily<T> {
    labels: &'static [&'static str],
    members: RwLock<BTreeMap<String, Arc<T>>>,
}

impl<T: Default> MetricFamily<T> {
    /// An empty one with these labels.
    pub fn new(labels: &'static [&'static str]) -> Self {
        Self { labels, members: RwLock::default() }
    }

    /// The one with these values, in the order of the labels.
    pub fn of(&self, values: &[&str]) -> Arc<T> {
        let key = key(values);
        if let Some(found) = self.members.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return found.clone();
        }
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        let key = if members.len() < LABEL_SETS_MAX {
            key
        } else {
            self::key(&vec![OTHER; self.labels.len()])
        };
        members.entry(key).or_default().clone()
    }

    /// Forgets those whose values are not so.
    pub fn retain(&self, mut keep: impl FnMut(&[&str]) -> bool) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.retain(|key, _| keep(&key.split(BETWEEN).collect::<Vec<_>>()));
    }

    fn for_each(&self, mut see: impl FnMut(&[(&str, &str)], &T)) {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        for (key, member) in members.iter() {
            let labels: Vec<(&str, &str)> =
                self.labels.iter().copied().zip(key.split(BETWEEN)).collect();
            see(&labels, member);
        }
    }
}

fn key(values: &[&str]) -> String {
    let mut key = String::with_capacity(values.iter().map(|value| value.len() + 1).sum());
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            key.push(BETWEEN);
        }
        key.extend(value.chars().filter(|char| *char != BETWEEN));
    }
    key
}

impl MetricFamily<Counter> {
    /// All of them, as one family.
    pub fn write(&self, text: &mut Text, name: &'static str, help: &str) {
        text.family(name, MetricKind::Counter, help);
        self.for_each(|labels, counter| text.sample(labels, counter.get() as f64));
    }
}

impl MetricFamily<Gauge> {
    /// All of them, as one family.
    pub fn write(&self, text: &mut Text, name: &'static str, help: &str) {
        text.family(name, MetricKind::Gauge, help);
        self.for_each(|labels, gauge| text.sample(labels, gauge.get() as f64));
    }
}

impl<T: AsRef<Histogram> + Default> MetricFamily<T> {
    /// All of them, as one family.
    pub fn write(&self, text: &mut Text, name: &'static str, help: &str) {
        text.family(name, MetricKind::Histogram, help);
        self.for_each(|labels, histogram| histogram.as_ref().write(text, labels));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_labels_are_one_counter_and_too_many_are_others() {
        let family = MetricFamily::<Counter>::new(&["verb", "code"]);
        family.of(&["GET", "200"]).raise();
        family.of(&["GET", "200"]).raise();
        family.of(&["PUT", "409"]).raise();
        let mut text = Text::default();
        family.write(&mut text, "r_total", "Requests.");
        assert!(text.into_string().ends_with(
            "r_total{verb=\"GET\",code=\"200\"} 2\nr_total{verb=\"PUT\",code=\"409\"} 1\n"
        ));
        for number in 0..LABEL_SETS_MAX + 5 {
            family.of(&["X", &number.to_string()]).raise();
        }
        assert!(family.of(&["Y", "new"]).get() >= 5, "it counts with the others");
        family.retain(|values| values[0] == "PUT");
        let mut text = Text::default();
        family.write(&mut text, "r_total", "Requests.");
        assert_eq!(text.into_string().lines().count(), 3);
    }
}
