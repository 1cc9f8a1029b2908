//! What is shown: pods beside what their ledgers say.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rekindle_api::registry::{ApiKind, Cell};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{LedgerPhase, RestartLedger};

/// The headings.
pub const HEADINGS: [&str; 7] = ["POD", "READY", "STATUS", "RESTARTS", "RUNG", "NEXT", "WHY"];

/// Namespace and name of an object.
type Key = (String, String);

/// The pods and the ledgers as last seen.
#[derive(Default)]
pub struct Board {
    pods: BTreeMap<Key, Pod>,
    /// By their own names: a ledger that goes on with another pod is the same one.
    ledgers: BTreeMap<Key, RestartLedger>,
}

impl Board {
    /// A pod was added or changed.
    pub fn put_pod(&mut self, pod: Pod) {
        self.pods.insert((pod.namespace().unwrap_or_default(), pod.name_any()), pod);
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

    /// The ledger of each pod. That which speaks of the pod of now comes before one that an earlier pod of its name left.
    fn by_pod(&self) -> BTreeMap<Key, &RestartLedger> {
        let mut by_pod: BTreeMap<Key, &RestartLedger> = BTreeMap::new();
        for ((namespace, _), ledger) in &self.ledgers {
            let key = (namespace.clone(), ledger.spec.pod_name.clone());
            let is_own = |pod: &Pod| pod.uid().as_ref() == Some(&ledger.spec.pod_uid);
            if !by_pod.contains_key(&key) || self.pods.get(&key).is_some_and(is_own) {
                by_pod.insert(key, ledger);
            }
        }
        by_pod
    }

    /// True while a NEXT cell changes by itself.
    pub fn counts_down(&self, now: Tick) -> bool {
        let ledgers = self.by_pod();
        let of_pods = self.pods.keys().filter_map(|key| ledgers.get(key));
        of_pods.filter_map(|ledger| next_attempt(ledger)).any(|due| due > now)
    }

    /// A row for each pod, by namespace and name.
    pub fn rows(&self, now: Tick) -> Vec<[String; 7]> {
        let ledgers = self.by_pod();
        self.pods.iter().map(|(key, pod)| row(key, pod, ledgers.get(key).copied(), now)).collect()
    }
}

fn row(key: &Key, pod: &Pod, ledger: Option<&RestartLedger>, now: Tick) -> [String; 7] {
    let mut cells = pod.row(now).into_iter().map(|cell| match cell {
        Cell::Text(text) => text,
        Cell::Int(number) => number.to_string(),
    });
    let mut cell = || cells.next().unwrap_or_default();
    let (name, ready, status, restarts) = (cell(), cell(), cell(), cell());
    let name = if key.0 == "default" { name } else { format!("{}/{name}", key.0) };
    let next = match ledger.and_then(next_attempt) {
        Some(due) if due > now => format!("in {}s", due.since(now).as_secs() + 1),
        Some(_) | None => "-".to_owned(),
    };
    let (rung, why) = rung_and_why(ledger);
    [name, ready, status, restarts, rung, next, why]
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
    (rung, status.message.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ledger(name: &str, pod: &str, uid: &str) -> RestartLedger {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"ladderName": "web", "podName": pod, "podUID": uid},
            "status": {"failuresTotal": 1, "message": format!("of {name}")}
        }))
        .unwrap()
    }

    fn why(board: &Board) -> Vec<String> {
        board.rows(Tick::ZERO).into_iter().map(|[.., why]| why).collect()
    }

    #[test]
    fn a_ledger_that_goes_on_with_another_pod_is_that_ones_alone() {
        let mut board = Board::default();
        for (name, uid) in [("web-a", "1"), ("web-b", "2")] {
            let pod = json!({"metadata": {"name": name, "namespace": "shop", "uid": uid}});
            board.put_pod(serde_json::from_value(pod).unwrap());
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
}
