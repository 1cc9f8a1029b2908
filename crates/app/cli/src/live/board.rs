//! What is shown: pods beside what their ledgers say.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use rekindle_kinds::pod::PodSummary;
use rekindle_types::owners::controller_of;
use rekindle_types::v1alpha1::{LedgerPhase, RestartLedger};
use rekindle_types::{Tick, TickDuration, span};

use super::pod_row::{PodRow, RowHealth};

/// Times count by the second, by the minute, or by the hour, the older the coarser.
const COUNTED_AFTER: [u64; 3] = [1, 60, 3600];

/// Namespace and name of an object.
type Key = (String, String);

/// What rows say of a pod. There may be ten thousand: whole pods would take 20 KiB each.
struct BoardPod {
    uid: Option<String>,
    owner: Option<OwnerReference>,
    summary: PodSummary,
}

/// The pods and the ledgers as last seen.
#[derive(Default)]
pub struct Board {
    pods: BTreeMap<Key, BoardPod>,
    /// By their own names: a ledger that goes on with another pod is the same one.
    ledgers: BTreeMap<Key, RestartLedger>,
}

impl Board {
    /// A pod was added or changed.
    pub fn put_pod(&mut self, pod: &Pod) {
        let shown = BoardPod {
            uid: pod.uid(),
            owner: controller_of(&pod.metadata).cloned(),
            summary: PodSummary::new(pod),
        };
        self.pods.insert((pod.namespace().unwrap_or_default(), pod.name_any()), shown);
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, pod: &Pod) {
        self.pods.remove(&(pod.namespace().unwrap_or_default(), pod.name_any()));
    }

    /// A new list of pods follows.
    pub fn clear_pods(&mut self) {
        self.pods.clear();
    }

    /// A ledger was added or changed.
    pub fn put_ledger(&mut self, ledger: RestartLedger) {
        self.ledgers.insert(Self::ledger_key(&ledger), ledger);
    }

    /// A ledger is gone.
    pub fn remove_ledger(&mut self, ledger: &RestartLedger) {
        self.ledgers.remove(&Self::ledger_key(ledger));
    }

    /// A new list of ledgers follows.
    pub fn clear_ledgers(&mut self) {
        self.ledgers.clear();
    }

    fn ledger_key(ledger: &RestartLedger) -> Key {
        (ledger.namespace().unwrap_or_default(), ledger.name_any())
    }

    /// The ledger of each pod. That which speaks of the pod of now comes before one that an earlier
    /// pod of its name left.
    fn by_pod(&self) -> BTreeMap<Key, &RestartLedger> {
        let mut by_pod: BTreeMap<Key, &RestartLedger> = BTreeMap::new();
        let mut of_groups: BTreeMap<Key, &RestartLedger> = BTreeMap::new();
        for ((namespace, _), ledger) in &self.ledgers {
            if ledger.is_of_group() {
                let members = ledger.status.iter().flat_map(|s| s.members.iter().flatten());
                for member in members {
                    let key = (namespace.clone(), member.pod_name.clone());
                    let is_own = |pod: &BoardPod| pod.uid.as_ref() == Some(&member.pod_uid);
                    if self.pods.get(&key).is_some_and(is_own) {
                        of_groups.insert(key, ledger);
                    }
                }
                continue;
            }
            let key = (namespace.clone(), ledger.spec.pod_name.clone());
            let is_own = |pod: &BoardPod| pod.uid.as_ref() == Some(&ledger.spec.pod_uid);
            if !by_pod.contains_key(&key) || self.pods.get(&key).is_some_and(is_own) {
                by_pod.insert(key, ledger);
            }
        }
        by_pod.extend(of_groups); // a ladder of scope Group has taken over
        by_pod
    }

    /// In how long a time that is shown counts on, when nothing else changes; none when nothing
    /// counts.
    pub fn counts_on_after(&self, now: Tick) -> Option<TickDuration> {
        let rows = self.rows(now);
        let counts = |after: &TickDuration| self.rows(now + *after) != rows;
        COUNTED_AFTER.map(TickDuration::from_secs).into_iter().find(counts)
    }

    /// A row for each pod, by namespace and name.
    pub fn rows(&self, now: Tick) -> Vec<PodRow> {
        let ledgers = self.by_pod();
        self.pods.iter().map(|(key, pod)| row(key, pod, ledgers.get(key).copied(), now)).collect()
    }
}

fn row(key: &Key, pod: &BoardPod, ledger: Option<&RestartLedger>, now: Tick) -> PodRow {
    let BoardPod { owner, summary, uid: _ } = pod;
    let (ready, status, restarts) =
        (summary.ready(), summary.status.clone(), summary.restarts(now));
    let in_namespace = |name: &str| match key.0.as_str() {
        "default" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    };
    let owner = owner.as_ref().map(|owner| (in_namespace(&owner.name), owner.kind.clone()));
    let due = ledger.and_then(next_attempt).filter(|due| *due > now);
    let next_in_secs = due.map(|due| due.since(now).as_secs() + 1);
    let next = next_in_secs.map(TickDuration::from_secs);
    let next = next.map_or_else(|| "-".to_owned(), |next| format!("in {}", span::show(next)));
    let (rung, why) = rung_and_why(ledger);
    let health = RowHealth::new(&ready, &status, ledger.and_then(|ledger| ledger.status.as_ref()));
    let cells = [in_namespace(&key.1), ready, status, restarts, rung, next, why];
    PodRow { cells, health, owner, next_in_secs }
}

fn next_attempt(ledger: &RestartLedger) -> Option<Tick> {
    Some(Tick::from(ledger.status.as_ref()?.next_attempt_at.as_ref()?))
}

fn rung_and_why(ledger: Option<&RestartLedger>) -> (String, String) {
    let Some(status) = ledger.and_then(|ledger| ledger.status.as_ref()) else {
        return ("-".to_owned(), String::new());
    };
    let rung = match (status.phase, status.rung) {
        (Some(LedgerPhase::Exhausted), _) => "exhausted".to_owned(),
        (_, Some(rung)) => rung.name().to_owned(),
        (_, None) => "-".to_owned(),
    };
    // an older version wrote no summary
    let why = status.summary.as_ref().or(status.message.as_ref());
    (rung, why.cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::pod_row::{NEXT, RESTARTS, WHY};
    use super::*;

    fn ledger(name: &str, pod: &str, uid: &str) -> RestartLedger {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"ladderName": "web", "podName": pod, "podUID": uid},
            "status": {"failuresTotal": 1, "summary": format!("of {name}"), "message": "in full"}
        }))
        .unwrap()
    }

    fn why(board: &Board) -> Vec<String> {
        board.rows(Tick::ZERO).into_iter().map(|row| row.cells[WHY].clone()).collect()
    }

    #[test]
    fn a_ledger_that_goes_on_with_another_pod_is_that_ones_alone() {
        let mut board = Board::default();
        for (name, uid) in [("web-a", "1"), ("web-b", "2")] {
            let pod = json!({"metadata": {"name": name, "namespace": "shop", "uid": uid}});
            board.put_pod(&serde_json::from_value(pod).unwrap());
        }
        board.put_ledger(ledger("web-a", "web-a", "1"));
        assert_eq!(why(&board), ["of web-a", ""]);
        board.put_ledger(ledger("web-a", "web-b", "2"));
        assert_eq!(why(&board), ["", "of web-a"]);
        // what an earlier pod of that name left does not hide it, in whichever order they come
        for other in ["a-first", "z-last"] {
            board.put_ledger(ledger(other, "web-b", "0"));
            assert_eq!(why(&board), ["", "of web-a"], "{other}");
        }
        board.remove_ledger(&ledger("web-a", "web-b", "2"));
        assert_eq!(why(&board), ["", "of a-first"]);
    }

    #[test]
    fn times_count_by_the_second_then_by_the_minute_and_nothing_counts_where_none_is_shown() {
        let mut board = Board::default();
        let pod = json!({
            "metadata": {"name": "web-a", "namespace": "default", "uid": "1", "creationTimestamp": "1970-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": true}]},
            "spec": {"containers": [{"name": "app"}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": true,
                "restartCount": 1, "state": {"running": {}},
                "lastState": {"terminated": {"exitCode": 1, "finishedAt": "1970-01-01T00:00:10Z"}}}]}
        });
        board.put_pod(&serde_json::from_value(pod).unwrap());
        let cells = |board: &Board, secs| board.rows(Tick::from_secs(secs))[0].cells.clone();
        let after = |board: &Board, secs| {
            board.counts_on_after(Tick::from_secs(secs)).map(TickDuration::as_secs)
        };
        assert_eq!(cells(&board, 20)[RESTARTS], "1 (10s ago)");
        assert_eq!((after(&board, 20), after(&board, 3_620)), (Some(1), Some(60)));
        let mut due = ledger("web-a", "web-a", "1");
        due.metadata.namespace = Some("default".to_owned());
        let status = due.status.as_mut().unwrap();
        status.next_attempt_at = Some(Tick::from_secs(3_710).to_micro_time());
        board.put_ledger(due);
        assert_eq!(cells(&board, 3_620)[NEXT], "in 1m31s");
        assert_eq!(after(&board, 3_620), Some(1));
        let owner = board.rows(Tick::ZERO)[0].owner.clone();
        assert_eq!(owner, Some(("web".to_owned(), "ReplicaSet".to_owned())));
        board.clear_pods();
        assert_eq!(after(&board, 20), None);
    }
}
