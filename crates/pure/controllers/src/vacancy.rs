//! Whether a controller makes another pod in the place of one that is gone, as it stands now: what
//! was scaled down makes none.

use crate::{
    ClusterView, ResourceKind, ViewObject, daemon_set, job, owners, pods, replica_set, stateful_set,
};

/// The place that a pod leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodVacancy<'a> {
    /// The pod's name.
    pub pod_name: &'a str,
    /// Of a DaemonSet: the node, as far as that is known.
    pub node_name: Option<&'a str>,
}

/// Whether another pod is still to be made there. Of what is not known to make pods it may be so.
pub fn is_to_be_filled(
    view: &ClusterView,
    controller: &ViewObject,
    vacancy: PodVacancy<'_>,
) -> bool {
    if owners::is_terminating(controller.meta()) {
        return false;
    }
    let missing = |wanted: i32| {
        let wanted = usize::try_from(wanted).unwrap_or(0);
        let active = view.pods_of(controller.uid()).filter(|pod| pods::is_active(pod));
        active.take(wanted).count() < wanted
    };
    let by_one_of = |kind: ResourceKind| {
        let mut controllers = view.dependents_of(controller.uid(), kind);
        controllers.any(|controller| is_to_be_filled(view, controller, vacancy))
    };
    match controller {
        ViewObject::Deployment(deployment) => {
            let wanted = deployment.spec.replicas.unwrap_or(1);
            let sets = view.replica_sets_of(controller.uid());
            let pods =
                sets.flat_map(|set| view.pods_of(set.metadata.uid.as_deref().unwrap_or_default()));
            let active = pods.filter(|pod| pods::is_active(pod)).count();
            active < usize::try_from(wanted).unwrap_or(0) || by_one_of(ResourceKind::ReplicaSet)
        }
        ViewObject::CronJob(_) => by_one_of(ResourceKind::Job),
        ViewObject::ReplicaSet(set) => missing(replica_set::wanted(set)),
        ViewObject::ReplicationController(set) => {
            missing(set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1))
        }
        ViewObject::StatefulSet(set) => stateful_set::wants(set, vacancy.pod_name),
        ViewObject::DaemonSet(set) => {
            let node = vacancy.node_name.and_then(|name| view.node(name));
            node.is_some_and(|node| daemon_set::wants(set, node))
        }
        ViewObject::Job(job) => job::wanted(job).is_none_or(missing),
        _ => true,
    }
}
