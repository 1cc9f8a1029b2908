//! What webhooks have converted lately, so that neither watchers nor readers ask again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::admission_session::ContentDigest;

/// So many bytes are kept at least, and twice as many at most.
const BYTES_KEPT: usize = 4 << 20;
/// What an entry costs beside its text.
const ENTRY_BYTES: usize = 128;

/// Objects in other versions, by what was asked under which version of the definition. The same
/// question has the same answer, so an entry counts as long as it is there.
#[derive(Default)]
pub(crate) struct ConvertedTexts {
    generations: Mutex<TextGenerations>,
}

/// What was used since the last change of generations, and what was used in the one before.
#[derive(Default)]
struct TextGenerations {
    young: BTreeMap<ContentDigest, Bytes>,
    young_bytes: usize,
    old: BTreeMap<ContentDigest, Bytes>,
}

impl ConvertedTexts {
    pub(super) fn get(&self, asked: &ContentDigest) -> Option<Bytes> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = generations.young.get(asked) {
            return Some(text.clone());
        }
        let text = generations.old.remove(asked)?;
        generations.add(*asked, text.clone());
        Some(text)
    }

    pub(super) fn put(&self, asked: ContentDigest, text: &Bytes) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.add(asked, text.clone());
    }
}

impl TextGenerations {
    fn add(&mut self, asked: ContentDigest, text: Bytes) {
        let bytes = text.len() + ENTRY_BYTES;
        if self.young.insert(asked, text).is_none() {
            self.young_bytes += bytes;
        }
        if self.young_bytes >= BYTES_KEPT {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}
