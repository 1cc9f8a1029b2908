//! Which kinds are served, found by resource or by kind.

pub mod decode_error;
pub mod erased;
pub(crate) mod metadata;
pub mod resource;
pub mod strategy;
pub(crate) mod strict;

use std::collections::BTreeMap;

pub use decode_error::DecodeError;
pub use erased::{AnyObject, KindEntry};
pub use rekindle_types::validation::field_error::{self, FieldError, FieldProblem};
pub use resource::{
    ApiKind, NameRule, RequestContext, ResourceNames, ResourceScope, Subresource, TableCell,
    TableColumn,
};
pub use strategy::{ObjectPart, Strategies, SubresourceStrategy};

/// The served kinds. Built once at start; adding a kind is one [`Registry::register`] line.
#[derive(Debug, Default)]
pub struct Registry {
    by_resource: BTreeMap<(&'static str, &'static str), KindEntry>,
}

impl Registry {
    /// Adds a kind, under its group and plural name.
    pub fn register<K: ApiKind>(&mut self) -> &mut Self {
        let entry = KindEntry::new::<K>();
        self.by_resource.insert((entry.group, entry.plural), entry);
        self
    }

    /// The kind served as `plural` in `group` (empty: the core group), in this version.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&KindEntry> {
        self.in_group(group).find(|entry| entry.version == version && entry.plural == plural)
    }

    /// The kind called `kind` in `group`.
    pub fn find_kind(&self, group: &str, kind: &str) -> Option<&KindEntry> {
        self.in_group(group).find(|entry| entry.kind == kind)
    }

    /// Every kind, by group, then by plural name.
    pub fn kinds(&self) -> impl Iterator<Item = &KindEntry> {
        self.by_resource.values()
    }

    /// The kinds of one group, by plural name.
    pub fn in_group(&self, group: &str) -> impl Iterator<Item = &KindEntry> {
        self.by_resource.values().filter(move |entry| entry.group == group)
    }

    /// Every served (group, version), the core group first, then by name.
    pub fn group_versions(&self) -> Vec<(&'static str, &'static str)> {
        let mut all: Vec<_> = self.kinds().map(|entry| (entry.group, entry.version)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
