//! The audit log of an API server, as far as it needs no IO: which requests a policy records, in
//! how much detail, and what an event says.
//!
//! ```text
//!  Policy (audit.k8s.io/v1) -> AuditPolicy::decide(subject) -> AuditDecision: level, stages
//!  AuditEvent -> one line of JSON (audit.k8s.io/v1 Event)
//! ```
//!
//! Sources: upstream's `apiserver/pkg/apis/audit`, `apiserver/pkg/audit` and the filters
//! `WithAudit` and `WithFailedAuthenticationAudit`.
#![forbid(unsafe_code)]

mod event;
mod level;
mod origin;
mod policy;
mod recorded_object;
mod subject;

pub use event::{AuditEvent, AuditResponseStatus};
pub use level::{AuditLevel, AuditStage, StageSet};
pub use origin::{is_usable_audit_id, recorded_user_agent, source_addresses};
pub use policy::{AuditDecision, AuditPolicy, AuditPolicyError};
pub use recorded_object::{ManagedFieldsMode, RecordedMetadata, recorded_json, recorded_value};
pub use subject::{AuditObjectReference, AuditSubject};
