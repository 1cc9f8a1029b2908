//! The load of a scenario: how much CPU and memory the pods with some labels use together. The pods
//! that are ready share it evenly, so that more of them use less each.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use rekindle_types::resources::{Amounts, ResourceList};
use rekindle_types::{Quantity, TickDuration};
use serde::{Deserialize, Deserializer};

use crate::behaviour::duration;
use crate::error::SimError;
use crate::script::wrong;

/// A load that changes over a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a load: a map of fields")]
pub struct PodLoad {
    /// The namespace of the pods; `default` unless given.
    #[serde(default = "default_namespace")]
    namespace: String,
    /// The labels of the pods.
    match_labels: BTreeMap<String, String>,
    /// The container that has the load; the first one unless given.
    container: Option<String>,
    /// What is used from when on, in order of time.
    points: Vec<LoadPoint>,
}

/// From a time on so much is used, until the next point.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "a point of a load: a map with `from`, and cpu or memory"
)]
struct LoadPoint {
    #[serde(deserialize_with = "duration")]
    from: TickDuration,
    /// Cores of all pods together.
    #[serde(default, deserialize_with = "quantity")]
    cpu: Quantity,
    /// Bytes of all pods together.
    #[serde(default, deserialize_with = "quantity")]
    memory: Quantity,
}

fn default_namespace() -> String {
    "default".to_owned()
}

impl PodLoad {
    /// Refuses what cannot be played, by the path of the field.
    pub(crate) fn check(&self, path: &str) -> Result<(), SimError> {
        if self.match_labels.is_empty() {
            return Err(wrong(&format!("{path}.matchLabels"), "give the labels of some pods"));
        }
        if self.points.is_empty() {
            return Err(wrong(&format!("{path}.points"), "give one or more"));
        }
        for (index, points) in self.points.windows(2).enumerate() {
            if points[1].from <= points[0].from {
                let path = format!("{path}.points[{}].from", index + 1);
                return Err(wrong(&path, "give a time after that of the point before"));
            }
        }
        for (index, point) in self.points.iter().enumerate() {
            for (name, amount) in [("cpu", point.cpu), ("memory", point.memory)] {
                if amount.is_negative() {
                    return Err(wrong(&format!("{path}.points[{index}].{name}"), "give 0 or more"));
                }
            }
        }
        Ok(())
    }

    /// When another load begins.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (TickDuration, String)> {
        let labels = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let labels = labels.collect::<Vec<_>>().join(",");
        self.points.iter().map(move |point| {
            (point.from, format!("{labels}: cpu {}, memory {}", point.cpu, point.memory))
        })
    }

    /// Whether it is the load of a pod of this namespace with these labels.
    pub(crate) fn is_of(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
        self.namespace == namespace && self.match_labels.iter().all(has)
    }

    /// The container that has it, of these.
    pub(crate) fn container<'a>(&'a self, first: &'a str) -> &'a str {
        self.container.as_deref().unwrap_or(first)
    }

    /// What each of so many pods uses at a time of the run.
    pub(crate) fn share(&self, time: TickDuration, pods: usize) -> Amounts {
        let point = self.points.iter().rev().find(|point| point.from <= time);
        let pods = i64::try_from(pods.max(1)).unwrap_or(i64::MAX);
        let of = |total: fn(&LoadPoint) -> Quantity| {
            QuantityText(
                Quantity::from_millis(point.map_or(0, |at| total(at).millis()) / pods).to_string(),
            )
        };
        let list: ResourceList = BTreeMap::from([
            ("cpu".to_owned(), of(|point| point.cpu)),
            ("memory".to_owned(), of(|point| point.memory)),
        ]);
        Amounts::read(Some(&list))
    }
}

/// What a container uses that has no load.
pub(crate) fn idle() -> Amounts {
    let nothing = || QuantityText("0".to_owned());
    let list = BTreeMap::from([("cpu".to_owned(), nothing()), ("memory".to_owned(), nothing())]);
    Amounts::read(Some(&list))
}

/// A quantity as manifests have it: a text or a number.
fn quantity<'de, D: Deserializer<'de>>(from: D) -> Result<Quantity, D::Error> {
    let text = QuantityText::deserialize(from)?.0;
    text.parse().map_err(|_| serde::de::Error::custom(format!("{text:?} is no quantity")))
}
