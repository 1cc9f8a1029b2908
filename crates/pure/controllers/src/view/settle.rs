//! What our own writes change in the view: before they are sent, and when the answer is there.

use super::own_writes::AssumedPlace;
use super::{Doubt, View, own_writes};
use crate::plan::{Place, Refusal, Settled, Step, Verdict, Write};
use crate::{Change, Kind, Object, ObjectId, Outcome};

/// True for the answer to the write that made an object go: nothing holds it any more.
fn is_last_word(object: &Object) -> bool {
    let meta = object.meta();
    let is_held = match object {
        Object::Namespace(namespace) => {
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
    pub refusal: Option<Refusal>,
}

impl View {
    /// A write is about to be sent. A binding counts from now on, and so does a nomination, so that
    /// the next pod is not put where this one goes.
    pub fn begin(&mut self, step: &Step) -> Vec<Change> {
        let Some((id, uid, place)) = AssumedPlace::of(&step.write) else { return Vec::new() };
        let Some(pod) = self.pod_with(id, uid) else { return Vec::new() };
        self.own.assume_place(uid, place);
        let placed = self.own.with_assumptions(pod);
        self.put(id.clone(), placed).into_iter().collect()
    }

    /// The pod of this name, if it is this one.
    fn pod_with(&self, id: &ObjectId, uid: &str) -> Option<Object> {
        self.get(id).filter(|object| id.kind == Kind::Pod && object.uid() == uid).cloned()
    }

    /// The answer to a write that was carried out for `key_object` (the object whose controller
    /// planned it).
    pub fn settle(&mut self, key_object: &ObjectId, step: &Step, outcome: Outcome) -> Settled {
        let mut settled = Settled::default();
        match &outcome {
            Outcome::Stored(object) => {
                self.doubts.resolved(&object.id());
                self.note_created(step, object);
                settled.place = self.place_of(object);
                match settled.place {
                    Place::Newest => settled.changes = self.stored(object),
                    Place::Overtaken => {} // a watch was faster
                }
            }
            Outcome::Gone => settled.changes = self.gone(&step.write),
            Outcome::Done => self.done(&step.write, &mut settled.changes),
            Outcome::Refused { refusal, .. } => {
                settled.changes = self.take_back(&step.write);
                settled.verdict = match refusal {
                    Refusal::NamespaceTerminating => Verdict::Stop,
                    Refusal::Conflict
                    | Refusal::AlreadyExists
                    | Refusal::StillThere
                    | Refusal::Budget
                    | Refusal::DeadlockedBudget
                    | Refusal::Other => Verdict::Retry,
                };
            }
            Outcome::Unknown { .. } => {
                settled.changes = self.take_back(&step.write);
                self.doubt(key_object, &step.write);
                settled.verdict = Verdict::Retry;
            }
        }
        self.account(key_object, step, &outcome, &mut settled);
        settled
    }

    /// Notes and the failure that a status condition shows.
    fn account(
        &mut self,
        key_object: &ObjectId,
        step: &Step,
        outcome: &Outcome,
        settled: &mut Settled,
    ) {
        let Some(report) = &step.report else { return };
        match outcome {
            Outcome::Stored(_) | Outcome::Done | Outcome::Gone => {
                settled.notes.extend(report.success.iter().cloned());
                if self.failures.remove(key_object).is_some() {
                    settled.changes.extend(self.touched(key_object));
                }
            }
            // The view is a step behind; the next look at the key puts it right. Not the user's
            // concern.
            Outcome::Refused { refusal: Refusal::Conflict | Refusal::AlreadyExists, .. } => {}
            Outcome::Refused { refusal: Refusal::NamespaceTerminating, .. } => {}
            Outcome::Refused {
                refusal:
                    Refusal::StillThere | Refusal::Budget | Refusal::DeadlockedBudget | Refusal::Other,
                message,
            }
            | Outcome::Unknown { message } => {
                settled.notes.push(report.failure.clone().with_detail(message));
                let refusal = match outcome {
                    Outcome::Refused { refusal, .. } => Some(*refusal),
                    Outcome::Stored(_)
                    | Outcome::Done
                    | Outcome::Gone
                    | Outcome::Unknown { .. } => None,
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
    fn doubt(&mut self, key_object: &ObjectId, write: &Write) {
        match write {
            Write::Create(object) => self.doubts.add(object.id(), Doubt::Created, key_object),
            Write::Update(object) | Write::UpdateStatus(object) => {
                self.doubts.add(object.id(), Doubt::Changed, key_object);
            }
            Write::Patch { id, .. } => self.doubts.add(id.clone(), Doubt::Changed, key_object),
            Write::Delete(delete) => {
                self.doubts.add(delete.id.clone(), Doubt::Changed, key_object);
            }
            // These are refused or without effect when they are done a second time.
            Write::Bind { .. }
            | Write::Nominate { .. }
            | Write::Evict(_)
            | Write::DeleteAll { .. }
            | Write::Finalize(_) => {}
            Write::TryCreate(_) | Write::CheckAbsent { .. } | Write::CheckEmpty { .. } => {}
        }
    }

    /// A change without a difference: what is known about the object changed, not the object.
    fn touched(&self, id: &ObjectId) -> Option<Change> {
        let object = self.objects.get(id)?.clone();
        Some(Change { id: id.clone(), before: Some(object.clone()), after: Some(object) })
    }

    fn place_of(&self, written: &Object) -> Place {
        match self.objects.get(&written.id()) {
            Some(known) if own_writes::is_newer(known, written) => Place::Overtaken,
            Some(_) | None => Place::Newest,
        }
    }

    fn stored(&mut self, object: &Object) -> Vec<Change> {
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

    fn done(&mut self, write: &Write, changes: &mut Vec<Change>) {
        match write {
            Write::Evict(evict) => changes.extend(self.evicted(&evict.pod, &evict.uid)),
            Write::CheckAbsent { id, uid } => {
                self.doubts.resolved(id);
                let known = self.objects.get(id);
                let matches =
                    known.is_some_and(|o| uid.as_deref().is_none_or(|uid| o.uid() == uid));
                if matches {
                    changes.extend(self.remove(id));
                }
            }
            Write::Create(_)
            | Write::TryCreate(_)
            | Write::Update(_)
            | Write::UpdateStatus(_)
            | Write::Patch { .. }
            | Write::Delete(_)
            | Write::DeleteAll { .. }
            | Write::Bind { .. }
            | Write::Nominate { .. }
            | Write::Finalize(_)
            | Write::CheckEmpty { .. } => {}
        }
    }

    /// An eviction was granted: the pod is terminating, although no watch has shown it yet.
    fn evicted(&mut self, id: &ObjectId, uid: &str) -> Option<Change> {
        let Some(Object::Pod(pod)) = self.objects.get(id) else { return None };
        if pod.metadata.uid.as_deref() != Some(uid) || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let pod = Object::Pod(pod.clone());
        self.own.assume_evicted(uid, self.now);
        let pod = self.own.with_assumptions(pod);
        self.put(id.clone(), pod)
    }

    fn gone(&mut self, write: &Write) -> Vec<Change> {
        let (id, uid) = match write {
            Write::Delete(delete) => (delete.id.clone(), delete.uid.clone()),
            Write::Update(object) | Write::UpdateStatus(object) => {
                (object.id(), object.uid().to_owned())
            }
            Write::Bind { pod, uid, .. } | Write::Nominate { pod, uid, .. } => {
                (pod.clone(), uid.clone())
            }
            Write::Finalize(namespace) => {
                let object = Object::from(namespace.as_ref().clone());
                (object.id(), object.uid().to_owned())
            }
            Write::Patch { id, .. } => match self.objects.get(id) {
                Some(object) => (id.clone(), object.uid().to_owned()),
                None => {
                    // the view has seen it go already; to ask once more would be to ask for ever
                    self.doubts.resolved(id);
                    return Vec::new();
                }
            },
            Write::Create(_)
            | Write::TryCreate(_)
            | Write::Evict(_)
            | Write::DeleteAll { .. }
            | Write::CheckAbsent { .. }
            | Write::CheckEmpty { .. } => return Vec::new(),
        };
        self.doubts.resolved(&id);
        if self.objects.get(&id).is_some_and(|known| known.uid() == uid) {
            self.own.deleted(id.kind, &uid);
            return self.remove(&id).into_iter().collect();
        }
        Vec::new()
    }

    /// An assumed binding did not happen.
    fn take_back(&mut self, write: &Write) -> Vec<Change> {
        let Some((id, uid, _)) = AssumedPlace::of(write) else { return Vec::new() };
        let Some(place) = self.own.drop_assumed_place(uid) else {
            return Vec::new(); // a watch showed the pod there, by us or by another scheduler
        };
        let Some(Object::Pod(pod)) = self.pod_with(id, uid) else { return Vec::new() };
        self.put(id.clone(), Object::from(place.taken_off(&pod))).into_iter().collect()
    }
}
