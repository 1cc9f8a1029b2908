//! What our own writes change in the view: before they are sent, and when the answer is there.

use super::own_writes::AssumedPlace;
use super::{ClusterView, WriteDoubt, own_writes};
use crate::plan::{
    PlanContinuation, PlannedWrite, ScaleWrite, Settlement, WriteOperation, WriteRecency,
    WriteRefusal,
};
use crate::{ObjectChange, ObjectId, ResourceKind, ViewObject, WriteResult};

/// True for the answer to the write that made an object go: nothing holds it any more.
fn is_last_word(object: &ViewObject) -> bool {
    let meta = object.meta();
    let is_held = match object {
        ViewObject::Namespace(namespace) => {
            namespace.spec.iter().any(|spec| spec.finalizers.iter().flatten().next().is_some())
        }
        _ => false,
    };
    meta.deletion_timestamp.is_some()
        && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
        && meta.deletion_grace_period_seconds.unwrap_or(0) == 0
        && !is_held
}

/// The latest refused write of a controller for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// The reason of the event about it: `FailedCreate`, …
    pub reason: &'static str,
    /// The server's message.
    pub message: String,
    /// How it was refused; absent when nobody knows how it went.
    pub refusal: Option<WriteRefusal>,
}

impl ClusterView {
    /// A write is about to be sent. A binding counts from now on, and so does a nomination, so that
    /// the next pod is not put where this one goes.
    pub fn begin(&mut self, step: &PlannedWrite) -> Vec<ObjectChange> {
        let Some((id, uid, place)) = AssumedPlace::from_write(&step.write) else {
            return Vec::new();
        };
        let Some(pod) = self.pod_with(id, uid) else { return Vec::new() };
        self.own.assume_place(uid, place);
        let placed = self.own.with_assumptions(pod);
        self.put(id.clone(), placed).into_iter().collect()
    }

    /// The pod of this name, if it is this one.
    fn pod_with(&self, id: &ObjectId, uid: &str) -> Option<ViewObject> {
        self.get(id).filter(|object| id.kind == ResourceKind::Pod && object.uid() == uid).cloned()
    }

    /// The answer to a write that was carried out for `key_object` (the object whose controller
    /// planned it).
    pub fn settle(
        &mut self,
        key_object: &ObjectId,
        step: &PlannedWrite,
        outcome: WriteResult,
    ) -> Settlement {
        let mut settled = Settlement::default();
        match &outcome {
            WriteResult::Stored(object) => {
                self.doubts.resolved(&object.id());
                self.note_created(step, object);
                settled.place = self.place_of(object);
                match settled.place {
                    WriteRecency::Newest => settled.changes = self.stored(object),
                    WriteRecency::Overtaken => {} // a watch was faster
                }
            }
            WriteResult::Gone => settled.changes = self.gone(&step.write),
            WriteResult::Done => self.done(&step.write, &mut settled.changes),
            WriteResult::Refused { refusal, .. } => {
                settled.changes = self.take_back(&step.write);
                settled.verdict = match refusal {
                    WriteRefusal::NamespaceTerminating => PlanContinuation::Stop,
                    WriteRefusal::Conflict
                    | WriteRefusal::AlreadyExists
                    | WriteRefusal::StillThere
                    | WriteRefusal::Budget
                    | WriteRefusal::DeadlockedBudget
                    | WriteRefusal::Other => PlanContinuation::Retry,
                };
            }
            WriteResult::Unknown { .. } => {
                settled.changes = self.take_back(&step.write);
                self.doubt(key_object, &step.write);
                settled.verdict = PlanContinuation::Retry;
            }
        }
        self.account(key_object, step, &outcome, &mut settled);
        settled
    }

    /// Notes and the failure that a status condition shows.
    fn account(
        &mut self,
        key_object: &ObjectId,
        step: &PlannedWrite,
        outcome: &WriteResult,
        settled: &mut Settlement,
    ) {
        let Some(report) = &step.report else { return };
        match outcome {
            WriteResult::Stored(_) | WriteResult::Done | WriteResult::Gone => {
                settled.notes.extend(report.success.iter().cloned());
                if self.failures.remove(key_object).is_some() {
                    settled.changes.extend(self.touched(key_object));
                }
            }
            // The view is a step behind; the next look at the key puts it right. Not the user's
            // concern.
            WriteResult::Refused {
                refusal: WriteRefusal::Conflict | WriteRefusal::AlreadyExists,
                ..
            } => {}
            WriteResult::Refused { refusal: WriteRefusal::NamespaceTerminating, .. } => {}
            WriteResult::Refused {
                refusal:
                    WriteRefusal::StillThere
                    | WriteRefusal::Budget
                    | WriteRefusal::DeadlockedBudget
                    | WriteRefusal::Other,
                message,
            }
            | WriteResult::Unknown { message } => {
                settled.notes.push(report.failure.clone().with_detail(message));
                let refusal = match outcome {
                    WriteResult::Refused { refusal, .. } => Some(*refusal),
                    WriteResult::Stored(_)
                    | WriteResult::Done
                    | WriteResult::Gone
                    | WriteResult::Unknown { .. } => None,
                };
                let reason = report.failure.reason;
                let failure = WriteFailure { reason, message: message.clone(), refusal };
                if self.failures.get(key_object) != Some(&failure)
                    && self.objects.contains_key(key_object)
                {
                    self.failures.insert(key_object.clone(), failure);
                    settled.changes.extend(self.touched(key_object));
                }
            }
        }
    }

    /// Nobody knows whether the write was done.
    fn doubt(&mut self, key_object: &ObjectId, write: &WriteOperation) {
        match write {
            WriteOperation::Create(object) => {
                self.doubts.add(object.id(), WriteDoubt::Created, key_object)
            }
            WriteOperation::Update(object) | WriteOperation::UpdateStatus(object) => {
                self.doubts.add(object.id(), WriteDoubt::Changed, key_object);
            }
            WriteOperation::Patch { id, .. } => {
                self.doubts.add(id.clone(), WriteDoubt::Changed, key_object)
            }
            WriteOperation::Delete(delete) => {
                self.doubts.add(delete.id.clone(), WriteDoubt::Changed, key_object);
            }
            // These are refused or without effect when they are done a second time.
            WriteOperation::Bind { .. }
            | WriteOperation::Nominate { .. }
            | WriteOperation::Scale(_)
            | WriteOperation::Evict(_)
            | WriteOperation::DeleteAll { .. }
            | WriteOperation::Finalize(_) => {}
            WriteOperation::TryCreate(_)
            | WriteOperation::CheckAbsent { .. }
            | WriteOperation::CheckEmpty { .. } => {}
        }
    }

    /// A change without a difference: what is known about the object changed, not the object.
    pub(crate) fn touched(&self, id: &ObjectId) -> Option<ObjectChange> {
        let object = self.objects.get(id)?.clone();
        Some(ObjectChange { id: id.clone(), before: Some(object.clone()), after: Some(object) })
    }

    fn place_of(&self, written: &ViewObject) -> WriteRecency {
        match self.objects.get(&written.id()) {
            Some(known) if own_writes::is_newer(known, written) => WriteRecency::Overtaken,
            Some(_) | None => WriteRecency::Newest,
        }
    }

    fn stored(&mut self, object: &ViewObject) -> Vec<ObjectChange> {
        let id = object.id();
        if self.own.is_deleted(object.uid()) || self.own.has_departed(object.uid()) {
            return Vec::new();
        }
        if is_last_word(object) {
            self.own.deleted(id.kind, object.uid());
            return match self.objects.get(&id) {
                Some(known) if known.uid() == object.uid() => {
                    self.remove(&id).into_iter().collect()
                }
                _ => Vec::new(),
            };
        }
        let already_seen = self.objects.get(&id).is_some_and(|known| {
            known.meta().resource_version == object.meta().resource_version
                && known.uid() == object.uid()
        });
        if !already_seen {
            self.own.wrote(id.clone(), object);
        }
        let object = self.own.with_assumptions(self.sharing(&id, object.clone()));
        self.put(id, object).into_iter().collect()
    }

    fn done(&mut self, write: &WriteOperation, changes: &mut Vec<ObjectChange>) {
        match write {
            WriteOperation::Evict(evict) => changes.extend(self.evicted(&evict.pod, &evict.uid)),
            WriteOperation::CheckAbsent { id, uid } => {
                self.doubts.resolved(id);
                let known = self.objects.get(id);
                let matches =
                    known.is_some_and(|o| uid.as_deref().is_none_or(|uid| o.uid() == uid));
                if matches {
                    changes.extend(self.remove(id));
                }
            }
            WriteOperation::Scale(ScaleWrite { autoscaler, change, .. }) => {
                // one that has gone since would be remembered for ever
                if self.by_uid(autoscaler).is_some() {
                    self.memories.scaling.scaled(autoscaler, *change, self.now);
                }
            }
            WriteOperation::Create(_)
            | WriteOperation::TryCreate(_)
            | WriteOperation::Update(_)
            | WriteOperation::UpdateStatus(_)
            | WriteOperation::Patch { .. }
            | WriteOperation::Delete(_)
            | WriteOperation::DeleteAll { .. }
            | WriteOperation::Bind { .. }
            | WriteOperation::Nominate { .. }
            | WriteOperation::Finalize(_)
            | WriteOperation::CheckEmpty { .. } => {}
        }
    }

    /// An eviction was granted: the pod is terminating, although no watch has shown it yet.
    fn evicted(&mut self, id: &ObjectId, uid: &str) -> Option<ObjectChange> {
        let Some(ViewObject::Pod(pod)) = self.objects.get(id) else { return None };
        if pod.metadata.uid.as_deref() != Some(uid) || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let pod = ViewObject::Pod(pod.clone());
        self.own.assume_evicted(uid, self.now);
        let pod = self.own.with_assumptions(pod);
        self.put(id.clone(), pod)
    }

    fn gone(&mut self, write: &WriteOperation) -> Vec<ObjectChange> {
        let (id, uid) = match write {
            WriteOperation::Delete(delete) => (delete.id.clone(), delete.uid.clone()),
            WriteOperation::Update(object) | WriteOperation::UpdateStatus(object) => {
                (object.id(), object.uid().to_owned())
            }
            WriteOperation::Bind { pod, uid, .. } | WriteOperation::Nominate { pod, uid, .. } => {
                (pod.clone(), uid.clone())
            }
            WriteOperation::Finalize(namespace) => {
                let object = ViewObject::from(namespace.as_ref().clone());
                (object.id(), object.uid().to_owned())
            }
            WriteOperation::Patch { id, .. } => match self.objects.get(id) {
                Some(object) => (id.clone(), object.uid().to_owned()),
                None => {
                    // the view has seen it go already; to ask once more would be to ask for ever
                    self.doubts.resolved(id);
                    return Vec::new();
                }
            },
            WriteOperation::Create(_)
            | WriteOperation::TryCreate(_)
            | WriteOperation::Scale(_)
            | WriteOperation::Evict(_)
            | WriteOperation::DeleteAll { .. }
            | WriteOperation::CheckAbsent { .. }
            | WriteOperation::CheckEmpty { .. } => return Vec::new(),
        };
        self.doubts.resolved(&id);
        if self.objects.get(&id).is_some_and(|known| known.uid() == uid) {
            self.own.deleted(id.kind, &uid);
            return self.remove(&id).into_iter().collect();
        }
        Vec::new()
    }

    /// An assumed binding did not happen.
    fn take_back(&mut self, write: &WriteOperation) -> Vec<ObjectChange> {
        let Some((id, uid, _)) = AssumedPlace::from_write(write) else { return Vec::new() };
        let Some(place) = self.own.drop_assumed_place(uid) else {
            return Vec::new(); // a watch showed the pod there, by us or by another scheduler
        };
        let Some(ViewObject::Pod(pod)) = self.pod_with(id, uid) else { return Vec::new() };
        self.put(id.clone(), ViewObject::from(place.taken_off(&pod))).into_iter().collect()
    }
}
