//! What a world looks like at the end: whether it has come to rest as it was asked for, and whether it counted right.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use rekindle_controllers::{Kind, NamespacedName, Object, owners};
use rekindle_types::v1alpha1::ReplacementStep;
use rekindle_types::{labels, local_path};

use super::World;
use crate::agent::Tally;
use crate::availability::is_ready;

impl World {
    /// What is not as it was asked for.
    pub fn unsettled(&self) -> Vec<String> {
        let kinds = [
            Kind::Deployment,
            Kind::StatefulSet,
            Kind::Job,
            Kind::Pod,
            Kind::PodRestart,
            Kind::PersistentVolumeClaim,
            Kind::PersistentVolume,
        ];
        let objects = kinds.into_iter().flat_map(|kind| self.server.list(kind));
        let mut all: Vec<String> = objects
            .filter(|object| !self.waits_for_budget(object))
            .filter_map(|object| unsettled(&object).map(|why| format!("{} {why}", object.id())))
            .collect();
        all.extend(self.miscounted_budgets());
        all.extend(self.pods.values().filter_map(|on_node| {
            let count = on_node.sandboxes().count();
            (count > 1)
                .then(|| format!("Pod {} has {count} sandboxes", super::name_of(&on_node.pod)))
        }));
        all.extend(self.pods.iter().filter_map(|(uid, on_node)| {
            let pod = self.server.pod(&super::name_of(&on_node.pod))?;
            let is_said_to_run = pod.metadata.uid.as_ref() == Some(uid) && is_ready(&pod);
            let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let dead = containers.find(|container| {
                is_said_to_run && !on_node.running().any(|key| key.name.0 == container.name)
            })?;
            Some(format!(
                "Pod {} is said to be ready, and {} does not run",
                super::name_of(&pod),
                dead.name
            ))
        }));
        all
    }

    /// True of a request that rightly waits: a budget lets the pod not be evicted, and will not without a change by its users.
    fn waits_for_budget(&self, object: &Object) -> bool {
        let Object::PodRestart(restart) = object else { return false };
        let replacement = restart.status.as_ref().and_then(|status| status.replacement.as_ref());
        if replacement.is_none_or(|replacement| replacement.step != ReplacementStep::Held) {
            return false;
        }
        let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
        let name = NamespacedName::new(namespace, restart.spec.pod_name.as_str());
        let Some(pod) = self.server.pod(&name) else { return false };
        self.server.list(Kind::PodDisruptionBudget).iter().any(|object| {
            let Object::PodDisruptionBudget(budget) = object else { return false };
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let covers = |selector| labels::matches(selector, pod.metadata.labels.as_ref());
            let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed);
            budget.metadata.namespace.as_deref() == Some(namespace)
                && selector.is_some_and(covers)
                && allowed.unwrap_or(0) <= 0
        })
    }

    /// Containers whose `restartCount` is not the number of their starts minus one.
    pub fn miscounted(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (uid, on_node) in &self.pods {
            let Some(pod) = self.server.pod(&super::name_of(&on_node.pod)) else { continue };
            if pod.metadata.uid.as_ref() != Some(uid) {
                continue;
            }
            let statuses = pod.status.iter().flat_map(|status| {
                status.container_statuses.iter().chain(&status.init_container_statuses).flatten()
            });
            for status in statuses.filter(|status| status.started == Some(true)) {
                let (count, starts) = (status.restart_count, on_node.starts_of(&status.name));
                let failed = on_node.failed_starts_of(&status.name);
                if usize::try_from(count).unwrap_or(0) + 1 != starts + failed {
                    wrong.push(format!(
                        "{}: restartCount of {} is {count}, and it was started {starts} times",
                        super::name_of(&pod),
                        status.name,
                    ));
                }
            }
        }
        wrong
    }

    /// How many PersistentVolumes there are.
    pub fn volumes(&self) -> usize {
        self.server.list(Kind::PersistentVolume).len()
    }

    /// How often containers of pods that are still there were started.
    pub fn starts(&self) -> usize {
        self.pods.values().map(crate::agent::PodOnNode::starts).sum()
    }

    /// What was done to all pods that there ever were.
    pub fn tally(&self) -> Tally {
        let mut all = self.tally_gone;
        self.pods.values().for_each(|pod| all += pod.tally);
        all
    }

    /// Each workload: how many of its pods are ready, and what they run.
    pub fn end_state(&self) -> BTreeMap<String, String> {
        let mut state: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for object in self.server.pods() {
            let Object::Pod(pod) = &object else { continue };
            let owner = owners::controller_of(&pod.metadata);
            let of = owner.map_or_else(
                || object.id().to_string(),
                |owner| format!("{} {}", owner.kind, owner.name),
            );
            let entry = state.entry(of).or_default();
            entry.0 += usize::from(is_ready(pod) || is_over(pod));
            entry.1 = format!("{:?}", pod.metadata.annotations);
        }
        state.into_iter().map(|(of, (ready, what))| (of, format!("{ready} {what}"))).collect()
    }
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn unsettled(object: &Object) -> Option<String> {
    match object {
        Object::Deployment(found) => {
            let wanted = found.spec.replicas.unwrap_or(1);
            let status = found.status.as_ref()?;
            let (ready, updated) = (status.ready_replicas, status.updated_replicas);
            let (ready, updated) = (ready.unwrap_or(0), updated.unwrap_or(0));
            let all = status.replicas.unwrap_or(0);
            let is_well = (ready, updated, all) == (wanted, wanted, wanted);
            (!is_well).then(|| {
                format!("wants {wanted} pods, and has {all}, of which {ready} are ready and {updated} of the newest revision")
            })
        }
        Object::StatefulSet(found) => {
            let wanted = found.spec.replicas.unwrap_or(1);
            let ready = found.status.as_ref()?.ready_replicas.unwrap_or(0);
            (ready != wanted).then(|| format!("wants {wanted} pods, and {ready} are ready"))
        }
        Object::Job(job) => {
            let conditions =
                job.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let is_over = conditions.into_iter().any(|condition| {
                matches!(condition.type_.as_str(), "Complete" | "Failed")
                    && condition.status == "True"
            });
            (!is_over).then(|| "is neither complete nor failed".to_owned())
        }
        Object::Pod(pod) if pod.metadata.deletion_timestamp.is_some() => {
            Some("is still being deleted".to_owned())
        }
        Object::Pod(pod) if !is_ready(pod) && !is_over(pod) => Some("is not ready".to_owned()),
        Object::PersistentVolumeClaim(claim) => {
            let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
            (phase != Some("Bound")).then(|| format!("is not bound: {phase:?}"))
        }
        Object::PersistentVolume(volume) => {
            let is_left = local_path::End::of(volume) != local_path::End::NotYet;
            (is_left || volume.metadata.deletion_timestamp.is_some())
                .then(|| "is to go, and is there".to_owned())
        }
        Object::PodRestart(restart) => {
            let phase = restart.status.as_ref().and_then(|status| status.phase);
            let is_final = phase.is_some_and(rekindle_types::v1alpha1::PodRestartPhase::is_final);
            (!is_final).then(|| format!("is not over: {phase:?}"))
        }
        _ => None,
    }
}
