//! What is shown: pods beside what their ledgers say.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rekindle_api::registry::{ApiKind, Cell};
use rekindle_types::Tick;
use rekindle_types::v1alpha1::{LedgerPhase, RestartLedger};

/// The headings.
pub const HEADINGS: [&str; 7] = ["POD", "READY", "STATUS", "RESTARTS", "RUNG", "NEXT", "WHY"];

/// Namespace and name of a pod.
type PodKey = (String, String);

/// The pods and the ledgers as last seen.
#[derive(Default)]
pub struct Board {
    pods: BTreeMap<PodKey, Pod>,
    ledgers: BTreeMap<PodKey, RestartLedger>,
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

    fn ledger_key(ledger: &RestartLedger) -> PodKey {
        (ledger.namespace().unwrap_or_default(), ledger.spec.pod_name.clone())
    }

    /// True while a NEXT cell changes by itself.
    pub fn counts_down(&self, now: Tick) -> bool {
        self.pods.iter().any(|(key, _)| self.next_attempt(key).is_some_and(|due| due > now))
    }

    /// A row for each pod, by namespace and name.
    pub fn rows(&self, now: Tick) -> Vec<[String; 7]> {
        self.pods.iter().map(|(key, pod)| self.row(key, pod, now)).collect()
    }

    fn row(&self, key: &PodKey, pod: &Pod, now: Tick) -> [String; 7] {
        let mut cells = pod.row(now).into_iter().map(|cell| match cell {
            Cell::Text(text) => text,
            Cell::Int(number) => number.to_string(),
        });
        let mut cell = || cells.next().unwrap_or_default();
        let (name, ready, status, restarts) = (cell(), cell(), cell(), cell());
        let name = if key.0 == "default" { name } else { format!("{}/{name}", key.0) };
        let next = match self.next_attempt(key) {
            Some(due) if due > now => format!("in {}s", due.since(now).as_secs() + 1),
            Some(_) | None => "-".to_owned(),
        };
        let (rung, why) = self.rung_and_why(key);
        [name, ready, status, restarts, rung, next, why]
    }

    fn next_attempt(&self, key: &PodKey) -> Option<Tick> {
        let due = self.ledgers.get(key)?.status.as_ref()?.next_attempt_at.as_ref()?;
        Some(Tick::from(due))
    }

    fn rung_and_why(&self, key: &PodKey) -> (String, String) {
        let Some(status) = self.ledgers.get(key).and_then(|ledger| ledger.status.as_ref()) else {
            return ("-".to_owned(), String::new());
        };
        let rung = match (status.phase, status.rung) {
            (Some(LedgerPhase::Exhausted), _) => "exhausted".to_owned(),
            (_, Some(rung)) => rung.name().to_owned(),
            (_, None) => "-".to_owned(),
        };
        (rung, status.message.clone().unwrap_or_default())
    }
}
