//! Which kinds are served, found by resource or by kind.

pub mod decode_error;
pub mod erased;
pub(crate) mod metadata;
pub mod resource;
pub mod strategy;
pub(crate) mod strict;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use decode_error::DecodeError;
pub use erased::{AnyObject, KindCodec, KindEntry, KindOrigin, ParsedObject};
pub use rekindle_types::validation::field_error::{self, FieldError, FieldProblem};
pub use resource::{
    ApiKind, NameRule, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
pub use strategy::{ObjectPart, Strategies, SubresourceStrategy};

/// The served kinds. Built once at start; adding a kind is one [`Registry::register`] line.
#[derive(Debug, Default)]
pub struct Registry {
    by_resource: BTreeMap<ResourceKey, Arc<KindEntry>>,
}

/// Group, plural name and version.
type ResourceKey = (Cow<'static, str>, Cow<'static, str>, Cow<'static, str>);

fn key_of(entry: &KindEntry) -> ResourceKey {
    (entry.group.clone(), entry.plural.clone(), entry.version.clone())
}

impl Registry {
    /// Adds a kind, under its group, plural name and version.
    pub fn register<K: ApiKind>(&mut self) -> &mut Self {
        let entry = KindEntry::new::<K>();
        self.by_resource.insert(key_of(&entry), Arc::new(entry));
        self
    }

    /// The same kinds with others, which do not displace them.
    pub fn with(&self, others: impl IntoIterator<Item = Arc<KindEntry>>) -> Self {
        let mut by_resource = self.by_resource.clone();
        for entry in others {
            by_resource.entry(key_of(&entry)).or_insert(entry);
        }
        Self { by_resource }
    }

    /// The kind served as `plural` in `group` (empty: the core group), in this version.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&KindEntry> {
        self.in_group(group).find(|entry| entry.version == version && entry.plural == plural)
    }

    /// The same, for who keeps it.
    pub fn share(&self, group: &str, version: &str, plural: &str) -> Option<Arc<KindEntry>> {
        let mut all = self.by_resource.values();
        let is_wanted = |entry: &&Arc<KindEntry>| {
            entry.group == group && entry.version == version && entry.plural == plural
        };
        all.find(is_wanted).cloned()
    }

    /// The kind called `kind` in `group`.
    pub fn find_kind(&self, group: &str, kind: &str) -> Option<&KindEntry> {
        self.in_group(group).find(|entry| entry.kind == kind)
    }

    /// Every kind, by group, then by plural name.
    pub fn kinds(&self) -> impl Iterator<Item = &KindEntry> {
        self.by_resource.values().map(Arc::as_ref)
    }

    /// The kinds of one group, by plural name.
    pub fn in_group(&self, group: &str) -> impl Iterator<Item = &KindEntry> {
        self.kinds().filter(move |entry| entry.group == group)
    }

    /// Every served (group, version), the core group first, then by name.
    pub fn group_versions(&self) -> Vec<(&str, &str)> {
        let mut all: Vec<_> = self.kinds().map(|entry| (&*entry.group, &*entry.version)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
