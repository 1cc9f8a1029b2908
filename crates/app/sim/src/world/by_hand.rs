//! What is asked of the API by hand: manifests, and the changes of a script or of users.

use http::Method;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use rekindle_types::{ResourceScope, TickDuration};
use serde_json::{Value, json};

use super::{MERGE_PATCH, World, path};
use crate::error::SimError;
use crate::faults::NodeReturn;
use crate::script::WorldChange;

/// An agent notices with one heartbeat that its Node is gone, and registers with the next; a
/// heartbeat comes every ten seconds.
const REGISTERS_AFTER: TickDuration = TickDuration::from_secs(15);

/// What the API makes of fields that it does not know (KEP-2885).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFieldHandling {
    /// It warns of them.
    #[default]
    Warn,
    /// It refuses them, as it does for kubectl.
    Strict,
}

impl UnknownFieldHandling {
    const fn query(self) -> &'static str {
        match self {
            Self::Warn => "",
            Self::Strict => "?fieldValidation=Strict",
        }
    }
}

impl World {
    /// What the API makes of fields that it does not know, in what is asked by hand from now on.
    pub const fn set_field_validation(&mut self, validation: UnknownFieldHandling) {
        self.validation = validation;
    }

    /// What the API warned of, by the object.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Creates an object, or changes the one that is there to what this says.
    ///
    /// # Errors
    /// When the API refuses it, in its words.
    pub fn apply(&mut self, object: &Value) -> Result<(), SimError> {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (namespace, name) =
            (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        let refused = |message: String| SimError::Refused {
            operation: "apply",
            object: format!("{kind} {name}"),
            message,
        };
        let known = ResourceKind::of_reference(&api_version, &kind)
            .ok_or_else(|| refused(format!("there is no kind {kind} in {api_version:?} here")))?;
        let namespace = match known.info().scope {
            ResourceScope::Cluster => String::new(),
            ResourceScope::Namespaced if namespace.is_empty() => "default".to_owned(),
            ResourceScope::Namespaced => namespace,
        };
        let id = ObjectId::new(known, NamespacedName::new(namespace, name.as_str()));
        let (code, answer) = match self.server.holds(&id) {
            true => self.call_by_hand(&id, Method::PATCH, &path(&id, ""), object),
            false => {
                let path = rekindle_reconcile::wire::collection(&id)
                    .map_err(|no_path| refused(no_path.to_string()))?;
                self.call_by_hand(&id, Method::POST, &path, object)
            }
        };
        if code >= 300 {
            return Err(refused(text(&answer["message"])));
        }
        self.trace.add(self.now, &format!("apply {id}"));
        Ok(())
    }

    /// Does what a script or a user wants.
    pub(super) fn change(&mut self, change: WorldChange) -> Result<(), SimError> {
        match change {
            WorldChange::Apply(object) => self.apply(&object),
            WorldChange::Patch(id, patch) => {
                let path = named_path(&id, "change")?;
                let answer = self.call_by_hand(&id, Method::PATCH, &path, &patch);
                self.accepted(&id, "change", answer)
            }
            WorldChange::Delete(id) => {
                let path = named_path(&id, "delete")?;
                let answer = self.call(Method::DELETE, &path, "application/json", &json!({}));
                self.accepted(&id, "delete", answer)?;
                self.availability.give_up(&id);
                if id.kind == ResourceKind::Node {
                    self.node_deleted(&id.name.name, NodeReturn::After(REGISTERS_AFTER));
                }
                Ok(())
            }
            WorldChange::Cut(nodes) => {
                self.cut(&nodes);
                Ok(())
            }
            WorldChange::Mend(nodes) => {
                self.mend(&nodes);
                Ok(())
            }
        }
    }

    /// Asks for a change that nobody waits for. What is wrong with an object that is applied is
    /// told; what another change refers to may not be there.
    ///
    /// # Errors
    /// When the API refuses an object, in its words.
    pub(crate) fn try_out(&mut self, change: WorldChange) -> Result<(), SimError> {
        match change {
            WorldChange::Apply(object) => self.apply(&object),
            WorldChange::Patch(id, patch) => {
                if let Ok(path) = rekindle_reconcile::wire::path(&id, "") {
                    self.call(Method::PATCH, &path, MERGE_PATCH, &patch);
                }
                Ok(())
            }
            WorldChange::Delete(_) | WorldChange::Cut(_) | WorldChange::Mend(_) => Ok(()),
        }
    }

    fn accepted(
        &mut self,
        id: &ObjectId,
        operation: &'static str,
        (code, answer): (u16, Value),
    ) -> Result<(), SimError> {
        self.trace.add(self.now, &format!("{operation} {id}: {code}"));
        match code {
            0..300 => Ok(()),
            _ => {
                let message = answer["message"].as_str().unwrap_or_default().to_owned();
                Err(SimError::Refused { operation, object: id.to_string(), message })
            }
        }
    }

    /// A request by hand: the code, and what the API says when it refuses. What it warns of is
    /// kept.
    fn call_by_hand(
        &mut self,
        id: &ObjectId,
        method: Method,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let kind = match method == Method::PATCH {
            true => MERGE_PATCH,
            false => "application/json",
        };
        let path = format!("{path}{}", self.validation.query());
        let answered = self.server.ask(method, &path, kind, body.to_string().into_bytes());
        for warning in &answered.warnings {
            let warning = format!("{id}: {warning}");
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        answered.refusal()
    }
}

/// The path of what a script names.
fn named_path(id: &ObjectId, operation: &'static str) -> Result<String, SimError> {
    rekindle_reconcile::wire::path(id, "").map_err(|no_path| SimError::Refused {
        operation,
        object: id.to_string(),
        message: no_path.to_string(),
    })
}
