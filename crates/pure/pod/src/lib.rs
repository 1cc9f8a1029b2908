//! The pod's lifecycle as a pure state machine: events go in, actions come out, and the time is an
//! argument. No IO, no clock, no randomness, no async; the same events at the same ticks give the
//! same actions.
//!
//! ```text
//!              Event                 ┌───────────┐  CoreOutput, in order
//!  driver ───────────────► handle ──►│  PodCore  │──► poll_output ──────► driver
//!         ◄─ poll_timeout ─ handle_timeout       │
//!                                    └───────────┘
//! ```
//!
//! When all containers of a pod are gone and cleaned up, it reports [`CoreReport::Finish`].
//! What must survive a crash of the agent goes out as [`CoreReport::Persist`] before the actions
//! that depend on it; [`PodCore::recover`] takes it in again. Even without it, a [`Snapshot`] of
//! the runtime and the status in the API are enough to go on.
//!
//! The behaviour is the kubelet's (1.36/1.37) unless a module says otherwise and why. Where to find
//! what:
//!
//! | subject | module |
//! |---|---|
//! | the parts, and which event belongs to which | `core` |
//! | the order in which they are driven | `core::drive` |
//! | an agent that starts again | `core::take_up`, [`journal`] |
//! | what is wanted: the object, and the spec as the core reads it | `desired_pod`, `blueprint` |
//! | first sight to end | `lifecycle`, `halt`, `loss` |
//! | the containers: starts, images, probes, hooks, ends | `containers`, with a map of its own |
//! | volumes, sandboxes | `volumes`, `sandboxes` |
//! | restarts on request and by rule | `restarts`, `core::restart`, `rekindle_types::restart_rules` |
//! | resources that change in place | `resize` |
//! | when the journal is written | `journal_keeper` |
//! | what the API shows, and how it is written | `status`, `shown_status`, `last_status`, `phase`, `conditions`, `texts`, `status_write` |
//! | delays | `backoff`, `timers` |
//! | which updates matter | `update` |
//! | what events and actions are matched by | [`key`] |
//! | what a node has given to its pods | [`room`] |
//!
//! Imports go one way: `core` → the parts → what all of them speak
//! of (`event`, `action`, `journal`, `key`, `blueprint`, `texts` …). No part imports the core. The
//! containers read the other parts through `context`; no other part imports `containers`.
#![forbid(unsafe_code)]

pub mod action;
mod allocation;
mod backoff;
mod blueprint;
mod complaint;
mod conditions;
pub mod config;
mod containers;
mod context;
mod core;
mod desired_pod;
pub mod event;
mod halt;
mod health;
pub mod journal;
mod journal_keeper;
pub mod key;
mod last_status;
mod lifecycle;
mod loss;
pub mod mounted_volumes;
mod outbox;
mod phase;
mod probe;
mod resize;
mod restarts;
pub mod room;
mod sandboxes;
mod shown_status;
mod status;
mod status_view;
mod status_write;
mod stop_reason;
mod texts;
mod timers;
mod update;
mod volumes;

pub use action::{
    CoreAction, CoreOutput, CoreReport, HookKind, HookLimit, LimitStep, PodEvent, ProbeKind,
    PullPolicy, ResourceRequest, RestartReport, Restarts,
};
pub use conditions::owns_condition;
pub use config::PodConfig;
pub use containers::NeededImage;
pub use core::PodCore;
pub use event::{
    ActionError, ActionErrorKind, ActionOutcome, ContainerSeen, ContainerSeenState, CoreEvent,
    EvictionCause, GroupHold, ImageSource, Made, PodEviction, ProbeVerdict, ResourceDecision,
    RestartRequest, SandboxSeen, SandboxSeenState, Series, Snapshot,
};
pub use journal::Journal;
pub use key::{ActionId, ContainerStartKey};
pub use loss::Loss;
pub use status_write::{StatusPatch, StatusWrite};
pub use texts::{failed_mount, go_duration, oom_killing};
pub use update::concerns_core;
