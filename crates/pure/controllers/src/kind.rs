//! The kinds the controllers know: all that are served, for each can have owners and dependents.
//! Adding one is a variant, a line in the table and, if it is watched whole, an
//! [`Object`](crate::Object) variant.

use std::fmt;

/// One kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// apps/v1 Deployment.
    Deployment,
    /// apps/v1 DaemonSet.
    DaemonSet,
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// v1 ReplicationController.
    ReplicationController,
    /// apps/v1 StatefulSet.
    StatefulSet,
    /// apps/v1 ControllerRevision.
    ControllerRevision,
    /// batch/v1 CronJob.
    CronJob,
    /// batch/v1 Job.
    Job,
    /// v1 Pod.
    Pod,
    /// rekindle.dev/v1alpha1 RestartLadder.
    RestartLadder,
    /// rekindle.dev/v1alpha1 PodRestart.
    PodRestart,
    /// rekindle.dev/v1alpha1 RestartLedger.
    RestartLedger,
    /// policy/v1 PodDisruptionBudget.
    PodDisruptionBudget,
    /// v1 PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// v1 Service.
    Service,
    /// discovery.k8s.io/v1 EndpointSlice.
    EndpointSlice,
    /// v1 Endpoints.
    Endpoints,
    /// v1 ConfigMap.
    ConfigMap,
    /// v1 Secret.
    Secret,
    /// v1 ServiceAccount.
    ServiceAccount,
    /// rbac.authorization.k8s.io/v1 RoleBinding.
    RoleBinding,
    /// rbac.authorization.k8s.io/v1 Role.
    Role,
    /// coordination.k8s.io/v1 Lease.
    Lease,
    /// v1 Event.
    Event,
    /// v1 PersistentVolume.
    PersistentVolume,
    /// storage.k8s.io/v1 StorageClass.
    StorageClass,
    /// v1 Node.
    Node,
    /// v1 Namespace.
    Namespace,
    /// scheduling.k8s.io/v1 PriorityClass.
    PriorityClass,
    /// rbac.authorization.k8s.io/v1 ClusterRoleBinding.
    ClusterRoleBinding,
    /// rbac.authorization.k8s.io/v1 ClusterRole.
    ClusterRole,
}

/// The names of a kind, and how much of it is watched.
#[derive(Clone, Copy, Debug)]
pub struct KindInfo {
    /// `kind` as objects carry it.
    pub kind: &'static str,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The path segment.
    pub plural: &'static str,
    /// Whether it lives in a namespace.
    pub scope: Scope,
    /// How much of it the view holds.
    pub held: Held,
}

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In none.
    Cluster,
}

/// How much of a kind's objects the view holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The whole object.
    Whole,
    /// Its metadata: enough for garbage collection and namespace deletion.
    Metadata,
    /// Nothing: it is not watched.
    Nothing,
}

impl Kind {
    /// Every kind, in the order in which a namespace is emptied: owners before what they own, so
    /// that nothing is re-created meanwhile.
    pub const ALL: [Kind; 31] = [
        Kind::Deployment,
        Kind::DaemonSet,
        Kind::ReplicaSet,
        Kind::ReplicationController,
        Kind::StatefulSet,
        Kind::ControllerRevision,
        Kind::CronJob,
        Kind::Job,
        Kind::Pod,
        Kind::RestartLadder,
        Kind::PodRestart,
        Kind::RestartLedger,
        Kind::PodDisruptionBudget,
        Kind::PersistentVolumeClaim,
        Kind::Service,
        Kind::EndpointSlice,
        Kind::Endpoints,
        Kind::ConfigMap,
        Kind::Secret,
        Kind::ServiceAccount,
        Kind::RoleBinding,
        Kind::Role,
        Kind::Lease,
        Kind::Event,
        Kind::PersistentVolume,
        Kind::StorageClass,
        Kind::Node,
        Kind::Namespace,
        Kind::PriorityClass,
        Kind::ClusterRoleBinding,
        Kind::ClusterRole,
    ];

    /// Its names.
    pub const fn info(self) -> KindInfo {
        use Held::{Metadata, Nothing, Whole};
        use Scope::{Cluster, Namespaced};
        match self {
            Kind::Deployment => namespaced("Deployment", "apps", "v1", "deployments", Whole),
            Kind::DaemonSet => namespaced("DaemonSet", "apps", "v1", "daemonsets", Whole),
            Kind::ReplicaSet => namespaced("ReplicaSet", "apps", "v1", "replicasets", Whole),
            Kind::ReplicationController => {
                namespaced("ReplicationController", "", "v1", "replicationcontrollers", Whole)
            }
            Kind::StatefulSet => namespaced("StatefulSet", "apps", "v1", "statefulsets", Whole),
            Kind::ControllerRevision => {
                namespaced("ControllerRevision", "apps", "v1", "controllerrevisions", Whole)
            }
            Kind::CronJob => namespaced("CronJob", "batch", "v1", "cronjobs", Whole),
            Kind::Job => namespaced("Job", "batch", "v1", "jobs", Whole),
            Kind::Pod => namespaced("Pod", "", "v1", "pods", Whole),
            Kind::RestartLadder => ours("RestartLadder", "restartladders"),
            Kind::PodRestart => ours("PodRestart", "podrestarts"),
            Kind::RestartLedger => ours("RestartLedger", "restartledgers"),
            Kind::PodDisruptionBudget => {
                namespaced("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", Whole)
            }
            Kind::PersistentVolumeClaim => {
                namespaced("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", Whole)
            }
            Kind::Service => namespaced("Service", "", "v1", "services", Whole),
            Kind::EndpointSlice => {
                namespaced("EndpointSlice", "discovery.k8s.io", "v1", "endpointslices", Whole)
            }
            Kind::Endpoints => namespaced("Endpoints", "", "v1", "endpoints", Whole),
            Kind::ConfigMap => namespaced("ConfigMap", "", "v1", "configmaps", Metadata),
            Kind::Secret => namespaced("Secret", "", "v1", "secrets", Metadata),
            Kind::ServiceAccount => {
                namespaced("ServiceAccount", "", "v1", "serviceaccounts", Metadata)
            }
            Kind::RoleBinding => rbac("RoleBinding", "rolebindings", Namespaced),
            Kind::Role => rbac("Role", "roles", Namespaced),
            Kind::Lease => namespaced("Lease", "coordination.k8s.io", "v1", "leases", Whole),
            Kind::Event => namespaced("Event", "", "v1", "events", Nothing),
            Kind::PersistentVolume => cluster("PersistentVolume", "persistentvolumes"),
            Kind::StorageClass => {
                KindInfo { group: "storage.k8s.io", ..cluster("StorageClass", "storageclasses") }
            }
            Kind::Node => cluster("Node", "nodes"),
            Kind::Namespace => cluster("Namespace", "namespaces"),
            Kind::PriorityClass => KindInfo {
                group: "scheduling.k8s.io",
                held: Metadata,
                ..cluster("PriorityClass", "priorityclasses")
            },
            Kind::ClusterRoleBinding => rbac("ClusterRoleBinding", "clusterrolebindings", Cluster),
            Kind::ClusterRole => rbac("ClusterRole", "clusterroles", Cluster),
        }
    }

    /// `v1`, `apps/v1`, …
    pub fn api_version(self) -> String {
        let info = self.info();
        if info.group.is_empty() {
            info.version.to_owned()
        } else {
            format!("{}/{}", info.group, info.version)
        }
    }

    /// The kind that an owner reference names. The version does not matter: it is the same object
    /// in each.
    pub fn of_reference(api_version: &str, kind: &str) -> Option<Kind> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Kind::ALL.into_iter().find(|k| k.info().kind == kind && k.info().group == group)
    }
}

const fn namespaced(
    kind: &'static str,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    held: Held,
) -> KindInfo {
    KindInfo { kind, group, version, plural, scope: Scope::Namespaced, held }
}

const fn ours(kind: &'static str, plural: &'static str) -> KindInfo {
    use rekindle_types::v1alpha1::{GROUP, VERSION};
    namespaced(kind, GROUP, VERSION, plural, Held::Whole)
}

const fn rbac(kind: &'static str, plural: &'static str, scope: Scope) -> KindInfo {
    KindInfo {
        scope,
        ..namespaced(kind, "rbac.authorization.k8s.io", "v1", plural, Held::Metadata)
    }
}

const fn cluster(kind: &'static str, plural: &'static str) -> KindInfo {
    KindInfo { kind, group: "", version: "v1", plural, scope: Scope::Cluster, held: Held::Whole }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_reference_is_resolved_by_group_and_kind_whatever_the_version() {
        assert_eq!(Kind::of_reference("apps/v1", "ReplicaSet"), Some(Kind::ReplicaSet));
        assert_eq!(Kind::of_reference("apps/v1beta2", "ReplicaSet"), Some(Kind::ReplicaSet));
        assert_eq!(Kind::of_reference("v1", "Pod"), Some(Kind::Pod));
        assert_eq!(Kind::of_reference("apps/v1", "Pod"), None);
        assert_eq!(Kind::of_reference("example.com/v1", "Widget"), None);
    }
}
