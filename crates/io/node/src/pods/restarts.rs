//! PodRestarts: from the API object to the core's request, and the core's reports into the object's
//! status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use rekindle_pod::Journal;
use rekindle_pod_driver::{Urgency, WriteOutcome};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, PodRestartStatus};
use rekindle_types::{PodUid, Tick};
use serde_json::json;
use tokio::sync::watch;

use super::coalescing_writer::{Progress, Submitted, reached, write_latest};
use super::journal_file::JournalFile;
use crate::layout::NodeDirs;

/// One report of a restart's progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) status: PodRestartStatus,
}

impl Report {
    /// The report after this one, about this pod. A step that was told already is not told again:
    /// the core repeats itself after a crash.
    fn next(&self, pod: Option<&str>, phase: PodRestartPhase, message: String, at: Tick) -> Self {
        let mut status = self.status.clone();
        if status.pod_uid.is_none() {
            status.pod_uid = pod.map(str::to_owned);
        }
        if status.steps.iter().any(|step| step.phase == phase && step.message == message) {
            status.stand(phase, message, &at.to_micro_time());
        } else {
            status.go_on(phase, message, at.to_micro_time());
        }
        match phase {
            PodRestartPhase::Running => {
                status.started_at.get_or_insert_with(|| at.to_time());
                status.finished_at = None;
            }
            PodRestartPhase::Succeeded
            | PodRestartPhase::Failed
            | PodRestartPhase::Refused
            | PodRestartPhase::Withdrawn => status.finished_at = Some(at.to_time()),
        }
        Self { status }
    }
}

/// True when nothing more will happen to it.
pub(crate) fn is_settled(restart: &PodRestart) -> bool {
    restart.status.as_ref().and_then(|status| status.phase).is_some_and(PodRestartPhase::is_final)
}

/// Which pod of this node each open request was given to. Its object says so too, but not before it
/// is written and seen again: a pod that has come by then in the place of the first one of its name
/// would be restarted a second time.
#[derive(Clone, Debug, Default)]
pub(crate) struct TakenUp(Arc<Mutex<BTreeMap<String, Taken>>>);

#[derive(Clone, Debug)]
struct Taken {
    pod: PodUid,
    /// Whether the pod's worker has it; else an earlier agent's journal alone says so.
    told: Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Worker,
    Nobody,
}

impl TakenUp {
    /// What the journals of an earlier agent say, also those of pods that the API has forgotten
    /// since: it may have died before it told anybody that it had begun.
    pub(crate) fn restore(dirs: &NodeDirs) -> Self {
        let mut taken = BTreeMap::new();
        for pod in dirs.kept_pods() {
            let journal: Option<Journal> = JournalFile::new(dirs.pod_journal(&pod)).read();
            let requests = journal.iter().flat_map(Journal::requests);
            let by_pod = || Taken { pod: pod.clone(), told: Told::Nobody };
            taken.extend(requests.map(|id| (id.to_owned(), by_pod())));
        }
        Self(Arc::new(Mutex::new(taken)))
    }

    /// Takes a request up for a pod; false when another pod has it.
    fn take(&self, id: &str, pod: &PodUid) -> bool {
        let mut taken = self.lock();
        let by_pod = || Taken { pod: pod.clone(), told: Told::Worker };
        let by = taken.entry(id.to_owned()).or_insert_with(by_pod);
        let is_own = by.pod == *pod;
        if is_own {
            by.told = Told::Worker;
        }
        is_own
    }

    /// The pod that has taken a request up, if one has.
    pub(crate) fn by(&self, id: &str) -> Option<PodUid> {
        self.lock().get(id).map(|taken| taken.pod.clone())
    }

    /// The same if its worker was not told of the request: an earlier agent has begun it.
    pub(crate) fn untold(&self, id: &str) -> Option<PodUid> {
        let taken = self.lock();
        taken.get(id).filter(|taken| taken.told == Told::Nobody).map(|taken| taken.pod.clone())
    }

    /// These are all requests that there are.
    pub(crate) fn keep_only(&self, listed: &BTreeSet<String>) {
        self.lock().retain(|id, _| listed.contains(id));
    }

    /// The request is over, or gone.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the reports of one pod's restarts.
pub(crate) struct RestartReporter {
    client: Client,
    pod: PodUid,
    taken_up: TakenUp,
    known: BTreeMap<String, Known>,
}

struct Known {
    restart: Arc<PodRestart>,
    reports: Option<Reports>,
}

/// The reports of one restart, and how far they are written.
struct Reports {
    newest: watch::Sender<Submitted<Option<Report>>>,
    progress: watch::Receiver<Progress>,
}

impl RestartReporter {
    /// Of this pod, which knows of no restart yet.
    pub(crate) fn new(client: Client, pod: PodUid, taken_up: TakenUp) -> Self {
        Self { client, pod, taken_up, known: BTreeMap::new() }
    }

    /// Remembers which object reports of `id` belong to; false when it was known already, or
    /// another pod has taken it up.
    pub(crate) fn register(&mut self, id: &str, restart: Arc<PodRestart>) -> bool {
        if self.known.contains_key(id) || !self.taken_up.take(id, &self.pod) {
            return false;
        }
        self.known.insert(id.to_owned(), Known { restart, reports: None });
        true
    }

    /// Hands in the newest report; a final one is the last. `shown_as` is the UID of the pod in the
    /// API, when that is known.
    pub(crate) fn report(
        &mut self,
        id: &str,
        shown_as: Option<&str>,
        phase: PodRestartPhase,
        message: String,
        at: Tick,
    ) {
        let Some(known) = self.known.get_mut(id) else {
            // the object was deleted while the restart went on: there is nobody left to tell
            tracing::debug!(restart = id, ?phase, "report of a restart whose object is not known");
            return;
        };
        let before =
            known.reports.as_ref().and_then(|reports| reports.newest.borrow().value.clone());
        let before = before
            .unwrap_or_else(|| Report { status: known.restart.status.clone().unwrap_or_default() });
        let report = before.next(shown_as, phase, message, at);
        let client = self.client.clone();
        let restart = known.restart.clone();
        let reports = known.reports.get_or_insert_with(|| start_writer(client, &restart));
        // that it runs is news for a restart that takes long
        let urgency = match phase {
            PodRestartPhase::Running => Urgency::Soon,
            PodRestartPhase::Succeeded
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
        let message = format!("pod {} was deleted meanwhile", restart.spec.pod_name);
        if self.register(&id, restart.clone()) {
            let pod = self.pod.0.clone();
            self.report(&id, Some(&pod), PodRestartPhase::Failed, message, at);
        }
    }

    /// The object is gone or final: its writer ends after the last report.
    pub(crate) fn forget(&mut self, id: &str) {
        self.known.remove(id);
    }
}

fn start_writer(client: Client, restart: &PodRestart) -> Reports {
    let (newest, receiver) = watch::channel(Submitted::first(None));
    let (written, progress) = watch::channel(Progress::Written(0));
    let namespace = restart.metadata.namespace.clone().unwrap_or_default();
    let name = restart.metadata.name.clone().unwrap_or_default();
    let uid = restart.metadata.uid.clone();
    let api: Api<PodRestart> = Api::namespaced(client, &namespace);
    tokio::spawn(write_latest(receiver, written, move |report: Option<Report>| {
        let (api, name, uid) = (api.clone(), name.clone(), uid.clone());
        async move {
            match report {
                Some(report) => write(&api, &name, uid, &report).await,
                None => WriteOutcome::Written,
            }
        }
    }));
    Reports { newest, progress }
}

async fn write(
    api: &Api<PodRestart>,
    name: &str,
    uid: Option<String>,
    report: &Report,
) -> WriteOutcome {
    let mut patch = json!({
        "metadata": { "uid": uid },
        "status": {
            "phase": report.status.phase,
            "message": report.status.message,
            "conditions": report.status.conditions,
            "startedAt": report.status.started_at,
            "finishedAt": report.status.finished_at,
            "steps": report.status.steps,
        },
    });
    // a null would take away what an earlier agent has said
    if let Some(pod) = &report.status.pod_uid {
        patch["status"]["podUID"] = json!(pod);
    }
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

#[cfg(test)]
mod tests {
    use rekindle_types::TickDuration;

    use super::*;

    #[test]
    fn each_step_is_told_once_with_its_time_also_when_the_core_repeats_itself() {
        let at = |seconds| Tick::ZERO + TickDuration::from_secs(seconds);
        let (running, pod) = (PodRestartPhase::Running, Some("u"));
        let mut report = Report::default().next(pod, running, "stopping".to_owned(), at(1));
        report = report.next(pod, running, "starting".to_owned(), at(2));
        report = report.next(pod, running, "stopping".to_owned(), at(1));
        report = report.next(pod, PodRestartPhase::Succeeded, "running".to_owned(), at(3));
        let told: Vec<_> =
            report.status.steps.iter().map(|s| (s.message.as_str(), Tick::from(&s.at))).collect();
        assert_eq!(told, [("stopping", at(1)), ("starting", at(2)), ("running", at(3))]);
        assert_eq!(report.status.pod_uid.as_deref(), pod);
        assert_eq!(report.status.started_at, Some(at(1).to_time()));
        assert_eq!(report.status.finished_at, Some(at(3).to_time()));
    }
}
