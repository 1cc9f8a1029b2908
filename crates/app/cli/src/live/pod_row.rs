//! A row of the table: a pod, or several pods of one controller that all show the same.

use std::collections::BTreeMap;

use rekindle_diagnosis::{WaitFamily, WaitingReason};
use rekindle_types::span;
use rekindle_types::v1alpha1::{HoldReason, LedgerPhase, RestartLedgerStatus};

/// The headings.
pub const HEADINGS: [&str; 7] = ["POD", "READY", "STATUS", "RESTARTS", "RUNG", "NEXT", "WHY"];

/// A column's place in a row.
pub const POD: usize = 0;
pub const READY: usize = 1;
pub const STATUS: usize = 2;
pub const RESTARTS: usize = 3;
pub const RUNG: usize = 4;
pub const NEXT: usize = 5;
pub const WHY: usize = 6;

/// What a pod does now, as a table shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRow {
    pub cells: [String; 7],
    pub health: RowHealth,
    /// The name of the controller, with the namespace if that is not `default`, and its kind; none
    /// of a bare pod.
    pub owner: Option<(String, String)>,
    /// Until when NEXT counts, in seconds from now.
    pub next_in_secs: Option<u64>,
}

/// By what a row is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowHealth {
    /// It runs and is ready, or has succeeded.
    Good,
    /// It starts, ends, or is about to be restarted.
    Changing,
    /// It fails, and nothing that is under way will help by itself.
    Failing,
}

/// What a pod's STATUS says, beside its containers' waits, while it starts or ends as it should.
/// Any other than these and those that are well is a failure.
const CHANGING: [&str; 4] = ["Pending", "Terminating", "SchedulingGated", "NotReady"];

impl RowHealth {
    /// Of a pod that shows this, beside what its ledger says.
    pub fn new(ready: &str, status: &str, ledger: Option<&RestartLedgerStatus>) -> Self {
        let is_ready = ready.split_once('/').is_some_and(|(ready, all)| ready == all && all != "0");
        let is_given_up = ledger.is_some_and(|ledger| {
            ledger.phase == Some(LedgerPhase::Exhausted)
                || matches!(ledger.held_by, Some(HoldReason::Futile | HoldReason::Revision))
        });
        // `Init:0/2` goes on, `Init:Error` does not
        let initializes = status.strip_prefix("Init:").is_some_and(|init| init.contains('/'));
        match status {
            "Completed" | "Succeeded" => Self::Good,
            "Running" if is_ready => Self::Good,
            _ if is_given_up => Self::Failing,
            "Running" => Self::Changing,
            status if initializes || CHANGING.contains(&status) => Self::Changing,
            status => match WaitingReason::parse(status).family() {
                WaitFamily::OnItsWay => Self::Changing,
                WaitFamily::AfterFailure
                | WaitFamily::Image
                | WaitFamily::Configuration
                | WaitFamily::Creation
                | WaitFamily::Run
                | WaitFamily::Sandbox
                | WaitFamily::Predecessor
                | WaitFamily::Unknown => Self::Failing,
            },
        }
    }
}

/// What pods of one row share: their controller, what they show, and why, less its times.
type GroupKey = ((String, String), [String; 3], Vec<String>);

/// Pods of one controller that show the same become one row: `web-5d4f (3 pods)`, in the place of
/// the first of them.
pub fn grouped(rows: Vec<PodRow>) -> Vec<PodRow> {
    let mut groups: Vec<(PodRow, usize)> = Vec::new();
    let mut places: BTreeMap<GroupKey, usize> = BTreeMap::new();
    for row in rows {
        let place = row.group_key().map(|key| *places.entry(key).or_insert(groups.len()));
        match place.and_then(|place| groups.get_mut(place)) {
            Some((first, count)) => {
                first.take_in(row);
                *count += 1;
            }
            None => groups.push((row, 1)),
        }
    }
    groups.into_iter().map(|(row, count)| row.named_for(count)).collect()
}

impl PodRow {
    /// None of a bare pod, which stands alone.
    fn group_key(&self) -> Option<GroupKey> {
        let shown = [READY, STATUS, RUNG].map(|column| self.cells[column].clone());
        let why = timeless(&self.cells[WHY]).map(str::to_owned).collect();
        Some((self.owner.clone()?, shown, why))
    }

    /// The next thing to happen is the first of all.
    fn take_in(&mut self, other: Self) {
        let (own, others) = (restarts(&self.cells), restarts(&other.cells));
        if own != others {
            let span =
                span_of(own).0.min(span_of(others).0)..=span_of(own).1.max(span_of(others).1);
            self.cells[RESTARTS] = format!("{}-{}", span.start(), span.end());
        }
        let is_sooner = match (other.next_in_secs, self.next_in_secs) {
            (Some(other), Some(own)) => other < own,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_sooner {
            self.cells[NEXT].clone_from(&other.cells[NEXT]);
            self.next_in_secs = other.next_in_secs;
        }
        self.health = self.health.max(other.health);
    }

    fn named_for(mut self, pods: usize) -> Self {
        if let Some((name, _)) = self.owner.as_ref().filter(|_| pods > 1) {
            self.cells[POD] = format!("{name} ({pods} pods)");
        }
        self
    }

    /// Whether two rows differ at most in what changes by itself as time passes: how long ago, and
    /// in how long.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let steady = [POD, READY, STATUS, RUNG, WHY];
        steady.into_iter().all(|column| self.cells[column] == other.cells[column])
            && restarts(&self.cells) == restarts(&other.cells)
    }
}

/// The number alone: `3` of `3 (10s ago)`.
pub fn restarts(cells: &[String; 7]) -> &str {
    cells[RESTARTS].split(' ').next().unwrap_or_default()
}

/// The least and the most: of `3`, or of `2-4`.
fn span_of(restarts: &str) -> (u64, u64) {
    let (least, most) = restarts.split_once('-').unwrap_or((restarts, restarts));
    let number = |text: &str| text.parse().unwrap_or_default();
    (number(least), number(most))
}

/// What pods that fail alike say alike: `in 11s` and `in 12s` are the same.
fn timeless(why: &str) -> impl Iterator<Item = &str> {
    let is_span = |word: &&str| span::parse(word.trim_end_matches([';', ','])).is_ok();
    why.split(' ').filter(move |word| !is_span(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, owner: &str, cells: [&str; 5], next_in_secs: Option<u64>) -> PodRow {
        let [status, restarts, rung, ready, why] = cells.map(str::to_owned);
        let next = next_in_secs.map_or("-".to_owned(), |secs| format!("in {secs}s"));
        let health = RowHealth::new(&ready, &status, None);
        let owner = (!owner.is_empty()).then(|| (owner.to_owned(), "ReplicaSet".to_owned()));
        let cells = [name.to_owned(), ready, status, restarts, rung, next, why];
        PodRow { cells, health, owner, next_in_secs }
    }

    fn shown(rows: Vec<PodRow>) -> Vec<String> {
        grouped(rows).into_iter().map(|row| row.cells.join(" | ")).collect()
    }

    #[test]
    fn pods_of_one_controller_that_fail_alike_are_one_row() {
        let crash = |why| ["CrashLoopBackOff", "2 (0s ago)", "Pod", "0/1", why];
        let waits = "exit 1 ×3 in 11s; whole pod next, after zw";
        let rows = vec![
            row("web-a", "web", crash(waits), Some(9)),
            row("web-b", "web", crash("exit 1 ×3 in 12s; whole pod next, after zw"), Some(7)),
            row("web-c", "web", crash("exit 2 ×3 in 11s; whole pod next, after zw"), Some(5)),
            row("web-d", "web", ["Running", "3 (0s ago)", "Pod", "1/1", waits], None),
            row("api-a", "api", crash(waits), Some(3)),
            row("alone", "", crash(waits), None),
            row("alone-too", "", crash(waits), None),
        ];
        assert_eq!(
            shown(rows),
            [
                "web (2 pods) | 0/1 | CrashLoopBackOff | 2 (0s ago) | Pod | in 7s | exit 1 ×3 in 11s; whole pod next, after zw",
                "web-c | 0/1 | CrashLoopBackOff | 2 (0s ago) | Pod | in 5s | exit 2 ×3 in 11s; whole pod next, after zw",
                "web-d | 1/1 | Running | 3 (0s ago) | Pod | - | exit 1 ×3 in 11s; whole pod next, after zw",
                "api-a | 0/1 | CrashLoopBackOff | 2 (0s ago) | Pod | in 3s | exit 1 ×3 in 11s; whole pod next, after zw",
                "alone | 0/1 | CrashLoopBackOff | 2 (0s ago) | Pod | - | exit 1 ×3 in 11s; whole pod next, after zw",
                "alone-too | 0/1 | CrashLoopBackOff | 2 (0s ago) | Pod | - | exit 1 ×3 in 11s; whole pod next, after zw",
            ]
        );
    }

    #[test]
    fn a_group_shows_from_how_many_to_how_many_restarts() {
        let with = |restarts| ["Running", restarts, "-", "1/1", ""];
        let rows = ["4 (1s ago)", "2", "3 (9s ago)"]
            .map(|restarts| row("web-x", "shop/web", with(restarts), None));
        assert_eq!(shown(rows.to_vec()), ["shop/web (3 pods) | 1/1 | Running | 2-4 | - | - | "]);
    }

    #[test]
    fn a_row_is_coloured_by_what_the_pod_and_its_ledger_say() {
        use RowHealth::{Changing, Failing, Good};
        let ledger = |phase, held_by| {
            Some(RestartLedgerStatus { phase: Some(phase), held_by, ..Default::default() })
        };
        for (ready, status, ledger, health) in [
            ("1/1", "Running", None, Good),
            ("1/1", "Running", ledger(LedgerPhase::Exhausted, None), Good),
            ("0/1", "Completed", None, Good),
            ("0/1", "Running", None, Changing),
            ("0/1", "ContainerCreating", None, Changing),
            ("0/1", "RestartingAllContainers", None, Changing),
            ("0/1", "ImagePullBackOff", None, Failing),
            ("0/2", "Init:0/2", None, Changing),
            ("0/2", "Init:Error", None, Failing),
            ("0/1", "CrashLoopBackOff", None, Failing),
            ("0/1", "OOMKilled", None, Failing),
            ("0/1", "Running", ledger(LedgerPhase::Exhausted, None), Failing),
            ("0/1", "Pending", ledger(LedgerPhase::Holding, Some(HoldReason::Futile)), Failing),
            ("0/1", "Pending", ledger(LedgerPhase::Holding, Some(HoldReason::Trial)), Changing),
        ] {
            assert_eq!(RowHealth::new(ready, status, ledger.as_ref()), health, "{ready} {status}");
        }
    }
}
