//! Kinds of flowcontrol.apiserver.k8s.io: stored for tools that read them. The limits of clients
//! are the engine's own (docs/adr/0042), so a warning says that these change nothing.

mod flow_schema;
mod priority_level;

/// The warning of a kind that has no effect.
fn without_effect(kind: &str) -> Vec<String> {
    vec![format!("a {kind} is stored only: the engine has limits of its own for its clients")]
}
