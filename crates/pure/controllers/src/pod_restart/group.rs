//! Groups: PodRestarts with a selector, which restart their pods as one.
//!
//! ```text
//!  (new) -- members fixed --> Gathering -- each has its request --> Stopping
//!                                 |          all have stopped --> Starting
//!                                 +-- to be replaced -----------> Starting
//! ```
//! Each member has a PodRestart of its own, which its node carries out. Nodes wait for the stage:
//! they stop nothing before Stopping and start nothing again before Starting, or the end of the
//! group. So all members have stopped before any starts, whoever dies between two writes.
//!
//! From Stopping on no member's request is made again: it may have been carried out. A member that
//! drops out, because its pod is deleted or its node refuses, holds nobody: the others go on, and
//! the group ends as Failed. So it does when the deadline passes before all have stopped. What had
//! stopped is started again by the same write.
//!
//! Members that are replaced (Recreate, Reschedule) are evicted together, each as its budget
//! allows. What makes a new pod waits for no group, so there is no barrier.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::held::HeldPod;
use rekindle_types::name_stem::name_stem;
use rekindle_types::spared_pods::RESTART_INCLUDES_ANNOTATION;
use rekindle_types::v1alpha1::{
    CarriedOutBy, GROUP_MEMBERS_MAX, GroupRestart, GroupRestartMember, GroupRestartStage,
    MemberTurn, PodRestart, PodRestartPhase, PodRestartSpec, is_rung_of_groups,
};
use rekindle_types::validation::selector;
use rekindle_types::{Tick, TickDuration, labels};

use super::{GRACE_DEFAULT, finish, is_finished, refuse};
use crate::plan::{NewObject, PlannedWrite, WriteOperation};
use crate::{
    ClusterView, ControllerKey, NamespacedName, ObjectId, ResourceKind, ViewObject, WritePlan,
    owners, pods,
};

/// Bytes of the group's name in the name of a member's request: its number follows.
const STEM_BYTES_MAX: usize = 200;

/// How much longer a member has than its group: what starts again at the group's deadline has this
/// time, and a node that hears nothing of the group lets its pod start then.
const MEMBER_GRACE: TickDuration = TickDuration::from_secs(60);

/// Pods that a message names.
const NAMED_MAX: usize = 5;

/// The requests that a change of a request concerns beside itself: its group, or its members.
pub(super) fn affected(
    view: &ClusterView,
    restart: &PodRestart,
    keys: &mut BTreeSet<ControllerKey>,
) {
    let namespace = namespace_of(restart);
    if let Some(group) = &restart.spec.member_of {
        keys.insert(ControllerKey::PodRestart(NamespacedName::new(namespace, group.as_str())));
    }
    if restart.is_of_group() {
        let all = view.in_namespace(ResourceKind::PodRestart, namespace);
        keys.extend(all.filter_map(|object| match object {
            ViewObject::PodRestart(request) if request.spec.member_of == restart.metadata.name => {
                Some(ControllerKey::PodRestart(object.id().name))
            }
            _ => None,
        }));
    }
}

/// What is to be done for a group that is not over.
pub(super) fn reconcile(view: &ClusterView, restart: &Arc<PodRestart>, now: Tick) -> WritePlan {
    let mut plan = WritePlan::default();
    let Some(group) = restart.group() else {
        plan.then(take_up(view, restart, now));
        return plan;
    };
    let situation = GroupSituation { view, restart, now, seen: members_now(view, group) };
    match group.stage {
        GroupRestartStage::Gathering => situation.gather(&mut plan),
        GroupRestartStage::Stopping => situation.await_stop(&mut plan),
        GroupRestartStage::Starting => situation.await_start(&mut plan),
    }
    plan
}

/// The refusal of a request that says that it is a member's and is none; no group would ever let
/// its pod start.
pub(super) fn refuse_stray(
    view: &ClusterView,
    restart: &Arc<PodRestart>,
    now: Tick,
    plan: &mut WritePlan,
) -> bool {
    let Some(group) = &restart.spec.member_of else { return false };
    let name = NamespacedName::new(namespace_of(restart), group.as_str());
    let uid = restart.metadata.uid.as_deref().unwrap_or_default();
    let why = match view.pod_restart(&name) {
        None => {
            let id = ObjectId::new(ResourceKind::PodRestart, name);
            plan.then(WriteOperation::CheckAbsent { id, uid: None });
            format!("spec.memberOf: there is no podrestart {group}")
        }
        Some(other) if !other.is_of_group() => {
            format!("spec.memberOf: podrestart {group} has no selector")
        }
        Some(other) if is_finished(other) => format!("group {group} is over"),
        Some(other) => match other.group().map(|group| group.stage) {
            None | Some(GroupRestartStage::Gathering) => return false,
            Some(GroupRestartStage::Stopping | GroupRestartStage::Starting) => {
                if other.member(uid).is_some() {
                    return false;
                }
                format!("spec.memberOf: group {group} has no such member")
            }
        },
    };
    plan.then(refuse(restart, why, now));
    true
}

/// Whether a member that is to be replaced has to wait: its group is not complete.
pub(super) fn holds_back(view: &ClusterView, restart: &PodRestart) -> bool {
    let group = restart.spec.member_of.as_deref();
    let group = group.map(|group| NamespacedName::new(namespace_of(restart), group));
    let group = group.and_then(|name| view.pod_restart(&name));
    match restart.member_turn(group.map(Arc::as_ref)) {
        MemberTurn::Wait => true,
        MemberTurn::Stop | MemberTurn::Start => false,
    }
}

/// Whether the group of a member's request goes on: it still has to read what became of it.
pub(super) fn is_read_by_group(view: &ClusterView, restart: &PodRestart) -> bool {
    let group = restart.spec.member_of.as_deref();
    let group = group.map(|group| NamespacedName::new(namespace_of(restart), group));
    let group = group.and_then(|name| view.pod_restart(&name));
    group.is_some_and(|group| !is_finished(group))
}

/// Fixes the members, or says why there is no group.
fn take_up(view: &ClusterView, restart: &Arc<PodRestart>, now: Tick) -> WriteOperation {
    let members = match members_of(view, restart) {
        Ok(members) => members,
        Err(why) => return refuse(restart, why, now),
    };
    if let Some(why) = overlap(view, restart, &members) {
        return refuse(restart, why, now);
    }
    let count = members.iter().filter(|member| member.request_name.is_some()).count();
    let group = GroupRestart { stage: GroupRestartStage::Gathering, members };
    go_on(restart, group, format!("gathering {}", counted(count)), now)
}

/// The pods that the selector matches now.
fn members_of(view: &ClusterView, restart: &PodRestart) -> Result<Vec<GroupRestartMember>, String> {
    let rung = restart.spec.rung();
    if !is_rung_of_groups(rung) {
        return Err(format!(
            "spec.rung: no group restarts as one on rung {rung}: ask for Containers, Pod, Recreate or Reschedule"
        ));
    }
    let Some(wanted) = restart.spec.selector.as_ref().filter(|wanted| !labels::is_empty(wanted))
    else {
        return Err("spec.selector is empty: a group must say which pods it is for".to_owned());
    };
    let selected: Vec<&HeldPod> = selected_pods(view, restart).collect();
    let shown = selector::format(wanted);
    match selected.len() {
        0 => return Err(format!("no pod has the labels {shown}")),
        count if count > GROUP_MEMBERS_MAX => {
            return Err(format!(
                "{count} pods have the labels {shown}: a group has at most {GROUP_MEMBERS_MAX}"
            ));
        }
        _ => {}
    }
    let stem = name_stem(restart.metadata.name.as_deref().unwrap_or_default(), STEM_BYTES_MAX);
    let members = selected.into_iter().enumerate().map(|(number, pod)| member(stem, number, pod));
    let members: Vec<GroupRestartMember> = members.collect();
    if members.iter().all(|member| member.request_name.is_none()) {
        let told = members.iter().map(told_of).collect();
        return Err(format!("no pod with the labels {shown} can be restarted: {}", listed(told)));
    }
    Ok(members)
}

/// The pods that the selector of a group matches now, by name.
pub fn selected_pods<'a>(
    view: &'a ClusterView,
    restart: &'a PodRestart,
) -> impl Iterator<Item = &'a HeldPod> {
    let wanted = restart.spec.selector.as_ref();
    let pods = view.in_namespace(ResourceKind::Pod, namespace_of(restart));
    let pods = pods.filter_map(|object| match object {
        ViewObject::Pod(pod) => Some(pod.as_ref()),
        _ => None,
    });
    pods.filter(move |pod| {
        wanted.is_some_and(|wanted| labels::matches(wanted, pod.metadata.labels.as_ref()))
            && is_of_workload(view, restart, pod)
    })
}

/// Whether a selected pod belongs to the workload that the request names, if it names one.
fn is_of_workload(view: &ClusterView, restart: &PodRestart, pod: &HeldPod) -> bool {
    let Some(workload) = &restart.spec.workload else { return true };
    let root = owners::root_of(view, &pod.metadata).map(|root| root.uid.as_str());
    root == workload.uid.as_deref()
}

/// A pod of the group, or one that the selector matches and that is left out.
fn member(stem: &str, number: usize, pod: &HeldPod) -> GroupRestartMember {
    let left_out = if pods::is_terminating(pod) {
        Some("it is being deleted")
    } else if pods::is_finished(pod) {
        Some("it has ended")
    } else if pods::node(pod).is_none() {
        Some("it is not on a node yet")
    } else {
        None
    };
    GroupRestartMember {
        pod_name: pod.metadata.name.clone().unwrap_or_default(),
        pod_uid: pod.metadata.uid.clone().unwrap_or_default(),
        request_name: left_out.is_none().then(|| format!("{stem}-{number}")),
        request_uid: None,
        phase: left_out.map(|_| PodRestartPhase::Refused),
        stopped_at: None,
        message: left_out.map(|why| format!("left out: {why}")),
    }
}

/// Why a group cannot go on because of another one that has a pod of its. Of two that gather at
/// the same time the one goes on that was written first: the other sees it for certain.
fn overlap(
    view: &ClusterView,
    restart: &PodRestart,
    members: &[GroupRestartMember],
) -> Option<String> {
    let own: BTreeSet<&str> = members
        .iter()
        .filter(|member| member.request_name.is_some())
        .map(|member| member.pod_uid.as_str())
        .collect();
    let all = view.in_namespace(ResourceKind::PodRestart, namespace_of(restart));
    { all }.find_map(|object| {
        let ViewObject::PodRestart(other) = object else { return None };
        let group = other.group()?;
        if other.metadata.uid == restart.metadata.uid || is_finished(other) {
            return None;
        }
        let goes_first = match (group.stage, restart.group()) {
            (GroupRestartStage::Gathering, Some(_)) => written_at(other) < written_at(restart),
            (GroupRestartStage::Gathering, None)
            | (GroupRestartStage::Stopping | GroupRestartStage::Starting, _) => true,
        };
        let members = group.members.iter().filter(|member| member.request_name.is_some());
        let shared = { members }.find(|member| own.contains(member.pod_uid.as_str()))?;
        goes_first.then(|| {
            let name = other.metadata.name.as_deref().unwrap_or_default();
            format!("pod {} is a member of group {name}, which is not over", shared.pod_name)
        })
    })
}

/// The order of writes, which the server's versions tell.
fn written_at(restart: &PodRestart) -> (u64, Option<&str>) {
    let version = restart.metadata.resource_version.as_deref();
    let version = version.and_then(|version| version.parse().ok());
    (version.unwrap_or(u64::MAX), restart.metadata.name.as_deref())
}

/// The members as their requests say they are.
fn members_now(view: &ClusterView, group: &GroupRestart) -> Vec<GroupRestartMember> {
    let mut members = group.members.clone();
    for member in &mut members {
        let Some(uid) = member.request_uid.clone() else { continue };
        match view.by_uid(&uid) {
            Some(ViewObject::PodRestart(request)) => {
                let status = request.status.clone().unwrap_or_default();
                member.stopped_at = status.stopped_at;
                member.tell(status.phase, status.message.unwrap_or_default());
            }
            Some(_) | None if !is_over(member) => {
                let message = "its request was deleted".to_owned();
                member.tell(Some(PodRestartPhase::Failed), message);
            }
            Some(_) | None => {}
        }
    }
    members
}

/// A group, and its members as they are now.
struct GroupSituation<'a> {
    view: &'a ClusterView,
    restart: &'a Arc<PodRestart>,
    now: Tick,
    seen: Vec<GroupRestartMember>,
}

impl GroupSituation<'_> {
    /// Makes the requests of the members; when all are there, the members stop.
    fn gather(self, plan: &mut WritePlan) {
        let limit = self.limit();
        if let Some(why) = overlap(self.view, self.restart, &self.seen) {
            return self.give_up(plan, PodRestartPhase::Refused, why);
        }
        if self.due() <= self.now {
            let limit = rekindle_types::span::show(limit);
            let why = format!("its deadline of {limit} passed before anything was stopped");
            return self.give_up(plan, PodRestartPhase::Failed, why);
        }
        plan.look_again(self.due());
        let mut members = self.seen.clone();
        let mut missing: Vec<PlannedWrite> = Vec::new();
        for member in &mut members {
            let Some(name) = &member.request_name else { continue };
            let name = NamespacedName::new(namespace_of(self.restart), name.as_str());
            match self.view.pod_restart(&name) {
                Some(request) if self.is_own(request) => {
                    member.request_uid = request.metadata.uid.clone();
                }
                Some(_) => {
                    let why = format!(
                        "podrestart {} is there already, and is not of this group: give the group another name",
                        name.name
                    );
                    return self.give_up(plan, PodRestartPhase::Refused, why);
                }
                None => missing.push(self.creation(member, limit).into()),
            }
        }
        if missing.is_empty() {
            let count = members.iter().filter(|member| member.request_uid.is_some()).count();
            let (stage, doing) = match self.restart.spec.rung().carried_out_by() {
                CarriedOutBy::Node => (GroupRestartStage::Stopping, "stopping"),
                CarriedOutBy::Operator => (GroupRestartStage::Starting, "replacing"),
            };
            let group = GroupRestart { stage, members };
            let message = format!("{doing} {}", counted(count));
            plan.then(go_on(self.restart, group, message, self.now));
        } else {
            plan.then_all(missing);
        }
    }

    /// The members start when all have stopped, but for those that dropped out.
    fn await_stop(self, plan: &mut WritePlan) {
        let waits = |member: &&GroupRestartMember| {
            member.request_uid.is_some() && !is_over(member) && member.stopped_at.is_none()
        };
        let waiting: Vec<&GroupRestartMember> = self.seen.iter().filter(waits).collect();
        let stopped = self.seen.iter().filter(|m| m.stopped_at.is_some() && !is_over(m)).count();
        if waiting.is_empty() && stopped == 0 {
            return self.end(plan);
        }
        if waiting.is_empty() {
            let message = format!("{} stopped, starting", counted(stopped));
            let group = GroupRestart { stage: GroupRestartStage::Starting, members: self.seen };
            return plan.then(go_on(self.restart, group, message, self.now));
        }
        if self.due() > self.now {
            return plan.look_again(self.due());
        }
        let limit = rekindle_types::span::show(self.limit());
        let name = self.restart.metadata.name.as_deref().unwrap_or_default();
        let own = format!("not stopped within the deadline of {limit} of group {name}");
        let names = listed(waiting.iter().map(|member| member.pod_name.clone()).collect());
        let late: BTreeSet<String> =
            waiting.iter().filter_map(|member| member.request_uid.clone()).collect();
        plan.then_all(self.ends_of(&late, PodRestartPhase::Failed, &own));
        let mut members = self.seen.clone();
        for member in &mut members {
            if member.request_uid.as_ref().is_some_and(|uid| late.contains(uid)) {
                member.tell(Some(PodRestartPhase::Failed), own.clone());
            }
        }
        let message = format!(
            "{names} had not stopped within the deadline of {limit}; {} that had stopped started again",
            counted(stopped)
        );
        self.finish_with(plan, members, PodRestartPhase::Failed, message);
    }

    /// The group is over when all its members are.
    fn await_start(self, plan: &mut WritePlan) {
        let is_open = |member: &&GroupRestartMember| !is_over(member);
        let open: Vec<String> =
            self.seen.iter().filter(is_open).map(|member| member.pod_name.clone()).collect();
        if open.is_empty() {
            return self.end(plan);
        }
        if self.due() > self.now {
            return plan.look_again(self.due());
        }
        let limit = rekindle_types::span::show(self.limit());
        let message = format!(
            "{} not running within its deadline of {limit}; what was begun goes on",
            listed(open)
        );
        plan.then_all(self.ends_of(&self.unbegun(), PodRestartPhase::Failed, &message));
        let members = self.seen.clone();
        self.finish_with(plan, members, PodRestartPhase::Failed, message);
    }

    /// The requests of members to be replaced that a budget has held back until now.
    fn unbegun(&self) -> BTreeSet<String> {
        let uids = self.seen.iter().filter_map(|member| member.request_uid.clone());
        let is_unbegun = |uid: &String| match self.view.by_uid(uid) {
            Some(ViewObject::PodRestart(request)) => {
                let started = request.status.as_ref().and_then(|s| s.started_at.as_ref());
                request.carried_out_by() == CarriedOutBy::Operator && started.is_none()
            }
            Some(_) | None => false,
        };
        uids.filter(is_unbegun).collect()
    }

    /// Says how it ended: all members are over.
    fn end(self, plan: &mut WritePlan) {
        let asked = self.seen.iter().filter(|member| member.request_name.is_some());
        let (done, others): (Vec<_>, Vec<_>) =
            asked.partition(|member| member.phase == Some(PodRestartPhase::Succeeded));
        let left_out = self.seen.len() - done.len() - others.len();
        let (phase, mut message) = if others.is_empty() {
            let what = match self.restart.spec.rung().carried_out_by() {
                CarriedOutBy::Node => "running again, after all had stopped",
                CarriedOutBy::Operator => "replaced",
            };
            (PodRestartPhase::Succeeded, format!("{} {what}", counted(done.len())))
        } else {
            let told = listed(others.iter().map(|member| told_of(member)).collect());
            let is_untouched = done.is_empty()
                && others.iter().all(|member| member.phase == Some(PodRestartPhase::Refused));
            let phase =
                if is_untouched { PodRestartPhase::Refused } else { PodRestartPhase::Failed };
            (
                phase,
                format!(
                    "{} of {} restarted; {told}",
                    done.len(),
                    counted(done.len() + others.len())
                ),
            )
        };
        if left_out > 0 {
            message.push_str(&format!("; {} left out", counted(left_out)));
        }
        let members = self.seen.clone();
        self.finish_with(plan, members, phase, message);
    }

    /// Nothing was stopped, and nothing will be.
    fn give_up(self, plan: &mut WritePlan, phase: PodRestartPhase, why: String) {
        let made = self.seen.iter().filter_map(|member| {
            let name =
                NamespacedName::new(namespace_of(self.restart), member.request_name.as_deref()?);
            let request = self.view.pod_restart(&name)?;
            self.is_own(request).then(|| request.metadata.uid.clone())?
        });
        let made: BTreeSet<String> = made.collect();
        // the group first: from then on no node begins a member
        plan.then(finish(self.restart, phase, why.clone(), self.now));
        plan.then_all(self.ends_of(&made, PodRestartPhase::Refused, &why));
    }

    fn finish_with(
        &self,
        plan: &mut WritePlan,
        members: Vec<GroupRestartMember>,
        phase: PodRestartPhase,
        message: String,
    ) {
        let mut restart = PodRestart::clone(self.restart);
        let group = GroupRestart { stage: GroupRestartStage::Starting, members };
        restart.status.get_or_insert_default().group = Some(group);
        plan.then(finish(&restart, phase, message, self.now));
    }

    /// The ends of members' requests that are not over.
    fn ends_of(
        &self,
        uids: &BTreeSet<String>,
        phase: PodRestartPhase,
        why: &str,
    ) -> Vec<PlannedWrite> {
        let requests = uids.iter().filter_map(|uid| match self.view.by_uid(uid)? {
            ViewObject::PodRestart(request) if !is_finished(request) => {
                Some(finish(request, phase, why.to_owned(), self.now).into())
            }
            _ => None,
        });
        requests.collect()
    }

    fn is_own(&self, request: &PodRestart) -> bool {
        let uid = self.restart.metadata.uid.as_deref();
        owners::references(&request.metadata).iter().any(|owner| Some(owner.uid.as_str()) == uid)
    }

    fn creation(&self, member: &GroupRestartMember, limit: TickDuration) -> WriteOperation {
        let (group, spec) = (&self.restart.metadata, &self.restart.spec);
        // what the group names, each of its pods may be
        let named = group.annotations.as_ref().and_then(|all| all.get(RESTART_INCLUDES_ANNOTATION));
        let named = named.map(|words| (RESTART_INCLUDES_ANNOTATION.to_owned(), words.clone()));
        let seconds = (limit + MEMBER_GRACE).as_micros().div_ceil(1_000_000);
        WriteOperation::Create(NewObject::from(PodRestart {
            metadata: ObjectMeta {
                name: member.request_name.clone(),
                namespace: group.namespace.clone(),
                annotations: named.map(|entry| BTreeMap::from([entry])),
                owner_references: Some(vec![owners::controller_reference(
                    ResourceKind::PodRestart,
                    group,
                )]),
                ..ObjectMeta::default()
            },
            spec: PodRestartSpec {
                pod_name: member.pod_name.clone(),
                pod_uid: Some(member.pod_uid.clone()),
                member_of: group.name.clone(),
                rung: spec.rung,
                empty_dirs: spec.empty_dirs,
                reason: spec.reason.clone(),
                grace_period_seconds: spec.grace_period_seconds,
                fast: spec.fast,
                avoid_node_for: spec.avoid_node_for.clone(),
                deadline_seconds: Some(i64::try_from(seconds).unwrap_or(i64::from(i32::MAX))),
                ttl_seconds_after_finished: spec.ttl_seconds_after_finished,
                ..PodRestartSpec::default()
            },
            ..PodRestart::default()
        }))
    }

    /// How long the whole may take: the longest grace of a member counts.
    fn limit(&self) -> TickDuration {
        let graces = self.seen.iter().map(|member| {
            let name = NamespacedName::new(namespace_of(self.restart), member.pod_name.as_str());
            let pod = self.view.pod(&name).and_then(|pod| pod.spec.as_ref());
            let seconds = pod.and_then(|spec| spec.termination_grace_period_seconds);
            seconds.map_or(GRACE_DEFAULT, TickDuration::of_field)
        });
        let longest = graces.max().unwrap_or(GRACE_DEFAULT);
        self.restart.in_place_limit(longest)
    }

    fn due(&self) -> Tick {
        let created = self.restart.metadata.creation_timestamp.as_ref();
        created.map_or(self.now, Tick::from) + self.limit()
    }
}

/// Whether nothing more happens to a member.
fn is_over(member: &GroupRestartMember) -> bool {
    member.phase.is_some_and(PodRestartPhase::is_final)
}

/// The group at its next stage.
fn go_on(restart: &PodRestart, group: GroupRestart, message: String, now: Tick) -> WriteOperation {
    let mut restart = restart.clone();
    let status = restart.status.get_or_insert_default();
    status.go_on(PodRestartPhase::Running, message, now.to_micro_time());
    match group.stage {
        GroupRestartStage::Gathering => {}
        GroupRestartStage::Stopping | GroupRestartStage::Starting => {
            status.started_at.get_or_insert_with(|| now.to_time());
        }
    }
    status.group = Some(group);
    WriteOperation::UpdateStatus(restart.into())
}

fn namespace_of(restart: &PodRestart) -> &str {
    restart.metadata.namespace.as_deref().unwrap_or_default()
}

/// `pod web-0: it has ended`.
fn told_of(member: &GroupRestartMember) -> String {
    let message = member.message.as_deref().unwrap_or("nothing was done");
    format!("pod {}: {message}", member.pod_name)
}

fn counted(pods: usize) -> String {
    if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") }
}

/// The first of them, and how many more there are.
fn listed(mut texts: Vec<String>) -> String {
    let surplus = texts.len().saturating_sub(NAMED_MAX);
    texts.truncate(NAMED_MAX);
    let first = texts.join(", ");
    if surplus == 0 { first } else { format!("{first} and {surplus} more") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view(pods: usize) -> ClusterView {
        let mut view = ClusterView::new();
        for number in 0..pods {
            let name = format!("worker-{number}");
            let pod: HeldPod = serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"job": "train"}},
                "spec": {"nodeName": "n", "containers": []},
            }))
            .unwrap();
            view.apply(pod.into());
        }
        view
    }

    #[test]
    fn a_group_has_a_limited_number_of_members_and_is_not_cut_to_it() {
        let group: PodRestart = serde_json::from_value(json!({
            "metadata": {"name": "again", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"job": "train"}}},
        }))
        .unwrap();
        let members = members_of(&view(GROUP_MEMBERS_MAX), &group).unwrap();
        assert_eq!(members.len(), GROUP_MEMBERS_MAX);
        let names: BTreeSet<_> = members.iter().map(|member| &member.request_name).collect();
        assert_eq!(names.len(), GROUP_MEMBERS_MAX, "each has a request of its own");
        let refused = members_of(&view(GROUP_MEMBERS_MAX + 1), &group).unwrap_err();
        assert_eq!(refused, "501 pods have the labels job=train: a group has at most 500");
    }
}
