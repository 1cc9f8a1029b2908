//! Names and hashes of created objects, without randomness.
//!
//! Upstream gives pods random suffixes. Here the suffix follows from the owner's UID and a number:
//! creating the same pod twice, because a view was stale or an answer was lost, is refused by the
//! server as AlreadyExists instead of making a second pod. The alphabet is the one of Kubernetes'
//! own suffixes: no vowels, nothing to be taken for another letter.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::ObjectJson;

use crate::{ClusterView, NamespacedName, ObjectId, ResourceKind};

/// The letters of suffixes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Letters in a pod's suffix.
const SUFFIX_LEN: usize = 5;

/// The part of a generated name before its suffix: cut so that the whole has at most 63 letters, as
/// upstream.
pub(crate) fn base(owner: &str) -> &str {
    let end = owner.len().min(63 - 6);
    owner[..end].trim_end_matches(['-', '.'])
}

/// The `number`th suffix of an owner: five letters.
pub fn suffix(owner_uid: &str, number: u32) -> String {
    letters(owner_uid, number).into_iter().collect()
}

/// The same, letter by letter.
fn letters(owner_uid: &str, number: u32) -> [char; SUFFIX_LEN] {
    let mut hash = Fnv64::new();
    hash.write(owner_uid.as_bytes());
    hash.write(&number.to_le_bytes());
    spelled(hash.finish())
}

/// Names for new pods of an owner: those of a series, behind the same stem, that are neither taken
/// nor were lately. Nothing is copied for those that are: of a thousand pods they are a thousand.
pub(crate) fn free<'a>(
    view: &'a ClusterView,
    owner: &'a ObjectMeta,
    stem: String,
    series: String,
) -> impl Iterator<Item = String> + 'a {
    let uid = owner.uid.as_deref().unwrap_or_default();
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    let mut given = BTreeSet::new();
    let mut id = ObjectId::new(ResourceKind::Pod, NamespacedName::new(namespace, ""));
    (0u32..).filter_map(move |number| {
        let name = &mut id.name.name;
        name.clone_from(&stem);
        name.extend(letters(&series, number));
        let name = &id.name.name;
        let is_free = view.get(&id).is_none()
            && !view.is_retired_name(uid, name)
            && given.insert(name.clone());
        is_free.then(|| name.clone())
    })
}

/// The lowest digits of a number to the base 27.
fn spelled<const LEN: usize>(mut rest: u64) -> [char; LEN] {
    std::array::from_fn(|_| {
        let last = letter(rest % 27);
        rest /= 27;
        last
    })
}

/// The hash of a pod template as `pod-template-hash` shows it. `collisions` is the Deployment's
/// `status.collisionCount`: a raised one gives another hash for the same template.
pub fn template_hash(
    template: &k8s_openapi::api::core::v1::PodTemplateSpec,
    collisions: Option<i32>,
) -> String {
    let mut hash = Fnv64::new();
    hash.write(&template.to_json());
    if let Some(collisions) = collisions {
        hash.write(&collisions.to_le_bytes());
    }
    let folded = (hash.finish() >> 32) ^ (hash.finish() & 0xffff_ffff);
    folded.to_string().bytes().map(|digit| letter(u64::from(digit) % 27)).collect()
}

/// A short name for a longer identity: eight letters.
pub fn short_hash(parts: &[&str]) -> String {
    spelled::<8>(hash(parts)).into_iter().collect()
}

/// The same number for the same parts, on every machine.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    let mut hash = Fnv64::new();
    for part in parts {
        hash.write(part.as_bytes());
        hash.write(&[0]);
    }
    hash.finish()
}

fn letter(index: u64) -> char {
    let index = usize::try_from(index).expect("an index below 27 fits");
    char::from(ALPHABET[index])
}

/// FNV-1a with 64 bits, and a final mix so that low digits depend on every byte.
struct Fnv64(u64);

impl Fnv64 {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_of_one_owner_differ_and_are_the_same_every_time() {
        let first: BTreeSet<String> = (0..1000).map(|n| suffix("uid-1", n)).collect();
        assert!(first.len() >= 998, "five letters leave room for a collision or two");
        assert_eq!(suffix("uid-1", 7), suffix("uid-1", 7));
        assert_ne!(suffix("uid-1", 7), suffix("uid-2", 7));
        assert!(suffix("uid-1", 7).bytes().all(|b| ALPHABET.contains(&b)));
    }

    #[test]
    fn a_collision_count_changes_the_template_hash() {
        let template = k8s_openapi::api::core::v1::PodTemplateSpec::default();
        let plain = template_hash(&template, None);
        assert_eq!(plain, template_hash(&template, None));
        assert_ne!(plain, template_hash(&template, Some(1)));
        assert_ne!(template_hash(&template, Some(1)), template_hash(&template, Some(2)));
        assert!((1..=10).contains(&plain.len()));
    }
}
