//! Disruption budgets (P5): an eviction that is granted leaves as many healthy pods as its budget
//! wants. What went wrong by itself since the budget's controller counted last is nobody's fault:
//! upstream's budgets, too, are as old as their status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use rekindle_controllers::{
    ControllerKey, NamespacedName, ObjectId, ResourceKind, ViewObject, WriteOperation,
};
use rekindle_kinds::validation::selector;
use rekindle_ladder::{LadderPolicy, Occupancy};
use rekindle_reconcile::WorkItem;
use rekindle_store::Revision;
use rekindle_types::pods::is_ready;
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, RestartLedger, Rung};
use rekindle_types::{Tick, TickDuration};

use super::World;

const MINUTE: TickDuration = TickDuration::from_secs(60);

/// What the controller of each budget has counted, and which pods were evicted.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    counted: BTreeMap<NamespacedName, BudgetObservation>,
    /// What the controllers had heard when they began what they do now.
    begun: Revision,
    /// The same of what the controller of each budget did last.
    begun_for: BTreeMap<NamespacedName, Revision>,
    /// By UID.
    evicted: BTreeSet<String>,
    decided: RestartDecisionTimes,
    /// Of each ladder, the most that any version of it so far allows: which of them is known to who
    /// decides is not.
    allowed: BTreeMap<NamespacedName, BudgetAllowance>,
}

/// What a ladder's own budget allows; None is without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BudgetAllowance {
    concurrent: Option<u32>,
    per_minute: Option<u32>,
}

impl BudgetAllowance {
    const fn from_policy(policy: &LadderPolicy) -> Self {
        Self { concurrent: policy.max_concurrent, per_minute: policy.per_minute }
    }

    fn or(self, other: Self) -> Self {
        let most = |one: Option<u32>, other: Option<u32>| Some(one?.max(other?));
        Self {
            concurrent: most(self.concurrent, other.concurrent),
            per_minute: most(self.per_minute, other.per_minute),
        }
    }
}

/// Restarts above Container that a ladder decided on within the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RecentRestarts {
    count: usize,
    /// Of all, those that were not known yet.
    new: usize,
}

/// When ladders decided on restarts, by the requests' names: true time, as their ledgers were first
/// seen to say so.
#[derive(Debug, Default)]
struct RestartDecisionTimes(BTreeMap<NamespacedName, Tick>);

#[derive(Debug)]
struct BudgetObservation {
    counts: BudgetCounts,
    /// When its controller wrote that.
    written: Revision,
    /// What it had heard when it began to count.
    heard: Revision,
}

/// What a budget's controller writes, and an eviction does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BudgetCounts {
    healthy: i32,
    desired: i32,
    expected: i32,
    generation: i64,
}

impl RestartDecisionTimes {
    /// How many restarts above Container were decided within the last minute, by the ladders' clock
    /// and by the true one: after the first was set back, decisions of many minutes are told as of
    /// one.
    fn lately<'a>(
        &mut self,
        truly: Tick,
        now: Tick,
        ledgers: impl Iterator<Item = &'a RestartLedger>,
    ) -> RecentRestarts {
        let mut lately = RecentRestarts::default();
        for ledger in ledgers {
            let namespace = ledger.metadata.namespace.as_deref().unwrap_or_default();
            let asked = ledger.status.iter().flat_map(|status| status.asked());
            for decision in asked.filter(|asked| asked.rung > Some(Rung::Container)) {
                let request = decision.pod_restart.as_deref().unwrap_or_default();
                let request = NamespacedName::new(namespace, request);
                let since = truly.since(*self.0.entry(request).or_insert_with(|| {
                    lately.new += 1;
                    truly
                }));
                let at = Tick::from(&decision.at);
                lately.count += usize::from(since < MINUTE && at <= now && now.since(at) < MINUTE);
            }
        }
        lately
    }
}

impl BudgetCounts {
    fn from_budget(budget: &PodDisruptionBudget) -> Option<Self> {
        let status = budget.status.as_ref()?;
        Some(Self {
            healthy: status.current_healthy.unwrap_or(0),
            desired: status.desired_healthy.unwrap_or(0),
            expected: status.expected_pods.unwrap_or(0),
            generation: status.observed_generation.unwrap_or(0),
        })
    }
}

/// Whether that is looked at which takes its time where there are many pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckCoverage {
    Nothing,
    /// The budgets of ladders after each write of theirs, the names of pods at each step of one,
    /// and what anybody is told.
    Everything,
}

impl Budgets {
    /// The controllers begin what is due, and have heard so much.
    pub(super) const fn begin(&mut self, heard: Revision) {
        self.begun = heard;
    }

    /// Something is written for this.
    pub(super) fn note_write(&mut self, work: &WorkItem) {
        if let WorkItem::Controller(ControllerKey::Disruption(name)) = work {
            self.begun_for.insert(name.clone(), self.begun);
        }
    }
}

impl World {
    /// From now on everything is looked at.
    pub(super) fn watch_closely(&mut self) {
        self.watched = CheckCoverage::Everything;
        self.server.remember_what_is_told();
    }

    /// A ladder is shown by the watch.
    pub(super) fn note_ladder(&mut self, ladder: &RestartLadder) {
        let Ok(policy) = LadderPolicy::from_ladder(ladder) else { return };
        let allowed = BudgetAllowance::from_policy(&policy);
        let known = self.budgets.allowed.entry(NamespacedName::from_meta(&ladder.metadata));
        known.and_modify(|known| *known = known.or(allowed)).or_insert(allowed);
    }

    /// A ladder has written: with what it has just decided on no more of its restarts may be under
    /// way, and no more may have been decided within a minute, than its budget allows. What it took
    /// over from another ladder, or began when it had another budget, it did not decide on now.
    /// Those that went on after they were held back are left out: they were decided when they were.
    pub(super) fn check_ladders(&mut self) {
        if self.watched == CheckCoverage::Nothing {
            return;
        }
        let (now, restarts) = (self.desk_now(), self.server.restarts());
        let mut known = std::mem::take(&mut self.budgets.decided);
        for object in self.server.list(ResourceKind::RestartLadder) {
            let ViewObject::RestartLadder(ladder) = &object else { continue };
            let Ok(policy) = LadderPolicy::from_ladder(ladder) else { continue };
            let ledgers: Vec<_> =
                self.server.list(ResourceKind::RestartLedger).into_iter().collect();
            let ledgers = ledgers.iter().filter_map(|ledger| match ledger {
                ViewObject::RestartLedger(ledger) => Some(ledger.as_ref()),
                _ => None,
            });
            let ledgers: Vec<&RestartLedger> = ledgers
                .filter(|ledger| {
                    ledger.metadata.namespace == ladder.metadata.namespace
                        && Some(&ledger.spec.ladder_name) == ladder.metadata.name.as_ref()
                })
                .collect();
            let of_ladder = restarts.iter().map(AsRef::as_ref).filter(|restart: &&PodRestart| {
                restart.metadata.namespace == ladder.metadata.namespace
                    && restart.spec.ladder_name == ladder.metadata.name
            });
            let under_way = under_way(now, &of_ladder.collect::<Vec<_>>(), &ledgers);
            let decided = known.lately(self.now, now, ledgers.iter().copied());
            if decided.new == 0 {
                continue;
            }
            let now_allowed = BudgetAllowance::from_policy(&policy);
            let allowed = self.budgets.allowed.get(&object.id().name);
            let allowed = allowed.map_or(now_allowed, |allowed| allowed.or(now_allowed));
            for (what, count, limit) in [
                ("maxConcurrent", under_way, allowed.concurrent),
                ("perMinute", decided.count, allowed.per_minute),
            ] {
                if let Some(limit) = limit.filter(|limit| u64::from(*limit) < count as u64) {
                    self.breaks(&format!(
                        "P5: {count} restarts, and {what} of {} is {limit}",
                        object.id()
                    ));
                }
            }
        }
        self.budgets.decided = known;
    }

    /// A budget is shown by the watch: its controller may have counted anew.
    pub(super) fn note_budget(&mut self, budget: &PodDisruptionBudget, written: Revision) {
        let name = NamespacedName::from_meta(&budget.metadata);
        let Some(counts) = BudgetCounts::from_budget(budget) else { return };
        if self.budgets.counted.get(&name).is_some_and(|known| known.counts == counts) {
            return;
        }
        let heard = self.budgets.begun_for.get(&name).copied().unwrap_or(written);
        self.budgets.counted.insert(name, BudgetObservation { counts, written, heard });
    }

    /// The pods that a budget's controller counted: those that were there when it wrote, or, when
    /// they are not as many, those that it had heard of when it began. In between a controller may
    /// have deleted one and got no answer. None when that is too long ago to be known.
    fn counted(
        &self,
        budget: &PodDisruptionBudget,
        counted: &BudgetObservation,
    ) -> Option<BTreeSet<String>> {
        let at = |revision| Some(healthy(budget, &self.server.pods_at(revision)?));
        let written = at(counted.written)?;
        match i32::try_from(written.len()) == Ok(counted.counts.healthy) {
            true => Some(written),
            false => at(counted.heard),
        }
    }

    /// Looks at what evictions have been granted. The pods are as they were before.
    pub(super) fn check_evictions(&mut self) {
        for pod in self.server.take_evicted() {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let is_first = self.budgets.evicted.insert(uid);
            if is_first && is_healthy(&pod) {
                self.check_eviction(&pod);
            }
        }
    }

    fn check_eviction(&mut self, pod: &Arc<Pod>) {
        for object in self.server.list(ResourceKind::PodDisruptionBudget) {
            let ViewObject::PodDisruptionBudget(budget) = &object else { continue };
            let counted = self.budgets.counted.get(&object.id().name);
            let (Some(counted), true) = (counted, covers(budget, pod)) else { continue };
            let left = healthy(budget, &self.server.pods());
            let Some(before) = self.counted(budget, counted) else { continue };
            let gone_bad = before
                .iter()
                .filter(|uid| !left.contains(*uid) && !self.budgets.evicted.contains(*uid));
            let wanted = usize::try_from(counted.counts.desired).unwrap_or(0);
            if left.len() + gone_bad.count() < wanted {
                let name = super::name_of(pod);
                let what = format!(
                    "P5: Pod {name} was evicted, and {} wants {wanted} healthy pods, of which {} are left",
                    object.id(),
                    left.len()
                );
                self.breaks(&what);
                return;
            }
        }
    }

    /// Budgets whose status is not what the pods are: at rest they must agree.
    pub(super) fn miscounted_budgets(&self) -> Vec<String> {
        let budgets = self.server.list(ResourceKind::PodDisruptionBudget);
        let wrong = budgets.iter().filter_map(|object| {
            let ViewObject::PodDisruptionBudget(budget) = object else { return None };
            let healthy = healthy(budget, &self.server.pods()).len();
            let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
            let said = BudgetCounts::from_budget(budget);
            let is_right = said.is_some_and(|said| {
                let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed);
                let left = if said.expected > 0 { (healthy - said.desired).max(0) } else { 0 };
                said.healthy == healthy && allowed.unwrap_or(0) == left
            });
            (!is_right).then(|| {
                let status = budget.status.clone().unwrap_or_default();
                let (of, allowed) =
                    (status.current_healthy.unwrap_or(0), status.disruptions_allowed.unwrap_or(0));
                format!(
                    "{} says that {of} pods are healthy and {allowed} may be disrupted, and {healthy} are healthy",
                    object.id()
                )
            })
        });
        wrong.collect()
    }
}

/// Of how many pods restarts of a ladder are under way at `now`, by its requests and its ledgers. A
/// pod and the one that took its place are one: whoever fails in the middle of a restart is
/// restarted again before the request for that is over, which takes no further replica down, and
/// the ladder lets it through (`LedgerRegister::occupancy` leaves out what is the asker's own).
fn under_way(now: Tick, restarts: &[&PodRestart], ledgers: &[&RestartLedger]) -> usize {
    let mut heirs: BTreeMap<&str, &str> = restarts
        .iter()
        .filter_map(|restart| {
            let replacement = restart.status.as_ref()?.replacement.as_ref()?;
            Some((replacement.pod_uid.as_str(), replacement.new_pod_uid.as_deref()?))
        })
        .collect();
    for ledger in ledgers {
        if let Some(replaced) = replaced_by_heir(ledger, restarts) {
            heirs.entry(replaced).or_insert(&ledger.spec.pod_uid);
        }
    }
    // each step leads to a pod that was made later
    let newest = |uid| newest(&heirs, uid);
    let asked = restarts.iter().filter_map(|restart| restarted(restart));
    let decided = ledgers.iter().map(|ledger| ledger.spec.pod_uid.as_str());
    let pods: BTreeSet<&str> = asked.chain(decided).map(newest).collect();
    let is_restarting = |pod: &&str| {
        let own = restarts
            .iter()
            .copied()
            .filter(|restart| restarted(restart).is_some_and(|uid| newest(uid) == *pod));
        let ledgers = ledgers.iter().filter(|ledger| newest(&ledger.spec.pod_uid) == *pod);
        !Occupancy::new(now, own, ledgers.copied()).under_way.is_empty()
    };
    pods.into_iter().filter(is_restarting).count()
}

/// The pod that a request is for, or the workload: its pods restart as one, so that is one restart.
fn restarted(restart: &PodRestart) -> Option<&str> {
    let workload = restart.spec.workload.as_ref().and_then(|workload| workload.uid.as_deref());
    restart.spec.pod_uid.as_deref().or(workload)
}

/// The pod whose restart a ledger waits for, if it is another's by now: the pod that took the place
/// of the first one inherits its ledger as soon as it is there, and the request may tell of it
/// later, or not before a write of it that was refused is tried again.
fn replaced_by_heir<'a>(ledger: &RestartLedger, restarts: &[&'a PodRestart]) -> Option<&'a str> {
    let pending = ledger.status.as_ref()?.pending_restart.as_deref()?;
    let is_pending = |restart: &&&PodRestart| restart.metadata.name.as_deref() == Some(pending);
    let replaced = restarts.iter().find(is_pending)?.spec.pod_uid.as_deref()?;
    (replaced != ledger.spec.pod_uid).then_some(replaced)
}

/// The pod that has this one's place now.
fn newest<'a>(heirs: &BTreeMap<&'a str, &'a str>, uid: &'a str) -> &'a str {
    heirs.get(uid).map_or(uid, |heir| newest(heirs, heir))
}

/// The pod that this write deletes for a rung. Rungs are to ask for evictions, and budgets hold
/// whatever they ask for.
pub(super) fn ended_by_rung<'a>(
    work: &WorkItem,
    write: &'a WriteOperation,
) -> Option<&'a ObjectId> {
    match (work, write) {
        (
            WorkItem::Climb(_) | WorkItem::Controller(ControllerKey::PodRestart(_)),
            WriteOperation::Delete(delete),
        ) if delete.id.kind == ResourceKind::Pod => Some(&delete.id),
        _ => None,
    }
}

/// The UIDs of the healthy pods that a budget covers.
fn healthy(budget: &PodDisruptionBudget, pods: &[Arc<Pod>]) -> BTreeSet<String> {
    let healthy = pods.iter().filter(|pod| covers(budget, pod) && is_healthy(pod));
    healthy.filter_map(|pod| pod.metadata.uid.clone()).collect()
}

fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    budget.metadata.namespace == pod.metadata.namespace
        && selector
            .is_some_and(|selector| selector::matches(selector, pod.metadata.labels.as_ref()))
}

fn is_healthy(pod: &Pod) -> bool {
    is_ready(pod) && pod.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use rekindle_types::v1alpha1::{
        LedgerDecision, PodReplacement, PodRestartPhase, PodRestartStatus, ReplacementStep,
        RestartLedgerSpec, RestartLedgerStatus,
    };

    use super::*;

    const NOW: Tick = Tick::from_secs(1_000);

    /// A request for this pod, whose place this one has taken.
    fn request(pod: &str, new_pod: Option<&str>) -> PodRestart {
        let mut request = PodRestart::default();
        request.metadata.name = Some(format!("{pod}-recreate"));
        request.metadata.creation_timestamp = Some(NOW.to_time());
        request.spec.pod_uid = Some(pod.to_owned());
        let step = ReplacementStep::Starting;
        let replacement = new_pod.map(|new_pod| PodReplacement {
            new_pod_name: Some(new_pod.to_owned()),
            new_pod_uid: Some(new_pod.to_owned()),
            ..PodReplacement::new(step, NOW.to_time(), pod.to_owned(), "node-0".to_owned())
        });
        request.status = Some(PodRestartStatus {
            phase: Some(PodRestartPhase::Running),
            replacement,
            ..PodRestartStatus::default()
        });
        request
    }

    /// The ledger of a pod, whose restart is decided and not seen yet.
    fn decided(pod: &str) -> RestartLedger {
        let spec = RestartLedgerSpec { pod_uid: pod.to_owned(), ..RestartLedgerSpec::default() };
        let pending_restart = Some(format!("{pod}-recreate"));
        let status = RestartLedgerStatus { pending_restart, ..RestartLedgerStatus::default() };
        RestartLedger { spec, status: Some(status), ..RestartLedger::default() }
    }

    #[test]
    fn restarts_of_many_minutes_are_not_those_of_one_when_the_clock_was_set_back() {
        let decided = |at: &[u64]| -> RestartLedger {
            let decisions = at.iter().enumerate().map(|(number, at)| LedgerDecision {
                at: Tick::from_secs(*at).to_micro_time(),
                first_at: None,
                rung: Some(Rung::Pod),
                reason: "it failed".to_owned(),
                count: 1,
                pod_restart: Some(format!("web-pod-{number}")),
                outcome: None,
            });
            let decisions = Some(decisions.collect());
            let status = RestartLedgerStatus { decisions, ..RestartLedgerStatus::default() };
            RestartLedger { status: Some(status), ..RestartLedger::default() }
        };
        let mut known = RestartDecisionTimes::default();
        let mut lately = |truly: u64, now: u64, at: &[u64]| {
            known.lately(Tick::from_secs(truly), Tick::from_secs(now), [decided(at)].iter()).count
        };
        assert_eq!(lately(1_000, 1_000, &[1_000]), 1);
        assert_eq!(lately(1_050, 1_050, &[1_000, 1_050]), 2);
        assert_eq!(lately(1_061, 1_061, &[1_000, 1_050, 1_061]), 2);
        assert_eq!(lately(1_061, 400, &[400, 400, 400]), 2, "all are told as of now");
        assert_eq!(lately(1_062, 2_000, &[1_000, 1_050, 1_061]), 0, "set forth");
    }

    #[test]
    fn an_heir_that_its_request_does_not_tell_of_yet_counts_with_the_pod_it_replaces() {
        let request = request("a", None);
        let mut inherited = decided("b");
        inherited.status.get_or_insert_default().pending_restart.clone_from(&request.metadata.name);
        assert_eq!(under_way(NOW, &[&request], &[&inherited]), 1, "inherited");
        assert_eq!(under_way(NOW, &[&request], &[&inherited, &decided("c")]), 2, "another pod");
        assert_eq!(under_way(NOW, &[&request], &[&decided("b")]), 2, "another request");
    }

    #[test]
    fn a_pod_that_is_restarted_again_before_that_is_over_counts_once() {
        let (first, second, other) = (request("a", Some("b")), request("b", None), decided("c"));
        assert_eq!(under_way(NOW, &[&first], &[&decided("b")]), 1, "decided");
        assert_eq!(under_way(NOW, &[&first, &second], &[&decided("b")]), 1, "asked for");
        assert_eq!(under_way(NOW, &[&second, &second], &[]), 1, "in place");
        assert_eq!(under_way(NOW, &[&first, &second], &[&other]), 2, "another pod");
        assert_eq!(under_way(NOW, &[&first, &request("c", None)], &[]), 2, "another pod");
    }
}
