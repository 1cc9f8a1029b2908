//! What a scenario's document says: how long, on how many nodes, what containers do, which nodes
//! are lost, and what is changed when.

use std::collections::BTreeSet;

use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use rekindle_types::{ResourceScope, TickDuration};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::behaviour::{Behaviour, duration, some_duration};
use crate::entropy::Seeded;
use crate::error::SimError;
use crate::load::PodLoad;

/// The longest run.
const DURATION_MAX: TickDuration = TickDuration::from_secs(366 * 86_400);
/// The most nodes.
pub(crate) const NODES_MAX: usize = 1_000;
/// What upstream lets `crashLoopBackOff.maxContainerRestartPeriod` be (KEP-5593).
const RESTART_PERIOD: std::ops::RangeInclusive<TickDuration> =
    TickDuration::from_secs(1)..=TickDuration::from_secs(300);

#[derive(Clone, Debug, Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "a script: a map of fields, of which `for` is needed"
)]
pub(crate) struct Script {
    #[serde(rename = "for", deserialize_with = "duration")]
    pub(crate) duration: TickDuration,
    #[serde(default = "one")]
    pub(crate) nodes: usize,
    #[serde(default, deserialize_with = "some_duration")]
    pub(crate) max_container_restart_period: Option<TickDuration>,
    #[serde(default)]
    pub(crate) behaviours: Vec<Behaviour>,
    #[serde(default)]
    pub(crate) load: Vec<PodLoad>,
    #[serde(default)]
    node_loss: Vec<NodeLoss>,
    #[serde(default)]
    changes: Vec<ChangeAt>,
}

const fn one() -> usize {
    1
}

/// Nodes that lose their network for a while: what runs on them goes on, and nobody hears of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "a loss of nodes: a map of fields"
)]
struct NodeLoss {
    #[serde(default)]
    nodes: Vec<String>,
    #[serde(default, deserialize_with = "percent")]
    share: Option<u8>,
    #[serde(deserialize_with = "duration")]
    from: TickDuration,
    #[serde(default, deserialize_with = "some_duration")]
    until: Option<TickDuration>,
}

/// A change by hand, in the middle of the run. One of the three.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "a change: a map with `at`, and one of apply, scale and delete"
)]
struct ChangeAt {
    #[serde(deserialize_with = "duration")]
    at: TickDuration,
    apply: Option<Value>,
    scale: Option<ScaleChange>,
    delete: Option<ScriptTarget>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScaleChange {
    kind: String,
    name: String,
    #[serde(default = "default_namespace")]
    namespace: String,
    replicas: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScriptTarget {
    kind: String,
    name: String,
    #[serde(default = "default_namespace")]
    namespace: String,
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// What is done to a world in the middle of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum WorldChange {
    /// Create this object, or change the one that is there to what this says.
    Apply(Value),
    /// Change what it says of an object that is there.
    Patch(ObjectId, Value),
    /// Delete this object.
    Delete(ObjectId),
    /// These nodes lose their network.
    Cut(BTreeSet<String>),
    /// These have it again.
    Mend(BTreeSet<String>),
}

impl Script {
    /// Refuses what cannot be played, by the path of the field.
    pub(crate) fn check(&self) -> Result<(), SimError> {
        check_duration("spec.for", self.duration)?;
        check_nodes("spec.nodes", self.nodes)?;
        let period = self.max_container_restart_period;
        if period.is_some_and(|period| !RESTART_PERIOD.contains(&period)) {
            return Err(wrong("spec.maxContainerRestartPeriod", "give 1s to 300s"));
        }
        for (index, behaviour) in self.behaviours.iter().enumerate() {
            let path = format!("spec.behaviours[{index}]");
            if behaviour.until.is_some_and(|until| until <= behaviour.from) {
                return Err(wrong(&format!("{path}.until"), "give a time after from"));
            }
            for (index, name) in behaviour.nodes.iter().enumerate() {
                check_node(&format!("{path}.nodes[{index}]"), name, self.nodes)?;
            }
        }
        for (index, load) in self.load.iter().enumerate() {
            load.check(&format!("spec.load[{index}]"))?;
        }
        for (index, loss) in self.node_loss.iter().enumerate() {
            loss.check(&format!("spec.nodeLoss[{index}]"), self.nodes)?;
        }
        for (index, change) in self.changes.iter().enumerate() {
            change.read(&format!("spec.changes[{index}]"))?;
            if let Some(object) = &change.apply {
                let path = format!("spec.changes[{index}].apply.metadata.name");
                check_manifest_of_node(&path, object, self.nodes)?;
            }
        }
        Ok(())
    }

    /// What of a manifest has no effect. The API takes it all the same.
    pub(crate) fn idle_part(&self, object: &Value) -> Option<String> {
        let (kind, name) = (object["kind"].as_str()?, object["metadata"]["name"].as_str()?);
        self.idle_part_at(&format!("{kind} {name}: "), object)
    }

    /// The same of what its changes apply.
    pub(crate) fn idle_parts_of_changes(&self) -> impl Iterator<Item = String> {
        self.changes.iter().enumerate().filter_map(|(index, change)| {
            self.idle_part_at(&format!("spec.changes[{index}].apply."), change.apply.as_ref()?)
        })
    }

    fn idle_part_at(&self, path: &str, object: &Value) -> Option<String> {
        self.names_no_node(path, object).or_else(|| asks_an_adapter(path, object))
    }

    /// Why pods run nowhere, if they name a node that is not there.
    fn names_no_node(&self, path: &str, object: &Value) -> Option<String> {
        PODS_AND_TEMPLATES.iter().find_map(|place| {
            let field = format!("{place}/spec/nodeName");
            let node = object.pointer(&field)?.as_str()?;
            let path = format!("{path}{}", field.trim_start_matches('/').replace('/', "."));
            check_node(&path, node, self.nodes).err().map(|error| error.to_string())
        })
    }

    /// When something begins, by the path of the field.
    pub(crate) fn times(&self) -> Vec<(String, TickDuration)> {
        let behaviours = self.behaviours.iter().map(|behaviour| behaviour.from).enumerate();
        let changes = self.changes.iter().map(|change| change.at).enumerate();
        let losses = self.node_loss.iter().map(|loss| loss.from).enumerate();
        behaviours
            .map(|(index, at)| (format!("spec.behaviours[{index}].from"), at))
            .chain(changes.map(|(index, at)| (format!("spec.changes[{index}].at"), at)))
            .chain(losses.map(|(index, at)| (format!("spec.nodeLoss[{index}].from"), at)))
            .collect()
    }

    /// What is done when, for people.
    pub(crate) fn marks(&self) -> Vec<(TickDuration, String)> {
        let changes = self.changes.iter().map(|change| (change.at, change.in_words()));
        let losses = self.node_loss.iter().flat_map(|loss| {
            let which = match loss.share {
                Some(share) => format!("{share}% of the nodes"),
                None => loss.nodes.join(", "),
            };
            let back = loss.until.map(|until| (until, format!("{which}: the network is back")));
            [(loss.from, format!("{which}: the network is lost"))].into_iter().chain(back)
        });
        let behaviours = self.behaviours.iter().flat_map(|behaviour| {
            let (which, what) = behaviour.in_words();
            let begin = (behaviour.from > TickDuration::ZERO)
                .then(|| (behaviour.from, format!("{which}: {what}")));
            let end = behaviour.until.map(|until| (until, format!("{which}: {what} no more")));
            begin.into_iter().chain(end)
        });
        let loads = self.load.iter().flat_map(PodLoad::turns);
        changes.chain(losses).chain(behaviours).chain(loads).collect()
    }

    /// What is done when, by the path of the field. Which nodes a share is follows from the seed.
    pub(crate) fn changes(
        &self,
        seed: u64,
    ) -> Result<Vec<(TickDuration, String, WorldChange)>, SimError> {
        let mut all = Vec::new();
        for (index, change) in self.changes.iter().enumerate() {
            let path = format!("spec.changes[{index}]");
            let read = change.read(&path)?;
            all.push((change.at, path, read));
        }
        let mut entropy = Seeded::new(seed ^ 0x6e6f_6465_5f6c_6f73);
        for (index, loss) in self.node_loss.iter().enumerate() {
            let path = format!("spec.nodeLoss[{index}]");
            let nodes = loss.nodes(self.nodes, &mut entropy);
            all.push((loss.from, path.clone(), WorldChange::Cut(nodes.clone())));
            all.extend(loss.until.map(|until| (until, path, WorldChange::Mend(nodes))));
        }
        Ok(all)
    }
}

/// Why an autoscaler learns nothing of a metric, if another server has it: there is none here.
fn asks_an_adapter(path: &str, object: &Value) -> Option<String> {
    if object["kind"] != "HorizontalPodAutoscaler" {
        return None;
    }
    let metrics = object["spec"]["metrics"].as_array()?.iter().enumerate();
    let mut types = metrics.filter_map(|(index, metric)| Some((index, metric["type"].as_str()?)));
    let (index, type_) = types.find(|(_, type_)| ["External", "Object", "Pods"].contains(type_))?;
    Some(format!(
        "{path}spec.metrics[{index}]: there is no server of metrics of type {type_}, so the \
         autoscaler learns nothing of it"
    ))
}

impl NodeLoss {
    fn check(&self, path: &str, count: usize) -> Result<(), SimError> {
        if self.nodes.is_empty() == self.share.is_none() {
            return Err(wrong(path, "give either nodes or share"));
        }
        if self.until.is_some_and(|until| until <= self.from) {
            return Err(wrong(&format!("{path}.until"), "give a time after from"));
        }
        for (index, name) in self.nodes.iter().enumerate() {
            check_node(&format!("{path}.nodes[{index}]"), name, count)?;
        }
        Ok(())
    }

    fn nodes(&self, count: usize, entropy: &mut Seeded) -> BTreeSet<String> {
        let Some(percent) = self.share else { return self.nodes.iter().cloned().collect() };
        let mut numbers: Vec<usize> = (0..count).collect();
        let lost = (count * usize::from(percent)).div_ceil(100);
        for index in 0..lost {
            let left = u64::try_from(count - index).unwrap_or(1);
            let chosen = usize::try_from(entropy.below(left)).unwrap_or(0);
            numbers.swap(index, index + chosen);
        }
        numbers[..lost].iter().map(|number| format!("node-{number}")).collect()
    }
}

impl ChangeAt {
    fn in_words(&self) -> String {
        if let Some(object) = &self.apply {
            let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
            return format!(
                "{} {} is applied",
                text(&object["kind"]),
                text(&object["metadata"]["name"])
            );
        }
        if let Some(ScaleChange { kind, name, replicas, .. }) = &self.scale {
            return format!("{kind} {name} is scaled to {replicas}");
        }
        let Some(ScriptTarget { kind, name, .. }) = &self.delete else { return String::new() };
        format!("{kind} {name} is deleted")
    }

    fn read(&self, path: &str) -> Result<WorldChange, SimError> {
        match (&self.apply, &self.scale, &self.delete) {
            (Some(object), None, None) => {
                let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
                let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
                if ResourceKind::of_reference(&api_version, &kind).is_none() {
                    let message = format!("there is no kind {kind:?} in {api_version:?} here");
                    return Err(wrong(&format!("{path}.apply.kind"), &message));
                }
                Ok(WorldChange::Apply(object.clone()))
            }
            (None, Some(scale), None) => {
                let kind = kind_named(&scale.kind).filter(|kind| {
                    matches!(
                        kind,
                        ResourceKind::Deployment
                            | ResourceKind::ReplicaSet
                            | ResourceKind::ReplicationController
                            | ResourceKind::StatefulSet
                    )
                });
                let kind = kind.ok_or_else(|| {
                    wrong(
                        &format!("{path}.scale.kind"),
                        &format!("{} cannot be scaled; Deployment, ReplicaSet, ReplicationController and StatefulSet can", scale.kind),
                    )
                })?;
                let patch = json!({"spec": {"replicas": scale.replicas}});
                Ok(WorldChange::Patch(id(kind, &scale.namespace, &scale.name), patch))
            }
            (None, None, Some(target)) => {
                let kind = kind_named(&target.kind).ok_or_else(|| {
                    let message = format!("there is no kind {:?} here", target.kind);
                    wrong(&format!("{path}.delete.kind"), &message)
                })?;
                Ok(WorldChange::Delete(id(kind, &target.namespace, &target.name)))
            }
            _ => Err(wrong(path, "give one of apply, scale and delete")),
        }
    }
}

fn kind_named(name: &str) -> Option<ResourceKind> {
    ResourceKind::ALL.into_iter().find(|kind| kind.info().kind == name)
}

fn id(kind: ResourceKind, namespace: &str, name: &str) -> ObjectId {
    let namespace = match kind.info().scope {
        ResourceScope::Namespaced => namespace,
        ResourceScope::Cluster => "",
    };
    ObjectId::new(kind, NamespacedName::new(namespace, name))
}

pub(crate) fn check_duration(path: &str, duration: TickDuration) -> Result<(), SimError> {
    if duration == TickDuration::ZERO || duration > DURATION_MAX {
        return Err(wrong(path, "give more than 0s, and at most 366d"));
    }
    Ok(())
}

pub(crate) fn check_nodes(path: &str, nodes: usize) -> Result<(), SimError> {
    if !(1..=NODES_MAX).contains(&nodes) {
        return Err(wrong(path, &format!("give 1 to {NODES_MAX}")));
    }
    Ok(())
}

/// Refuses the name of a node that there is not; it has only one spelling.
fn check_node(path: &str, name: &str, count: usize) -> Result<(), SimError> {
    let number = name.strip_prefix("node-").and_then(|number| number.parse().ok());
    let is_one = |number: usize| number < count && name == format!("node-{number}");
    match number.is_some_and(is_one) {
        true => Ok(()),
        false => {
            let there = match count {
                1 => "the only node is node-0".to_owned(),
                _ => format!("the nodes are node-0 to node-{}", count - 1),
            };
            Err(wrong(path, &format!("there is no node {name:?}: {there} (spec.nodes, --nodes)")))
        }
    }
}

/// Where a manifest has a pod: it is one, or has a template of its pods.
pub(crate) const PODS_AND_TEMPLATES: [&str; 3] =
    ["", "/spec/template", "/spec/jobTemplate/spec/template"];

/// A manifest of kind Node says more about a node that there is: it makes none, as nobody would be
/// there to run its pods.
pub(crate) fn check_manifest_of_node(
    path: &str,
    object: &Value,
    count: usize,
) -> Result<(), SimError> {
    match object["kind"] == "Node" {
        true => check_node(path, object["metadata"]["name"].as_str().unwrap_or_default(), count),
        false => Ok(()),
    }
}

pub(crate) fn wrong(path: &str, message: &str) -> SimError {
    SimError::Scenario { path: path.to_owned(), message: message.to_owned() }
}

/// A share as people write it: `30%`.
fn percent<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    let text = String::deserialize(from)?;
    let number = text.strip_suffix('%').and_then(|number| number.parse().ok());
    match number.filter(|number| (1..=100).contains(number)) {
        Some(number) => Ok(Some(number)),
        None => Err(serde::de::Error::custom(format!("{text:?} is no share from 1% to 100%"))),
    }
}
