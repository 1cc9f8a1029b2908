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
//! | the spec as the core reads it | `blueprint` |
//! | one container: states, attempts, exits | `container`, `containers` |
//! | order of init containers, sidecars, regular ones | `sequence` |
//! | images and their backoff | `images` |
//! | delays | `backoff`, `timers` |
//! | which updates matter | `update` |
//! | what events and actions are matched by | [`key`] |
//! | volumes, sandbox | `volumes`, `sandbox` |
//! | graceful end of containers and of the pod | `halt`, `ending`, `loss` |
//! | probes, and the way to `started` | `health`, `probe`, `probing` |
//! | postStart and preStop | `hooks` |
//! | ephemeral containers | `ephemeral` |
//! | restarts on request | `restart`, `restart_images` |
//! | resources that change in place | `resize` |
//! | what a node has given to its pods | [`room`] |
//! | restart policies and rules | `rekindle_types::restart_rules`, `restart_all` |
//! | an agent that starts again | `recovery`, `taken_up`, [`journal`] |
//! | what the API shows, and how it is written | `status`, `last_status`, `phase`, `conditions`, `texts`, `status_write` |
#![forbid(unsafe_code)]

pub mod action;
mod backoff;
mod blueprint;
mod conditions;
pub mod config;
mod container;
mod containers;
mod core;
mod ending;
mod ephemeral;
pub mod event;
mod failed_pulls;
mod halt;
mod health;
mod hooks;
mod images;
pub mod journal;
pub mod key;
mod last_status;
mod loss;
mod node_stop;
mod outbox;
mod phase;
mod probe;
mod probing;
mod recovery;
mod resize;
mod restart;
mod restart_all;
mod restart_images;
pub mod room;
mod sandbox;
mod sequence;
mod status;
mod status_write;
mod superseded;
mod taken_up;
mod texts;
mod timers;
mod update;
mod volumes;

pub use action::{
    Action, CoreOutput, CoreReport, HookKind, HookLimit, LimitStep, PodEvent, ProbeKind,
    PullPolicy, ResourceRequest, RestartReport, Restarts, Severity,
};
pub use conditions::owns_condition;
pub use config::Config;
pub use core::PodCore;
pub use event::{
    ActionError, ActionErrorKind, ContainerSeen, ContainerSeenState, Event, Eviction,
    EvictionCause, ImageSource, Made, Outcome, ResourceDecision, RestartRequest, SandboxSeen,
    SandboxSeenState, Series, Snapshot, Verdict,
};
pub use journal::Journal;
pub use key::{ActionId, ContainerKey};
pub use loss::Loss;
pub use restart_images::NeededImage;
pub use status_write::{StatusPatch, StatusWrite};
pub use texts::{failed_mount, go_duration, oom_killing};
pub use update::concerns_core;
