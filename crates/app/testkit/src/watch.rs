//! Waiting until the API shows what a test is about. What kubectl is told by a watch is looked at
//! here, object by object, so that a test can say what it waits for: more than one field, more than
//! one object, and objects that are not there yet.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::process::{ChildStdout, Command};

use serde_json::Value;

use crate::guarded_child::GuardedChild;
use crate::{Engine, PATIENCE};

/// Objects by their names, as the API has them.
pub type Objects = BTreeMap<String, Value>;

/// A kubectl that is ended with the reader of its lines.
struct KubectlLines {
    _child: GuardedChild,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl KubectlLines {
    fn new(command: &mut Command) -> Self {
        let mut child = GuardedChild::start(command);
        let lines = child.lines();
        Self { _child: child, lines }
    }
}

impl Iterator for KubectlLines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.lines.next()?.ok()
    }
}

/// The argument that ends a watch when what it is for does not come.
pub fn until_hung() -> String {
    format!("--request-timeout={}s", PATIENCE.as_secs())
}

impl Engine {
    /// Watches what `kubectl get` with these arguments shows, until it is as wanted; answers it
    /// then. What stood at the beginning is told one by one: ask for what there is to be, and not
    /// only for what is not to be.
    #[track_caller]
    pub fn until(&self, arguments: &[&str], wanted: impl Fn(&Objects) -> bool) -> Objects {
        let mut command = self.kubectl_command(&["get"]);
        command.args(arguments).arg(until_hung());
        command.args(["--watch", "--output-watch-events", "-o", "json"]);
        let mut objects = Objects::new();
        for line in KubectlLines::new(&mut command) {
            let mut event: Value = serde_json::from_str(&line).expect("kubectl prints JSON");
            let object = event["object"].take();
            let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
            match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => drop(objects.insert(name, object)),
                Some("DELETED") => drop(objects.remove(&name)),
                other => panic!("{other:?}: {object}"),
            }
            if wanted(&objects) {
                return objects;
            }
        }
        panic!("not as wanted: {arguments:?}: {objects:#?}");
    }

    /// Watches one object, such as `pod/web`, until it is there and as wanted; answers it then.
    /// Unlike for `kubectl wait`, it may go and come again.
    #[track_caller]
    pub fn until_one(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let (kind, name) = what.split_once('/').expect("kind/name");
        let this = format!("--field-selector=metadata.name={name}");
        let mut objects = self.until(&[kind, &this], |objects| objects.values().any(&wanted));
        objects.remove(name).expect("it was wanted")
    }

    /// Watches until a pod has an Event of this reason whose message contains the text.
    #[track_caller]
    pub fn wait_for_event(&self, pod: &str, reason: &str, text: &str) {
        let selector = format!("involvedObject.name={pod},reason={reason}");
        let mut command = self.kubectl_command(&["get", "events", "--watch", &until_hung()]);
        command.args(["--field-selector", &selector, "-o", "jsonpath={.message}{'\\n'}"]);
        let mut seen = Vec::new();
        let found = KubectlLines::new(&mut command).any(|line| {
            let found = line.contains(text);
            seen.push(line);
            found
        });
        assert!(found, "no event {reason} of {pod} says {text:?}, but {seen:?}");
    }

    /// The first lines of a container's log, as soon as they are there: one that has started has
    /// not said a word yet. `arguments` are those of `kubectl logs`.
    #[track_caller]
    pub fn first_lines(&self, arguments: &[&str], count: usize) -> Vec<String> {
        let mut command = self.kubectl_command(&["logs", "--follow", &until_hung()]);
        let lines: Vec<String> = KubectlLines::new(command.args(arguments)).take(count).collect();
        assert_eq!(lines.len(), count, "the whole log of {arguments:?}: {lines:#?}");
        lines
    }
}

/// Whether a condition of an object is true.
pub fn is(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == condition && c["status"] == "True")
}
