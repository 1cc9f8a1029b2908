//! What standard output gets of a restart: lines for people, or with `-o` the requests alone, as of
//! what `kubectl create` makes. What is told beside them goes to standard error then.

use std::cell::RefCell;

use anyhow::Context;
use kube::ResourceExt;
use rekindle_types::v1alpha1::{API_VERSION, PodRestart};
use serde_json::{Value, json};

use crate::args::RestartOutput;
use crate::output;

/// What kubectl says for a name that is not given yet, as in a dry run of the client.
const NO_NAME: &str = "<unknown>";

/// Where the requests and the lines of one command go.
pub(super) struct RestartOutputLines {
    form: RestartOutput,
    /// The requests in the order in which they were asked for, each as it was seen last.
    requests: RefCell<Vec<PodRestart>>,
}

impl RestartOutputLines {
    pub(super) fn new(form: RestartOutput) -> Self {
        Self { form, requests: RefCell::default() }
    }

    /// A line for people.
    pub(super) fn line(&self, text: &str) {
        match self.form {
            RestartOutput::Text => output::tell(text),
            RestartOutput::Name | RestartOutput::Json | RestartOutput::Yaml => output::note(text),
        }
    }

    /// A request that is there now; `line` tells people of it.
    pub(super) fn asked(&self, request: &PodRestart, line: &str) {
        match self.form {
            RestartOutput::Text => output::tell(line),
            RestartOutput::Name => output::tell(name(request)),
            RestartOutput::Json | RestartOutput::Yaml => {}
        }
        self.requests.borrow_mut().push(request.clone());
    }

    /// A request that would be made.
    pub(super) fn would_be(&self, request: &PodRestart) {
        match self.form {
            RestartOutput::Text | RestartOutput::Json | RestartOutput::Yaml => {}
            RestartOutput::Name => output::tell(name(request)),
        }
        self.requests.borrow_mut().push(request.clone());
    }

    /// How one that was asked for is now.
    pub(super) fn seen(&self, now: &PodRestart) {
        let mut requests = self.requests.borrow_mut();
        let is_it = |asked: &&mut PodRestart| asked.uid() == now.uid();
        if let Some(asked) = requests.iter_mut().find(is_it) {
            asked.clone_from(now);
        }
    }

    /// Prints the objects, when these are asked for: also those of a command that was given up, for
    /// they are there.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        let text = match self.form {
            RestartOutput::Text | RestartOutput::Name => return Ok(()),
            RestartOutput::Json => self.object().and_then(|object| {
                let text = serde_json::to_string_pretty(&object)?;
                Ok(text + "\n")
            }),
            RestartOutput::Yaml => {
                self.object().and_then(|object| Ok(rekindle_manifest::yaml(&[object])?))
            }
        };
        output::print(&text.context("write the requests")?)
    }

    /// True when no request was made, nor would be.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.borrow().is_empty()
    }

    /// The one request, or a list of them.
    fn object(&self) -> anyhow::Result<Value> {
        let requests = self.requests.borrow();
        let mut objects = requests.iter().map(shown).collect::<Result<Vec<Value>, _>>()?;
        Ok(match objects.len() {
            1 => objects.remove(0),
            _ => json!({
                "apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": objects
            }),
        })
    }
}

/// As `-o name` has it.
fn name(request: &PodRestart) -> String {
    let name = request.metadata.name.as_deref().unwrap_or(NO_NAME);
    format!("podrestart.rekindle.dev/{name}")
}

/// As kubectl shows an object: without who manages its fields. Of a list the API may leave the kind
/// out.
fn shown(request: &PodRestart) -> serde_json::Result<Value> {
    let mut request = request.clone();
    request.metadata.managed_fields = None;
    request.api_version = API_VERSION.to_owned();
    request.kind = "PodRestart".to_owned();
    serde_json::to_value(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str, phase: Value) -> PodRestart {
        let request = json!({"metadata": {"name": name, "uid": name, "managedFields": [{"manager": "a"}]},
            "spec": {"podName": "web-0"}, "status": {"phase": phase}});
        serde_json::from_value(request).unwrap()
    }

    #[test]
    fn one_request_is_an_object_and_any_other_number_a_list_each_as_it_was_seen_last() {
        let printed = RestartOutputLines::new(RestartOutput::Json);
        assert_eq!(printed.object().unwrap()["items"], json!([]));
        printed.asked(&request("a", Value::Null), "podrestart.rekindle.dev/a created");
        printed.seen(&request("a", json!("Running")));
        let alone = printed.object().unwrap();
        assert_eq!(
            [&alone["apiVersion"], &alone["kind"], &alone["status"]["phase"]],
            ["rekindle.dev/v1alpha1", "PodRestart", "Running"]
        );
        assert!(alone["metadata"].get("managedFields").is_none(), "{alone}");
        printed.asked(&request("b", Value::Null), "podrestart.rekindle.dev/b created");
        printed.seen(&request("a", json!("Succeeded")));
        let both = printed.object().unwrap();
        assert_eq!([&both["apiVersion"], &both["kind"]], ["v1", "List"]);
        let items = both["items"].as_array().unwrap();
        let phases: Vec<&Value> = items.iter().map(|item| &item["status"]["phase"]).collect();
        assert_eq!(phases, [&json!("Succeeded"), &Value::Null]);
    }

    #[test]
    fn a_name_that_the_server_has_yet_to_give_is_said_as_kubectl_says_it() {
        assert_eq!(name(&request("a", Value::Null)), "podrestart.rekindle.dev/a");
        assert_eq!(name(&PodRestart::default()), "podrestart.rekindle.dev/<unknown>");
    }
}
