//! What all ledgers and requests say of restarts, kept in the order in which a decision asks for it, so that none of them walks over
//! all ledgers. The driver tells of every change of a RestartLedger and a PodRestart; what is kept is always what would be made anew from
//! all of them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::v1alpha1::{PodRestart, RestartLedger, Rung};
use rekindle_types::{Tick, TickDuration};

use crate::budget::{GIVEN_UP_AFTER, MINUTE};
use crate::{Crowd, Occupancy};

/// A decision that is being written and that no ledger shows yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The namespace of the pod.
    pub namespace: String,
    /// The pod.
    pub pod_name: String,
    /// When it was taken.
    pub at: Tick,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// Its name.
    pub pod_name: &'a str,
    /// Its UID.
    pub pod_uid: &'a str,
    /// The UID of its controller, if it has one.
    pub controller: Option<&'a str>,
    /// Its ladder.
    pub ladder: &'a str,
}

/// What is kept of all ledgers and requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Register {
    namespaces: BTreeMap<String, Namespace>,
    /// When restarts above Container were decided, in all namespaces: the ledger, and which of its attempts.
    decided: BTreeSet<(Tick, String, String, usize)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Namespace {
    ledgers: BTreeMap<String, Ledger>,
    requests: BTreeMap<String, Request>,
    /// As in the register, of this namespace.
    decided: BTreeSet<(Tick, String, usize)>,
    /// Ledgers by the name of their pod, and by its UID.
    ledgers_of: BTreeMap<String, BTreeSet<String>>,
    ledgers_by_uid: BTreeMap<String, BTreeSet<String>>,
    /// Ledgers with a restart that is decided and was not seen, and those with a rung that is held back.
    pending: BTreeSet<String>,
    held: BTreeSet<String>,
    /// Requests by the name of their pod, and those that are not finished.
    requests_of: BTreeMap<String, BTreeSet<String>>,
    open: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Ledger {
    pod_name: String,
    pod_uid: String,
    ladder: String,
    owners: Vec<String>,
    /// Attempts above Container.
    decided: Vec<Tick>,
    pending: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    pod_name: String,
    ladder: Option<String>,
    created: Option<Tick>,
    new_pod_uid: Option<String>,
}

impl Register {
    /// A ledger is new, or is so now.
    pub fn put_ledger(&mut self, ledger: &RestartLedger) {
        let (namespace, name) = place(&ledger.metadata);
        self.remove_ledger(namespace, name);
        let status = ledger.status.as_ref();
        let attempts = status.iter().flat_map(|status| status.attempts.iter().flatten());
        let above = attempts.filter(|attempts| attempts.rung > Rung::Container);
        let decided: Vec<Tick> = above.flat_map(|a| a.at.iter().map(Tick::from)).collect();
        let pending = status.and_then(|status| status.pending_restart.clone());
        let owners = ledger.metadata.owner_references.iter().flatten();
        let of = self.namespaces.entry(namespace.to_owned()).or_default();
        for (number, at) in decided.iter().enumerate() {
            of.decided.insert((*at, name.to_owned(), number));
            self.decided.insert((*at, namespace.to_owned(), name.to_owned(), number));
        }
        if pending.is_some() {
            of.pending.insert(name.to_owned());
        }
        if status.is_some_and(|status| status.held_rung.is_some()) {
            of.held.insert(name.to_owned());
        }
        let kept = Ledger {
            pod_name: ledger.spec.pod_name.clone(),
            pod_uid: ledger.spec.pod_uid.clone(),
            ladder: ledger.spec.ladder_name.clone(),
            owners: owners.map(|owner| owner.uid.clone()).collect(),
            decided,
            pending,
        };
        insert(&mut of.ledgers_of, &kept.pod_name, name);
        insert(&mut of.ledgers_by_uid, &kept.pod_uid, name);
        of.ledgers.insert(name.to_owned(), kept);
    }

    /// A ledger is gone.
    pub fn remove_ledger(&mut self, namespace: &str, name: &str) {
        let Some(of) = self.namespaces.get_mut(namespace) else { return };
        let Some(kept) = of.ledgers.remove(name) else { return };
        for (number, at) in kept.decided.iter().enumerate() {
            of.decided.remove(&(*at, name.to_owned(), number));
            self.decided.remove(&(*at, namespace.to_owned(), name.to_owned(), number));
        }
        of.pending.remove(name);
        of.held.remove(name);
        remove(&mut of.ledgers_of, &kept.pod_name, name);
        remove(&mut of.ledgers_by_uid, &kept.pod_uid, name);
        self.forget_empty(namespace);
    }

    /// A request is new, or is so now.
    pub fn put_restart(&mut self, restart: &PodRestart) {
        let (namespace, name) = place(&restart.metadata);
        self.remove_restart(namespace, name);
        let status = restart.status.as_ref();
        let replacement = status.and_then(|status| status.replacement.as_ref());
        let kept = Request {
            pod_name: restart.spec.pod_name.clone(),
            ladder: restart.spec.ladder_name.clone(),
            created: restart.metadata.creation_timestamp.as_ref().map(Tick::from),
            new_pod_uid: replacement.and_then(|replacement| replacement.new_pod_uid.clone()),
        };
        let of = self.namespaces.entry(namespace.to_owned()).or_default();
        if !status.and_then(|status| status.phase).is_some_and(|phase| phase.is_final()) {
            of.open.insert(name.to_owned());
        }
        insert(&mut of.requests_of, &kept.pod_name, name);
        of.requests.insert(name.to_owned(), kept);
    }

    /// A request is gone.
    pub fn remove_restart(&mut self, namespace: &str, name: &str) {
        let Some(of) = self.namespaces.get_mut(namespace) else { return };
        let Some(kept) = of.requests.remove(name) else { return };
        of.open.remove(name);
        remove(&mut of.requests_of, &kept.pod_name, name);
        self.forget_empty(namespace);
    }

    fn forget_empty(&mut self, namespace: &str) {
        let of = self.namespaces.get(namespace);
        if of.is_some_and(|of| of.ledgers.is_empty() && of.requests.is_empty()) {
            self.namespaces.remove(namespace);
        }
    }

    /// The requests for pods of this name, finished ones too.
    pub fn restarts_of(&self, namespace: &str, pod_name: &str) -> impl Iterator<Item = &str> {
        let names = self.namespaces.get(namespace).and_then(|of| of.requests_of.get(pod_name));
        names.into_iter().flatten().map(String::as_str)
    }

    /// The ledgers that speak of the pod of this name now.
    pub fn ledgers_of(&self, namespace: &str, pod_name: &str) -> impl Iterator<Item = &str> {
        let names = self.namespaces.get(namespace).and_then(|of| of.ledgers_of.get(pod_name));
        names.into_iter().flatten().map(String::as_str)
    }

    /// The pods of a namespace with a rung that is held back.
    pub fn held_back(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let of = self.namespaces.get(namespace);
        of.into_iter().flat_map(|of| {
            of.held.iter().filter_map(|name| Some(of.ledgers.get(name)?.pod_name.as_str()))
        })
    }

    /// What restarts of other pods take of the limits over all ladders. `granted` are decisions that are being written: those that no
    /// ledger shows yet are taken, too.
    pub fn crowd(&self, now: Tick, asker: &Asker<'_>, granted: &[Granted]) -> Crowd {
        let mut crowd = Crowd::default();
        let of = self.namespaces.get(asker.namespace);
        let own = of.and_then(|of| of.ledgers_by_uid.get(asker.pod_uid));
        let is_own = |name: &String| own.is_some_and(|own| own.contains(name));
        let first = first_of_minute(now);
        for (at, namespace, name, _) in
            self.decided.range((first, String::new(), String::new(), 0)..)
        {
            if namespace == asker.namespace {
                if is_own(name) {
                    continue;
                }
                crowd.namespace.push(*at);
            }
            crowd.cluster.push(*at);
        }
        if let (Some(of), Some(controller)) = (of, asker.controller) {
            for name in of.busy() {
                let is_of_controller = |ledger: &&Ledger| {
                    ledger.owners.iter().any(|owner| owner == controller)
                        && !is_own(&name.to_owned())
                };
                let ledger = of.ledgers.get(name).filter(is_of_controller);
                crowd.workload.extend(ledger.and_then(|ledger| of.under_way(ledger, now)));
            }
        }
        for granted in granted.iter().filter(|granted| !self.shows(granted)) {
            let is_here = granted.namespace == asker.namespace;
            if is_here && granted.pod_name == asker.pod_name {
                continue;
            }
            crowd.cluster.push(granted.at);
            if is_here {
                crowd.namespace.push(granted.at);
            }
        }
        crowd.namespace.sort_unstable();
        crowd.cluster.sort_unstable();
        crowd.workload.sort_unstable();
        crowd
    }

    fn shows(&self, granted: &Granted) -> bool {
        let of = self.namespaces.get(&granted.namespace);
        let mut ledgers = self.ledgers_of(&granted.namespace, &granted.pod_name);
        ledgers.any(|name| {
            let ledger = of.and_then(|of| of.ledgers.get(name));
            ledger.is_some_and(|ledger| ledger.decided.contains(&granted.at))
        })
    }

    /// What the other pods of the asker's ladder take of its budget: restarts that are open, and decisions of the last minute. Ledgers are
    /// written before requests, so a restart that is decided and not seen yet counts too.
    pub fn occupancy(&self, now: Tick, asker: &Asker<'_>) -> Occupancy {
        let mut occupancy = Occupancy::default();
        let Some(of) = self.namespaces.get(asker.namespace) else { return occupancy };
        let open = of.open.iter().filter_map(|name| of.requests.get(name));
        let open = open.filter(|request| of.is_others(request, asker));
        occupancy.under_way.extend(open.filter_map(|request| request.since(now)));
        let first = (first_of_minute(now), String::new(), 0);
        for (at, name, _) in of.decided.range(first..) {
            if of.ledgers.get(name).is_some_and(|ledger| ledger.is_others(asker)) {
                occupancy.decided.push(*at);
            }
        }
        for ledger in of.pending.iter().filter_map(|name| of.ledgers.get(name)) {
            let request = ledger.pending.as_ref().and_then(|name| of.requests.get(name));
            let is_seen = request.is_some_and(|request| of.is_others(request, asker));
            if ledger.is_others(asker) && !is_seen {
                occupancy.under_way.extend(ledger.pending_since(now));
            }
        }
        occupancy.under_way.sort_unstable();
        occupancy
    }
}

impl Namespace {
    /// Ledgers whose pod may be being restarted.
    fn busy(&self) -> BTreeSet<&str> {
        let mut busy: BTreeSet<&str> = self.pending.iter().map(String::as_str).collect();
        for request in self.open.iter().filter_map(|name| self.requests.get(name)) {
            let of_pod = self.ledgers_of.get(&request.pod_name);
            let new_pod = request.new_pod_uid.as_ref();
            let of_new_pod = new_pod.and_then(|uid| self.ledgers_by_uid.get(uid));
            busy.extend(of_pod.into_iter().chain(of_new_pod).flatten().map(String::as_str));
        }
        busy
    }

    /// Since when a restart of the ledger's pod is under way: one that is decided, or open.
    fn under_way(&self, ledger: &Ledger, now: Tick) -> Option<Tick> {
        let concerns = |request: &Request| {
            request.pod_name == ledger.pod_name
                || request.new_pod_uid.as_ref() == Some(&ledger.pod_uid)
        };
        let open = self.open.iter().filter_map(|name| self.requests.get(name));
        let open = open.filter(|request| concerns(request)).filter_map(|r| r.since(now)).min();
        let request = ledger.pending.as_ref().and_then(|name| self.requests.get(name));
        let is_seen = request.is_some_and(concerns);
        let pending = ledger.pending_since(now).filter(|_| !is_seen);
        open.into_iter().chain(pending).min()
    }

    /// Whether a request takes of the budget of the asker's ladder: of that ladder, or of one of its pods, and not of the asker.
    fn is_others(&self, request: &Request, asker: &Asker<'_>) -> bool {
        let is_own = request.pod_name == asker.pod_name
            || request.new_pod_uid.as_deref() == Some(asker.pod_uid);
        let of_ladder = |name: &String| {
            self.ledgers.get(name).is_some_and(|ledger| ledger.ladder == asker.ladder)
        };
        let ledgers = self.ledgers_of.get(&request.pod_name);
        !is_own
            && (request.ladder.as_deref() == Some(asker.ladder)
                || ledgers.is_some_and(|ledgers| ledgers.iter().any(of_ladder)))
    }
}

impl Ledger {
    fn is_others(&self, asker: &Asker<'_>) -> bool {
        self.ladder == asker.ladder && self.pod_name != asker.pod_name
    }

    /// Since when its restart is decided and not seen, unless that is given up.
    fn pending_since(&self, now: Tick) -> Option<Tick> {
        self.pending.as_ref()?;
        let since = self.decided.iter().max().copied().unwrap_or(now);
        Some(since).filter(|since| now.since(*since) < GIVEN_UP_AFTER)
    }
}

impl Request {
    fn since(&self, now: Tick) -> Option<Tick> {
        Some(self.created.unwrap_or(now)).filter(|since| now.since(*since) < GIVEN_UP_AFTER)
    }
}

/// The first moment that lies within the last minute.
fn first_of_minute(now: Tick) -> Tick {
    now - MINUTE + TickDuration::from_micros(1)
}

/// Namespace and name.
fn place(metadata: &ObjectMeta) -> (&str, &str) {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    (namespace, metadata.name.as_deref().unwrap_or_default())
}

fn insert(map: &mut BTreeMap<String, BTreeSet<String>>, key: &str, name: &str) {
    map.entry(key.to_owned()).or_default().insert(name.to_owned());
}

fn remove(map: &mut BTreeMap<String, BTreeSet<String>>, key: &str, name: &str) {
    if let Some(names) = map.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            map.remove(key);
        }
    }
}
