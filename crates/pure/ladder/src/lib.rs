//! The restart ladder: policy, evidence, ledger, budget, decision. Pure: time comes in, decisions
//! come out.
//!
//! The driver (crate `reconcile`) does this for a pod whenever the pod, its ladder, its ledger or
//! one of its PodRestarts changed, and at [`RestartDecision::again_at`]:
//!
//! 1. look up the pod's [`LadderPolicy`] ([`policy_of`]), find the ledger by the pod's
//!    [`identity()`];
//! 2. [`decide()`];
//! 3. write [`RestartDecision::ledger`] if it differs from what is stored (a ledger that stays
//!    blank is not created);
//! 4. then carry out [`RestartDecision::action`]. A PodRestart that exists already is a success. A
//!    crash between 3 and 4 is harmless: the next decision asks for the same PodRestart again,
//!    under the same name, until it was seen;
//! 5. record [`RestartDecision::events`].
//!
//! When a PodRestart of the ladder's pods finishes, or a ledger tells what came of a trial
//! ([`is_news_of_trial`]), the pods whose ledger has a `heldRung` are decided again. What other
//! pods take of budgets and limits is kept in a [`LedgerRegister`].
//!
//! # The climb
//! ```text
//!                 a container failed                 attempts used up, or evidence that the rung cannot help
//!  Healthy ──────────────► Climbing: Container ───► Containers ───► Pod ───► Recreate ───► Reschedule ───► Exhausted
//!     ▲                                     │ ▲                                                                 │
//!     │                    budget, evidence ▼ │ slot free, another failure                                      │
//!     │                                   Holding                                                               │
//!     └──────────────── everything has been running for as long as the window ──────────────────────────────────┘
//! ```
//! - A failure is an end of a container that its restart policy did not expect; it is found by
//!   comparing the counts of the pod's status with the ledger, so it is counted once however
//!   statuses were coalesced. What a PodRestart ended is no failure.
//! - `attempts: N` of Container leaves the first N failures to the container's own restart with the
//!   kubelet's backoff. The next one climbs at once, whether or not the node has already started
//!   the container again.
//! - The climb only goes up: as long as an attempt of a higher rung is inside the window, the next
//!   failure takes the next attempt of that rung, then of the next. The milder rungs were tried and
//!   did not help; giving them their attempts back after each whole-pod restart would multiply the
//!   attempts and delay the end.
//! - Exhausted stays until everything has been running for as long as the window, or the ladder is
//!   edited; it does not end when the attempts leave the window: otherwise a pod that cannot heal
//!   would be restarted for ever, a few times each window.
//! - Rollback is tried only where there is a revision to go back to that was healthy
//!   ([`Situation::rollback`]); elsewhere it is passed over.
//! - A ladder of scope Group decides for the pods of a workload as one: see `group.rs`.
//! - What the other pods of the workload and of the node do is evidence too: see `correlation.rs`.
#![forbid(unsafe_code)]

mod attempts;
mod authority;
mod budget;
mod choice;
mod climb;
mod correlation;
mod dating;
mod decide;
mod decision;
mod draft;
mod dry_run;
mod explanation;
mod failures;
mod group;
mod held_request;
mod identity;
mod ledger_reading;
mod limits;
mod lookup;
mod missed_rungs;
mod no_sandbox;
mod observation;
mod outcomes;
mod policy;
mod recency;
mod register;
mod requests;
mod resumption;
mod revision;
mod selection;
mod sentence;
mod stability;
mod stage;
mod symptom;
mod trial;
mod unselected;
mod verdict;

pub use authority::{InPlaceSupport, LadderAuthority, LadderMode, needs_agent};
pub use budget::{Occupancy, decided_lately};
pub use correlation::{FailureLikeness, NodeOutage, NodeTrouble, RevisionPeers};
pub use decide::decide;
pub use decision::{
    LadderAction, LadderEvent, PodRestartPlan, RestartDecision, RestartTarget, RollbackTarget,
    Situation,
};
pub use group::{LadderGroup, LadderSubject};
pub use identity::{LedgerIdentity, Lineage, heir_of, identity, may_inherit, node_of};
pub use ledger_reading::seen_at;
pub use limits::{LimitUsage, RestartLimits, TokenBucket};
pub use lookup::policy_of;
pub use outcomes::with_outcomes;
pub use policy::{LadderPolicy, LadderPolicyError, RungPolicy};
pub use register::{BudgetApplicant, LedgerRegister, PendingDecision};
pub use resumption::{BudgetExhausted, room_to_go_on};
pub use revision::PodRevision;
pub use selection::select;
pub use symptom::{FailureSymptom, ended_unforeseen, fails_repeatedly, symptom_of};
pub use trial::{Trial, TrialState, has_recovered, is_news_of_trial, tried};
pub use unselected::{unselected, without_pod};
pub use verdict::{LadderReach, ladder_status, tells_of_overlap};
