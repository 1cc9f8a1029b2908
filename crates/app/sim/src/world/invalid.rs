//! What users ask for that no API may grant (P9): it is refused, the field that is wrong is named,
//! and nothing changes for it.

use http::Method;
use serde_json::{Value, json};

use super::{MERGE_PATCH, World, collection, path};
use crate::faults::InvalidPatch;
use crate::known_bugs::KnownBug;
use crate::server::MachinePower;

impl World {
    /// A user asks for it: as a change of the object, or for such an object when there is none.
    pub(crate) fn ask_for_what_is_invalid(&mut self, invalid: &InvalidPatch) {
        let InvalidPatch { id, patch, field, whole } = invalid;
        let before = (self.server.revision(), self.server.stored(id));
        let (method, path, kind, body, field) = match before.1 {
            Some(_) => (Method::PATCH, path(id, ""), MERGE_PATCH, patch, field.as_str()),
            None => (Method::POST, collection(id), "application/json", whole, "spec"),
        };
        if self.faults.bug == Some(KnownBug::InvalidHalfDone) {
            let labels = json!({"metadata": {"labels": {"half": "done"}}});
            self.call(Method::PATCH, &path, MERGE_PATCH, &labels);
        }
        let (code, answer) = self.call(method.clone(), &path, kind, body);
        self.trace.add(self.now, &format!("a user asks {method} {id} to be {body}: {code}"));
        let has_no_disk = self.full_until > self.now || self.server.power() != MachinePower::On;
        let is_refused = matches!(code, 400 | 422);
        let is_excused = has_no_disk && code >= 500;
        if !(is_refused || is_excused) {
            self.breaks(&format!("P9: {id} may be {body}: {code}"));
        } else if (self.server.revision(), self.server.stored(id)) != before {
            self.breaks(&format!("P9: {id} may not be {body}, and something changes: {code}"));
        } else if is_refused && !names(&answer, field) {
            let said = &answer["message"];
            self.breaks(&format!("P9: {id} may not be {body}, and {field} is not named: {said}"));
        }
    }
}

/// Whether a refusal says that this field is wrong.
fn names(answer: &Value, field: &str) -> bool {
    let message = answer["message"].as_str().unwrap_or_default();
    let causes = answer["details"]["causes"].as_array();
    let mut fields = causes.into_iter().flatten().filter_map(|cause| cause["field"].as_str());
    message.contains(field) || fields.any(|named| named == field)
}
