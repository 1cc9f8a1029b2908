//! How the end or the wait of a container or pod is read: what happened, whether a restart can
//! help and from which rung on, and what would help. Pure, and the only place that knows: the
//! ladder decides by it, and `why` tells it.
//!
//! ```text
//!  text of the API ──parse──► TerminatedReason │ WaitingReason │ PodReason │ EventReading
//!                                     │ match
//!                                     ▼
//!                                 Diagnosis ──┬── ladder: prognosis, one sentence, a few words
//!                                             └── why: cause, the whole account, advice
//! ```
//!
//! Reasons are parsed at the border and matched inside. A reason that is not known keeps its text
//! and gets a reading that claims nothing: an end is read by its exit code, a wait is left alone.
//!
//! | file | holds |
//! |---|---|
//! | `terminated_reason`, `waiting_reason`, `pod_reason`, `event_reading` | what others write |
//! | `container_end`, `container_wait` | a state of a container, parsed |
//! | `restart_terms` | what starts a container again after an end |
//! | `exit_code` | what an exit code means by itself |
//! | `end_diagnosis`, `wait_diagnosis` | the readings |
//! | `cause`, `phrase`, `foreign_text` | the words they are made of |
//!
//! `testdata/kubelet_reasons.txt` lists what the kubelet and the runtimes write, with the source.
#![forbid(unsafe_code)]

mod cause;
mod container_end;
mod container_wait;
mod diagnosis;
mod end_diagnosis;
mod event_reading;
mod exit_code;
mod foreign_text;
mod phrase;
mod pod_reason;
mod reason_table;
mod restart_terms;
mod terminated_reason;
mod wait_diagnosis;
mod waiting_reason;

pub use cause::{Cause, CauseFamily};
pub use container_end::ContainerEnd;
pub use container_wait::ContainerWait;
pub use diagnosis::{Diagnosis, Prognosis};
pub use end_diagnosis::{
    EndContext, MemoryLimit, SandboxAtEnd, diagnose_end, diagnose_unseen_ends,
};
pub use event_reading::{EventReading, StartObstacle};
pub use foreign_text::{message_line, one_line};
pub use phrase::Phrase;
pub use pod_reason::PodReason;
pub use restart_terms::{ContainerRestartPolicy, RestartTerms, StartedBy};
pub use terminated_reason::TerminatedReason;
pub use wait_diagnosis::{diagnose_missing_sandbox, diagnose_wait};
pub use waiting_reason::{WaitFamily, WaitingReason};
