//! The ReplicaSet with the Deployment's present template: found or made, and given its revision.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::revisions::TEMPLATE_HASH_LABEL;
use serde_json::json;

use super::conditions::{self, ConditionTruth};
use super::fenceposts::{self, RolloutStrategy};
use super::rollout::Rollout;
use super::{annotations, status};
use crate::plan::{PatchTarget, PlannedWrite, WriteNotes, WriteOperation};
use crate::{NamespacedName, ObjectId, ResourceKind, names, owners};

/// What became of the search for the new ReplicaSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewReplicaSet {
    /// It stands, with its revision and annotations in order.
    Ready,
    /// It is being made, or put in order: the answer brings the next look.
    InTheMaking,
    /// There is none.
    Absent,
}

impl Rollout<'_> {
    /// Brings revision and annotations of the new ReplicaSet and of the Deployment in order; makes
    /// none.
    pub(super) fn find_new_set(&mut self) -> NewReplicaSet {
        let Some(index) = self.new else { return NewReplicaSet::Absent };
        let revision = self.next_revision();
        let min_ready = self.deployment.spec.min_ready_seconds;
        let member = &mut self.sets[index];
        let mut set = member.set.as_ref().clone();
        let mut changed = annotations::copy_from_deployment(&mut set, self.deployment);
        changed |= annotations::raise_revision(&mut set, revision);
        let spec = &mut set.spec;
        if spec.min_ready_seconds.unwrap_or(0) != min_ready.unwrap_or(0) {
            spec.min_ready_seconds = min_ready;
            changed = true;
        }
        self.record_revision(annotations::revision(&set));
        let name = set.metadata.name.clone().unwrap_or_default();
        self.found(&name);
        if changed {
            self.sets[index].edited = Some(set);
            return NewReplicaSet::InTheMaking;
        }
        NewReplicaSet::Ready
    }

    /// The same, and makes one if there is none.
    pub(super) fn ensure_new_set(&mut self) -> NewReplicaSet {
        match self.find_new_set() {
            NewReplicaSet::Absent => {
                self.make_new_set();
                NewReplicaSet::InTheMaking
            }
            found => found,
        }
    }

    /// One more than the highest revision of the old ReplicaSets.
    fn next_revision(&self) -> i64 {
        self.old().map(|index| annotations::revision(&self.sets[index].set)).max().unwrap_or(0) + 1
    }

    /// Writes the revision onto the Deployment: with its status, as upstream. An annotation that is
    /// written otherwise is a new generation.
    fn record_revision(&mut self, revision: i64) {
        let meta = &self.deployment.metadata;
        let current = meta.annotations.as_ref().and_then(|a| a.get(annotations::REVISION));
        if current.map(String::as_str) == Some(revision.to_string().as_str()) {
            return;
        }
        self.has_deployment_write = true;
        self.steps.push(PlannedWrite::from(WriteOperation::Patch {
            id: ObjectId::new(ResourceKind::Deployment, NamespacedName::from_meta(meta)),
            part: PatchTarget::Status,
            patch: json!({"metadata": {
                "uid": meta.uid,
                "annotations": {annotations::REVISION: revision.to_string()},
            }}),
        }));
    }

    fn found(&mut self, name: &str) {
        let is_first = conditions::get(&self.status, conditions::PROGRESSING).is_none();
        if status::progress_deadline(self.deployment).is_some() && is_first {
            let message = format!("Found new replica set \"{name}\"");
            let reason = conditions::FOUND_NEW_SET;
            let condition = conditions::new(
                conditions::PROGRESSING,
                ConditionTruth::True,
                reason,
                message,
                self.now,
            );
            conditions::set(&mut self.status, condition);
        }
    }

    fn make_new_set(&mut self) {
        let spec = &self.deployment.spec;
        let hash = names::template_hash(&spec.template, self.status.collision_count);
        let meta = &self.deployment.metadata;
        let name = format!("{}-{hash}", meta.name.as_deref().unwrap_or_default());
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        if self.view.replica_set(&NamespacedName::new(namespace, name.as_str())).is_some() {
            // It is another's, or has another template: the next hash differs.
            let count = self.status.collision_count.unwrap_or(0);
            self.status.collision_count = Some(count.saturating_add(1));
            self.write_status();
            return;
        }
        let mut set = self.new_set(&hash, name.clone());
        let replicas = match fenceposts::strategy(self.deployment) {
            RolloutStrategy::Recreate => self.wanted(),
            RolloutStrategy::RollingUpdate => self.room_for_new(0),
        };
        set.spec.replicas = Some(replicas);
        annotations::copy_from_deployment(&mut set, self.deployment);
        annotations::raise_revision(&mut set, self.next_revision());
        annotations::set_sizes(&mut set, self.deployment);
        let report = self.creation_report(&name, replicas);
        self.steps
            .push(PlannedWrite { write: WriteOperation::Create(set.into()), report: Some(report) });
        self.note_creation(&name);
    }

    fn creation_report(&self, name: &str, replicas: i32) -> WriteNotes {
        let mut report = self.scaling_report(name, 0, replicas);
        // nothing was scaled
        if replicas == 0 {
            report.success.clear();
        }
        report.failure.reason = conditions::FAILED_CREATE;
        report.failure.message = format!("Failed to create new replica set \"{name}\": ");
        report
    }

    /// Condition Progressing about the ReplicaSet that is being made; it is written when it stands,
    /// or when it could not be made.
    fn note_creation(&mut self, name: &str) {
        let id = ObjectId::new(
            ResourceKind::Deployment,
            NamespacedName::from_meta(&self.deployment.metadata),
        );
        if status::progress_deadline(self.deployment).is_none() {
            return;
        }
        let condition = match self.view.failure(&id) {
            Some(failure) if failure.reason == conditions::FAILED_CREATE => {
                let message =
                    format!("Failed to create new replica set \"{name}\": {}", failure.message);
                conditions::new(
                    conditions::PROGRESSING,
                    ConditionTruth::False,
                    conditions::FAILED_CREATE,
                    message,
                    self.now,
                )
            }
            _ => conditions::new(
                conditions::PROGRESSING,
                ConditionTruth::True,
                conditions::NEW_SET,
                format!("Created new replica set \"{name}\""),
                self.now,
            ),
        };
        conditions::set(&mut self.status, condition);
        if self.deployment.status.as_ref() != Some(&self.status) {
            self.write_status_first();
        }
    }

    fn new_set(&self, hash: &str, name: String) -> ReplicaSet {
        let spec = self.deployment.spec.clone();
        let mut template = spec.template;
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(TEMPLATE_HASH_LABEL.to_owned(), hash.to_owned());
        let labels = labels.clone();
        let mut selector = spec.selector;
        let match_labels = selector.match_labels.get_or_insert_default();
        match_labels.insert(TEMPLATE_HASH_LABEL.to_owned(), hash.to_owned());
        let owner =
            owners::controller_reference(ResourceKind::Deployment, &self.deployment.metadata);
        ReplicaSet {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.deployment.metadata.namespace.clone(),
                labels: Some(labels),
                owner_references: Some(vec![owner]),
                ..Default::default()
            },
            spec: ReplicaSetSpec {
                min_ready_seconds: spec.min_ready_seconds,
                replicas: Some(0),
                selector,
                template: Some(template),
            },
            status: None,
        }
    }
}
