//! Which kinds are served, found by resource or by kind.

pub mod builtin_types;
pub mod erased;
pub mod managed_entries;
pub mod merge_keys;
pub mod metadata;
pub mod object_meta;
pub mod resource;
pub mod strategy;
pub mod view;

use std::sync::Arc;

use k8s_openapi::Resource as _;

pub use erased::{AnyObject, KindCodec, KindEntry, KindOrigin, ParsedObject};
pub use rekindle_types::DecodeError;
pub use resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell, TableColumn,
};
pub use strategy::{ObjectPart, Strategies, SubresourceStrategy};
pub use view::KindView;

/// The served kinds. Built once at start; adding a kind is one [`Registry::register`] line.
#[derive(Debug, Default)]
pub struct Registry {
    /// By [`place`], each place once.
    kinds: Vec<Arc<KindEntry>>,
}

/// Group, plural name and version.
fn place(entry: &Arc<KindEntry>) -> (&str, &str, &str) {
    (&entry.group, &entry.plural, &entry.version)
}

impl Registry {
    /// Adds a kind, under its group, plural name and version.
    pub fn register<K: ApiKind>(&mut self) -> &mut Self {
        self.add(Arc::new(KindEntry::new::<K>()))
    }

    /// Adds another version of a kind, which is there.
    pub fn register_view<V: KindView>(&mut self) -> &mut Self {
        let (group, version) = (V::Stored::GROUP, V::Stored::VERSION);
        let home = self.find(group, version, V::Stored::URL_PATH_SEGMENT).cloned();
        let home = home.expect("a kind is registered before its views");
        self.add(Arc::new(KindEntry::view::<V>(home)))
    }

    fn add(&mut self, entry: Arc<KindEntry>) -> &mut Self {
        match self.kinds.binary_search_by(|known| place(known).cmp(&place(&entry))) {
            Ok(at) => self.kinds[at] = entry,
            Err(at) => self.kinds.insert(at, entry),
        }
        self
    }

    /// The same kinds with others, which do not displace them.
    pub fn with(&self, others: impl IntoIterator<Item = Arc<KindEntry>>) -> Self {
        let mut kinds = self.kinds.clone();
        kinds.extend(others);
        // the sort is stable, so that of two in one place the first is the one of this registry
        kinds.sort_by(|a, b| place(a).cmp(&place(b)));
        kinds.dedup_by(|later, first| place(later) == place(first));
        Self { kinds }
    }

    /// The kind served as `plural` in `group` (empty: the core group), in this version.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<KindEntry>> {
        let wanted = (group, plural, version);
        let at = self.kinds.binary_search_by(|known| place(known).cmp(&wanted)).ok()?;
        Some(&self.kinds[at])
    }

    /// The kind served as `plural` in `group`, in any version.
    pub fn find_resource(&self, group: &str, plural: &str) -> Option<&Arc<KindEntry>> {
        self.in_group(group).find(|entry| entry.plural == plural)
    }

    /// The kind called `kind` in `group`, in the version that its objects are stored in if
    /// the group has that one.
    pub fn find_kind(&self, group: &str, kind: &str) -> Option<&Arc<KindEntry>> {
        let found = self.in_group(group).filter(|entry| entry.kind == kind);
        found.min_by_key(|entry| entry.home.is_some())
    }

    /// Every kind, by group, then by plural name.
    pub fn kinds(&self) -> impl Iterator<Item = &KindEntry> {
        self.kinds.iter().map(Arc::as_ref)
    }

    /// The same, shared.
    pub fn shared_kinds(&self) -> impl Iterator<Item = &Arc<KindEntry>> {
        self.kinds.iter()
    }

    /// The kinds of one group, by plural name.
    pub fn in_group(&self, group: &str) -> impl Iterator<Item = &Arc<KindEntry>> + use<'_> {
        let from = self.kinds.partition_point(|known| *known.group < *group);
        let to = self.kinds.partition_point(|known| *known.group <= *group);
        self.kinds[from..to].iter()
    }

    /// Every served (group, version), the core group first, then by name.
    pub fn group_versions(&self) -> Vec<(&str, &str)> {
        let mut all: Vec<_> = self.kinds().map(|entry| (&*entry.group, &*entry.version)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
