//! The in-memory index: for each key its newest version, and older ones as long as the history can
//! still ask for them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::key::{ObjectKey, Revision};
use crate::object::{ObjectVersion, StoredObject};

/// All keys with their versions.
#[derive(Debug, Default)]
pub(crate) struct VersionIndex {
    entries: BTreeMap<ObjectKey, KeyVersions>,
}

/// The versions of one key. Most keys have no older one, and an empty `Vec` owns no memory.
#[derive(Debug)]
struct KeyVersions {
    newest: ObjectVersion,
    /// Ascending by revision.
    older: Vec<ObjectVersion>,
}

impl VersionIndex {
    /// Adds the newest version of a key; it must be newer than all others.
    pub(crate) fn apply(&mut self, key: &ObjectKey, version: ObjectVersion) {
        match self.entries.get_mut(key) {
            Some(versions) => {
                debug_assert!(versions.newest.revision() < version.revision());
                let superseded = std::mem::replace(&mut versions.newest, version);
                versions.older.push(superseded);
            }
            None => {
                self.entries
                    .insert(key.clone(), KeyVersions { newest: version, older: Vec::new() });
            }
        }
    }

    /// The newest version of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<StoredObject>> {
        self.entries.get(key)?.newest.live()
    }

    /// The objects below `prefix` and after `start_after` as they were at `at`, which must not be
    /// compacted.
    pub(crate) fn range<'a>(
        &'a self,
        prefix: &'a str,
        start_after: Option<&str>,
        at: Revision,
    ) -> impl Iterator<Item = &'a Arc<StoredObject>> {
        let start = match start_after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        self.entries
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(move |(key, _)| key.as_str().starts_with(prefix))
            .filter_map(move |(_, versions)| versions.at(at)?.live())
    }

    /// Forgets what only revisions before `oldest` can see of this key.
    pub(crate) fn prune(&mut self, key: &str, oldest: Revision) {
        let Some(versions) = self.entries.get_mut(key) else { return };
        if versions.newest.revision() <= oldest {
            versions.older = Vec::new();
            if matches!(versions.newest, ObjectVersion::Deleted(_)) {
                self.entries.remove(key);
            }
            return;
        }
        let first_needed = versions.older.partition_point(|v| v.revision() <= oldest);
        versions.older.drain(..first_needed.saturating_sub(1));
        // A deletion that nothing older precedes looks the same as a key that never was.
        if matches!(versions.older.first(), Some(ObjectVersion::Deleted(at)) if *at <= oldest) {
            versions.older.remove(0);
        }
    }

    /// How many versions it holds, tombstones included.
    #[cfg(test)]
    pub(crate) fn version_count(&self) -> usize {
        self.entries.values().map(|versions| 1 + versions.older.len()).sum()
    }
}

impl KeyVersions {
    fn at(&self, at: Revision) -> Option<&ObjectVersion> {
        if self.newest.revision() <= at {
            return Some(&self.newest);
        }
        self.older.iter().rev().find(|version| version.revision() <= at)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn live(key: &str, revision: u64) -> ObjectVersion {
        ObjectVersion::Live(Arc::new(StoredObject::new(key, Revision(revision), Bytes::new())))
    }

    fn revisions(index: &VersionIndex, prefix: &str, at: u64) -> Vec<u64> {
        index.range(prefix, None, Revision(at)).map(|object| object.revision.0).collect()
    }

    fn example() -> VersionIndex {
        let mut index = VersionIndex::default();
        index.apply(&"/a".into(), live("/a", 1));
        index.apply(&"/b".into(), live("/b", 2));
        index.apply(&"/a".into(), live("/a", 3));
        index.apply(&"/b".into(), ObjectVersion::Deleted(Revision(4)));
        index.apply(&"/b".into(), live("/b", 5));
        index
    }

    #[test]
    fn each_revision_sees_its_own_state() {
        let index = example();
        for (at, expected) in [
            (0, vec![]),
            (1, vec![1]),
            (2, vec![1, 2]),
            (3, vec![3, 2]),
            (4, vec![3]),
            (5, vec![3, 5]),
        ] {
            assert_eq!(revisions(&index, "/", at), expected, "at {at}");
        }
    }

    #[test]
    fn pruning_keeps_what_the_oldest_readable_revision_sees() {
        for oldest in 0..=5 {
            let mut index = example();
            let before: Vec<_> = (oldest..=5).map(|at| revisions(&index, "/", at)).collect();
            index.prune("/a", Revision(oldest));
            index.prune("/b", Revision(oldest));
            let after: Vec<_> = (oldest..=5).map(|at| revisions(&index, "/", at)).collect();
            assert_eq!(before, after, "pruned to {oldest}");
        }
    }

    #[test]
    fn pruning_everything_leaves_one_version_a_living_key_and_no_tombstones() {
        let mut index = example();
        index.apply(&"/b".into(), ObjectVersion::Deleted(Revision(6)));
        index.prune("/a", Revision(6));
        index.prune("/b", Revision(6));
        assert_eq!(index.version_count(), 1);
    }

    #[test]
    fn a_page_starts_after_the_last_key_of_the_one_before() {
        let mut index = VersionIndex::default();
        for (revision, key) in ["/pods/a", "/pods/b", "/pods/c", "/podsets/a"].iter().enumerate() {
            index.apply(&(*key).into(), live(key, revision as u64 + 1));
        }
        let page = |start_after| -> Vec<&str> {
            index.range("/pods/", start_after, Revision(9)).map(|o| o.key.as_str()).collect()
        };
        assert_eq!(page(None), ["/pods/a", "/pods/b", "/pods/c"]);
        assert_eq!(page(Some("/pods/a")), ["/pods/b", "/pods/c"]);
        assert_eq!(page(Some("/pods/c")), [""; 0]);
        assert_eq!(
            page(Some("/a")),
            ["/pods/a", "/pods/b", "/pods/c"],
            "a start before the prefix"
        );
        assert_eq!(page(Some("/q")), [""; 0], "a start behind it");
    }
}
