//! Resource quotas: each write counts in the quotas that cover its object, in the same step.
//!
//! ```text
//!  create, update ─ QuotaWrite::of_create, of_change ─► 403, or ─┐
//!  delete ───────── QuotaWrite::of_removal ──────────────────────┤
//!  the server's own ─ put_own ───────────────────────────────────┤
//!                                                                v
//!                       the object and the status of its quotas, in one step
//! ```
//!
//! Invariant: the `used` of a quota is never less than what its objects use. A write that uses more
//! raises it, one that uses less lowers it, and both are one step with the object's own write. A
//! quota that is new, or bounds something else, is counted over all objects before anything else
//! is written to its namespace. A status that a client writes is counted anew, too: `used` is what
//! the server finds. So two writes never exceed a quota together (docs/adr/0068).
//!
//! The store refuses a step that was decided on another version of a quota, or before a commit that
//! failed. Then it is decided again.

mod charge;
mod held_namespace;
mod namespace_locks;
mod own_write;
mod quota_write;
mod recount;

pub(crate) use namespace_locks::NamespaceLocks;
pub(crate) use own_write::{put_own, until_decided};
pub(crate) use quota_write::QuotaWrite;
