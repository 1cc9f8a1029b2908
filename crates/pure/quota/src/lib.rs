//! What a ResourceQuota counts: which amounts its names mean, which objects it covers, and how much
//! of each amount an object uses.
//!
//! The API core charges a quota by these rules, in the write that it admits. The quota controller
//! recounts by the same rules. So both come to the same figures.
//!
//! ```text
//!  ResourceQuota ─► QuotaTerms ─┬─ amounts ─► QuotaAmount: what a name means, of which resource
//!                               └─ scopes  ─► which pods or claims are covered
//!  QuotaTerms::usage_of(resource, object, now) ─► QuotaUsage
//! ```
//!
//! Sources: the documentation of resource quotas, the API reference of ResourceQuotaSpec, and
//! upstream's evaluators (`pkg/quota/v1/evaluator/core`).
#![forbid(unsafe_code)]

mod amount;
mod counted;
mod demands;
mod scope;
mod terms;
mod usage;

pub use amount::{QuotaAmount, is_standard_name};
pub use counted::{CountedObject, CountedResource};
pub use demands::unmet_demands;
pub use scope::{QuotaScope, ScopeOperator};
pub use terms::{QuotaTerms, bounds_resource};
pub use usage::{QuotaUsage, counts_for_now, counts_until};
