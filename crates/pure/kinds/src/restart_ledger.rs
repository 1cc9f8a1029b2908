//! RestartLedger (rekindle.dev/v1alpha1).

use rekindle_types::Tick;
use rekindle_types::v1alpha1::{
    API_VERSION, GROUP_MEMBERS_MAX, LedgerMember, MEMBER_MESSAGE_BYTES_MAX, RestartLedger,
    RestartLedgerStatus,
};
use rekindle_types::validation::field_error::FieldError;

use super::preparation;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, human, wide};
use crate::validation::{Path, items, new_mistakes, text};

const DECISIONS_MAX: usize = 32;
const TEXT_BYTES_MAX: usize = 4096;
/// Containers of a pod, and attempts of a rung: what a ledger may hold at most.
const ENTRIES_MAX: usize = 1000;

impl ApiKind for RestartLedger {
    const NAMES: ResourceNames = ResourceNames {
        singular: "restartledger",
        short_names: &["rledger"],
        categories: &["rekindle"],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Pod", "string", "The pod that carries the identity now."),
        column("Rung", "string", "The rung the workload is on."),
        column("Phase", "string", "What the ladder does."),
        column("Failures", "integer", "Failures since the ledger was made."),
        column("Next", "string", "In how long the next attempt is due."),
        column("Why", "string", "Why, at a glance."),
        AGE,
        wide("Message", "string", "Why, in full."),
    ];
    const SELECTABLE_FIELDS: &'static [&'static str] = &["spec.podName", "status.phase"];

    fn set_defaults(&mut self) {
        API_VERSION.clone_into(&mut self.api_version);
        "RestartLedger".clone_into(&mut self.kind);
    }

    /// Status is kept: a ledger is written by Rekindle only, and its first entry must not need a
    /// second write to last.
    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        self.status
            .as_ref()
            .map_or_else(Vec::new, |status| status_errors(status, &Path::new("status")))
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        vec![("spec.podName", self.spec.pod_name.clone()), ("status.phase", phase(self))]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let status = self.status.as_ref();
        let rung = status.and_then(|status| status.rung).map_or("<none>", |rung| rung.name());
        let next = status.and_then(|status| status.next_attempt_at.as_ref()).map(Tick::from);
        let next = match next {
            None => "<none>".to_owned(),
            Some(at) if at <= now => "now".to_owned(),
            Some(at) => human(at.since(now)),
        };
        let failures = status.map_or(0, |status| status.failures_total);
        vec![
            text(self.metadata.name.as_ref()).into(),
            self.spec.pod_name.as_str().into(),
            rung.into(),
            phase(self).into(),
            TableCell::Int(i64::try_from(failures).unwrap_or(i64::MAX)),
            next.into(),
            text(status.and_then(|status| status.summary.as_ref())).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
            text(status.and_then(|status| status.message.as_ref())).into(),
        ]
    }
}

impl SubresourceStrategy<StatusPart> for RestartLedger {
    preparation::updates_of_status!();

    fn validate_part(&self, old: &Self) -> Vec<FieldError> {
        new_mistakes(self.validate(), || old.validate())
    }
}

fn status_errors(status: &RestartLedgerStatus, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, said) in [("message", &status.message), ("summary", &status.summary)] {
        if text(said.as_ref()).len() > TEXT_BYTES_MAX {
            errors.push(FieldError::too_long(field.child(name), TEXT_BYTES_MAX));
        }
    }
    let decisions = items(status.decisions.as_ref());
    let decisions_field = field.child("decisions");
    if decisions.len() > DECISIONS_MAX {
        errors.push(FieldError::too_many(&decisions_field, DECISIONS_MAX));
    }
    for (index, decision) in decisions.iter().enumerate() {
        let field = decisions_field.index(index);
        if decision.reason.len() > TEXT_BYTES_MAX {
            errors.push(FieldError::too_long(field.child("reason"), TEXT_BYTES_MAX));
        }
        let message = decision.outcome.as_ref().and_then(|outcome| outcome.message.as_ref());
        if text(message).len() > TEXT_BYTES_MAX {
            let field = field.child("outcome").child("message");
            errors.push(FieldError::too_long(field, TEXT_BYTES_MAX));
        }
    }
    for (index, rung) in items(status.attempts.as_ref()).iter().enumerate() {
        if rung.at.len() > ENTRIES_MAX {
            let field = field.child("attempts").index(index).child("at");
            errors.push(FieldError::too_many(field, ENTRIES_MAX));
        }
    }
    errors.extend(member_errors(items(status.members.as_ref()), &field.child("members")));
    if items(status.observed.as_ref()).len() > ENTRIES_MAX {
        errors.push(FieldError::too_many(field.child("observed"), ENTRIES_MAX));
    }
    errors
}

fn member_errors(members: &[LedgerMember], field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if members.len() > GROUP_MEMBERS_MAX {
        errors.push(FieldError::too_many(field, GROUP_MEMBERS_MAX));
    }
    for (index, member) in members.iter().enumerate() {
        let field = field.index(index);
        if text(member.message.as_ref()).len() > MEMBER_MESSAGE_BYTES_MAX {
            errors.push(FieldError::too_long(field.child("message"), MEMBER_MESSAGE_BYTES_MAX));
        }
        if items(member.observed.as_ref()).len() > ENTRIES_MAX {
            errors.push(FieldError::too_many(field.child("observed"), ENTRIES_MAX));
        }
    }
    errors
}

/// The phase as text; empty while there is none.
fn phase(object: &RestartLedger) -> String {
    let phase = object.status.as_ref().and_then(|status| status.phase);
    phase.map_or_else(String::new, |phase| format!("{phase:?}"))
}
