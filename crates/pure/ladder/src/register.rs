//! What all ledgers and requests say of restarts, kept in the order in which a decision asks for
//! it, so that none of them walks over all ledgers. The driver tells of every change of a
//! RestartLedger and a PodRestart; what is kept is always what would be made anew from all of them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{PodRestart, RestartLedger, Rung};

use crate::budget::{self, GIVEN_UP_AFTER, MINUTE};
use crate::recency::{bounds, within};
use crate::stage::RequestStage;
use crate::{LimitUsage, Occupancy};

/// A decision that is being written and that no ledger shows yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingDecision {
    /// The namespace of the pod.
    pub namespace: String,
    /// The pod.
    pub pod_name: String,
    /// When it was taken.
    pub at: Tick,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct BudgetApplicant<'a> {
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
pub struct LedgerRegister {
    namespaces: BTreeMap<String, NamespaceRegister>,
    /// When restarts above Container were decided, in all namespaces: the ledger, and which of its
    /// restarts.
    decided: BTreeSet<(Tick, String, String, usize)>,
    /// When requests went on after they were held back, in all namespaces: namespace and name.
    went_on: BTreeSet<(Tick, String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NamespaceRegister {
    ledgers: BTreeMap<String, RegisteredLedger>,
    /// Requests that are not finished, and those that are.
    open: BTreeMap<String, RegisteredRequest>,
    finished: BTreeMap<String, RegisteredRequest>,
    /// As in the register, of this namespace.
    decided: BTreeSet<(Tick, String, usize)>,
    went_on: BTreeSet<(Tick, String)>,
    /// Ledgers by the name of their pod, and by its UID.
    ledgers_of: BTreeMap<String, BTreeSet<String>>,
    ledgers_by_uid: BTreeMap<String, BTreeSet<String>>,
    /// Ledgers with a restart that is decided and was not seen, and those with a rung that is held
    /// back.
    pending: BTreeSet<String>,
    held: BTreeSet<String>,
    /// Requests by the name of their pod.
    requests_of: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RegisteredLedger {
    pod_name: String,
    pod_uid: String,
    ladder: String,
    owners: Vec<String>,
    /// Attempts above Container.
    decided: Vec<Tick>,
    /// The restart that is decided and was not seen.
    pending: Option<String>,
    /// The rung that is held back.
    held: Option<Rung>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RegisteredRequest {
    pod_name: String,
    ladder: Option<String>,
    stage: RequestStage,
    new_pod_name: Option<String>,
    new_pod_uid: Option<String>,
}

impl LedgerRegister {
    /// A ledger is new, or is so now.
    pub fn put_ledger(&mut self, ledger: &RestartLedger) {
        let (namespace, name) = place(&ledger.metadata);
        self.set_ledger(namespace, name, Some(RegisteredLedger::from_ledger(ledger)));
    }

    /// A ledger is gone.
    pub fn remove_ledger(&mut self, namespace: &str, name: &str) {
        self.set_ledger(namespace, name, None);
        self.forget_empty(namespace);
    }

    /// Touches what differs only: of most changes of a ledger that is nothing.
    fn set_ledger(&mut self, namespace: &str, name: &str, new: Option<RegisteredLedger>) {
        if !self.namespaces.contains_key(namespace) {
            self.namespaces.insert(namespace.to_owned(), NamespaceRegister::default());
        }
        let Some(of) = self.namespaces.get_mut(namespace) else { return };
        if of.ledgers.get(name) == new.as_ref() {
            return;
        }
        let old = of.ledgers.remove(name);
        let (was, is) = (old.as_ref(), new.as_ref());
        let decided =
            |ledger: Option<&RegisteredLedger>, number| ledger?.decided.get(number).copied();
        let count = [was, is].into_iter().flatten().map(|ledger| ledger.decided.len()).max();
        for number in 0..count.unwrap_or(0) {
            let (was, is) = (decided(was, number), decided(is, number));
            if let Some(at) = was.filter(|_| was != is) {
                of.decided.remove(&(at, name.to_owned(), number));
                self.decided.remove(&(at, namespace.to_owned(), name.to_owned(), number));
            }
            if let Some(at) = is.filter(|_| was != is) {
                of.decided.insert((at, name.to_owned(), number));
                self.decided.insert((at, namespace.to_owned(), name.to_owned(), number));
            }
        }
        file(&mut of.ledgers_of, name, was.map(|l| &l.pod_name), is.map(|l| &l.pod_name));
        file(&mut of.ledgers_by_uid, name, was.map(|l| &l.pod_uid), is.map(|l| &l.pod_uid));
        mark(&mut of.pending, name, is.is_some_and(|ledger| ledger.pending.is_some()));
        mark(&mut of.held, name, is.is_some_and(|ledger| ledger.held.is_some()));
        of.ledgers.extend(new.map(|new| (name.to_owned(), new)));
    }

    /// A request is new, or is so now.
    pub fn put_restart(&mut self, restart: &PodRestart) {
        let (namespace, name) = place(&restart.metadata);
        self.remove_restart(namespace, name);
        let status = restart.status.as_ref();
        let replacement = status.and_then(|status| status.replacement.as_ref());
        let kept = RegisteredRequest {
            pod_name: restart.subject().to_owned(),
            ladder: restart.spec.ladder_name.clone(),
            stage: RequestStage::from_restart(restart),
            new_pod_name: budget::new_pod_of(restart).cloned(),
            new_pod_uid: replacement.and_then(|replacement| replacement.new_pod_uid.clone()),
        };
        let of = self.namespaces.entry(namespace.to_owned()).or_default();
        file(&mut of.requests_of, name, None, Some(&kept.pod_name));
        if let Some(at) = kept.stage.went_on_at() {
            of.went_on.insert((at, name.to_owned()));
            self.went_on.insert((at, namespace.to_owned(), name.to_owned()));
        }
        let is_finished = status.and_then(|status| status.phase).is_some_and(|p| p.is_final());
        let requests = if is_finished { &mut of.finished } else { &mut of.open };
        requests.insert(name.to_owned(), kept);
    }

    /// A request is gone.
    pub fn remove_restart(&mut self, namespace: &str, name: &str) {
        let Some(of) = self.namespaces.get_mut(namespace) else { return };
        let kept = of.open.remove(name).or_else(|| of.finished.remove(name));
        let Some(kept) = kept else { return };
        file(&mut of.requests_of, name, Some(&kept.pod_name), None);
        if let Some(at) = kept.stage.went_on_at() {
            of.went_on.remove(&(at, name.to_owned()));
            self.went_on.remove(&(at, namespace.to_owned(), name.to_owned()));
        }
        self.forget_empty(namespace);
    }

    fn forget_empty(&mut self, namespace: &str) {
        let of = self.namespaces.get(namespace);
        if of.is_some_and(|of| of.is_empty()) {
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

    /// The requests of a namespace that a disruption budget or the lack of a node holds back.
    pub fn held_requests(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let open = self.namespaces.get(namespace).into_iter().flat_map(|of| &of.open);
        open.filter(|(_, request)| request.stage == RequestStage::Held)
            .map(|(name, _)| name.as_str())
    }

    /// What restarts of other pods take of the limits over all ladders. `granted` are decisions
    /// that are being written: those that no ledger shows yet are taken, too.
    pub fn crowd(
        &self,
        now: Tick,
        asker: &BudgetApplicant<'_>,
        granted: &[PendingDecision],
    ) -> LimitUsage {
        let mut crowd = LimitUsage::default();
        let of = self.namespaces.get(asker.namespace);
        let own = of.and_then(|of| of.ledgers_by_uid.get(asker.pod_uid));
        let is_own = |name: &String| own.is_some_and(|own| own.contains(name));
        let (first, last) = bounds(now, MINUTE);
        let decided = self.decided.range((first, String::new(), String::new(), 0)..);
        for (at, namespace, name, _) in decided.take_while(|(at, ..)| *at <= last) {
            let at = now.min(*at);
            if namespace == asker.namespace {
                if is_own(name) {
                    continue;
                }
                crowd.namespace.push(at);
            }
            crowd.cluster.push(at);
        }
        let went_on = self.went_on.range((first, String::new(), String::new())..);
        for (at, namespace, _) in went_on.take_while(|(at, ..)| *at <= last) {
            let at = now.min(*at);
            if namespace == asker.namespace {
                crowd.namespace.push(at);
            }
            crowd.cluster.push(at);
        }
        if let (Some(of), Some(controller)) = (of, asker.controller) {
            crowd.workload = of.under_way(now, controller, asker.pod_uid);
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

    fn shows(&self, granted: &PendingDecision) -> bool {
        let of = self.namespaces.get(&granted.namespace);
        let mut ledgers = self.ledgers_of(&granted.namespace, &granted.pod_name);
        ledgers.any(|name| {
            let ledger = of.and_then(|of| of.ledgers.get(name));
            ledger.is_some_and(|ledger| ledger.decided.contains(&granted.at))
        }) || self.shows_that_it_went_on(granted)
    }

    /// A request says in whole seconds when it went on.
    fn shows_that_it_went_on(&self, granted: &PendingDecision) -> bool {
        let at = granted.at.whole_second();
        let of = self.namespaces.get(&granted.namespace);
        let mut requests = self.restarts_of(&granted.namespace, &granted.pod_name);
        requests.any(|name| of.is_some_and(|of| of.went_on.contains(&(at, name.to_owned()))))
    }

    /// What the other pods of the asker's ladder take of its budget: those with restarts that are
    /// open, and decisions of the last minute. Ledgers are written before requests, so a restart
    /// that is decided and not seen yet counts too.
    pub fn occupancy(&self, now: Tick, asker: &BudgetApplicant<'_>) -> Occupancy {
        let mut occupancy = Occupancy::default();
        let Some(of) = self.namespaces.get(asker.namespace) else { return occupancy };
        let mut pods = budget::Pods::default();
        for request in of.open.values().filter(|request| of.is_others(request, asker)) {
            request.since(now).into_iter().for_each(|since| pods.note(request.pod(), since));
        }
        let (first, last) = bounds(now, MINUTE);
        let decided = of.decided.range((first, String::new(), 0)..);
        for (at, name, _) in decided.take_while(|(at, ..)| *at <= last) {
            if of.ledgers.get(name).is_some_and(|ledger| ledger.is_others(asker)) {
                occupancy.decided.push(now.min(*at));
            }
        }
        let went_on = of.went_on.range((first, String::new())..);
        for (at, name) in went_on.take_while(|(at, _)| *at <= last) {
            let request = of.open.get(name).or_else(|| of.finished.get(name));
            if request.is_some_and(|request| of.is_others(request, asker)) {
                occupancy.decided.push(now.min(*at));
            }
        }
        occupancy.decided.sort_unstable();
        for ledger in of.pending.iter().filter_map(|name| of.ledgers.get(name)) {
            let is_seen = of.pending(ledger).is_some_and(|request| of.is_others(request, asker));
            if ledger.is_others(asker) && !is_seen {
                let since = ledger.pending_since(now);
                since.into_iter().for_each(|since| pods.note(&ledger.pod_name, since));
            }
        }
        occupancy.under_way = pods.since();
        occupancy
    }
}

impl NamespaceRegister {
    fn is_empty(&self) -> bool {
        self.ledgers.is_empty() && self.open.is_empty() && self.finished.is_empty()
    }

    /// The request that a ledger waits to see.
    fn pending(&self, ledger: &RegisteredLedger) -> Option<&RegisteredRequest> {
        let name = ledger.pending.as_ref()?;
        self.open.get(name).or_else(|| self.finished.get(name))
    }

    /// Since when restarts of a controller's pods other than this one are under way, for each of
    /// them: one that is open, or decided.
    fn under_way(&self, now: Tick, controller: &str, pod_uid: &str) -> Vec<Tick> {
        let others = |name: &str| {
            let ledger = self.ledgers.get(name)?;
            let is_of_controller = ledger.owners.iter().any(|owner| owner == controller);
            (is_of_controller && ledger.pod_uid != pod_uid).then_some(ledger)
        };
        let mut pods = budget::Pods::default(); // by their ledgers
        for request in self.open.values() {
            let new_pod = request.new_pod_uid.as_ref();
            let concerned = self.ledgers_of.get(&request.pod_name).into_iter().flatten();
            let concerned = concerned
                .chain(new_pod.and_then(|uid| self.ledgers_by_uid.get(uid)).into_iter().flatten());
            for name in concerned.filter(|name| others(name).is_some()) {
                request.since(now).into_iter().for_each(|at| pods.note(name, at));
            }
        }
        for (name, ledger) in self.pending.iter().filter_map(|name| Some((name, others(name)?))) {
            if !self.pending(ledger).is_some_and(|request| request.concerns(ledger)) {
                ledger.pending_since(now).into_iter().for_each(|at| pods.note(name, at));
            }
        }
        pods.since()
    }

    /// Whether a request takes of the budget of the asker's ladder: of that ladder, or of one of
    /// its pods, and not of the asker.
    fn is_others(&self, request: &RegisteredRequest, asker: &BudgetApplicant<'_>) -> bool {
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

impl RegisteredLedger {
    fn from_ledger(ledger: &RestartLedger) -> Self {
        let status = ledger.status.as_ref();
        let owners = ledger.metadata.owner_references.iter().flatten();
        Self {
            pod_name: ledger.spec.pod_name.clone(),
            pod_uid: ledger.spec.pod_uid.clone(),
            ladder: ledger.spec.ladder_name.clone(),
            owners: owners.map(|owner| owner.uid.clone()).collect(),
            decided: status.map(budget::decided).unwrap_or_default(),
            pending: status.and_then(|status| status.pending_restart.clone()),
            held: status.and_then(|status| status.held_rung),
        }
    }

    fn is_others(&self, asker: &BudgetApplicant<'_>) -> bool {
        self.ladder == asker.ladder && self.pod_name != asker.pod_name
    }

    /// Since when its restart is decided and not seen, unless that is given up.
    fn pending_since(&self, now: Tick) -> Option<Tick> {
        self.pending.as_ref()?;
        let since = self.decided.iter().max().copied().unwrap_or(now);
        within(now, since, GIVEN_UP_AFTER)
    }
}

impl RegisteredRequest {
    /// The pod that it is at.
    fn pod(&self) -> &str {
        self.new_pod_name.as_ref().unwrap_or(&self.pod_name)
    }

    fn concerns(&self, ledger: &RegisteredLedger) -> bool {
        self.pod_name == ledger.pod_name || self.new_pod_uid.as_ref() == Some(&ledger.pod_uid)
    }

    fn since(&self, now: Tick) -> Option<Tick> {
        within(now, self.stage.takes_room_since(now)?, GIVEN_UP_AFTER)
    }
}

/// Namespace and name.
fn place(metadata: &ObjectMeta) -> (&str, &str) {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    (namespace, metadata.name.as_deref().unwrap_or_default())
}

/// Files a name under another key than before.
fn file(
    map: &mut BTreeMap<String, BTreeSet<String>>,
    name: &str,
    before: Option<&String>,
    now: Option<&String>,
) {
    if before == now {
        return;
    }
    if let Some((key, names)) = before.and_then(|key| Some((key, map.get_mut(key)?))) {
        names.remove(name);
        if names.is_empty() {
            map.remove(key);
        }
    }
    if let Some(key) = now {
        map.entry(key.to_owned()).or_default().insert(name.to_owned());
    }
}

/// Has a name in a set, or not.
fn mark(set: &mut BTreeSet<String>, name: &str, is_in: bool) {
    if !is_in {
        set.remove(name);
    } else if !set.contains(name) {
        set.insert(name.to_owned());
    }
}
