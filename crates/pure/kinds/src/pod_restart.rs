//! PodRestart (rekindle.dev/v1alpha1).

use rekindle_types::Tick;
use rekindle_types::v1alpha1::{
    API_VERSION, AVOID_NODE_DEFAULT, GROUP_MEMBERS_MAX, PodRestart, RESTART_MESSAGE_BYTES_MAX,
    RESTART_STEPS_MAX, RestartWorkload, Rung, avoidance_faults, empty_dirs_fault, fast_fault,
    named_container_faults,
};
use rekindle_types::validation::field_error::FieldError;

use super::defaults;
use super::preparation;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
use crate::registry::strategy::{StatusPart, Strategies, SubresourceStrategy};
use crate::table::{AGE, NAME, age, column, wide};
use crate::validation::{Path, new_mistakes, numbers, selector, text};

/// Counted as a schema counts `maxLength`.
const REASON_CHARACTERS_MAX: usize = 1024;
const UID_CHARACTERS_MAX: usize = 128;
const SECONDS_MAX: i64 = i32::MAX as i64;

impl ApiKind for PodRestart {
    const NAMES: ResourceNames = ResourceNames {
        singular: "podrestart",
        short_names: &["pr"],
        categories: &["rekindle"],
        scope: ResourceScope::Namespaced,
    };
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::Status];
    const STRATEGIES: Strategies<Self> = Strategies::of_status();
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Pod", "string", "The pod that is to be restarted, or the labels of a group."),
        column("Rung", "string", "What of it is restarted."),
        column("Phase", "string", "Where the restart is."),
        wide(
            "Container",
            "string",
            "The one container that is to be restarted, where not all are.",
        ),
        wide("Message", "string", "What happened."),
        AGE,
    ];
    const SELECTABLE_FIELDS: &'static [&'static str] = &["spec.podName", "status.phase"];

    fn set_defaults(&mut self) {
        API_VERSION.clone_into(&mut self.api_version);
        "PodRestart".clone_into(&mut self.kind);
        defaults::drop_empty_text(&mut self.spec.pod_uid);
        let rung = *self.spec.rung.get_or_insert(Rung::Pod);
        if rung == Rung::Reschedule {
            self.spec.avoid_node_for.get_or_insert_with(|| AVOID_NODE_DEFAULT.to_owned());
        }
    }

    fn prepare_for_create(&mut self, _ctx: &RequestContext<'_>) {
        preparation::first_generation(&mut self.metadata);
        self.status = None;
    }

    preparation::updates_of_spec!();

    fn validate(&self) -> Vec<FieldError> {
        let field = Path::new("spec");
        let spec = &self.spec;
        let mut errors = spec.target_faults(&field);
        if let Some(workload) = &spec.workload {
            errors.extend(workload_errors(workload, &field.child("workload")));
        }
        for (name, said, max) in [
            ("podUID", spec.pod_uid.as_ref(), UID_CHARACTERS_MAX),
            ("reason", spec.reason.as_ref(), REASON_CHARACTERS_MAX),
        ] {
            if text(said).chars().count() > max {
                errors.push(FieldError::too_many_characters(field.child(name), max));
            }
        }
        let rung = spec.rung();
        let container = spec.container_name.as_ref();
        errors.extend(named_container_faults(rung, container, &field.child("containerName")));
        errors.extend(empty_dirs_fault(rung, spec.empty_dirs, &field.child("emptyDirs")));
        errors.extend(fast_fault(spec, &field.child("fast")));
        for (name, seconds, min) in [
            ("gracePeriodSeconds", spec.grace_period_seconds, 0),
            ("deadlineSeconds", spec.deadline_seconds, 1),
            ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished, 0),
        ] {
            let seconds = seconds.into_iter();
            errors.extend(seconds.filter_map(|seconds| {
                numbers::in_range(seconds, min, SECONDS_MAX, &field.child(name))
            }));
        }
        let avoid = field.child("avoidNodeFor");
        errors.extend(avoidance_faults(rung, spec.avoid_node_for.as_ref(), &avoid));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.spec != old.spec {
            let detail = "a request cannot be changed once made; create another";
            errors.push(FieldError::forbidden("spec", detail));
        }
        errors
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        vec![("spec.podName", self.spec.pod_name.clone()), ("status.phase", phase(self))]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let message = self.status.as_ref().and_then(|status| status.message.as_ref());
        let phase = match phase(self) {
            phase if phase.is_empty() => "Pending".to_owned(),
            phase => phase,
        };
        vec![
            text(self.metadata.name.as_ref()).into(),
            target(self).into(),
            self.spec.rung().name().into(),
            phase.into(),
            text(self.spec.container_name.as_ref()).into(),
            text(message).into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

fn workload_errors(workload: &RestartWorkload, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, said, max) in [
        ("name", Some(&workload.name), REASON_CHARACTERS_MAX),
        ("uid", workload.uid.as_ref(), UID_CHARACTERS_MAX),
    ] {
        match said.map(|said| said.chars().count()) {
            Some(0) => errors.push(FieldError::required(field.child(name), "")),
            Some(count) if count > max => {
                errors.push(FieldError::too_many_characters(field.child(name), max));
            }
            Some(_) | None => {}
        }
    }
    errors
}

impl SubresourceStrategy<StatusPart> for PodRestart {
    preparation::updates_of_status!();

    fn validate_part(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = new_mistakes(status_faults(self), || status_faults(old));
        // a node's report that is late must not begin anew what its deadline has ended
        let phase_of = |restart: &Self| restart.status.as_ref().and_then(|status| status.phase);
        let before = phase_of(old).filter(|phase| phase.is_final());
        if let Some(before) = before.filter(|before| phase_of(self) != Some(*before)) {
            let detail = format!("the request is over: it stays {before:?}");
            errors.push(FieldError::forbidden("status.phase", detail));
        }
        // a request is carried out for one pod, not for a later one of its name
        let taken_up = |restart: &Self| restart.status.as_ref().and_then(|s| s.pod_uid.clone());
        let before = taken_up(old);
        if before.is_some() && taken_up(self) != before {
            let detail = "the request was taken up for another pod";
            errors.push(FieldError::forbidden("status.podUID", detail));
        }
        // nor for other pods than those that it selected when it was taken up
        let members = |restart: &Self| {
            let group = restart.group()?;
            Some(group.members.iter().map(|member| member.pod_uid.clone()).collect::<Vec<_>>())
        };
        let before = members(old);
        if before.is_some() && members(self) != before {
            let detail = "the request was taken up for other pods";
            errors.push(FieldError::forbidden("status.group.members", detail));
        }
        errors
    }
}

/// The pod that is meant, or the labels of those that are.
fn target(restart: &PodRestart) -> String {
    let labels = restart.spec.selector.as_ref();
    labels.map_or_else(|| restart.spec.pod_name.clone(), selector::format)
}

/// What is too long in a status.
fn status_faults(restart: &PodRestart) -> Vec<FieldError> {
    let Some(status) = &restart.status else { return Vec::new() };
    let mut errors = Vec::new();
    if text(status.message.as_ref()).len() > RESTART_MESSAGE_BYTES_MAX {
        errors.push(FieldError::too_long("status.message", RESTART_MESSAGE_BYTES_MAX));
    }
    if text(status.pod_uid.as_ref()).chars().count() > UID_CHARACTERS_MAX {
        errors.push(FieldError::too_many_characters("status.podUID", UID_CHARACTERS_MAX));
    }
    if status.steps.len() > RESTART_STEPS_MAX {
        errors.push(FieldError::too_many("status.steps", RESTART_STEPS_MAX));
    }
    if status.group.as_ref().is_some_and(|group| group.members.len() > GROUP_MEMBERS_MAX) {
        errors.push(FieldError::too_many("status.group.members", GROUP_MEMBERS_MAX));
    }
    errors
}

/// The phase as text; empty while nobody has taken the request up.
fn phase(object: &PodRestart) -> String {
    let phase = object.status.as_ref().and_then(|status| status.phase);
    phase.map_or_else(String::new, |phase| format!("{phase:?}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says by failing what it expected")]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(phase: Option<&str>, message: &str) -> PodRestart {
        let status = json!({"phase": phase, "message": message});
        serde_json::from_value(json!({"spec": {"podName": "web"}, "status": status})).unwrap()
    }

    #[test]
    fn what_is_over_stays_as_it_ended() {
        for (before, after, is_taken) in [
            (None, Some("Running"), true),
            (None, Some("Refused"), true),
            (Some("Running"), Some("Failed"), true),
            (Some("Failed"), Some("Failed"), true), // a pod that it owed is there after all
            (Some("Failed"), Some("Running"), false),
            (Some("Failed"), Some("Succeeded"), false),
            (Some("Succeeded"), Some("Running"), false),
            (Some("Withdrawn"), None, false),
        ] {
            let errors = at(after, "now").validate_part(&at(before, "before"));
            assert_eq!(errors.is_empty(), is_taken, "{before:?} {after:?}: {errors:?}");
        }
    }

    #[test]
    fn the_members_that_a_group_was_taken_up_with_stay_its_members() {
        let of = |members: serde_json::Value| -> PodRestart {
            let status = json!({"phase": "Running", "group": members});
            let spec = json!({"selector": {"matchLabels": {"job": "train"}}});
            serde_json::from_value(json!({"spec": spec, "status": status})).unwrap()
        };
        let group = |stage: &str, uids: &[&str]| {
            let members = uids.iter().map(|uid| json!({"podName": uid, "podUID": uid}));
            of(json!({"stage": stage, "members": members.collect::<Vec<_>>()}))
        };
        let gathering = group("Gathering", &["a", "b"]);
        assert!(gathering.validate_part(&of(json!(null))).is_empty());
        assert!(group("Stopping", &["a", "b"]).validate_part(&gathering).is_empty());
        for other in [group("Stopping", &["a"]), group("Gathering", &["a", "c"]), of(json!(null))] {
            let errors = other.validate_part(&gathering);
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert_eq!(errors[0].field, "status.group.members");
        }
    }

    #[test]
    fn the_pod_that_it_was_taken_up_for_stays_that_one() {
        let of = |uid: Option<&str>| -> PodRestart {
            let status = json!({"phase": "Running", "podUID": uid});
            serde_json::from_value(json!({"spec": {"podName": "web"}, "status": status})).unwrap()
        };
        for (before, after, is_taken) in [
            (None, Some("a"), true),
            (Some("a"), Some("a"), true),
            (Some("a"), Some("b"), false),
            (Some("a"), None, false),
        ] {
            let errors = of(after).validate_part(&of(before));
            assert_eq!(errors.is_empty(), is_taken, "{before:?} {after:?}: {errors:?}");
        }
    }
}
