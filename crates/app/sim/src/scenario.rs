//! A scenario: manifests, and a script of what goes wrong. It is written as one document of kind
//! Scenario among the manifests.

use rekindle_controllers::ResourceKind;
use rekindle_pod::PodConfig;
use rekindle_types::TickDuration;
use rekindle_types::v1alpha1::LADDER_ANNOTATIONS;
use serde::Deserialize;
use serde_json::Value;

use crate::behaviour::DefaultBehaviour;
use crate::error::SimError;
use crate::outcome::PolicyOutcome;
use crate::script::{
    PODS_AND_TEMPLATES, Script, WorldChange, check_duration, check_manifest_of_node, check_nodes,
    wrong,
};
use crate::spoken::spoken;
use crate::world::{EventRecording, UnknownFieldHandling, World};

/// A run is told to whoever waits for it so many times.
const TOLD: u64 = 200;

/// What is played.
#[derive(Clone, Debug)]
pub struct Scenario {
    script: Script,
    manifests: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a document of kind Scenario")]
struct ScenarioDocument {
    #[serde(rename = "apiVersion")]
    api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "metadata")]
    _metadata: Option<Value>,
    spec: Script,
}

/// With which ladders a scenario is played.
#[derive(Clone, Debug)]
pub enum ScenarioPolicy {
    /// With those among its manifests.
    AsWritten,
    /// With none, as plain Kubernetes would do.
    NoLadder,
    /// With these instead of those among its manifests.
    Ladders {
        /// What the report calls it.
        name: String,
        /// The ladders.
        ladders: Vec<Value>,
    },
}

impl ScenarioPolicy {
    /// A policy of the ladders that a file holds.
    ///
    /// # Errors
    /// When it holds none, or something else.
    pub fn ladders(name: &str, ladders: Vec<Value>) -> Result<Self, SimError> {
        if ladders.is_empty() {
            return Err(wrong("kind", "there is no RestartLadder"));
        }
        match ladders.iter().find(|ladder| !is_ladder(ladder)) {
            Some(other) => Err(wrong(
                "kind",
                &format!("a RestartLadder is wanted here, not {}", other["kind"]),
            )),
            None => Ok(Self::Ladders { name: name.to_owned(), ladders }),
        }
    }

    /// What the report calls it.
    pub fn name(&self) -> &str {
        match self {
            Self::AsWritten => "as written",
            Self::NoLadder => "no ladder",
            Self::Ladders { name, .. } => name,
        }
    }

    fn ladders_added(&self) -> &[Value] {
        match self {
            Self::AsWritten | Self::NoLadder => &[],
            Self::Ladders { ladders, .. } => ladders,
        }
    }

    /// A manifest as it is played: without its ladders, where the policy has its own or none. None
    /// when nothing is left of it.
    fn of_manifest(&self, object: &Value) -> Option<Value> {
        match self {
            Self::AsWritten => Some(object.clone()),
            Self::NoLadder | Self::Ladders { .. } if is_ladder(object) => None,
            Self::NoLadder | Self::Ladders { .. } => Some(without_annotated_ladders(object)),
        }
    }

    /// The same for a change.
    fn of_change(&self, change: WorldChange) -> Option<WorldChange> {
        match (self, change) {
            (Self::AsWritten, change) => Some(change),
            (_, WorldChange::Apply(object)) => self.of_manifest(&object).map(WorldChange::Apply),
            (_, WorldChange::Delete(id) | WorldChange::Patch(id, _))
                if id.kind == ResourceKind::RestartLadder =>
            {
                None
            }
            (_, change) => Some(change),
        }
    }
}

impl Scenario {
    /// From the documents of a file: one of kind Scenario, all others are manifests.
    ///
    /// # Errors
    /// What is wrong, with the path of the field.
    pub fn from_documents(documents: Vec<Value>) -> Result<Self, SimError> {
        let (mut scripts, manifests): (Vec<_>, Vec<_>) =
            documents.into_iter().partition(|document| document["kind"] == "Scenario");
        let count = scripts.len();
        let Some(script) = scripts.pop().filter(|_| scripts.is_empty()) else {
            let message = format!(
                "{count} documents are of kind Scenario; give one, which says what happens, beside the manifests"
            );
            return Err(wrong("kind", &message));
        };
        let read: ScenarioDocument = serde_path_to_error::deserialize(script)
            .map_err(|error| wrong(&error.path().to_string(), &said(error.inner())))?;
        if read.api_version != "rekindle.dev/v1alpha1" {
            return Err(wrong("apiVersion", "Scenario is in rekindle.dev/v1alpha1"));
        }
        if manifests.is_empty() {
            return Err(wrong("kind", "there is no manifest beside the Scenario to play it with"));
        }
        let made = Self { script: read.spec, manifests };
        made.check()?;
        Ok(made)
    }

    /// How much virtual time goes by.
    pub const fn duration(&self) -> TickDuration {
        self.script.duration
    }

    /// What it does, and when.
    pub(crate) fn marks(&self) -> Vec<(TickDuration, String)> {
        let mut marks = self.script.marks();
        marks.retain(|(at, _)| *at < self.duration());
        marks.sort_by_key(|(at, _)| *at);
        marks
    }

    /// What in it has no effect, by the path of the field.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        let end = spoken(self.duration());
        let late = self.script.times().into_iter().filter(|(_, at)| *at >= self.duration());
        late.map(|(path, at)| format!("{path} is {}, and the run ends after {end}", spoken(at)))
            .chain(self.manifests.iter().filter_map(|object| self.script.idle_part(object)))
            .chain(self.script.idle_parts_of_changes())
            .collect()
    }

    /// Lets more or less time go by than the scenario says, because `who` says so.
    ///
    /// # Errors
    /// When it is none, or too much.
    pub fn set_duration(&mut self, who: &str, duration: TickDuration) -> Result<(), SimError> {
        check_duration(who, duration)?;
        self.script.duration = duration;
        Ok(())
    }

    /// Plays it on more or fewer nodes than the scenario says, because `who` says so.
    ///
    /// # Errors
    /// When there are too many or none, or when a node that the scenario names is not among them.
    pub fn set_nodes(&mut self, who: &str, nodes: usize) -> Result<(), SimError> {
        check_nodes(who, nodes)?;
        self.script.nodes = nodes;
        self.check().map_err(|error| wrong(who, &error.to_string()))
    }

    /// Refuses what cannot be played, by the path of the field.
    fn check(&self) -> Result<(), SimError> {
        self.script.check()?;
        for manifest in &self.manifests {
            let path = format!("Node {}: metadata.name", manifest["metadata"]["name"]);
            check_manifest_of_node(&path, manifest, self.script.nodes)?;
        }
        Ok(())
    }

    /// Plays it under a policy. The same seed, the same outcome.
    ///
    /// # Errors
    /// When the API refuses a manifest, in its words; when something moves in a circle.
    pub fn play(&self, seed: u64, policy: &ScenarioPolicy) -> Result<PolicyOutcome, SimError> {
        self.play_told(seed, policy, &mut |_| {})
    }

    /// The same, and tells from time to time how much virtual time has gone by.
    ///
    /// # Errors
    /// As [`Self::play`].
    pub fn play_told(
        &self,
        seed: u64,
        policy: &ScenarioPolicy,
        told: &mut dyn FnMut(TickDuration),
    ) -> Result<PolicyOutcome, SimError> {
        let script = &self.script;
        let mut config = PodConfig::default();
        if let Some(period) = script.max_container_restart_period {
            config.max_container_restart_period = period;
        }
        let mut world = World::new(seed, script.nodes, script.behaviours.clone(), config)?;
        world.set_records(EventRecording::Counted);
        world.set_unchosen(DefaultBehaviour::EndsWhereItShould);
        world.set_field_validation(UnknownFieldHandling::Strict);
        // what is asked for when the run is over has no effect, and a note says so
        let (changes, late): (Vec<_>, Vec<_>) =
            script.changes(seed)?.into_iter().partition(|(at, ..)| *at < script.duration);
        for (at, path, change) in changes {
            if let Some(change) = policy.of_change(change) {
                world.change_at(at, &path, change);
            }
        }
        let manifests = self.manifests.iter().filter_map(|object| policy.of_manifest(object));
        // a ladder may lie in a namespace that the scenario brings, and is to be there before the
        // pods that it is for
        let (namespaces, others): (Vec<_>, Vec<_>) =
            manifests.partition(|object| object["kind"] == "Namespace");
        for object in namespaces.iter().chain(policy.ladders_added()).chain(&others) {
            world.apply(object)?;
        }
        world.set_load(script.load.clone());
        world.measure(script.duration);
        world.turn_what_runs(script.duration);
        for part in 1..=TOLD {
            let micros = u128::from(script.duration.as_micros()) * u128::from(part);
            let until = u64::try_from(micros / u128::from(TOLD)).unwrap_or(u64::MAX);
            let until = TickDuration::from_micros(until);
            world.run_until(until)?;
            told(until);
        }
        world.end();
        let outcome = PolicyOutcome::new(policy.name(), script.duration, &world);
        // a wrong manifest is one whether or not there is time for it; nobody looks at this world
        // any more
        for (at, path, change) in late {
            if let Some(change) = policy.of_change(change) {
                world.try_out(change).map_err(|refused| refused.of_change(&path, at))?;
            }
        }
        Ok(outcome)
    }
}

fn is_ladder(object: &Value) -> bool {
    object["kind"] == "RestartLadder"
}

/// A pod, or what makes pods, without the annotations by which pods carry a ladder of their own.
fn without_annotated_ladders(object: &Value) -> Value {
    let mut object = object.clone();
    for path in PODS_AND_TEMPLATES {
        let meta = object.pointer_mut(&format!("{path}/metadata")).and_then(Value::as_object_mut);
        let Some(meta) = meta else { continue };
        let annotations = meta.get_mut("annotations").and_then(Value::as_object_mut);
        let is_left = annotations.is_none_or(|annotations| {
            let was_empty = annotations.is_empty();
            annotations.retain(|name, _| !LADDER_ANNOTATIONS.contains(&name.as_str()));
            was_empty || !annotations.is_empty()
        });
        // an empty map of annotations is another template than one without
        if !is_left {
            meta.remove("annotations");
        }
    }
    object
}

/// What a reader says, with its types of numbers in words that everybody knows.
fn said(error: &serde_json::Error) -> String {
    let (says, expected) = match error.to_string() {
        text if text.ends_with("expected u8") => (text, "a whole number from 0 to 255"),
        text if text.ends_with("expected u32") || text.ends_with("expected usize") => {
            (text, "a whole number, 0 or more")
        }
        text => return text,
    };
    let says = says.rsplit_once(' ').map_or("", |(says, _)| says);
    format!("{says} {expected}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(spec: Value) -> Result<Scenario, SimError> {
        let script =
            json!({"apiVersion": "rekindle.dev/v1alpha1", "kind": "Scenario", "spec": spec});
        Scenario::from_documents(vec![script, json!({"apiVersion": "v1", "kind": "Pod"})])
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        let cases = [
            (
                json!({"for": "1h", "nodes": "two"}),
                "spec.nodes: invalid type: string \"two\", expected a whole number",
            ),
            (
                json!({"for": "1h", "behaviours": [{"exits": {"code": 256}}]}),
                "spec.behaviours[0].exits.code: invalid value: integer `256`, expected a whole number from 0 to 255",
            ),
            (
                json!({"for": "1h", "changes": [
                    {"at": "1m", "scale": {"kind": "Deployment", "name": "a", "replicas": -1}},
                ]}),
                "spec.changes[0].scale.replicas: invalid value: integer `-1`, expected a whole number, 0 or more",
            ),
            (json!({}), "spec: missing field `for`"),
            (json!({"for": "soon"}), "spec.for: \"soon\" is no duration"),
            (json!({"for": "0s"}), "spec.for: give more than 0s"),
            (json!({"for": "1h", "nodes": 0}), "spec.nodes: give 1 to 1000"),
            (json!({"for": "1h", "fro": 1}), "spec.fro: unknown field `fro`"),
            (
                json!({"for": "1h", "maxContainerRestartPeriod": "10m"}),
                "spec.maxContainerRestartPeriod: give 1s to 300s",
            ),
            (
                json!({"for": "1h", "nodeLoss": [{"share": "120%", "from": "1m"}]}),
                "spec.nodeLoss[0].share: \"120%\" is no share from 1% to 100%",
            ),
            (
                json!({"for": "1h", "nodeLoss": [{"from": "1m"}]}),
                "spec.nodeLoss[0]: give either nodes or share",
            ),
            (
                json!({"for": "1h", "nodeLoss": [{"nodes": ["a"], "from": "1m"}]}),
                "spec.nodeLoss[0].nodes[0]: there is no node \"a\": the only node is node-0 (spec.nodes",
            ),
            (
                json!({"for": "1h", "nodes": 12, "nodeLoss": [{"nodes": ["node-01"], "from": "1m"}]}),
                "spec.nodeLoss[0].nodes[0]: there is no node \"node-01\": the nodes are node-0 to node-11",
            ),
            (
                json!({"for": "1h", "nodes": 12, "nodeLoss": [{"nodes": ["node-+1"], "from": "1m"}]}),
                "spec.nodeLoss[0].nodes[0]: there is no node \"node-+1\": the nodes are node-0 to node-11",
            ),
            (
                json!({"for": "1h", "changes": [
                    {"at": "1m", "apply": {
                        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
                    }},
                ]}),
                "spec.changes[0].apply.metadata.name: there is no node \"node-1\": the only node is node-0",
            ),
            (
                json!({"for": "1h", "changes": [{"at": "1m"}]}),
                "spec.changes[0]: give one of apply, scale and delete",
            ),
            (
                json!({"for": "1h", "changes": [{"at": "1m", "apply": {"kind": "Nothing"}}]}),
                "spec.changes[0].apply.kind: there is no kind \"Nothing\" in \"\" here",
            ),
            (
                json!({"for": "1h", "changes": [
                    {"at": "1m", "scale": {"kind": "Pod", "name": "a", "replicas": 1}},
                ]}),
                "spec.changes[0].scale.kind: Pod cannot be scaled; Deployment, ReplicaSet,",
            ),
            (
                json!({"for": "1h", "behaviours": [{"nodes": ["node-7"]}]}),
                "spec.behaviours[0].nodes[0]: there is no node \"node-7\": the only node is node-0",
            ),
            (
                json!({"for": "1h", "behaviours": [{"from": "5m", "until": "5m"}]}),
                "spec.behaviours[0].until: give a time after from",
            ),
            (
                Value::Null,
                "spec: invalid type: null, expected a script: a map of fields, of which `for` is needed",
            ),
            (
                json!({"for": "1h", "behaviours": [null]}),
                "spec.behaviours[0]: invalid type: null, expected a behaviour: a map of fields",
            ),
            (
                json!({"for": "1h", "behaviours": [{}, {"exits": {"code": 900}}]}),
                "spec.behaviours[1].exits.code: invalid value: integer `900`",
            ),
        ];
        for (spec, expected) in cases {
            let error = read(spec.clone()).expect_err("it is wrong").to_string();
            assert!(error.starts_with(expected), "{spec}: {error}");
        }
        assert!(read(json!({"for": "1h"})).is_ok());
    }

    #[test]
    fn a_manifest_of_a_node_that_there_is_not_is_refused() {
        let made = |name: &str| {
            let script = json!({
                "apiVersion": "rekindle.dev/v1alpha1", "kind": "Scenario",
                "spec": {"for": "1h", "nodes": 2},
            });
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
            Scenario::from_documents(vec![script, node])
        };
        let error = made("node-2").expect_err("there is none").to_string();
        let expected = "Node \"node-2\": metadata.name: there is no node \"node-2\": the nodes are node-0 to node-1";
        assert!(error.starts_with(expected), "{error}");
        let mut fits = made("node-1").expect("there is one");
        assert!(fits.set_nodes("--nodes", 1).is_err(), "there is none any more");
    }

    #[test]
    fn a_change_of_what_is_not_there_says_which_one_it_is() {
        let scale = json!({"kind": "Deployment", "name": "web", "replicas": 2});
        let delete = json!({"kind": "Deployment", "name": "web"});
        for (what, change, done) in [("scale", scale, "change"), ("delete", delete, "delete")] {
            let script = json!({
                "apiVersion": "rekindle.dev/v1alpha1", "kind": "Scenario",
                "spec": {"for": "10m", "changes": [{"at": "5m", what: change}]},
            });
            let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
            let made = Scenario::from_documents(vec![script, other]).expect("it is right");
            let error =
                made.play(1, &ScenarioPolicy::AsWritten).expect_err("there is none").to_string();
            let object = "Deployment default/web: deployments.apps \"web\" not found";
            assert_eq!(error, format!("spec.changes[0], after 5m: {done} {object}"));
        }
    }

    #[test]
    fn one_script_and_a_manifest_are_wanted() {
        let scripts = [vec![], vec![json!({"kind": "Scenario"}); 2]];
        for (script, count) in scripts.into_iter().zip(["0", "2"]) {
            let documents = [script, vec![json!({"kind": "Pod"})]].concat();
            let error = Scenario::from_documents(documents).unwrap_err().to_string();
            let expected = format!("kind: {count} documents are of kind Scenario; give one, ");
            assert!(error.starts_with(&expected), "{error}");
        }
        let error = ScenarioPolicy::ladders("a", vec![json!({"kind": "Pod"})]).unwrap_err();
        assert_eq!(error.to_string(), "kind: a RestartLadder is wanted here, not \"Pod\"");
    }
}
