//! The query and path parameters of operations.

use serde_json::{Value, json};

/// Where a parameter stands and what it is.
fn parameter(place: &str, name: &str, type_: &str, description: &str) -> Value {
    let mut parameter = json!({
        "name": name,
        "in": place,
        "description": description,
        "schema": {"type": type_, "uniqueItems": true},
    });
    if place == "path" {
        parameter["required"] = json!(true);
    }
    parameter
}

fn query(name: &str, type_: &str, description: &str) -> Value {
    parameter("query", name, type_, description)
}

/// `{name}`.
pub(super) fn name(kind: &str) -> Value {
    parameter("path", "name", "string", &format!("name of the {kind}"))
}

/// `{namespace}`.
pub(super) fn namespace() -> Value {
    parameter(
        "path",
        "namespace",
        "string",
        "object name and auth scope, such as for teams and projects",
    )
}

/// For every operation.
pub(super) fn pretty() -> Value {
    query("pretty", "string", "If 'true', then the output is pretty printed.")
}

/// For create, update and patch.
pub(super) fn write() -> Vec<Value> {
    vec![
        dry_run(),
        query("fieldManager", "string", "The name of who makes the change."),
        query(
            "fieldValidation",
            "string",
            "What happens to unknown and duplicate fields: Ignore drops them, Warn drops them with a warning (the default), \
             Strict fails the request.",
        ),
    ]
}

/// For patch, beside those of a write.
pub(super) fn force() -> Value {
    query("force", "boolean", "Takes fields over from other managers; server-side apply only.")
}

/// For delete.
pub(super) fn delete() -> Vec<Value> {
    vec![
        dry_run(),
        query(
            "gracePeriodSeconds",
            "integer",
            "Seconds before the object is deleted; zero is at once. The default is the kind's.",
        ),
        query(
            "propagationPolicy",
            "string",
            "What happens to dependents: Orphan, Background or Foreground.",
        ),
    ]
}

/// For list, watch and delete of a collection.
pub(super) fn list() -> Vec<Value> {
    vec![
        query("allowWatchBookmarks", "boolean", "Asks for BOOKMARK events in a watch."),
        query("continue", "string", "Goes on with a list that was given in parts."),
        query("fieldSelector", "string", "Restricts the objects by their fields."),
        query("labelSelector", "string", "Restricts the objects by their labels."),
        query("limit", "integer", "The most objects in an answer."),
        query(
            "resourceVersion",
            "string",
            "At which revision the list is read, or after which the watch begins.",
        ),
        query(
            "resourceVersionMatch",
            "string",
            "How resourceVersion counts: Exact or NotOlderThan.",
        ),
        query("sendInitialEvents", "boolean", "Begins a watch with the objects that are there."),
        query("timeoutSeconds", "integer", "Ends the call after this time, whatever happens."),
        query("watch", "boolean", "Follows changes instead of giving a list."),
    ]
}

/// For the log of a pod.
pub(super) fn log() -> Vec<Value> {
    vec![
        query("container", "string", "The container; needed when there are several."),
        query("follow", "boolean", "Follows the log as it is written."),
        query("limitBytes", "integer", "The most bytes in the answer."),
        query("previous", "boolean", "The log of the attempt before."),
        query("sinceSeconds", "integer", "Only lines of the last seconds."),
        query("sinceTime", "string", "Only lines since this time."),
        query("tailLines", "integer", "Only the last lines."),
        query("timestamps", "boolean", "Each line with its time."),
    ]
}

/// Of `exec`.
pub(super) fn exec() -> Vec<Value> {
    let mut parameters = attach();
    parameters.push(query("command", "string", "The command; one parameter for each argument."));
    parameters
}

/// Of `attach`.
pub(super) fn attach() -> Vec<Value> {
    vec![
        query("container", "string", "The container; needed when there are several."),
        query("stderr", "boolean", "Whether the client reads the error output."),
        query("stdin", "boolean", "Whether the client sends input."),
        query("stdout", "boolean", "Whether the client reads the output."),
        query("tty", "boolean", "Whether they are a terminal."),
    ]
}

/// Of `portforward`.
pub(super) fn port_forward() -> Vec<Value> {
    vec![query("ports", "integer", "Ports, when they are not named with each connection.")]
}

fn dry_run() -> Value {
    query("dryRun", "string", "With All, nothing is stored.")
}
