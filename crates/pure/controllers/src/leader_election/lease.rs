//! The Lease as a record of who leads: what is read of it, and what each step writes.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::term::transitions;
use rekindle_types::{Tick, TickDuration};

use super::Candidacy;
use crate::ViewObject;

/// What of a Lease tells whether its holder is alive: it changes with every renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaseRecord<'a> {
    /// Empty when nobody holds it.
    pub(super) holder: &'a str,
    /// How long the holder may be silent.
    pub(super) duration: TickDuration,
    transitions: i32,
    renewed: Option<Tick>,
    uid: Option<&'a str>,
}

impl<'a> LeaseRecord<'a> {
    pub(super) fn from_lease(lease: &'a Lease) -> Self {
        let spec = lease.spec.as_ref();
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
        Self {
            holder: spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default(),
            duration: TickDuration::of_field(seconds),
            transitions: transitions(lease),
            renewed: spec.and_then(|spec| spec.renew_time.as_ref()).map(Tick::from),
            uid: lease.metadata.uid.as_deref(),
        }
    }
}

/// The Lease of a first leader.
pub(super) fn first(candidacy: &Candidacy, now: Tick) -> Lease {
    Lease {
        metadata: ObjectMeta {
            namespace: Some(candidacy.lease.namespace.clone()),
            name: Some(candidacy.lease.name.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec { lease_transitions: Some(0), ..held_by(candidacy, now) }),
    }
}

/// The same Lease, acquired by this candidate: a new term.
pub(super) fn acquired(lease: &Lease, candidacy: &Candidacy, now: Tick) -> ViewObject {
    let next = transitions(lease).saturating_add(1);
    let spec = LeaseSpec { lease_transitions: Some(next), ..held_by(candidacy, now) };
    ViewObject::from(Lease { spec: Some(spec), ..lease.clone() })
}

/// The same Lease, held on.
pub(super) fn renewed(lease: &Lease, now: Tick) -> ViewObject {
    let mut lease = lease.clone();
    lease.spec.get_or_insert_default().renew_time = Some(now.to_micro_time());
    ViewObject::from(lease)
}

/// The same Lease, given back: as client-go writes it, so that others need not wait.
pub(super) fn released(lease: &Lease, now: Tick) -> ViewObject {
    let mut lease = lease.clone();
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.acquire_time = Some(now.to_micro_time());
    spec.renew_time = Some(now.to_micro_time());
    ViewObject::from(lease)
}

fn held_by(candidacy: &Candidacy, now: Tick) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(candidacy.identity.clone()),
        lease_duration_seconds: Some(whole_seconds(candidacy.timing.lease_duration)),
        acquire_time: Some(now.to_micro_time()),
        renew_time: Some(now.to_micro_time()),
        ..LeaseSpec::default()
    }
}

/// A Lease has whole seconds: rounded up, so that nobody begins too early.
fn whole_seconds(duration: TickDuration) -> i32 {
    i32::try_from(duration.as_micros().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}
