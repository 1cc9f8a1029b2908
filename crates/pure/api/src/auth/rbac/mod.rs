//! Role-based access control: pure. Roles say what may be done, bindings say who may do it.
//!
//! ```text
//!  bindings of the cluster ──┐  names the user, a group,          role ── rules
//!  bindings of the namespace ┘  or the service account?  ── yes ──┘         │
//!                                                              one matches: allowed
//! ```
//! There is no rule that forbids. Behaviour: upstream's `plugin/pkg/auth/authorizer/rbac`.

pub mod covers;
pub mod defaults;
pub mod policies;
pub mod rule;

pub use covers::{TooManyCombinations, missing};
pub use policies::{AccessGrant, RbacPolicies};
