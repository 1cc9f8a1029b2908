//! What a world looks like at the end: whether it has come to rest as it was asked for, and whether
//! it counted right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, Service};
use k8s_openapi::api::discovery::v1::Endpoint;
use rekindle_controllers::{NamespacedName, ResourceKind, ViewObject, avoidance, owners};
use rekindle_reconcile::kinds;
use rekindle_types::pods::{AnyPod, is_finished, is_ready};
use rekindle_types::v1alpha1::{ReplacementStep, Rung};
use rekindle_types::{Tick, TickDuration, labels};

use super::World;
use super::rest::unsettled;
use crate::agent::AgentTally;

/// What belongs to a run of a CronJob has this long to come to its end: runs begin whenever the
/// clocks say so.
const RUN: TickDuration = TickDuration::from_secs(5 * 60);
/// The CronJobs of campaigns have a run every seven minutes.
const CRON_PERIOD: TickDuration = TickDuration::from_secs(8 * 60);

impl World {
    /// What is not as it was asked for.
    pub fn unsettled(&self) -> Vec<String> {
        let kinds = [
            ResourceKind::Deployment,
            ResourceKind::ReplicaSet,
            ResourceKind::StatefulSet,
            ResourceKind::DaemonSet,
            ResourceKind::Job,
            ResourceKind::Pod,
            ResourceKind::PodRestart,
            ResourceKind::PersistentVolumeClaim,
            ResourceKind::PersistentVolume,
        ];
        let objects = kinds.into_iter().flat_map(|kind| self.server.list(kind));
        let mut all: Vec<String> = objects
            .filter(|object| {
                !self.waits_rightly(object)
                    && !self.has_just_begun(object)
                    && !self.is_stranded(object)
                    && !self.waits_for_its_first_pod(object)
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

    /// What nodes have of pods, and should not; and pods that serve, of which their nodes know
    /// nothing.
    fn at_odds_with_nodes(&self) -> Vec<String> {
        let pods = self.server.pods();
        let unknown = pods.iter().filter_map(|pod| {
            let node = pod.node_name().filter(|node| self.nodes.contains(*node))?;
            let is_known = self.pods.contains_key(pod.metadata.uid.as_deref().unwrap_or_default());
            (is_ready(pod) && !is_known).then(|| {
                let name = super::name_of(pod);
                format!("Pod {name} is said to be ready, and {node} does not know it")
            })
        });
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
        unknown.chain(odd).collect()
    }

    /// Objects whose owners are all gone: they should have gone with them, or belong to nobody.
    fn left_behind(&self) -> Vec<String> {
        let all: Vec<ViewObject> = kinds().flat_map(|kind| self.server.list(kind)).collect();
        let uids: BTreeSet<&str> = all.iter().map(ViewObject::uid).collect();
        let left = all.iter().filter(|object| {
            let owners = object.meta().owner_references.as_deref().unwrap_or_default();
            !owners.is_empty() && !owners.iter().any(|owner| uids.contains(owner.uid.as_str()))
        });
        left.map(|object| format!("{} is there, and its owners are gone", object.id())).collect()
    }

    /// Services whose EndpointSlices do not lead to their pods.
    fn misrouted(&self) -> Vec<String> {
        let services = self.server.list(ResourceKind::Service).into_iter();
        let wrong = services.filter_map(|object| {
            let ViewObject::Service(service) = &object else { return None };
            let (wanted, found) = (self.addresses_of(service)?, self.routes_of(&object));
            (wanted != found).then(|| {
                let (found, wanted) = (listed(&found), listed(&wanted));
                format!("{} leads to {found}, and should to {wanted}", object.id())
            })
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
    fn routes_of(&self, service: &ViewObject) -> BTreeSet<String> {
        let slices = self.server.list(ResourceKind::EndpointSlice);
        let ours = slices.iter().filter_map(|object| match object {
            ViewObject::EndpointSlice(slice) => Some(slice),
            _ => None,
        });
        let ours = ours.filter(|slice| {
            let labels = slice.metadata.labels.as_ref();
            slice.metadata.namespace.as_ref() == Some(&service.id().name.namespace)
                && labels.and_then(|labels| labels.get(labels::SERVICE_NAME))
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
        let all = self.server.list(ResourceKind::CronJob);
        let late = all.iter().filter(|object| {
            let ViewObject::CronJob(cron_job) = object else { return false };
            let last = cron_job.status.as_ref().and_then(|s| s.last_schedule_time.as_ref());
            let last = last.map_or(created(object), Tick::from);
            self.desk_now().since(last) > CRON_PERIOD
        });
        late.map(|object| format!("{} has not begun a run for too long", object.id())).collect()
    }

    /// True of what belongs to a run of a CronJob that began a moment ago.
    fn has_just_begun(&self, object: &ViewObject) -> bool {
        let is_new = self.api_now().since(created(object)) < RUN;
        let owner = owners::controller_of(object.meta());
        is_new
            && owner.is_some_and(|owner| match owner.kind.as_str() {
                "CronJob" => true,
                "Job" => {
                    let jobs = self.server.list(ResourceKind::Job);
                    let mut jobs = jobs.iter().filter(|job| job.uid() == owner.uid);
                    jobs.any(|job| {
                        owners::controller_of(job.meta()).is_some_and(|of| of.kind == "CronJob")
                    })
                }
                _ => false,
            })
    }

    /// True of a request that rightly waits: a user made it, and a budget lets the pod not be
    /// evicted, or it can be on no other node, and that stays so without a change by its users.
    /// What a ladder has asked for does not wait for ever: its pod is well by now, or there is
    /// room.
    fn waits_rightly(&self, object: &ViewObject) -> bool {
        let ViewObject::PodRestart(restart) = object else { return false };
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
        let is_bound = restart.spec.rung() == Rung::Reschedule
            && (self.nodes.len() == 1 || has_claim(&pod) || is_for_one_node(&pod));
        is_bound || self.is_forbidden(&pod)
    }

    /// True of a claim that no pod has: it gets its volume where its first one comes to, and a
    /// StatefulSet that was scaled down before that keeps it.
    fn waits_for_its_first_pod(&self, object: &ViewObject) -> bool {
        let ViewObject::PersistentVolumeClaim(claim) = object else { return false };
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let is_named = |pod: &Arc<Pod>| {
            let mut claims = claims_of(pod).map(|named| Some(named.claim_name.as_str()));
            pod.metadata.namespace == claim.metadata.namespace
                && claims.any(|named| named == claim.metadata.name.as_deref())
        };
        phase.is_none_or(|phase| phase == "Pending") && !self.server.pods().iter().any(is_named)
    }

    /// Whether a budget lets the pod not be evicted.
    fn is_forbidden(&self, pod: &Pod) -> bool {
        self.server.list(ResourceKind::PodDisruptionBudget).iter().any(|object| {
            let ViewObject::PodDisruptionBudget(budget) = object else { return false };
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let covers = |selector| labels::matches(selector, pod.metadata.labels.as_ref());
            let allowed = budget.status.as_ref().and_then(|status| status.disruptions_allowed);
            budget.metadata.namespace == pod.metadata.namespace
                && selector.is_some_and(covers)
                && allowed.unwrap_or(0) <= 0
        })
    }

    /// Containers whose `restartCount` is not the number of their starts minus one, whether they
    /// run, wait or have ended.
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
            // one that is over, and that a finalizer keeps, is taken up again after everything of
            // it is gone
            if on_node.starts() == 0 && is_finished(&pod) {
                continue;
            }
            for status in statuses {
                let (count, starts) = (status.restart_count, on_node.starts_of(&status.name));
                let attempts = starts + on_node.failed_starts_of(&status.name);
                if usize::try_from(count).unwrap_or(usize::MAX) != attempts.saturating_sub(1) {
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
        self.server.list(ResourceKind::PersistentVolume).len()
    }

    /// How often containers of pods that are still there were started.
    pub fn starts(&self) -> usize {
        self.pods.values().map(|pod| pod.starts()).sum()
    }

    /// What was done to all pods that there ever were.
    pub fn tally(&self) -> AgentTally {
        let mut all = self.tally_gone;
        self.pods.values().for_each(|pod| all += pod.tally);
        all
    }

    /// What there is, and of each workload and naked pod how its pods are, what they run and how
    /// often that was started again; how Jobs ended. Of nodes that pods keep away from how many:
    /// which those are depends on where the pods were, which may be a matter of milliseconds.
    pub fn end_state(&self) -> BTreeMap<String, String> {
        let mut state: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let kinds = [
            ResourceKind::Deployment,
            ResourceKind::StatefulSet,
            ResourceKind::DaemonSet,
            ResourceKind::Job,
            ResourceKind::PersistentVolumeClaim,
        ];
        for object in kinds.into_iter().flat_map(|kind| self.server.list(kind)) {
            let of_it = state.entry(object.id().to_string()).or_default();
            of_it.extend(end_of_job(&object));
        }
        for pod in self.server.pods() {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let of = owners::controller_of(&pod.metadata).map_or_else(
                || super::id_of_pod(&pod).to_string(),
                |owner| format!("{} {namespace}/{}", owner.kind, owner.name),
            );
            state.entry(of).or_default().push(end_of_pod(&pod));
        }
        let told = state.into_iter().map(|(of, mut all)| {
            all.sort();
            (of, all.join("; "))
        });
        told.collect()
    }
}

/// The conditions of a Job that are true.
fn end_of_job(object: &ViewObject) -> Option<String> {
    let ViewObject::Job(job) = object else { return None };
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let on = conditions.into_iter().filter(|condition| condition.status == "True");
    let on: BTreeSet<&str> = on.map(|condition| condition.type_.as_str()).collect();
    Some(listed(&on))
}

/// How a pod is, what runs in it and how often that was started again, and its annotations.
fn end_of_pod(pod: &Pod) -> String {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let phase = match is_ready(pod) {
        true => "ready",
        false => phase.unwrap_or("Pending"),
    };
    let spec = pod.spec.iter();
    let images: Vec<&str> = spec
        .flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
        .filter_map(|container| container.image.as_deref())
        .collect();
    let statuses = pod.status.iter().flat_map(|status| {
        status.init_container_statuses.iter().chain(&status.container_statuses).flatten()
    });
    let restarts: Vec<String> =
        statuses.map(|status| format!("{} {}", status.name, status.restart_count)).collect();
    let annotations = pod.metadata.annotations.iter().flatten();
    let annotations: Vec<String> = annotations
        .map(|(key, value)| match key.as_str() {
            avoidance::ANNOTATION => format!("{key}={} nodes", count_of(value)),
            _ => format!("{key}={value}"),
        })
        .collect();
    let (images, restarts) = (images.join(", "), restarts.join(", "));
    format!("{phase}, images {images}, restarts {restarts}, {}", annotations.join(", "))
}

/// For people.
fn listed<T: AsRef<str>>(all: &BTreeSet<T>) -> String {
    let all: Vec<&str> = all.iter().map(AsRef::as_ref).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}

/// How many nodes the annotation names.
fn count_of(avoided: &str) -> usize {
    serde_json::from_str(avoided).map_or(0, |nodes: BTreeMap<String, String>| nodes.len())
}

/// When it was made, as the API's clock had it.
fn created(object: &ViewObject) -> Tick {
    object.meta().creation_timestamp.as_ref().map_or(Tick::ZERO, Tick::from)
}

/// Whether it may be on one node only: a DaemonSet made it, which may be gone since.
fn is_for_one_node(pod: &Pod) -> bool {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let of_node = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        of_node.and_then(|of| of.required_during_scheduling_ignored_during_execution.as_ref());
    let mut terms = required.iter().flat_map(|required| &required.node_selector_terms);
    terms.any(|term| term.match_fields.iter().flatten().any(|field| field.key == "metadata.name"))
}

/// Whether its volume keeps it where it is.
fn has_claim(pod: &Pod) -> bool {
    claims_of(pod).next().is_some()
}

/// What its volumes say of claims.
fn claims_of(pod: &Pod) -> impl Iterator<Item = &PersistentVolumeClaimVolumeSource> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref())
}

#[cfg(test)]
mod tests {
    use http::Method;
    use rekindle_controllers::ObjectId;
    use rekindle_pod::PodConfig;
    use serde_json::{Value, json};

    use super::super::{MERGE_PATCH, path};
    use super::*;

    /// A world at rest with a Service, a budget, a Job and a CronJob.
    fn at_rest() -> World {
        let pod = |policy: &str, name: &str| {
            json!({
                "metadata": {"labels": {"app": name}},
                "spec": {"restartPolicy": policy, "containers": [{"name": "app", "image": "app:1"}]},
            })
        };
        let selector = json!({"matchLabels": {"app": "web"}});
        let object = |api: &str, kind: &str, name: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec});
        let job = json!({"template": pod("Never", "job")});
        let cron_job = json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}});
        let ports = json!([{"port": 80}]);
        let mut world = World::new(1, 1, Vec::new(), PodConfig::default()).unwrap();
        world.set_unchosen(crate::behaviour::DefaultBehaviour::EndsWhereItShould);
        for object in [
            object(
                "apps/v1",
                "Deployment",
                "web",
                json!({"selector": selector, "template": pod("Always", "web")}),
            ),
            object("v1", "Service", "web", json!({"selector": {"app": "web"}, "ports": ports})),
            object(
                "policy/v1",
                "PodDisruptionBudget",
                "web",
                json!({"minAvailable": 1, "selector": selector}),
            ),
            object("batch/v1", "Job", "once", job.clone()),
            object("batch/v1", "CronJob", "daily", cron_job),
        ] {
            world.apply(&object).unwrap();
        }
        world.run_until(TickDuration::from_secs(120)).unwrap();
        assert_eq!(world.unsettled(), Vec::<String>::new());
        world
    }

    fn first(world: &World, kind: ResourceKind) -> ObjectId {
        world.server.list(kind)[0].id()
    }

    /// What was right a moment ago is not any more, and no controller has seen it.
    #[test]
    fn what_is_not_as_it_was_asked_for_is_named() {
        let endpoints = json!({"endpoints": []});
        let orphan = json!({"metadata": {"ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "of-nobody",
            "controller": true,
        }]}});
        let long_ago = json!({"status": {"lastScheduleTime": "2025-12-31T00:00:00Z"}});
        let cases = [
            (
                ResourceKind::EndpointSlice,
                "",
                endpoints,
                "Service default/web leads to nothing, and should to 10.",
            ),
            (ResourceKind::ReplicaSet, "", orphan, "is there, and its owners are gone"),
            (
                ResourceKind::CronJob,
                "/status",
                long_ago,
                "CronJob default/daily has not begun a run for too long",
            ),
            (
                ResourceKind::Job,
                "/status",
                json!({"status": {"failed": 7}}),
                "says that 1 pods succeeded and 7 failed, and had 1",
            ),
            (
                ResourceKind::PodDisruptionBudget,
                "/status",
                json!({"status": {"currentHealthy": 7}}),
                "PodDisruptionBudget default/web says that 7 pods are healthy and 0 may be disrupted, and 1 are healthy",
            ),
        ];
        for (kind, subresource, patch, expected) in cases {
            let world = at_rest();
            let path = path(&first(&world, kind), subresource);
            let (code, answer) = world.call(Method::PATCH, &path, MERGE_PATCH, &patch);
            assert_eq!(code, 200, "{answer}");
            let found = world.unsettled();
            assert!(found.iter().any(|found| found.contains(expected)), "{expected}: {found:?}");
        }
    }

    #[test]
    fn a_claim_without_a_pod_waits_for_one_and_one_with_a_pod_is_to_have_its_volume() {
        let mut world = at_rest();
        let resources = json!({"requests": {"storage": "1Gi"}});
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": resources});
        let meta = json!({"name": "data"});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec});
        world.apply(&claim).unwrap();
        world.run_until(TickDuration::from_secs(130)).unwrap();
        assert_eq!(world.unsettled(), Vec::<String>::new());
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        let containers = json!([{"name": "app", "image": "app:1"}]);
        let spec =
            json!({"containers": containers, "volumes": volumes, "nodeSelector": {"no": "node"}});
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
        world.apply(&pod).unwrap();
        world.run_until(TickDuration::from_secs(140)).unwrap();
        let found = world.unsettled();
        let expected = "PersistentVolumeClaim default/data is not bound: Some(\"Pending\")";
        assert!(found.iter().any(|found| found == expected), "{found:?}");
    }

    #[test]
    fn a_pod_that_serves_and_that_its_node_does_not_know_is_named() {
        let mut world = at_rest();
        world.pods.retain(|_, pod| !is_ready(pod.pod.as_ref()));
        let found = world.unsettled();
        assert!(found[0].contains("is said to be ready, and node-0 does not know it"), "{found:?}");
    }

    #[test]
    fn what_has_ended_is_counted_as_well_as_what_runs() {
        let world = at_rest();
        assert_eq!(world.miscounted(), Vec::<String>::new());
        let ended = world.server.pods().into_iter().find(is_finished).unwrap();
        let mut statuses = ended.status.clone().unwrap().container_statuses.unwrap();
        statuses[0].restart_count = 3;
        let patch = json!({"status": {"containerStatuses": statuses}});
        let path = path(&super::super::id_of_pod(&ended), "/status");
        assert_eq!(world.call(Method::PATCH, &path, MERGE_PATCH, &patch).0, 200);
        let found = world.miscounted();
        assert!(
            found[0].contains("restartCount of app is 3, and it was started 1 times"),
            "{found:?}"
        );
    }

    #[test]
    fn a_watch_that_shows_what_it_has_shown_breaks_a_promise() {
        let mut world = at_rest();
        let patch = json!({"metadata": {"labels": {"a": "b"}}});
        let path = path(&first(&world, ResourceKind::Deployment), "");
        world.call(Method::PATCH, &path, MERGE_PATCH, &patch);
        let event = world.watch.try_next().unwrap().unwrap();
        world.see(&event);
        assert_eq!(world.broken_promise(), None);
        world.see(&event);
        let broken = world.broken_promise().unwrap();
        assert!(broken.starts_with("P6: the watch shows revision "), "{broken}");
    }

    #[test]
    fn a_restart_count_that_falls_breaks_a_promise() {
        let mut world = at_rest();
        world.pods.values_mut().for_each(|pod| pod.restarts = 7);
        world.do_at(
            TickDuration::from_secs(130),
            crate::faults::WorldEvent::EndContainer(0, rekindle_types::ExitStatus::OomKilled),
        );
        world.run_until(TickDuration::from_secs(140)).unwrap();
        let broken = world.broken_promise().unwrap();
        assert!(broken.contains("fell from 7 to "), "{broken}");
    }

    #[test]
    fn a_pod_that_should_have_gone_from_a_lost_node_breaks_a_promise() {
        let mut world = World::new(1, 3, Vec::new(), PodConfig::default()).unwrap();
        let containers = json!([{"name": "app", "image": "app:1"}]);
        let spec = json!({"nodeName": "node-0", "containers": containers});
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
        world.apply(&pod).unwrap();
        let node: BTreeSet<String> = ["node-0".to_owned()].into();
        world.cut(&node);
        // the taint comes after some fifty seconds, and what tolerates it not at all has two
        // minutes then
        world.run_until(TickDuration::from_secs(60 + 130)).unwrap();
        let mut pod = world.server.pods()[0].as_ref().clone();
        world.check_overdue("node-0", &[std::sync::Arc::new(pod.clone())]);
        assert_eq!(world.broken_promise(), None);
        pod.spec.iter_mut().for_each(|spec| spec.tolerations = None);
        world.check_overdue("node-0", &[std::sync::Arc::new(pod)]);
        let broken = world.broken_promise().unwrap();
        assert!(broken.contains("bears the taints of node-0 no longer, and is there"), "{broken}");
    }
}
