//! Server-side apply without the server: sets of fields, merges that follow a schema, and who owns
//! what.
//!
//! Values are JSON trees. A [`MergeSchema`] says where a list or an object merges and where it is
//! one value. Built-in kinds have a table of theirs; custom resources build a schema of their own.
//!
//! ```text
//!  MergeSchema ─┬─ validate         does a value fit?
//!               ├─ field_set        which fields does it set?
//!               ├─ compare          what did a change add, modify, remove?
//!               ├─ merge            live object and applied configuration become one
//!               └─ remove           takes fields out of a value
//!  FieldOwners ─── apply, update    keeps one set of fields per owner, and finds conflicts
//! ```
//!
//! Source of the behaviour: KEP-555 (server-side apply) and KEP-2155, and what
//! `sigs.k8s.io/structured-merge-diff` does for kube-apiserver.
#![forbid(unsafe_code)]

mod atomic;
mod compare;
mod conflict;
mod field_owners;
mod field_set;
mod list_index;
mod merge;
mod ownership;
mod path_element;
mod remove;
mod schema;
mod set_fields;
mod validate;

pub use compare::FieldChanges;
pub use conflict::{FieldConflict, FieldConflicts};
pub use field_owners::{FieldOperation, FieldOwner, FieldOwners, OwnedFields};
pub use field_set::{FieldSet, FieldSetError};
pub use ownership::{AppliedObject, OwnershipChange};
pub use path_element::{FieldPath, PathElement, PathElementError};
pub use schema::{
    AbsentField, KeyField, ListMergeRule, ListType, MapField, MapGranularity, MapType, MergeSchema,
    MergeType, ScalarType, TypeId, TypedSchema,
};
pub use validate::SchemaMismatch;
