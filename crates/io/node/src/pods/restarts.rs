//! PodRestarts: from the API object to the core's request, and the core's reports into the object's
//! status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use rekindle_pod::{Journal, RestartReport};
use rekindle_pod_driver::{
    RestartOwners, Urgency, WriteOutcome, lost_with_its_pod, reported_progress,
    restart_status_patch,
};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, PodRestartStatus};
use rekindle_types::{PodUid, Tick};
use tokio::sync::watch;

use super::coalescing_writer::{NumberedValue, WriteProgress, reached, write_latest};
use super::journal_file::JournalFile;
use crate::layout::NodeDirs;

/// True when nothing more will happen to it.
pub(crate) fn is_settled(restart: &PodRestart) -> bool {
    restart.status.as_ref().and_then(|status| status.phase).is_some_and(PodRestartPhase::is_final)
}

/// Which pod of this node each open request was given to; the manager and the workers share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedRestartOwners(Arc<Mutex<RestartOwners>>);

impl SharedRestartOwners {
    /// What the journals of an earlier agent say.
    pub(crate) fn restore(dirs: &NodeDirs) -> Self {
        let journals: Vec<(PodUid, Journal)> = dirs
            .kept_pods()
            .filter_map(|pod| Some((pod.clone(), JournalFile::new(dirs.pod_journal(&pod)).read()?)))
            .collect();
        let journals = journals.iter().map(|(pod, journal)| (pod.clone(), journal));
        Self(Arc::new(Mutex::new(RestartOwners::restore(journals))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, RestartOwners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the reports of one pod's restarts.
pub(crate) struct RestartReporter {
    client: Client,
    pod: PodUid,
    owners: SharedRestartOwners,
    known: BTreeMap<String, TrackedRestart>,
}

struct TrackedRestart {
    restart: Arc<PodRestart>,
    reports: Option<RestartReports>,
}

/// The reports of one restart, and how far they are written.
struct RestartReports {
    newest: watch::Sender<NumberedValue<Option<PodRestartStatus>>>,
    progress: watch::Receiver<WriteProgress>,
}

impl RestartReporter {
    /// Of this pod, which knows of no restart yet.
    pub(crate) fn new(client: Client, pod: PodUid, owners: SharedRestartOwners) -> Self {
        Self { client, pod, owners, known: BTreeMap::new() }
    }

    /// Remembers which object reports of `id` belong to; false when it was known already, or
    /// another pod has taken it up.
    pub(crate) fn register(&mut self, id: &str, restart: Arc<PodRestart>) -> bool {
        if self.known.contains_key(id) || !self.owners.lock().take(id, &self.pod) {
            return false;
        }
        self.known.insert(id.to_owned(), TrackedRestart { restart, reports: None });
        true
    }

    /// Whether reports of this request have an object.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.known.contains_key(id)
    }

    /// Hands in the newest report; a final one is the last. `shown_as` is the UID of the pod in the
    /// API, when that is known.
    pub(crate) fn report(&mut self, shown_as: Option<&str>, report: RestartReport) {
        let (id, phase) = (report.id.as_str(), report.phase);
        let Some(known) = self.known.get_mut(id) else {
            // the object was deleted while the restart went on: there is nobody left to tell
            tracing::debug!(restart = id, ?phase, "report of a restart whose object is not known");
            return;
        };
        // the others of its group wait for that, or it runs again
        let is_awaited = report.is_held;
        let before =
            known.reports.as_ref().and_then(|reports| reports.newest.borrow().value.clone());
        let before = before.or_else(|| known.restart.status.clone()).unwrap_or_default();
        let report = reported_progress(&before, shown_as, report);
        let client = self.client.clone();
        let restart = known.restart.clone();
        let reports = known.reports.get_or_insert_with(|| start_writer(client, &restart));
        // that it runs is news for a restart that takes long
        let urgency = match phase {
            PodRestartPhase::Running if !is_awaited => Urgency::Soon,
            PodRestartPhase::Running
            | PodRestartPhase::Succeeded
            | PodRestartPhase::Failed
            | PodRestartPhase::Refused
            | PodRestartPhase::Withdrawn => Urgency::Now,
        };
        reports.newest.send_modify(|submitted| submitted.replace(Some(report), urgency));
    }

    /// Waits until the newest report of each restart stands in the API, or the restart is gone from
    /// it.
    pub(crate) async fn flush(&mut self) {
        for reports in self.known.values_mut().filter_map(|known| known.reports.as_mut()) {
            let number = reports.newest.borrow().number;
            reached(&mut reports.progress, number).await;
        }
    }

    /// The pod that took a request up is over, and has told nobody what came of that.
    pub(crate) fn report_lost(mut self, restart: &Arc<PodRestart>, at: Tick) {
        let id = restart.metadata.uid.clone().unwrap_or_default();
        let (phase, message) = lost_with_its_pod(&restart.spec.pod_name);
        if self.register(&id, restart.clone()) {
            let pod = self.pod.0.clone();
            let report = RestartReport { id, phase, message, at, is_held: false };
            self.report(Some(&pod), report);
        }
    }

    /// The object is gone or final: its writer ends after the last report.
    pub(crate) fn forget(&mut self, id: &str) {
        self.known.remove(id);
    }
}

fn start_writer(client: Client, restart: &PodRestart) -> RestartReports {
    let (newest, receiver) = watch::channel(NumberedValue::first(None));
    let (written, progress) = watch::channel(WriteProgress::Written(0));
    let namespace = restart.metadata.namespace.clone().unwrap_or_default();
    let name = restart.metadata.name.clone().unwrap_or_default();
    let uid = restart.metadata.uid.clone();
    let api: Api<PodRestart> = Api::namespaced(client, &namespace);
    tokio::spawn(write_latest(receiver, written, move |report: Option<PodRestartStatus>| {
        let (api, name, uid) = (api.clone(), name.clone(), uid.clone());
        async move {
            match report {
                Some(report) => write(&api, &name, uid.as_deref(), &report).await,
                None => WriteOutcome::Written,
            }
        }
    }));
    RestartReports { newest, progress }
}

async fn write(
    api: &Api<PodRestart>,
    name: &str,
    uid: Option<&str>,
    status: &PodRestartStatus,
) -> WriteOutcome {
    let patch = restart_status_patch(uid, status);
    match api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => WriteOutcome::Written,
        Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409 | 422) => {
            tracing::debug!(restart = name, error = %answer, "the PodRestart is gone or another one");
            WriteOutcome::Gone
        }
        Err(error) => {
            tracing::debug!(restart = name, %error, "report of a restart failed; trying again");
            WriteOutcome::Retry
        }
    }
}
