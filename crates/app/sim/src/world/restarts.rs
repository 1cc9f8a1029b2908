//! PodRestarts that nodes carry out: which pod gets a request, and what is written about it.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use rekindle_pod::{RestartReport, RestartRequest};
use rekindle_pod_driver::{
    KnownGroups, RestartOwners, lost_with_its_pod, reported_progress, restart_progress,
    restart_status_patch,
};
use rekindle_types::PodUid;
use rekindle_types::v1alpha1::{
    CarriedOutBy, GroupRestartMember, GroupRestartStage, MemberTurn, PodRestart, PodRestartPhase,
    PodRestartStatus,
};

use super::nodes::UNAVAILABLE;
use super::{MERGE_PATCH, World, path};
use crate::agent::{RequestObject, SimulatedPod};
use crate::faults::WriteFate;

impl World {
    /// Nodes list the requests anew.
    pub(super) fn resync_restarts(&mut self, nodes: &BTreeSet<String>) {
        let all = self.server.restarts();
        let listed = all.iter().filter_map(|restart| restart.metadata.uid.clone()).collect();
        for node in nodes {
            self.restart_owners.entry(node.clone()).or_default().keep_only(&listed);
        }
        self.groups.list_begins();
        for restart in all.iter().filter(|restart| restart.is_of_group()) {
            self.groups.see(restart.clone());
        }
        self.groups.list_ends();
        for restart in all {
            self.tell_restart(&restart);
        }
    }

    /// A group has changed, or is gone: its members may have to do something else.
    pub(super) fn tell_members(&mut self, group: &PodRestart) {
        let all = self.server.restarts();
        let members = all.iter().filter(|request| KnownGroups::is_member(group, request));
        members.for_each(|member| self.tell_restart(member));
    }

    /// P21: what has stopped for a group does not run before all of it has stopped.
    pub(super) fn check_barrier(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(key) = pod.running().next() else { return };
        let broken = self.groups.all().find_map(|group| {
            let members = holding(group, GroupRestartStage::Stopping)?;
            let member = { members }.find(|member| member.pod_uid == uid)?;
            let request = pod.requests.get(member.request_uid.as_deref()?)?;
            let runs_too_early = match request.status.phase {
                Some(PodRestartPhase::Succeeded) => true,
                Some(PodRestartPhase::Running) | None => request.status.stopped_at.is_some(),
                Some(
                    PodRestartPhase::Failed | PodRestartPhase::Refused | PodRestartPhase::Withdrawn,
                ) => false,
            };
            runs_too_early.then(|| {
                let name = &member.pod_name;
                format!("P21: Pod {name} runs {} before its group has stopped", key.name.0)
            })
        });
        if let Some(broken) = broken {
            self.breaks(&broken);
        }
    }

    /// P21: nothing of a group runs when its members are let go.
    fn check_stopped(&mut self, group: &PodRestart) {
        match group.spec.rung().carried_out_by() {
            CarriedOutBy::Node => {}
            CarriedOutBy::Operator => return, // evicted together, and replaced one by one
        }
        let before = self.groups.all().find(|known| known.metadata.uid == group.metadata.uid);
        if before.is_some_and(|known| holding(known, GroupRestartStage::Starting).is_some()) {
            return;
        }
        let mut members = holding(group, GroupRestartStage::Starting).into_iter().flatten();
        let runs = members.find(|member| {
            self.pods.get(&member.pod_uid).is_some_and(|pod| pod.running().next().is_some())
        });
        if let Some(member) = runs {
            self.breaks(&format!("P21: Pod {} runs when its group starts", member.pod_name));
        }
    }

    /// The nodes see that a request is gone.
    pub(super) fn restart_gone(&mut self, restart: &PodRestart) {
        if restart.is_of_group() {
            self.groups.forget(restart);
            return self.tell_members(restart);
        }
        if restart.spec.member_of.is_some() {
            self.release(restart);
        }
    }

    /// The pod of a member's request may start again.
    fn release(&mut self, restart: &PodRestart) {
        let id = restart.metadata.uid.as_deref().unwrap_or_default();
        let is_its =
            |pod: &SimulatedPod| self.hears(&pod.node) && pod.driver.core().knows_restart(id);
        let found = self.pods.iter().find(|(_, pod)| is_its(pod));
        let Some(uid) = found.map(|(uid, _)| uid.clone()) else { return };
        if let Some(pod) = self.pods.get_mut(&uid) {
            pod.release(self.now, id);
            self.act(&uid);
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
        match restart.carried_out_by() {
            CarriedOutBy::Node => {}
            CarriedOutBy::Operator if restart.is_of_group() => {
                self.check_stopped(restart);
                self.groups.see(Arc::new(restart.clone()));
                return self.tell_members(restart);
            }
            CarriedOutBy::Operator => return,
        }
        if status.phase.is_some_and(PodRestartPhase::is_final) {
            self.release(restart);
            for node in self.hearing_nodes() {
                self.restart_owners.entry(node).or_default().forget(&request.id);
            }
            return;
        }
        let turn = self.groups.turn(restart);
        let is_begun = self.pods.values().any(|pod| pod.driver.core().knows_restart(&request.id));
        match turn {
            MemberTurn::Wait => return,
            MemberTurn::Start if !is_begun => return,
            MemberTurn::Start | MemberTurn::Stop => {}
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
        if turn == MemberTurn::Start {
            self.release(restart);
        }
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
        object.status = reported_progress(&object.status, Some(uid), report.clone());
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

/// The members that a group at this stage goes on with; none when it is at another one, or over.
fn holding(
    group: &PodRestart,
    stage: GroupRestartStage,
) -> Option<impl Iterator<Item = &GroupRestartMember>> {
    let phase = group.status.as_ref().and_then(|status| status.phase);
    let restart = group.group().filter(|restart| restart.stage == stage)?;
    let goes_on =
        |member: &&GroupRestartMember| !member.phase.is_some_and(PodRestartPhase::is_final);
    (phase == Some(PodRestartPhase::Running)).then(|| restart.members.iter().filter(goes_on))
}
