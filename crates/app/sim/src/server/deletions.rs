//! What is noted of the answers to deletions (P8), of one object and of whole collections, and what
//! an API with a known bug makes of them.

use bytes::Bytes;
use http::Method;
use rekindle_api::{ApiRequest, RequestOutcome};
use rekindle_store::Batch;
use serde_json::{Value, json};

use super::{MachinePower, SimServer, SimServerState, below_version};
use crate::acknowledgements::Acknowledgements;
use crate::kinds::{self, ObjectType};

impl SimServer {
    /// A deletion is granted with this answer. A Status says that the object is gone; an object is
    /// as it was, or as it is until it goes; a list has all that go, as they were.
    pub(super) fn note_deletion(&self, inner: &mut SimServerState, body: &Bytes) {
        let Some(told) = &mut inner.told else { return };
        let wrong = match kinds::list_of(body) {
            Some((items, of_list, revision)) => {
                told.heard_of(revision);
                // all of them are noted, whatever is wrong with one
                items.iter().fold(None, |wrong, item| {
                    let of_this = self.note_left(told, item.get().as_bytes(), &of_list);
                    wrong.or(of_this)
                })
            }
            None => {
                kinds::uid_of_gone(body).into_iter().for_each(|uid| told.answered_deleted(uid));
                self.note_left(told, body, &ObjectType::default())
            }
        };
        // what power was lost in is looked at when it is back
        let wrong = wrong.filter(|_| inner.power != MachinePower::Lost);
        inner.broken = inner.broken.take().or(wrong);
    }

    /// An object of which it is answered that it goes. What is wrong with that, if anything is.
    fn note_left(
        &self,
        told: &mut Acknowledgements,
        answered: &[u8],
        of_list: &ObjectType<'_>,
    ) -> Option<String> {
        let uid = kinds::uid_of(answered)?;
        let (key, _) = self.kinds.place_of_item(answered, of_list)?;
        let stored = self.api.store().get(key.as_str());
        let stored = stored.filter(|stored| kinds::uid_of(&stored.value).as_ref() == Some(&uid));
        let Some(stored) = stored else {
            told.answered_deleted(uid);
            return None;
        };
        let wrong = (!kinds::is_leaving(&stored.value))
            .then(|| format!("P8: {key} with UID {uid} was answered to go, and stays as it is"));
        told.answered_leaving(uid);
        wrong
    }

    /// A deletion of a whole collection without the first of it, and the answer that has that one,
    /// too; only the bug [`crate::known_bugs::KnownBug::CollectionHalfDone`] makes that of it.
    pub(super) fn but_one(&self, request: ApiRequest) -> (ApiRequest, Option<Bytes>) {
        if !deletes_many(&request) {
            return (request, None);
        }
        let asked = ApiRequest { method: Method::GET, body: Bytes::new(), ..request.clone() };
        let RequestOutcome::List(listed) = self.api.handle(&asked) else {
            return (request, None);
        };
        let listed = listed.into_answer().body;
        let first = kinds::list_of(&listed).and_then(|(items, ..)| {
            items.first().and_then(|item| kinds::name_of(item.get().as_bytes()))
        });
        let Some(first) = first else { return (request, None) };
        let but_first = format!("fieldSelector=metadata.name!%3D{}", first.name);
        let query = [request.query.as_str(), &but_first].join("&");
        (ApiRequest { query, ..request }, Some(listed))
    }
}

/// Whether a request deletes all that a path has.
pub(super) fn deletes_many(request: &ApiRequest) -> bool {
    request.method == Method::DELETE
        && matches!(below_version(&request.path).as_slice(), ["namespaces", _, _] | [_])
}

/// What the answer to the deletion of a collection says that goes with this commit: all as it was.
pub(super) fn list_of_before(batch: &Batch) -> String {
    let before = batch.rows.iter().filter_map(|row| row.before.as_ref());
    let items: Vec<Value> =
        before.filter_map(|before| serde_json::from_slice(&before.value).ok()).collect();
    let meta = json!({"resourceVersion": batch.revision.to_string()});
    json!({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items}).to_string()
}
