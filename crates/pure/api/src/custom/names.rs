//! Which of the names that definitions ask for they get, and whether their kinds are served.
//!
//! Upstream's naming and establishing controllers do this a moment after the write (package
//! `apiextensions-apiserver/pkg/controller/status`). Here it comes with the write, which is
//! answered when both are durable.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionCondition, CustomResourceDefinitionNames,
};
use rekindle_kinds::registry::AnyObject;
use rekindle_kinds::validation::text;
use rekindle_store::{PendingWrite, StoreError, WritePrecondition};
use rekindle_types::Tick;
use rekindle_types::definition::is_established;

use super::kind::is_place_of_server;
use super::{DEFINITIONS, definitions_entry, is_definition};
use crate::call::{ApiCall, put};
use crate::resource_metrics;
use crate::reviews::REVIEWS;
use crate::shared::ApiShared;
use crate::status::ApiError;

const NAMES_ACCEPTED: &str = "NamesAccepted";
const ESTABLISHED: &str = "Established";

/// Settles the names of all definitions, after one of them was written or removed.
pub(crate) fn settle_written(
    call: &ApiCall<'_>,
    _namespace: &str,
    _name: &str,
) -> Result<Vec<PendingWrite>, ApiError> {
    if is_definition(call.entry) { Ok(settle(call.api, call.request.now)?) } else { Ok(Vec::new()) }
}

/// Settles the names of all definitions. One that had its names first keeps them.
pub(super) fn settle(api: &ApiShared, now: Tick) -> Result<Vec<PendingWrite>, StoreError> {
    let _one_at_a_time = api.custom.hold_names();
    let mut pending = Vec::new();
    let mut definitions = api.custom.newest(api);
    // a definition that has all that it asks for changes nothing, and others may wait for a name
    definitions.retain(|(_, kind)| kind.waits_for_names());
    for (stored, _) in definitions {
        let Some(entry) = definitions_entry(api) else { continue };
        let Ok(object) = api.read(entry, &stored) else { continue };
        let Some(definition) = object.as_any().downcast_ref::<CustomResourceDefinition>() else {
            continue;
        };
        let taken = TakenNames::of_others(api, definition);
        let mut settled = definition.clone();
        taken.settle(&mut settled, now);
        if settled.same_as(definition) {
            continue;
        }
        let expect = WritePrecondition::Revision(stored.revision);
        match put(api, stored.key.as_str(), expect, Box::new(settled)) {
            Ok(write) => pending.push(write),
            // who has written it in between settles it
            Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pending)
}

/// The names that the kinds of a group have.
struct TakenNames {
    resources: Vec<String>,
    kinds: Vec<String>,
    /// The definition asks for the place of a built-in kind. It keeps no name that it has from an
    /// engine that did not have the kind: controllers would watch its objects a second time.
    is_place_of_server: bool,
}

impl TakenNames {
    /// Those of the server's own kinds and of all other definitions of this group.
    fn of_others(api: &ApiShared, definition: &CustomResourceDefinition) -> Self {
        let own = [DEFINITIONS, text(definition.metadata.name.as_ref())].concat();
        let spec = &definition.spec;
        let mut taken = Self {
            resources: Vec::new(),
            kinds: Vec::new(),
            is_place_of_server: is_place_of_server(api, &spec.group, &spec.names.plural),
        };
        for (stored, kind) in api.custom.newest(api) {
            if stored.key.as_str() == own || kind.group != definition.spec.group {
                continue;
            }
            let names = &kind.accepted;
            taken.resources.push(names.plural.clone());
            taken.resources.extend(names.singular.clone());
            taken.resources.extend(names.short_names.iter().flatten().cloned());
            taken.kinds.push(names.kind.clone());
            taken.kinds.extend(names.list_kind.clone());
        }
        taken.add_built_in(api, &definition.spec.group);
        taken.resources.retain(|name| !name.is_empty());
        taken.kinds.retain(|name| !name.is_empty());
        taken
    }

    /// Those that the server has by itself, stored or not: they are never free.
    fn add_built_in(&mut self, api: &ApiShared, group: &str) {
        for entry in api.registry.in_group(group) {
            self.resources.extend([entry.plural.to_string(), entry.singular.to_string()]);
            self.resources.extend(entry.short_names.iter().map(ToString::to_string));
            self.kinds.extend([entry.kind.to_string(), entry.list_kind.to_string()]);
        }
        for review in REVIEWS.iter().filter(|review| review.group == group) {
            self.resources.extend([review.plural, review.singular].map(str::to_owned));
            self.kinds.push(review.kind.to_owned());
        }
        if group == resource_metrics::GROUP {
            self.resources
                .extend(resource_metrics::KINDS.iter().map(|kind| kind.plural.to_owned()));
            self.kinds.extend(resource_metrics::KINDS.iter().map(|kind| kind.kind.to_owned()));
        }
    }

    fn settle(&self, definition: &mut CustomResourceDefinition, now: Tick) {
        let wanted = definition.spec.names.clone();
        let is_established = !self.is_place_of_server && is_established(definition);
        let status = definition.status.get_or_insert_default();
        let had = status.accepted_names.take().filter(|_| !self.is_place_of_server);
        let had = had.unwrap_or_default();
        let (accepted, conflict) = self.accept(&wanted, &had);
        status.accepted_names = Some(accepted);
        let conditions = status.conditions.get_or_insert_default();
        let (is_accepted, reason, message) = match conflict {
            None => ("True", "NoConflicts", "no conflicts found".to_owned()),
            Some((reason, message)) => ("False", reason, message),
        };
        set(conditions, NAMES_ACCEPTED, (is_accepted, reason, &message), now);
        if is_established {
            return;
        }
        let established = match is_accepted {
            "True" => ("True", "InitialNamesAccepted", "the initial names have been accepted"),
            _ => ("False", "NotAccepted", "not all names are accepted"),
        };
        set(conditions, ESTABLISHED, established, now);
    }

    /// The names that a definition gets, and the last of its conflicts: reason and message.
    fn accept(
        &self,
        wanted: &CustomResourceDefinitionNames,
        had: &CustomResourceDefinitionNames,
    ) -> (CustomResourceDefinitionNames, Option<(&'static str, String)>) {
        let mut accepted = had.clone();
        let mut conflict = None;
        let mut decide = |taken: &[String], wanted: &str, had: &str, reason: &'static str| {
            let is_free = wanted == had || !taken.iter().any(|name| name == wanted);
            if !is_free {
                conflict = Some((reason, format!("{wanted:?} is already in use")));
            }
            is_free
        };
        let optional = |name: &Option<String>| text(name.as_ref()).to_owned();
        if decide(&self.resources, &wanted.plural, &had.plural, "PluralConflict") {
            accepted.plural.clone_from(&wanted.plural);
        }
        let (singular, old) = (optional(&wanted.singular), optional(&had.singular));
        if decide(&self.resources, &singular, &old, "SingularConflict") {
            accepted.singular.clone_from(&wanted.singular);
        }
        let known = had.short_names.clone().unwrap_or_default();
        let short_names = wanted.short_names.iter().flatten();
        let new = short_names.filter(|name| !known.contains(name));
        // all of them are looked at, so that the message names the last
        let mut are_free = true;
        for name in new {
            are_free &= decide(&self.resources, name, "", "ShortNamesConflict");
        }
        if are_free {
            accepted.short_names.clone_from(&wanted.short_names);
        }
        if decide(&self.kinds, &wanted.kind, &had.kind, "KindConflict") {
            accepted.kind.clone_from(&wanted.kind);
        }
        let (list_kind, old) = (optional(&wanted.list_kind), optional(&had.list_kind));
        if decide(&self.kinds, &list_kind, &old, "ListKindConflict") {
            accepted.list_kind.clone_from(&wanted.list_kind);
        }
        accepted.categories.clone_from(&wanted.categories);
        (accepted, conflict)
    }
}

/// Sets a condition; its time changes with its status only.
pub(crate) fn set(
    conditions: &mut Vec<CustomResourceDefinitionCondition>,
    type_: &str,
    (status, reason, message): (&str, &str, &str),
    now: Tick,
) {
    let at = conditions.iter().position(|condition| condition.type_ == type_);
    let same_since = at.map(|at| &conditions[at]).filter(|old| old.status == status);
    let condition = CustomResourceDefinitionCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: same_since
            .and_then(|old| old.last_transition_time.clone())
            .or_else(|| Some(now.to_time())),
        ..CustomResourceDefinitionCondition::default()
    };
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}
