//! Restart of a group as one: a PodRestart with `spec.selector` is the group. Each of its members
//! gets a PodRestart of its own with `spec.memberOf`, which its node carries out.
//!
//! ```text
//!  Gathering -- each member has its request --> Stopping -- all have stopped --> Starting --> over
//!      | overlaps another group: Refused            | deadline: Failed               | Succeeded,
//!      v                                            v                                v or Failed
//!     over                                         over
//! ```
//! Nodes begin a member's request in the stage Stopping and no earlier. They start nothing of it
//! again before the stage Starting, or the end of the group. Members that are replaced (Recreate,
//! Reschedule) are all evicted in the stage Starting: what makes a new pod waits for no one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema_rules::{GROUP_RUNG_MESSAGE, MEMBER_MESSAGE, WORKLOAD_MESSAGE};
use super::{CarriedOutBy, PodRestart, PodRestartPhase, PodRestartSpec, Rung};
use crate::labels;
use crate::validation::{FieldError, Path, invalid_each, names, selector};

/// Pods of one group.
pub const GROUP_MEMBERS_MAX: usize = 500;

/// Bytes of what is said of one member; what is longer is cut.
pub const MEMBER_MESSAGE_BYTES_MAX: usize = 256;

/// The workload that the pods of a group belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dev.rekindle.v1alpha1.RestartWorkload")]
pub struct RestartWorkload {
    /// What the ledger of the group calls it: LADDER/KIND/NAME, or LADDER/pods.
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,
    /// The UID of the object that owns the pods, directly or through its controllers. Absent: pods
    /// without a controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub uid: Option<String>,
}

/// How far the restart of a group is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.GroupRestart")]
pub struct GroupRestart {
    /// What all members do.
    pub stage: GroupRestartStage,
    /// The pods that the selector matched when the request was taken up, by name. Their phases are
    /// those of the last change of the stage.
    #[serde(default)]
    #[schemars(length(max = 500))]
    pub members: Vec<GroupRestartMember>,
}

/// The stages of a group: Gathering → Stopping → Starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "dev.rekindle.v1alpha1.GroupRestartStage")]
pub enum GroupRestartStage {
    /// The members get their requests. Nothing is stopped yet.
    Gathering,
    /// All members stop, and none starts.
    Stopping,
    /// The members start.
    Starting,
}

/// One pod of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "dev.rekindle.v1alpha1.GroupRestartMember")]
pub struct GroupRestartMember {
    /// The pod.
    pub pod_name: String,
    /// Its UID: a later pod of that name is no member.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The PodRestart of this member. Absent when the pod is left out: `message` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_name: Option<String>,
    /// The UID of that PodRestart, from the stage Stopping on. It is not made a second time.
    #[serde(default, rename = "requestUID", skip_serializing_if = "Option::is_none")]
    pub request_uid: Option<String>,
    /// How far it is. Absent while it is not taken up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PodRestartPhase>,
    /// When all its containers had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<Time>,
    /// What happened to it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl GroupRestartMember {
    /// Says what happened to it. A long message is cut.
    pub fn tell(&mut self, phase: Option<PodRestartPhase>, mut message: String) {
        message.truncate(message.floor_char_boundary(MEMBER_MESSAGE_BYTES_MAX));
        self.phase = phase;
        self.message = Some(message).filter(|message| !message.is_empty());
    }
}

/// What a node does with the request of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberTurn {
    /// Nothing: the group is not complete yet, or does not know the request.
    Wait,
    /// Stop the pod, and start nothing of it.
    Stop,
    /// Start the pod, if it was stopped.
    Start,
}

impl PodRestart {
    /// Whether it is the restart of a group.
    pub fn is_of_group(&self) -> bool {
        self.spec.selector.is_some()
    }

    /// The pod that it is for, or what the ledger of a ladder's group calls that group. Empty of a
    /// person's group.
    pub fn subject(&self) -> &str {
        let workload = self.spec.workload.as_ref();
        workload.map_or(&self.spec.pod_name, |workload| &workload.name)
    }

    /// Who carries it out: groups are the operator's, on each rung.
    pub fn carried_out_by(&self) -> CarriedOutBy {
        if self.is_of_group() { CarriedOutBy::Operator } else { self.spec.rung().carried_out_by() }
    }

    /// How far it is, if it is the restart of a group and was taken up.
    pub fn group(&self) -> Option<&GroupRestart> {
        self.status.as_ref()?.group.as_ref()
    }

    /// What it says of the member that has the request with this UID.
    pub fn member(&self, request_uid: &str) -> Option<&GroupRestartMember> {
        let members = self.group().into_iter().flat_map(|group| &group.members);
        { members }.find(|member| member.request_uid.as_deref() == Some(request_uid))
    }

    /// What a node does with this request, when `group` is the object that it names in
    /// `spec.memberOf`. One that is of no group is begun at once. A group that is gone holds
    /// nothing.
    pub fn member_turn(&self, group: Option<&PodRestart>) -> MemberTurn {
        if self.spec.member_of.is_none() {
            return MemberTurn::Stop;
        }
        let Some(group) = group else { return MemberTurn::Start };
        let status = group.status.as_ref();
        if status.and_then(|status| status.phase).is_some_and(PodRestartPhase::is_final) {
            return MemberTurn::Start;
        }
        let uid = self.metadata.uid.as_deref().unwrap_or_default();
        match group.group().map(|group| group.stage) {
            Some(_) if group.member(uid).is_none() => MemberTurn::Wait,
            None | Some(GroupRestartStage::Gathering) => MemberTurn::Wait,
            Some(GroupRestartStage::Stopping) => MemberTurn::Stop,
            Some(GroupRestartStage::Starting) => MemberTurn::Start,
        }
    }
}

impl PodRestartSpec {
    /// Everything wrong with which pods it means.
    pub fn target_faults(&self, field: &Path) -> Vec<FieldError> {
        let mut errors = match &self.selector {
            Some(selector) => self.group_faults(selector, field),
            None => self.pod_name_faults(field),
        };
        if let Some(group) = &self.member_of {
            errors.extend(self.member_faults(group, &field.child("memberOf")));
        }
        if self.workload.is_some() && self.selector.is_none() {
            errors.push(FieldError::forbidden(field.child("workload"), WORKLOAD_MESSAGE));
        }
        errors
    }

    fn pod_name_faults(&self, field: &Path) -> Vec<FieldError> {
        let field = field.child("podName");
        if self.pod_name.is_empty() {
            return vec![FieldError::required(field, "")];
        }
        invalid_each(&field, &self.pod_name, names::dns_subdomain(&self.pod_name)).collect()
    }

    fn group_faults(&self, selector: &LabelSelector, field: &Path) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let own = field.child("selector");
        if labels::is_empty(selector) {
            let detail = "a group must say which pods it is for";
            errors.push(FieldError::required(&own, detail));
        } else {
            errors.extend(selector::check(selector, &own));
        }
        for (name, is_set) in [
            ("podName", !self.pod_name.is_empty()),
            ("podUID", self.pod_uid.is_some()),
            ("memberOf", self.member_of.is_some()),
        ] {
            if is_set {
                let detail = "may not be set together with selector";
                errors.push(FieldError::forbidden(field.child(name), detail));
            }
        }
        if !is_rung_of_groups(self.rung()) {
            let rung = self.rung().name();
            errors.push(FieldError::invalid(field.child("rung"), rung, GROUP_RUNG_MESSAGE));
        }
        errors
    }

    fn member_faults(&self, group: &str, field: &Path) -> Vec<FieldError> {
        let named = invalid_each(field, group, names::dns_subdomain(group));
        let mut errors: Vec<FieldError> = named.collect();
        if !is_rung_of_groups(self.rung()) {
            errors.push(FieldError::forbidden(field, MEMBER_MESSAGE));
        }
        errors
    }
}

/// Whether the pods of a group can be restarted as one on this rung: all of each pod ends.
pub fn is_rung_of_groups(rung: Rung) -> bool {
    match rung {
        Rung::Containers | Rung::Pod | Rung::Recreate | Rung::Reschedule => true,
        Rung::Container | Rung::Rollback => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn restart(object: Value) -> PodRestart {
        serde_json::from_value(object).unwrap()
    }

    fn faults(spec: Value) -> Vec<String> {
        let restart = restart(json!({"metadata": {"name": "a"}, "spec": spec}));
        let faults = restart.spec.target_faults(&Path::new("spec"));
        faults.iter().map(|fault| fault.field.clone()).collect()
    }

    #[test]
    fn a_request_names_one_pod_or_selects_a_group_on_a_rung_that_stops_all_of_a_pod() {
        let labels = json!({"matchLabels": {"job": "train"}});
        for (spec, expected) in [
            (json!({"podName": "web"}), vec![]),
            (json!({}), vec!["spec.podName"]),
            (json!({"selector": labels}), vec![]),
            (json!({"selector": labels, "rung": "Containers"}), vec![]),
            (json!({"selector": labels, "rung": "Container"}), vec!["spec.rung"]),
            (json!({"selector": labels, "rung": "Recreate"}), vec![]),
            (json!({"selector": labels, "rung": "Rollback"}), vec!["spec.rung"]),
            (json!({"selector": labels, "workload": {"name": "l/job/train"}}), vec![]),
            (json!({"podName": "web", "workload": {"name": "l/pods"}}), vec!["spec.workload"]),
            (json!({"selector": {}}), vec!["spec.selector"]),
            (
                json!({"selector": {"matchLabels": {"job": "a b"}}}),
                vec!["spec.selector.matchLabels"],
            ),
            (
                json!({"selector": labels, "podName": "web", "podUID": "1", "memberOf": "train"}),
                vec!["spec.podName", "spec.podUID", "spec.memberOf"],
            ),
            (json!({"podName": "web", "memberOf": "train"}), vec![]),
            (json!({"podName": "web", "memberOf": "A b"}), vec!["spec.memberOf"]),
            (
                json!({"podName": "web", "memberOf": "train", "rung": "Rollback"}),
                vec!["spec.memberOf"],
            ),
        ] {
            assert_eq!(faults(spec.clone()), expected, "{spec}");
        }
    }

    #[test]
    fn a_member_stops_when_its_group_knows_it_and_starts_when_all_have_stopped() {
        let member = restart(json!({
            "metadata": {"name": "train-0", "uid": "r0"},
            "spec": {"podName": "web", "memberOf": "train"},
        }));
        let group = |phase: &str, stage: &str, request: Option<&str>| {
            restart(json!({
                "metadata": {"name": "train"},
                "spec": {"selector": {"matchLabels": {"job": "train"}}},
                "status": {"phase": phase, "group": {"stage": stage, "members": [
                    {"podName": "web", "podUID": "p", "requestUID": request},
                ]}},
            }))
        };
        for (phase, stage, request, expected) in [
            ("Running", "Gathering", None, MemberTurn::Wait),
            ("Running", "Stopping", None, MemberTurn::Wait),
            ("Running", "Stopping", Some("r0"), MemberTurn::Stop),
            ("Running", "Starting", Some("r0"), MemberTurn::Start),
            ("Failed", "Stopping", Some("r0"), MemberTurn::Start),
            ("Refused", "Gathering", None, MemberTurn::Start),
        ] {
            let turn = member.member_turn(Some(&group(phase, stage, request)));
            assert_eq!(turn, expected, "{phase} {stage} {request:?}");
        }
        assert_eq!(member.member_turn(None), MemberTurn::Start, "the group was deleted");
        let alone = restart(json!({"metadata": {"name": "web"}, "spec": {"podName": "web"}}));
        assert_eq!(alone.member_turn(None), MemberTurn::Stop);
        let new = restart(json!({"metadata": {"name": "train"}, "spec": {}}));
        assert_eq!(member.member_turn(Some(&new)), MemberTurn::Wait);
    }
}
