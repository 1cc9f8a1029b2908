//! What anybody was told of the API's objects (P8): by answers to writes, by the watch, by reads.
//! When power was lost all of that must be so still, and nothing else may be: of the one commit
//! that was under way there is all or nothing, as nobody was told of it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rekindle_store::{Batch, ObjectKey, Revision, StoreEvent, StoredObject};

use crate::kinds;

/// How somebody was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcknowledgedBy {
    /// It was there when this began.
    Found,
    Answered,
    Shown,
    Read,
}

impl AcknowledgedBy {
    const fn verb(self) -> &'static str {
        match self {
            Self::Found => "was there",
            Self::Answered => "was answered",
            Self::Shown => "was shown by the watch",
            Self::Read => "was read",
        }
    }
}

/// The newest that anybody was told of an object.
#[derive(Clone, Debug)]
struct AcknowledgedVersion {
    revision: Revision,
    text: Bytes,
    how: AcknowledgedBy,
}

/// All objects as anybody was told of them last. What was shown to be deleted is not among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acknowledgements {
    objects: BTreeMap<ObjectKey, AcknowledgedVersion>,
    /// The newest revision that anybody was told of.
    newest: Revision,
    /// The watch has shown everything up to this.
    shown: Revision,
    /// Writes that were answered, and that the watch has yet to show.
    awaited: BTreeMap<Revision, ObjectKey>,
    /// UIDs of what was answered to be deleted: under its name there may be another one.
    deleted: BTreeSet<String>,
    /// UIDs of what was answered to go, at once or later: whatever is left of it has the time at
    /// which it was asked to.
    leaving: BTreeSet<String>,
}

impl Acknowledgements {
    /// What there is, of which everybody knows, at this revision.
    pub(crate) fn new<'a>(
        all: impl IntoIterator<Item = &'a StoredObject>,
        revision: Revision,
    ) -> Self {
        let known = |object: &StoredObject| {
            let (revision, text) = (object.revision, object.value.clone());
            (object.key.clone(), AcknowledgedVersion { revision, text, how: AcknowledgedBy::Found })
        };
        let objects = all.into_iter().map(known).collect();
        Self {
            objects,
            newest: revision,
            shown: revision,
            awaited: BTreeMap::new(),
            deleted: BTreeSet::new(),
            leaving: BTreeSet::new(),
        }
    }

    /// A write was granted, and this is what its answer says that there is. What is wrong with it,
    /// if anything is.
    pub(crate) fn answered(
        &mut self,
        key: ObjectKey,
        revision: Revision,
        text: &Bytes,
    ) -> Option<String> {
        if revision > self.shown {
            self.awaited.insert(revision, key.clone());
        }
        self.note(
            key,
            AcknowledgedVersion { revision, text: text.clone(), how: AcknowledgedBy::Answered },
        )
    }

    /// A write was granted by which the object is gone: who takes its last finalizer away is
    /// answered with what is left then, of the revision that it had before, as upstream. The watch
    /// shows that it is deleted.
    pub(crate) fn answered_of_gone(&mut self, key: ObjectKey, revision: Revision, text: &Bytes) {
        let is_news = self.objects.get(&key).is_none_or(|known| known.revision < revision);
        if is_news {
            // it says that there is one, whatever the API has
            let _no_other_is_known = self.answered(key, revision, text);
        }
    }

    /// A deletion was granted by which the object of this UID is gone.
    pub(crate) fn answered_deleted(&mut self, uid: String) {
        self.leaving.remove(&uid);
        self.deleted.insert(uid);
    }

    /// A deletion was granted by which the object of this UID goes, be it later.
    pub(crate) fn answered_leaving(&mut self, uid: String) {
        if !self.deleted.contains(&uid) {
            self.leaving.insert(uid);
        }
    }

    /// Somebody was told that there is this revision.
    pub(crate) fn heard_of(&mut self, revision: Revision) {
        self.newest = self.newest.max(revision);
    }

    /// Somebody read it. Of what the watch has shown everybody knows.
    pub(crate) fn read(&mut self, object: &StoredObject) -> Option<String> {
        if object.revision <= self.shown {
            return None;
        }
        let (revision, text) = (object.revision, object.value.clone());
        self.note(
            object.key.clone(),
            AcknowledgedVersion { revision, text, how: AcknowledgedBy::Read },
        )
    }

    /// The watch shows a change.
    pub(crate) fn shown(&mut self, event: &StoreEvent) -> Option<String> {
        let revision = event.revision();
        self.shown = self.shown.max(revision);
        self.newest = self.newest.max(revision);
        let wrong = match event {
            StoreEvent::Put { object, .. } => {
                let text = object.value.clone();
                self.note(
                    object.key.clone(),
                    AcknowledgedVersion { revision, text, how: AcknowledgedBy::Shown },
                )
            }
            StoreEvent::Delete { previous, .. } => {
                self.objects.remove(&previous.key);
                None
            }
        };
        let answered = self.awaited.remove(&revision).filter(|key| key != event.key());
        // the watch is in the order of the revisions: what is behind this one does not come any
        // more
        let missed = self.awaited.first_entry().filter(|entry| *entry.key() < revision);
        let missed = answered.map(|key| (revision, key)).or(missed.map(|e| e.remove_entry()));
        wrong.or(missed.map(|(revision, key)| {
            format!(
                "P8: {key} of revision {revision} was answered, and the watch shows no such write"
            )
        }))
    }

    fn note(&mut self, key: ObjectKey, known: AcknowledgedVersion) -> Option<String> {
        self.newest = self.newest.max(known.revision);
        let before = self.objects.get(&key).filter(|before| before.revision >= known.revision);
        let Some(before) = before else {
            self.objects.insert(key, known);
            return None;
        };
        // of an older one it was read before; that is no news
        (before.revision == known.revision && before.text != known.text).then(|| {
            let (one, other) = (before.how.verb(), known.how.verb());
            format!(
                "P8: {key} of revision {} {one} as one thing and {other} as another",
                known.revision
            )
        })
    }

    /// What is found after power was lost is to be what everybody was told of; of what was under
    /// way then there may be all or nothing. What is wrong with it, if anything is.
    pub(crate) fn differs(
        &self,
        found: &[&StoredObject],
        newest: Revision,
        under_way: Option<&Batch>,
    ) -> Option<String> {
        if let Some(back) = self.back_again(found).or_else(|| self.stays(found)) {
            return Some(back);
        }
        let found: BTreeMap<&ObjectKey, &StoredObject> =
            found.iter().map(|found| (&found.key, *found)).collect();
        let rows = under_way.map_or(&[][..], |batch| &batch.rows);
        let rows: BTreeMap<&ObjectKey, Option<&StoredObject>> =
            rows.iter().map(|row| (&row.key, row.after.as_deref())).collect();
        let (mut done, mut undone) = (None, None);
        let all: BTreeSet<&ObjectKey> = self.objects.keys().chain(found.keys().copied()).collect();
        for key in all.into_iter().chain(rows.keys().copied()) {
            let (found, known) = (found.get(key).copied(), self.objects.get(key));
            let is_known = match (found, known) {
                (Some(found), Some(known)) => {
                    found.revision == known.revision && found.value == known.text
                }
                (found, known) => found.is_none() && known.is_none(),
            };
            match rows.get(key) {
                Some(after) if *after == found && !is_known => done = Some(key),
                Some(_) if is_known => undone = Some(key),
                None if is_known => {}
                Some(_) | None => return Some(difference(key, found, known)),
            }
        }
        if let Some((done, undone)) = done.zip(undone) {
            return Some(format!("P8: of one commit {done} is there, and {undone} is not"));
        }
        // what was deleted since leaves nothing but this
        let told = self.newest;
        (newest < told)
            .then(|| format!("P8: somebody was told of revision {told}, and {newest} is there"))
    }
}

impl Acknowledgements {
    /// What is deleted stays so.
    fn back_again(&self, found: &[&StoredObject]) -> Option<String> {
        if self.deleted.is_empty() {
            return None;
        }
        found.iter().find_map(|found| {
            let uid = kinds::uid_of(&found.value).filter(|uid| self.deleted.contains(uid))?;
            let StoredObject { key, revision, .. } = found;
            Some(format!("P8: {key} with UID {uid} was answered to be deleted, and revision {revision} is there"))
        })
    }

    /// What was asked to go still is.
    fn stays(&self, found: &[&StoredObject]) -> Option<String> {
        if self.leaving.is_empty() {
            return None;
        }
        found.iter().find_map(|found| {
            let uid = kinds::uid_of(&found.value).filter(|uid| self.leaving.contains(uid))?;
            let StoredObject { key, revision, value, .. } = found;
            (!kinds::is_leaving(value)).then(|| {
                format!("P8: {key} with UID {uid} was answered to go, and revision {revision} is there as if nobody had asked for that")
            })
        })
    }
}

fn difference(
    key: &ObjectKey,
    found: Option<&StoredObject>,
    known: Option<&AcknowledgedVersion>,
) -> String {
    let there = found.map_or_else(
        || "it is not there".to_owned(),
        |found| format!("revision {} is there", found.revision),
    );
    match known {
        Some(known) if found.is_some_and(|found| found.revision == known.revision) => {
            format!(
                "P8: {key} of revision {} {}, and it is another now",
                known.revision,
                known.how.verb()
            )
        }
        Some(known) => {
            format!("P8: {key} of revision {} {}, and {there}", known.revision, known.how.verb())
        }
        None => format!("P8: nobody was told of {key}, and {there}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rekindle_store::BatchRow;

    use super::*;

    fn object(key: &str, revision: u64, text: &str) -> StoredObject {
        StoredObject::new(key, Revision(revision), text.to_owned())
    }

    fn put(key: &str, revision: u64, text: &str) -> StoreEvent {
        StoreEvent::Put { object: Arc::new(object(key, revision, text)), previous: None }
    }

    /// Everybody knows of `/a` and `/b`.
    fn told() -> Acknowledgements {
        Acknowledgements::new(&[object("/a", 1, "one"), object("/b", 2, "two")], Revision(2))
    }

    /// What is said when these are found, with nothing under way.
    fn differs(told: &Acknowledgements, found: &[StoredObject], newest: u64) -> Option<String> {
        told.differs(&found.iter().collect::<Vec<_>>(), Revision(newest), None)
    }

    fn says(said: Option<String>, expected: &str) {
        assert_eq!(said.as_deref(), Some(expected));
    }

    #[test]
    fn what_was_told_in_whatever_way_must_be_there_afterwards() {
        let kept = [object("/a", 1, "one"), object("/b", 2, "two")];
        assert_eq!(differs(&told(), &kept, 2), None);
        says(
            differs(&told(), &kept[..1], 2),
            "P8: /b of revision 2 was there, and it is not there",
        );

        let mut answered = told();
        assert_eq!(
            answered.answered(ObjectKey::from("/c"), Revision(3), &Bytes::from("three")),
            None
        );
        says(
            differs(&answered, &kept, 2),
            "P8: /c of revision 3 was answered, and it is not there",
        );

        let mut shown = told();
        assert_eq!(shown.shown(&put("/a", 3, "another one")), None);
        let expected = "P8: /a of revision 3 was shown by the watch, and revision 1 is there";
        says(differs(&shown, &kept, 3), expected);

        let mut read = told();
        assert_eq!(read.read(&object("/b", 3, "another two")), None);
        says(differs(&read, &kept, 3), "P8: /b of revision 3 was read, and revision 2 is there");
    }

    #[test]
    fn what_is_there_must_have_the_content_that_was_told_and_no_deleted_thing_comes_back() {
        let kept = [object("/a", 1, "one"), object("/b", 2, "half of")];
        says(differs(&told(), &kept, 2), "P8: /b of revision 2 was there, and it is another now");

        let mut deleted = told();
        let previous = Arc::new(object("/b", 2, "two"));
        assert_eq!(deleted.shown(&StoreEvent::Delete { revision: Revision(3), previous }), None);
        assert_eq!(differs(&deleted, &kept[..1], 3), None);
        let expected = "P8: somebody was told of revision 3, and 2 is there";
        says(differs(&deleted, &kept[..1], 2), expected);
        says(differs(&deleted, &kept, 3), "P8: nobody was told of /b, and revision 2 is there");
    }

    #[test]
    fn what_was_answered_to_be_deleted_may_not_come_back_and_another_of_its_name_may() {
        let of = |revision, uid: &str| {
            object("/b", revision, &format!(r#"{{"metadata":{{"uid":"{uid}"}}}}"#))
        };
        let (one, other) = (of(2, "one"), of(4, "other"));
        let there = [one.clone()];
        let mut told = Acknowledgements::new(&there, Revision(2));
        assert_eq!(differs(&told, &there, 2), None);
        told.answered_deleted("one".to_owned());
        let expected = "P8: /b with UID one was answered to be deleted, and revision 2 is there";
        says(differs(&told, &there, 2), expected);
        assert_eq!(
            told.shown(&StoreEvent::Delete { revision: Revision(3), previous: Arc::new(one) }),
            None
        );
        let made = StoreEvent::Put { object: Arc::new(other.clone()), previous: None };
        assert_eq!(told.shown(&made), None);
        assert_eq!(differs(&told, &[other], 4), None);
    }

    #[test]
    fn what_was_answered_to_go_is_gone_or_still_on_its_way() {
        let of = |revision, more: &str| {
            object("/b", revision, &format!(r#"{{"metadata":{{"uid":"one"{more}}}}}"#))
        };
        let (stays, leaves) = (of(2, ""), of(3, r#","deletionTimestamp":"2026-01-01T00:00:30Z""#));
        let mut told = Acknowledgements::new([&stays], Revision(2));
        told.answered_leaving("one".to_owned());
        let expected = "P8: /b with UID one was answered to go, and revision 2 is there as if nobody had asked for that";
        says(differs(&told, std::slice::from_ref(&stays), 2), expected);
        let marked = StoreEvent::Put { object: Arc::new(leaves.clone()), previous: None };
        assert_eq!(told.shown(&marked), None);
        assert_eq!(differs(&told, std::slice::from_ref(&leaves), 3), None);
        let gone = StoreEvent::Delete { revision: Revision(4), previous: Arc::new(leaves.clone()) };
        assert_eq!(told.shown(&gone), None);
        assert_eq!(differs(&told, &[], 4), None);
        told.heard_of(Revision(5));
        says(differs(&told, &[], 4), "P8: somebody was told of revision 5, and 4 is there");
        told.answered_deleted("one".to_owned());
        let expected = "P8: /b with UID one was answered to be deleted, and revision 3 is there";
        says(differs(&told, &[leaves], 4), expected);
    }

    #[test]
    fn of_what_was_under_way_there_is_all_or_nothing() {
        let row = |key: &str, after: Option<StoredObject>| BatchRow {
            key: ObjectKey::from(key),
            before: None,
            after: after.map(Arc::new),
        };
        let rows = vec![row("/b", None), row("/c", Some(object("/c", 4, "four")))];
        let batch = Batch { revision: Revision(4), rows };
        let (a, b, c) = (object("/a", 1, "one"), object("/b", 2, "two"), object("/c", 4, "four"));
        let differs = |found: &[&StoredObject]| told().differs(found, Revision(4), Some(&batch));
        assert_eq!(differs(&[&a, &b]), None, "nothing");
        assert_eq!(differs(&[&a, &c]), None, "all");
        says(differs(&[&a, &b, &c]), "P8: of one commit /c is there, and /b is not");
        says(differs(&[&a]), "P8: of one commit /b is there, and /c is not");
        says(differs(&[&b, &c]), "P8: /a of revision 1 was there, and it is not there");
    }

    #[test]
    fn an_answer_and_the_watch_say_the_same() {
        let mut other = told();
        assert_eq!(other.answered(ObjectKey::from("/c"), Revision(3), &Bytes::from("three")), None);
        let expected =
            "P8: /c of revision 3 was answered as one thing and was shown by the watch as another";
        says(other.shown(&put("/c", 3, "something else")), expected);

        let expected = "P8: /c of revision 3 was answered, and the watch shows no such write";
        for (key, revision) in [("/d", 3), ("/c", 4)] {
            let mut never = told();
            assert_eq!(
                never.answered(ObjectKey::from("/c"), Revision(3), &Bytes::from("three")),
                None
            );
            says(never.shown(&put(key, revision, "later")), expected);
        }
        let mut gone = told();
        gone.answered_of_gone(
            ObjectKey::from("/b"),
            Revision(2),
            &Bytes::from("two without finalizers"),
        );
        let previous = Arc::new(object("/b", 2, "two"));
        assert_eq!(gone.shown(&StoreEvent::Delete { revision: Revision(3), previous }), None);
        let mut well = told();
        assert_eq!(well.answered(ObjectKey::from("/c"), Revision(3), &Bytes::from("three")), None);
        assert_eq!(well.shown(&put("/c", 3, "three")), None);
        assert_eq!(well.shown(&put("/d", 4, "four")), None);
    }
}
