//! What is left to do when a pod's core has finished: volumes, the journal, the API object, the
//! logs.
//!
//! ```text
//! Finish ─► volumes unmounted ─► last status, and what came of restarts, in the API ─► journal forgotten ─► (deletion) ─► folder ─► API object ─► logs
//! ```
//! A crash at any arrow is taken up by the next agent: as long as the object is there, somebody
//! knows.

use std::sync::Arc;
use std::time::Duration;

use rekindle_pod::{RestartReport, RestartRequest};
use rekindle_pod_driver::{Existence, deletion_grace_seconds};
use rekindle_runtime::Runtime;
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase};

use super::{PodWorker, WorkerDeparture, WorkerFlow};
use crate::clock::sleep_until;
use crate::durable;
use crate::network::PodNetwork;
use crate::pods::inbox::WorkerInput;
use crate::pods::recovery::{remove_folder, remove_logs};
use crate::pods::restarts::is_settled;
use crate::pods::status_writer::answered;
use crate::volumes::{EmptyDirContents, sweep, unmount_volumes};

impl<R: Runtime, N: PodNetwork> PodWorker<R, N> {
    /// After the core's last action.
    pub(super) async fn finish(mut self) {
        // what is still under way serves a pod that is over: a pull ends here
        self.under_way.clear();
        self.node.routes.gone(self.pod_ref.uid.clone());
        self.node.room.release(&self.pod_ref.uid);
        let is_node_stopping = self.driver.is_node_stopping();
        let contents =
            if is_node_stopping { EmptyDirContents::Keep } else { EmptyDirContents::Discard };
        self.unmount(contents).await;
        self.sweep(contents).await;
        self.awaited.clear();
        if is_node_stopping {
            self.node.index.remove(&self.pod_ref.uid);
            return;
        }
        // how the containers ended is known nowhere else once the journal is gone
        self.flush_status().await;
        // nor which requests the pod had: the next one of its name would carry them out
        self.restarts.flush().await;
        self.forget_journal();
        self.node.users.forget(&self.pod_ref, &self.dirs);
        if self.wait_for_deletion().await == WorkerFlow::Continue {
            return; // the agent ends before the object does
        }
        // the object goes last: while it is there, somebody knows that there may be something to
        // clean up
        let (dirs, trash) = (self.dirs.clone(), self.node.dirs.trash());
        self.blocking(move || remove_folder(&dirs)).await;
        let existence = self.driver.existence();
        self.shown_by.delete_object(&self.node.client, &self.pod_ref, existence).await;
        self.node.index.remove(&self.pod_ref.uid);
        let dirs = self.dirs.clone();
        self.blocking(move || {
            remove_logs(&dirs);
            sweep(&trash);
        })
        .await;
    }

    /// Until the last status stands in the API, or never will.
    async fn flush_status(&mut self) {
        loop {
            self.tell();
            if self.driver.is_status_settled() {
                return;
            }
            let timeout = self.timeout();
            tokio::select! {
                answer = answered(&mut self.status_write) => self.status_answered(answer),
                () = sleep_until(timeout) => self.driver.handle_timeout(self.now()),
            }
        }
    }

    /// What a core that has finished still asks for: statuses are written.
    fn tell(&mut self) {
        // it finishes again when it hears of a deletion
        while self.carry_out() == WorkerFlow::Finished {}
    }

    async fn blocking(&mut self, work: impl FnOnce() + Send + 'static) {
        if let Err(error) = tokio::task::spawn_blocking(work).await {
            tracing::warn!(pod = %self.pod_ref, %error, "failed to remove the folders of an ended pod");
        }
    }

    /// Deletes what was moved aside. Who has the pod evicted for what it has written looks at the
    /// disk next, and waits for it.
    async fn sweep(&mut self, contents: EmptyDirContents) {
        match contents {
            EmptyDirContents::Keep => return,
            EmptyDirContents::Discard => {}
        }
        let trash = self.node.dirs.trash();
        let swept = tokio::task::spawn_blocking(move || sweep(&trash));
        if !self.awaited.is_empty()
            && let Err(error) = swept.await
        {
            tracing::warn!(pod = %self.pod_ref, %error, "failed to delete what an ended pod wrote");
        }
    }

    async fn unmount(&mut self, contents: EmptyDirContents) {
        self.payload_update = None;
        let _turn = self.volumes.turn().await;
        let mut wait = Duration::from_millis(100);
        loop {
            let dirs = self.dirs.clone();
            let unmounted = tokio::task::spawn_blocking(move || {
                unmount_volumes(&dirs, contents).map_err(|error| error.to_string())
            });
            match unmounted.await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => {
                    tracing::warn!(pod = %self.pod_ref, error, "failed to unmount volumes; trying again");
                }
                Err(error) => {
                    tracing::warn!(pod = %self.pod_ref, %error, "failed to unmount volumes")
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(30));
        }
    }

    fn forget_journal(&self) {
        for path in [self.dirs.journal(), self.dirs.pod()] {
            if let Err(error) = durable::remove(&path) {
                tracing::warn!(pod = %self.pod_ref, %error, "failed to remove the journal of an ended pod");
            }
        }
    }

    /// A pod that has ended stays in the API until somebody deletes it.
    async fn wait_for_deletion(&mut self) -> WorkerFlow {
        loop {
            self.tell();
            let is_deleted = deletion_grace_seconds(self.driver.pod()).is_some();
            if is_deleted || self.driver.existence() == Existence::Vanished {
                return WorkerFlow::Finished;
            }
            if self.departure == WorkerDeparture::WhenOver {
                return WorkerFlow::Continue;
            }
            let timeout = self.timeout();
            tokio::select! {
                input = self.inbox.recv() => match input {
                    None | Some(WorkerInput::NodeStops | WorkerInput::NodeShutsDown { .. }) => {
                        return WorkerFlow::Continue;
                    }
                    Some(WorkerInput::Evict(..)) => {} // it is over
                    Some(WorkerInput::Vanished(loss)) => self.driver.object_vanished(self.now(), loss),
                    Some(
                        WorkerInput::Restart(restart) | WorkerInput::RestartReleased(restart),
                    ) => self.refuse(&restart),
                    Some(WorkerInput::RestartForgotten(id)) => self.restarts.forget(&id),
                    // late: nothing runs here any more
                    Some(WorkerInput::Runtime(_) | WorkerInput::Resources { .. }) => {}
                },
                Ok(()) = self.updates.changed() => {
                    let pod = self.updates.borrow_and_update().clone();
                    self.driver.object_changed(self.now(), pod);
                }
                answer = answered(&mut self.status_write) => self.status_answered(answer),
                () = sleep_until(timeout) => self.driver.handle_timeout(self.now()),
            }
        }
    }

    fn refuse(&mut self, restart: &Arc<PodRestart>) {
        let Some(request) = RestartRequest::from_restart(restart) else { return };
        if !is_settled(restart) && self.restarts.register(&request.id, restart.clone()) {
            let phase = self.driver.core().status().phase.clone().unwrap_or_default();
            let message = format!("pod {} has finished (phase {phase})", self.pod_ref);
            let (id, phase) = (request.id, PodRestartPhase::Refused);
            let at = self.node.clock.now();
            self.report(RestartReport { id, phase, message, at, is_held: false });
        }
    }
}
