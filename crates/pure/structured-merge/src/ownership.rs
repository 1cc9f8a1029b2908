//! How a write changes an object and who owns its fields.

use std::sync::LazyLock;

use serde_json::Value;

use crate::compare::FieldChanges;
use crate::conflict::{FieldConflict, FieldConflicts};
use crate::field_owners::{FieldOwner, FieldOwners, OwnedFields};
use crate::field_set::FieldSet;
use crate::path_element::FieldPath;
use crate::schema::TypedSchema;

/// A write by one owner.
#[derive(Clone, Copy, Debug)]
pub struct OwnershipChange<'a> {
    /// The type of the object.
    pub schema: TypedSchema<'a>,
    /// Who writes.
    pub owner: &'a FieldOwner,
    /// The API version that it writes.
    pub api_version: &'a str,
    /// Fields that this way of writing does not change, with what is below them.
    pub ignored: &'a FieldSet,
    /// When, in seconds since 1970, where that is noted.
    pub now_seconds: Option<i64>,
}

/// What an apply gives.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedObject {
    /// The object.
    pub object: Value,
    /// Who owns its fields now.
    pub owners: FieldOwners,
}

/// Fields of an object's identity, which no owner has.
static IDENTITY: LazyLock<FieldSet> = LazyLock::new(|| {
    const OF_METADATA: [&str; 9] = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let of_metadata = OF_METADATA.iter().map(|name| FieldPath::of_fields(&["metadata", name]));
    let of_object = ["apiVersion", "kind", "metadata"].map(|name| FieldPath::of_fields(&[name]));
    FieldSet::from_paths(of_metadata.chain(of_object))
});

/// What an owner is left with when others set and removed these fields.
fn take_from(owned: &mut OwnedFields, set: &FieldSet, removed: &FieldSet) {
    if owned.fields.intersects(set) || owned.fields.intersects(removed) {
        owned.fields = std::mem::take(&mut owned.fields).difference(set).difference(removed);
    }
}

impl OwnershipChange<'_> {
    /// Who owns what after any write but an apply: the writer has what it added or modified, the
    /// others lose it.
    pub fn update(self, old: &Value, new: &Value, owners: FieldOwners) -> FieldOwners {
        self.update_with(self.changes(old, new), owners)
    }

    /// What a write of this kind changes.
    pub fn changes(self, old: &Value, new: &Value) -> FieldChanges {
        self.schema.compare(old, new).without(self.ignored)
    }

    /// The same as [`OwnershipChange::update`], of changes that are known.
    pub fn update_with(self, changes: FieldChanges, mut owners: FieldOwners) -> FieldOwners {
        if changes.is_empty() {
            return owners;
        }
        let set = changes.added.union(&changes.modified);
        owners.owners.values_mut().for_each(|owned| take_from(owned, &set, &changes.removed));
        owners.owners.retain(|_, owned| !owned.fields.is_empty());
        let set = set.difference(&IDENTITY);
        if !set.is_empty() {
            let before = owners.owners.remove(self.owner);
            let fields = match before {
                Some(before) => before.fields.union(&set),
                None => set,
            };
            self.insert(&mut owners, fields);
        }
        owners.cap_updaters();
        owners
    }

    fn insert(self, owners: &mut FieldOwners, fields: FieldSet) {
        let owned = OwnedFields {
            fields,
            api_version: self.api_version.to_owned(),
            time_seconds: self.now_seconds,
        };
        owners.insert(self.owner.clone(), owned);
    }

    /// The object after an apply of `config`, and who owns what then. Fields that the owner applied
    /// last time and leaves out now go, unless another owner has them.
    ///
    /// # Errors
    /// The conflicts, unless they are forced.
    pub fn apply(
        self,
        live: &Value,
        config: &Value,
        owners: &FieldOwners,
        is_forced: bool,
    ) -> Result<AppliedObject, FieldConflicts> {
        let mut owners = owners.clone();
        let merged = self.schema.merge(live, config);
        let fields = self.schema.field_set(config).recursive_difference(self.ignored);
        let last = owners.owners.remove(self.owner);
        self.insert(&mut owners, fields);
        let object = match last.as_ref().filter(|last| !last.fields.is_empty()) {
            Some(last) => self.prune(merged, &last.fields, &owners),
            None => merged,
        };
        if object == *live
            && let Some(owned) = owners.owners.get_mut(self.owner)
        {
            // the time is that of a change of the object
            owned.time_seconds = last.and_then(|last| last.time_seconds);
        }
        let changes = self.changes(live, &object);
        let set = changes.added.union(&changes.modified);
        let others = || owners.owners.iter().filter(|(owner, _)| *owner != self.owner);
        if !is_forced {
            let conflicts: Vec<_> = others()
                .flat_map(|(owner, owned)| {
                    let paths = owned.fields.clone().intersection(&set).paths();
                    paths.into_iter().map(|path| FieldConflict { owner: owner.clone(), path })
                })
                .collect();
            if !conflicts.is_empty() {
                return Err(FieldConflicts(conflicts));
            }
        }
        for (owner, owned) in &mut owners.owners {
            match owner == self.owner {
                true => owned.fields = std::mem::take(&mut owned.fields).difference(&IDENTITY),
                false => take_from(owned, &set, &changes.removed),
            }
        }
        owners.owners.retain(|_, owned| !owned.fields.is_empty());
        Ok(AppliedObject { object, owners })
    }

    /// The fields of a configuration that the live object still has as they were applied.
    pub fn unchanged_since(self, config: &Value, live: &Value) -> FieldSet {
        let changes = self.schema.compare(config, live);
        let fields = self.schema.field_set(config);
        fields.difference(&changes.modified).difference(&changes.added).difference(&changes.removed)
    }

    /// The merged object without what this owner applied last time and nothing claims now.
    fn prune(self, merged: Value, last: &FieldSet, owners: &FieldOwners) -> Value {
        let schema = self.schema;
        let with_parents = |fields: &FieldSet| fields.with_declared_parents(schema);
        let all = with_parents(&schema.field_set(&merged));
        let last = with_parents(last);
        // without all that was applied last time
        let pruned = schema.remove(merged.clone(), &last);
        // with what any owner has, this one's new fields included
        let owned =
            owners.owners.values().fold(FieldSet::default(), |all, owned| all.union(&owned.fields));
        let kept = with_parents(&schema.field_set(&pruned)).union(&with_parents(&owned));
        let pruned = schema.remove(merged.clone(), &all.clone().difference(&kept));
        // with what went along although it was not applied: below what is gone
        let kept = with_parents(&schema.field_set(&pruned));
        schema.remove(merged, &all.difference(&kept).intersection(&last))
    }
}
