//! What a world looks like at the end: whether it has come to rest as it was asked for, and whether it counted right.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::Endpoint;
use rekindle_controllers::{Kind, NamespacedName, Object, avoidance, owners};
use rekindle_operator::kinds;
use rekindle_types::pods::{is_finished, is_ready};
use rekindle_types::v1alpha1::{ReplacementStep, Rung};
use rekindle_types::{Tick, TickDuration, labels};

use super::World;
use super::rest::unsettled;
use crate::agent::Tally;

/// What belongs to a run of a CronJob has this long to come to its end: runs begin whenever the clocks say so.
const RUN: TickDuration = TickDuration::from_secs(5 * 60);
/// The CronJobs of campaigns have a run every seven minutes.
const CRON_PERIOD: TickDuration = TickDuration::from_secs(8 * 60);
/// The label that leads from an EndpointSlice to its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

impl World {
    /// What is not as it was asked for.
    pub fn unsettled(&self) -> Vec<String> {
        let kinds = [
            Kind::Deployment,
            Kind::ReplicaSet,
            Kind::StatefulSet,
            Kind::DaemonSet,
            Kind::Job,
            Kind::Pod,
            Kind::PodRestart,
            Kind::PersistentVolumeClaim,
            Kind::PersistentVolume,
        ];
        let objects = kinds.into_iter().flat_map(|kind| self.server.list(kind));
        let mut all: Vec<String> = objects
            .filter(|object| {
                !self.waits_rightly(object)
                    && !self.has_just_begun(object)
                    && !self.is_stranded(object)
            })
            .filter_map(|object| unsettled(&object).map(|why| format!("{} {why}", object.id())))
            .collect();
        all.extend(self.miscounted_budgets());
        all.extend(self.left_behind());
        all.extend(self.misrouted());
        all.extend(self.late_cron_jobs());
        all.extend(self.at_odds_with_nodes());
        all.extend(self.miscounted_jobs());
        all
    }

    /// What nodes have of pods, and should not.
    fn at_odds_with_nodes(&self) -> Vec<String> {
        let odd = self.pods.iter().filter_map(|(uid, on_node)| {
            let name = super::name_of(&on_node.pod);
            let Some(pod) =
                self.server.pod(&name).filter(|pod| pod.metadata.uid.as_ref() == Some(uid))
            else {
                return Some(format!("Pod {name} is gone, and {} still has it", on_node.node));
            };
            let count = on_node.sandboxes().count();
            if count > 1 {
                return Some(format!("Pod {name} has {count} sandboxes"));
            }
            if is_finished(&pod)
                && let Some(key) = on_node.running().next()
            {
                return Some(format!("Pod {name} is over, and {} runs", key.name.0));
            }
            let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let dead = containers.find(|container| {
                is_ready(&pod) && !on_node.running().any(|key| key.name.0 == container.name)
            })?;
            Some(format!("Pod {name} is said to be ready, and {} does not run", dead.name))
        });
        odd.collect()
    }

    /// Objects whose owners are all gone: they should have gone with them, or belong to nobody.
    fn left_behind(&self) -> Vec<String> {
        let all: Vec<Object> = kinds().flat_map(|kind| self.server.list(kind)).collect();
        let uids: BTreeSet<&str> = all.iter().map(Object::uid).collect();
        let left = all.iter().filter(|object| {
            let owners = object.meta().owner_references.as_deref().unwrap_or_default();
            !owners.is_empty() && !owners.iter().any(|owner| uids.contains(owner.uid.as_str()))
        });
        left.map(|object| format!("{} is there, and its owners are gone", object.id())).collect()
    }

    /// Services whose EndpointSlices do not lead to their pods.
    fn misrouted(&self) -> Vec<String> {
        let services = self.server.list(Kind::Service).into_iter();
        let wrong = services.filter_map(|object| {
            let Object::Service(service) = &object else { return None };
            let (wanted, found) = (self.addresses_of(service)?, self.routes_of(&object));
            (wanted != found)
                .then(|| format!("{} leads to {found:?}, and should to {wanted:?}", object.id()))
        });
        wrong.collect()
    }

    /// The addresses of the pods that serve it; none when it chooses none.
    fn addresses_of(&self, service: &Service) -> Option<BTreeSet<String>> {
        let spec = service.spec.as_ref()?;
        let selector = spec.selector.as_ref()?;
        let every = spec.publish_not_ready_addresses == Some(true);
        let pods = self.server.pods();
        let addresses = pods.iter().filter_map(|pod| {
            let labels = pod.metadata.labels.as_ref()?;
            let is_meant = selector.iter().all(|(key, value)| labels.get(key) == Some(value))
                && pod.metadata.namespace == service.metadata.namespace
                && (is_ready(pod) || (every && !is_finished(pod)));
            pod.status.as_ref()?.pod_ip.clone().filter(|_| is_meant)
        });
        Some(addresses.collect())
    }

    /// Where its EndpointSlices lead.
    fn routes_of(&self, service: &Object) -> BTreeSet<String> {
        let slices = self.server.list(Kind::EndpointSlice);
        let ours = slices.iter().filter_map(|object| match object {
            Object::EndpointSlice(slice) => Some(slice),
            _ => None,
        });
        let ours = ours.filter(|slice| {
            let labels = slice.metadata.labels.as_ref();
            slice.metadata.namespace.as_ref() == Some(&service.id().name.namespace)
                && labels.and_then(|labels| labels.get(SERVICE_NAME))
                    == Some(&service.id().name.name)
        });
        let serves = |endpoint: &Endpoint| {
            endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true))
        };
        ours.flat_map(|slice| slice.endpoints.iter().flatten())
            .filter(|endpoint| serves(endpoint))
            .flat_map(|endpoint| endpoint.addresses.clone())
            .collect()
    }

    /// CronJobs that have not begun a run for too long.
    fn late_cron_jobs(&self) -> Vec<String> {
        let all = self.server.list(Kind::CronJob);
        let late = all.iter().filter(|object| {
            let Object::CronJob(cron_job) = object else { return false };
            let last = cron_job.status.as_ref().and_then(|s| s.last_schedule_time.as_ref());
            let last = last.map_or(created(object), Tick::from);
            self.desk_now().since(last) > CRON_PERIOD
        });
        late.map(|object| format!("{} has not begun a run for too long", object.id())).collect()
    }

    /// True of what belongs to a run of a CronJob that began a moment ago.
    fn has_just_begun(&self, object: &Object) -> bool {
        let is_new = self.api_now().since(created(object)) < RUN;
        let owner = owners::controller_of(object.meta());
        is_new
            && owner.is_some_and(|owner| match owner.kind.as_str() {
                "CronJob" => true,
                "Job" => {
                    let jobs = self.server.list(Kind::Job);
                    let mut jobs = jobs.iter().filter(|job| job.uid() == owner.uid);
                    jobs.any(|job| {
                        owners::controller_of(job.meta()).is_some_and(|of| of.kind == "CronJob")
                    })
                }
                _ => false,
            })
    }

    /// True of a request that rightly waits: a user made it, and a budget lets the pod not be evicted, or it can be on no other node,
    /// and that stays so without a change by its users. What a ladder has asked for does not wait for ever: its pod is well by now,
    /// or there is room.
    fn waits_rightly(&self, object: &Object) -> bool {
        let Object::PodRestart(restart) = object else { return false };
        let replacement = restart.status.as_ref().and_then(|status| status.replacement.as_ref());
        let is_held = replacement.is_some_and(|replacement| {
            // it is asked for again and again, and this may be such a moment
            matches!(replacement.step, ReplacementStep::Held | ReplacementStep::Evicting)
        });
        if restart.spec.ladder_name.is_some() || !is_held {
            return false;
        }
        let namespace = restart.metadata.namespace.as_deref().unwrap_or_default();
        let name = NamespacedName::new(namespace, restart.spec.pod_name.as_str());
        let Some(pod) = self.server.pod(&name) else { return false };
        let is_bound =
            restart.spec.rung() == Rung::Reschedule && (self.nodes.len() == 1 || has_claim(&pod));
        is_bound || self.is_forbidden(&pod)
    }

    /// Whether a budget lets the pod not be evicted.
    fn is_forbidden(&self, pod: &Pod) -> bool {
        self.server.list(Kind::PodDisruptionBudget).iter().any(|object| {
            let Object::PodDisruptionBudget(budget) = object else { return false };
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let covers = |selector| labels::matches(selector, pod.metadata.labels.as_ref());
            let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed);
            budget.metadata.namespace == pod.metadata.namespace
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
        self.pods.values().map(|pod| pod.starts()).sum()
    }

    /// What was done to all pods that there ever were.
    pub fn tally(&self) -> Tally {
        let mut all = self.tally_gone;
        self.pods.values().for_each(|pod| all += pod.tally);
        all
    }

    /// Each workload: how many of its pods are ready, and what they run. Of nodes that they keep away from how many: which those are
    /// depends on where the pods were, which may be a matter of milliseconds.
    pub fn end_state(&self) -> BTreeMap<String, String> {
        let mut state: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for pod in self.server.pods() {
            let owner = owners::controller_of(&pod.metadata);
            let of = owner.map_or_else(
                || super::id_of_pod(&pod).to_string(),
                |owner| format!("{} {}", owner.kind, owner.name),
            );
            let entry = state.entry(of).or_default();
            entry.0 += usize::from(is_ready(&pod) || is_finished(&pod));
            let annotations = pod.metadata.annotations.iter().flatten();
            let annotations: BTreeMap<&String, String> = annotations
                .map(|(key, value)| match key.as_str() {
                    avoidance::ANNOTATION => (key, format!("{} nodes", count_of(value))),
                    _ => (key, value.clone()),
                })
                .collect();
            entry.1 = format!("{annotations:?}");
        }
        state.into_iter().map(|(of, (ready, what))| (of, format!("{ready} {what}"))).collect()
    }
}

/// How many nodes the annotation names.
fn count_of(avoided: &str) -> usize {
    serde_json::from_str(avoided).map_or(0, |nodes: BTreeMap<String, String>| nodes.len())
}

/// When it was made, as the API's clock had it.
fn created(object: &Object) -> Tick {
    object.meta().creation_timestamp.as_ref().map_or(Tick::ZERO, Tick::from)
}

/// Whether its volume keeps it where it is.
fn has_claim(pod: &Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.into_iter().any(|volume| volume.persistent_volume_claim.is_some())
}
