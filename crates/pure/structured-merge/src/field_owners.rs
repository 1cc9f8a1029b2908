//! Who owns which fields of an object.

use std::collections::BTreeMap;
use std::fmt;

use crate::field_set::FieldSet;

/// So many owners by update are kept; the oldest become one ([`FieldOwners::ANCIENT`]).
const UPDATERS_MAX: usize = 10;

/// How an owner came to its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldOperation {
    /// By server-side apply: it says all that it wants, each time.
    Apply,
    /// By any other write.
    Update,
}

impl FieldOperation {
    /// As managedFields spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// An owner of fields. Two writes with equal values are by the same owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldOwner {
    /// Its name.
    pub manager: String,
    /// How it writes.
    pub operation: FieldOperation,
    /// The API version of its updates; empty of who applies, which is one owner in all versions.
    pub api_version: String,
    /// The subresource it writes through; empty for the object itself.
    pub subresource: String,
}

impl fmt::Display for FieldOwner {
    /// As conflicts name it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.manager)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        match self.operation {
            FieldOperation::Apply => Ok(()),
            FieldOperation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

/// What an owner has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedFields {
    /// The fields.
    pub fields: FieldSet,
    /// The API version that they are of.
    pub api_version: String,
    /// When the owner last changed something, in seconds since 1970.
    pub time_seconds: Option<i64>,
}

/// The owners of an object's fields. A field may have several, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldOwners {
    pub(crate) owners: BTreeMap<FieldOwner, OwnedFields>,
}

impl FieldOwners {
    /// The owner that the oldest updates are bundled into.
    pub const ANCIENT: &'static str = "ancient-changes";
    /// The owner of what was there before the first apply, of an object without owners.
    pub const BEFORE_FIRST_APPLY: &'static str = "before-first-apply";

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Adds an owner, or replaces what it has.
    pub fn insert(&mut self, owner: FieldOwner, fields: OwnedFields) {
        self.owners.insert(owner, fields);
    }

    /// What an owner has.
    pub fn get(&self, owner: &FieldOwner) -> Option<&OwnedFields> {
        self.owners.get(owner)
    }

    /// All owners: who applies first, each group by time, then by name, as managedFields list
    /// them.
    pub fn sorted(&self) -> Vec<(&FieldOwner, &OwnedFields)> {
        let mut all: Vec<_> = self.owners.iter().collect();
        all.sort_by_key(|(owner, owned)| (owner.operation, owned.time_seconds.unwrap_or(0)));
        all
    }

    /// Keeps the owners for which this holds.
    pub fn retain(&mut self, keep: impl Fn(&FieldOwner, &OwnedFields) -> bool) {
        self.owners.retain(|owner, owned| keep(owner, owned));
    }

    /// Whether the owners are the same but for their times.
    pub fn same_but_for_times(&self, other: &Self) -> bool {
        self.owners.len() == other.owners.len()
            && self.owners.iter().zip(&other.owners).all(|((a, fields), (b, others))| {
                a == b && fields.fields == others.fields && fields.api_version == others.api_version
            })
    }

    /// Bundles the oldest updates, by API version, until there are few enough.
    pub(crate) fn cap_updaters(&mut self) {
        let is_update = |owner: &&FieldOwner| owner.operation == FieldOperation::Update;
        let mut updaters: Vec<_> = self.owners.keys().filter(is_update).cloned().collect();
        let mut count = updaters.len();
        if count <= UPDATERS_MAX {
            return;
        }
        updaters.sort_by_cached_key(|owner| {
            let owned = &self.owners[owner];
            (owned.time_seconds.unwrap_or(0), owner.clone())
        });
        let mut first_of_version: BTreeMap<String, FieldOwner> = BTreeMap::new();
        for owner in updaters {
            if count <= UPDATERS_MAX {
                return;
            }
            let version = self.owners[&owner].api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, owner);
                continue;
            };
            let bundle = FieldOwner {
                manager: Self::ANCIENT.to_owned(),
                operation: FieldOperation::Update,
                api_version: version,
                subresource: String::new(),
            };
            if !self.owners.contains_key(&bundle)
                && let Some(fields) = self.owners.remove(first)
            {
                self.owners.insert(bundle.clone(), fields);
            }
            // the bundle may be what comes next: it stays as it is
            if bundle != owner
                && let Some(owned) = self.owners.remove(&owner)
                && let Some(bundled) = self.owners.get_mut(&bundle)
            {
                bundled.fields = std::mem::take(&mut bundled.fields).union(&owned.fields);
                bundled.time_seconds = owned.time_seconds;
                count -= 1;
            }
        }
    }
}
