//! PodRestarts that nodes carry out: which pod gets a request, and what is written about it.

use std::collections::BTreeSet;

use http::Method;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use rekindle_pod::{RestartReport, RestartRequest};
use rekindle_pod_driver::{
    RestartOwners, lost_with_its_pod, restart_progress, restart_status_patch,
};
use rekindle_types::PodUid;
use rekindle_types::v1alpha1::{CarriedOutBy, PodRestart, PodRestartPhase, PodRestartStatus};

use super::nodes::UNAVAILABLE;
use super::{MERGE_PATCH, World, path};
use crate::agent::RequestObject;
use crate::faults::WriteFate;

impl World {
    /// Nodes list the requests anew.
    pub(super) fn resync_restarts(&mut self, nodes: &BTreeSet<String>) {
        let all = self.server.restarts();
        let listed = all.iter().filter_map(|restart| restart.metadata.uid.clone()).collect();
        for node in nodes {
            self.restart_owners.entry(node.clone()).or_default().keep_only(&listed);
        }
        for restart in all {
            self.tell_restart(&restart);
        }
    }

    /// The agent of a node is another process: it knows what the journals say.
    pub(super) fn restore_restart_owners(&mut self, node: &str) {
        let there = self.pods.iter().filter(|(_, pod)| pod.node == node);
        let journals =
            there.filter_map(|(uid, pod)| Some((PodUid(uid.clone()), pod.journal.as_deref()?)));
        let owners = RestartOwners::restore(journals);
        self.restart_owners.insert(node.to_owned(), owners);
    }

    /// The nodes see a request.
    pub(super) fn tell_restart(&mut self, restart: &PodRestart) {
        let status = restart.status.clone().unwrap_or_default();
        let Some(request) = RestartRequest::from_restart(restart) else { return };
        match restart.spec.rung().carried_out_by() {
            CarriedOutBy::Node => {}
            CarriedOutBy::Operator => return,
        }
        if status.phase.is_some_and(PodRestartPhase::is_final) {
            for node in self.hearing_nodes() {
                self.restart_owners.entry(node).or_default().forget(&request.id);
            }
            return;
        }
        self.fail_if_lost(restart, &request.id);
        let object = NamespacedName::from_meta(&restart.metadata);
        let name = NamespacedName::new(object.namespace.as_str(), restart.spec.pod_name.as_str());
        let Some(uid) = self.pods_by_name.get(&name).cloned() else { return };
        let Some(pod) = self.pods.get(&uid).filter(|pod| self.hears(&pod.node)) else { return };
        let owners = self.restart_owners.entry(pod.node.clone()).or_default();
        if !restart.is_for(&uid) || !owners.take(&request.id, &PodUid(uid.clone())) {
            return;
        }
        let Some(pod) = self.pods.get_mut(&uid) else { return };
        let object = RequestObject { id: ObjectId::new(ResourceKind::PodRestart, object), status };
        pod.restart(self.now, request, object);
        self.act(&uid);
    }

    fn hearing_nodes(&self) -> Vec<String> {
        self.nodes.iter().filter(|node| self.hears(node)).cloned().collect()
    }

    /// A request that an earlier agent began, and whose pod is not there any more.
    fn fail_if_lost(&mut self, restart: &PodRestart, id: &str) {
        for node in self.hearing_nodes() {
            let owners = self.restart_owners.entry(node).or_default();
            let Some(PodUid(pod)) = owners.owner_in_journal(id).cloned() else { continue };
            if self.pods.contains_key(&pod) {
                continue;
            }
            let object = ObjectId::new(
                ResourceKind::PodRestart,
                NamespacedName::from_meta(&restart.metadata),
            );
            let (phase, message) = lost_with_its_pod(&restart.spec.pod_name);
            let before = restart.status.clone().unwrap_or_default();
            let status = restart_progress(&before, Some(&pod), phase, message, self.now);
            // a write that is lost is made again when the node lists the requests anew
            self.write_progress(&object, id, &status);
        }
    }

    /// Writes how a restart goes.
    pub(super) fn report(&mut self, uid: &str, report: RestartReport) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if self.cut_off.contains_key(&pod.node) {
            pod.backlog.reports.push(report);
            return;
        }
        let Some(object) = pod.requests.get_mut(&report.id) else { return };
        let message = report.message.clone();
        object.status =
            restart_progress(&object.status, Some(uid), report.phase, message, report.at);
        let (id, status) = (object.id.clone(), object.status.clone());
        if !self.write_progress(&id, &report.id, &status) {
            self.write_later(uid, |backlog| backlog.reports.push(report));
        }
    }

    /// False when it has to be written again.
    fn write_progress(&mut self, id: &ObjectId, uid: &str, status: &PodRestartStatus) -> bool {
        let message = status.message.as_deref().unwrap_or_default();
        self.trace.add(self.now, &format!("{id}: {:?} {message}", status.phase));
        let patch = restart_status_patch(Some(uid), status);
        let fate = self.faults.write_fate();
        let code = match fate {
            WriteFate::Lost => UNAVAILABLE,
            WriteFate::Well | WriteFate::DoneUnsaid | WriteFate::Conflict => {
                self.call(Method::PATCH, &path(id, "/status"), MERGE_PATCH, &patch).0
            }
        };
        code < 500 && fate != WriteFate::DoneUnsaid
    }
}
